// contrastive_loss, cached_gradient and put_rows: a warp takes a row at a time. The loss keeps no table of scores; a
// row meets the rows of the other side twice, for its sum and for its gradient.
#include "backend/cuda/blocks.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"

namespace plimsoll::cuda {
namespace {

constexpr std::int32_t kNoGroup = -100;
constexpr float kLeastLength = 1e-12F;  // as torch.nn.functional.normalize has it

__device__ std::int64_t partner(std::int64_t row) { return row % 2 == 0 ? row + 1 : row - 1; }

__device__ float row_dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = lane_index(); i < count; i += kWarp) sum = fmaf(a[i], b[i], sum);
  return warp_sum(sum);
}

struct Contrast {
  const std::int32_t* groups;
  const float* units;
  const double* log_sums;
  double temperature;
  std::int64_t width;

  __device__ bool counts(std::int64_t row) const {
    return groups[row] != kNoGroup && groups[row] == groups[partner(row)];
  }
  __device__ bool meets(std::int64_t row, std::int64_t other) const {
    return other == partner(row) || (groups[other] != kNoGroup && groups[other] != groups[row]);
  }
  __device__ double score(std::int64_t row, std::int64_t other) const {
    return double{row_dot(units + row * width, units + other * width, width)} / temperature;
  }
  // Returns the derivative of `row`'s share of the loss by its score with `other`.
  __device__ double slope(std::int64_t row, std::int64_t other, double of_score) const {
    if (!counts(row) || !meets(row, other)) return 0;
    return (exp(of_score - log_sums[row]) - (other == partner(row) ? 1 : 0)) / 2;
  }
};

__global__ void to_units(const float* x, float* units, float* lengths, Rows rows) {
  const std::int64_t real = rows.real(), width = rows.columns;
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    const float* const from = x + row * width;
    const float length = fmaxf(sqrtf(row_dot(from, from, width)), kLeastLength);
    for (std::int64_t c = lane_index(); c < width; c += kWarp) units[row * width + c] = from[c] / length;
    if (lane_index() == 0) lengths[row] = length;
  }
}

__global__ void sums_of_rows(Contrast contrast, double* log_sums, double* losses, Rows rows) {
  const std::int64_t real = rows.real() / 2 * 2;
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    double log_sum = 0, loss = 0;
    if (contrast.counts(row)) {
      double sum = 0;  // of exponentials of differences from the partner's score, so that a pair alone has loss 0
      const double of_partner = contrast.score(row, partner(row));
      for (std::int64_t other = partner(row) % 2; other < real; other += 2) {
        if (contrast.meets(row, other)) sum += exp(contrast.score(row, other) - of_partner);
      }
      log_sum = of_partner + log(sum);
      loss = log(sum) / 2;
    }
    if (lane_index() != 0) continue;
    log_sums[row] = log_sum;
    losses[row] = loss;
  }
}

__global__ void contrastive_gradient(Contrast contrast, const float* lengths, const float* loss_scale, float* gradient,
                                     Rows rows) {
  const std::int64_t real = rows.real(), paired = real / 2 * 2, width = rows.columns;
  const double scale = double{*loss_scale} / contrast.temperature;
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    float* const to = gradient + row * width;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) to[c] = 0;
    if (row >= paired) continue;
    const float* const unit = contrast.units + row * width;
    for (std::int64_t other = partner(row) % 2; other < paired; other += 2) {
      if (!contrast.meets(row, other) || !(contrast.counts(row) || contrast.counts(other))) continue;
      const double s = contrast.score(row, other);
      const auto factor = static_cast<float>((contrast.slope(row, other, s) + contrast.slope(other, row, s)) * scale);
      const float* const from = contrast.units + other * width;
      for (std::int64_t c = lane_index(); c < width; c += kWarp) to[c] = fmaf(factor, from[c], to[c]);
    }
    // A lane reads only its own columns, which it wrote.
    const float along = row_dot(to, unit, width), length = lengths[row];
    for (std::int64_t c = lane_index(); c < width; c += kWarp) to[c] = fmaf(-along, unit[c], to[c]) / length;
  }
}

__global__ void contrastive_sum(const double* losses, const float* loss_scale, float* loss, Rows rows) {
  const double sum = block_sum_of<kRowThreads>(losses, rows.real() / 2 * 2);
  if (threadIdx.x == 0) *loss = static_cast<float>(double{*loss_scale} * sum);
}

