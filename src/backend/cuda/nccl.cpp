#include "backend/cuda/nccl.h"

#include <fmt/format.h>

#include "backend/cuda/shared_library.h"
#include "base/error.h"

#ifdef PLIMSOLL_CUDA_EMULATED
#include "nccl_stand_in.h"
#endif

namespace plimsoll::cuda {
namespace {

const LibraryTexts& nccl_texts() {
  static const LibraryTexts kTexts{
      .name = "NCCL",
      .purpose = "which moves tensors between GPUs",
      .where = "--device cuda, several processes",
      .allowed = fmt::format("NCCL {} or later", nccl_version_text(kNcclOldestVersion)),
      .remedy =
          "install NCCL 2 (apt-get install libnccl2 from NVIDIA's repository, or: pip install nvidia-nccl-cu12, "
          "whose file is found in the environment of the program and in the active one), put its folder into "
          "LD_LIBRARY_PATH, or name the file in PLIMSOLL_NCCL"};
  return kTexts;
}

Nccl nccl_of(const SharedLibrary& library) {
  Nccl nccl;
  library.find("ncclGetVersion", nccl.version);
  library.find("ncclGetErrorString", nccl.error_text);
  library.find("ncclGetUniqueId", nccl.make_id);
  library.find("ncclCommInitRank", nccl.connect);
  library.find("ncclGroupStart", nccl.begin_group);
  library.find("ncclGroupEnd", nccl.end_group);
  library.find("ncclSend", nccl.send);
  library.find("ncclRecv", nccl.receive);
  library.find("ncclCommGetAsyncError", nccl.async_error);
  library.find("ncclCommAbort", nccl.abort);
  library.find("ncclCommDestroy", nccl.destroy);
  int version = 0;
  if (const int result = nccl.version(&version); result != kNcclSuccess || version < kNcclOldestVersion) {
    throw EnvironmentError({.what = "the NCCL library is too old",
                            .where = library.file(),
                            .found = result == kNcclSuccess ? nccl_version_text(version) : nccl.error_text(result),
                            .allowed = nccl_texts().allowed,
                            .remedy = nccl_texts().remedy});
  }
#ifdef PLIMSOLL_CUDA_EMULATED
  // The stand-in for NCCL works on the emulator's streams and memory; NCCL itself would not.
  cuda_emulator::NcclStandIn stand_in = nullptr;
  library.find("plimsoll_nccl_stand_in", stand_in);
  stand_in(cuda_emulator::nccl_hooks());
#endif
  return nccl;
}

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Nccl load_nccl(std::span<const std::string> names) {
  Nccl nccl;
  open_library(names, nccl_texts(), [&](const SharedLibrary& library) {
    nccl = nccl_of(library);
    return std::string();
  });
  return nccl;
}

Nccl load_nccl() { return load_nccl(library_names("PLIMSOLL_NCCL", {"libnccl.so.2"})); }

}  // namespace plimsoll::cuda
