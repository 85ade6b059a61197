#include "fit/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "fit/step_graphs.h"
#include "graph/op_facts.h"
#include "graph/update_form.h"
#include "runtime/program.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

// Fills inputs so that every row is real and every index valid. An earlier round has put other tensors in the bytes of
// inputs that it no longer needed.
void fill_inputs(const Program& program, const std::vector<InputSpec>& inputs) {
  for (std::size_t value = 0; value < program.graph().values().size(); ++value) {
    if (program.graph().values()[value].role != Role::kInput) continue;
    program.tensor(static_cast<ValueId>(value)).fill_zeros();
  }
  for (const InputSpec& input : inputs) {
    if (!input.constants.empty()) program.source(input.name).write(std::as_bytes(std::span(input.constants)));
    if (input.full == InputSpec::Full::kZeros) continue;
    const auto count = static_cast<std::int32_t>(input.full == InputSpec::Full::kOnes ? 1 : input.count);
    std::vector<std::int32_t> values(static_cast<std::size_t>(input.type.shape.elements()), count);
    if (input.full == InputSpec::Full::kOffsets) {  // no sample is longer than another
      const auto samples = static_cast<std::int64_t>(values.size()) - 1;
      for (std::int64_t i = 0; i <= samples; ++i) {
        values[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * count / samples);
      }
    }
    program.source(input.name).write(std::as_bytes(std::span(values)));
  }
  program.source(kStepInput).set(std::int32_t{1});
}

// The time of an op with less work than this is mostly that of its call: a loss or a head for seven labels says nothing
// about one for a vocabulary, which would seem to take a hundred times its real time.
constexpr double kLeastWork = 1 << 14, kLeastProducts = 1 << 22;

// Records the best of a few rounds for each node of a step with that optimizer, and its work, summed by speed. With
// `all` it covers every node, otherwise only the updates.
struct Measured {
  std::array<double, kSpeedCount> seconds{}, work{};
  double start = 0;  // OpSpeeds::seconds_per_start
};

// A GPU is given this many pages at once, and this many calls before a wait; otherwise the time of a call would hide
// that of its work.
constexpr std::int64_t kDeviceSamples = 4;
constexpr int kDeviceRuns = 8;

void measure_step(Backend& backend, const ModelDefinition& model, DType precision, OptimizerKind optimizer, bool all,
                  std::int64_t text_rows, Measured& measured) {
  StepOptions options{.definition = model, .model = {}, .optimizer = {}};
  options.precision = precision;
  options.optimizer.kind = optimizer;
  const bool on_device = backend.device_use().has_value();
  const std::int64_t samples = on_device ? kDeviceSamples : 1;
  const ModelCapacity capacity{.samples = samples, .text_rows = text_rows * samples};
  StepGraph step = build_step_graph(ProgramKind::kAccumulateAndStep, options, capacity, text_rows);
  PreparedGraph prepared = prepare(std::move(step.graph), backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(plan.arena_bytes());
  memory->fill_zeros(memory->bytes());
  const Program program(std::move(prepared), std::move(plan), *memory);

  const auto runs = [&](std::size_t n) { return all || is_parameter_update(program.graph().nodes()[n].op); };
  const std::vector<InputSpec> inputs = model.inputs(capacity, precision);
  std::vector<double> best(program.node_count(), 1e9);
  constexpr int kRounds = 4;
  const int times = on_device ? kDeviceRuns : 1;
  for (int round = 0; round < kRounds; ++round) {
    fill_inputs(program, inputs);
    for (std::size_t n = 0; n < program.node_count(); ++n) {
      if (!runs(n)) continue;
      const auto begin = Clock::now();
      for (int run = 0; run < times; ++run) program.run_node(n);
      backend.wait();
      best[n] = std::min(best[n], std::chrono::duration<double>(Clock::now() - begin).count() / times);
    }
  }
  Measured found;
  // The shortest of all calls does next to nothing. A CPU's calls take no time.
  if (all && on_device) measured.start = *std::ranges::min_element(best);
  for (std::size_t n = 0; n < program.node_count(); ++n) {
    if (!runs(n)) continue;
    const Node& node = program.graph().nodes()[n];
    const std::size_t speed = speed_index(program.graph(), node);
    constexpr double kLeast = 0.05;  // this share of a call is its work, which must take some time
    found.seconds[speed] += std::max(best[n] - measured.start, kLeast * best[n]);
    found.work[speed] += op_facts(node.op).work(program.graph(), node);
  }
  for (std::size_t i = 0; i < kSpeedCount; ++i) {  // keep what an earlier step measured: small tensors' moments
    if (measured.work[i] > 0 || found.work[i] == 0) continue;
    measured.seconds[i] = found.seconds[i];
    measured.work[i] = found.work[i];
  }
}

}  // namespace

