// Compares offloaded graphs, as programs over a plan, with the same graphs in memory: they agree bit for bit.
#include "transform/offload.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "backend/stored_memory.h"
#include "base/bytes.h"
#include "base/offload_file.h"
#include "runtime/program.h"
#include "runtime/transfer_queue.h"
#include "support/scratch_folder.h"
#include "support/small_net.h"
#include "transform/early_updates.h"
#include "transform/recompute.h"

namespace plimsoll::test {
namespace {

// The disk is so slow that every transfer begins well before it is needed, or so fast that none does.
OffloadOptions options(double disk_seconds_per_byte) {
  return {.node_seconds = [](const Graph&, const Node&) { return 1.0; },
          .read_seconds_per_byte = disk_seconds_per_byte,
          .write_seconds_per_byte = disk_seconds_per_byte,
          .piece_bytes = 1024,
          .smallest_bytes = 64};
}

// Rows, a table of ten blocks and two matrices of sixteen each: updates come in several parts.
struct WideNet {
  Graph graph;
  Gradients gradients;
  WideNet() {
    const ValueId rows = graph.add_input("rows", {DType::kI32, {1}}), ids = graph.add_input("ids", {DType::kI32, {8}});
    std::vector<ValueId> parameters;
    const auto parameter = [&](const char* name, Shape shape) {
      parameters.push_back(graph.add_parameter(name, {DType::kF32, shape}));
      return parameters.back();
    };
    const ValueId table = parameter("table.weight", {40, 64}), first = parameter("first.weight", {64, 64});
    const ValueId second = parameter("second.weight", {64, 64}), bias = parameter("second.bias", {64});
    const ValueId x = embedding(graph, "lookup", table, ids, {.row_gradient = true}, rows);
    const ValueId y = linear(graph, "first", x, first, kNoValue, rows);
    const ValueId gelu = add_single(graph, {.op = Op::kTanh, .name = "tanh", .inputs = {y}, .row_count = rows});
    const ValueId logits = linear(graph, "second", gelu, second, bias, rows);
    const auto loss = graph.add_node({.op = Op::kCrossEntropy,
                                      .name = "loss",
                                      .attributes = CrossEntropyAttributes{},
                                      .inputs = {logits, graph.add_input("labels", {DType::kI32, {8}}),
                                                 graph.add_input("loss_scale", {DType::kF32, {1}})},
                                      .row_count = rows});
    graph.mark_output(loss[0]);
    const Seed seed = loss_seed(graph, loss[0]);
    gradients = append_backward(graph, {&seed, 1}, parameters);
  }
};

enum class Mode { kAfterBackward, kInBackward, kTwoPasses };

Graph updating_graph(OptimizerKind kind, Mode mode) {
  WideNet net;
  const bool clips = mode != Mode::kInBackward;
  append_optimizer(net.graph, net.gradients,
                   {.kind = kind,
                    .coded_from = 100,
                    .adamw = {.weight_decay = 0.1},
                    .clips = clips,
                    .updates_early = !clips,
                    .decays = {}});
  Graph graph = recompute(net.graph, is_cheap);
  if (mode == Mode::kTwoPasses) graph = repeat_backward(graph);
  return mode == Mode::kAfterBackward ? std::move(graph) : update_early(graph);
}

std::set<std::string> all_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Offloading& one : rank_offloads(graph, options(1))) names.insert(one.name);
  return names;
}

// Three updates of the graph over an arena, with its file if it has one.
struct Outcome {
  std::vector<std::vector<double>> losses;
  std::map<std::string, std::vector<std::byte>> persistent;  // parameters and states, wherever they are
  std::size_t transient = 0, held = 0;
};

