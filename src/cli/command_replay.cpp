#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/devices.h"
#include "cli/usage.h"
#include "train/step_record.h"

namespace plimsoll {
namespace {

struct ReplayOptions {
  std::string directory;
  DeviceOptions device;
};

std::string replay_text(const Replay& replay) {
  const StepRecord& record = replay.record;
  std::string text = fmt::format("update {}: loss {}, gradient norm {} when it was recorded", record.scalars.step,
                                 record.loss, record.gradient_norm);
  for (const MicroBatchRecord& micro : record.micro_batches) {
    text += fmt::format("\n  {}: {}", micro.file, fmt::join(micro.pages, "; "));
  }
  if (!replay.fault) return text + "\nnow every number is finite";
  text += "\n" + describe(*replay.fault);
  for (const TensorSummary& input : replay.fault->inputs) text += "\n  " + describe(input);
  return text + (replay.same ? "\nthe same as recorded" : "\ndifferent from the recorded values");
}

void run_replay(const Invocation& invocation, const ReplayOptions& options) {
  const Device device = open_device(invocation, options.device);
  const Replay replay = replay_step(options.directory, *device.backend);
  if (replay.fault) invocation.exit_code = ExitCode::kDiverged;
  if (!invocation.json) return print_line(replay_text(replay));
  print_json({{"step", replay.record.scalars.step},
              {"finding", replay.fault ? to_json(*replay.fault) : nlohmann::json()},
              {"same", replay.same}});
}

}  // namespace

void add_replay(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "replay",
                                 "Rerun a recorded step and show the first op that produces a NaN or infinity");
  auto options = std::make_shared<ReplayOptions>();
  command->heading("Step");
  command->add_option("DIR", options->directory, "A nonfinite-step-N directory written by plimsoll train")
      ->type_name("")
      ->required();
  add_device_option(command, options->device);
  add_backend_option(command, options->device);
  command->footer(
      "The step runs node by node, from the recorded batch, dropout key and parameters, up to the first op\n"
      "whose output is NaN or infinite. Exit code 6 if there is one, 0 otherwise.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_replay(invocation, *options); }; });
}

}  // namespace plimsoll
