#include "runtime/checked_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "graph/op_facts.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kAllRows = -1;

// Calls function(double) for the first `count` elements until it returns false. Returns the element that ended the
// walk, or -1.
template <typename Function>
std::int64_t walk(const TensorView& view, std::int64_t count, const Function& function) {
  const auto each = [&](auto widen) -> std::int64_t {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!function(widen(i))) return i;
    }
    return -1;
  };
  switch (view.dtype()) {
    case DType::kF64:
      return each([data = view.data<double>()](std::int64_t i) { return data[i]; });
    case DType::kF32:
      return each([data = view.data<float>()](std::int64_t i) { return double{data[i]}; });
    case DType::kBF16:
      return each([data = view.data<std::uint16_t>()](std::int64_t i) { return double{bfloat16_to_float(data[i])}; });
    case DType::kF16:
      return each([data = view.data<std::uint16_t>()](std::int64_t i) { return double{half_to_float(data[i])}; });
    default:
      return -1;
  }
}

std::int64_t elements_of(const TensorView& view, std::int64_t rows) {
  const std::int64_t all = view.elements();
  if (rows < 0 || view.shape().rank() == 0 || all == 0) return all;
  return std::min(rows, view.shape()[0]) * (all / view.shape()[0]);
}

bool writes_in_place(const Program& program, const Node& node) {
  return std::ranges::any_of(node.outputs, [&](ValueId output) {
    return std::ranges::any_of(node.inputs,
                               [&](ValueId input) { return program.view(input).raw() == program.view(output).raw(); });
  });
}

}  // namespace

std::string describe(const StepFault& fault) {
  if (!fault.told.empty()) return fault.told;
  const std::string tensor = fmt::format("tensor '{}' {}", fault.tensor, to_string(fault.type));
  const std::string at = fmt::format("{}", fmt::join(fault.index, ", "));
  switch (fault.kind) {
    case StepFault::Kind::kHeld:
      return fmt::format("{} is {} at [{}], before {} '{}' reads it", tensor, fault.value, at, fault.op, fault.node);
    case StepFault::Kind::kIndex:
      return fmt::format("{} has index {} at [{}], where {} '{}' has a table of {}", tensor, fault.value, at, fault.op,
                         fault.node, fault.table_rows);
    default:
      return fmt::format("{} '{}' makes {}: {} at [{}]", fault.op, fault.node, fault.value, tensor, at);
  }
}

std::string describe(const TensorSummary& input) {
  return fmt::format("reads '{}' {}: {:.6g} to {:.6g}, {} not finite", input.name, to_string(input.type),
                     input.smallest, input.largest, input.not_finite);
}

CheckedRun::CheckedRun(const Program& program)
    : program_(program),
      rows_(program.graph().values().size(), kAllRows),
      checked_(program.graph().values().size(), false) {}

std::int64_t CheckedRun::rows_of(const Node& node, std::size_t output) const {
  const auto read = [this](ValueId value) { return std::int64_t{program_.tensor(value).get<std::int32_t>()}; };
  return defined_rows(node, output, read).value_or(kAllRows);
}

std::int64_t CheckedRun::first_non_finite(ValueId value) const {
  const HostCopy copy(program_.tensor(value));
  return walk(copy.view(), elements_of(copy.view(), rows_[static_cast<std::size_t>(value)]),
              [marks = has_marks(value)](double x) { return std::isfinite(x) || (marks && x < 0); });
}

// Returns whether -infinity marks something in this value.
bool CheckedRun::has_marks(ValueId value) const {
  const NodeId producer = program_.graph().value(value).producer;
  return producer != kNoNode && op_facts(program_.graph().node(producer).op).makes_infinities;
}

TensorSummary CheckedRun::summarise(ValueId value, const Node& reader) const {
  const Value& known = program_.graph().value(value);
  TensorSummary summary{.name = known.name, .type = known.type};
  std::int64_t rows = rows_[static_cast<std::size_t>(value)];
  // A value that comes back from a file has the rows it had before; its reader's row count applies.
  const bool arrived = known.producer != kNoNode && is_transfer(program_.graph().node(known.producer).op);
  if (arrived && reader.row_count != kNoValue) rows = program_.tensor(reader.row_count).get<std::int32_t>();
  const HostCopy copy(program_.tensor(value));
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  const bool marks = has_marks(value);
  walk(copy.view(), elements_of(copy.view(), rows), [&](double x) {
    if (std::isfinite(x)) {
      smallest = std::min(smallest, x);
      largest = std::max(largest, x);
    } else if (!marks || !(x < 0)) {
      ++summary.not_finite;
    }
    return true;
  });
  if (smallest <= largest) {
    summary.smallest = smallest;
    summary.largest = largest;
  }
  return summary;
}

std::vector<TensorSummary> CheckedRun::summarise_inputs(const Node& node) const {
  std::vector<TensorSummary> inputs;
  for (const ValueId input : node.inputs) {
    if (is_floating(program_.graph().type(input).dtype)) inputs.push_back(summarise(input, node));
  }
  return inputs;
}

