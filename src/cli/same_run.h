// The ranks of a run share every update, so all must have been given the same options, data and model: they compare
// them before they plan. Otherwise each would train a model of its own, or wait for messages that no rank sends.
//
//   refuse_other_options(*invocation.ranks, *options.command);
//   refuse_other_inputs(invocation, options, bundle, {.data = &train, .resume = resume});
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "cli/command.h"
#include "cli/run_options.h"
#include "data/dataset.h"
#include "ranks/communicator.h"

namespace plimsoll {

// Throws UsageError on every rank if two differ in an option, except those that say where something is or what one
// machine can do, or run different versions of the program.
void refuse_other_options(Communicator& ranks, const Command& command);

// A run reads these. A null pointer means that it has no such data.
struct RunInputs {
  const Dataset* data = nullptr;
  const Dataset* evaluation = nullptr;
  std::optional<std::filesystem::path> resume{};  // the checkpoint
};

// Throws DataError on every rank if two read other data, another model or another checkpoint; does nothing in a single
// process. Of weights only the beginning of each tensor is compared.
void refuse_other_inputs(const Invocation& invocation, const RunOptions& options, const ModelBundle& bundle,
                         const RunInputs& inputs);

// Does the same for files whose pages the ranks share: by names and contents, or by names and sizes, where contents
// would take long to read. Where they lie does not count.
enum class FilesBy : std::uint8_t { kContents, kSizes };
void refuse_other_files(const Invocation& invocation, const std::string& option,
                        const std::vector<std::filesystem::path>& files, FilesBy by);

}  // namespace plimsoll
