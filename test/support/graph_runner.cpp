#include "support/graph_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "graph/op_facts.h"

namespace plimsoll::test {
namespace {

std::size_t at(ValueId value) { return static_cast<std::size_t>(value); }

std::int64_t rows_of(const TensorType& type) { return type.shape.rank() == 0 ? 1 : type.shape[0]; }

// == compares vectors of std::byte one byte at a time.
bool same_bytes(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Returns the last node that reads each value, past the end for the graph's outputs, -1 for values that nobody reads.
std::vector<std::ptrdiff_t> last_reads(const Graph& graph) {
  std::vector<std::ptrdiff_t> last(graph.values().size(), -1);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const ValueId input : node.inputs) last[at(input)] = static_cast<std::ptrdiff_t>(n);
    if (node.row_count != kNoValue) last[at(node.row_count)] = static_cast<std::ptrdiff_t>(n);
  }
  for (const ValueId output : graph.outputs()) last[at(output)] = static_cast<std::ptrdiff_t>(graph.nodes().size());
  return last;
}

}  // namespace

GraphRunner::GraphRunner(const Graph& graph, Backend& backend, RunnerOptions options)
    : graph_(graph),
      backend_(backend),
      forgets_(backend.name() != "cuda"),
      made_(graph.values().size()),
      bound_slack_(options.bound_slack) {
  verify(graph);
  for (const Value& value : graph.values()) promised_.push_back(rows_of(value.type));
  home_ = places(graph, options.reuse);
  for (const Node& node : graph.nodes()) kernels_.push_back(backend.prepare(graph, node));
  allocate();
}

void GraphRunner::allocate() {
  std::size_t room = 0;
  const auto for_each_buffer = [this](const auto& body) {
    for (std::size_t i = 0; i < home_.size(); ++i) {
      if (at(home_[i]) == i) body(buffers_[i], graph_.values()[i].type.bytes());
    }
    for (std::size_t n = 0; n < kernels_.size(); ++n) body(scratch_[n], kernels_[n]->scratch_bytes());
  };
  buffers_.resize(home_.size());
  scratch_.resize(kernels_.size());
  for_each_buffer([&](GuardedBuffer&, std::size_t bytes) { room += GuardedBuffer::room_for(bytes); });
  memory_ = backend_.allocate(room);
  check(reinterpret_cast<std::uintptr_t>(memory_->bytes().data()) % kAlignmentBytes == 0,
        "backends align their memory");
  std::size_t offset = 0;
  for_each_buffer([&](GuardedBuffer& buffer, std::size_t bytes) {
    buffer = GuardedBuffer(*memory_, offset, bytes);
    offset += GuardedBuffer::room_for(bytes);
  });
}

std::vector<ValueId> GraphRunner::places(const Graph& graph, Reuse reuse) {
  const std::vector<std::ptrdiff_t> last = last_reads(graph);
  std::vector<ValueId> home(graph.values().size(), kNoValue);
  const auto own_buffer = [&](ValueId value) { home[at(value)] = value; };
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].producer == kNoNode) own_buffer(static_cast<ValueId>(i));
  }
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    std::vector<Alias> aliases = op_aliases(node.op, node.inputs.size());
    if (reuse == Reuse::kLast) std::reverse(aliases.begin(), aliases.end());
    std::vector<ValueId> taken;
    for (const Alias& alias : aliases) {
      const ValueId input = node.inputs[alias.input], output = node.outputs[alias.output];
      const bool must = alias.kind == Alias::Kind::kMust;
      const bool dies = last[at(input)] == static_cast<std::ptrdiff_t>(n) && !is_persistent(graph.value(input).role);
      const bool fits = graph.type(input).bytes() == graph.type(output).bytes();
      const bool is_free = std::find(taken.begin(), taken.end(), home[at(input)]) == taken.end();
      if (home[at(output)] != kNoValue || !(must || (reuse != Reuse::kNever && dies && fits && is_free))) continue;
      home[at(output)] = home[at(input)];
      taken.push_back(home[at(input)]);
    }
    for (const ValueId output : node.outputs) {
      if (home[at(output)] == kNoValue) own_buffer(output);
    }
  }
  return home;
}

DeviceTensor GraphRunner::tensor(ValueId value) const {
  const GuardedBuffer& buffer = buffers_[at(home_[at(value)])];
  return {TensorView(graph_.type(value), buffer.bytes().data()), buffer.memory()};
}

