// The exchange of tensors between ranks: each collective against a plain loop over what all ranks have, for parts that
// the ranks divide unevenly, and for ranks that own nothing of one.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "support/rank_graphs.h"
#include "support/thread_ranks.h"

namespace plimsoll::test {
namespace {

using Bounds = std::vector<std::int64_t>;

// A graph over inputs a f[3,7], b f[5]: `ops` one after the other on the same parts.
struct Exchanged {
  std::vector<std::vector<float>> parts;
};

float value_of(int rank, std::size_t part, std::int64_t element) {
  return 1.0F / static_cast<float>(3 + element + 10 * static_cast<std::int64_t>(part) + 100 * rank);
}

std::vector<Exchanged> run(int ranks, const std::vector<Op>& ops, const std::vector<Bounds>& bounds,
                           DType dtype = DType::kF32) {
  const std::vector<Shape> shapes = {{3, 7}, {5}};
  std::vector<Exchanged> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Communicator& communicator) {
    Graph graph;
    std::vector<ValueId> parts, sources;
    CollectiveAttributes attributes{.ticket = 3, .rank = communicator.rank(), .ranks = ranks, .parts = {}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      sources.push_back(graph.add_state(i == 0 ? "a" : "b", {dtype, shapes[i]}));
      attributes.parts.push_back({.type = {dtype, shapes[i]}, .bounds = bounds[i]});
    }
    parts = sources;
    for (const Op op : ops) {
      parts = graph.add_node({.op = op, .name = std::string(op_name(op)), .attributes = attributes, .inputs = parts});
    }
    const RankProgram program(std::move(graph), communicator);
    Exchanged& result = results[static_cast<std::size_t>(communicator.rank())];
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const TensorView view = program->view(sources[i]);
      for (std::int64_t e = 0; e < view.elements(); ++e) view.data<float>()[e] = value_of(communicator.rank(), i, e);
    }
    program->run();
    for (const ValueId source : sources) {
      const auto values = program->view(source).span<float>();
      result.parts.emplace_back(values.begin(), values.end());
    }
  });
  return results;
}

float sum_of(int ranks, std::size_t part, std::int64_t element) {
  float sum = value_of(0, part, element);
  for (int r = 1; r < ranks; ++r) sum += value_of(r, part, element);
  return sum;
}

const std::vector<Bounds> kTwo = {{0, 13, 21}, {0, 0, 5}};
const std::vector<Bounds> kThree = {{0, 7, 7, 21}, {0, 2, 4, 5}};

TEST(Collectives, ReduceScatterSumsWhatARankOwns) {
  for (const auto& bounds : {kTwo, kThree}) {
    const int ranks = static_cast<int>(bounds[0].size()) - 1;
    const auto results = run(ranks, {Op::kReduceScatterBegin, Op::kReduceScatterEnd}, bounds);
    for (int r = 0; r < ranks; ++r) {
      for (std::size_t part = 0; part < 2; ++part) {
        const auto own = static_cast<std::size_t>(r);
        for (std::int64_t e = bounds[part][own]; e < bounds[part][own + 1]; ++e) {
          EXPECT_EQ(results[own].parts[part][static_cast<std::size_t>(e)], sum_of(ranks, part, e))
              << "rank " << r << " of " << ranks << ", part " << part << ", element " << e;
        }
      }
    }
  }
}

TEST(Collectives, AllGatherGivesEveryRankTheOwnersElements) {
  for (const auto& bounds : {kTwo, kThree}) {
    const int ranks = static_cast<int>(bounds[0].size()) - 1;
    const auto results = run(ranks, {Op::kAllGatherBegin, Op::kAllGatherEnd}, bounds);
    for (const Exchanged& result : results) {
      for (std::size_t part = 0; part < 2; ++part) {
        for (int owner = 0; owner < ranks; ++owner) {
          const auto o = static_cast<std::size_t>(owner);
          for (std::int64_t e = bounds[part][o]; e < bounds[part][o + 1]; ++e) {
            EXPECT_EQ(result.parts[part][static_cast<std::size_t>(e)], value_of(owner, part, e));
          }
        }
      }
    }
  }
}

TEST(Collectives, AllReduceSumsAllOfIt) {
  for (const auto& bounds : {kTwo, kThree}) {
    const int ranks = static_cast<int>(bounds[0].size()) - 1;
    const auto results = run(ranks, {Op::kAllReduceBegin, Op::kAllReduceEnd}, bounds);
    for (const Exchanged& result : results) {
      for (std::size_t part = 0; part < 2; ++part) {
        for (std::size_t e = 0; e < result.parts[part].size(); ++e) {
          EXPECT_EQ(result.parts[part][e], sum_of(ranks, part, static_cast<std::int64_t>(e)));
        }
      }
    }
  }
}

