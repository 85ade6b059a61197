// Compares the CPU's attention and its gradient with loops in double, on odd shapes, on every vector width of this
// machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/attention_problem.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/every_target.h"
#include "base/dropout.h"
#include "graph/build.h"
#include "graph/relative_bucket.h"

namespace plimsoll {
namespace {

struct Case {
  std::vector<std::int32_t> lengths = {17};
  AttentionAttributes attributes{.heads = 2};
  std::int64_t head_size = 8;
  std::int64_t spare_rows = 5;      // capacity beyond the real rows
  double masked = 0;                // fraction of masked keys
  std::int64_t masked_sample = -1;  // all of this sample's keys are masked
  bool wild = false;                // coordinates and tokens in random order, beyond the usual ranges
  float score_spread = 1;           // standard deviation of q and k
  std::uint32_t seed = 1;
};

constexpr std::int64_t kBins = 32, kSpatialBins = 64;

// A tensor between guards. The memory around it, and its bytes before a kernel wrote it, hold a pattern that no result
// has.
class Guarded {
 public:
  explicit Guarded(TensorType type) : type_(type), bytes_(type.bytes() + 2 * kGuard + 64, kPattern) {
    offset_ = kGuard + (64 - reinterpret_cast<std::uintptr_t>(bytes_.data()) % 64) % 64;
  }
  Guarded(Guarded&&) = default;

  TensorView view() { return {type_, bytes_.data() + offset_}; }
  template <typename T>
  std::span<T> span() {
    return view().span<T>();
  }
  bool guards_hold() const {
    const auto is_pattern = [](std::byte b) { return b == kPattern; };
    return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset_), is_pattern) &&
           std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(offset_ + type_.bytes()), bytes_.end(), is_pattern);
  }
  // True if every byte from element `first` on is still the pattern.
  bool untouched_from(std::int64_t first) const {
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_ + static_cast<std::size_t>(first) * 4);
    return std::all_of(begin, bytes_.begin() + static_cast<std::ptrdiff_t>(offset_ + type_.bytes()),
                       [](std::byte b) { return b == kPattern; });
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kPattern{0xA5};
  TensorType type_;
  std::vector<std::byte> bytes_;
  std::size_t offset_ = 0;
};

enum Index : std::size_t {
  kQ,
  kK,
  kV,
  kOffsets,
  kMask,
  kRowKeys,
  kKey,
  kCoordinates,
  kTable0,
  kTable1,
  kTable2,
  kInputs
};

// The inputs of a case.
struct Inputs {
  explicit Inputs(const Case& c) : real_rows(std::accumulate(c.lengths.begin(), c.lengths.end(), 0)) {
    const std::int64_t n = real_rows + c.spare_rows, heads = c.attributes.heads, width = heads * c.head_size;
    const auto samples = static_cast<std::int64_t>(c.lengths.size());
    const TensorType activation{DType::kF32, {n, width}};
    for (const TensorType& type :
         {activation, activation, activation, TensorType{DType::kI32, {samples + 1}}, TensorType{DType::kI32, {n}},
          TensorType{DType::kI32, {n, 2}}, TensorType{DType::kI32, {2}}, TensorType{DType::kI32, {n, 3}},
          TensorType{DType::kF32, {heads, kBins}}, TensorType{DType::kF32, {heads, kSpatialBins}},
          TensorType{DType::kF32, {heads, kSpatialBins}}}) {
      tensors.emplace_back(type);
    }
    std::mt19937 random(c.seed);
    std::normal_distribution<float> normal;
    for (const Index i : {kQ, kK, kV}) {
      for (float& x : tensors[i].span<float>().first(static_cast<std::size_t>(real_rows * width))) {
        x = (i == kV ? 1 : c.score_spread) * normal(random);
      }
    }
    for (const Index i : {kTable0, kTable1, kTable2}) {
      for (float& x : tensors[i].span<float>()) x = normal(random);
    }
    const std::span<std::int32_t> offsets = tensors[kOffsets].span<std::int32_t>();
    offsets[0] = 0;
    for (std::size_t b = 0; b < c.lengths.size(); ++b) offsets[b + 1] = offsets[b] + c.lengths[b];
    for (std::size_t b = 0; b < c.lengths.size(); ++b) {
      for (std::int32_t i = 0; i < c.lengths[b]; ++i) fill_row(c, b, i, random);
    }
    tensors[kKey].span<std::int32_t>()[0] = static_cast<std::int32_t>(0x9ABCDEF0U);
    tensors[kKey].span<std::int32_t>()[1] = 77;
  }

