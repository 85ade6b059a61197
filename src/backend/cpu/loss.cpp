// cross_entropy computes the summed loss and its gradient in one pass, in double, which is cheap with few classes.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/scratch.h"

namespace plimsoll {
namespace {

constexpr std::int32_t kIgnoredLabel = -100;

// Returns -log softmax(logits)[label]; gradient = scale (softmax - one hot of label), which may alias logits.
double cross_entropy_row(const float* logits, std::int32_t label, double scale, float* gradient, std::int64_t classes) {
  if (label == kIgnoredLabel) {
    std::fill_n(gradient, classes, 0.0F);
    return 0;
  }
  double largest = logits[0];
  for (std::int64_t c = 1; c < classes; ++c) largest = std::max(largest, double{logits[c]});
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
  const double log_sum_exp = largest + std::log(sum);
  const double loss = log_sum_exp - logits[label];
  for (std::int64_t c = 0; c < classes; ++c) {
    const double probability = std::exp(logits[c] - log_sum_exp);
    gradient[c] = static_cast<float>(scale * (probability - (c == label ? 1.0 : 0.0)));
  }
  return loss;
}

}  // namespace

// The scratch holds the loss of each block of kSumBlock rows.
std::unique_ptr<Kernel> make_cross_entropy(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t classes = graph.type(node.inputs[0]).shape[1];
  const std::int64_t max_blocks = (capacity + kSumBlock - 1) / kSumBlock;
  const auto run = [=](const KernelArguments& a) {
    const float* const logits = a.inputs[0].data<float>();
    const std::int32_t* const labels = a.inputs[1].data<std::int32_t>();
    const double scale = *a.inputs[2].data<float>();
    float* const gradient = a.outputs[1].data<float>();
    double* const partial = scratch_at<double>(a, 0);
    const std::int64_t rows = a.rows(capacity);
    const std::int64_t blocks = (rows + kSumBlock - 1) / kSumBlock;
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        partial[block] = 0;
        for (std::int64_t row = block * kSumBlock; row < std::min(rows, (block + 1) * kSumBlock); ++row) {
          partial[block] +=
              cross_entropy_row(logits + row * classes, labels[row], scale, gradient + row * classes, classes);
        }
      }
    });
    double loss = 0;
    for (std::int64_t block = 0; block < blocks; ++block) loss += partial[block];
    *a.outputs[0].data<float>() = static_cast<float>(scale * loss);
  };
  return make_kernel(run, static_cast<std::size_t>(max_blocks) * sizeof(double));
}

}  // namespace plimsoll
