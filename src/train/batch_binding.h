// Copies a batch's arrays to the inputs of a program, and sets its scalars. Names are looked up once, when bound.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/philox.h"
#include "data/batch.h"
#include "runtime/program.h"

namespace plimsoll {

class BatchBinding {
 public:
  // Tokens whose rows of the word embedding are in memory, ascending; nullptr: all (ModelOptions::word_rows).
  using WordRows = std::shared_ptr<const std::vector<std::int32_t>>;

  // The program must outlive the binding. `batch` shows the arrays' order and types; every batch of the same capacities
  // fits. `word_rows` are those of the plan that made the program.
  BatchBinding(const Program& program, const Batch& batch, WordRows word_rows);

  void copy(const Batch& batch) const;
  // Sets d(objective)/d(sum of token losses): 1 / labelled tokens of the effective batch.
  void set_loss_scale(float scale) const;
  // Set the factors of losses that are means over labels and over rows, for a program with a teacher.
  void set_label_loss_scale(float scale) const;
  void set_row_loss_scale(float scale) const;
  void set_dropout_key(PhiloxKey key) const;
  // Sets the update's scalars, if the program has them. `loss_scale` is the factor of the loss; 1 if the program does
  // not unscale.
  void set_update(double learning_rate, std::int64_t step, double max_grad_norm, double loss_scale = 1) const;
  // False in the first micro-batch of an update, for a program that accumulates.
  void set_keep_gradients(bool keep) const;
  // Sets the chunk's first sample within the update, for a program of GradCache.
  void set_first_sample(std::int64_t sample) const;

 private:
  struct Copy {
    std::size_t tensor;  // index in Batch::tensors()
    DeviceTensor input;
    ValueId row_count;  // kNoValue: not one
    bool is_pixels = false, is_tokens = false;
  };
  void copy_tokens(const Batch& batch, const DeviceTensor& input, std::span<const std::int32_t> tokens) const;

  const Program* program_;
  std::vector<Copy> copies_;  // what the program reads from a batch
  // Pixels as floats, on their way to memory that the host cannot access.
  mutable std::vector<float> pixels_;
  WordRows word_rows_;
  mutable std::vector<std::int32_t> rows_of_tokens_;  // on their way there, too
  DeviceTensor loss_scale_, label_loss_scale_, row_loss_scale_, dropout_key_, learning_rate_, step_, max_grad_norm_,
      unscale_, keep_, first_sample_;
};

}  // namespace plimsoll
