// linear_int8: rows of x and of the weight are rounded to bytes in scratch, the bytes are multiplied by oneDNN, and the
// sums, which are exact, are multiplied by their factors into the result.
#include "backend/cpu/int8_products.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/decode.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/product_parts.h"
#include "backend/scratch.h"
#include "tensor/block_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/int8_products.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Vectors of at most 16 floats: a narrower row is coded element by element.
using Sixteen = hn::CappedTag<float, 16>;

// Returns the bits of the largest magnitude: floats without a sign are ordered like their bits, and infinity and NaN
// are above every finite number.
template <class T>
HWY_INLINE std::int32_t largest_bits(const T* row, std::size_t count) {
  const Sixteen d;
  const hn::RebindToSigned<Sixteen> di;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  auto largest = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, load_floats(d, row + i)), magnitude));
  }
  std::int32_t bits = hn::GetLane(hn::MaxOfLanes(di, largest));
  const hn::CappedTag<float, 1> one;
  const hn::RebindToSigned<decltype(one)> one_bits;
  for (; i < count; ++i) {
    bits = std::max(bits, hn::GetLane(hn::BitCast(one_bits, load_floats(one, row + i))) & 0x7FFFFFFF);
  }
  return bits;
}

template <class D, class T>
HWY_INLINE void store_codes(D d, const T* from, float inverse, std::int8_t* to) {
  const hn::Rebind<std::int8_t, D> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(hn::Mul(load_floats(d, from), hn::Set(d, inverse)))), bytes, to);
}

// Writes the row's codes and returns the value of a code of 1: NaN for a row that is not finite.
float quantize_row(DType dtype, const void* row, std::size_t count, std::int8_t* codes) {
  float factor = 0;
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    const T* const from = static_cast<const T*>(row);
    const std::int32_t bits = largest_bits(from, count);
    constexpr std::int32_t kInfinity = 0x7F800000;
    if (bits >= kInfinity || bits == 0) {
      std::fill_n(codes, count, std::int8_t{0});
      factor = bits == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
      return;
    }
    float largest = 0;
    std::memcpy(&largest, &bits, sizeof largest);
    const float inverse = 127.0F / largest;
    const Sixteen d;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) store_codes(d, from + i, inverse, codes + i);
    for (; i < count; ++i) store_codes(hn::CappedTag<float, 1>(), from + i, inverse, codes + i);
    factor = largest / 127.0F;
  });
  return factor;
}

// to[i] = sums[i] * row_factor * factors[i] (+ bias[i]); `to` may be the sums' own bytes.
void finish_row(const std::int32_t* sums, float row_factor, const float* factors, const float* bias, std::size_t count,
                DType dtype, void* to) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    const auto part = [&](auto d, std::size_t i) {
      const hn::RebindToSigned<decltype(d)> di;
      const auto factor = hn::Mul(hn::Set(d, row_factor), hn::LoadU(d, factors + i));
      auto y = hn::Mul(hn::ConvertTo(d, hn::LoadU(di, sums + i)), factor);
      if (bias != nullptr) y = hn::Add(y, hn::LoadU(d, bias + i));
      store_floats(y, d, static_cast<T*>(to) + i);
    };
    const Sixteen d;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) part(d, i);
    for (; i < count; ++i) part(hn::CappedTag<float, 1>(), i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(quantize_row);
HWY_EXPORT(finish_row);

void multiply_int8_by_loops(const std::int8_t* a, const std::int8_t* b, std::int64_t rows, std::int64_t columns,
                            std::int64_t inner, std::int32_t* sums) {
  parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        std::int32_t sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) sum += a[row * inner + k] * b[column * inner + k];
        sums[row * columns + column] = sum;
      }
    }
  });
}

