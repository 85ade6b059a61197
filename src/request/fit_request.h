// The request that `fit` answers, made of all that was asked for: what `plan`, `train`, `eval` and `predict` plan
// alike, so that they predict the same memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "bundle/model_bundle.h"
#include "data/dataset.h"
#include "fit/choices.h"
#include "fit/fit.h"
#include "request/memory.h"
#include "train/options.h"

namespace plimsoll {

// Updates of the whole run.
std::int64_t updates_of(const TrainOptions& options, const Dataset& train);

// The request that `fit` answers, for training (with `evaluation` or without) or for evaluation alone (`train`
// nullptr). The data sets and `bundle` must outlive the request.
FitRequest fit_request(const ModelBundle& bundle, const TrainOptions& options, const Dataset* train,
                       const Dataset* evaluation, const MemoryRequest& memory);

// The parameters of the model, and of a teacher, that do not change and lie in the models' files as they lie in memory,
// but for their types: what an offload file need not hold.
std::shared_ptr<const std::map<std::string, StoredTensor>> unchanging_parameters(const ModelBundle& bundle,
                                                                                 const TrainOptions& options,
                                                                                 bool trains);

// The request for writing texts on, each of at most `tokens` tokens with its prompt; `options.train_batch_size` of them
// at once. Throws UsageError for a task that writes no text.
FitRequest generation_request(const ModelBundle& bundle, const TrainOptions& options, std::int64_t tokens,
                              const MemoryRequest& memory);

// What a run takes over: of the checkpoint that it goes on from, and of the machine's file in `cache`.
KnownChoices known_choices(const std::optional<std::filesystem::path>& resume, const std::filesystem::path& cache);

}  // namespace plimsoll
