// The key-value cache: attention keeps keys and values in states, so that a program that continues a text computes only
// its new rows.
//
//   step.graph = cache_keys_and_values(model.graph, samples * tokens);
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace plimsoll {

// Inputs of such a graph: where each row's keys and values go, i32[n], and the rows [begin, end) of the caches that it
// attends to, its own included, i32[n,2].
inline constexpr std::string_view kCacheRowsInput = "cache_rows", kSeenRowsInput = "seen_rows";
// States are named after the attention's node, with one of these suffixes.
inline constexpr std::string_view kKeyCacheSuffix = ".key_cache", kValueCacheSuffix = ".value_cache";

// Puts the keys and values of each kAttention, which must be causal, into caches of that many rows, and lets its rows
// attend to the caches. Sources that are no longer read are left out. For a graph without backward.
Graph cache_keys_and_values(const Graph& graph, std::int64_t rows);

}  // namespace plimsoll
