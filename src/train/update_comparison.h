// UpdateComparison: with GradCache (model/grad_cache.h), what an update needs between its two passes over the chunks.
// It collects what the head reads beside embeddings, labels and keys of dropout, from the batches of the first pass,
// and gives it to the program that compares all pages.
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
  // Of a session with chunks, which must outlive this object. Nothing is allocated afterwards.
  explicit UpdateComparison(const Session& session);

  void collect(const Batch& batch);
  // The program, whose inputs are set; the loss is divided by what the batches say, not by `scalars.labelled`.
  const Program& bind(const StepScalars& scalars) const;
  // Makes every embedding 0: NaN of an update that went wrong would be taken for new ones.
  void forget() const;

 private:
  struct Input {
    std::string name;
    DeviceTensor to;
    bool of_samples = true;  // a row for each of them; otherwise the same in every batch
    std::vector<std::byte> bytes;
  };

  const Session& session_;
  const Program& program_;
  std::vector<Input> inputs_;
  std::int64_t samples_ = 0;  // of the update
  double labelled_ = 0;       // StepScalars::labelled of the update
};

}  // namespace plimsoll
