#include <fmt/format.h>

#include <numeric>

#include "backend/op_case.h"
#include "base/dropout.h"

namespace plimsoll::test {
namespace {

struct AttentionShape {
  std::string name;
  std::vector<std::int32_t> lengths;  // rows of each sample
  std::int64_t heads, head_size;
  std::int64_t spare = 3;  // rows of the capacity that are not real
  double dropout_p = 0;
  bool position_bias = true, spatial_bias = true;
  bool table_gradients = true;
  std::int32_t masked_every = 0;  // one in so many keys is masked; 1: all
  std::int64_t bins = 8, spatial_bins = 12;
  double score_range = 1;    // range of q and k
  bool column_sums = false;  // of the gradients, which a node of the case's own makes
  bool in_parts = false;     // these
  bool made_biases = false;
  std::int64_t longest_sample = 0;
  bool causal = false;
  std::int64_t key_value_heads = 0;
};

OpCase attention_case(AttentionShape s) {
  return {"attention/" + s.name, [s](CaseBuilder& b) {
            std::vector<std::int32_t> offsets = {0}, coordinates, mask, row_keys;
            for (std::size_t sample = 0; sample < s.lengths.size(); ++sample) {
              const std::int32_t length = s.lengths[sample], text = (2 * length + 2) / 3;
              offsets.push_back(offsets.back() + length);
              for (std::int32_t token = 0; token < length; ++token) {
                const bool visual = token >= text;
                // Positions start again at 0 for visual tokens.
                coordinates.push_back(visual ? token - text : token);
                coordinates.push_back(b.random_integer(0, 1000));
                coordinates.push_back(b.random_integer(0, 1000));
                mask.push_back(s.masked_every > 0 && token % s.masked_every == s.masked_every - 1 ? 0 : 1);
                row_keys.push_back(static_cast<std::int32_t>(sample) + 2);
                row_keys.push_back(visual ? kVisualCoordinate + token - text : token);
              }
            }
            const std::int32_t rows = offsets.back();
            const std::int64_t n = rows + s.spare, width = s.heads * s.head_size;
            const Range scores{-s.score_range, s.score_range};
            const ValueId q = b.tensor("q", {n, width}, rows, scores);
            const std::int64_t shared = (s.key_value_heads > 0 ? s.key_value_heads : s.heads) * s.head_size;
            const ValueId k = b.tensor("k", {n, shared}, rows, scores);
            const ValueId v = b.tensor("v", {n, shared}, rows);
            const auto table = [&](std::string name, std::int64_t bins) {
              const Shape shape{s.heads, bins};
              return s.table_gradients ? b.wide_tensor(std::move(name), shape)
                                       : b.wide_constant(std::move(name), shape);
            };
            AttentionContext context{
                .sample_offsets = b.integers("sample_offsets", {static_cast<std::int64_t>(offsets.size())}, offsets),
                .key_mask = b.integers("key_mask", {n}, mask),
                .row_keys = b.integers("row_keys", {n, 2}, row_keys),
                .dropout_key = b.integers("dropout_key", {2}, {20250101, -77})};
            if (s.position_bias || s.spatial_bias) {
              context.relative_coordinates = b.integers("relative_coordinates", {n, 3}, coordinates);
            }
            if (s.position_bias) context.position_table = table("position_table", s.bins);
            if (s.spatial_bias) {
              context.x_table = table("x_table", s.spatial_bins);
              context.y_table = table("y_table", s.spatial_bins);
            }
            const AttentionAttributes attributes{.heads = s.heads,
                                                 .dropout_p = s.dropout_p,
                                                 .site = 5,
                                                 .max_position_distance = 16,
                                                 .max_spatial_distance = 256,
                                                 .longest_sample = s.longest_sample,
                                                 .causal = s.causal,
                                                 .key_value_heads = s.key_value_heads};
            if (s.made_biases)
              context.biases = attention_bias(b.graph, "biases", context, attributes, b.dtype(), b.rows(rows));
            const ValueId output = attention(b.graph, "attention", q, k, v, context, attributes, b.rows(rows));
            if (!s.column_sums) return b.objective(output);
            const Node node = b.graph.node(b.graph.value(output).producer);
            std::vector<ValueId> inputs = {b.constant("doutput", {n, width}, rows), q, k, v};
            inputs.insert(inputs.end(), node.outputs.begin(), node.outputs.end());
            inputs.insert(inputs.end(), node.inputs.begin() + 3, node.inputs.end());
            auto of_gradient = std::get<AttentionAttributes>(node.attributes);
            of_gradient.table_gradients = s.table_gradients && (s.position_bias || s.spatial_bias);
            of_gradient.column_sums = true;
            b.add_sums({.op = Op::kAttentionGrad,
                        .name = "gradient",
                        .attributes = of_gradient,
                        .inputs = inputs,
                        .row_count = b.rows(rows),
                        .phase = Phase::kBackward},
                       s.in_parts);
          }};
}

// Every other row of the table, from the last on.
OpCase put_rows_by_index_case(std::int64_t capacity, std::int32_t rows, std::int64_t width) {
  return {fmt::format("put_rows/r{}_of_{}_d{}_by_index", rows, capacity, width), [=](CaseBuilder& b) {
            std::vector<std::int32_t> index;
            for (std::int32_t row = 0; row < rows; ++row) index.push_back(2 * (rows - row) - 1);
            const ValueId table = b.state("table", {2 * rows + 1, width});
            b.graph.add_node(
                {.op = Op::kPutRows,
                 .name = "put",
                 .inputs = {table, b.constant("rows", {capacity, width}, rows), b.integers("index", {capacity}, index)},
                 .row_count = b.rows(rows)});
          }};
}

struct CachedShape {
  std::string name;
  std::vector<std::int32_t> lengths;  // rows of the tables that each row sees, one run behind the other
  std::int64_t heads, key_value_heads, head_size;
  double score_range = 1;
};

// Rows see runs of the tables of different lengths; the last two see the same one.
OpCase cached_attention_case(const CachedShape& s) {
  return {"cached_attention/" + s.name, [s](CaseBuilder& b) {
            std::vector<std::int32_t> seen;
            std::int32_t next = 2;
            for (const std::int32_t length : s.lengths) {
              seen.insert(seen.end(), {next, next + length});
              next += length;
            }
            seen.insert(seen.end(), {seen[seen.size() - 2], seen.back()});
            const auto rows = static_cast<std::int32_t>(seen.size() / 2);
            const std::int64_t n = rows + 2, width = s.heads * s.head_size, shared = s.key_value_heads * s.head_size;
            const Range scores{-s.score_range, s.score_range};
            const ValueId q = b.constant("q", {n, width}, rows, scores);
            const ValueId keys = b.constant("keys", {next + 3, shared}, next, scores);
            const ValueId values = b.constant("values", {next + 3, shared}, next);
            b.graph.add_node({.op = Op::kCachedAttention,
                              .name = "attention",
                              .attributes = AttentionAttributes{.heads = s.heads,
                                                                .position_bias = false,
                                                                .spatial_bias = false,
                                                                .key_value_heads = s.key_value_heads},
                              .inputs = {q, keys, values, b.integers("seen", {n, 2}, seen)},
                              .row_count = b.rows(rows)});
          }};
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  for (const AttentionShape& shape : std::vector<AttentionShape>{
           {.name = "one_sample", .lengths = {7}, .heads = 3, .head_size = 4},
           {.name = "one_token", .lengths = {1}, .heads = 1, .head_size = 5},
           {.name = "no_samples", .lengths = {}, .heads = 2, .head_size = 6},
           {.name = "no_rows", .lengths = {0, 0}, .heads = 2, .head_size = 8, .spare = 5},
           {.name = "three_samples_one_empty", .lengths = {5, 0, 9}, .heads = 2, .head_size = 12},
           {.name = "masked_keys", .lengths = {10, 6}, .heads = 2, .head_size = 8, .masked_every = 3},
           {.name = "all_keys_masked", .lengths = {4}, .heads = 2, .head_size = 4, .masked_every = 1},
           {.name = "dropout", .lengths = {9, 4}, .heads = 3, .head_size = 4, .dropout_p = 0.1},
           {.name = "much_dropout_and_masks",
           .lengths = {13, 1},
           .heads = 2,
           .head_size = 5,
           .dropout_p = 0.5,
           .masked_every = 4},
           {.name = "no_biases",
           .lengths = {6, 3},
           .heads = 2,
           .head_size = 4,
           .position_bias = false,
           .spatial_bias = false},
           {.name = "position_bias_only", .lengths = {8}, .heads = 1, .head_size = 16, .spatial_bias = false},
           {.name = "spatial_bias_only", .lengths = {8}, .heads = 4, .head_size = 4, .position_bias = false},
           {.name = "frozen_tables", .lengths = {11, 5}, .heads = 2, .head_size = 8, .table_gradients = false},
           {.name = "head_32", .lengths = {17, 2}, .heads = 2, .head_size = 32, .bins = 32, .spatial_bins = 64},
           {.name = "head_64_dropout",
           .lengths = {33},
           .heads = 1,
           .head_size = 64,
           .dropout_p = 0.1,
           .table_gradients = false,
           .bins = 32,
           .spatial_bins = 64},
           {.name = "head_20_no_biases",
           .lengths = {19, 5},
           .heads = 3,
           .head_size = 20,
           .position_bias = false,
           .spatial_bias = false},
           {.name = "head_80_no_biases",
           .lengths = {37, 20},
           .heads = 2,
           .head_size = 80,
           .dropout_p = 0.1,
           .position_bias = false,
           .spatial_bias = false,
           .masked_every = 6},
           {.name = "head_96", .lengths = {21, 3}, .heads = 2, .head_size = 96, .dropout_p = 0.1},
           {.name = "head_128", .lengths = {40}, .heads = 1, .head_size = 128, .table_gradients = false},
           {.name = "sharp_scores", .lengths = {12}, .heads = 2, .head_size = 8, .score_range = 6},
           {.name = "sums", .lengths = {9, 1, 4}, .heads = 2, .head_size = 8, .dropout_p = 0.1, .column_sums = true},
           {.name = "sums_no_biases",
           .lengths = {19, 66},
           .heads = 2,
           .head_size = 64,
           .position_bias = false,
           .spatial_bias = false,
           .column_sums = true},
           {.name = "sums_head_96", .lengths = {7}, .heads = 1, .head_size = 96, .column_sums = true},
           {.name = "sums_in_parts",
           .lengths = {9, 0, 16, 4},
           .heads = 2,
           .head_size = 8,
           .spare = 50,
           .dropout_p = 0.1,
           .column_sums = true,
           .in_parts = true},
           {.name = "sums_in_parts_head_96",
           .lengths = {33},
           .heads = 1,
           .head_size = 96,
           .position_bias = false,
           .spatial_bias = false,
           .column_sums = true,
           .in_parts = true},
           {.name = "sums_in_parts_longer_than_tiles",
           .lengths = {70, 67, 131},
           .heads = 2,
           .head_size = 64,
           .spare = 20,
           .table_gradients = false,
           .column_sums = true,
           .in_parts = true},
           {.name = "shared_keys",
           .lengths = {9, 5},
           .heads = 6,
           .head_size = 8,
           .dropout_p = 0.1,
           .position_bias = false,
           .spatial_bias = false,
           .masked_every = 4,
           .key_value_heads = 2},
           {.name = "shared_keys_no_biases",
           .lengths = {70, 3},
           .heads = 4,
           .head_size = 64,
           .position_bias = false,
           .spatial_bias = false,
           .key_value_heads = 1},
           {.name = "causal",
           .lengths = {11, 1, 6},
           .heads = 2,
           .head_size = 8,
           .position_bias = false,
           .spatial_bias = false,
           .causal = true},
           {.name = "causal_longer_than_tiles",
           .lengths = {70, 0, 131, 67},
           .heads = 2,
           .head_size = 32,
           .dropout_p = 0.1,
           .position_bias = false,
           .spatial_bias = false,
           .masked_every = 7,
           .column_sums = true,
           .causal = true},
           {.name = "causal_shared_keys",
           .lengths = {65, 129},
           .heads = 4,
           .head_size = 64,
           .position_bias = false,
           .spatial_bias = false,
           .score_range = 3,
           .causal = true,
           .key_value_heads = 2},
           {.name = "causal_long",
           .lengths = {260},
           .heads = 2,
           .head_size = 16,
           .position_bias = false,
           .spatial_bias = false,
           .causal = true,
           .key_value_heads = 1},
           {.name = "causal_head_128",
           .lengths = {40, 33},
           .heads = 2,
           .head_size = 128,
           .position_bias = false,
           .spatial_bias = false,
           .causal = true,
           .key_value_heads = 1},
           {.name = "made_biases",
           .lengths = {9, 0, 13, 1},
           .heads = 3,
           .head_size = 8,
           .dropout_p = 0.1,
           .masked_every = 4,
           .made_biases = true},
           {.name = "made_position_biases",
           .lengths = {17},
           .heads = 2,
           .head_size = 32,
           .spatial_bias = false,
           .table_gradients = false,
           .made_biases = true},
           {.name = "made_biases_longer_than_tiles",
           .lengths = {70, 67, 131},
           .heads = 2,
           .head_size = 64,
           .spatial_bias = true,
           .table_gradients = false,
           .masked_every = 7,
           .bins = 32,
           .spatial_bins = 64,
           .column_sums = true,
           .made_biases = true,
           .longest_sample = 133},
           {.name = "made_biases_of_many_tiles",
           .lengths = {197},
           .heads = 1,
           .head_size = 64,
           .dropout_p = 0.1,
           .spatial_bias = false,
           .table_gradients = false,
           .column_sums = true,
           .made_biases = true},
           {.name = "head_64_longer_than_tiles",
           .lengths = {70, 0, 64, 131},
           .heads = 2,
           .head_size = 64,
           .dropout_p = 0.2,
           .table_gradients = false,
           .masked_every = 7,
           .bins = 32,
           .spatial_bins = 64,
           .column_sums = true},
           {.name = "causal_head_64_dropout",
           .lengths = {1, 194},
           .heads = 2,
           .head_size = 64,
           .dropout_p = 0.1,
           .position_bias = false,
           .spatial_bias = false,
           .masked_every = 7,
           .column_sums = true,
           .causal = true},
           {.name = "longer_than_tiles",
           .lengths = {70, 67, 131},
           .heads = 2,
           .head_size = 8,
           .dropout_p = 0.1,
           .masked_every = 7,
           .bins = 32,
           .spatial_bins = 64},
           {.name = "longer_than_tiles_frozen",
           .lengths = {129, 3, 66},
           .heads = 1,
           .head_size = 24,
           .dropout_p = 0.1,
           .table_gradients = false,
           .masked_every = 5,
           .bins = 32,
           .spatial_bins = 64}}) {
    cases.push_back(attention_case(shape));
  }
  for (const CachedShape& shape : std::vector<CachedShape>{
           {.name = "one_row", .lengths = {1}, .heads = 1, .key_value_heads = 1, .head_size = 4},
           {.name = "shared_heads", .lengths = {5, 1, 17}, .heads = 6, .key_value_heads = 2, .head_size = 10},
           {.name = "longer_than_blocks", .lengths = {64, 65, 200}, .heads = 2, .key_value_heads = 2, .head_size = 32},
           {.name = "wide_heads", .lengths = {70, 3}, .heads = 2, .key_value_heads = 1, .head_size = 128},
           {.name = "far_from_zero",
           .lengths = {90},
           .heads = 2,
           .key_value_heads = 2,
           .head_size = 16,
           .score_range = 8}}) {
    cases.push_back(cached_attention_case(shape));
  }
  cases.push_back(put_rows_by_index_case(5, 3, 4));
  cases.push_back(put_rows_by_index_case(4, 0, 4));
  cases.push_back(put_rows_by_index_case(150, 140, 9));
  return cases;
}

std::vector<OpCase> long_attention_cases() {
  AttentionShape biased{.name = "long_made_biases",
                        .lengths = {709, 450, 200},
                        .heads = 3,
                        .head_size = 64,
                        .dropout_p = 0.1,
                        .table_gradients = false,
                        .masked_every = 7,
                        .column_sums = true,
                        .made_biases = true};
  AttentionShape causal{.name = "long_causal",
                        .lengths = {200, 709},
                        .heads = 4,
                        .head_size = 64,
                        .dropout_p = 0.1,
                        .position_bias = false,
                        .spatial_bias = false,
                        .causal = true,
                        .key_value_heads = 2};
  AttentionShape open = causal;
  open.name = "long_no_biases";
  open.causal = false;
  return {attention_case(biased), attention_case(causal), attention_case(open)};
}

}  // namespace plimsoll::test
