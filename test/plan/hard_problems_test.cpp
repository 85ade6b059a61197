// Tests hard packing problems: the eleven published with MiniMalloc, ones cut out of a full arena, random graphs. The
// independent validator checks every answer; times are printed, never judged.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "graph/build.h"
#include "harness/paths.h"
#include "plan/memory_plan.h"
#include "plan/packing.h"
#include "plan/packing_search.h"

namespace plimsoll::test {
namespace {

using Problem = std::vector<Interval>;

constexpr std::size_t kUnit = 64;
// The capacity for the published problems, and enough steps: the hardest takes about half of them.
constexpr std::size_t kPublishedCapacity = 1'048'576;
constexpr std::int64_t kPublishedSteps = 40'000'000'000;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Reads lines of id,lower,upper,size: alive in [lower, upper).
Problem read_problem(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "id,lower,upper,size") << path;
  Problem problem;
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    std::int64_t id = 0;
    Interval buffer;
    EXPECT_TRUE(fields >> id >> buffer.begin >> buffer.end >> buffer.bytes) << path << ": " << line;
    problem.push_back(buffer);
  }
  return problem;
}

TEST(PublishedProblems, AreSolvedWithinTheirCapacity) {
  const std::filesystem::path folder = shared_dir() / "data" / "minimalloc";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is not there";
  double total = 0;
  for (char name = 'A'; name <= 'K'; ++name) {
    const Problem problem = read_problem(folder / (std::string(1, name) + ".1048576.csv"));
    ASSERT_GE(problem.size(), 100U);
    const auto begin = std::chrono::steady_clock::now();
    const Packing packing =
        pack(problem, 1, {.capacity_bytes = kPublishedCapacity, .max_steps = kPublishedSteps});
    const double seconds = seconds_since(begin);
    validate(problem, packing, 1);
    EXPECT_LE(packing.bytes, kPublishedCapacity) << name;
    std::printf("%c: %zu buffers, bound %zu, packed %zu, %.2f s\n", name, problem.size(), lower_bound_bytes(problem),
                packing.bytes, seconds);
    total += seconds;
  }
  std::printf("all eleven: %.2f s\n", total);
}

// A block of the arena during some time.
struct Block {
  std::int64_t begin, end;
  std::size_t low, high;  // in units
};

// Cuts a full arena into buffers, so a packing into its height is known to exist. Then it shifts edges: some buffers
// are born later or die earlier.
Problem cut_arena(std::mt19937& random, std::int64_t times, std::size_t height, std::size_t pieces, int most_shift) {
  std::vector<Block> blocks = {{0, times, 0, height}};
  while (blocks.size() < pieces) {
    // Takes one of the larger of a few blocks.
    std::size_t chosen = random() % blocks.size();
    const auto area = [&](std::size_t b) {
      return static_cast<double>(blocks[b].end - blocks[b].begin) * static_cast<double>(blocks[b].high - blocks[b].low);
    };
    for (int i = 0; i < 3; ++i) {
      const std::size_t other = random() % blocks.size();
      if (area(other) > area(chosen)) chosen = other;
    }
    Block& block = blocks[chosen];
    Block rest = block;
    if (random() % 2 == 0) {
      if (block.end - block.begin < 4) continue;
      const auto cut = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(block.end - block.begin - 1));
      block.end = rest.begin = block.begin + cut;
    } else {
      if (block.high - block.low < 2) continue;
      block.high = rest.low = block.low + 1 + random() % (block.high - block.low - 1);
    }
    blocks.push_back(rest);
  }
  Problem problem;
  for (const Block& block : blocks) {
    const auto shift = [&] {
      const auto most = std::min<std::int64_t>(most_shift, (block.end - block.begin - 1) / 2);
      return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(most + 1));
    };
    const std::int64_t later = shift(), earlier = shift();
    problem.push_back(
        {.begin = block.begin + later, .end = block.end - earlier, .bytes = kUnit * (block.high - block.low)});
  }
  return problem;
}

// Prints how many moments are nearly full: the published problems have 0 to 60 % full, 4 to 96 % nine tenths full.
TEST(CutArenas, AreSolvedWithinTheirCapacity) {
  std::mt19937 random(31);
  const auto begin = std::chrono::steady_clock::now();
  constexpr std::size_t kHeight = 1024;
  int problems = 0;
  double moments = 0, nearly_full = 0;
  for (const std::size_t pieces : {150U, 200U, 250U}) {
    for (int i = 0; i < 4; ++i) {
      const auto times = static_cast<std::int64_t>(pieces / 2);
      const Problem problem = cut_arena(random, times, kHeight, pieces, 5);
      const Packing packing = pack(problem, kUnit, {.capacity_bytes = kHeight * kUnit, .max_steps = 2'000'000'000});
      validate(problem, packing, kUnit);
      EXPECT_LE(packing.bytes, kHeight * kUnit) << pieces << " buffers, problem " << i;
      for (std::int64_t time = 0; time < times; ++time) {
        std::size_t alive = 0;
        for (const Interval& one : problem) alive += one.begin <= time && time < one.end ? one.bytes : 0;
        moments += 1;
        nearly_full += 10 * alive >= 9 * kHeight * kUnit ? 1 : 0;
      }
      ++problems;
    }
  }
  std::printf("%d problems, %.0f %% of their moments at least nine tenths full, %.2f s\n", problems,
              100 * nearly_full / moments, seconds_since(begin));
}

// Nodes read a few of the values before them, mostly late ones; some values are read at the end.
Graph random_graph(std::mt19937& random, int nodes) {
  Graph graph;
  std::vector<std::vector<ValueId>> values;  // by size
  for (std::int64_t rows = 1; rows <= 8; ++rows) {
    values.push_back({graph.add_input("x" + std::to_string(rows), {DType::kF32, {rows * 7, 16}})});
  }
  for (int n = 0; n < nodes; ++n) {
    std::vector<ValueId>& same = values[random() % values.size()];
    const auto pick = [&] {
      const std::size_t back = random() % (random() % 4 == 0 ? same.size() : std::min<std::size_t>(3, same.size()));
      return same[same.size() - 1 - back];
    };
    const ValueId a = pick(), b = pick();
    same.push_back(add(graph, "n" + std::to_string(n), a, b, kNoValue));
    if (random() % 16 == 0) graph.mark_output(same.back());
  }
  return graph;
}

TEST(RandomGraphs, HavePlansThatReachTheirBound) {
  std::mt19937 random(41);
  for (const int nodes : {5, 50, 200, 800}) {
    for (int i = 0; i < 5; ++i) {
      const Graph graph = random_graph(random, nodes);
      std::vector<std::size_t> scratch(graph.nodes().size(), 0);
      for (std::size_t& bytes : scratch) bytes = random() % 3 == 0 ? random() % 4000 : 0;
      PersistentLayout layout;
      layout.add(graph);
      const MemoryPlan plan = plan_memory(graph, scratch, layout);  // it validates the plan, as packing and as a graph
      EXPECT_EQ(plan.transient_bytes, plan.lower_bound_bytes) << nodes << " nodes, graph " << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
