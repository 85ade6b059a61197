// Every collective on GPUs gives what the reference gives in the host's memory, bit for bit: on two and four ranks, as
// it is started first, as it is recorded, and as it is launched, with streams that run at once and as late as allowed.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/reference/reference_backend.h"
#include "gpu_ranks.h"
#include "plan/memory_plan.h"
#include "runtime/program.h"
#include "support/rank_graphs.h"

namespace plimsoll::test {
namespace {

using Bounds = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

// A graph, how it is filled in one of several runs, and which of its results are defined.
struct Exchange {
  Graph graph;
  struct Result {
    ValueId value = kNoValue;
    // The elements that are compared, by what the reference has computed; empty: all.
    std::function<std::size_t(const Program& reference)> defined{};
  };
  std::vector<Result> results{};
  std::function<void(const Program& program, int run)> fill{};
};
using MakeExchange = std::function<Exchange(int rank, int ranks)>;

struct Bound {
  PreparedGraph prepared;
  MemoryPlan plan;
  std::unique_ptr<DeviceMemory> memory;
  std::unique_ptr<Program> program;

  Bound(Graph graph, Backend& backend, Communicator& ranks) : prepared(prepare(std::move(graph), backend)) {
    PersistentLayout layout;
    layout.add(prepared.graph);
    plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
    memory = backend.allocate(plan.arena_bytes());
    program = std::make_unique<Program>(std::move(prepared), plan, *memory, nullptr, &ranks);
  }
  Bytes read(ValueId value) const {
    Bytes bytes(program->tensor(value).bytes());
    program->tensor(value).read(bytes);
    return bytes;
  }
};

// Runs it on both backends, and says where they differ; empty: nowhere.
std::string compare(Communicator& ranks, const MakeExchange& make, bool lazy, bool records) {
  const auto gpu = gpu_of_rank(ranks);
  if (!records) gpu->start_one_by_one();
  cuda_emulator::set_lazy(lazy);
  ReferenceBackend host;
  ranks.reserve(16);
  Exchange exchange = make(ranks.rank(), ranks.size());
  const Bound expected(make(ranks.rank(), ranks.size()).graph, host, ranks), found(exchange.graph, *gpu, ranks);
  constexpr int kRuns = 4;  // as it is, recorded and launched, launched, launched
  const std::size_t held = gpu->reserved_bytes();
  for (int run = 0; run < kRuns; ++run) {
    for (const Bound* each : {&expected, &found}) {
      exchange.fill(*each->program, run);
      each->program->run();
    }
    for (const Exchange::Result& result : exchange.results) {
      const Bytes a = expected.read(result.value), b = found.read(result.value);
      const std::size_t each = dtype_bytes(expected.program->graph().type(result.value).dtype);
      const std::size_t count = result.defined ? each * result.defined(*expected.program) : a.size();
      const auto differs = std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin()).first;
      const auto at = static_cast<std::size_t>(differs - a.begin());
      if (at < count) {
        return "rank " + std::to_string(ranks.rank()) + ", run " + std::to_string(run) + ", " +
               exchange.graph.value(result.value).name + ", element " + std::to_string(at / each);
      }
    }
  }
  if (gpu->reserved_bytes() != held) return "NCCL has taken memory after it was connected";
  if (records != (cuda_emulator::graph_calls().captures == 1)) return "the step was recorded, or not";
  return "";
}

void expect_same(int ranks, const MakeExchange& make) {
  for (const auto& [lazy, records] : {std::pair(false, true), {true, true}, {true, false}}) {
    const auto said = fork_ranks(
        ranks, [&, lazy = lazy, records = records](Communicator& c) { return compare(c, make, lazy, records); });
    for (const std::string& each : said)
      EXPECT_EQ(each, "") << ranks << " ranks, lazy " << lazy << ", recorded " << records;
  }
}

template <typename T>
void write(const Program& program, ValueId value, const std::vector<T>& values) {
  program.tensor(value).write(std::as_bytes(std::span(values)));
}

template <typename T>
std::vector<T> values_of(int rank, int run, std::size_t part, std::int64_t elements) {
  std::vector<T> values;
  for (std::int64_t e = 0; e < elements; ++e) {
    values.push_back(T{1} / static_cast<T>(3 + e + 10 * static_cast<std::int64_t>(part) + 100 * rank + 1000 * run));
  }
  return values;
}

// `ops` one after the other on the same parts, which are states; kGatherShardsBegin makes them of what a rank owns.
MakeExchange in_parts(const std::vector<Op>& ops, const std::vector<Bounds>& bounds, DType dtype = DType::kF32) {
  return [=](int rank, int ranks) {
    const std::vector<Shape> shapes = {{3, 7}, {5}};
    const bool gathers_shards = ops.front() == Op::kGatherShardsBegin;
    Exchange exchange;
    std::vector<ValueId> sources;
    std::vector<std::int64_t> elements;
    CollectiveAttributes attributes{.ticket = 3, .rank = rank, .ranks = ranks, .parts = {}};
    const auto own = static_cast<std::size_t>(rank);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      elements.push_back(gathers_shards ? bounds[i][own + 1] - bounds[i][own] : shapes[i].elements());
      const TensorType type{dtype, gathers_shards ? Shape{elements[i]} : shapes[i]};
      sources.push_back(exchange.graph.add_state(i == 0 ? "a" : "b", type));
      attributes.parts.push_back({.type = {dtype, shapes[i]}, .bounds = bounds[i]});
    }
    std::vector<ValueId> parts = sources;
    for (const Op op : ops) {
      parts = exchange.graph.add_node(
          {.op = op, .name = std::string(op_name(op)), .attributes = attributes, .inputs = parts});
    }
    for (const ValueId part : parts) {
      if (gathers_shards) exchange.graph.mark_output(part);
      exchange.results.push_back({.value = part});
    }
    exchange.fill = [=](const Program& program, int run) {
      for (std::size_t i = 0; i < sources.size(); ++i) {
        if (dtype == DType::kF64) {
          write(program, sources[i], values_of<double>(rank, run, i, elements[i]));
        } else {
          write(program, sources[i], values_of<float>(rank, run, i, elements[i]));
        }
      }
    };
    return exchange;
  };
}

