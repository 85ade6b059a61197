// contrastive_loss and cached_gradient. In the loss a thread takes rows and meets the rows of the other side
// twice: once for each row's sum, once for the gradient. No table of scores is kept, which for 4,096 pairs would be 64
// MiB; every sum has one owner and one order, so results do not depend on the team.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/contrastive.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(row_dot);
HWY_EXPORT(row_add);

constexpr std::int32_t kNoGroup = -100;
constexpr float kLeastLength = 1e-12F;  // as torch.nn.functional.normalize has it

std::int64_t partner(std::int64_t row) { return row % 2 == 0 ? row + 1 : row - 1; }

struct Groups {
  const std::int32_t* of;

  bool counts(std::int64_t row) const { return of[row] != kNoGroup && of[row] == of[partner(row)]; }
  bool meets(std::int64_t row, std::int64_t other) const {
    return other == partner(row) || (of[other] != kNoGroup && of[other] != of[row]);
  }
};

struct ContrastiveScratch {
  explicit ContrastiveScratch(const Shape& x)
      : units(layout.add<float>(x.elements())),
        lengths(layout.add<float>(x[0])),
        log_sums(layout.add<double>(x[0])),
        losses(layout.add<double>(x[0])) {}

  ScratchLayout layout;
  std::size_t units, lengths, log_sums, losses;
};

}  // namespace

std::unique_ptr<Kernel> make_contrastive_loss(const Graph& graph, const Node& node) {
  const Shape shape = graph.type(node.inputs[0]).shape;
  const std::int64_t capacity = shape[0], width = shape[1];
  const double temperature = std::get<ContrastiveAttributes>(node.attributes).temperature;
  const ContrastiveScratch scratch(shape);
  const auto dot = HWY_DYNAMIC_DISPATCH(row_dot);
  const auto add = HWY_DYNAMIC_DISPATCH(row_add);
  const auto run = [=](const KernelArguments& a) {
    const float* const x = a.inputs[0].data<float>();
    const Groups groups{a.inputs[1].data<std::int32_t>()};
    const double loss_scale = *a.inputs[2].data<float>();
    float* const gradient = a.outputs[1].data<float>();
    float* const units = scratch_at<float>(a, scratch.units);
    float* const lengths = scratch_at<float>(a, scratch.lengths);
    double* const log_sums = scratch_at<double>(a, scratch.log_sums);
    double* const losses = scratch_at<double>(a, scratch.losses);
    const std::int64_t real = a.rows(capacity), rows = real / 2 * 2;
    const auto size = static_cast<std::size_t>(width);
    parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const float* const from = x + row * width;
        lengths[row] = std::max(std::sqrt(dot(from, from, size)), kLeastLength);
        for (std::int64_t c = 0; c < width; ++c) units[row * width + c] = from[c] / lengths[row];
      }
    });
    const auto score = [&](std::int64_t row, std::int64_t other) {
      // The result is the same number in either order of the two.
      return double{dot(units + row * width, units + other * width, size)} / temperature;
    };
    parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        losses[row] = 0;
        if (!groups.counts(row)) continue;
        double sum = 0;  // of exponentials of differences from the partner's score, so that a pair alone has loss 0
        const double of_partner = score(row, partner(row));
        for (std::int64_t other = partner(row) % 2; other < rows; other += 2) {
          if (groups.meets(row, other)) sum += std::exp(score(row, other) - of_partner);
        }
        log_sums[row] = of_partner + std::log(sum);
        losses[row] = std::log(sum) / 2;
      }
    });
    // The derivative of `row`'s share of the loss by its score with `other`.
    const auto slope = [&](std::int64_t row, std::int64_t other, double of_score) {
      if (!groups.counts(row) || !groups.meets(row, other)) return 0.0;
      return (std::exp(of_score - log_sums[row]) - (other == partner(row) ? 1 : 0)) / 2;
    };
    parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float* const to = gradient + row * width;
        std::fill_n(to, width, 0.0F);
        for (std::int64_t other = partner(row) % 2; other < rows; other += 2) {
          if (!groups.meets(row, other) || !(groups.counts(row) || groups.counts(other))) continue;
          const double s = score(row, other);
          const double factor = (slope(row, other, s) + slope(other, row, s)) * loss_scale / temperature;
          add(static_cast<float>(factor), units + other * width, to, size);
        }
        const float along = dot(to, units + row * width, size);
        add(-along, units + row * width, to, size);
        for (std::int64_t c = 0; c < width; ++c) to[c] /= lengths[row];
      }
    });
    std::fill(gradient + rows * width, gradient + real * width, 0.0F);
    double loss = 0;
    for (std::int64_t row = 0; row < rows; ++row) loss += losses[row];
    *a.outputs[0].data<float>() = static_cast<float>(loss_scale * loss);
  };
  return make_kernel(run, scratch.layout.bytes());
}

// A chunk has few rows: one thread adds them up in order.
std::unique_ptr<Kernel> make_cached_gradient(const Graph& graph, const Node& node) {
  const Shape shape = graph.type(node.inputs[0]).shape;
  const std::int64_t capacity = shape[0], width = shape[1];
  const auto run = [=](const KernelArguments& a) {
    const float* const x = a.inputs[0].data<float>();
    const float* const table = a.inputs[1].data<float>() + *a.inputs[2].data<std::int32_t>() * width;
    float* const gradient = a.outputs[1].data<float>();
    double loss = 0;
    for (std::int64_t i = 0; i < a.rows(capacity) * width; ++i) {
      loss += double{x[i]} * double{table[i]};
      gradient[i] = table[i];
    }
    *a.outputs[0].data<float>() = static_cast<float>(loss);
  };
  return make_kernel(run);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
