// Tests guarantees of the CPU backend's kernels beyond agreement with the reference on small shapes: row counts around
// every edge of the row groups, results that do not depend on the team where sums are ours, exact recomputation, no
// allocation while running.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/amx_emulator.h"
#include "backend/backend_suite.h"
#include "backend/compare.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/new_counter.h"
#include "backend/reference/reference_backend.h"
#include "base/bytes.h"
#include "support/guarded_buffer.h"

namespace plimsoll::test {
namespace {

// Does the same as expect_near for sums longer than the suite's and for nodes that follow one another.
void expect_near_long(const Graph& graph, const GraphRunner& found, const GraphRunner& expected) {
  constexpr Tolerance kLong{0, 1.5e-6, "float sums of up to 770 products"};
  for (const Node& node : graph.nodes()) {
    for (const ValueId output : node.outputs) {
      EXPECT_LE(used_tolerance(found.made(output), expected.made(output), kLong), 1.0) << graph.value(output).name;
    }
  }
}

// The three products of a linear layer; the weight's gradient is also added to a sum.
OpCase products(std::int32_t rows, std::int64_t capacity, std::int64_t inner, std::int64_t columns) {
  return {"products", [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {capacity, inner}, rows);
            const ValueId weight = b.tensor("weight", {columns, inner});
            b.objective(linear(b.graph, "y", x, weight, b.tensor("bias", {columns}), b.rows(rows)));
            for (const std::int32_t keep : {0, 1}) {
              b.graph.add_node({.op = Op::kLinearWeightGrad,
                                .name = keep == 1 ? "adds" : "forgets",
                                .inputs = {b.constant(fmt::format("dy_{}", keep), {capacity, columns}, rows), x,
                                           b.state(fmt::format("sum_{}", keep), {columns, inner}),
                                           b.integers(fmt::format("keep_{}", keep), {1}, {keep})},
                                .row_count = b.rows(rows),
                                .phase = Phase::kBackward});
            }
          }};
}

constexpr Op kProducts[] = {Op::kLinear, Op::kLinearAdd, Op::kLinearInputGrad, Op::kLinearWeightGrad, Op::kBiasGrad};
INSTANTIATE_TEST_SUITE_P(CpuBlockedBF16, BackendSuite,
                         testing::ValuesIn(suite_of(
                             "cpu", [] { return std::make_unique<CpuBackend>(2, GeneralProducts::kBlocked); },
                             kProducts, DType::kBF16)),
                         suite_test_name);

// Multiplies BF16, in attention too, by AMX, which is emulated where the processor lacks it.
class AmxBackend final : EmulatedAmx, public CpuBackend {
 public:
  AmxBackend() : CpuBackend(2, GeneralProducts::kBlocked) {}
};
std::vector<SuiteParameter> amx_suite() {
  if (!EmulatedAmx::is_possible()) return {};
  std::vector<Op> ops{Op::kAttention, Op::kAttentionGrad};
  ops.insert(ops.end(), std::begin(kProducts), std::end(kProducts));
  return suite_of(
      "amx", [] { return std::make_unique<AmxBackend>(); }, ops, DType::kBF16);
}
INSTANTIATE_TEST_SUITE_P(CpuAmxBF16, BackendSuite, testing::ValuesIn(amx_suite()), suite_test_name);

void expect_products_agree(std::int32_t rows, std::int64_t capacity, std::int64_t inner, std::int64_t columns) {
  SCOPED_TRACE(fmt::format("{} of {} rows, {} to {}", rows, capacity, inner, columns));
  const BuiltCase built = products(rows, capacity, inner, columns).build(DType::kF32, true);
  ReferenceBackend reference;
  CpuBackend cpu(2);
  CpuBackend fixed(2, GeneralProducts::kNever);
  GraphRunner expected(built.graph, reference), found(built.graph, cpu), again(built.graph, cpu);
  GraphRunner prepared(built.graph, fixed);
  for (GraphRunner* const runner : {&expected, &found, &again, &prepared}) {
    built.set_data(*runner);
    runner->run();
  }
  expect_near_long(built.graph, found, expected);
  expect_near_long(built.graph, prepared, expected);
  expect_identical(built.graph, again, found);
}

// Each has its own generated code, so those of plans that were not chosen must not stay.
TEST(CpuProducts, AreFreedWithTheLastKernel) {
  MatmulCache cache(GeneralProducts::kNever);
  const MatmulShape shape{.rows = 16, .columns = 32, .inner = 48};
  std::shared_ptr<const Matmul> kept = cache.matmul(shape);
  const std::weak_ptr<const Matmul> left = cache.matmul({.rows = 32, .columns = 32, .inner = 48});
  EXPECT_FALSE(left.expired());
  cache.release_unused();
  EXPECT_TRUE(left.expired());
  EXPECT_EQ(cache.matmul(shape), kept);
  const std::weak_ptr<const Matmul> last = std::exchange(kept, nullptr);
  cache.release_unused();
  EXPECT_TRUE(last.expired());
}

// A coded weight of so many elements is decoded and multiplied tile by tile, the last tile narrower, both ways.
TEST(CpuProducts, TilesOfCodedWeights) {
  constexpr std::int64_t kRows = 300, kCapacity = 310, kInner = 700, kColumns = 400;
  const OpCase coded = {"coded", [](CaseBuilder& b) {
                          const ValueId x = b.tensor("x", {kCapacity, kInner}, kRows);
                          const ValueId weight = b.coded("weight", DType::kNF4, {kColumns, kInner});
                          b.objective(linear(b.graph, "y", x, weight, b.tensor("bias", {kColumns}), b.rows(kRows)));
                        }};
  const BuiltCase built = coded.build(DType::kF32, true);
  ReferenceBackend reference;
  CpuBackend cpu(2);
  CpuBackend fixed(2, GeneralProducts::kNever);
  GraphRunner expected(built.graph, reference), found(built.graph, cpu), prepared(built.graph, fixed);
  for (GraphRunner* const runner : {&expected, &found, &prepared}) {
    built.set_data(*runner);
    runner->run();
  }
  expect_near_long(built.graph, found, expected);
  expect_near_long(built.graph, prepared, expected);
}

TEST(CpuProducts, EveryEdgeOfTheGroups) {
  for (const std::int32_t rows :
       {0, 1, 15, 16, 17, 127, 128, 129, 143, 144, 145, 255, 256, 257, 271, 272, 273, 512, 530}) {
    expect_products_agree(rows, 530, 48, 64);
  }
}

TEST(CpuProducts, CapacitiesAroundAGroup) {
  for (const std::int32_t capacity : {1, 7, 16, 17, 31, 32, 100, 127, 128, 129, 200, 256, 257}) {
    expect_products_agree(capacity, capacity, 32, 64);
    expect_products_agree(capacity / 2, capacity, 5, 7);
  }
}

// So many columns that the gradient of the last rows is made slice by slice; the last number has no fitting divisor.
TEST(CpuProducts, AWeightsGradientInSlices) {
  for (const std::int64_t columns : {16400, 9001}) {
    for (const std::int32_t rows : {3, 16, 50, 64, 127, 131})
      expect_products_agree(rows, rows < 64 ? 64 : 140, 9, columns);
  }
}

TEST(CpuProducts, WidthsThatFillNoBlock) {
  for (const auto& [inner, columns] : std::vector<std::array<std::int64_t, 2>>{{16, 64},
                                                                               {16, 128},
                                                                               {64, 192},
                                                                               {80, 64},
                                                                               {17, 64},
                                                                               {64, 65},
                                                                               {1, 64},
                                                                               {96, 7},
                                                                               {100, 3},
                                                                               {3, 100},
                                                                               {33, 1},
                                                                               {1, 1},
                                                                               {48, 48},
                                                                               {32, 16}}) {
    expect_products_agree(150, 300, inner, columns);
  }
}

// Above 1,024 rows a transposed weight is packed: by our code if both widths fill blocks, otherwise by
// oneDNN.
TEST(CpuProducts, PackedWeights) {
  for (const std::int32_t rows : {1024, 1025, 1043, 1060}) expect_products_agree(rows, 1060, 32, 64);
  for (const auto& [inner, columns] : std::vector<std::array<std::int64_t, 2>>{
           {16, 64}, {80, 128}, {17, 64}, {32, 65}, {32, 7}, {100, 3}, {48, 48}, {64, 32}}) {
    expect_products_agree(1030, 1030, inner, columns);
  }
}

// The runner poisons rows beyond the row count; here the last block of rows is full and the sum is long.
TEST(CpuProducts, LongRows) { expect_products_agree(300, 300, 768, 128); }

// Ops whose sums over rows are ours, with more rows than one block and widths that fill no vector.
OpCase long_case() {
  return {"long", [](CaseBuilder& b) {
            constexpr std::int32_t kRows = 331;
            constexpr std::int64_t kCapacity = 400, kWidth = 200;
            const ValueId rows = b.rows(kRows);
            std::vector<std::int32_t> ids, boxes, labels, row_keys;
            for (std::int32_t row = 0; row < kRows; ++row) {
              ids.push_back(b.random_integer(0, 40));
              for (int i = 0; i < 4; ++i) boxes.push_back(b.random_integer(0, 99));
              labels.push_back(row % 4 == 0 ? -100 : b.random_integer(0, 6));
              row_keys.insert(row_keys.end(), {row / 100, row % 100});
            }
            const ValueId ids_value = b.integers("ids", {kCapacity}, ids);
            const ValueId words = embedding(b.graph, "words", b.tensor("words_table", {50, kWidth}), ids_value,
                                            {.padding_idx = 1, .row_gradient = true}, rows);
            const ValueId positions =
                embedding(b.graph, "positions", b.tensor("position_table", {50, kWidth}), ids_value, {}, rows);
            const ValueId box_table = b.tensor("x_table", {100, 34}), size_table = b.tensor("h_table", {100, 32});
            const ValueId spatial = spatial_embedding(
                b.graph, "spatial",
                {box_table, b.tensor("y_table", {100, 34}), size_table, b.tensor("w_table", {100, 32})},
                b.integers("bbox", {kCapacity, 4}, boxes), false, rows);
            const ValueId sum = add(b.graph, "sum", add(b.graph, "inner", words, positions, rows), spatial, rows);
            const ValueId norm =
                layer_norm(b.graph, "norm", sum, b.tensor("gamma", {kWidth}), b.tensor("beta", {kWidth}), 1e-5, rows).y;
            const ValueId dropped = dropout(b.graph, "dropped", norm, b.integers("row_keys", {kCapacity, 2}, row_keys),
                                            b.integers("key", {2}, {123, 456}), {.p = 0.1, .site = 3}, rows);
            const ValueId gelu =
                add_single(b.graph, {.op = Op::kGelu, .name = "gelu", .inputs = {dropped}, .row_count = rows});
            b.objective(add_single(b.graph, {.op = Op::kTanh, .name = "tanh", .inputs = {gelu}, .row_count = rows}));
            b.graph.add_node({.op = Op::kBiasGrad, .name = "bias_grad", .inputs = {sum}, .row_count = rows});
            b.graph.add_node({.op = Op::kSumSquares, .name = "squares", .inputs = {sum}, .row_count = rows});
            const ValueId logits = b.tensor("logits", {kCapacity, 7}, kRows);
            b.objective_loss(b.graph.add_node({.op = Op::kCrossEntropy,
                                               .name = "loss",
                                               .attributes = CrossEntropyAttributes{},
                                               .inputs = {logits, b.integers("labels", {kCapacity}, labels),
                                                          b.values("loss_scale", {DType::kF32, {1}}, {0.01})},
                                               .row_count = rows})[0]);
            const ValueId visual =
                add_single(b.graph, {.op = Op::kVisualEmbedding,
                                     .name = "visual",
                                     .inputs = {b.tensor("patches", {90 * 3, kWidth}), b.tensor("cls", {1, 1, kWidth}),
                                                b.tensor("visual_positions", {1, 4, kWidth})}});
            b.objective(visual);
          }};
}

TEST(CpuKernels, SumsDoNotDependOnTheTeam) {
  const BuiltCase built = long_case().build(DType::kF32, true);
  CpuBackend one(1), three(3);
  GraphRunner alone(built.graph, one), together(built.graph, three);
  built.set_data(alone);
  alone.run();
  built.set_data(together);
  together.run();
  expect_identical(built.graph, together, alone);
}

TEST(CpuKernels, LongSumsAgreeWithTheReference) {
  const BuiltCase built = long_case().build(DType::kF32, true);
  CpuBackend cpu(2);
  ReferenceBackend reference;
  GraphRunner found(built.graph, cpu), expected(built.graph, reference);
  built.set_data(found);
  found.run();
  built.set_data(expected);
  expected.run();
  expect_near_long(built.graph, found, expected);
}

// Returns the bytes that each op's second run allocates on the heap.
std::map<std::string, std::size_t> heap_bytes(const Graph& graph, const BuiltCase& built) {
  CpuBackend cpu(2);
  std::vector<std::vector<std::byte>> memory(graph.values().size());
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer != kNoNode && graph.node(value.producer).inputs.size() == 4 &&
        graph.node(value.producer).op == Op::kLinearWeightGrad) {
      views.push_back(views[static_cast<std::size_t>(graph.node(value.producer).inputs[2])]);  // in the sum's bytes
      continue;
    }
    memory[i].resize(value.type.bytes());
    views.emplace_back(value.type, memory[i].data());
  }
  for (const auto& [value, list] : built.data) from_doubles(views[static_cast<std::size_t>(value)], list);

  std::map<std::string, std::size_t> bytes;
  for (const Node& node : graph.nodes()) {
    const std::unique_ptr<Kernel> kernel = cpu.prepare(graph, node);
    std::vector<std::byte> scratch(kernel->scratch_bytes() + kAlignmentBytes);
    void* aligned = scratch.data();
    std::size_t space = scratch.size();
    std::align(kAlignmentBytes, kernel->scratch_bytes(), aligned, space);
    std::vector<TensorView> inputs, outputs;
    for (const ValueId id : node.inputs) inputs.push_back(views[static_cast<std::size_t>(id)]);
    for (const ValueId id : node.outputs) outputs.push_back(views[static_cast<std::size_t>(id)]);
    const std::int32_t* const rows =
        node.row_count == kNoValue ? nullptr : views[static_cast<std::size_t>(node.row_count)].data<std::int32_t>();
    const KernelArguments arguments{.inputs = inputs,
                                    .outputs = outputs,
                                    .scratch = {static_cast<std::byte*>(aligned), kernel->scratch_bytes()},
                                    .row_count = rows};
    kernel->run(arguments);
    const NewCounter counter;
    kernel->run(arguments);
    bytes[std::string(op_name(node.op))] += counter.bytes();
    EXPECT_LE(counter.largest_bytes(), std::size_t{4096}) << node.name;
  }
  return bytes;
}

