#include "transform/rewriter.h"

#include <fmt/format.h>

namespace plimsoll {

void Rewriter::copy_sources() {
  copy_sources([](ValueId) { return false; });
}

void Rewriter::copy_sources(const std::function<bool(ValueId)>& skips) {
  for (std::size_t i = 0; i < from_.values().size(); ++i) {
    const Value& value = from_.values()[i];
    const auto old = static_cast<ValueId>(i);
    if (value.producer != kNoNode || skips(old)) continue;
    switch (value.role) {
      case Role::kInput:
        map(old, to_.add_input(value.name, value.type));
        break;
      case Role::kParameter:
        map(old, to_.add_parameter(value.name, value.type));
        break;
      case Role::kState:
        map(old, to_.add_state(value.name, value.type));
        break;
      default:
        check(false, [&] { return fmt::format("'{}' has no producer", value.name); });
    }
  }
}

void Rewriter::copy_node(const Node& node) {
  std::vector<ValueId> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId input : node.inputs) inputs.push_back(mapped(input));
  copy_node(node, std::move(inputs));
}

void Rewriter::copy_node(const Node& node, std::vector<ValueId> inputs) {
  const std::vector<ValueId> outputs =
      to_.add_node({.op = node.op,
                    .name = node.name,
                    .attributes = node.attributes,
                    .inputs = std::move(inputs),
                    .row_count = node.row_count == kNoValue ? kNoValue : mapped(node.row_count),
                    .phase = node.phase});
  for (std::size_t i = 0; i < outputs.size(); ++i) map(node.outputs[i], outputs[i]);
}

void Rewriter::copy_outputs() {
  for (const ValueId output : from_.outputs()) to_.mark_output(mapped(output));
}

ValueId Rewriter::mapped(ValueId old) const {
  const ValueId now = map_.at(static_cast<std::size_t>(old));
  check(now != kNoValue, [&] { return fmt::format("'{}' has not been copied yet", from_.value(old).name); });
  return now;
}

}  // namespace plimsoll
