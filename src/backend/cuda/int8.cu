// linear_int8: both operands' rows are rounded to codes, one warp per row; then one warp computes a row of the product,
// one column per lane. It defines the op on a GPU and is not fast: plans for GPUs have no such node
// (Backend::multiplies_int8).
#include "backend/cuda/decode.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/int8.h"

namespace plimsoll::cuda {
namespace {

template <typename T>
struct StoredRow {
  const T* rows;
  std::int64_t width;
  __device__ float operator()(std::int64_t row, std::int64_t column) const {
    return to_float(rows[row * width + column]);
  }
};

template <DType kCode>
struct CodedRow {
  const std::uint8_t* rows;
  std::int64_t row_bytes;
  __device__ float operator()(std::int64_t row, std::int64_t column) const {
    return decoded<kCode>(rows + row * row_bytes, column);
  }
};

// A row that is not finite has a factor of NaN.
template <typename Element>
__global__ void quantize_rows(Element element, std::int8_t* codes, float* factors, Rows rows) {
  const std::int64_t count = rows.real(), width = rows.columns;
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    float largest = 0, faults = 0;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      const float magnitude = fabsf(element(row, c));
      if (!(magnitude <= 3.402823466e38F)) faults = 1;
      largest = fmaxf(largest, magnitude);
    }
    largest = warp_max(largest);
    const bool finite = warp_max(faults) == 0;
    const float inverse = finite && largest > 0 ? 127.0F / largest : 0.0F;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      codes[row * width + c] = finite ? static_cast<std::int8_t>(rintf(element(row, c) * inverse)) : std::int8_t{0};
    }
    if (lane_index() == 0) factors[row] = finite ? largest / 127.0F : nanf("");
  }
}

template <typename T>
__global__ void int8_product(const std::int8_t* x, const float* x_factors, const std::int8_t* weight,
                             const float* weight_factors, const float* bias, T* y, std::int64_t inner, Rows rows) {
  const std::int64_t count = rows.real(), columns = rows.columns;
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    for (std::int64_t m = lane_index(); m < columns; m += kWarp) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += static_cast<std::int32_t>(x[row * inner + k]) * static_cast<std::int32_t>(weight[m * inner + k]);
      }
      const float value = static_cast<float>(sum) * (x_factors[row] * weight_factors[m]);
      y[row * columns + m] = from_float<T>(bias == nullptr ? value : value + bias[m]);
    }
  }
}

template <typename Element>
void quantize(const Context& context, const Element& element, std::int8_t* codes, float* factors, const Rows& rows) {
  launch(context.stream(), quantize_rows<Element>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
         element, codes, factors, rows);
}

template <DType kCode>
void quantize_coded(const Context& context, const TensorView& weight, std::int8_t* codes, float* factors,
                    const Rows& rows) {
  const CodedRow<kCode> element{static_cast<const std::uint8_t*>(weight.raw()),
                                static_cast<std::int64_t>(coded_row_bytes(kCode, weight.shape()[1]))};
  quantize(context, element, codes, factors, rows);
}

void quantize_weight(const Context& context, const TensorView& weight, std::int8_t* codes, float* factors) {
  const Rows rows{.count = nullptr, .capacity = weight.shape()[0], .columns = weight.shape()[1]};
  if (weight.dtype() == DType::kQ8) return quantize_coded<DType::kQ8>(context, weight, codes, factors, rows);
  if (weight.dtype() == DType::kNF4) return quantize_coded<DType::kNF4>(context, weight, codes, factors, rows);
  const auto stored = [&]<typename T>(T) {
    quantize(context, StoredRow<T>{static_cast<const T*>(weight.raw()), rows.columns}, codes, factors, rows);
  };
  if (weight.dtype() == DType::kBF16) return stored(Bf16{});
  if (weight.dtype() == DType::kF16) return stored(F16{});
  stored(float{});
}

}  // namespace

std::unique_ptr<Kernel> make_linear_int8(const Context& context, const Graph& graph, const Node& node) {
  const TensorType &x_type = graph.type(node.inputs[0]), &weight_type = graph.type(node.inputs[1]);
  const Int8Scratch scratch(x_type, weight_type);
  return for_floating(x_type.dtype, [&]<typename T>(T) {
    return make_launch(scratch.layout.bytes(), [&context, scratch](const KernelArguments& a) {
      auto* const x_codes = scratch_at<std::int8_t>(a, scratch.x_codes);
      auto* const x_factors = scratch_at<float>(a, scratch.x_factors);
      auto* const codes = scratch_at<std::int8_t>(a, scratch.weight_codes);
      auto* const factors = scratch_at<float>(a, scratch.weight_factors);
      const Rows x_rows = rows_of(a, a.inputs[0]), y_rows = rows_of(a, a.outputs[0]);
      quantize_weight(context, a.inputs[1], codes, factors);
      quantize(context, StoredRow<T>{input<T>(a, 0), x_rows.columns}, x_codes, x_factors, x_rows);
      launch(context.stream(), int8_product<T>, {.blocks = row_blocks(y_rows.capacity), .threads = kRowThreads},
             x_codes, x_factors, codes, factors, a.inputs.size() > 2 ? input<float>(a, 2) : nullptr, output<T>(a, 0),
             x_rows.columns, y_rows);
    });
  });
}

}  // namespace plimsoll::cuda
