// The exchange of gradients by rows: where all ranks' rows may be more than the table has, they travel as the table,
// and the sums are the same.
#include "transform/data_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "support/rank_graphs.h"
#include "support/thread_ranks.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kIds = 4, kWidth = 3;
constexpr std::array<std::array<std::int32_t, kIds>, 3> kLookedUp = {{{1, 0, 1, 2}, {2, 2, 1, 0}, {4, 1, 3, 3}}};
constexpr std::array<std::int32_t, 3> kReal = {4, 0, 3};

float upstream(int rank, std::int64_t i, std::int64_t k) {
  return 1.0F / static_cast<float>(1 + k + 10 * i + 100 * rank);
}

// The gradient of a table of `rows`, summed over three ranks: as a table, whatever it travelled as.
std::vector<float> sum(std::int64_t rows, bool& as_table) {
  std::vector<float> summed;
  run_ranks(3, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Graph graph;
    const ValueId table = graph.add_parameter("table", {DType::kF32, {rows, kWidth}});
    const ValueId ids = graph.add_input("ids", {DType::kI32, {kIds}});
    const ValueId real = graph.add_input("real", {DType::kI32, {1}});
    const ValueId dy = graph.add_input("dy", {DType::kF32, {kIds, kWidth}});
    EmbeddingAttributes attributes{.row_gradient = true};
    attributes.table_rows = rows;
    const auto local = graph.add_node({.op = Op::kEmbeddingRowGrad,
                                       .name = "grad",
                                       .attributes = attributes,
                                       .inputs = {dy, ids},
                                       .row_count = real,
                                       .phase = Phase::kBackward});
    Gradients gradients{{table, {.row_ids = local[0], .row_count = local[1], .rows = local[2]}}};
    const RankOptions options{.rank = rank, .ranks = 3};
    const std::array<ValueId, 1> trained = {table};
    const Shards shards = divide_parameters(graph, trained, options, false);
    graph = sum_over_ranks(graph, gradients, shards, options);
    const Gradient result = gradients.begin()->second;
    for (const ValueId value : {result.dense, result.row_ids, result.row_count, result.rows}) {
      if (value != kNoValue) graph.mark_output(value);
    }
    const auto input = [&](const std::string& name) {
      for (std::size_t v = 0; v < graph.values().size(); ++v) {
        if (graph.values()[v].name == name) return static_cast<ValueId>(v);
      }
      return kNoValue;
    };
    const std::array<ValueId, 3> inputs = {input("ids"), input("real"), input("dy")};
    const RankProgram program(std::move(graph), communicator);
    const auto r = static_cast<std::size_t>(rank);
    std::ranges::copy(kLookedUp[r], program->view(inputs[0]).data<std::int32_t>());
    *program->view(inputs[1]).data<std::int32_t>() = kReal[r];
    for (std::int64_t e = 0; e < kIds * kWidth; ++e) {
      program->view(inputs[2]).data<float>()[e] = upstream(rank, e / kWidth, e % kWidth);
    }
    program->run();
    if (rank != 0) return;
    as_table = !result.by_rows();
    if (as_table) {
      const auto values = program->view(result.dense).span<float>();
      summed.assign(values.begin(), values.end());
      return;
    }
    summed.assign(static_cast<std::size_t>(rows * kWidth), 0);
    const std::int32_t* const at = program->view(result.row_ids).data<std::int32_t>();
    for (std::int32_t i = 0; i < *program->view(result.row_count).data<std::int32_t>(); ++i) {
      for (std::int64_t k = 0; k < kWidth; ++k) {
        summed[static_cast<std::size_t>(at[i] * kWidth + k)] = program->view(result.rows).data<float>()[i * kWidth + k];
      }
    }
  });
  return summed;
}

TEST(RankSum, RowsThatMayBeMoreThanTheTableTravelAsTheTable) {
  bool small_as_table = false, large_as_table = true;
  const std::vector<float> small = sum(12, small_as_table);  // 3 ranks x 4 ids
  const std::vector<float> large = sum(13, large_as_table);
  EXPECT_TRUE(small_as_table);
  EXPECT_FALSE(large_as_table);
  ASSERT_EQ(small.size(), 12U * kWidth);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), large.begin()));
  for (std::int64_t row = 0; row < 12; ++row) {
    for (std::int64_t k = 0; k < kWidth; ++k) {
      float expected = 0;  // the sum of each rank's own, in the order of ranks
      for (int rank = 0; rank < 3; ++rank) {
        float own = 0;
        for (std::int64_t i = 0; i < kReal[static_cast<std::size_t>(rank)]; ++i) {
          if (kLookedUp[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)] == row)
            own += upstream(rank, i, k);
        }
        expected += own;
      }
      EXPECT_FLOAT_EQ(small[static_cast<std::size_t>(row * kWidth + k)], expected) << row << ", " << k;
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