Outcome run(const Graph& graph, const OffloadLayout& offloaded, Backend& backend) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), offloaded.bytes() + kOffloadAlignment);
  TransferQueue queue(file, 1000);
  PreparedGraph prepared = prepare(graph, backend);
  PersistentLayout layout;
  layout.add(graph);
  const MemoryPlan plan = plan_memory(graph, prepared.scratch_bytes(), layout);
  const auto memory = backend.allocate(plan.arena_bytes());
  std::ranges::fill(memory->bytes(), std::byte{0});
  const Program program(std::move(prepared), plan, *memory, &queue);
  const StoredMemory stored(queue);
  for (const auto& [name, entry] : layout.entries()) {
    if (entry.role == Role::kParameter) {
      from_doubles(program.source(name).view(), numbers(entry.type.shape.elements(), static_cast<double>(name.size())));
    }
  }
  for (const auto& [name, parameter] : offloaded.parameters()) {
    std::vector<std::byte> values(parameter.type.bytes());
    from_doubles({parameter.type, values.data()},
                 numbers(parameter.type.shape.elements(), static_cast<double>(name.size())));
    stored.tensor(parameter.type, parameter.offset).write(values);
  }
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    const bool even = step % 2 == 0;
    const auto set = [&](const char* name, const std::vector<double>& values) {
      if (program.has_source(name)) from_doubles(program.source(name).view(), values);
    };
    set("rows", {even ? 6.0 : 8.0});
    set("ids", even ? std::vector<double>{3, 39, 3, 0, 17, 21} : std::vector<double>{1, 2, 3, 30, 31, 32, 3, 39});
    set("labels", even ? std::vector<double>{3, 1, -100, 7, 63, 2} : std::vector<double>{3, 1, 5, 7, 63, 2, 0, 9});
    set("loss_scale", {0.25});
    set(kLearningRateInput, {0.01});
    set(kStepInput, {step + 1.0});
    set(kMaxGradNormInput, {0.5});
    program.run();
    std::vector<double> seen;
    for (const ValueId output : graph.outputs()) {
      for (const double value : to_doubles(program.view(output), 1)) seen.push_back(value);
    }
    outcome.losses.push_back(seen);
  }
  queue.drain();
  for (const auto& [name, entry] : layout.entries()) {
    const auto bytes = program.source(name).view().byte_span();
    outcome.persistent[name] = {bytes.begin(), bytes.end()};
  }
  for (const auto& [name, state] : offloaded.states()) {
    std::vector<std::byte>& bytes = outcome.persistent[name];
    for (const OffloadLayout::Piece& piece : state.pieces) {
      std::vector<std::byte> part(piece.bytes);
      EXPECT_EQ(file.read(piece.offset, part), 0);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    EXPECT_EQ(bytes.size(), state.type.bytes()) << name;
  }
  for (const auto& [name, parameter] : offloaded.parameters()) {
    std::vector<std::byte>& bytes = outcome.persistent[name];
    bytes.resize(parameter.type.bytes());
    stored.tensor(parameter.type, parameter.offset).read(bytes);
  }
  outcome.transient = plan.transient_bytes;
  outcome.held = plan.persistent_bytes;
  return outcome;
}

TEST(Offload, ChangesNoBit) {
  ReferenceBackend reference;
  CpuBackend cpu(2);
  for (Backend* backend : {static_cast<Backend*>(&reference), static_cast<Backend*>(&cpu)}) {
    for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor}) {
      for (const Mode mode : {Mode::kAfterBackward, Mode::kInBackward, Mode::kTwoPasses}) {
        const Graph plain = updating_graph(kind, mode);
        const Outcome expected = run(plain, {}, *backend);
        for (const double disk : {0.0, 1e-3, 10.0}) {
          OffloadLayout layout;
          const Graph graph = offload(plain, all_names(plain), options(disk), layout);
          const Outcome found = run(graph, layout, *backend);
          EXPECT_EQ(found.losses, expected.losses) << disk;
          EXPECT_TRUE(found.persistent == expected.persistent)
              << backend->name() << ", " << optimizer_name(kind) << ", mode " << static_cast<int>(mode) << ", " << disk;
        }
      }
    }
  }
}

TEST(Offload, StatesLeaveTheArenaAndStagingIsAFewParts) {
  const Graph plain = updating_graph(OptimizerKind::kAdamW, Mode::kAfterBackward);
  std::set<std::string> states;
  for (const Offloading& one : rank_offloads(plain, options(1))) {
    if (one.kind == Offloading::Kind::kState) states.insert(one.name);
  }
  EXPECT_EQ(states.size(), 4U);
  OffloadLayout layout;
  const Graph graph = offload(plain, states, options(10.0), layout);
  verify(graph);
  EXPECT_EQ(layout.states().size(), 8U);
  EXPECT_EQ(layout.state_bytes(), 2U * 4 * (40 * 64 + 2 * 64 * 64 + 64));
  EXPECT_EQ(layout.activation_bytes(), 0U);
  ReferenceBackend backend;
  const Outcome before = run(plain, {}, backend), after = run(graph, layout, backend);
  EXPECT_EQ(before.held - after.held, layout.state_bytes());
  // Staging holds the part being updated and its two neighbours: two moments of 1 KiB each.
  EXPECT_LE(after.transient, before.transient + 3 * 2 * 1024);
}

