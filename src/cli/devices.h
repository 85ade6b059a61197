// What a command computes on: the CPU, or a GPU that --device names.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "cli/command.h"
#include "doctor/facts.h"

namespace plimsoll {

struct DeviceOptions {
  std::string device = "cpu";
  bool enforce_eager = false;   // on a GPU kernels are started one by one
  std::string backend = "cpu";  // or "reference", for commands that check numbers
};
void add_device_option(CLI::App* command, DeviceOptions& options);
void add_backend_option(CLI::App* command, DeviceOptions& options);

struct Device {
  std::unique_ptr<Backend> backend;
  std::string argument;  // that --device takes
  std::string name;      // of the processor or GPU: speeds measured on one say nothing of another
  std::string summary;   // a line about the GPU and its driver; empty for the CPU
  int threads = 1;       // of the host, that its kernels run on
};

// Throws UsageError for a name that is none, EnvironmentError where this build or machine has no such device.
Device open_device(const Invocation& invocation, const DeviceOptions& options);

// What the doctor cannot know by itself: the CUDA and the kernels that this program is built with.
void tell_build(doctor::Facts& facts);

}  // namespace plimsoll
