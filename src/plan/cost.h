// Cost: estimates how long a graph takes, from the work of its nodes and this machine's speed for each op.
//
// An op's row says how its work is counted, in the unit that its kernel's time grows with (graph/op_work.h). Speeds are
// seconds per unit, measured (fit/calibration.h), never guessed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace plimsoll {

// Speeds are kept by op, and by form if the forms of an op differ: AdamW with 8-bit moments has its own speeds, and so
// has every op on halves.
inline constexpr std::size_t kSpeedForms = kOpCount + 2, kSpeedCount = 2 * kSpeedForms;
std::size_t speed_index(const Graph& graph, const Node& node);
// Returns "linear", "linear_half", "adamw", "adamw_codes", …
std::string speed_name(std::size_t index);

struct OpSpeeds {
  std::array<double, kSpeedCount> seconds_per_unit{};
  // A node's call takes this long, whatever its work: on a GPU, a kernel takes little longer for a few pages than for
  // one. Updates are launched many at a time, and their calls count as 0.
  double seconds_per_start = 0;
  // The speeds of the offload directory, measured there (base/offload_file.h) and not stored.
  double offload_read_seconds_per_byte = 0, offload_write_seconds_per_byte = 0;
  bool offload_both_ways = false;  // TransferSpeed
  // The network between ranks, by the alpha-beta model: a message of n bytes takes network_seconds_per_message + n *
  // network_seconds_per_byte of its sender's time (Hockney 1994). Measured when the ranks connect
  // (ranks/network_speed.h), or given, to estimate for another network.
  double network_seconds_per_message = 20e-6, network_seconds_per_byte = 1 / 4e9;

  // `row_share` is as in estimate_seconds.
  double seconds(const Graph& graph, const Node& node, double row_share = 1) const;
};

// The bytes that fetch and store nodes move.
struct TransferSize {
  double read_bytes = 0, written_bytes = 0;
};
// Returns the bytes that one run of all nodes moves.
TransferSize transfer_size(const Graph& graph);
// Returns the time of the transfer that a fetch_begin or store_begin starts, if nothing else runs.
double transfer_seconds(const TransferAttributes& transfer, bool writes, const OpSpeeds& speeds);
// Returns the time of moving this many bytes if nothing else runs.
double transfer_seconds(const TransferSize& size, const OpSpeeds& speeds);

// The times of transfers that overlap the computation: one at a time, or one each way.
class TransferTimes {
 public:
  explicit TransferTimes(const OpSpeeds& speeds) : speeds_(speeds) {}
  // Returns the seconds that a node which begins or ends transfers waits, `now` seconds after the first node.
  double waited(const Node& node, double now);

 private:
  const OpSpeeds& speeds_;
  double free_[2] = {0, 0};              // when the next read, or write, can begin
  std::map<std::int64_t, double> done_;  // by ticket
};

// What one rank sends and receives in the exchange that a collective begins.
struct ExchangeSize {
  std::int64_t messages = 0;  // sent
  double sent_bytes = 0, received_bytes = 0;
  // The same for rows of tokens, whose number depends on the data: with every row of the capacity real, and with the
  // average number of rows that other ranks own.
  std::int64_t row_messages = 0;
  double row_bytes = 0;
};
ExchangeSize exchange_size(const Graph& graph, const Node& begin);
// Returns what one run of all nodes exchanges.
ExchangeSize exchange_size(const Graph& graph);
double exchange_seconds(const ExchangeSize& size, const OpSpeeds& speeds);

// Estimates one run of all nodes; transfers and exchanges overlap them, one of a kind at a time, and the nodes that
// the graph names wait for them. `row_share` is the fraction of the capacity that is real, for nodes that work by rows.
double estimate_seconds(const Graph& graph, const OpSpeeds& speeds, double row_share = 1);

}  // namespace plimsoll
