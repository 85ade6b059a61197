#include "plan/cost.h"

#include <algorithm>
#include <map>
#include <variant>

#include "graph/op_facts.h"
#include "graph/update_form.h"

namespace plimsoll {

std::size_t speed_index(const Graph& graph, const Node& node) {
  const std::size_t half = any_tensor(graph, node, is_half) ? kSpeedForms : 0;
  const bool coded = (node.op == Op::kAdamW || node.op == Op::kAdamWRows) && update_form(graph, node).coded;
  if (!coded) return half + static_cast<std::size_t>(node.op);
  return half + (node.op == Op::kAdamW ? kOpCount : kOpCount + 1);
}

double OpSpeeds::seconds(const Graph& graph, const Node& node) const {
  return seconds_per_unit[speed_index(graph, node)] * op_facts(node.op).work(graph, node);
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
