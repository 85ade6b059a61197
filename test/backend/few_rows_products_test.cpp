// Compares the products of few rows with simple loops, on odd shapes: exactly, because small whole
// numbers have no rounding. Neither the team nor the vocabulary's size changes a bit of a sum of other numbers.
#include "backend/cpu/few_rows_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "backend/every_target.h"
#include "base/bytes.h"
#include "base/philox.h"
#include "graph/build.h"

namespace plimsoll::test {
namespace {

struct Sizes {
  std::int64_t rows, capacity, m, k;
};

// Floats on the alignment of a plan's tensors.
class Floats {
 public:
  explicit Floats(std::size_t count) : room_(count + kLine) {}
  float* data() const {
    auto address = std::bit_cast<std::uintptr_t>(room_.data());
    return std::bit_cast<float*>((address + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes);
  }
  float& operator[](std::int64_t i) const { return data()[i]; }

 private:
  static constexpr std::size_t kLine = kAlignmentBytes / sizeof(float);
  std::vector<float> room_;
};

Floats floats(std::int64_t rows, std::int64_t columns, std::uint32_t which, bool whole) {
  Floats made(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::uint32_t random =
          philox4x32({static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(c), which, 0}, {3, 4})[0];
      made[r * columns + c] =
          whole ? static_cast<float>(random % 17) - 8 : static_cast<float>(random) * 0x1p-32F - 0.4F;
    }
  }
  return made;
}

constexpr float kUntouched = 1e9F;

// The three products of `sizes`; rows behind the real ones are read as noise, and must not count.
struct Products {
  Sizes sizes;
  Floats x, dy, table;
  Floats y, dx, dw, sum, kept;  // dw by itself, on top of a sum, and with `keep` at 0

  Products(const Sizes& s, bool whole)
      : sizes(s),
        x(floats(s.capacity, s.k, 0, whole)),
        dy(transposed(floats(s.m, s.capacity, 1, whole), s)),
        table(floats(s.m, s.k, 2, whole)),
        y(static_cast<std::size_t>(s.capacity * s.m)),
        dx(static_cast<std::size_t>(s.capacity * s.k)),
        dw(static_cast<std::size_t>(s.m * s.k)),
        sum(floats(s.m, s.k, 3, whole)),
        kept(floats(s.m, s.k, 4, whole)) {
    std::fill_n(y.data(), s.capacity * s.m, kUntouched);
    std::fill_n(dx.data(), s.capacity * s.k, kUntouched);
    std::fill_n(dw.data(), s.m * s.k, kUntouched);
    Graph graph;
    const TensorType of_x{DType::kF32, {s.capacity, s.k}}, of_y{DType::kF32, {s.capacity, s.m}};
    const TensorType of_table{DType::kF32, {s.m, s.k}}, one{DType::kI32, {1}};
    const ValueId x_value = graph.add_input("x", of_x), dy_value = graph.add_input("dy", of_y);
    const ValueId weight = graph.add_input("weight", of_table), sum_value = graph.add_state("sum", of_table);
    const ValueId kept_value = graph.add_state("kept", of_table), keep = graph.add_input("keep", one);
    const auto node = [&](Op op, std::vector<ValueId> inputs) {
      graph.add_node({.op = op, .name = "product", .inputs = std::move(inputs)});
      return graph.nodes().back();
    };
    std::int32_t no = 0;
    const TensorView x_view(of_x, x.data()), dy_view(of_y, dy.data()), table_view(of_table, table.data());
    const TensorView sum_view(of_table, sum.data()), kept_view(of_table, kept.data()), no_view(one, &no);
    run(*make_few_rows_linear(graph, node(Op::kLinear, {x_value, weight})), {x_view, table_view}, {of_y, y.data()});
    run(*make_few_rows_input_grad(graph, node(Op::kLinearInputGrad, {dy_value, weight})), {dy_view, table_view},
        {of_x, dx.data()});
    run(*make_few_rows_weight_grad(graph, node(Op::kLinearWeightGrad, {dy_value, x_value})), {dy_view, x_view},
        {of_table, dw.data()});
    run(*make_few_rows_weight_grad(graph, node(Op::kLinearWeightGrad, {dy_value, x_value, sum_value})),
        {dy_view, x_view, sum_view}, sum_view);
    run(*make_few_rows_weight_grad(graph, node(Op::kLinearWeightGrad, {dy_value, x_value, kept_value, keep})),
        {dy_view, x_view, kept_view, no_view}, kept_view);
  }

