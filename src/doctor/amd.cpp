#include "doctor/amd.h"

#include <cctype>
#include <string_view>

namespace plimsoll::doctor {
namespace {

struct VendorNames {
  std::string_view nvidia, amd;
};
// Longer ones come before those that they contain. RCCL reads NCCL's variables and writes its words.
constexpr VendorNames kVendorNames[] = {
    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1 or later; earlier max_split_size_mb:128)",
     "PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128 or garbage_collection_threshold:0.8 (expandable_segments:True needs "
     "ROCm 7 and a recent PyTorch)"},
    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against the gaps (PyTorch 2.1 or later; earlier "
     "max_split_size_mb:128)",
     "PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128 or garbage_collection_threshold:0.8 against the gaps "
     "(expandable_segments:True needs ROCm 7 and a recent PyTorch)"},
    {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"},
    {"CUDA_LAUNCH_BLOCKING=1", "AMD_SERIALIZE_KERNEL=3"},
    {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"},
    {"CUDA_HOME", "ROCM_HOME"},
    {"TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH"},
    {"nvidia-smi --gpu-reset", "rocm-smi --gpureset -d NUMBER"},
    {"sudo nvidia-smi -pl", "sudo rocm-smi --setpoweroverdrive WATT"},
    {"nvidia-smi -pl", "rocm-smi --setpoweroverdrive WATT"},
    {"nvidia-smi -l 1", "watch -n 1 rocm-smi"},
    {"nvidia-smi topo -p2p r", "rocm-smi --showtopo"},
    {"nvidia-smi -q -d ECC,ROW_REMAPPER", "rocm-smi --showrasinfo all"},
    {"nvidia-smi, or `plimsoll doctor`, lists", "rocm-smi lists"},
    {"nvidia-smi", "rocm-smi"},
    {"/dev/nvidia*", "/dev/kfd /dev/dri/renderD*"},
    {"/dev/nvidia0", "/dev/kfd"},
    {"compute-sanitizer python train.py", "rocgdb --args python train.py"},
    {"compute-sanitizer", "rocgdb"},
    {"dcgmi diag -r 3", "rvs, the ROCm Validation Suite"},
    {"dmesg | grep -i xid", "dmesg | grep -i amdgpu"},
    {"dmesg | grep -iE 'xid|fallen'", "dmesg | grep -i amdgpu"},
    {"bf16=True on an Ampere GPU or newer, fp16=True on older ones", "bf16=True, or fp16=True on GPUs before MI200"},
    {" (Ampere or newer)", ""},
    {"torch.version.cuda", "torch.version.hip"},
    {"Two CUDAs are mixed: nvidia-cublas of pip and the system's",
     "Two ROCms are mixed: PyTorch's own and the system's"},
    {"one CUDA's libraries", "one ROCm's libraries"},
    {"`plimsoll doctor`: two libcublas?", "ls -d /opt/rocm*: another ROCm than torch.version.hip?"},
    {"NCCL WARN", "NCCL WARN"},
    {"cuBLAS", "hipBLAS"},
    {"libcublas", "libhipblas"},
    {"cuDNN", "MIOpen"},
    {"cuSOLVER", "hipSOLVER"},
    {"NCCL", "RCCL"},
    {"NVIDIA GPU", "AMD GPU"},
    {"NVIDIA driver", "amdgpu driver"},
    {"CUDA", "HIP"},
};

bool joins_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::string with_rocm_names(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 1;
    for (const VendorNames& names : kVendorNames) {
      if (text.compare(at, names.nvidia.size(), names.nvidia) != 0) continue;
      const std::size_t end = at + names.nvidia.size();
      // "PYTORCH_CUDA_X", which is not in the table, keeps its name.
      const bool is_part = (joins_name(names.nvidia.front()) && at > 0 && joins_name(text[at - 1])) ||
                           (joins_name(names.nvidia.back()) && end < text.size() && joins_name(text[end]));
      if (is_part) continue;
      text.replace(at, names.nvidia.size(), names.amd);
      length = names.amd.size();
      break;
    }
    at += length;
  }
  return text;
}

}  // namespace plimsoll::doctor
