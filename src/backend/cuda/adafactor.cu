// adafactor, adafactor_rows; the reference kernel says which of Adafactor's choices apply. Scalars are in double and
// rounded to float where they meet a tensor; tensor operations are in float; sums are in double, in blocks of rows that
// depend on the shape alone.
//
// It makes three passes over the gradient: means of rows and columns; the update's root mean square; the update. A
// vector is a matrix of one row that has no row mean. For a gradient by rows, only the last pass walks over the whole
// table.
#include "backend/cuda/blocks.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/adafactor.h"
#include "backend/cuda/update_parts.h"
#include "backend/scratch.h"

namespace plimsoll::cuda {
namespace {

constexpr unsigned kMeanThreads = 512;
using Blocks = AdafactorBlocks;
constexpr std::int64_t kUnitRows = Blocks::kUnitRows;
static_assert(kUnitRows == 4 * kRowWarps);

// A node's blocks, and the addresses of its intermediate results in scratch.
struct Numbers {
  double* row_squares;              // [rows of the table] sums of squared gradients
  double* column_squares;           // [blocks][width]
  double* unit_squares;             // [blocks of kUnitRows]
  float* mean_of_rows;              // [matrices] of the row means
  float* column_factors;            // [matrices][width]
  float* divisor;                   // [1] of the update
  float *row_means, *column_means;  // the states; row_means nullptr: a vector
};

struct Settings {
  double eps, clip_threshold, decay_rate, weight_decay, rate_factor;
};

// How a state is averaged with a new mean.
struct Average {
  float decay, one_minus_decay;
  __device__ float operator()(float state, double mean) const {
    return state * decay + one_minus_decay * static_cast<float>(mean);
  }
};
// All threads of the block must call it.
__device__ Average average_at(std::int32_t step, double decay_rate) {
  PLIMSOLL_SHARED Average average;
  if (threadIdx.x == 0) {
    const double decay = 1.0 - pow(static_cast<double>(step), decay_rate);
    average = {static_cast<float>(decay), static_cast<float>(1.0 - decay)};
  }
  __syncthreads();
  return average;
}

// One warp per row of the gradient.
template <int N>
__global__ void sum_row_squares(Gradient gradient, const float* clip_at, double* row_squares) {
  const float clip = *clip_at;
  if (is_skipped(clip_at)) return;
  const std::int64_t count = gradient.rows();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    double sum = 0;
    for (std::int64_t c = lane_index() * N; c < gradient.width; c += kWarp * N) {
      float each[N];
      load(gradient.values + row * gradient.width + c, N, each);
      for (const float value : each) {
        const double g = double{value * clip};
        sum += g * g;
      }
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) row_squares[gradient.table_row(row)] = sum;
  }
}

// One block for each of Blocks, and N columns per lane; every warp takes every eighth row.
template <int N>
__global__ void sum_column_squares(Gradient gradient, const float* clip_at, Blocks blocks, double* column_squares) {
  PLIMSOLL_SHARED double sums[kRowWarps][kWarp * N];
  const float clip = *clip_at;
  if (is_skipped(clip_at)) return;
  const std::int64_t matrix = blockIdx.x / blocks.matrix_blocks;
  const std::int64_t summed = gradient.ids == nullptr ? blocks.summed_rows : gradient.rows();
  const std::int64_t begin = blockIdx.x % blocks.matrix_blocks * blocks.block_rows;
  const std::int64_t end = std::min(begin + blocks.block_rows, summed);
  const float* const values = gradient.values + matrix * blocks.matrix_rows * gradient.width;
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane_index()) * N;
  const unsigned warp = threadIdx.x / kWarp;
  double sum[N] = {};
  if (c < gradient.width) {
    for (std::int64_t row = begin + warp; row < end; row += kRowWarps) {
      float each[N];
      load(values + row * gradient.width + c, N, each);
      for (int n = 0; n < N; ++n) {
        const double g = double{each[n] * clip};
        sum[n] += g * g;
      }
    }
  }
  for (int n = 0; n < N; ++n) sums[warp][lane_index() * N + n] = sum[n];
  __syncthreads();
  if (warp > 0 || c >= gradient.width) return;
  for (int n = 0; n < N; ++n) {
    double whole = 0;
    for (unsigned each = 0; each < kRowWarps; ++each) whole += sums[each][lane_index() * N + n];
    column_squares[blockIdx.x * gradient.width + c + n] = whole;
  }
}