// Each block adds up kSumRows rows; x and gradient may be the same memory.
__global__ void cached_gradient(const float* x, const float* table, const std::int32_t* first, float* gradient,
                                double* partial, Rows rows) {
  const std::int64_t real = rows.real(), width = rows.columns, begin = blockIdx.x * kSumRows;
  const std::int64_t end = begin + kSumRows < real ? begin + kSumRows : real;
  const float* const slopes = table + *first * width;
  double sum = 0;
  for (std::int64_t i = begin * width + threadIdx.x; i < end * width; i += kRowThreads) {
    const float slope = slopes[i];
    sum += double{x[i]} * double{slope};
    gradient[i] = slope;
  }
  sum = block_sum<kRowThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void cached_sum(const double* partial, float* loss, Rows rows) {
  const double sum = block_sum_of<kRowThreads>(partial, row_sum_blocks(rows.real()));
  if (threadIdx.x == 0) *loss = static_cast<float>(sum);
}

// `index` has each row's place in the table, or only that of the first row.
template <typename T>
__global__ void put_rows(const T* from, const std::int32_t* index, bool is_first, T* table, Rows rows) {
  const std::int64_t real = rows.real(), width = rows.columns;
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    T* const to = table + (is_first ? *index + row : std::int64_t{index[row]}) * width;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) to[c] = from[row * width + c];
  }
}

template <typename T>
T* part(const KernelArguments& a, std::size_t offset) {
  return reinterpret_cast<T*>(a.scratch.data() + offset);
}

std::unique_ptr<Kernel> make_contrastive_loss(const Context& context, const TensorType& x, double temperature) {
  const ContrastiveScratch scratch(x);
  return make_launch(scratch.layout.bytes(), [&context, scratch, temperature](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    const Launch of_rows{.blocks = row_blocks(rows.capacity), .threads = kRowThreads};
    auto* const units = part<float>(a, scratch.units);
    auto* const lengths = part<float>(a, scratch.lengths);
    auto* const log_sums = part<double>(a, scratch.log_sums);
    auto* const losses = part<double>(a, scratch.losses);
    const Contrast contrast{input<std::int32_t>(a, 1), units, log_sums, temperature, rows.columns};
    launch(context.stream(), to_units, of_rows, input<float>(a, 0), units, lengths, rows);
    launch(context.stream(), sums_of_rows, of_rows, contrast, log_sums, losses, rows);
    launch(context.stream(), contrastive_gradient, of_rows, contrast, static_cast<const float*>(lengths),
           input<float>(a, 2), output<float>(a, 1), rows);
    launch(context.stream(), contrastive_sum, {.blocks = 1, .threads = kRowThreads}, static_cast<const double*>(losses),
           input<float>(a, 2), output<float>(a, 0), rows);
  });
}

std::unique_ptr<Kernel> make_put_rows(const Context& context, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    return make_launch(0, [&context](const KernelArguments& a) {
      const Rows rows = rows_of(a, a.inputs[1]);
      launch(context.stream(), put_rows<T>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
             input<T>(a, 1), input<std::int32_t>(a, 2), a.inputs[2].elements() == 1, output<T>(a, 0), rows);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_contrastive(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& x = graph.type(node.inputs[0]);
  if (node.op == Op::kPutRows) return make_put_rows(context, x.dtype);
  check(x.dtype == DType::kF32, "embeddings of pages are in F32");
  if (node.op == Op::kContrastiveLoss) {
    return make_contrastive_loss(context, x, std::get<ContrastiveAttributes>(node.attributes).temperature);
  }
  return make_launch(cross_entropy_scratch_bytes(x), [&context](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    auto* const partial = reinterpret_cast<double*>(a.scratch.data());
    launch(context.stream(), cached_gradient,
           {.blocks = static_cast<unsigned>(row_sum_blocks(rows.capacity)), .threads = kRowThreads}, input<float>(a, 0),
           input<float>(a, 1), input<std::int32_t>(a, 2), output<float>(a, 1), partial, rows);
    launch(context.stream(), cached_sum, {.blocks = 1, .threads = kRowThreads}, static_cast<const double*>(partial),
           output<float>(a, 0), rows);
  });
}

}  // namespace plimsoll::cuda