  // Two thirds of a sample are text, the rest image tokens on a grid of 14.
  void fill_row(const Case& c, std::size_t sample, std::int32_t i, std::mt19937& random) {
    const auto row = static_cast<std::size_t>(tensors[kOffsets].span<std::int32_t>()[sample] + i);
    const std::int32_t text = (c.lengths[sample] * 2 + 2) / 3, patch = i - text;
    std::int32_t* const coordinates = &tensors[kCoordinates].span<std::int32_t>()[3 * row];
    std::int32_t* const row_key = &tensors[kRowKeys].span<std::int32_t>()[2 * row];
    const auto uniform = [&](int lowest, int highest) {
      return std::uniform_int_distribution<int>(lowest, highest)(random);
    };
    if (c.wild) {
      coordinates[0] = uniform(-3000, 3000);
      coordinates[1] = uniform(-100000, 100000);
      coordinates[2] = uniform(0, 1) == 0 ? uniform(0, 20) : std::numeric_limits<std::int32_t>::max() / 2;
      row_key[1] = uniform(0, 70000);
    } else if (patch < 0) {
      coordinates[0] = i;
      coordinates[1] = i % 3 == 0 || i == 0 ? uniform(0, 1000) : coordinates[-2];
      coordinates[2] = i % 3 == 0 || i == 0 ? 40 * (i / 9) : coordinates[-1];
      row_key[1] = i;
    } else {
      coordinates[0] = patch;
      coordinates[1] = patch == 0 ? 1 : (patch - 1) % 14 * 1000 / 14;
      coordinates[2] = patch == 0 ? 999 : ((patch - 1) / 14 + 1) * 1000 / 14;
      row_key[1] = kVisualCoordinate + patch;
    }
    row_key[0] = static_cast<std::int32_t>(3 * sample + 5);
    const bool masked =
        static_cast<std::int64_t>(sample) == c.masked_sample || std::uniform_real_distribution<>()(random) < c.masked;
    tensors[kMask].span<std::int32_t>()[row] = masked ? 0 : 1;
  }

  std::int64_t real_rows;
  std::vector<Guarded> tensors;
};

// The results of a forward and a backward, widened to double.
enum Result : std::size_t { kOutput, kLogSumExp, kDq, kDk, kDv, kDTable0, kDTable1, kDTable2, kResults };
constexpr const char* kResultNames[] = {"output", "log_sum_exp",     "dq",       "dk",
                                        "dv",     "dposition_table", "dx_table", "dy_table"};
using Results = std::array<std::vector<double>, kResults>;

struct Expected {
  Results results;
  double largest_score = 0;  // in absolute value
};

