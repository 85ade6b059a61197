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

double OpSpeeds::seconds(const Graph& graph, const Node& node, double row_share) const {
  const double units = op_facts(node.op).work(graph, node) * (node.row_count == kNoValue ? 1 : row_share);
  return seconds_per_unit[speed_index(graph, node)] * units + (is_parameter_update(node.op) ? 0 : seconds_per_start);
}

std::string speed_name(std::size_t index) {
  const std::size_t form = index % kSpeedForms;
  const std::string_view name = form < kOpCount    ? op_name(static_cast<Op>(form))
                                : form == kOpCount ? "adamw_codes"
                                                   : "adamw_rows_codes";
  return std::string(name) + (index < kSpeedForms ? "" : "_half");
}

namespace {

double bytes_of(const TransferAttributes& transfer) {
  double bytes = 0;
  for (const auto& part : transfer.parts) bytes += static_cast<double>(part.moved_bytes());
  return bytes;
}

}  // namespace

TransferSize transfer_size(const Graph& graph) {
  TransferSize size;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kFetchBegin) size.read_bytes += bytes_of(std::get<TransferAttributes>(node.attributes));
    if (node.op == Op::kStoreBegin) size.written_bytes += bytes_of(std::get<TransferAttributes>(node.attributes));
  }
  return size;
}

double transfer_seconds(const TransferAttributes& transfer, bool writes, const OpSpeeds& speeds) {
  return bytes_of(transfer) * (writes ? speeds.offload_write_seconds_per_byte : speeds.offload_read_seconds_per_byte);
}

double transfer_seconds(const TransferSize& size, const OpSpeeds& speeds) {
  const double reads = size.read_bytes * speeds.offload_read_seconds_per_byte;
  const double writes = size.written_bytes * speeds.offload_write_seconds_per_byte;
  return speeds.offload_both_ways ? std::max(reads, writes) : reads + writes;
}

double TransferTimes::waited(const Node& node, double now) {
  const auto& transfer = std::get<TransferAttributes>(node.attributes);
  const bool writes = node.op == Op::kStoreBegin;
  if (!writes && node.op != Op::kFetchBegin) return std::max(0.0, done_[transfer.ticket] - now);
  double& free = free_[writes && speeds_.offload_both_ways ? 1 : 0];
  free = std::max(free, now) + transfer_seconds(transfer, writes, speeds_);
  done_[transfer.ticket] = free;
  return 0;
}

ExchangeSize exchange_size(const Graph& graph, const Node& begin) {
  const auto& attributes = std::get<CollectiveAttributes>(begin.attributes);
  const std::int64_t others = attributes.ranks - 1;
  ExchangeSize size;
  const auto rank = static_cast<std::size_t>(attributes.rank);
  if (begin.op == Op::kGatherRowsBegin) {
    const double counts = static_cast<double>(graph.type(begin.inputs[1]).bytes());
    const double rows = static_cast<double>(graph.type(begin.inputs[0]).bytes() + graph.type(begin.inputs[2]).bytes());
    size.messages = others;
    size.sent_bytes = size.received_bytes = static_cast<double>(others) * counts;
    size.row_messages = 2 * others;
    size.row_bytes = static_cast<double>(others) * rows;
    return size;
  }
  if (begin.op == Op::kAllToAllRowsBegin) {
    // Every rank wants equally many rows, from whichever ranks own them; it need not send itself its own.
    const TensorType& rows = graph.type(begin.outputs[0]);
    size.row_messages = others;
    size.row_bytes =
        static_cast<double>(rows.bytes()) * static_cast<double>(others) / static_cast<double>(attributes.ranks);
    return size;
  }
  for (const auto& part : attributes.parts) {
    const auto elements = static_cast<double>(part.type.shape.elements());
    const double each = elements > 0 ? static_cast<double>(part.type.bytes()) / elements : 0;
    const double own = static_cast<double>(part.bounds[rank + 1] - part.bounds[rank]) * each;
    const double rest = elements * each - own, all = static_cast<double>(others);
    std::int64_t others_that_own = 0;
    for (std::size_t r = 0; r + 1 < part.bounds.size(); ++r) {
      if (r != rank && part.bounds[r + 1] > part.bounds[r]) ++others_that_own;
    }
    switch (begin.op) {
      case Op::kReduceScatterBegin:
        size.messages += others_that_own;
        size.sent_bytes += rest;
        size.received_bytes += all * own;
        break;
      case Op::kAllReduceBegin:
        size.messages += others;
        size.sent_bytes += all * elements * each;
        size.received_bytes += all * elements * each;
        break;
      default:  // gathers
        size.messages += own > 0 ? others : 0;
        size.sent_bytes += all * own;
        size.received_bytes += rest;
    }
  }
  return size;
}

namespace {

bool begins_exchange(Op op) {
  return op == Op::kReduceScatterBegin || op == Op::kAllGatherBegin || op == Op::kGatherShardsBegin ||
         op == Op::kAllReduceBegin || op == Op::kGatherRowsBegin || op == Op::kAllToAllRowsBegin;
}

}  // namespace

ExchangeSize exchange_size(const Graph& graph) {
  ExchangeSize all;
  for (const Node& node : graph.nodes()) {
    if (!begins_exchange(node.op)) continue;
    const ExchangeSize size = exchange_size(graph, node);
    all.messages += size.messages;
    all.sent_bytes += size.sent_bytes;
    all.received_bytes += size.received_bytes;
    all.row_messages += size.row_messages;
    all.row_bytes += size.row_bytes;
  }
  return all;
}

double exchange_seconds(const ExchangeSize& size, const OpSpeeds& speeds) {
  return static_cast<double>(size.messages + size.row_messages) * speeds.network_seconds_per_message +
         (std::max(size.sent_bytes, size.received_bytes) + size.row_bytes) * speeds.network_seconds_per_byte;
}

double estimate_seconds(const Graph& graph, const OpSpeeds& speeds, double row_share) {
  double now = 0, network_free = 0;          // seconds since the start
  std::map<std::int64_t, double> exchanged;  // by ticket
  TransferTimes transfers(speeds);
  for (const Node& node : graph.nodes()) {
    if (is_transfer(node.op)) {
      now += transfers.waited(node, now);
      continue;
    }
    if (is_collective(node.op)) {
      const std::int64_t ticket = std::get<CollectiveAttributes>(node.attributes).ticket;
      if (begins_exchange(node.op)) {
        network_free = std::max(network_free, now) + exchange_seconds(exchange_size(graph, node), speeds);
        exchanged[ticket] = network_free;
      } else {
        now = std::max(now, exchanged[ticket]);
      }
      continue;
    }
    now += speeds.seconds(graph, node, row_share);
  }
  return now;
}

}  // namespace plimsoll
