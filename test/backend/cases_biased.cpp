#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kCapacity = 7, kWidth = 8;
constexpr std::int32_t kReal = 5;

ValueId map(CaseBuilder& b, const std::string& name) {
  return linear(b.graph, name, b.tensor(name + ".x", {kCapacity, 3}, kReal), b.tensor(name + ".weight", {kWidth, 3}),
                b.wide_tensor(name + ".bias", {kWidth}), b.rows(kReal));
}

OpCase gelu_case() {
  return {"biased/gelu", [](CaseBuilder& b) {
            b.objective(add_single(
                b.graph, {.op = Op::kGelu, .name = "y", .inputs = {map(b, "map")}, .row_count = b.rows(kReal)}));
          }};
}

OpCase norm_case(double p) {
  return {p > 0 ? "biased/layer_norm_dropout" : "biased/layer_norm", [p](CaseBuilder& b) {
            std::vector<ValueId> inputs = {map(b, "map"), b.wide_tensor("gamma", {kWidth}, {0.5, 1.5}),
                                           b.wide_tensor("beta", {kWidth}),
                                           b.tensor("residual", {kCapacity, kWidth}, kReal)};
            if (p > 0) inputs.insert(inputs.end(), {b.row_keys(kCapacity, kReal), b.dropout_key()});
            b.objective(b.graph.add_node({.op = Op::kLayerNorm,
                                          .name = "y",
                                          .attributes = LayerNormAttributes{.dropout_p = p, .site = 1},
                                          .inputs = inputs,
                                          .row_count = b.rows(kReal)})[0]);
          }};
}

// `shares`: k and v are one value, whose bias then has its gradient from its map, and so have the others.
OpCase attention_case(bool shares) {
  return {shares ? "biased/attention_shared" : "biased/attention", [shares](CaseBuilder& b) {
            const ValueId q = map(b, "q"), k = map(b, "k"), v = shares ? k : map(b, "v");
            const AttentionContext context{.sample_offsets = b.integers("sample_offsets", {3}, {0, 3, kReal}),
                                           .key_mask = b.integers("key_mask", {kCapacity}, {1, 1, 1, 1, 1}),
                                           .row_keys = b.row_keys(kCapacity, kReal),
                                           .dropout_key = b.dropout_key()};
            b.objective(attention(b.graph, "attention", q, k, v, context, {.heads = 2, .dropout_p = 0.1, .site = 2},
                                  b.rows(kReal)));
          }};
}

}  // namespace

std::vector<OpCase> biased_cases() {
  return {gelu_case(), norm_case(0), norm_case(0.1), attention_case(false), attention_case(true)};
}

}  // namespace plimsoll::test
