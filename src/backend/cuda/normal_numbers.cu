// Normally distributed numbers, like weights and activations: zeros take less power to multiply, so a device that
// multiplies zeros runs at a higher clock rate than in training.
#include <cmath>

#include "backend/cuda/launch.h"
#include "base/philox.h"

namespace plimsoll::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Two numbers from each pair of words (Box and Muller 1958), so four per thread.
template <typename T>
__global__ void normal_numbers(T* to, std::int64_t count, std::uint32_t seed) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; 4 * at < count;
       at += stride) {
    const PhiloxOutput words =
        philox4x32<7>({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0}, {seed, 0});
    for (int pair = 0; pair < 2; ++pair) {
      const float radius = sqrtf(-2 * logf(1 - uniform_float(words[2 * pair])));
      const float angle = 6.2831853F * uniform_float(words[2 * pair + 1]);
      const std::int64_t first = 4 * at + 2 * pair;
      if (first < count) to[first] = from_float<T>(radius * cosf(angle));
      if (first + 1 < count) to[first + 1] = from_float<T>(radius * sinf(angle));
    }
  }
}

}  // namespace

void fill_normal(const Context& context, DType dtype, void* to, std::int64_t count, std::uint32_t seed) {
  const auto start = [&]<typename T>(T) {
    launch(context.stream(), normal_numbers<T>, {.blocks = blocks_for(count / 4 + 1, kThreads), .threads = kThreads},
           static_cast<T*>(to), count, seed);
  };
  if (dtype == DType::kF32) {
    start(float{});
  } else if (dtype == DType::kBF16) {
    start(Bf16{});
  } else {
    check(dtype == DType::kF16, "numbers are drawn in F32, BF16 and F16");
    start(F16{});
  }
  check_cuda(cudaGetLastError(), "the start of a kernel");
}

}  // namespace plimsoll::cuda
