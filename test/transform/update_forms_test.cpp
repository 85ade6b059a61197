// Compares the forms of a parameter's update with one another and with separate loops: a split parameter moves like a
// whole one, bit for bit; 8-bit moments equal those of a double-precision loop over the paper's description.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "support/small_net.h"
#include "tensor/half.h"
#include "tensor/split_float.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kRows = 23, kWidth = 37;

// One weight with a dense gradient and one table whose gradient comes as rows; neither is a multiple of whole blocks.
Graph update_graph(DType parameter, DType gradient, OptimizerKind kind) {
  Graph graph;
  const ValueId weight = graph.add_parameter("weight", {parameter, {kRows, kWidth}});
  const ValueId table = graph.add_parameter("table", {parameter, {kRows, kWidth}});
  const Gradients gradients = {{weight, {.dense = graph.add_input("gradient", {gradient, {kRows, kWidth}})}},
                               {table,
                                {.row_ids = graph.add_input("ids", {DType::kI32, {6}}),
                                 .row_count = graph.add_input("count", {DType::kI32, {1}}),
                                 .rows = graph.add_input("rows", {gradient, {6, kWidth}})}}};
  append_optimizer(graph, gradients, {.kind = kind, .coded_from = 1, .adamw = {.weight_decay = 0.1}, .decays = {}});
  return graph;
}

constexpr int kTableIds[] = {1, 2, 9, 22};

// Return the gradient of update `step` for the weight, and for the table as a dense tensor.
std::vector<double> weight_gradient(int step) { return numbers(kRows * kWidth, 0.3 + step); }
std::vector<double> table_gradient(int step) {
  std::vector<double> dense(static_cast<std::size_t>(kRows * kWidth), 0.0);
  const std::vector<double> rows = numbers(4 * kWidth, 0.7 - step);
  for (std::size_t i = 0; i < 4; ++i) {
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i * kWidth), kWidth, dense.begin() + kTableIds[i] * kWidth);
  }
  return dense;
}

void set_gradients(GraphRunner& runner, int step) {
  runner.set("gradient", weight_gradient(step));
  runner.set("ids", std::vector<double>(std::begin(kTableIds), std::end(kTableIds)));
  runner.set("count", std::vector<double>{4});
  runner.set("rows", numbers(4 * kWidth, 0.7 - step));
  runner.set(kLearningRateInput, std::vector<double>{0x1p-8});
  runner.set(kStepInput, std::vector<double>{static_cast<double>(step)});
  runner.set(kMaxGradNormInput, std::vector<double>{10});
}

void clear_states(const Graph& graph, GraphRunner& runner) {
  for (const Value& value : graph.values()) {
    if (value.producer == kNoNode && value.role == Role::kState) {
      runner.set(value.name, std::vector<double>(static_cast<std::size_t>(value.type.shape.elements()), 0.0));
    }
  }
}

std::vector<OptimizerKind> kinds() {
  return {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor};
}

TEST(SplitParameters, MoveAsWholeOnesBitForBit) {
  ReferenceBackend reference;
  CpuBackend cpu(2);
  for (Backend* backend : {static_cast<Backend*>(&reference), static_cast<Backend*>(&cpu)}) {
    for (const OptimizerKind kind : kinds()) {
      SCOPED_TRACE(optimizer_name(kind));
      const Graph whole_graph = update_graph(DType::kF32, DType::kF32, kind);
      const Graph split_graph = update_graph(DType::kBF16, DType::kF32, kind);
      GraphRunner whole(whole_graph, *backend), split(split_graph, *backend);
      clear_states(whole_graph, whole);
      clear_states(split_graph, split);
      for (const char* name : {"weight", "table"}) {
        const std::vector<double> start = numbers(kRows * kWidth, name[0]);
        std::vector<double> high, low;
        for (const double value : start) {
          const SplitFloat halves = split_float(static_cast<float>(value));
          high.push_back(double{bfloat16_to_float(halves.high)});
          low.push_back(halves.low);
        }
        whole.set(name, start);
        split.set(name, high);
        split.set(std::string(name) + ".low", low);
      }
      for (int step = 1; step <= 5; ++step) {
        set_gradients(whole, step);
        set_gradients(split, step);
        whole.run();
        split.run();
      }
      for (const std::string name : {"weight", "table"}) {
        const std::vector<double> expected = whole.get(whole_graph.find_source(name));
        const std::vector<double> high = split.get(split_graph.find_source(name));
        const std::vector<double> low = split.get(split_graph.find_source(name + ".low"));
        int moved = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const float joined = join_float(
              {float_to_bfloat16(static_cast<float>(high[i])), static_cast<std::int16_t>(low[i])});
          ASSERT_EQ(double{joined}, expected[i]) << name << " " << i;
          moved += expected[i] != numbers(kRows * kWidth, name[0])[i] ? 1 : 0;
        }
        EXPECT_GT(moved, 800) << name;
      }
      for (const Value& value : whole_graph.values()) {
        if (value.producer != kNoNode || !is_optimizer_state(value.name)) continue;
        EXPECT_EQ(split.get(split_graph.find_source(value.name)), whole.get(whole_graph.find_source(value.name)))
            << value.name;
      }
    }
  }
}

