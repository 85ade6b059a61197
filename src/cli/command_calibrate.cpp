#include <fmt/format.h>

#include "base/counted.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/run_options.h"
#include "cli/speeds.h"
#include "fit/calibration.h"

namespace plimsoll {
namespace {

struct CalibrateOptions {
  PrecisionOptions precision;
  DeviceOptions device;
};

void run_calibrate(const Invocation& invocation, const CalibrateOptions& options) {
  const DType precision = options.precision.resolve();
  const Device device = open_device(invocation, options.device);
  const Calibration calibration = calibrate(device, precision);
  if (invocation.json) return print_json(speeds_json(calibration.speeds));
  const std::string how = device.summary.empty() ? "with " + counted(device.threads, "thread") : "on " + device.name;
  print_line(
      fmt::format("measured {}{}", how, calibration.file.empty() ? "" : "; stored in " + calibration.file.string()));
}

}  // namespace

void add_calibrate(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "calibrate",
                                 "Measure this machine's speed, which the planner uses to compare plans");
  command->footer(
      "plan and train do this automatically and store the result in ~/.cache/plimsoll. Run it again if the\n"
      "machine was busy the first time.");
  const auto options = std::make_shared<CalibrateOptions>();
  add_precision_options(command, options->precision);
  add_device_option(command, options->device);
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_calibrate(invocation, *options); }; });
}

}  // namespace plimsoll
