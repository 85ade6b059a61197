#include "backend/cuda/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"

#ifdef PLIMSOLL_CUDA_EMULATED
#include "cublaslt_emulator.h"
#endif

namespace plimsoll::cuda {
namespace {

constexpr std::string_view kRemedy =
    "install cuBLAS 12 or 13 (it comes with the CUDA toolkit, or: pip install nvidia-cublas) and put its folder into "
    "LD_LIBRARY_PATH, or name the file in PLIMSOLL_CUBLASLT";

template <typename Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw EnvironmentError({.what = "the cuBLASLt library lacks a function that Plimsoll calls",
                            .where = file,
                            .found = fmt::format("no {}", name),
                            .remedy = std::string(kRemedy)});
  }
  function = reinterpret_cast<Function>(symbol);
}

CublasLt functions_of(void* library, const std::string& file) {
  CublasLt lt;
  find(library, file, "cublasLtGetVersion", lt.version);
  find(library, file, "cublasLtGetStatusName", lt.status_name);
  find(library, file, "cublasLtCreate", lt.create);
  find(library, file, "cublasLtDestroy", lt.destroy);
  find(library, file, "cublasLtMatmulDescCreate", lt.create_operation);
  find(library, file, "cublasLtMatmulDescDestroy", lt.destroy_operation);
  find(library, file, "cublasLtMatmulDescSetAttribute", lt.set_operation);
  find(library, file, "cublasLtMatrixLayoutCreate", lt.create_layout);
  find(library, file, "cublasLtMatrixLayoutDestroy", lt.destroy_layout);
  find(library, file, "cublasLtMatmulPreferenceCreate", lt.create_preference);
  find(library, file, "cublasLtMatmulPreferenceDestroy", lt.destroy_preference);
  find(library, file, "cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
  find(library, file, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  find(library, file, "cublasLtMatmulAlgoCheck", lt.check);
  find(library, file, "cublasLtMatmul", lt.matmul);
  return lt;
}

}  // namespace

CublasLt load_cublaslt(std::span<const std::string> names) {
  std::string tried;
  for (const std::string& name : names) {
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return functions_of(library, name);
    const char* const reason = dlerror();
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", reason == nullptr ? name : reason);
  }
  throw EnvironmentError({.what = "cuBLASLt, which multiplies matrices on the GPU, cannot be loaded",
                          .found = tried,
                          .allowed = fmt::format("one of {}", fmt::join(names, ", ")),
                          .remedy = std::string(kRemedy)});
}

CublasLt load_cublaslt() {
#ifdef PLIMSOLL_CUDA_EMULATED
  return cuda_emulator::cublaslt();
#else
  std::vector<std::string> names = {"libcublasLt.so.13", "libcublasLt.so.12"};
  if (const char* const file = std::getenv("PLIMSOLL_CUBLASLT"); file != nullptr && *file != '\0') names = {file};
  return load_cublaslt(names);
#endif
}

}  // namespace plimsoll::cuda