// The numbers of an 8-bit code as the paper describes them: decades from 1e-7 to 1, each with twice the numbers of the
// one below, midpoints of equal parts; by magnitude, ascending.
std::vector<double> magnitudes(bool has_sign) {
  std::vector<double> list = {0};
  double low = 1e-7;
  for (int parts = has_sign ? 1 : 2; parts <= (has_sign ? 64 : 128); parts *= 2) {
    const double part = 9 * low / parts;
    for (int i = 0; i < parts; ++i) list.push_back(low + part / 2 + i * part);
    low *= 10;
  }
  list.push_back(1);
  return list;
}

double stored(double value, double absmax, bool has_sign) {
  if (absmax == 0) return 0;
  const std::vector<double> list = magnitudes(has_sign);
  const double x = std::abs(value) / absmax;
  const auto above = std::lower_bound(list.begin(), list.end(), x);
  double nearest = above == list.end() ? 1 : *above;
  if (above != list.begin() && above != list.end() && x - *(above - 1) <= *above - x) nearest = *(above - 1);
  if (!has_sign && nearest == 0 && x > 0) nearest = list[1];  // a second moment does not vanish beside a first one
  if (value < 0 && nearest == 1) nearest = list[list.size() - 2];  // there is no -1
  return std::copysign(nearest * absmax, value);
}

// AdamW on a flat tensor in double; moments pass through their codes after each update.
struct CodedLoop {
  std::vector<double> p, m, v;
  explicit CodedLoop(std::vector<double> start) : p(std::move(start)), m(p.size(), 0), v(p.size(), 0) {}

  void step(const std::vector<double>& gradient, int t, double clip) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i] * clip;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      const double m_hat = m[i] / (1 - std::pow(0.9, t)), v_hat = v[i] / (1 - std::pow(0.999, t));
      p[i] -= 0x1p-8 * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.1 * p[i]);
    }
    for (std::vector<double>* moment : {&m, &v}) {
      for (std::size_t first = 0; first < p.size(); first += 256) {
        const std::size_t last = std::min(p.size(), first + 256);
        double absmax = 0;
        for (std::size_t i = first; i < last; ++i) absmax = std::max(absmax, std::abs((*moment)[i]));
        for (std::size_t i = first; i < last; ++i) (*moment)[i] = stored((*moment)[i], absmax, moment == &m);
      }
    }
  }
};

TEST(CodedMoments, FollowALoopInDouble) {
  const Graph graph = update_graph(DType::kF64, DType::kF64, OptimizerKind::kAdamW8bit);
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  clear_states(graph, runner);
  const std::vector<double> start = numbers(kRows * kWidth, 5), table_start = numbers(kRows * kWidth, 6);
  runner.set("weight", start);
  runner.set("table", table_start);
  CodedLoop weight(start), table(table_start);
  for (int step = 1; step <= 8; ++step) {
    double squares = 0;
    for (const auto& gradient : {weight_gradient(step), table_gradient(step)}) {
      for (const double g : gradient) squares += g * g;
    }
    const double clip = static_cast<float>(std::min(1.0, 10 / (std::sqrt(squares) + 1e-6)));
    ASSERT_LT(clip, 1);
    set_gradients(runner, step);
    runner.run();
    weight.step(weight_gradient(step), step, clip);
    table.step(table_gradient(step), step, clip);
  }
  // The map's numbers are floats in the graph: moments differ by a factor of 3e-8, and so do the parameter's changes.
  const std::vector<double> found = runner.get(graph.find_source("weight"));
  const std::vector<double> found_table = runner.get(graph.find_source("table"));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], weight.p[i], 1e-8) << i;
    ASSERT_NEAR(found_table[i], table.p[i], 1e-8) << i;
  }
  // Codes have an effect: exact moments give another result.
  const Graph exact_graph = update_graph(DType::kF64, DType::kF64, OptimizerKind::kAdamW);
  GraphRunner exact(exact_graph, backend);
  clear_states(exact_graph, exact);
  exact.set("weight", start);
  exact.set("table", table_start);
  for (int step = 1; step <= 8; ++step) {
    set_gradients(exact, step);
    exact.run();
  }
  double difference = 0, way = 0;
  const std::vector<double> whole = exact.get(exact_graph.find_source("weight"));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    difference += std::abs(whole[i] - weight.p[i]);
    way += std::abs(whole[i] - start[i]);
  }
  EXPECT_GT(difference, 1e-4 * way);
  EXPECT_LT(difference, 0.05 * way);
}

// A row update equals a dense one with zeros for the absent rows.
TEST(CodedMoments, RowsAndDenseGradientsAgree) {
  CpuBackend backend(2);
  for (const OptimizerKind kind : kinds()) {
    const Graph graph = update_graph(DType::kF32, DType::kF32, kind);
    GraphRunner rows(graph, backend), dense(graph, backend);
    const std::vector<double> start = numbers(kRows * kWidth, 4);
    for (GraphRunner* runner : {&rows, &dense}) {
      clear_states(graph, *runner);
      runner->set("weight", start);
      runner->set("table", start);
    }
    for (int step = 1; step <= 4; ++step) {
      set_gradients(rows, step);
      set_gradients(dense, step);
      dense.set("gradient", table_gradient(step));
      for (GraphRunner* runner : {&rows, &dense}) {
        runner->set(kMaxGradNormInput, std::vector<double>{0});
        runner->run();
      }
    }
    EXPECT_EQ(rows.get(graph.find_source("table")), dense.get(graph.find_source("weight"))) << optimizer_name(kind);
  }
}

}  // namespace
}  // namespace plimsoll::test
