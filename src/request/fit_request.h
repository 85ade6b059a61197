// Makes the request that `fit` answers from all options: `plan`, `train`, `eval` and `predict` share it, so that they
// predict the same memory.
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

// Returns the updates of the whole run.
std::int64_t updates_of(const TrainOptions& options, const Dataset& train);

// Makes the request that `fit` answers, for training (with or without `evaluation`) or only for evaluation (`train`
// nullptr). The data sets and `bundle` must outlive the request.
FitRequest fit_request(const ModelBundle& bundle, const TrainOptions& options, const Dataset* train,
                       const Dataset* evaluation, const MemoryRequest& memory);

// Returns how the run's options update the model's parameters.
OptimizerOptions optimizer_options(const ModelBundle& bundle, const TrainOptions& options);

// Returns the parameters of the model, and of a teacher, that do not change and are in the models' files in memory's
// form, except for their types: an offload file need not hold them.
std::shared_ptr<const std::map<std::string, StoredTensor>> unchanging_parameters(const ModelBundle& bundle,
                                                                                 const TrainOptions& options,
                                                                                 bool trains);

// Makes the request for continuing texts, each of at most `tokens` tokens including its prompt,
// `options.train_batch_size` of them at once. Throws UsageError for a task that writes no text.
FitRequest generation_request(const ModelBundle& bundle, const TrainOptions& options, std::int64_t tokens,
                              const MemoryRequest& memory);

// Returns the choices that a run takes over from the checkpoint that it resumes and from the machine's file in `cache`.
KnownChoices known_choices(const std::optional<std::filesystem::path>& resume, const std::filesystem::path& cache);

}  // namespace plimsoll