 private:
  // dy is drawn by column, so that a smaller vocabulary has the first columns of a larger one.
  static Floats transposed(const Floats& from, const Sizes& s) {
    Floats to(static_cast<std::size_t>(s.m * s.capacity));
    for (std::int64_t v = 0; v < s.m; ++v) {
      for (std::int64_t r = 0; r < s.capacity; ++r) to[r * s.m + v] = from[v * s.capacity + r];
    }
    return to;
  }
  void run(const Kernel& kernel, const std::vector<TensorView>& inputs, const TensorView& output) const {
    const Floats scratch(kernel.scratch_bytes() / sizeof(float));
    const auto rows = static_cast<std::int32_t>(sizes.rows);
    kernel.run({.inputs = inputs,
                .outputs = {&output, 1},
                .scratch = {reinterpret_cast<std::byte*>(scratch.data()), kernel.scratch_bytes()},
                .row_count = &rows});
  }
};

class FewRowsProducts : public EveryTarget {};

TEST_P(FewRowsProducts, AreThoseOfLoops) {
  for (const Sizes& s : {Sizes{0, 16, 50, 16}, Sizes{1, 16, 7, 16}, Sizes{17, 33, 205, 80}, Sizes{64, 64, 400, 64},
                         Sizes{61, 64, 333, 144}, Sizes{128, 128, 131, 272}, Sizes{70, 128, 97, 48}}) {
    SCOPED_TRACE(fmt::format("{} of {} rows, {} x {}", s.rows, s.capacity, s.m, s.k));
    const Products found(s, true);
    const Floats sum = floats(s.m, s.k, 3, true);
    for (std::int64_t r = 0; r < s.capacity; ++r) {
      for (std::int64_t v = 0; v < s.m; ++v) {
        float y = r < s.rows ? 0 : kUntouched;
        for (std::int64_t c = 0; r < s.rows && c < s.k; ++c) y += found.x[r * s.k + c] * found.table[v * s.k + c];
        ASSERT_EQ(found.y[r * s.m + v], y) << r << ' ' << v;
      }
      for (std::int64_t c = 0; c < s.k; ++c) {
        float dx = r < s.rows ? 0 : kUntouched;
        for (std::int64_t v = 0; r < s.rows && v < s.m; ++v) dx += found.dy[r * s.m + v] * found.table[v * s.k + c];
        ASSERT_EQ(found.dx[r * s.k + c], dx) << r << ' ' << c;
      }
    }
    for (std::int64_t v = 0; v < s.m; ++v) {
      for (std::int64_t c = 0; c < s.k; ++c) {
        float dw = 0;
        for (std::int64_t r = 0; r < s.rows; ++r) dw += found.dy[r * s.m + v] * found.x[r * s.k + c];
        ASSERT_EQ(found.dw[v * s.k + c], dw) << v << ' ' << c;
        ASSERT_EQ(found.sum[v * s.k + c], sum[v * s.k + c] + dw) << v << ' ' << c;
        ASSERT_EQ(found.kept[v * s.k + c], dw) << v << ' ' << c;
      }
    }
  }
}

TEST_P(FewRowsProducts, NeitherTheTeamNorTheWeightsHeightChangesASum) {
  const int team = omp_get_max_threads();
  const Sizes s{.rows = 61, .capacity = 64, .m = 700, .k = 144};
  omp_set_num_threads(1);
  const Products alone(s, false);
  omp_set_num_threads(3);
  const Products together(s, false);
  Sizes fewer = s;
  fewer.m = 101;
  const Products part(fewer, false);
  omp_set_num_threads(team);
  const auto same = [](const Floats& a, const Floats& b, std::int64_t count) {
    return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(count) * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(alone.y, together.y, s.rows * s.m));
  EXPECT_TRUE(same(alone.dx, together.dx, s.rows * s.k));
  for (const auto of : {&Products::dw, &Products::sum}) {
    EXPECT_TRUE(same(alone.*of, together.*of, s.m * s.k));
    EXPECT_TRUE(same(alone.*of, part.*of, fewer.m * s.k));
  }
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t v = 0; v < fewer.m; ++v) ASSERT_EQ(alone.y[r * s.m + v], part.y[r * fewer.m + v]);
  }
}

INSTANTIATE_TEST_SUITE_P(Target, FewRowsProducts, all_targets(), target_name);

TEST(FewRowsProduct, AreSixteenToAHundredAndTwentyEight) {
  EXPECT_TRUE(has_few_rows(16, 896));
  EXPECT_TRUE(has_few_rows(128, 16));
  EXPECT_FALSE(has_few_rows(15, 896));
  EXPECT_FALSE(has_few_rows(129, 896));
  EXPECT_FALSE(has_few_rows(64, 888));
}

}  // namespace
}  // namespace plimsoll::test
