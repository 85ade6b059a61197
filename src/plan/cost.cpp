#include "plan/cost.h"

#include <algorithm>
#include <map>
#include <variant>

#include "graph/attention_form.h"
#include "graph/update_form.h"

namespace plimsoll {
namespace {

double elements(const Graph& graph, ValueId value) { return static_cast<double>(graph.type(value).shape.elements()); }

double last_dimension(const Graph& graph, ValueId value) {
  const Shape& shape = graph.type(value).shape;
  return static_cast<double>(shape[shape.rank() - 1]);
}

// The work of updating a part of a parameter: the same share of the bytes that the whole would read and write.
double work_of_part(const Graph& graph, const Node& node, const AdamWAttributes& attributes) {
  const UpdateForm form = update_form(graph, node);
  const double whole = elements(graph, node.inputs[0]), share = static_cast<double>(attributes.count) / whole;
  double sum = 2 * share * whole * static_cast<double>(form.parameter_parts);
  for (std::size_t i = form.states(); i < form.gradient(); ++i) sum += 2 * elements(graph, node.inputs[i]);
  for (std::size_t i = form.gradient(); i < form.scalars(); ++i) sum += share * elements(graph, node.inputs[i]);
  return sum;
}

}  // namespace

double work_of(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kLinear:
      return elements(graph, node.outputs[0]) * last_dimension(graph, node.inputs[0]);
    case Op::kLinearInputGrad:
      return elements(graph, node.inputs[0]) * last_dimension(graph, node.outputs[0]);
    case Op::kLinearWeightGrad:
      return elements(graph, node.inputs[0]) * last_dimension(graph, node.inputs[1]);
    case Op::kAttention:
    case Op::kAttentionGrad: {
      // Rows attend within their sample, to n/B keys each. inputs[0] is f[n, D] in both ops, sample offsets i32[B+1].
      const ValueId offsets = node.inputs[attention_form(node).sample_offsets()];
      const double samples = std::max(1.0, elements(graph, offsets) - 1);
      const double rows = static_cast<double>(graph.type(node.inputs[0]).shape[0]);
      return elements(graph, node.inputs[0]) * rows / samples;
    }
    case Op::kEmbedding:
    case Op::kSpatialEmbedding:  // reads the table's rows at the ids, not the whole table
      return 2 * elements(graph, node.outputs[0]);
    case Op::kFetchBegin:  // takes the disk's time
    case Op::kFetchEnd:
    case Op::kStoreBegin:
    case Op::kStoreEnd:
      return 0;
    default: {
      const auto* const adamw = std::get_if<AdamWAttributes>(&node.attributes);
      if (adamw != nullptr && adamw->count > 0) return work_of_part(graph, node, *adamw);
      double sum = 0;
      for (const ValueId value : node.inputs) sum += elements(graph, value);
      for (const ValueId value : node.outputs) sum += elements(graph, value);
      return sum;
    }
  }
}

std::size_t speed_index(const Graph& graph, const Node& node) {
  const std::size_t half = any_tensor(graph, node, is_half) ? kSpeedForms : 0;
  const bool coded = (node.op == Op::kAdamW || node.op == Op::kAdamWRows) && update_form(graph, node).coded;
  if (!coded) return half + static_cast<std::size_t>(node.op);
  return half + (node.op == Op::kAdamW ? kOpCount : kOpCount + 1);
}

std::string speed_name(std::size_t index) {
  const std::size_t form = index % kSpeedForms;
  const std::string_view name = form < kOpCount    ? op_name(static_cast<Op>(form))
                                : form == kOpCount ? "adamw_codes"
                                                   : "adamw_rows_codes";
  return std::string(name) + (index < kSpeedForms ? "" : "_half");
}

double transfer_seconds(const TransferAttributes& transfer, bool writes, const OpSpeeds& speeds) {
  double bytes = 0;
  for (const auto& part : transfer.parts) bytes += static_cast<double>(part.type.bytes());
  return bytes * (writes ? speeds.offload_write_seconds_per_byte : speeds.offload_read_seconds_per_byte);
}

double estimate_seconds(const Graph& graph, const OpSpeeds& speeds, double row_share) {
  double now = 0, disk_free = 0;        // seconds since the start
  std::map<std::int64_t, double> done;  // by ticket
  for (const Node& node : graph.nodes()) {
    if (is_transfer(node.op)) {
      const auto& transfer = std::get<TransferAttributes>(node.attributes);
      if (node.op == Op::kFetchBegin || node.op == Op::kStoreBegin) {
        disk_free = std::max(disk_free, now) + transfer_seconds(transfer, node.op == Op::kStoreBegin, speeds);
        done[transfer.ticket] = disk_free;
      } else {
        now = std::max(now, done[transfer.ticket]);
      }
      continue;
    }
    now += speeds.seconds(graph, node) * (node.row_count == kNoValue ? 1 : row_share);
  }
  return now;
}

}  // namespace plimsoll