// Every transfer is begun once, before it is waited for; nobody reads a value before its fetch has ended; a place is
// stored before it is fetched again; bytes being stored are not written to until the store has ended.
TEST(Offload, OrdersItsTransfers) {
  for (const Mode mode : {Mode::kAfterBackward, Mode::kInBackward, Mode::kTwoPasses}) {
    for (const double disk : {0.0, 1e-3, 10.0}) {
      const Graph plain = updating_graph(OptimizerKind::kAdamW8bit, mode);
      OffloadLayout layout;
      const Graph graph = offload(plain, all_names(plain), options(disk), layout);
      verify(graph);
      std::map<std::int64_t, int> stage;      // by ticket: 1 begun, 2 waited for
      std::map<std::uint64_t, bool> written;  // by place: its store has begun in this step
      int fetches = 0, stores = 0;
      for (const Node& node : graph.nodes()) {
        for (const ValueId input : node.inputs) {
          const NodeId producer = graph.value(input).producer;
          if (producer == kNoNode || is_transfer(node.op)) continue;
          EXPECT_NE(graph.node(producer).op, Op::kFetchBegin) << node.name;
        }
        if (!is_transfer(node.op)) continue;
        const auto& transfer = std::get<TransferAttributes>(node.attributes);
        const bool begins = node.op == Op::kFetchBegin || node.op == Op::kStoreBegin;
        EXPECT_EQ(stage[transfer.ticket]++, begins ? 0 : 1) << node.name;
        fetches += node.op == Op::kFetchBegin ? 1 : 0;
        stores += node.op == Op::kStoreBegin ? 1 : 0;
        for (const auto& part : transfer.parts) {
          EXPECT_EQ(part.offset % kOffloadAlignment, 0U);
          if (node.op == Op::kStoreBegin) written[part.offset] = true;
          const bool is_state = node.name.find(".update.part") != std::string::npos;
          const bool is_parameter = layout.parameters().contains(node.name.substr(0, node.name.rfind('.')));
          if (node.op != Op::kFetchBegin) continue;
          EXPECT_EQ(written[part.offset], !is_state && !is_parameter) << node.name;
        }
      }
      for (const auto& [ticket, stages] : stage) EXPECT_EQ(stages, 2) << ticket;
      EXPECT_GE(stores, 10);
      EXPECT_GE(fetches, stores);
    }
  }
}

// The table is looked up in, and the second matrix is a head that may be updated in parts.
TEST(Offload, AParameterThatTrainsTakesItsMomentsAlong) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit}) {
    for (const Mode mode : {Mode::kAfterBackward, Mode::kInBackward, Mode::kTwoPasses}) {
      const Graph plain = updating_graph(kind, mode);
      std::set<std::string> parameters;
      for (const Offloading& one : rank_offloads(plain, options(1))) {
        if (one.kind == Offloading::Kind::kParameter) parameters.insert(one.name);
      }
      EXPECT_EQ(parameters, std::set<std::string>{"first.weight"});
      OffloadLayout layout;
      const Graph graph = offload(plain, parameters, options(10.0), layout);
      verify(graph);
      EXPECT_EQ(layout.parameter_bytes(), 4U * 64 * 64);
      EXPECT_GT(layout.state_bytes(), 0U);
      ReferenceBackend backend;
      const Outcome before = run(plain, {}, backend), after = run(graph, layout, backend);
      EXPECT_EQ(before.losses, after.losses);
      EXPECT_TRUE(before.persistent == after.persistent);
      EXPECT_EQ(before.held - after.held, layout.state_bytes() + layout.parameter_bytes());
    }
  }
}

TEST(Offload, ThereIsNothingToCutInAdafactorsUpdate) {
  for (const Offloading& one :
       rank_offloads(updating_graph(OptimizerKind::kAdafactor, Mode::kAfterBackward), options(1))) {
    EXPECT_EQ(one.kind, Offloading::Kind::kActivation) << one.name;
  }
}

