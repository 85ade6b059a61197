// relation_loss, one warp per head of a row: scores are computed again in each pass, so that they are never in memory.
#include "backend/cuda/blocks.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/relations.h"

namespace plimsoll::cuda {
namespace {

struct RelationSizes {
  std::int64_t rows, samples, heads;
  std::int64_t columns, teacher_columns;  // D and E
  float factor, teacher_factor;           // of the scores
  float scale;                            // of the loss, without loss_scale
};

// The rows of a sample.
struct SampleRows {
  std::int64_t begin, end;
};
// Returns the rows of the sample that has this row; none for a row beyond the last sample.
__device__ inline SampleRows sample_of(const std::int32_t* offsets, std::int64_t samples, std::int64_t row) {
  for (std::int64_t b = 0; b < samples; ++b) {
    if (row < offsets[b + 1]) return {offsets[b], offsets[b + 1]};
  }
  return {row, row};
}

__device__ inline float dot(const float* a, const float* b, std::int64_t width) {
  float sum = 0;
  for (std::int64_t c = 0; c < width; ++c) sum = fmaf(a[c], b[c], sum);
  return sum;
}

// Returns the logarithm of the sum of exponentials of the row's scores, in every lane.
__device__ inline float log_sum_of(const float* head, std::int64_t stride, std::int64_t width, std::int64_t row,
                                   SampleRows sample, float factor) {
  const float* const of_row = head + row * stride;
  float largest = -3.402823466e38F;
  for (std::int64_t j = sample.begin + lane_index(); j < sample.end; j += kWarp) {
    largest = fmaxf(largest, factor * dot(of_row, head + j * stride, width));
  }
  largest = warp_max(largest);
  double sum = 0;
  for (std::int64_t j = sample.begin + lane_index(); j < sample.end; j += kWarp) {
    sum += exp(double{factor * dot(of_row, head + j * stride, width)} - double{largest});
  }
  return static_cast<float>(double{largest} + log(warp_sum(sum)));
}

__global__ void relations(const float* x, const float* teacher, const std::int32_t* offsets, float* log_sums,
                          double* partial, RelationSizes s) {
  const std::int64_t width = s.columns / s.heads, wide = s.teacher_columns / s.heads;
  for (std::int64_t item = first_row(); item < s.heads * s.rows; item += row_stride()) {
    const std::int64_t head = item / s.rows, row = item % s.rows;
    const SampleRows sample = sample_of(offsets, s.samples, row);
    double divergence = 0;
    if (sample.begin < sample.end) {
      const float *of_x = x + head * width, *of_teacher = teacher + head * wide;
      const float log_q_sum = log_sum_of(of_x, s.columns, width, row, sample, s.factor);
      const float log_p_sum = log_sum_of(of_teacher, s.teacher_columns, wide, row, sample, s.teacher_factor);
      for (std::int64_t j = sample.begin + lane_index(); j < sample.end; j += kWarp) {
        const float log_q = s.factor * dot(of_x + row * s.columns, of_x + j * s.columns, width) - log_q_sum;
        const float log_p =
            s.teacher_factor * dot(of_teacher + row * s.teacher_columns, of_teacher + j * s.teacher_columns, wide) -
            log_p_sum;
        divergence += exp(double{log_p}) * (double{log_p} - double{log_q});
      }
      divergence = warp_sum(divergence);
      if (lane_index() == 0) {
        log_sums[2 * item] = log_q_sum;
        log_sums[2 * item + 1] = log_p_sum;
      }
    }
    if (lane_index() == 0) partial[item] = divergence;
  }
}

// A score belongs to two rows; its derivatives for the two differ in the sums that they are divided by.
__global__ void relations_grad(const float* x, const float* teacher, const std::int32_t* offsets, const float* log_sums,
                               const float* loss_scale, float* gradient, RelationSizes s) {
  const std::int64_t width = s.columns / s.heads, wide = s.teacher_columns / s.heads;
  const float scale = s.scale * *loss_scale * s.factor;
  for (std::int64_t item = first_row(); item < s.heads * s.rows; item += row_stride()) {
    const std::int64_t head = item / s.rows, row = item % s.rows;
    const SampleRows sample = sample_of(offsets, s.samples, row);
    if (sample.begin == sample.end) continue;
    const float *of_x = x + head * width, *of_teacher = teacher + head * wide;
    const float* const own = log_sums + 2 * item;
    for (std::int64_t first = 0; first < width; first += kWarp) {
      const std::int64_t c = first + lane_index();
      double sum = 0;
      for (std::int64_t j = sample.begin; j < sample.end; ++j) {
        const float q = s.factor * dot(of_x + row * s.columns, of_x + j * s.columns, width);
        const float p =
            s.teacher_factor * dot(of_teacher + row * s.teacher_columns, of_teacher + j * s.teacher_columns, wide);
        const float* const other = log_sums + 2 * (head * s.rows + j);
        const float slope = expf(q - own[0]) - expf(p - own[1]) + (expf(q - other[0]) - expf(p - other[1]));
        if (c < width) sum += double{slope} * double{of_x[j * s.columns + c]};
      }
      if (c < width) gradient[row * s.columns + head * width + c] = static_cast<float>(double{scale} * sum);
    }
  }
}

__global__ void relation_sum(const double* partial, const float* loss_scale, float* loss, RelationSizes s) {
  const double sum = block_sum_of<kRowThreads>(partial, s.heads * s.rows);
  if (threadIdx.x == 0) *loss = static_cast<float>(double{s.scale} * double{*loss_scale} * sum);
}

}  // namespace

std::unique_ptr<Kernel> make_relation_loss(const Context& context, const Graph& graph, const Node& node) {
  const TensorType &x = graph.type(node.inputs[0]), &teacher = graph.type(node.inputs[1]);
  const auto attributes = std::get<RelationAttributes>(node.attributes);
  check(x.dtype == DType::kF32, "relations are computed of F32");
  const auto factor = [&](std::int64_t columns) {
    return 1 / std::sqrt(static_cast<float>(columns / attributes.heads));
  };
  const RelationSizes sizes{.rows = x.shape[0],
                            .samples = graph.type(node.inputs[2]).shape[0] - 1,
                            .heads = attributes.heads,
                            .columns = x.shape[1],
                            .teacher_columns = teacher.shape[1],
                            .factor = factor(x.shape[1]),
                            .teacher_factor = factor(teacher.shape[1]),
                            .scale = static_cast<float>(attributes.weight / static_cast<double>(attributes.heads))};
  const RelationScratch scratch(x, attributes);
  return make_launch(scratch.layout.bytes(), [&context, sizes, scratch](const KernelArguments& a) {
    auto* const log_sums = scratch_at<float>(a, scratch.log_sums);
    auto* const partial = scratch_at<double>(a, scratch.partial);
    const Launch of_rows{.blocks = row_blocks(sizes.heads * sizes.rows), .threads = kRowThreads};
    launch(context.stream(), relations, of_rows, input<float>(a, 0), input<float>(a, 1), input<std::int32_t>(a, 2),
           log_sums, partial, sizes);
    launch(context.stream(), relations_grad, of_rows, input<float>(a, 0), input<float>(a, 1), input<std::int32_t>(a, 2),
           log_sums, input<float>(a, 3), output<float>(a, 1), sizes);
    launch(context.stream(), relation_sum, {.blocks = 1, .threads = kRowThreads}, partial, input<float>(a, 3),
           output<float>(a, 0), sizes);
  });
}

}  // namespace plimsoll::cuda
