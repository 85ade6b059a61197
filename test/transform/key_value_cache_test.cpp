// A text that is read in parts, with a cache, gives what it gives as a whole.
#include "transform/key_value_cache.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "runtime/program.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kHeads = 4, kShared = 2, kWidth = 6, kRows = 11;

// q, k and v of `capacity` rows, and attention of a sample.
Graph attention_graph(std::int64_t capacity) {
  Graph graph;
  const ValueId q = graph.add_input("q", {DType::kF32, {capacity, kHeads * kWidth}});
  const ValueId k = graph.add_input("k", {DType::kF32, {capacity, kShared * kWidth}});
  const ValueId v = graph.add_input("v", {DType::kF32, {capacity, kShared * kWidth}});
  const AttentionContext context{.sample_offsets = graph.add_input("sample_offsets", {DType::kI32, {2}}),
                                 .key_mask = graph.add_input("key_mask", {DType::kI32, {capacity}}),
                                 .row_keys = graph.add_input("row_keys", {DType::kI32, {capacity, 2}}),
                                 .dropout_key = graph.add_input("dropout_key", {DType::kI32, {2}})};
  AttentionAttributes attributes;
  attributes.heads = kHeads;
  attributes.key_value_heads = kShared;
  attributes.causal = true;
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
  graph.mark_output(attention(graph, "layer", q, k, v, context, attributes, rows));
  return graph;
}

// A graph with its memory.
class Runner {
 public:
  Runner(Graph graph, Backend& backend) : output_(graph.outputs()[0]) {
    PersistentLayout layout;
    layout.add(graph);
    PreparedGraph prepared = prepare(std::move(graph), backend);
    MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
    memory_ = backend.allocate(plan.arena_bytes());
    program_.emplace(std::move(prepared), std::move(plan), *memory_);
  }
  template <typename T>
  void set(std::string_view name, const std::vector<T>& values) {
    program_->source(name).write(std::as_bytes(std::span(values)));
  }
  std::vector<float> run(std::int32_t rows) {
    program_->set_rows(program_->graph().find_source("rows"), rows);
    program_->run();
    const HostCopy copy(program_->tensor(output_));
    const std::span<const float> all = copy.view().span<const float>();
    return {all.begin(), all.begin() + rows * kHeads * kWidth};
  }
  const Graph& graph() const { return program_->graph(); }

 private:
  ValueId output_;
  std::unique_ptr<DeviceMemory> memory_;
  std::optional<Program> program_;
};

std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 37 + seed) % 23) / 11.0F - 1.0F);
  return values;
}

std::vector<float> rows_of(const std::vector<float>& all, std::int64_t first, std::int64_t count, std::int64_t width) {
  return {all.begin() + first * width, all.begin() + (first + count) * width};
}

TEST(KeyValueCache, PartsOfATextSeeAllThatCameBefore) {
  const std::vector<float> q = numbers(kRows * kHeads * kWidth, 1), k = numbers(kRows * kShared * kWidth, 5),
                           v = numbers(kRows * kShared * kWidth, 9);
  ReferenceBackend reference;
  Runner whole(attention_graph(kRows), reference);
  whole.set("q", q);
  whole.set("k", k);
  whole.set("v", v);
  whole.set<std::int32_t>("sample_offsets", {0, kRows});
  whole.set("key_mask", std::vector<std::int32_t>(kRows, 1));
  const std::vector<float> expected = whole.run(kRows);

  CpuBackend cpu(1);
  for (Backend* backend : std::initializer_list<Backend*>{&reference, &cpu}) {
    constexpr std::int64_t kCapacity = 4, kBefore = 7;  // the text begins at that row of the caches
    Runner parts(cache_keys_and_values(attention_graph(kCapacity), kBefore + kRows + 2), *backend);
    EXPECT_EQ(parts.graph().find_source("sample_offsets"), kNoValue);
    std::vector<float> found;
    for (std::int64_t first = 0; first < kRows; first += kCapacity) {
      const std::int64_t count = std::min(kCapacity, kRows - first);
      parts.set("q", rows_of(q, first, count, kHeads * kWidth));
      parts.set("k", rows_of(k, first, count, kShared * kWidth));
      parts.set("v", rows_of(v, first, count, kShared * kWidth));
      std::vector<std::int32_t> places, seen;
      for (std::int64_t row = first; row < first + count; ++row) {
        places.push_back(static_cast<std::int32_t>(kBefore + row));
        seen.insert(seen.end(), {kBefore, static_cast<std::int32_t>(kBefore + row + 1)});
      }
      parts.set(kCacheRowsInput, places);
      parts.set(kSeenRowsInput, seen);
      const std::vector<float> rows = parts.run(static_cast<std::int32_t>(count));
      found.insert(found.end(), rows.begin(), rows.end());
    }
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << backend->name() << i;
  }
}

}  // namespace
}  // namespace plimsoll::test