// One block per matrix: its row means, and their mean.
__global__ void __launch_bounds__(kMeanThreads)
    average_rows(Numbers numbers, UpdateScalars scalars, Settings settings, Blocks blocks) {
  if (is_skipped(scalars.clip)) return;
  const Average average = average_at(*scalars.step, settings.decay_rate);
  const std::int64_t first = blockIdx.x * blocks.matrix_rows;
  double sum = 0;
  for (std::int64_t row = first + threadIdx.x; row < first + blocks.matrix_rows; row += kMeanThreads) {
    const double mean = numbers.row_squares[row] / static_cast<double>(blocks.width) + settings.eps;
    numbers.row_means[row] = average(numbers.row_means[row], mean);
    sum += double{numbers.row_means[row]};
  }
  sum = block_sum<kMeanThreads>(sum);
  if (threadIdx.x == 0) {
    numbers.mean_of_rows[blockIdx.x] = static_cast<float>(sum / static_cast<double>(blocks.matrix_rows));
  }
}

__global__ void average_columns(Numbers numbers, UpdateScalars scalars, Settings settings, Blocks blocks) {
  if (is_skipped(scalars.clip)) return;
  const Average average = average_at(*scalars.step, settings.decay_rate);
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kRowThreads + threadIdx.x;
  if (i >= blocks.matrices * blocks.width) return;
  const std::int64_t matrix = i / blocks.width, column = i % blocks.width;
  const double* const sums = numbers.column_squares + matrix * blocks.matrix_blocks * blocks.width + column;
  double sum = 0;
  for (std::int64_t block = 0; block < blocks.matrix_blocks; ++block) sum += sums[block * blocks.width];
  const double mean = sum / static_cast<double>(blocks.matrix_rows) + settings.eps;
  numbers.column_means[i] = average(numbers.column_means[i], mean);
  numbers.column_factors[i] = 1.0F / sqrtf(numbers.column_means[i]);
}

// The factors of the updates of a table's row, before they are scaled.
struct UnitRow {
  float row_factor, clip;
  const float* column_factors;

  __device__ UnitRow(const Numbers& numbers, const Blocks& blocks, float clip_by, std::int64_t table_row)
      : row_factor(1), clip(clip_by) {
    const std::int64_t matrix = table_row / blocks.matrix_rows;
    column_factors = numbers.column_factors + matrix * blocks.width;
    if (numbers.row_means == nullptr) return;
    row_factor = 1.0F / sqrtf(numbers.row_means[table_row] / numbers.mean_of_rows[matrix]);
  }
  __device__ float operator()(std::int64_t column, float gradient) const {
    return row_factor * column_factors[column] * (gradient * clip);
  }
};

// One warp per row of the gradient, kUnitRows per block.
template <int N>
__global__ void sum_unit_squares(Gradient gradient, const float* clip_at, Numbers numbers, Blocks blocks) {
  const float clip = *clip_at;
  if (is_skipped(clip_at)) return;
  const std::int64_t first = blockIdx.x * kUnitRows, end = std::min(first + kUnitRows, gradient.rows());
  double sum = 0;
  for (std::int64_t row = first + threadIdx.x / kWarp; row < end; row += kRowWarps) {
    const UnitRow unit_of(numbers, blocks, clip, gradient.table_row(row));
    for (std::int64_t c = lane_index() * N; c < gradient.width; c += kWarp * N) {
      float each[N];
      load(gradient.values + row * gradient.width + c, N, each);
      for (int n = 0; n < N; ++n) {
        const double unit = double{unit_of(c + n, each[n])};
        sum += unit * unit;
      }
    }
  }
  sum = block_sum<kRowThreads>(sum);
  if (threadIdx.x == 0) numbers.unit_squares[blockIdx.x] = sum;
}

// Launched as one block.
__global__ void find_divisor(Gradient gradient, Numbers numbers, Settings settings, double elements) {
  const double sum = block_sum_of<kRowThreads>(numbers.unit_squares, (gradient.rows() + kUnitRows - 1) / kUnitRows);
  const double ratio = sqrt(sum / elements) / settings.clip_threshold;
  if (threadIdx.x == 0) *numbers.divisor = static_cast<float>(ratio > 1.0 ? ratio : 1.0);
}

