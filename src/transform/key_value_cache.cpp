#include "transform/key_value_cache.h"

#include <string>
#include <vector>

#include "graph/attention_form.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

// Returns, by value, whether anything reads it once attention reads only its q, k and v.
std::vector<bool> read_values(const Graph& graph) {
  std::vector<bool> read(graph.values().size(), false);
  const auto mark = [&](ValueId value) { read[static_cast<std::size_t>(value)] = true; };
  for (const Node& node : graph.nodes()) {
    const std::size_t count = node.op == Op::kAttention ? attention_form(node).sample_offsets() : node.inputs.size();
    for (std::size_t i = 0; i < count; ++i) mark(node.inputs[i]);
    if (node.row_count != kNoValue) mark(node.row_count);
  }
  for (const ValueId output : graph.outputs()) mark(output);
  return read;
}

}  // namespace

Graph cache_keys_and_values(const Graph& graph, std::int64_t rows) {
  const std::vector<bool> read = read_values(graph);
  Rewriter rewriter(graph);
  rewriter.copy_sources([&](ValueId source) { return !read[static_cast<std::size_t>(source)]; });
  Graph& to = rewriter.graph();
  ValueId places = kNoValue, seen = kNoValue;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kAttention) {
      rewriter.copy_node(node);
      continue;
    }
    const AttentionAttributes& attributes = attention_attributes(node);
    check(attributes.causal && attributes.dropout_p == 0, "a cache serves causal attention without dropout");
    const ValueId q = rewriter.mapped(node.inputs[0]), row_count = rewriter.mapped(node.row_count);
    const std::int64_t n = to.type(q).shape[0];
    if (places == kNoValue) {
      places = to.add_input(std::string(kCacheRowsInput), {DType::kI32, {n}});
      seen = to.add_input(std::string(kSeenRowsInput), {DType::kI32, {n, 2}});
    }
    const auto cached = [&](ValueId of, std::string_view suffix) {
      const ValueId from = rewriter.mapped(of);
      const TensorType& type = to.type(from);
      const std::string name = node.name + std::string(suffix);
      const ValueId cache = to.add_state(name, {type.dtype, {rows, type.shape[1]}});
      return to.add_node(
          {.op = Op::kPutRows, .name = name + ".put", .inputs = {cache, from, places}, .row_count = row_count})[0];
    };
    const ValueId keys = cached(node.inputs[1], kKeyCacheSuffix), values = cached(node.inputs[2], kValueCacheSuffix);
    const std::vector<ValueId> outputs = to.add_node({.op = Op::kCachedAttention,
                                                      .name = node.name,
                                                      .attributes = attributes,
                                                      .inputs = {q, keys, values, seen},
                                                      .row_count = row_count});
    rewriter.map(node.outputs[0], outputs[0]);
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
