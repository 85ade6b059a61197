#include "backend/cuda/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"

#ifdef PLIMSOLL_CUDA_EMULATED
#include "nccl_stand_in.h"
#endif

namespace plimsoll::cuda {
namespace {

constexpr std::string_view kRemedy =
    "install NCCL 2 (apt-get install libnccl2 from NVIDIA's repository, or: pip install nvidia-nccl-cu12) and put its "
    "folder into LD_LIBRARY_PATH, or name the file in PLIMSOLL_NCCL";

template <typename Function>
void find_nccl(void* library, const std::string& file, const char* name, Function& function) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw EnvironmentError({.what = "the NCCL library lacks a function that Plimsoll calls",
                            .where = file,
                            .found = fmt::format("no {}", name),
                            .allowed = fmt::format("NCCL {} or later", nccl_version_text(kNcclOldestVersion)),
                            .remedy = std::string(kRemedy)});
  }
  function = reinterpret_cast<Function>(symbol);
}

Nccl nccl_of(void* library, const std::string& file) {
  Nccl nccl;
  find_nccl(library, file, "ncclGetVersion", nccl.version);
  find_nccl(library, file, "ncclGetErrorString", nccl.error_text);
  find_nccl(library, file, "ncclGetUniqueId", nccl.make_id);
  find_nccl(library, file, "ncclCommInitRank", nccl.connect);
  find_nccl(library, file, "ncclGroupStart", nccl.begin_group);
  find_nccl(library, file, "ncclGroupEnd", nccl.end_group);
  find_nccl(library, file, "ncclSend", nccl.send);
  find_nccl(library, file, "ncclRecv", nccl.receive);
  find_nccl(library, file, "ncclCommGetAsyncError", nccl.async_error);
  find_nccl(library, file, "ncclCommAbort", nccl.abort);
  find_nccl(library, file, "ncclCommDestroy", nccl.destroy);
  int version = 0;
  if (const int result = nccl.version(&version); result != kNcclSuccess || version < kNcclOldestVersion) {
    throw EnvironmentError({.what = "the NCCL library is too old",
                            .where = file,
                            .found = result == kNcclSuccess ? nccl_version_text(version) : nccl.error_text(result),
                            .allowed = fmt::format("{} or later", nccl_version_text(kNcclOldestVersion)),
                            .remedy = std::string(kRemedy)});
  }
#ifdef PLIMSOLL_CUDA_EMULATED
  // The stand-in for NCCL works on the emulator's streams and memory; NCCL itself would not.
  cuda_emulator::NcclStandIn stand_in = nullptr;
  find_nccl(library, file, "plimsoll_nccl_stand_in", stand_in);
  stand_in(cuda_emulator::nccl_hooks());
#endif
  return nccl;
}

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Nccl load_nccl(std::span<const std::string> names) {
  std::string tried;
  for (const std::string& name : names) {
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return nccl_of(library, name);
    const char* const reason = dlerror();
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", reason == nullptr ? name : reason);
  }
  throw EnvironmentError({.what = "NCCL, which moves tensors between GPUs, cannot be loaded",
                          .where = "--device cuda, several processes",
                          .found = tried,
                          .allowed = fmt::format("{}", fmt::join(names, ", ")),
                          .remedy = std::string(kRemedy)});
}

Nccl load_nccl() {
  std::vector<std::string> names = {"libnccl.so.2"};
  if (const char* const file = std::getenv("PLIMSOLL_NCCL"); file != nullptr && *file != '\0') names = {file};
  return load_nccl(names);
}

}  // namespace plimsoll::cuda
