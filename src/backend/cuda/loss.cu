// cross_entropy: the summed loss and its gradient in one pass, in double, since there are few classes. A warp a row;
// each block adds up the losses of kSumRows rows, and one block those sums.
#include "backend/cuda/blocks.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"

namespace plimsoll::cuda {
namespace {

constexpr std::int32_t kIgnoredLabel = -100;

// The row's loss, in every lane. A lane reads and writes its own columns alone, so that gradient may be logits.
__device__ double cross_entropy_row(const float* logits, std::int32_t label, double scale, float* gradient,
                                    std::int64_t classes) {
  float largest = logits[0];
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) largest = fmaxf(largest, logits[c]);
  largest = warp_max(largest);
  double sum = 0, of_label = 0;
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
    const double logit = logits[c];
    sum += exp(logit - double{largest});
    if (c == label) of_label = logit;
  }
  const double log_sum_exp = double{largest} + log(warp_sum(sum));
  of_label = warp_sum(of_label);  // one lane's, and zeros
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
    const double probability = exp(double{logits[c]} - log_sum_exp);
    gradient[c] = static_cast<float>(scale * (probability - (c == label ? 1.0 : 0.0)));
  }
  return log_sum_exp - of_label;
}

__global__ void cross_entropy(const float* logits, const std::int32_t* labels, const float* loss_scale, float* gradient,
                              double* partial, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  const std::int64_t first = blockIdx.x * kSumRows, end = first + kSumRows < real ? first + kSumRows : real;
  const double scale = *loss_scale;
  double loss = 0;
  for (std::int64_t row = first + threadIdx.x / kWarp; row < end; row += kRowWarps) {
    float* const to = gradient + row * classes;
    if (labels[row] == kIgnoredLabel) {
      for (std::int64_t c = lane_index(); c < classes; c += kWarp) to[c] = 0;
    } else {
      loss += cross_entropy_row(logits + row * classes, labels[row], scale, to, classes);
    }
  }
  loss = block_sum<kRowThreads>(lane_index() == 0 ? loss : 0);
  if (threadIdx.x == 0) partial[blockIdx.x] = loss;
}

__global__ void whole_loss(const double* partial, const float* loss_scale, float* loss, Rows rows) {
  const double sum = block_sum_of<kRowThreads>(partial, row_sum_blocks(rows.real()));
  if (threadIdx.x == 0) *loss = static_cast<float>(double{*loss_scale} * sum);
}

}  // namespace

std::unique_ptr<Kernel> make_loss(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& logits = graph.type(node.inputs[0]);
  check(node.op == Op::kCrossEntropy && logits.dtype == DType::kF32, "make_loss knows the op and its type");
  return make_launch(cross_entropy_scratch_bytes(logits), [&context](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    auto* const partial = reinterpret_cast<double*>(a.scratch.data());
    launch(context.stream(), cross_entropy,
           {.blocks = static_cast<unsigned>(row_sum_blocks(rows.capacity)), .threads = kRowThreads}, input<float>(a, 0),
           input<std::int32_t>(a, 1), input<float>(a, 2), output<float>(a, 1), partial, rows);
    launch(context.stream(), whole_loss, {.blocks = 1, .threads = kRowThreads}, partial, input<float>(a, 2),
           output<float>(a, 0), rows);
  });
}

}  // namespace plimsoll::cuda
