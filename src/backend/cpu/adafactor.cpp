// adafactor, adafactor_rows: Shazeer, Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost"; the
// reference kernel says which of the paper's choices apply. Scalars are double and rounded to float where they meet a
// tensor; tensor operations are in float; sums are in double over blocks of rows that depend on the shape alone.
//
// The kernel makes three passes over the gradient: row and column means; the update's root mean square; the update. A
// vector is a matrix of one row that has no row mean.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/gradient_rows.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/adafactor.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/update_math-inl.h"

#ifndef PLIMSOLL_BACKEND_CPU_ADAFACTOR_ONCE
#define PLIMSOLL_BACKEND_CPU_ADAFACTOR_ONCE
namespace plimsoll {

// The factors of one row's update; a null gradient stands for zeros.
struct AdafactorRow {
  const float* gradient;
  float clip, row_factor;
  const float* column_factors;
};

struct AdafactorScalars {
  float decay, divisor, rate;
};

// A parameter, in one piece or (whole = nullptr) split.
struct AdafactorParameter {
  float* whole = nullptr;
  std::uint16_t* high = nullptr;
  std::int16_t* low = nullptr;
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Returns the row's sum of (gradient * clip)^2 and adds the squares to the column sums.
double add_squares(const float* gradient, float clip, std::size_t width, double* column_sums) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    const auto g = hn::PromoteTo(d, hn::Mul(hn::LoadU(half, gradient + i), hn::Set(half, clip)));
    const auto square = hn::Mul(g, g);
    sum = hn::Add(sum, square);
    hn::StoreU(hn::Add(hn::LoadU(d, column_sums + i), square), d, column_sums + i);
  }
  double total = simd_sum(d, sum);
  for (; i < width; ++i) {
    const float g = gradient[i] * clip;
    total += double{g} * double{g};
    column_sums[i] += double{g} * double{g};
  }
  return total;
}

// Computes the update before it is scaled.
template <class D>
HWY_INLINE hn::Vec<D> unit_update(D d, const AdafactorRow& row, std::size_t i) {
  const auto factor = hn::Mul(hn::Set(d, row.row_factor), hn::LoadU(d, row.column_factors + i));
  return hn::Mul(factor, hn::Mul(hn::LoadU(d, row.gradient + i), hn::Set(d, row.clip)));
}

double unit_squares(const AdafactorRow& row, std::size_t width) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const hn::CappedTag<float, 1> one_lane;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    const auto unit = hn::PromoteTo(d, unit_update(half, row, i));
    sum = hn::MulAdd(unit, unit, sum);
  }
  double total = simd_sum(d, sum);
  for (; i < width; ++i) {
    const double unit = double{hn::GetLane(unit_update(one_lane, row, i))};
    total += unit * unit;
  }
  return total;
}

struct ApplyStep {
  const AdafactorScalars& scalars;
  AdafactorRow row;
  float* parameter;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const auto p = hn::LoadU(d, parameter + i);
    const auto decayed = hn::Sub(p, hn::Mul(hn::Set(d, scalars.decay), p));
    if (row.gradient == nullptr) return hn::StoreU(decayed, d, parameter + i);
    const auto scaled = hn::Div(unit_update(d, row, i), hn::Set(d, scalars.divisor));
    hn::StoreU(hn::Sub(decayed, hn::Mul(scaled, hn::Set(d, scalars.rate))), d, parameter + i);
  }
};

