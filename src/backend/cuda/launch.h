// What files that launch kernels share. Only files that a CUDA compiler, or the emulator, compiles include it.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels.h"

namespace plimsoll::cuda {

// A kernel whose `run` is a function of the arguments that launches kernels on the context's stream.
template <typename Body>
class LaunchKernel final : public Kernel {
 public:
  LaunchKernel(std::size_t scratch_bytes, Body body) : scratch_bytes_(scratch_bytes), body_(std::move(body)) {}
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void run(const KernelArguments& arguments) const override {
    body_(arguments);
    check_cuda(cudaGetLastError(), "the start of a kernel");
  }

 private:
  std::size_t scratch_bytes_;
  Body body_;
};

template <typename Body>
std::unique_ptr<Kernel> make_launch(std::size_t scratch_bytes, Body body) {
  return std::make_unique<LaunchKernel<Body>>(scratch_bytes, std::move(body));
}

// Calls make(T{}) with the C++ type of a floating dtype.
template <typename Make>
std::unique_ptr<Kernel> for_floating(DType dtype, const Make& make) {
  if (dtype == DType::kBF16) return make(Bf16{});
  if (dtype == DType::kF16) return make(F16{});
  check(dtype == DType::kF32, "the CUDA backend computes in F32, BF16 and F16");
  return make(float{});
}

// The leading rows of a matrix that are real: the count is on the device and read there, so that the host need not know
// it.
struct Rows {
  const std::int32_t* count;       // nullptr: all
  std::int64_t capacity, columns;  // capacity: the bound that the host knows

  __device__ std::int64_t real() const { return count == nullptr ? capacity : *count; }
  __device__ std::int64_t elements() const { return real() * columns; }
};

// Returns the rows of a tensor that is read as its first dimension times the rest.
inline Rows rows_of(const KernelArguments& a, const TensorView& view) {
  const std::int64_t rows = view.shape().rank() == 0 ? 1 : view.shape()[0];
  return {a.row_count, a.bound(rows), rows == 0 ? 0 : view.elements() / rows};
}

template <typename T>
const T* input(const KernelArguments& a, std::size_t index) {
  return a.inputs[index].data<T>();
}
template <typename T>
T* output(const KernelArguments& a, std::size_t index) {
  return a.outputs[index].data<T>();
}

// Returns how many blocks of `threads` cover `work` items, one per thread, but no more than fill any device several
// times: loops do the rest.
inline unsigned blocks_for(std::int64_t work, unsigned threads) {
  constexpr std::int64_t kMost = 4096;
  return static_cast<unsigned>(std::min(kMost, (work + threads - 1) / threads));
}

}  // namespace plimsoll::cuda