const std::vector<Bounds> kTwo = {{0, 13, 21}, {0, 0, 5}};
const std::vector<Bounds> kFour = {{0, 7, 7, 20, 21}, {0, 2, 4, 4, 5}};

class GpuCollectives : public testing::TestWithParam<int> {
 protected:
  static int ranks() { return GetParam(); }
  static const std::vector<Bounds>& bounds() { return ranks() == 2 ? kTwo : kFour; }
};

TEST_P(GpuCollectives, ReduceScatter) {
  expect_same(ranks(), in_parts({Op::kReduceScatterBegin, Op::kReduceScatterEnd}, bounds()));
}
TEST_P(GpuCollectives, AllReduce) {
  expect_same(ranks(), in_parts({Op::kAllReduceBegin, Op::kAllReduceEnd}, bounds()));
  expect_same(ranks(), in_parts({Op::kAllReduceBegin, Op::kAllReduceEnd}, bounds(), DType::kF64));
}
TEST_P(GpuCollectives, AllGather) {
  expect_same(ranks(), in_parts({Op::kAllGatherBegin, Op::kAllGatherEnd}, bounds()));
}
TEST_P(GpuCollectives, GatherShards) {
  expect_same(ranks(), in_parts({Op::kGatherShardsBegin, Op::kAllGatherEnd}, bounds()));
}

