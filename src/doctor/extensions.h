// Finds the native extension that a line or a frame of a traceback belongs to. Such a package is built for one PyTorch,
// CUDA and GPU, and fails in its own way with others.
#pragma once

#include <span>
#include <string_view>

#include "doctor/frame.h"

namespace plimsoll::doctor {

// Returns the package, by its name in pip, of a path in the line: "flash-attn" for "…/flash_attn_2_cuda.cpython-310.so:
// undefined symbol". Empty if none is named.
std::string_view extension_in(std::string_view small);

// Returns the package whose compiled file lacks a symbol according to the line; empty if another library lacks it.
std::string_view extension_without_symbol(std::string_view small);
// Returns the package that has no kernels for this GPU: the line names its source, or the last frame is its own.
std::string_view extension_without_kernel(std::string_view small, std::span<const Frame> frames);

}  // namespace plimsoll::doctor
