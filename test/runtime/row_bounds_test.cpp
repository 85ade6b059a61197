// Tests the row bounds that a program passes to kernels when the host cannot read the counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "runtime/program.h"
#include "support/far_backend.h"

namespace plimsoll::test {
namespace {

// Records the bounds that its kernels are given, and the variants that a recorder would record.
class NotingBackend final : public Backend {
 public:
  explicit NotingBackend(bool far) : far_(far ? std::make_unique<FarBackend>(near_) : nullptr) {}
  std::string_view name() const override { return "noting"; }
  std::unique_ptr<Kernel> prepare(const Graph&, const Node&) override { return std::make_unique<NotingKernel>(bounds); }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override {
    return far_ ? far_->allocate(bytes) : near_.allocate(bytes);
  }
  std::unique_ptr<Recorder> make_recorder() override { return std::make_unique<NotingRecorder>(variants); }

  std::vector<std::int64_t> bounds, variants;

 private:
  struct NotingKernel final : Kernel {
    explicit NotingKernel(std::vector<std::int64_t>& to) : bounds(to) {}
    void run(const KernelArguments& arguments) const override { bounds.push_back(arguments.bound(100)); }
    std::vector<std::int64_t>& bounds;
  };
  struct NotingRecorder final : Recorder {
    explicit NotingRecorder(std::vector<std::int64_t>& to) : variants(to) {}
    void run(std::int64_t variant, const std::function<void()>& start) override {
      variants.push_back(variant);
      start();
    }
    double device_seconds() override { return 0; }
    std::vector<std::int64_t>& variants;
  };

  ReferenceBackend near_;
  std::unique_ptr<FarBackend> far_;
};

// Two nodes with up to 100 rows, two with up to 40, one with all of its rows.
struct CountedGraph {
  CountedGraph() {
    const auto scaled = [&](const char* name, ValueId x, ValueId rows) {
      return graph.add_node(
          {.op = Op::kScale, .name = name, .attributes = ScaleAttributes{2}, .inputs = {x}, .row_count = rows})[0];
    };
    const ValueId x = graph.add_input("x", {DType::kF32, {100, 3}}), y = graph.add_input("y", {DType::kF32, {40, 3}});
    many = graph.add_input("many", {DType::kI32, {1}});
    few = graph.add_input("few", {DType::kI32, {1}});
    scaled("b", scaled("a", x, many), many);
    scaled("d", scaled("c", y, few), few);
    scaled("e", y, kNoValue);
  }
  Graph graph;
  ValueId many, few;
};

struct Prepared {
  Prepared(CountedGraph& counted, NotingBackend& backend) {
    PreparedGraph prepared = prepare(counted.graph, backend);
    PersistentLayout layout;
    layout.add(prepared.graph);
    const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
    memory = backend.allocate(plan.arena_bytes());
    program.emplace(std::move(prepared), plan, *memory);
  }
  std::unique_ptr<DeviceMemory> memory;
  std::optional<Program> program;
};

using Bounds = std::vector<std::int64_t>;

TEST(RowBounds, FollowTheLargestShareOfTheCounts) {
  NotingBackend backend(true);
  CountedGraph counted;
  const Prepared prepared(counted, backend);
  const Program& program = *prepared.program;
  program.run();  // no count is known yet
  EXPECT_EQ(backend.bounds, (Bounds{100, 100, 40, 40, 100}));

  struct Case {
    std::int32_t many, few;
    std::int64_t level;
    Bounds bounds;
  };
  for (const Case& c :
       {Case{100, 1, 16, {100, 100, 40, 40, 100}}, Case{7, 2, 1, {7, 7, 3, 3, 100}}, Case{8, 2, 2, {13, 13, 5, 5, 100}},
        Case{8, 20, 8, {50, 50, 20, 20, 100}}, Case{0, 0, 1, {7, 7, 3, 3, 100}}}) {
    backend.bounds.clear();
    program.set_rows(counted.many, c.many);
    program.set_rows(counted.few, c.few);
    program.run();
    EXPECT_EQ(backend.bounds, c.bounds) << c.many << ", " << c.few;
    EXPECT_EQ(backend.variants.back(), c.level) << c.many << ", " << c.few;
    EXPECT_EQ(program.tensor(counted.many).get<std::int32_t>(), c.many);
    const Bounds all = program.row_bounds();
    for (const std::size_t node : {0, 2}) EXPECT_EQ(std::ranges::count(all, c.bounds[node]), 1);
  }
}

TEST(RowBounds, AreTheCapacityWhereKernelsReadTheCount) {
  NotingBackend backend(false);
  CountedGraph counted;
  const Prepared prepared(counted, backend);
  prepared.program->set_rows(counted.many, 3);
  prepared.program->set_rows(counted.few, 3);
  prepared.program->run();
  EXPECT_EQ(backend.bounds, (Bounds{100, 100, 40, 40, 100}));
}

TEST(RowBounds, RefuseMoreThanTheCapacity) {
  NotingBackend backend(true);
  CountedGraph counted;
  const Prepared prepared(counted, backend);
  EXPECT_TRUE(prepared.program->is_row_count(counted.few));
  EXPECT_FALSE(prepared.program->is_row_count(0));
  EXPECT_THROW(prepared.program->set_rows(counted.few, 41), InternalError);
  EXPECT_THROW(prepared.program->set_rows(0, 1), InternalError);
}

}  // namespace
}  // namespace plimsoll::test
