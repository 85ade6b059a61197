// Cost: how long a graph will take, from how much work its nodes hold and how fast this machine does each op's work.
//
// An op's work is counted in the unit that its kernel's time grows with: multiply-adds of matrix products and
// attention, elements read and written by everything else. Speeds are seconds a unit, measured (fit/calibration.h),
// never guessed.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace plimsoll {

// Work of a node whose rows are all real. Of attention: with the rows spread evenly over the samples.
double work_of(const Graph& graph, const Node& node);

// Speeds are kept by op, and by form where the forms of an op differ: AdamW with 8-bit moments has speeds of its own,
// and so has every op on halves.
inline constexpr std::size_t kSpeedForms = kOpCount + 2, kSpeedCount = 2 * kSpeedForms;
std::size_t speed_index(const Graph& graph, const Node& node);
// "linear", "linear_half", "adamw", "adamw_codes", …
std::string speed_name(std::size_t index);

struct OpSpeeds {
  std::array<double, kSpeedCount> seconds_per_unit{};
  // Of the directory that tensors are offloaded to, measured there (base/offload_file.h) and not kept.
  double offload_read_seconds_per_byte = 0, offload_write_seconds_per_byte = 0;

  double seconds(const Graph& graph, const Node& node) const {
    return seconds_per_unit[speed_index(graph, node)] * work_of(graph, node);
  }
};

// What the transfer that a fetch_begin or store_begin starts takes by itself.
double transfer_seconds(const TransferAttributes& transfer, bool writes, const OpSpeeds& speeds);

// Of one run of all nodes; transfers run beside them, one after the other, and are waited for where the graph says so.
// `row_share`: the part of the capacity that is real in nodes that work by rows.
double estimate_seconds(const Graph& graph, const OpSpeeds& speeds, double row_share = 1);

}  // namespace plimsoll
