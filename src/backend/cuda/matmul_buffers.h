// Says where the operands of matrix products lie.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace plimsoll::cuda {

// Holds the distances, in bytes, from the buffers of one product to those of the next.
struct MatmulStrides {
  std::int64_t a = 0, b = 0, bias = 0, c = 0;
};

// Buffers are on the device, aligned to kAlignmentBytes, the workspace to kWorkspaceAlignment.
struct MatmulBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* addend = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;  // workspace_bytes()
};

// Returns the strides at which the buffers of several products lie: none is negative, and each is a multiple of
// kAlignmentBytes. Nothing: they are irregular.
std::optional<MatmulStrides> strides_of(std::span<const MatmulBuffers> buffers);

}  // namespace plimsoll::cuda
