// The loss of a language model over its vocabulary, and both gradients, beside the three matrix products that it takes,
// whole: what memory the loss needs beyond rows, weight and their gradients, and how much longer it takes.
//
//   plimsoll_language_loss [ROWS WIDTH CLASSES [ROUNDS [THREADS]]]     1024 896 151936, 5 rounds, 2 threads
//
// Exit status 1 if a bar is missed: 64 MiB, and 1.1 times the products.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "autodiff/autodiff.h"
#include "backend/cpu/cpu_backend.h"
#include "base/bytes.h"
#include "graph/build.h"
#include "runtime/program.h"
#include "transform/chunked_loss.h"

namespace plimsoll {
namespace {

struct Sizes {
  std::int64_t rows, width, classes;
};

// The loss with the gradients of rows and weight, cut as a step's is.
Graph loss_graph(const Sizes& s) {
  Graph graph;
  const ValueId x = graph.add_parameter("x", {DType::kF32, {s.rows, s.width}});
  const ValueId weight = graph.add_parameter("weight", {DType::kF32, {s.classes, s.width}});
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
  const ValueId labels = graph.add_input("labels", {DType::kI32, {s.rows}});
  const ValueId scale = graph.add_input("loss_scale", {DType::kF32, {1}});
  const ValueId loss = graph.add_node({.op = Op::kCrossEntropy,
                                       .name = "loss",
                                       .attributes = CrossEntropyAttributes{},
                                       .inputs = {linear(graph, "logits", x, weight, kNoValue, rows), labels, scale},
                                       .row_count = rows})[0];
  graph.mark_output(loss);
  const Seed seed = loss_seed(graph, loss);
  const std::vector<ValueId> trained = {x, weight};
  for (const auto& [parameter, gradient] : append_backward(graph, {&seed, 1}, trained)) {
    graph.mark_output(gradient.dense);
  }
  return chunk_loss(graph);
}

// The same products over all rows; the first one's result stands for the gradient of the logits.
Graph product_graph(const Sizes& s) {
  Graph graph;
  const ValueId x = graph.add_parameter("x", {DType::kF32, {s.rows, s.width}});
  const ValueId weight = graph.add_parameter("weight", {DType::kF32, {s.classes, s.width}});
  const ValueId logits = linear(graph, "logits", x, weight, kNoValue, kNoValue);
  graph.mark_output(add_single(graph, {.op = Op::kLinearInputGrad, .name = "dx", .inputs = {logits, weight}}));
  graph.mark_output(add_single(graph, {.op = Op::kLinearWeightGrad, .name = "dweight", .inputs = {logits, x}}));
  return graph;
}

// A program and the memory that it alone uses.
class Case {
 public:
  Case(Graph graph, Backend& backend) : Case(prepare(std::move(graph), backend), backend) {}

  std::size_t arena_bytes() const { return program_.plan().arena_bytes(); }
  const Program& program() const { return program_; }
  // Runs once; adds what each op took to `of_op`.
  double seconds(std::map<Op, double>& of_op) const {
    double sum = 0;
    for (std::size_t n = 0; n < program_.graph().nodes().size(); ++n) {
      const auto begin = std::chrono::steady_clock::now();
      program_.run_node(n);
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      of_op[program_.graph().nodes()[n].op] += took;
      sum += took;
    }
    return sum;
  }
  void fill(std::string_view name, float range) const {
    if (!program_.has_source(name)) return;
    const TensorView to = program_.view(program_.graph().find_source(name));
    std::mt19937 random(7);
    for (float& each : std::span(to.data<float>(), static_cast<std::size_t>(to.elements()))) {
      each = range * (static_cast<float>(random()) / 4294967296.0F - 0.5F);
    }
  }

 private:
  Case(PreparedGraph prepared, Backend& backend)
      : plan_(planned(prepared)),
        memory_(backend.allocate(plan_.arena_bytes())),
        program_(std::move(prepared), plan_, *memory_) {
    memory_->fill_zeros(memory_->bytes());
    fill("x", 2);
    fill("weight", 0.1F);
  }
  static MemoryPlan planned(const PreparedGraph& prepared) {
    PersistentLayout layout;
    layout.add(prepared.graph);
    return plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  }

  MemoryPlan plan_;
  std::unique_ptr<DeviceMemory> memory_;
  Program program_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

bool bar(const char* what, double found, double allowed, const char* unit) {
  const bool good = found <= allowed;
  fmt::print("{}: {:.2f}{}; bar: {}{}; {}\n", what, found, unit, allowed, unit, good ? "holds" : "MISSED");
  return good;
}

int run(const Sizes& s, int rounds, int threads) {
  CpuBackend backend(threads);
  const Case loss(loss_graph(s), backend), products(product_graph(s), backend);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(s.rows));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i * 7919 % s.classes);
  const auto feed = [&] {  // anew for each run, which uses the bytes of inputs that nobody reads any more
    loss.program().source("labels").write(std::as_bytes(std::span(labels)));
    loss.program().source("loss_scale").set(1.0F / static_cast<float>(s.rows));
    loss.program().source("rows").set(static_cast<std::int32_t>(s.rows));
  };
  std::vector<double> ratios;
  std::map<Op, double> of_loss, of_products;
  for (int round = 0; round < rounds; ++round) {
    feed();
    const double a = loss.seconds(of_loss), b = products.seconds(of_products);
    ratios.push_back(a / b);
    fmt::print("  round {}: loss and gradients {:.2f} s, products {:.2f} s\n", round + 1, a, b);
  }
  for (const auto& [op, sum] : of_loss) {
    const auto beside = of_products.find(op);
    fmt::print("  {}: {:.2f} s", op_name(op), sum / rounds);
    if (beside != of_products.end()) fmt::print(", {:.2f} times the product's", sum / beside->second);
    fmt::print("\n");
  }
  const std::int64_t elements = 2 * (s.rows + s.classes) * s.width;  // rows, weight, and the gradients of both
  const double beyond =
      static_cast<double>(loss.arena_bytes()) - static_cast<double>(elements) * static_cast<double>(sizeof(float));
  bool good = bar("memory beyond rows, weight and gradients", beyond / static_cast<double>(kMiB), 64, " MiB");
  good &= bar("time over that of the products", median(ratios), 1.1, "");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace plimsoll

int main(int count, char** arguments) {
  const auto number = [&](int i, int otherwise) { return i < count ? std::atoi(arguments[i]) : otherwise; };
  return plimsoll::run({number(1, 1024), number(2, 896), number(3, 151936)}, number(4, 5), number(5, 2));
}