// Computes the formulas of graph/op.h, one query after the other.
Expected expected(const Case& c, Inputs& in, const std::vector<float>& doutput) {
  const AttentionAttributes& a = c.attributes;
  const std::int64_t heads = a.heads, d = c.head_size, width = heads * d;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const std::array<std::int64_t, 3> bins = {kBins, kSpatialBins, kSpatialBins};
  Expected all;
  Results& r = all.results;
  for (const Result i : {kOutput, kDq, kDk, kDv}) r[i].resize(static_cast<std::size_t>(in.real_rows * width));
  r[kLogSumExp].resize(static_cast<std::size_t>(in.real_rows * heads));
  for (std::size_t t = 0; t < 3; ++t) {
    if (t == 0 ? a.position_bias : a.spatial_bias) r[kDTable0 + t].resize(static_cast<std::size_t>(heads * bins[t]));
  }
  const auto q = in.tensors[kQ].span<float>(), k = in.tensors[kK].span<float>(), v = in.tensors[kV].span<float>();
  const auto offsets = in.tensors[kOffsets].span<std::int32_t>(),
             coordinates = in.tensors[kCoordinates].span<std::int32_t>(), mask = in.tensors[kMask].span<std::int32_t>(),
             row_keys = in.tensors[kRowKeys].span<std::int32_t>(), key = in.tensors[kKey].span<std::int32_t>();
  const auto at = [&](std::int64_t row, std::int64_t h, std::int64_t e) {
    return static_cast<std::size_t>(row * width + h * d + e);
  };
  const auto bin = [&](std::size_t t, std::int64_t i, std::int64_t j) {
    const auto difference =
        coordinates[static_cast<std::size_t>(3 * j) + t] - coordinates[static_cast<std::size_t>(3 * i) + t];
    const auto distance = t == 0 ? a.max_position_distance : a.max_spatial_distance;
    return relative_bucket(difference, static_cast<std::int32_t>(bins[t]), static_cast<std::int32_t>(distance));
  };
  for (std::size_t b = 0; b < c.lengths.size(); ++b) {
    const auto sample = static_cast<std::uint32_t>(row_keys[static_cast<std::size_t>(2 * offsets[b])]);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = offsets[b]; i < offsets[b + 1]; ++i) {
        std::vector<double> score(static_cast<std::size_t>(c.lengths[b])), p(score.size()), factor(score.size(), 1.0);
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (std::int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
          double& s = score[static_cast<std::size_t>(j - offsets[b])];
          for (std::int64_t e = 0; e < d; ++e) s += double{q[at(i, h, e)]} * k[at(j, h, e)];
          for (std::size_t t = 0; t < 3; ++t) {
            const bool has = t == 0 ? a.position_bias : a.spatial_bias;
            if (has) s += in.tensors[kTable0 + t].span<float>()[static_cast<std::size_t>(h * bins[t] + bin(t, i, j))];
          }
          s *= scale;
          all.largest_score = std::max(all.largest_score, std::abs(s));
          if (mask[static_cast<std::size_t>(j)] != 0) largest = std::max(largest, s);
          if (a.dropout_p > 0) {
            const std::uint32_t w = attention_dropout_bits(
                {static_cast<std::uint32_t>(key[0]), static_cast<std::uint32_t>(key[1])}, a.site,
                static_cast<std::uint32_t>(h), sample, static_cast<std::uint32_t>(i - offsets[b]),
                static_cast<std::uint32_t>(j - offsets[b]));
            factor[static_cast<std::size_t>(j - offsets[b])] =
                w >= dropout_threshold(a.dropout_p) ? dropout_scale(a.dropout_p) : 0;
          }
        }
        for (std::size_t j = 0; j < p.size(); ++j) {
          p[j] = mask[static_cast<std::size_t>(offsets[b]) + j] != 0 ? std::exp(score[j] - largest) : 0;
          sum += p[j];
        }
        for (double& x : p) x = sum > 0 ? x / sum : 0;
        r[kLogSumExp][static_cast<std::size_t>(i * heads + h)] = largest + std::log(sum);
        double o_do = 0;
        for (std::int64_t e = 0; e < d; ++e) {
          double& o = r[kOutput][at(i, h, e)];
          for (std::size_t j = 0; j < p.size(); ++j)
            o += p[j] * factor[j] * v[at(offsets[b] + static_cast<std::int64_t>(j), h, e)];
          o_do += o * doutput[at(i, h, e)];
        }
        for (std::int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
          const auto local = static_cast<std::size_t>(j - offsets[b]);
          double dp = 0;
          for (std::int64_t e = 0; e < d; ++e) {
            r[kDv][at(j, h, e)] += p[local] * factor[local] * doutput[at(i, h, e)];
            dp += factor[local] * doutput[at(i, h, e)] * v[at(j, h, e)];
          }
          const double ds = p[local] * (dp - o_do) * scale;
          for (std::int64_t e = 0; e < d; ++e) {
            r[kDq][at(i, h, e)] += ds * k[at(j, h, e)];
            r[kDk][at(j, h, e)] += ds * q[at(i, h, e)];
          }
          for (std::size_t t = 0; t < 3; ++t) {
            const bool has = t == 0 ? a.position_bias : a.spatial_bias;
            if (has) r[kDTable0 + t][static_cast<std::size_t>(h * bins[t] + bin(t, i, j))] += ds;
          }
        }
      }
    }
  }
  return all;
}

std::vector<float> output_gradient(const Case& c, const Inputs& in) {
  std::mt19937 random(c.seed + 1000);
  std::normal_distribution<float> normal;
  std::vector<float> result(static_cast<std::size_t>(in.real_rows * c.attributes.heads * c.head_size));
  for (float& x : result) x = normal(random);
  return result;
}