OpSpeeds measure_speeds(Backend& backend, const ModelDefinition& model, DType precision, std::int64_t text_rows) {
  Measured measured;
  measure_step(backend, model, precision, OptimizerKind::kAdamW, true, text_rows, measured);
  measure_step(backend, model, precision, OptimizerKind::kAdamW8bit, false, text_rows, measured);
  measure_step(backend, model, precision, OptimizerKind::kAdafactor, false, text_rows, measured);
  OpSpeeds speeds;
  speeds.seconds_per_start = measured.start;
  for (std::size_t i = 0; i < kSpeedCount; ++i) {
    // A speed that no step measured, or only on too little work, is taken from the op in the other precision, or from
    // the op that it is priced like: a step in a half type has its attention only in that type. The time of products
    // depends more on the precision than on the op.
    const std::size_t half = i < kSpeedForms ? 0 : kSpeedForms, other = kSpeedForms - half, form = i - half;
    const Op priced_like = form < kOpCount ? op_facts(static_cast<Op>(form)).priced_like : Op::kAdd;
    const auto like = static_cast<std::size_t>(priced_like);
    const bool multiplies = priced_like == Op::kLinear;
    const std::size_t candidates[] = {i, multiplies ? half + like : other + form,
                                      multiplies ? other + form : half + like, other + like};
    const auto with = [&](double least) {
      return std::ranges::find_if(candidates, [&](std::size_t speed) { return measured.work[speed] >= least; });
    };
    const auto enough = with(multiplies ? kLeastProducts : kLeastWork),
               from = enough != std::end(candidates) ? enough : with(1);
    check(from != std::end(candidates), "the calibrated step holds every op that others are priced like");
    speeds.seconds_per_unit[i] = measured.seconds[*from] / measured.work[*from];
  }
  return speeds;
}

namespace {

// The seconds per unit of the ops that others are priced like.
struct TypicalSpeeds {
  double element = 0, product = 0, attention = 0, attention_grad = 0;

  double of(Op like) const {
    return like == Op::kLinear          ? product
           : like == Op::kAttention     ? attention
           : like == Op::kAttentionGrad ? attention_grad
                                        : element;
  }
};

OpSpeeds speeds_of(const TypicalSpeeds& whole, const TypicalSpeeds& half) {
  OpSpeeds speeds;
  for (std::size_t form = 0; form < kSpeedForms; ++form) {
    const Op like = form < kOpCount ? op_facts(static_cast<Op>(form)).priced_like : Op::kAdd;
    speeds.seconds_per_unit[form] = whole.of(like);
    speeds.seconds_per_unit[kSpeedForms + form] = half.of(like);
  }
  return speeds;
}

}  // namespace

OpSpeeds typical_speeds() {
  constexpr TypicalSpeeds kSpeeds = {.element = 1e-9, .product = 2e-11, .attention = 8e-11, .attention_grad = 2e-10};
  return speeds_of(kSpeeds, kSpeeds);
}

OpSpeeds device_speeds(const DeviceRates& rates) {
  // Two products per score, and five for the gradient; exponentials and look-ups besides.
  constexpr double kHeadColumns = 64;
  const auto speeds = [&](double bytes, double flops) {
    const double product = 2 / flops;
    const auto of_scores = [&](double seconds, double products) {
      return std::max(products * product, seconds / kHeadColumns);
    };
    return TypicalSpeeds{.element = bytes / rates.memory_bytes,
                         .product = product,
                         .attention = of_scores(rates.score_seconds, 4),
                         .attention_grad = of_scores(rates.score_grad_seconds, 10)};
  };
  OpSpeeds all = speeds_of(speeds(4, rates.float_flops), speeds(2, rates.half_flops));
  // The parameters are halves, moments and gradients are not.
  for (const auto op : {Op::kAdamW, Op::kAdamWRows}) {
    const auto form = static_cast<std::size_t>(op);
    all.seconds_per_unit[kSpeedForms + form] = all.seconds_per_unit[form];
  }
  all.seconds_per_start = rates.seconds_per_start;
  return all;
}

OpSpeeds typical_gpu_speeds() {
  constexpr DeviceRates kRates = {
      .float_flops = 10e12, .half_flops = 150e12, .memory_bytes = 1e12, .seconds_per_start = 3e-6};
  return device_speeds(kRates);
}

nlohmann::json speeds_json(const OpSpeeds& speeds) {
  nlohmann::json units = nlohmann::json::object();
  for (std::size_t i = 0; i < kSpeedCount; ++i) units[speed_name(i)] = speeds.seconds_per_unit[i];
  return {{"seconds_per_unit", std::move(units)}, {"seconds_per_start", speeds.seconds_per_start}};
}

OpSpeeds parse_speeds(const nlohmann::json& json, const std::string& where) {
  OpSpeeds speeds;
  for (std::size_t i = 0; i < kSpeedCount; ++i) {
    const std::string name = speed_name(i);
    const auto units = json.is_object() ? json.find("seconds_per_unit") : json.end();
    const bool has = units != json.end() && units->is_object() && units->contains(name) && (*units)[name].is_number();
    const double seconds = has ? (*units)[name].get<double>() : -1;
    if (!(seconds > 0)) {
      throw DataError({.what = "an op is missing in the file of measured speeds",
                       .where = where,
                       .found = fmt::format("no positive number for '{}'", name),
                       .allowed = "a positive number for each op",
                       .remedy = "delete the file to measure again"});
    }
    speeds.seconds_per_unit[i] = seconds;
  }
  const auto start = json.find("seconds_per_start");
  speeds.seconds_per_start = start != json.end() && start->is_number() ? std::max(0.0, start->get<double>()) : 0.0;
  return speeds;
}

}  // namespace plimsoll
