// Compiles the examples of src/cli.
#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/work_folder.h"
#include "cli/app.h"
#include "cli/app.h.inc"
#include "cli/arguments.h"
#include "cli/batch_options.h"
#include "cli/command_line.h"
#include "cli/document_input.h"
#include "cli/document_lines.h"
#include "cli/elsewhere.h"
#include "cli/field_output.h"
#include "cli/generation_config.h"
#include "cli/gpu_model.h"
#include "cli/idle_options.h"
#include "cli/option_table.h"
#include "cli/outputs.h"
#include "cli/page_bar.h"
#include "cli/page_pictures.h"
#include "cli/part_files.h"
#include "cli/run_events.h"
#include "cli/same_run.h"
#include "cli/signals.h"
#include "cli/teacher_cache.h"
#include "cli/tensorboard_log.h"
#include "cli/toml.h"
#include "cli/train_run.h"
#include "cli/usage.h"
#include "cli/worst_pictures.h"
#include "examples/use.h"
#include "request/memory.h"
#include "request/open_data.h"
#include "train/trainer.h"

namespace plimsoll::examples {

namespace fs = std::filesystem;

struct MemoryOptions {
  MemoryRequest memory;
};

void of_batch_options() {
#include "cli/batch_options.h.inc"
}

void of_generation_config(const ModelBundle& bundle, const Command& command) {
#include "cli/generation_config.h.inc"
}

void of_idle_options(const RunOptions& options, const ModelBundle& bundle) {
#include "cli/idle_options.h.inc"
}

void of_toml() {
#include "cli/toml.h.inc"
}

void of_train_run(Invocation& invocation, RunOptions& options) {
#include "cli/train_run.h.inc"
}

void of_same_run(const Invocation& invocation, const RunOptions& options, const ModelBundle& bundle,
                 const Dataset& train, const std::optional<fs::path>& resume) {
#include "cli/same_run.h.inc"
}

void of_document_input(Command* command, const Invocation& invocation) {
#include "cli/document_input.h.inc"
}

void of_document_lines(OutputFile& file, const Predictions& predictions, const Page& page) {
#include "cli/document_lines.h.inc"
}

void of_page_pictures(const Invocation& invocation, MemoryOptions& options, const PageSource* pages,
                      const Predictions& predictions, Page& page, BoxFormat format) {
#include "cli/page_pictures.h.inc"
}

void of_part_files(const Command* command, const nlohmann::json& model, const std::string& input,
                   const PageRange& range) {
#include "cli/part_files.h.inc"
}

void of_elsewhere() {
#include "cli/elsewhere.h.inc"
}

void of_field_output(OutputFile& file, const nlohmann::json& line) {
#include "cli/field_output.h.inc"
}

void of_option_table(const CLI::App& app) {
#include "cli/option_table.h.inc"
  use(table);
}

void of_outputs(const fs::path& output, const fs::path& data, const fs::path& model, const fs::path& directory) {
#include "cli/outputs.h.inc"
}

void of_gpu_model(const RunPlan& plan) {
#include "cli/gpu_model.h.inc"
}

void of_teacher_cache(const Invocation& invocation, RunOptions& options, const ModelBundle& bundle, const RunData& data,
                      Backend& backend, const Device& device) {
#include "cli/teacher_cache.h.inc"
}

void of_page_bar(bool quiet, std::size_t done, std::size_t pages) {
#include "cli/page_bar.h.inc"
}

void of_run_events(const nlohmann::json& plan) {
#include "cli/run_events.h.inc"
}

void of_worst_pictures(RunOptions& options, TensorBoardLog& log, const Evaluation& evaluation, std::int64_t steps,
                       const Session& session, const ModelBundle& bundle, const Dataset& held_out,
                       const LoaderOptions& loader, BoxFormat format, const std::filesystem::path& path) {
#include "cli/worst_pictures.h.inc"
}

void of_tensorboard_log(const std::string& table) {
#include "cli/tensorboard_log.h.inc"
}

void of_signals(Trainer& trainer, const std::optional<fs::path>& resume) {
#include "cli/signals.h.inc"
}

void of_arguments(const CLI::App& app, std::vector<std::string> arguments) {
#include "cli/arguments.h.inc"
}

void of_command_line(Command* command, std::string output_dir) {
#include "cli/command_line.h.inc"
}

void of_usage(Command* command, std::int64_t steps, std::string backend) {
#include "cli/usage.h.inc"
}

}  // namespace plimsoll::examples