// One warp per row of the table; a row without gradient decays.
template <int N>
__global__ void apply(Parameter parameter, Gradient gradient, UpdateScalars scalars, Settings settings, Numbers numbers,
                      Blocks blocks) {
  if (is_skipped(scalars.clip)) return;
  const double learning_rate = settings.rate_factor * double{*scalars.learning_rate};
  const float decay = static_cast<float>(learning_rate * settings.weight_decay);
  const float rate = static_cast<float>(learning_rate);
  const float divisor = *numbers.divisor, clip = *scalars.clip;
  const std::int64_t width = gradient.width;
  for (std::int64_t row = first_row(); row < gradient.table_rows; row += row_stride()) {
    const std::int64_t found = gradient.find(row);
    const bool is_there = gradient.has(found, row);
    if (!is_there && decay == 0) continue;
    const UnitRow unit_of(numbers, blocks, clip, row);
    for (std::int64_t c = lane_index() * N; c < width; c += kWarp * N) {
      float p[N], g[N] = {};
      parameter.load_from(row * width + c, N, p);
      if (is_there) load(gradient.values + found * width + c, N, g);
      for (int n = 0; n < N; ++n) p[n] = p[n] - decay * p[n] - unit_of(c + n, g[n]) / divisor * rate;
      parameter.store_to(row * width + c, N, p);
    }
  }
}

class AdafactorLaunch {
 public:
  AdafactorLaunch(const Context& context, const Graph& graph, const Node& node)
      : context_(context), form_(update_form(graph, node)), blocks_(graph, node), scratch_(blocks_) {
    const auto& attributes = std::get<AdafactorAttributes>(node.attributes);
    settings_ = {attributes.eps, attributes.clip_threshold, attributes.decay_rate, attributes.weight_decay,
                 attributes.rate_factor};
  }

  std::size_t scratch_bytes() const { return scratch_.layout.bytes(); }

  void run(const KernelArguments& a) const {
    const Gradient gradient = gradient_of(form_, a, blocks_.width);
    const UpdateScalars scalars = scalars_of(form_, a);
    const Numbers numbers = numbers_of(a);
    const auto start = [&](auto kernel, std::int64_t blocks, const auto&... arguments) {
      launch(context_.stream(), kernel, {.blocks = static_cast<unsigned>(blocks), .threads = kRowThreads},
             arguments...);
    };
    if (form_.by_rows) {
      check_cuda(cudaMemsetAsync(numbers.row_squares, 0, static_cast<std::size_t>(gradient.table_rows) * sizeof(double),
                                 context_.stream()),
                 "zeros");
    }
    for_pack(blocks_.width, [&](auto pack) {
      if (numbers.row_means != nullptr) {
        start(sum_row_squares<pack()>, row_blocks(blocks_.gradient_rows()), gradient, scalars.clip,
              numbers.row_squares);
        launch(context_.stream(), average_rows,
               {.blocks = static_cast<unsigned>(blocks_.matrices), .threads = kMeanThreads}, numbers, scalars,
               settings_, blocks_);
      }
      launch(context_.stream(), sum_column_squares<pack()>,
             {.blocks = static_cast<unsigned>(blocks_.blocks()),
              .threads = kRowThreads,
              .blocks_y = static_cast<unsigned>((blocks_.width / pack() + kWarp - 1) / kWarp)},
             gradient, scalars.clip, blocks_, numbers.column_squares);
      start(average_columns, (blocks_.matrices * blocks_.width + kRowThreads - 1) / kRowThreads, numbers, scalars,
            settings_, blocks_);
      start(sum_unit_squares<pack()>, blocks_.unit_blocks(), gradient, scalars.clip, numbers, blocks_);
      start(find_divisor, 1, gradient, numbers, settings_, static_cast<double>(a.outputs[0].elements()));
      start(apply<pack()>, row_blocks(gradient.table_rows), parameter_of(form_, a), gradient, scalars, settings_,
            numbers, blocks_);
    });
  }

 private:
  Numbers numbers_of(const KernelArguments& a) const {
    const bool factored = form_.state_parts == 2;
    return {.row_squares = scratch_at<double>(a, scratch_.row_squares),
            .column_squares = scratch_at<double>(a, scratch_.column_squares),
            .unit_squares = scratch_at<double>(a, scratch_.unit_squares),
            .mean_of_rows = scratch_at<float>(a, scratch_.mean_of_rows),
            .column_factors = scratch_at<float>(a, scratch_.column_factors),
            .divisor = scratch_at<float>(a, scratch_.divisor),
            .row_means = factored ? output<float>(a, form_.states()) : nullptr,
            .column_means = output<float>(a, form_.gradient() - 1)};
  }

  const Context& context_;
  UpdateForm form_;
  Blocks blocks_;
  AdafactorScratch scratch_;
  Settings settings_{};
};

}  // namespace

std::unique_ptr<Kernel> make_adafactor(const Context& context, const Graph& graph, const Node& node) {
  const AdafactorLaunch adafactor(context, graph, node);
  return make_launch(adafactor.scratch_bytes(), [adafactor](const KernelArguments& a) { adafactor.run(a); });
}

}  // namespace plimsoll::cuda
