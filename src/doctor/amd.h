// Advice for AMD's GPUs: rules name NVIDIA's tools, variables and libraries, which have other names in ROCm.
#pragma once

#include <string>

namespace plimsoll::doctor {

// Replaces NVIDIA's names in a line of advice by ROCm's: "nvidia-smi" by "rocm-smi", "CUDA_LAUNCH_BLOCKING=1" by
// "AMD_SERIALIZE_KERNEL=3".
std::string with_rocm_names(std::string text);

}  // namespace plimsoll::doctor