// Runs both kernels on `threads` threads and checks that nothing but the real rows of the outputs was written.
Results computed(const Case& c, Inputs& in, const std::vector<float>& doutput, int threads) {
  CpuBackend backend(threads);
  Graph graph;
  std::vector<ValueId> inputs;
  std::vector<Index> sources;
  const bool position = c.attributes.position_bias, spatial = c.attributes.spatial_bias;
  for (std::size_t i = 0; i < kInputs; ++i) {
    if (i == kCoordinates && !position && !spatial) continue;
    if (i == kTable0 && !position) continue;
    if ((i == kTable1 || i == kTable2) && !spatial) continue;
    inputs.push_back(graph.add_input("input" + std::to_string(i), in.tensors[i].view().type()));
    sources.push_back(static_cast<Index>(i));
  }
  const ValueId gradient = graph.add_input("doutput", graph.type(inputs[kQ]));
  const std::vector<ValueId> forward =
      graph.add_node({.op = Op::kAttention, .name = "attention", .attributes = c.attributes, .inputs = inputs});
  Node backward{.op = Op::kAttentionGrad, .name = "attention_grad", .attributes = c.attributes};
  backward.inputs = {gradient, inputs[kQ], inputs[kK], inputs[kV], forward[0], forward[1]};
  backward.inputs.insert(backward.inputs.end(), inputs.begin() + kOffsets, inputs.end());
  graph.add_node(backward);

  std::vector<Guarded> values;
  for (const Value& value : graph.values()) values.emplace_back(value.type);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView from = in.tensors[sources[i]].view();
    std::memcpy(values[static_cast<std::size_t>(inputs[i])].view().raw(), from.raw(), from.bytes());
  }
  std::copy(doutput.begin(), doutput.end(), values[static_cast<std::size_t>(gradient)].span<float>().begin());

  const std::int32_t rows = static_cast<std::int32_t>(in.real_rows);
  Results results;
  std::size_t result = 0;
  for (const Node& node : graph.nodes()) {
    const std::unique_ptr<Kernel> kernel = backend.prepare(graph, node);
    Guarded scratch({DType::kU8, {static_cast<std::int64_t>(kernel->scratch_bytes())}});
    std::vector<TensorView> ins, outs;
    for (const ValueId id : node.inputs) ins.push_back(values[static_cast<std::size_t>(id)].view());
    for (const ValueId id : node.outputs) outs.push_back(values[static_cast<std::size_t>(id)].view());
    // Runs twice, because the second run finds the scratch of the first.
    for (int time = 0; time < 2; ++time) {
      kernel->run({.inputs = ins, .outputs = outs, .scratch = scratch.view().byte_span(), .row_count = &rows});
    }
    EXPECT_TRUE(scratch.guards_hold()) << op_name(node.op);
    for (const ValueId id : node.outputs) {
      // A table that the node does not have has no gradient.
      if (result == kDTable0 && !position) ++result;
      Guarded& value = values[static_cast<std::size_t>(id)];
      const bool is_table = result >= kDTable0;
      const std::int64_t real = is_table ? value.view().elements() : in.real_rows * value.view().shape()[1];
      EXPECT_TRUE(value.guards_hold() && value.untouched_from(real)) << kResultNames[result];
      const std::span<const float> data = value.span<float>().first(static_cast<std::size_t>(real));
      if (result == kLogSumExp) {  // a float and what it lacks
        for (std::size_t i = 0; i < data.size(); i += 2)
          results[result].push_back(double{data[i]} + double{data[i + 1]});
      } else {
        results[result].assign(data.begin(), data.end());
      }
      ++result;
    }
  }
  return results;
}

// Returns the largest difference over the largest expected size, or over `size` if larger; infinities must agree.
double relative_error(const std::vector<double>& found, const std::vector<double>& expected, double size) {
  double difference = 0;
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isinf(expected[i]) && found[i] == expected[i]) continue;
    if (!(std::abs(found[i] - expected[i]) <= difference)) difference = std::abs(found[i] - expected[i]);
    size = std::max(size, std::abs(expected[i]));
  }
  return difference == 0 ? 0 : difference / size;
}

// A probability inherits its score's rounding, 2^-24 of the score's size in each of a few steps; sums of up to 709
// rounded products add about 1.5e-6, and a bin of a table, which sums some thousand, 2.5e-6. For a sample of one token
// q, k and the tables have gradient 0, computed as the difference of dp and o do, which are about 4.
void expect_close(const Results& found, const Expected& expected, bool tables) {
  const double size = expected.results[kLogSumExp].size() <= 2 ? 4 : 0;
  for (std::size_t i = 0; i < (tables ? kResults : kDTable0); ++i) {
    const double sums = i >= kDTable0 ? 2.5e-6 : 1.5e-6;
    const double allowed = i == kLogSumExp ? 4e-7 : sums + 0x1.0p-24 * expected.largest_score;
    EXPECT_LE(relative_error(found[i], expected.results[i], size), allowed) << kResultNames[i];
  }
}