// Updates a row of the parameter that begins at element `first`.
void apply_row(const AdafactorScalars& scalars, const AdafactorRow& row, const AdafactorParameter& parameter,
               std::size_t first, std::size_t width) {
  if (parameter.whole != nullptr) {
    for_each_vector(width, ApplyStep{scalars, row, parameter.whole + first});
    return;
  }
  HWY_ALIGN float joined[kStateBlock];
  AdafactorRow part = row;
  for (std::size_t at = 0; at < width; at += kStateBlock) {
    const std::size_t count = HWY_MIN(width - at, static_cast<std::size_t>(kStateBlock));
    part.gradient = row.gradient == nullptr ? nullptr : row.gradient + at;
    part.column_factors = row.column_factors + at;
    std::uint16_t* const high = parameter.high + first + at;
    std::int16_t* const low = parameter.low + first + at;
    for_each_vector(count, JoinStep{high, low, joined});
    for_each_vector(count, ApplyStep{scalars, part, joined});
    for_each_vector(count, SplitStep{joined, high, low});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(add_squares);
HWY_EXPORT(unit_squares);
HWY_EXPORT(apply_row);

// A stack of matrices, cut into blocks of rows; a block stays within one matrix and has at least kLeastRows rows, and a
// matrix has at most kMostBlocks blocks.
struct RowBlocks {
  static constexpr std::int64_t kLeastRows = 64, kMostBlocks = 32;

  explicit RowBlocks(const MatrixStack& stack)
      : width(stack.columns), matrix_rows(stack.rows), matrices(stack.matrices) {
    block_rows = std::max(kLeastRows, (matrix_rows + kMostBlocks - 1) / kMostBlocks);
    matrix_blocks = (matrix_rows + block_rows - 1) / block_rows;
  }
  std::int64_t blocks() const { return matrices * matrix_blocks; }
  std::int64_t begin(std::int64_t block) const {
    return block / matrix_blocks * matrix_rows + block % matrix_blocks * block_rows;
  }
  std::int64_t end(std::int64_t block) const {
    return std::min(begin(block) + block_rows, (block / matrix_blocks + 1) * matrix_rows);
  }

  std::int64_t width = 0, matrix_rows = 0, matrices = 0, block_rows = 0, matrix_blocks = 0;
};

class AdafactorKernel {
 public:
  AdafactorKernel(const Graph& graph, const Node& node)
      : attributes_(std::get<AdafactorAttributes>(node.attributes)),
        form_(update_form(graph, node)),
        blocks_(matrix_stack(graph, node)),
        column_sums_at_(scratch_.add<double>(blocks_.blocks() * blocks_.width)),
        row_sums_at_(scratch_.add<double>(blocks_.blocks())),
        unit_sums_at_(scratch_.add<double>(blocks_.blocks())),
        column_factors_at_(scratch_.add<float>(blocks_.matrices * blocks_.width)) {}

  std::size_t scratch_bytes() const { return scratch_.bytes(); }

  void run(const KernelArguments& a) const {
    const auto scalars = a.inputs.subspan(form_.scalars());
    const double step = *scalars[1].data<std::int32_t>();
    const double decay = 1.0 - std::pow(step, attributes_.decay_rate);
    Step s{.gradient = GradientRows(form_, blocks_.width, a.inputs),
           .clip = *scalars[2].data<float>(),
           .decay = static_cast<float>(decay),
           .one_minus_decay = static_cast<float>(1.0 - decay),
           .row_means = factored() ? a.outputs[form_.states()].data<float>() : nullptr,
           .column_means = a.outputs[form_.gradient() - 1].data<float>(),
           .column_sums = scratch_at<double>(a, column_sums_at_),
           .row_sums = scratch_at<double>(a, row_sums_at_),
           .unit_sums = scratch_at<double>(a, unit_sums_at_),
           .column_factors = scratch_at<float>(a, column_factors_at_)};
    for_each_block([&](std::int64_t block) { average_rows(s, block); });
    parallel_for(blocks_.matrices * blocks_.width, 1024,
                 [&](std::int64_t begin, std::int64_t end) { average_columns(s, begin, end); });
    for_each_block([&](std::int64_t block) { sum_units(s, block); });
    double squares = 0;
    for (std::int64_t block = 0; block < blocks_.blocks(); ++block) squares += s.unit_sums[block];
    const double elements = static_cast<double>(a.outputs[0].elements());
    const double rms = elements == 0 ? 0 : std::sqrt(squares / elements);
    const double learning_rate = attributes_.rate_factor * double{*scalars[0].data<float>()};
    const AdafactorScalars update{.decay = static_cast<float>(learning_rate * attributes_.weight_decay),
                                  .divisor = static_cast<float>(std::max(1.0, rms / attributes_.clip_threshold)),
                                  .rate = static_cast<float>(learning_rate)};
    AdafactorParameter parameter;
    if (form_.split()) {
      parameter.high = a.outputs[0].data<std::uint16_t>();
      parameter.low = a.outputs[1].data<std::int16_t>();
    } else {
      parameter.whole = a.outputs[0].data<float>();
    }
    for_each_block([&](std::int64_t block) { apply(s, update, parameter, block); });
  }

 private:
  struct Step {
    GradientRows gradient;
    float clip, decay, one_minus_decay;
    float *row_means, *column_means;
    double *column_sums, *row_sums, *unit_sums;  // one for each block (and column)
    float* column_factors;
  };

  bool factored() const { return form_.state_parts == 2; }
  std::size_t width() const { return static_cast<std::size_t>(blocks_.width); }

  template <typename Body>
  void for_each_block(const Body& body) const {
    parallel_for(blocks_.blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) body(block);
    });
  }

  float average(const Step& s, float state, double mean) const {
    return state * s.decay + s.one_minus_decay * static_cast<float>(mean);
  }

  void average_rows(const Step& s, std::int64_t block) const {
    double* const column_sums = s.column_sums + block * blocks_.width;
    std::fill_n(column_sums, blocks_.width, 0.0);
    double row_sum = 0;
    for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); ++row) {
      const float* const gradient = s.gradient.row(row);
      const double squares = gradient == nullptr ? 0 : add_squares_(gradient, s.clip, width(), column_sums);
      if (!factored()) continue;
      s.row_means[row] = average(s, s.row_means[row], squares / static_cast<double>(blocks_.width) + attributes_.eps);
      row_sum += double{s.row_means[row]};
    }
    s.row_sums[block] = row_sum;
  }

  // Averages the columns [begin, end) of all matrices.
  void average_columns(const Step& s, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t matrix = i / blocks_.width, column = i % blocks_.width;
      const double* const sums = s.column_sums + matrix * blocks_.matrix_blocks * blocks_.width + column;
      double sum = 0;
      for (std::int64_t block = 0; block < blocks_.matrix_blocks; ++block) sum += sums[block * blocks_.width];
      const double mean = sum / static_cast<double>(blocks_.matrix_rows) + attributes_.eps;
      s.column_means[i] = average(s, s.column_means[i], mean);
      s.column_factors[i] = 1.0F / std::sqrt(s.column_means[i]);
    }
  }

  // Calls body(row, the factors of its update) for each row of the block.
  template <typename Body>
  void for_each_row(const Step& s, std::int64_t block, const Body& body) const {
    const std::int64_t matrix = block / blocks_.matrix_blocks;
    double sum = 0;
    for (std::int64_t i = 0; i < blocks_.matrix_blocks; ++i) sum += s.row_sums[matrix * blocks_.matrix_blocks + i];
    const float mean = static_cast<float>(sum / static_cast<double>(blocks_.matrix_rows));
    for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); ++row) {
      body(row, AdafactorRow{.gradient = s.gradient.row(row),
                             .clip = s.clip,
                             .row_factor = factored() ? 1.0F / std::sqrt(s.row_means[row] / mean) : 1.0F,
                             .column_factors = s.column_factors + matrix * blocks_.width});
    }
  }

  void sum_units(const Step& s, std::int64_t block) const {
    double sum = 0;
    for_each_row(s, block, [&](std::int64_t, const AdafactorRow& row) {
      if (row.gradient != nullptr) sum += unit_squares_(row, width());
    });
    s.unit_sums[block] = sum;
  }

  void apply(const Step& s, const AdafactorScalars& update, const AdafactorParameter& parameter,
             std::int64_t block) const {
    for_each_row(s, block, [&](std::int64_t index, const AdafactorRow& row) {
      if (row.gradient == nullptr && update.decay == 0) return;
      apply_row_(update, row, parameter, static_cast<std::size_t>(index) * width(), width());
    });
  }

  AdafactorAttributes attributes_;
  UpdateForm form_;
  RowBlocks blocks_;
  ScratchLayout scratch_;
  std::size_t column_sums_at_, row_sums_at_, unit_sums_at_, column_factors_at_;
  double (*add_squares_)(const float*, float, std::size_t, double*) = HWY_DYNAMIC_DISPATCH(add_squares);
  double (*unit_squares_)(const AdafactorRow&, std::size_t) = HWY_DYNAMIC_DISPATCH(unit_squares);
  void (*apply_row_)(const AdafactorScalars&, const AdafactorRow&, const AdafactorParameter&, std::size_t,
                     std::size_t) = HWY_DYNAMIC_DISPATCH(apply_row);
};

}  // namespace

std::unique_ptr<Kernel> make_adafactor(const Graph& graph, const Node& node) {
  const AdafactorKernel kernel(graph, node);
  return make_kernel([kernel](const KernelArguments& a) { kernel.run(a); }, kernel.scratch_bytes());
}

}  // namespace plimsoll
#endif  // HWY_ONCE