// Twelve frozen layers between a table and a bias that train.
Graph deep_graph(DType dtype) {
  Graph graph;
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}}), ids = graph.add_input("ids", {DType::kI32, {8}});
  const ValueId table = graph.add_parameter("table.weight", {DType::kF32, {40, 64}});
  ValueId x = embedding(graph, "lookup", table, ids, {.row_gradient = true}, rows);
  const auto cast = [&](DType to) {
    if (dtype == DType::kBF16) x = plimsoll::cast(graph, fmt::format("to {}", dtype_name(to)), x, to, rows);
  };
  cast(DType::kBF16);
  for (int layer = 0; layer < 12; ++layer) {
    const std::string name = fmt::format("layer {}", layer);
    const ValueId weight = graph.add_parameter(name + ".weight", {dtype, {64, 64}});
    x = add_single(graph, {.op = Op::kTanh,
                           .name = name + ".tanh",
                           .inputs = {linear(graph, name, x, weight, kNoValue, rows)},
                           .row_count = rows});
  }
  cast(DType::kF32);
  const auto loss = graph.add_node(
      {.op = Op::kCrossEntropy,
       .name = "loss",
       .attributes = CrossEntropyAttributes{},
       .inputs = {x, graph.add_input("labels", {DType::kI32, {8}}), graph.add_input("loss_scale", {DType::kF32, {1}})},
       .row_count = rows});
  graph.mark_output(loss[0]);
  const Seed seed = loss_seed(graph, loss[0]);
  const Gradients gradients = append_backward(graph, {&seed, 1}, std::vector<ValueId>{table});
  append_optimizer(graph, gradients, {.kind = OptimizerKind::kAdamW, .adamw = {}, .clips = false, .decays = {}});
  return graph;
}

// A parameter is read in the model's own file if that has its type, or one that is widened to it.
TEST(Offload, AParameterMayStayWhereItIs) {
  for (const auto& [in_file, in_memory, stays] :
       std::vector<std::tuple<DType, DType, bool>>{{DType::kF32, DType::kF32, true},
                                                   {DType::kBF16, DType::kF32, true},
                                                   {DType::kF16, DType::kF32, true},
                                                   {DType::kBF16, DType::kBF16, true},
                                                   {DType::kF32, DType::kBF16, false},
                                                   {DType::kF16, DType::kBF16, false},
                                                   {DType::kF64, DType::kF32, false}}) {
    const Graph plain = deep_graph(in_memory);
    std::set<std::string> names;
    for (const Offloading& one : rank_offloads(plain, options(1))) {
      if (one.kind == Offloading::Kind::kParameter) names.insert(one.name);
    }
    ASSERT_GT(names.size(), 3U);
    std::map<std::string, StoredTensor> stored;
    for (const std::string& name : names) {
      if (name != *names.begin()) stored[name] = {.file = "m", .descriptor = 3, .offset_bytes = 64, .dtype = in_file};
    }
    OffloadOptions where = options(1);
    where.stored = &stored;
    OffloadLayout layout;
    const Graph graph = offload(plain, names, where, layout);
    verify(graph);
    std::set<std::uint64_t> places;
    std::uint64_t in_place = 0, in_store = 0;
    for (const auto& [name, parameter] : layout.parameters()) {
      const bool here = stays && stored.contains(name);
      EXPECT_EQ(parameter.stored.has_value(), here) << name;
      EXPECT_EQ(parameter.offset >= kOutsideOffset, here) << name;
      EXPECT_TRUE(places.insert(parameter.offset).second) << name;
      (here ? in_place : in_store) += here ? parameter.file_bytes() : parameter.type.bytes();
    }
    EXPECT_EQ(layout.in_place_bytes(), in_place);
    EXPECT_EQ(layout.parameter_bytes(), in_store);
    EXPECT_EQ(layout.activation_bytes(), 0U);
    EXPECT_LT(layout.bytes(), in_store + names.size() * kOffloadAlignment);
    for (const Node& node : graph.nodes()) {
      if (node.op != Op::kFetchBegin) continue;
      for (const auto& part : std::get<TransferAttributes>(node.attributes).parts) {
        const bool narrow = part.offset >= kOutsideOffset && in_file != in_memory;
        EXPECT_EQ(part.moved_bytes(), part.type.bytes() / (narrow ? 2 : 1)) << node.name;
      }
    }
  }
}

