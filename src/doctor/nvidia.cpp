// Queries NVIDIA's driver through its own libraries, opened at run time, so that this program runs without them. (CUDA
// driver API; NVML is in base/nvidia.)
#include <dlfcn.h>
#include <fmt/format.h>

#include "doctor/facts.h"

namespace plimsoll::doctor {
namespace {

void probe_nvml(Facts& facts) {
  const Nvml nvml;
  facts.has_nvml = nvml.exists();
  facts.nvml_error = nvml.error();
  facts.driver_version = nvml.driver_version();
  facts.driver_cuda = nvml.driver_cuda();
  facts.gpus = nvml.gpus();
}

void probe_libcuda(Facts& facts) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  facts.has_libcuda = library != nullptr;
  if (library == nullptr) return;
  const auto find = [library]<typename Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    return function != nullptr;
  };
  int (*get_version)(int*) = nullptr;
  int (*init)(unsigned int) = nullptr;
  int (*get_error)(int, const char**) = nullptr;
  int version = 0;
  if (find(get_version, "cuDriverGetVersion") && get_version(&version) == 0) facts.driver_cuda = version;
  if (const int result = find(init, "cuInit") ? init(0) : -1; result != 0) {
    const char* text = nullptr;
    if (find(get_error, "cuGetErrorString")) get_error(result, &text);
    facts.cuda_error = text != nullptr ? text : fmt::format("CUDA error {}", result);
  }
  ::dlclose(library);
}

}  // namespace

void probe_driver(Facts& facts) {
  probe_nvml(facts);
  probe_libcuda(facts);
}

}  // namespace plimsoll::doctor
