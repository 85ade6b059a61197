// inverse_row_norms: one over the norms of the rows of weight + factor b a, one warp per row, without a tensor of the
// weight's size.
#include "backend/cuda/decode.h"
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {
namespace {

// element(row, column) returns the weight's element.
template <typename Element>
__global__ void inverse_row_norms(Element element, const float* a, const float* b, float* inverse, std::int64_t rows,
                                  std::int64_t width, std::int64_t rank, float factor) {
  for (std::int64_t row = first_row(); row < rows; row += row_stride()) {
    double squares = 0;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      float sum = 0;
      for (std::int64_t r = 0; r < rank; ++r) sum = fmaf(b[row * rank + r], a[r * width + c], sum);
      const float value = fmaf(factor, sum, element(row, c));
      squares += double{value} * double{value};
    }
    squares = warp_sum(squares);
    if (lane_index() == 0) inverse[row] = static_cast<float>(1 / sqrt(squares));
  }
}

template <typename T>
struct Stored {
  const T* weight;
  std::int64_t width;
  __device__ float operator()(std::int64_t row, std::int64_t column) const {
    return to_float(weight[row * width + column]);
  }
};

template <DType kCode>
struct Coded {
  const std::uint8_t* weight;
  std::int64_t row_bytes;
  __device__ float operator()(std::int64_t row, std::int64_t column) const {
    return decoded<kCode>(weight + row * row_bytes, column);
  }
};

template <typename MakeElement>
std::unique_ptr<Kernel> make(const Context& context, float factor, MakeElement make_element) {
  return make_launch(0, [&context, factor, make_element](const KernelArguments& a) {
    const auto element = make_element(a.inputs[0]);
    const std::int64_t rows = a.inputs[0].shape()[0], width = a.inputs[0].shape()[1];
    launch(context.stream(), inverse_row_norms<decltype(element)>, {.blocks = row_blocks(rows), .threads = kRowThreads},
           element, input<float>(a, 1), input<float>(a, 2), output<float>(a, 0), rows, width, a.inputs[1].shape()[0],
           factor);
  });
}

template <DType kCode>
std::unique_ptr<Kernel> make_coded(const Context& context, float factor) {
  return make(context, factor, [](const TensorView& weight) {
    return Coded<kCode>{static_cast<const std::uint8_t*>(weight.raw()),
                        static_cast<std::int64_t>(coded_row_bytes(kCode, weight.shape()[1]))};
  });
}

}  // namespace

std::unique_ptr<Kernel> make_inverse_row_norms(const Context& context, const Graph& graph, const Node& node) {
  const auto factor = static_cast<float>(std::get<ScaleAttributes>(node.attributes).factor);
  const DType dtype = graph.type(node.inputs[0]).dtype;
  if (dtype == DType::kQ8) return make_coded<DType::kQ8>(context, factor);
  if (dtype == DType::kNF4) return make_coded<DType::kNF4>(context, factor);
  return for_floating(dtype, [&]<typename T>(T) {
    return make(context, factor, [](const TensorView& weight) {
      return Stored<T>{static_cast<const T*>(weight.raw()), weight.shape()[1]};
    });
  });
}

}  // namespace plimsoll::cuda