// Our code allocates nothing while it runs. oneDNN allocates some small pieces for each product, how many depends on
// the processor; the plan counts 64 KiB for them.
TEST(CpuKernels, RunningAllocatesNothing) {
  const BuiltCase built = long_case().build(DType::kF32, true);
  for (const auto& [op, bytes] : heap_bytes(built.graph, built)) EXPECT_EQ(bytes, 0U) << op;
  const BuiltCase linear = products(300, 1100, 64, 64).build(DType::kF32, true);
  for (const auto& [op, bytes] : heap_bytes(linear.graph, linear)) EXPECT_LE(bytes, 64 * kKiB) << op;
}

// Recompute relies on this.
TEST(CpuKernels, LayerNormAffineRepeatsLayerNorm) {
  for (const std::int64_t width : {1, 5, 16, 63, 64, 200}) {
    CaseBuilder b(DType::kF32, "affine");
    const ValueId x = b.constant("x", {9, width}, kAllRows, {-2, 5});
    const ValueId gamma = b.constant("gamma", {width}), beta = b.constant("beta", {width});
    const LayerNormValues norm = layer_norm(b.graph, "norm", x, gamma, beta, 1e-5, kNoValue);
    add_single(b.graph, {.op = Op::kAffine, .name = "again", .inputs = {norm.normalized, gamma, beta}});
    CpuBackend cpu(2);
    GraphRunner runner(b.graph, cpu);
    for (const ValueId source : {x, gamma, beta}) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < b.graph.type(source).shape.elements(); ++i)
        values.push_back(static_cast<float>(0.37 * double((i * 7) % 11)));
      runner.set(source, values);
    }
    runner.run();
    EXPECT_EQ(runner.made(norm.y), runner.made("again")) << width;
  }
}

}  // namespace
}  // namespace plimsoll::test
