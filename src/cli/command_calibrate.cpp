#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "cli/command.h"
#include "cli/run_options.h"
#include "cli/speeds.h"
#include "fit/calibration.h"

namespace plimsoll {
namespace {

void run_calibrate(const Invocation& invocation, DType precision) {
  const int threads = CpuBackend(invocation.threads).threads();
  const OpSpeeds speeds = calibrate(threads, precision);
  if (invocation.json) return print_json(speeds_json(speeds));
  print_line(fmt::format("measured with {} threads, kept in {}", threads, speeds_path(threads, precision).string()));
}

}  // namespace

void add_calibrate(CLI::App& app, Invocation& invocation) {
  CLI::App* command = add_command(app, invocation, "calibrate", "Measure this machine's speed, to compare plans by");
  add_footer(
      command,
      "plan and train do this by themselves when they need it and keep the result in ~/.cache/plimsoll. Run it again\n"
      "when the machine was busy the first time.");
  const auto precision = std::make_shared<PrecisionOptions>();
  add_precision_options(command, *precision);
  command->callback([&invocation, precision] {
    invocation.action = [&invocation, precision] { run_calibrate(invocation, precision->resolve()); };
  });
}

}  // namespace plimsoll
