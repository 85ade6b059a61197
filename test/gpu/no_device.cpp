// Skips every test of the program, with the reason, if there is no GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::test {
namespace {

std::string missing_device() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return devices == 0 ? "the driver shows no device" : "";
}

class NeedsDevice final : public testing::Environment {
  void SetUp() override {
    const std::string reason = missing_device();
    if (!reason.empty()) GTEST_SKIP() << "no GPU: " << reason;
  }
};

[[maybe_unused]] testing::Environment* const registered = testing::AddGlobalTestEnvironment(new NeedsDevice);

}  // namespace
}  // namespace plimsoll::test
