#include "backend/cuda/cublaslt.h"

#include <fmt/format.h>

#include "backend/cuda/shared_library.h"

#ifdef PLIMSOLL_CUDA_EMULATED
#include "cublaslt_emulator.h"
#endif

namespace plimsoll::cuda {
namespace {

const LibraryTexts& cublaslt_texts() {
  static const LibraryTexts kTexts{
      .name = "cuBLASLt",
      .purpose = "which multiplies matrices on the GPU",
      .where = {},
      .allowed = {},
      .remedy =
          "install cuBLAS 12 or 13 (it comes with the CUDA toolkit, or: pip install nvidia-cublas, whose file is "
          "found in the environment of the program and in the active one), put its folder into LD_LIBRARY_PATH, "
          "or name the file in PLIMSOLL_CUBLASLT; if a version does not start, the driver may be too old for "
          "it: plimsoll doctor shows it"};
  return kTexts;
}

CublasLt functions_of(const SharedLibrary& library) {
  CublasLt lt;
  library.find("cublasLtGetVersion", lt.version);
  library.find("cublasLtGetStatusName", lt.status_name);
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtMatmulDescCreate", lt.create_operation);
  library.find("cublasLtMatmulDescDestroy", lt.destroy_operation);
  library.find("cublasLtMatmulDescSetAttribute", lt.set_operation);
  library.find("cublasLtMatrixLayoutCreate", lt.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", lt.destroy_layout);
  library.find("cublasLtMatrixLayoutSetAttribute", lt.set_layout);
  library.find("cublasLtMatmulPreferenceCreate", lt.create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", lt.destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  library.find("cublasLtMatmulAlgoCheck", lt.check);
  library.find("cublasLtMatmul", lt.matmul);
  return lt;
}

}  // namespace

std::string cannot_start(const CublasLt& lt) {
  LtHandle handle = nullptr;
  const int status = lt.create(&handle);
  if (status != kLtSuccess) return fmt::format("{} from version {}", lt.status_name(status), lt.version());
  lt.destroy(handle);
  return {};
}

CublasLt load_cublaslt(std::span<const std::string> names, const std::function<std::string(const CublasLt&)>& unfit) {
  CublasLt lt;
  open_library(names, cublaslt_texts(), [&](const SharedLibrary& library) {
    lt = functions_of(library);
    return unfit ? unfit(lt) : std::string();
  });
  return lt;
}

CublasLt load_cublaslt() {
#ifdef PLIMSOLL_CUDA_EMULATED
  return cuda_emulator::cublaslt();
#else
  return load_cublaslt(library_names("PLIMSOLL_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"}), cannot_start);
#endif
}

}  // namespace plimsoll::cuda