void expect_same_bits(const Results& a, const Results& b) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  for (std::size_t i = 0; i < kResults; ++i) {
    EXPECT_TRUE(std::equal(a[i].begin(), a[i].end(), b[i].begin(), b[i].end(), same)) << kResultNames[i];
  }
}

void check_case(const Case& c) {
  Inputs in(c);
  const std::vector<float> doutput = output_gradient(c, in);
  const Results one = computed(c, in, doutput, 1);
  expect_close(one, expected(c, in, doutput), c.attributes.table_gradients);
  expect_same_bits(one, computed(c, in, doutput, 2));
}

std::string describe(const Case& c) {
  std::string text = "lengths";
  for (const std::int32_t length : c.lengths) text += " " + std::to_string(length);
  const AttentionAttributes& a = c.attributes;
  return text + ", heads " + std::to_string(a.heads) + " of " + std::to_string(c.head_size) + ", dropout " +
         std::to_string(a.dropout_p) + ", biases " + std::to_string(a.position_bias) + std::to_string(a.spatial_bias);
}

class CpuAttention : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuAttention, test::all_targets(), test::target_name);

TEST_P(CpuAttention, OddLengths) {
  for (const std::int32_t length : {1, 3, 17, 63, 64, 65, 197, 211}) {
    for (const double dropout : {0.0, 0.1}) {
      Case c{.lengths = {length}, .attributes = {.heads = 2, .dropout_p = dropout, .site = 7}, .head_size = 16};
      c.attributes.table_gradients = true;
      SCOPED_TRACE(describe(c));
      check_case(c);
    }
  }
}

TEST_P(CpuAttention, HeadSizes) {
  for (const std::int64_t head_size : {1, 3, 4, 8, 12, 16, 20, 32, 48, 64, 80}) {
    Case c{.lengths = {19, 70}, .attributes = {.heads = 3, .dropout_p = 0.25, .site = 65535}, .head_size = head_size};
    SCOPED_TRACE(describe(c));
    check_case(c);
  }
}

TEST_P(CpuAttention, SamplesOfUnequalLengthSomeEmpty) {
  for (const bool tables : {false, true}) {
    Case c{.lengths = {0, 31, 130, 0, 5, 99, 0},
           .attributes = {.heads = 5, .dropout_p = 0.5, .table_gradients = tables}};
    SCOPED_TRACE(describe(c));
    check_case(c);
  }
}

TEST_P(CpuAttention, NoRowsAtAll) {
  Case c{.lengths = {0, 0}, .attributes = {.heads = 2, .table_gradients = true}, .spare_rows = 3};
  check_case(c);
}

TEST_P(CpuAttention, BiasesOffAndOn) {
  for (const bool position : {false, true}) {
    for (const bool spatial : {false, true}) {
      Case c{.lengths = {40, 101},
             .attributes = {.heads = 2, .position_bias = position, .spatial_bias = spatial, .table_gradients = true},
             .head_size = 32};
      SCOPED_TRACE(describe(c));
      check_case(c);
    }
  }
}

TEST_P(CpuAttention, MaskedKeys) {
  for (const double dropout : {0.0, 0.1}) {
    Case c{.lengths = {50, 33, 129},
           .attributes = {.heads = 2, .dropout_p = dropout, .table_gradients = true},
           .masked = 0.4};
    SCOPED_TRACE(describe(c));
    check_case(c);
  }
}

TEST_P(CpuAttention, AllKeysMaskedGivesZero) {
  for (const double dropout : {0.0, 0.1}) {
    const Case c{.lengths = {12, 33}, .attributes = {.heads = 2, .dropout_p = dropout}, .masked_sample = 1};
    Inputs in(c);
    const std::vector<float> doutput = output_gradient(c, in);
    const Results found = computed(c, in, doutput, 1);
    expect_close(found, expected(c, in, doutput), false);
    for (const Result r : {kOutput, kDq, kDk, kDv}) {
      EXPECT_TRUE(std::all_of(found[r].begin() + 12 * 16, found[r].end(), [](double x) { return x == 0; }))
          << kResultNames[r];
    }
    EXPECT_EQ(found[kLogSumExp].back(), -std::numeric_limits<double>::infinity());
  }
}