TEST(Offload, FrozenParametersAreReadAheadOfTheirUseAndNoFurther) {
  for (const DType dtype : {DType::kF32, DType::kNF4}) {
    const Graph plain = deep_graph(dtype);
    std::set<std::string> parameters;
    for (const Offloading& one : rank_offloads(plain, options(1))) {
      if (one.kind == Offloading::Kind::kParameter) parameters.insert(one.name);
    }
    EXPECT_EQ(parameters.size(), 12U);
    CpuBackend backend(2);
    const Outcome before = dtype == DType::kF32 ? run(plain, {}, backend) : Outcome{};
    const std::size_t bytes = TensorType{dtype, {64, 64}}.bytes();
    for (const double seconds : {0.0, 1.6, 1e5}) {  // of a layer's read; it computes for two
      OffloadLayout layout;
      const Graph graph = offload(plain, parameters, options(seconds / static_cast<double>(bytes)), layout);
      verify(graph);
      std::size_t fetches = 0, most = 0, on_the_way = 0;
      for (const Node& node : graph.nodes()) {
        if (node.op == Op::kFetchBegin) most = std::max(most, ++on_the_way);
        if (node.op == Op::kFetchEnd) --on_the_way;
        fetches += node.op == Op::kFetchEnd ? 1 : 0;
        EXPECT_NE(node.op, Op::kStoreBegin);
      }
      // Forward and backward; what is read again soon is still there.
      EXPECT_EQ(fetches, seconds == 0 ? 24U : seconds < 2 ? 22U : 12U);
      EXPECT_EQ(most, seconds == 0 ? 1U : 3U) << seconds;  // one that is about to be read, and two ahead
      if (dtype != DType::kF32) continue;
      const Outcome after = run(graph, layout, backend);
      EXPECT_EQ(before.losses, after.losses) << seconds;
      EXPECT_TRUE(before.persistent == after.persistent) << seconds;
      EXPECT_EQ(before.held - after.held, 12U * 4 * 64 * 64);
      if (seconds < 2) {
        EXPECT_LE(after.transient, before.transient + 3U * 4 * 64 * 64) << seconds;
      }
    }
  }
}

TEST(Offload, NamesThatAreNotThereChangeNothing) {
  const Graph plain = updating_graph(OptimizerKind::kAdamW, Mode::kInBackward);
  OffloadLayout layout;
  const Graph graph = offload(plain, {"nothing"}, options(1), layout);
  EXPECT_EQ(graph.nodes().size(), plain.nodes().size());
  EXPECT_EQ(layout.bytes(), 0U);
}

TEST(StoredMemory, ReadsWhatWasWritten) {
  const ScratchFolder folder;
  constexpr std::size_t kBytes = 3 * kOffloadBlockBytes / 2 + 1000;
  OffloadFile file(folder.path(), 2 * kOffloadAlignment + round_up(kBytes, kOffloadAlignment));
  TransferQueue queue(file, 1);
  const StoredMemory memory(queue);
  const DeviceTensor before = memory.tensor({DType::kU8, {100}}, 0);
  const DeviceTensor tensor = memory.tensor({DType::kU8, {static_cast<std::int64_t>(kBytes)}}, kOffloadAlignment);
  EXPECT_TRUE(before.exists());
  EXPECT_TRUE(tensor.host_bytes().empty());
  std::vector<std::byte> expected(kBytes, std::byte{0}), found(kBytes), some(100, std::byte{7});
  before.write(some);
  tensor.fill_zeros();
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    // Pieces of all sizes, among them whole blocks and more than the file moves at a time.
    std::size_t first = random() % kBytes,
                count = std::min<std::size_t>(random() % (i % 3 == 0 ? kBytes : 9000), kBytes - first);
    if (i % 5 == 0) first = first / kOffloadAlignment * kOffloadAlignment;
    if (i % 5 == 1) count = std::min<std::size_t>(kOffloadAlignment, kBytes - first);
    std::vector<std::byte> values(count);
    for (std::byte& value : values) value = static_cast<std::byte>(random());
    std::ranges::copy(values, expected.begin() + static_cast<std::ptrdiff_t>(first));
    tensor.write(values, first);
    std::vector<std::byte> again(count);
    tensor.read(again, first);
    EXPECT_TRUE(again == values) << first << " " << count;
  }
  tensor.read(found);
  EXPECT_TRUE(found == expected);
  std::vector<std::byte> still(100);
  before.read(still);
  EXPECT_TRUE(still == some);
}

TEST(OffloadLayout, ANameHasOnePlace) {
  OffloadLayout layout;
  EXPECT_EQ(layout.place("a", 100).offset, 0U);
  EXPECT_EQ(layout.place("b", 5000).offset, 4096U);
  EXPECT_EQ(layout.place("a", 100).offset, 0U);
  EXPECT_EQ(layout.bytes(), 4096U + 8192U);
  EXPECT_THROW(layout.place("a", 101), InternalError);
}

}  // namespace
}  // namespace plimsoll::test
