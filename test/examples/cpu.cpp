// Compiles the examples of src/backend/cpu, those of vectors for the least target that Highway compiles for.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/cpu/attention_problem.h"
#include "backend/cpu/blocked_product.h"
#include "backend/cpu/convert.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/few_rows_products.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/thread_floats.h"
#include "examples/use.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/simd_product-inl.h"
#include "backend/cpu/simd_transpose-inl.h"

namespace plimsoll::examples {

void of_attention_problem(const Graph& graph, const Node& node, const KernelArguments& arguments, std::int32_t* order) {
#include "backend/cpu/attention_problem.h.inc"
}

void of_blocked_product(const void* x, const void* weight, void* y, std::byte* scratch) {
#include "backend/cpu/blocked_product.h.inc"
}

void of_convert(const TensorView& x, const TensorView& wide, std::int64_t rows, std::int64_t width) {
#include "backend/cpu/convert.h.inc"
}

void of_cpu_backend(const Graph& graph, const Node& node) {
#include "backend/cpu/cpu_backend.h.inc"
}

void of_dnnl_matmul(const float* x, const float* weight, float* y, std::byte* scratch) {
#include "backend/cpu/dnnl_matmul.h.inc"
}

void of_parallel(std::int64_t rows){
#include "backend/cpu/parallel.h.inc"
}

std::unique_ptr<Kernel> of_few_rows_products(const Graph& graph, const Node& node) {
#include "backend/cpu/few_rows_products.h.inc"
  return nullptr;
}

std::unique_ptr<Kernel> of_thread_floats(ScratchLayout& layout, std::int64_t columns) {
#include "backend/cpu/thread_floats.h.inc"
  return make_kernel(run, layout.bytes());
}

}  // namespace plimsoll::examples

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

void of_simd_product(const float* v, std::int64_t width, std::int64_t head_size, std::int64_t keys,
                     const float* probabilities, std::int64_t tile, float* output) {
#include "backend/cpu/simd_product-inl.h.inc"
}

void of_simd_halves(DType dtype, const void* a, void* y) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0F);
#include "backend/cpu/simd_halves-inl.h.inc"
}

void of_simd_math(const float* from, float largest) {
  const auto scores = hn::LoadU(hn::ScalableTag<float>(), from);
  const auto maximum = hn::Set(hn::ScalableTag<float>(), largest);
#include "backend/cpu/simd_math-inl.h.inc"
}

void of_simd_transpose(const float* logits, std::int64_t rows, std::int64_t columns, float* to,
                       std::int64_t vocabulary) {
#include "backend/cpu/simd_transpose-inl.h.inc"
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();
