// Copies a batch's arrays to the inputs of a program, and sets its scalars. Names are looked up once, when bound.
#pragma once

#include <vector>

#include "base/philox.h"
#include "data/batch.h"
#include "runtime/program.h"

namespace plimsoll {

class BatchBinding {
 public:
  // The program outlives the binding. `batch` shows the arrays' order and types; every batch of the same capacities
  // fits.
  BatchBinding(const Program& program, const Batch& batch);

  void copy(const Batch& batch) const;
  // d(objective)/d(sum of token losses): 1 / labelled tokens of the effective batch.
  void set_loss_scale(float scale) const;
  void set_dropout_key(PhiloxKey key) const;
  // The update's scalars, where the program has them.
  // `loss_scale`: what the loss was multiplied by; 1 where the program does not unscale.
  void set_update(double learning_rate, std::int64_t step, double max_grad_norm, double loss_scale = 1) const;
  // False in the first micro-batch of an update, where the program accumulates.
  void set_keep_gradients(bool keep) const;
  // The chunk's first sample within the update, where the program is one of GradCache.
  void set_first_sample(std::int64_t sample) const;

 private:
  struct Copy {
    std::size_t tensor;  // index in Batch::tensors()
    DeviceTensor input;
    ValueId row_count;  // kNoValue: not one
    bool is_pixels = false;
  };
  const Program* program_;
  std::vector<Copy> copies_;  // what the program reads of a batch
  // Where pixels become floats on their way to a memory that the host cannot reach.
  mutable std::vector<float> pixels_;
  DeviceTensor loss_scale_, dropout_key_, learning_rate_, step_, max_grad_norm_, unscale_, keep_, first_sample_;
};

}  // namespace plimsoll