StepFault CheckedRun::fault_at(const Node& node, ValueId value, std::int64_t element, StepFault::Kind kind) const {
  const Value& known = program_.graph().value(value);
  StepFault found{.kind = kind,
                  .op = std::string(op_name(node.op)),
                  .node = node.name,
                  .tensor = known.name,
                  .type = known.type,
                  .index = {},
                  .inputs = {},
                  .forward = node.phase == Phase::kForward};
  walk(HostCopy(program_.tensor(value)).view(), element + 1, [&](double x) {
    found.value = x;
    return true;
  });
  if (std::isnan(found.value)) found.value = std::numeric_limits<double>::quiet_NaN();  // a NaN's sign means nothing
  for (std::size_t d = known.type.shape.rank(); d-- > 0;) {
    found.index.insert(found.index.begin(), element % known.type.shape[d]);
    element /= known.type.shape[d];
  }
  return found;
}

// Checks the integer inputs with which a node reads rows of a table; real rows only.
std::optional<StepFault> CheckedRun::index_fault(const Node& node) const {
  const auto range_of = op_facts(node.op).indices;
  if (range_of == nullptr) return std::nullopt;
  const IndexRange range = range_of(program_.graph(), node);
  const std::int64_t real = node.row_count == kNoValue ? kAllRows : program_.tensor(node.row_count).get<std::int32_t>();
  const ValueId indices = node.inputs[range.input];
  const HostCopy copy(program_.tensor(indices));
  const std::int64_t count = elements_of(copy.view(), real);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t index = copy.view().data<std::int32_t>()[i];
    if ((index >= range.low && index < range.end) || index == range.ignored) continue;
    StepFault fault = fault_at(node, indices, i, StepFault::Kind::kIndex);
    fault.value = index;
    fault.table_rows = range.end;
    return fault;
  }
  return std::nullopt;
}

// A transfer that has begun would otherwise continue while other nodes run.
void CheckedRun::finish_transfers(std::size_t next) const {
  const std::deque<Node>& nodes = program_.graph().nodes();
  std::set<std::int64_t> begun;
  const auto ticket = [&](std::size_t n) { return std::get<TransferAttributes>(nodes[n].attributes).ticket; };
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!is_transfer(nodes[n].op)) continue;
    const bool ends = nodes[n].op == Op::kFetchEnd || nodes[n].op == Op::kStoreEnd;
    if (n < next) {
      ends ? begun.erase(ticket(n)) : begun.insert(ticket(n)).second;
    } else if (ends && begun.erase(ticket(n)) > 0) {
      program_.run_node(n);
    }
  }
}

// The device is synchronized after each node, so that an error belongs to that node.
void CheckedRun::run_node(std::size_t n) const {
  try {
    program_.run_node(n);
    program_.wait();
  } catch (const DeviceError& error) {
    const Graph& graph = program_.graph();
    const Node& node = graph.nodes()[n];
    Problem problem = error.problem();
    problem.where = fmt::format("{} '{}'", op_name(node.op), node.name);
    for (const ValueId output : node.outputs) {
      const Value& made = graph.value(output);
      problem.where += fmt::format("{} '{}' {}", output == node.outputs.front() ? ", which makes" : " and", made.name,
                                   to_string(made.type));
    }
    throw DeviceError(std::move(problem));
  }
}

std::optional<StepFault> CheckedRun::run(bool forward_only) {
  const Graph& graph = program_.graph();
  std::fill(checked_.begin(), checked_.end(), false);
  const bool of_ranks = std::ranges::any_of(graph.nodes(), [](const Node& node) { return is_collective(node.op); });
  bool updated = false;
  const auto end_at = [&](std::size_t n, std::size_t next, StepFault&& found) {
    found.place = n;
    if (of_ranks) {
      for (; next < graph.nodes().size(); ++next) run_node(next);
    } else {
      finish_transfers(next);
    }
    return std::move(found);
  };
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const bool lets_pass =
        is_transfer(node.op) || is_collective(node.op) || (forward_only && node.phase != Phase::kForward);
    for (const ValueId input : node.inputs) {
      const Value& value = graph.value(input);
      const auto at = static_cast<std::size_t>(input);
      if (lets_pass || checked_[at] || value.producer != kNoNode || value.role == Role::kState) continue;
      checked_[at] = true;
      const std::int64_t element = first_non_finite(input);
      if (element < 0) continue;
      StepFault found = fault_at(node, input, element, StepFault::Kind::kHeld);
      found.inputs = summarise_inputs(node);
      found.updated = updated;
      return end_at(n, n, std::move(found));
    }
    if (std::optional<StepFault> outside = index_fault(node)) {
      outside->updated = updated;
      finish_transfers(n);
      return outside;
    }
    std::vector<TensorSummary> overwritten;
    const bool in_place = !lets_pass && writes_in_place(program_, node);
    if (in_place) overwritten = summarise_inputs(node);
    run_node(n);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      rows_[static_cast<std::size_t>(node.outputs[i])] = rows_of(node, i);
    }
    for (const ValueId output : node.outputs) {
      if (lets_pass) continue;
      const std::int64_t element = first_non_finite(output);
      if (element < 0) continue;
      StepFault found = fault_at(node, output, element, StepFault::Kind::kMade);
      found.inputs = in_place ? std::move(overwritten) : summarise_inputs(node);
      found.updated = updated || node.phase == Phase::kUpdate;
      return end_at(n, n + 1, std::move(found));
    }
    updated = updated || std::ranges::any_of(node.outputs, [&](ValueId output) {
                return graph.value(output).role == Role::kParameter;
              });
  }
  return std::nullopt;
}

}  // namespace plimsoll
