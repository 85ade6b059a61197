// Which extension in native code a line or a frame of a traceback belongs to. Such a package is built for one PyTorch,
// CUDA and GPU, and fails in its own way where it meets another.
#pragma once

#include <span>
#include <string_view>

#include "doctor/frame.h"

namespace plimsoll::doctor {

// The package as pip names it, of a path in the line: "flash-attn" of "…/flash_attn_2_cuda.cpython-310.so: undefined
// symbol". Empty where none is named.
std::string_view extension_in(std::string_view small);

// The package whose compiled file lacks a symbol, as the line says; empty where it is another library's.
std::string_view extension_without_symbol(std::string_view small);
// The package that has no kernels for this GPU: the line names its source, or the last frame is its own.
std::string_view extension_without_kernel(std::string_view small, std::span<const Frame> frames);

}  // namespace plimsoll::doctor