void GraphRunner::set(ValueId value, std::span<const double> values) {
  check(graph_.value(value).producer == kNoNode, "only sources are set");
  poison(tensor(value));
  from_doubles(tensor(value), values);
}

void GraphRunner::set(std::string_view source, std::span<const double> values) {
  const ValueId value = graph_.find_source(source);
  check(value != kNoValue, fmt::format("the graph has a source '{}'", source));
  set(value, values);
}

void GraphRunner::run() {
  for (std::size_t i = 0; i < graph_.values().size(); ++i) {
    const auto value = static_cast<ValueId>(i);
    if (graph_.value(home_[i]).producer != kNoNode) poison(tensor(value));
  }
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) run_node(n);
}

void GraphRunner::run_node(std::size_t index) {
  const Node& node = graph_.nodes()[index];
  std::vector<TensorView> inputs, outputs;
  for (const ValueId input : node.inputs) inputs.push_back(tensor(input).view());
  for (const ValueId output : node.outputs) outputs.push_back(tensor(output).view());
  std::vector<std::vector<std::byte>> before;
  for (const ValueId input : node.inputs) before.push_back(promised_bytes(input));
  const GuardedBuffer& scratch = scratch_[index];
  scratch.fill(std::byte{0xFF});  // NaN in every floating type

  const bool counts = node.row_count != kNoValue;
  kernels_[index]->run(
      {.inputs = inputs,
       .outputs = outputs,
       .scratch = scratch.bytes(),
       .row_count = counts ? tensor(node.row_count).view().data<std::int32_t>() : nullptr,
       .row_bound = counts && bound_slack_ ? read_count(node.row_count) + *bound_slack_ : KernelArguments{}.row_bound});

  const auto expect = [&](bool holds, std::string_view fault, std::string_view of = "") {
    check(holds, [&] { return fmt::format("node {} '{}' ({}) {}{}", index, node.name, op_name(node.op), fault, of); });
  };
  expect(scratch.intact(), "writes outside its scratch");
  for (const GuardedBuffer& buffer : buffers_) expect(buffer.intact(), "writes outside a tensor");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool overwritten = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return home_[at(output)] == home_[at(node.inputs[i])];
    });
    expect(overwritten || same_bytes(before[i], promised_bytes(node.inputs[i])), "changes its input ",
           std::to_string(i));
    if (!overwritten && forgets_ && promised_[at(node.inputs[i])] < rows_of(inputs[i].type())) {
      poison(tensor(node.inputs[i]), promised_[at(node.inputs[i])]);
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    promised_[at(output)] = promised_rows(node, i);
    made_[at(output)] = to_doubles(tensor(output), promised_[at(output)]);
  }
  for (const ValueId output : node.outputs) {
    if (forgets_) poison(tensor(output), promised_[at(output)]);
  }
}

std::vector<std::byte> GraphRunner::promised_bytes(ValueId value) const {
  const DeviceTensor from = tensor(value);
  const auto rows = static_cast<std::size_t>(rows_of(from.type()));
  std::vector<std::byte> bytes(rows == 0 ? 0 : from.bytes() / rows * static_cast<std::size_t>(promised_[at(value)]));
  from.read(bytes);
  return bytes;
}

std::int64_t GraphRunner::promised_rows(const Node& node, std::size_t output) const {
  const auto read = [this](ValueId value) { return std::int64_t{read_count(value)}; };
  return defined_rows(node, output, read).value_or(rows_of(graph_.type(node.outputs[output])));
}

const std::vector<double>& GraphRunner::made(ValueId value) const {
  check(graph_.value(value).producer != kNoNode, "only nodes' outputs are made");
  return made_[at(value)];
}

const std::vector<double>& GraphRunner::made(std::string_view name) const { return made(last_of_name(name)); }

std::vector<double> GraphRunner::get(ValueId value) const {
  return to_doubles(tensor(value), graph_.type(value).shape.elements());
}

ValueId GraphRunner::last_of_name(std::string_view name) const {
  for (std::size_t i = graph_.values().size(); i-- > 0;) {
    if (graph_.values()[i].name == name) return static_cast<ValueId>(i);
  }
  check(false, fmt::format("the graph has a value '{}'", name));
  return kNoValue;
}

}  // namespace plimsoll::test