TEST_P(CpuAttention, AnyCoordinatesAndTokens) {
  for (const std::uint32_t seed : {1, 2, 3}) {
    Case c{.lengths = {150, 70},
           .attributes = {.heads = 2, .dropout_p = 0.3, .table_gradients = true},
           .wild = true,
           .seed = seed};
    SCOPED_TRACE(describe(c));
    check_case(c);
  }
}

TEST_P(CpuAttention, LargeScores) {
  Case c{.lengths = {211}, .attributes = {.heads = 1, .dropout_p = 0.1}, .head_size = 64, .score_spread = 3};
  check_case(c);
}

// Scores that float holds exactly, near 8192: what is left of the error is softmax's own. Their log-sum-exp as one
// float would be off by up to 5e-4, and with it every gradient.
TEST_P(CpuAttention, ScoresNearTenThousand) {
  Case c{.lengths = {150}, .attributes = {.heads = 1, .position_bias = false, .spatial_bias = false}, .head_size = 64};
  Inputs in(c);
  for (const Index i : {kQ, kK}) {
    const std::span<float> values = in.tensors[i].span<float>().first(150 * 64);
    for (std::size_t at = 0; at < values.size(); ++at) {
      const float eighths = std::round(8 * values[at]) / 8;
      values[at] = at % 64 == 0 ? 256.0F : std::clamp(eighths, -1.0F, 1.0F);
    }
  }
  const std::vector<float> doutput = output_gradient(c, in);
  const Expected exact = expected(c, in, doutput);
  EXPECT_GT(exact.largest_score, 8000);
  const Results found = computed(c, in, doutput, 1);
  // The column of 256 gives dq and dk a column of terms 256 times as large, which cancel: in units of those.
  const auto in_units = [](std::vector<double> gradient) {
    for (std::size_t at = 0; at < gradient.size(); at += 64) gradient[at] /= 256;
    return gradient;
  };
  for (const Result r : {kOutput, kLogSumExp, kDv}) {
    EXPECT_LE(relative_error(found[r], exact.results[r], 0), 3e-6) << kResultNames[r];
  }
  for (const Result r : {kDq, kDk}) {
    EXPECT_LE(relative_error(in_units(found[r]), in_units(exact.results[r]), 0), 3e-6) << kResultNames[r];
  }
}

TEST_P(CpuAttention, BaseShape) {
  Case c{.lengths = {709}, .attributes = {.heads = 1, .dropout_p = 0.1, .table_gradients = true}, .head_size = 64};
  check_case(c);
}

TEST_P(CpuAttention, NanStaysWithItsQuery) {
  const Case c{.lengths = {70}, .attributes = {.heads = 1, .dropout_p = 0.1}};
  Inputs in(c);
  in.tensors[kQ].span<float>()[66 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  const Results found = computed(c, in, output_gradient(c, in), 1);
  for (std::size_t row = 0; row < 70; ++row) {
    EXPECT_EQ(std::isnan(found[kOutput][row * 8]), row == 66) << row;
    EXPECT_EQ(std::isnan(found[kLogSumExp][row]), row == 66) << row;
    EXPECT_EQ(std::isnan(found[kDq][row * 8]), row == 66) << row;
  }
  EXPECT_TRUE(std::isnan(found[kDk][0]) && std::isnan(found[kDv][0]));
}

TEST(RelativeBuckets, AgreesWithTheFormulaAtEveryDistance) {
  for (const auto& [bins, distance] : {std::pair{32, 128}, {64, 256}, {64, 17}, {4, 2}, {16, 1000}}) {
    const RelativeBuckets buckets(bins, distance);
    std::vector<float> of_bins(static_cast<std::size_t>(bins));
    std::iota(of_bins.begin(), of_bins.end(), 0.0F);
    std::vector<float> table(static_cast<std::size_t>(buckets.entries()));
    buckets.spread(of_bins.data(), 2, table.data());
    for (std::int32_t t = -5000; t <= 5000; ++t) {
      const std::int64_t at = std::clamp<std::int64_t>(t, -buckets.reach(), buckets.reach()) + buckets.limit();
      ASSERT_EQ(table[static_cast<std::size_t>(at)], 2.0F * static_cast<float>(relative_bucket(-t, bins, distance)))
          << bins << " bins, distance " << distance << ", t " << t;
    }
  }
  EXPECT_THROW(RelativeBuckets(3, 128), InternalError);
  EXPECT_THROW(RelativeBuckets(64, 16), InternalError);
}

}  // namespace
}  // namespace plimsoll
