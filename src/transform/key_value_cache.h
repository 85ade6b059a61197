// Attention that remembers: keys and values stay in states, so that a program that goes on with a text computes its new
// rows alone. `transformers` calls that a key-value cache.
//
//   step.graph = cache_keys_and_values(model.graph, samples * tokens);
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace plimsoll {

// Inputs of such a graph: where each row's keys and values go, i32[n], and the rows of the caches [begin, end) that it
// sees, its own among them, i32[n,2].
inline constexpr std::string_view kCacheRowsInput = "cache_rows", kSeenRowsInput = "seen_rows";
// States: the name of the attention's node and one of these.
inline constexpr std::string_view kKeyCacheSuffix = ".key_cache", kValueCacheSuffix = ".value_cache";

// Puts the keys and values of each kAttention, which must be causal, into caches of that many rows, and lets its rows
// see what the caches hold. Sources that nobody reads any more are left out. For a graph without backward.
Graph cache_keys_and_values(const Graph& graph, std::int64_t rows);

}  // namespace plimsoll