namespace {

class Int8Product final : public Kernel {
 public:
  Int8Product(MatmulCache& cache, const Graph& graph, const Node& node)
      : type_(graph.type(node.inputs[0]).dtype),
        weight_(graph.type(node.inputs[1])),
        capacity_(graph.type(node.inputs[0]).shape[0]),
        inner_(weight_.shape[1]),
        columns_(weight_.shape[0]),
        chunk_(type_ == DType::kF32 ? capacity_ : std::min(kChunk, capacity_)),
        threads_(omp_get_max_threads()),
        quantize_(HWY_DYNAMIC_DISPATCH(quantize_row)),
        finish_(HWY_DYNAMIC_DISPATCH(finish_row)) {
    std::size_t library_bytes = 0;
    parts_.shape = {
        .columns = columns_, .inner = inner_, .operands = DType::kI8, .result = DType::kI32, .transposed_b = true};
    if (multiplies_int8()) {
      products_.fill(1, chunk_, [&](std::int64_t rows) {
        MatmulShape shape = parts_.shape;
        shape.rows = rows;
        auto product = cache.matmul(shape);
        library_bytes = std::max(library_bytes, product->scratch_bytes());
        return product;
      });
    }
    ScratchLayout layout;
    parts_.lay_out(layout, library_bytes);
    weight_at_ = layout.add<std::int8_t>(columns_ * inner_);
    weight_factors_at_ = layout.add<float>(columns_);
    x_at_ = layout.add<std::int8_t>(chunk_ * inner_);
    x_factors_at_ = layout.add<float>(chunk_);
    decoded_at_ = layout.add<float>(is_coded(weight_.dtype) ? threads_ * inner_ : 0);
    sums_at_ = layout.add<std::int32_t>(stores_directly() ? 0 : chunk_ * columns_);
    scratch_bytes_ = layout.bytes();
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = arguments.rows(capacity_);
    if (rows == 0) return;
    quantize_weight(arguments);
    auto* const codes = scratch_at<std::int8_t>(arguments, x_at_);
    auto* const factors = scratch_at<float>(arguments, x_factors_at_);
    const auto* const weight = scratch_at<std::int8_t>(arguments, weight_at_);
    const auto* const weight_factors = scratch_at<float>(arguments, weight_factors_at_);
    const float* const bias = arguments.inputs.size() > 2 ? arguments.inputs[2].data<float>() : nullptr;
    for (std::int64_t first = 0; first < rows; first += chunk_) {
      const std::int64_t count = std::min(chunk_, rows - first);
      const void* const x = at(arguments.inputs[0].raw(), type_, first * inner_);
      parallel_for(count, kStep, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          factors[row] =
              quantize_(type_, at(x, type_, row * inner_), static_cast<std::size_t>(inner_), codes + row * inner_);
        }
      });
      void* const y = at(arguments.outputs[0].raw(), type_, first * columns_);
      auto* const sums =
          stores_directly() ? static_cast<std::int32_t*>(y) : scratch_at<std::int32_t>(arguments, sums_at_);
      if (multiplies_int8()) {
        parts_.multiply(products_, count, codes, weight, nullptr, sums, arguments.scratch.data());
      } else {
        multiply_int8_by_loops(codes, weight, count, columns_, inner_, sums);
      }
      parallel_for(count, kStep, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          finish_(sums + row * columns_, factors[row], weight_factors, bias, static_cast<std::size_t>(columns_), type_,
                  at(y, type_, row * columns_));
        }
      });
    }
  }

 private:
  // Sums are as wide as floats, so that those of F32 rows need no memory of their own.
  bool stores_directly() const { return type_ == DType::kF32; }

  void quantize_weight(const KernelArguments& arguments) const {
    const TensorView& weight = arguments.inputs[1];
    auto* const codes = scratch_at<std::int8_t>(arguments, weight_at_);
    auto* const factors = scratch_at<float>(arguments, weight_factors_at_);
    auto* const decoded = scratch_at<float>(arguments, decoded_at_);
    const bool coded = is_coded(weight_.dtype);
    const std::size_t row_bytes = coded ? coded_row_bytes(weight_.dtype, inner_) : bytes_of(weight_.dtype, inner_);
    parallel_for(columns_, kStep, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const void* from = static_cast<const std::byte*>(weight.raw()) + static_cast<std::size_t>(row) * row_bytes;
        if (coded) {
          float* const own = decoded + omp_get_thread_num() * inner_;
          decode_columns(weight_.dtype, from, 0, inner_, own);
          from = own;
        }
        factors[row] = quantize_(coded ? DType::kF32 : weight_.dtype, from, static_cast<std::size_t>(inner_),
                                 codes + row * inner_);
      }
    });
  }

  DType type_;
  TensorType weight_;
  std::int64_t capacity_, inner_, columns_;
  std::int64_t chunk_;  // rows that are multiplied at a time
  std::int64_t threads_;
  float (*quantize_)(DType, const void*, std::size_t, std::int8_t*);
  void (*finish_)(const std::int32_t*, float, const float*, const float*, std::size_t, DType, void*);
  Ladder products_{chunk_};
  RowParts parts_{};
  std::size_t weight_at_ = 0, weight_factors_at_ = 0, x_at_ = 0, x_factors_at_ = 0, decoded_at_ = 0, sums_at_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_int8(const Graph& graph, const Node& node, MatmulCache& cache) {
  return std::make_unique<Int8Product>(cache, graph, node);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