// In each run the ranks have other numbers of rows: none, some, all that there is room for.
TEST_P(GpuCollectives, GatherRows) {
  for (const std::int64_t width : {3, 300}) {
    expect_same(ranks(), [width](int rank, int ranks) {
      constexpr std::int64_t kCapacity = 20;
      Exchange exchange;
      const CollectiveAttributes attributes{.ticket = 1, .rank = rank, .ranks = ranks, .parts = {}};
      const ValueId ids = exchange.graph.add_input("ids", {DType::kI32, {kCapacity}});
      const ValueId count = exchange.graph.add_input("count", {DType::kI32, {1}});
      const ValueId rows = exchange.graph.add_input("rows", {DType::kF32, {kCapacity, width}});
      const auto begun = exchange.graph.add_node(
          {.op = Op::kGatherRowsBegin, .name = "begin", .attributes = attributes, .inputs = {ids, count, rows}});
      const auto all =
          exchange.graph.add_node({.op = Op::kGatherRowsEnd, .name = "end", .attributes = attributes, .inputs = begun});
      for (const ValueId value : all) exchange.graph.mark_output(value);
      const auto total = [all](const Program& program) {
        return static_cast<std::size_t>(program.tensor(all[2]).get<std::int32_t>());
      };
      exchange.results = {
          {.value = all[0], .defined = total},
          {.value = all[1],
           .defined = [total, width](const Program& p) { return total(p) * static_cast<std::size_t>(width); }},
          {.value = all[2]}};
      exchange.fill = [=](const Program& program, int run) {
        const std::vector<std::int32_t> counts = {0, 1, kCapacity, 7, 19};
        write(program, count, std::vector<std::int32_t>{counts[static_cast<std::size_t>(rank + run) % counts.size()]});
        std::vector<std::int32_t> numbers;
        for (std::int32_t i = 0; i < kCapacity; ++i) numbers.push_back(1000 * rank + 100 * run + i);
        write(program, ids, numbers);
        write(program, rows, values_of<float>(rank, run, 0, kCapacity * width));
      };
      return exchange;
    });
  }
}

// Rows of a table that ranks own, of float and of halves of an odd width; one rank owns none, and ids are equal,
// padding and not real.
TEST_P(GpuCollectives, AllToAllRows) {
  for (const bool counted : {true, false}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      expect_same(ranks(), [counted, dtype](int rank, int ranks) {
        constexpr std::int64_t kIds = 9, kRows = 11, kWidth = 3;
        const Bounds rows_of = ranks == 2 ? Bounds{0, 4, kRows} : Bounds{0, 4, 4, 9, kRows};
        const auto own = static_cast<std::size_t>(rank);
        const std::int64_t first = rows_of[own], own_rows = rows_of[own + 1] - first;
        Exchange exchange;
        const auto [owned, ids, count, rows, places] =
            add_row_look_up(exchange.graph, rank, rows_of, kWidth, dtype, kIds, counted);
        // As many rows arrive as the highest place says; of no ids, none.
        const auto arrived = [place = places, count = count, counted](const Program& program) {
          std::vector<std::int32_t> found(kIds);
          program.tensor(place).read(std::as_writable_bytes(std::span(found)));
          if (counted && program.tensor(count).get<std::int32_t>() == 0) return std::size_t{0};
          return (static_cast<std::size_t>(*std::ranges::max_element(found)) + 1) * kWidth;
        };
        exchange.results = {{.value = places}, {.value = rows, .defined = arrived}};
        exchange.fill = [=, owned = owned, ids = ids, count = count](const Program& program, int run) {
          std::vector<std::int32_t> numbers;
          for (std::int32_t i = 0; i < kIds; ++i) {
            numbers.push_back(i % 4 == 3 ? numbers.back()
                                         : (7 * i + 3 * rank + 5 * run) % static_cast<std::int32_t>(kRows));
          }
          if (run == 2) std::ranges::fill(numbers, 10);  // all of one owner
          write(program, ids, numbers);
          write(program, count,
                std::vector<std::int32_t>{(4 * rank + 3 * run) % (static_cast<std::int32_t>(kIds) + 1)});
          std::vector<std::uint16_t> halves;
          for (std::int64_t e = 0; e < own_rows * kWidth; ++e) {
            halves.push_back(static_cast<std::uint16_t>(100 * run + 31 * (first * kWidth + e)));
          }
          if (dtype == DType::kBF16) {
            write(program, owned, halves);
          } else {
            write(program, owned, std::vector<float>(halves.begin(), halves.end()));
          }
        };
        return exchange;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuCollectives, testing::Values(2, 4));

}  // namespace
}  // namespace plimsoll::test
