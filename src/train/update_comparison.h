// UpdateComparison: with GradCache (model/grad_cache.h), what an update needs between its two passes over the chunks.
// From the batches of the first pass it collects the head's inputs other than embeddings, such as labels and dropout
// keys, and gives them to the program that compares all pages.
//
//   UpdateComparison comparison(session);
//   comparison.collect(batch);                      // of each chunk, once it has been embedded
//   comparison.bind(scalars).run();                 // after the last one
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/batch.h"
#include "fit/session.h"
#include "train/step_record.h"

namespace plimsoll {

class UpdateComparison {
 public:
  // The session must have chunks and outlive this object. Nothing is allocated afterwards.
  explicit UpdateComparison(const Session& session);

  void collect(const Batch& batch);
  // Sets the program's inputs and returns it; the loss is divided by what the batches say, not by `scalars.labelled`.
  const Program& bind(const StepScalars& scalars) const;
  // Sets every embedding to 0, because NaN left by a failed update would be taken for new.
  void forget() const;

 private:
  struct Input {
    std::string name;
    DeviceTensor to;
    bool of_samples = true;  // one row per sample; otherwise the same in every batch
    std::vector<std::byte> bytes;
  };

  const Session& session_;
  const Program& program_;
  std::vector<Input> inputs_;
  std::int64_t samples_ = 0;  // of the update
  double labelled_ = 0;       // StepScalars::labelled of the update
};

}  // namespace plimsoll
