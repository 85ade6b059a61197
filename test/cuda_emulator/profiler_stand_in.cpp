// What a profiler does to see NVTX's ranges, as NVIDIA's header describes it: NVTX loads it at its first call, and asks
// it to put its own functions in place.
#include <nvtx3/nvToolsExt.h>

#include <string>

namespace {

std::string& seen() {
  static std::string text;
  return text;
}

int NVTX_API push(const char* name) {
  seen() += name;
  seen() += '\n';
  return 0;
}
int NVTX_API pop() {
  seen() += "end\n";
  return 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const table = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (table == nullptr || table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

// A line for each range that began, by its name, and one for each end, "end".
__attribute__((visibility("default"))) const char* plimsoll_ranges_seen() { return seen().c_str(); }
}
