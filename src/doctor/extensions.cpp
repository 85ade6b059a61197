#include "doctor/extensions.h"

#include <algorithm>

namespace plimsoll::doctor {
namespace {

struct Extension {
  std::string_view part;     // of a path, in small letters
  std::string_view package;  // its name in pip
};
// The first match counts: xFormers' source contains flash-attention's.
constexpr Extension kExtensions[] = {{"xformers", "xformers"},
                                     {"vllm", "vllm"},
                                     {"transformer_engine", "transformer-engine"},
                                     {"flash_attn", "flash-attn"},
                                     {"flash-attention", "flash-attn"},
                                     {"rotary_emb", "flash-attn"},
                                     {"dropout_layer_norm", "flash-attn"},
                                     {"bitsandbytes", "bitsandbytes"},
                                     {"causal_conv1d", "causal-conv1d"},
                                     {"selective_scan_cuda", "mamba-ssm"},
                                     {"mamba_ssm", "mamba-ssm"},
                                     {"sageattention", "sageattention"},
                                     {"fused_layer_norm_cuda", "apex"},
                                     {"amp_c.", "apex"},
                                     {"/apex/", "apex"},
                                     {"auto_gptq", "auto-gptq"},
                                     {"autogptq", "auto-gptq"},
                                     {"exllama", "auto-gptq"},
                                     {"awq_ext", "autoawq-kernels"},
                                     {"awq_inference_engine", "autoawq-kernels"},
                                     {"detectron2", "detectron2"},
                                     {"mmcv", "mmcv"},
                                     {"torchvision", "torchvision"},
                                     {"torchaudio", "torchaudio"},
                                     {"torch_scatter", "torch-scatter"},
                                     {"torch_sparse", "torch-sparse"},
                                     {"torch_cluster", "torch-cluster"},
                                     {"pytorch3d", "pytorch3d"},
                                     {"natten", "natten"},
                                     {"spconv", "spconv"}};

}  // namespace

std::string_view extension_in(std::string_view small) {
  for (const Extension& extension : kExtensions)
    if (small.find(extension.part) != std::string_view::npos) return extension.package;
  return {};
}

std::string_view extension_without_symbol(std::string_view small) {
  const std::size_t at = small.find(": undefined symbol");
  if (at == std::string_view::npos) return {};
  // The file that lacks it is before the colon, and its name says more than its folder's.
  std::string_view file = small.substr(0, at);
  file.remove_prefix(file.rfind(' ') == std::string_view::npos ? 0 : file.rfind(' ') + 1);
  const std::size_t slash = file.rfind('/');
  const std::string_view own = slash == std::string_view::npos ? file : file.substr(slash + 1);
  // CUDA's own libraries are in pip packages, and bitsandbytes has one library for each CUDA.
  if (own.starts_with("libcu") || own.starts_with("libnv") || own.starts_with("libnccl")) return {};
  const std::string_view named = extension_in(own), package = named.empty() ? extension_in(file) : named;
  return package == "bitsandbytes" ? std::string_view() : package;
}

std::string_view extension_without_kernel(std::string_view small, std::span<const Frame> frames) {
  const bool lacks = small.find("no kernel image is available") != std::string_view::npos ||
                     small.find("cudaerrornokernelimage") != std::string_view::npos ||
                     small.find("invalid device function") != std::string_view::npos;
  if (!lacks) return {};
  if (const std::string_view package = extension_in(small); !package.empty()) return package;
  return frames.empty() || !frames.back().library ? std::string_view() : extension_in(frames.back().path);
}

}  // namespace plimsoll::doctor