// Rank r has r rows; those of all come one after the other, without gaps.
TEST(Collectives, GatherRowsJoinsWhatIsCounted) {
  for (const int ranks : {2, 4}) {
    constexpr std::int64_t kCapacity = 4, kWidth = 3;
    run_ranks(ranks, [&](Communicator& communicator) {
      Graph graph;
      const CollectiveAttributes attributes{.ticket = 1, .rank = communicator.rank(), .ranks = ranks, .parts = {}};
      const ValueId ids = graph.add_input("ids", {DType::kI32, {kCapacity}});
      const ValueId count = graph.add_input("count", {DType::kI32, {1}});
      const ValueId rows = graph.add_input("rows", {DType::kF32, {kCapacity, kWidth}});
      const auto begun = graph.add_node(
          {.op = Op::kGatherRowsBegin, .name = "begin", .attributes = attributes, .inputs = {ids, count, rows}});
      const auto all =
          graph.add_node({.op = Op::kGatherRowsEnd, .name = "end", .attributes = attributes, .inputs = begun});
      for (const ValueId value : all) graph.mark_output(value);
      const RankProgram program(std::move(graph), communicator);
      const std::int32_t mine = communicator.rank();
      *program->view(count).data<std::int32_t>() = mine;
      for (std::int32_t i = 0; i < kCapacity; ++i) {
        program->view(ids).data<std::int32_t>()[i] = 10 * mine + i;
        for (std::int64_t k = 0; k < kWidth; ++k) {
          program->view(rows).data<float>()[i * kWidth + k] = static_cast<float>(100 * mine + 10 * i + k);
        }
      }
      program->run();
      std::int32_t at = 0;
      for (std::int32_t r = 0; r < ranks; ++r) {
        for (std::int32_t i = 0; i < r; ++i, ++at) {
          EXPECT_EQ(program->view(all[0]).data<std::int32_t>()[at], 10 * r + i);
          for (std::int64_t k = 0; k < kWidth; ++k) {
            EXPECT_EQ(program->view(all[1]).data<float>()[at * kWidth + k], static_cast<float>(100 * r + 10 * i + k));
          }
        }
      }
      EXPECT_EQ(*program->view(all[2]).data<std::int32_t>(), at);
    });
  }
}

// Every rank gets the rows that it asks for, whoever owns them, through the places that it is given; also a rank that
// owns nothing, one that asks for nothing, and one whose ids are partly not real.
TEST(Collectives, AllToAllRowsGivesEveryRankTheRowsOfItsIds) {
  constexpr std::int64_t kIds = 5, kWidth = 3;
  const std::vector<std::vector<std::int32_t>> asked = {{8, 0, 0, 3, 8}, {4, 4, 4, 4, 4}, {7, 2, 5, 1, 0}};
  const std::vector<std::int32_t> counts = {5, 0, 3};
  const auto element = [](std::int64_t row, std::int64_t k) { return static_cast<float>(10 * row + k); };
  for (const bool counted : {true, false}) {
    for (const std::vector<std::int64_t>& rows_of : {std::vector<std::int64_t>{0, 4, 6, 9}, {0, 4, 4, 9}}) {
      run_ranks(3, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        const std::int64_t first = rows_of[rank], own_rows = rows_of[rank + 1] - first;
        Graph graph;
        const RowLookUp look_up =
            add_row_look_up(graph, communicator.rank(), rows_of, kWidth, DType::kF32, kIds, counted);
        const RankProgram program(std::move(graph), communicator);
        for (std::int64_t e = 0; e < own_rows * kWidth; ++e) {
          program->view(look_up.own).data<float>()[e] = element(first + e / kWidth, e % kWidth);
        }
        std::ranges::copy(asked[rank], program->view(look_up.ids).data<std::int32_t>());
        *program->view(look_up.count).data<std::int32_t>() = counts[rank];
        program->run();
        const std::int32_t* const places = program->view(look_up.places).data<std::int32_t>();
        for (std::int64_t i = 0; i < (counted ? counts[rank] : kIds); ++i) {
          const std::int32_t place = places[i];
          ASSERT_TRUE(place >= 0 && place < kIds);
          for (std::int64_t k = 0; k < kWidth; ++k) {
            EXPECT_EQ(program->view(look_up.rows).data<float>()[place * kWidth + k],
                      element(asked[rank][static_cast<std::size_t>(i)], k))
                << "rank " << rank << ", id " << i;
          }
        }
      });
    }
  }
}

TEST(Collectives, ARankThatFailsEndsTheOthers) {
  EXPECT_THROW(run_ranks(3,
                         [](Communicator& ranks) {
                           if (ranks.rank() == 2) throw EnvironmentError({.what = "the disk is full"});
                           barrier(ranks);
                         }),
               EnvironmentError);
}

}  // namespace
}  // namespace plimsoll::test
