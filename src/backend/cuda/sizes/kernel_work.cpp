#include "backend/cuda/sizes/kernel_work.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cuda/sizes/attention.h"
#include "backend/cuda/sizes/products.h"
#include "backend/cuda/sizes/row_gradients.h"
#include "backend/cuda/sizes/sums.h"
#include "graph/layer_norm_form.h"
#include "graph/op_facts.h"
#include "graph/op_table.h"
#include "graph/op_work.h"
#include "graph/partial_sums.h"
#include "graph/update_form.h"

namespace plimsoll::cuda {
namespace {

// A node, as its kernels see it.
struct Counted {
  const Graph& graph;
  const Node& node;
  std::vector<KernelWork> kernels{};

  const TensorType& in(std::size_t i) const { return graph.type(node.inputs.at(i)); }
  const TensorType& out(std::size_t i) const { return graph.type(node.outputs.at(i)); }
  double read(std::size_t i) const { return static_cast<double>(in(i).bytes()); }
  double written(std::size_t i) const { return static_cast<double>(out(i).bytes()); }
  double all_read() const {
    double sum = 0;
    for (const ValueId value : node.inputs) sum += static_cast<double>(graph.type(value).bytes());
    return sum;
  }
  double all_written() const {
    double sum = 0;
    for (const ValueId value : node.outputs) sum += static_cast<double>(graph.type(value).bytes());
    return sum;
  }
  // True if the node leaves its sums over rows in parts.
  bool in_parts() const { return partial_sums(node) > 0; }
  KernelWork& add(std::string_view kernel, WorkKind kind, double bytes, int starts = 1) {
    kernels.push_back({.kernel = kernel, .kind = kind, .starts = starts, .bytes = bytes});
    return kernels.back();
  }
};

double elements(const TensorType& type) { return static_cast<double>(type.shape.elements()); }

void elementwise(Counted& c) {
  KernelWork& work = c.add("map", WorkKind::kElementwise, c.all_read() + c.all_written());
  if (c.node.op != Op::kGelu) return;
  work.counted = CountedWork::kGelu;
  work.count = elements(c.out(0));
}
void casts(Counted& c) {
  const auto starts = static_cast<int>((c.node.inputs.size() + kMostCasts - 1) / kMostCasts);
  c.add(c.node.inputs.size() == 1 ? "map" : "cast_tensors", WorkKind::kElementwise, c.all_read() + c.all_written(),
        starts);
}
void gelu_grad(Counted& c) {
  const bool sums = summed_outputs(c.node).has_value();
  const double partial = sums ? static_cast<double>(column_sums_scratch_bytes(c.in(0))) : 0;
  KernelWork& work =
      c.add(sums ? "gelu_backward" : "map", WorkKind::kElementwise, c.read(0) + c.read(1) + c.written(0) + partial);
  work.counted = CountedWork::kGeluGrad;
  work.count = elements(c.out(0));
  if (sums && !c.in_parts()) c.add("column_whole_sums", WorkKind::kReductions, partial + c.written(1));
}
void rows(Counted& c) { c.add("rows", WorkKind::kElementwise, c.all_read() + c.all_written()); }
void take_rows(Counted& c) { c.add("take_rows", WorkKind::kElementwise, 2 * c.written(0)); }
void join_rows(Counted& c) {
  for (std::size_t i = 0; i < c.node.inputs.size(); ++i) c.add("join_rows", WorkKind::kElementwise, 2 * c.read(i));
}
// Rows of a table, which is not read whole.
void lookup(Counted& c) {
  c.add("rows", WorkKind::kEmbeddings,
        2 * c.written(0) + static_cast<double>(c.in(c.node.op == Op::kEmbedding ? 1 : 4).bytes()));
}

// Our own kernel multiplies floats, whatever its operands are.
void product(Counted& c, bool own, const MatmulShape& shape, double bytes) {
  KernelWork& work = c.add(own ? "own_product" : kLibraryProduct, WorkKind::kProducts, bytes);
  work.flops =
      2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.columns) * static_cast<double>(shape.inner);
  work.of_halves = is_half(shape.operands) && !own;
}

// cuBLASLt has no products of halves whose rows have an odd number of elements; if rows are not padded, our own kernel
// computes these.
bool library_takes(const MatmulShape& shape) {
  const auto even = [](DType type, std::int64_t pitch) { return !is_half(type) || pitch % 2 == 0; };
  return even(shape.operands, shape.pitch_a()) &&
         even(shape.operands, shape.transposed_b ? shape.inner : shape.columns) && even(shape.result, shape.pitch_c());
}

void row_product(Counted& c) {
  const RowProductForm form(c.graph, c.node);
  if (form.shape.rows == 0) return;
  const double narrow = static_cast<double>(bytes_of(form.shape.operands, form.shape.inner * form.shape.columns));
  double weight = c.read(1);
  if (form.converts_weight) {
    c.add(is_coded(c.in(1).dtype) ? "decode" : "narrow", WorkKind::kProducts, weight + narrow);
    weight = narrow;
  }
  const bool own = !library_takes(form.shape);
  if (form.converts_bias && !own) {
    c.add("narrow", WorkKind::kProducts, c.read(2) + c.read(2) / 2);
  }
  if (form.shape.pads_a() && !own) c.add("pad_rows", WorkKind::kProducts, 2 * c.read(0));
  const double third = c.node.inputs.size() > 2 ? c.read(2) : 0;
  product(c, own, form.shape, c.read(0) + weight + third + c.written(0));
  if (form.shape.pads_c() && !own) c.add("unpad_rows", WorkKind::kProducts, 2 * c.written(0));
}

void weight_gradient(Counted& c) {
  const WeightGradientForm form(c.graph, c.node);
  // `forget` touches the sum only in the first micro-batch.
  if (c.node.inputs.size() > 3) c.add("forget", WorkKind::kProducts, 0);
  const bool own = !library_takes(form.shape);
  const bool pads = form.shape.pads_a();
  if (pads && !own) c.add("pad_rows", WorkKind::kProducts, 2 * c.read(0));
  if (form.fills && !own) {
    double copied = 0;
    for (std::size_t i = pads ? 1 : 0; i < form.copies.size(); ++i) copied += form.copies[i] ? 2 * c.read(i) : 0;
    c.add("fill_tails", WorkKind::kProducts, copied);
  }
  product(c, own, form.shape, c.read(0) + c.read(1) + (form.has_sum ? 2 : 1) * c.written(0));
}

// Returns the pairs of a row and a key of its sample, for all heads; rows are spread evenly over the samples.
double scores(const Counted& c, const AttentionShape& shape) {
  const double n = static_cast<double>(c.in(shape.form.key_mask()).shape[0]);
  return (shape.causal ? 0.5 : 1) * shape.heads * n * n / std::max(1, shape.samples);
}
bool table_gradients(const Node& node) { return std::get<AttentionAttributes>(node.attributes).table_gradients; }
void attention_kernel(Counted& c, std::string_view kernel, WorkKind kind, const AttentionShape& shape, int products,
                      double bytes, CountedWork counted) {
  KernelWork& work = c.add(kernel, kind, bytes);
  work.count = scores(c, shape);
  work.flops = 2.0 * products * shape.head_size * work.count;
  work.of_halves = is_half(c.in(shape.form.q()).dtype);
  work.counted = counted;
  if (!work.of_halves || shape.head_size != kWarpgroupHeadSize) return;
  if (counted == CountedWork::kScores) work.counted_by_groups = CountedWork::kGroupScores;
  if (counted == CountedWork::kScoresGrad && !table_gradients(c.node)) {
    work.counted_by_groups = CountedWork::kGroupScoresGrad;
  }
}

void make_biases(Counted& c, WorkKind kind, const AttentionShape& shape, double bytes) {
  KernelWork& work = c.add("attention_bias", kind, bytes);
  work.count = scores(c, shape);
  work.counted = CountedWork::kBiases;
}
void attention_bias(Counted& c) {
  make_biases(c, WorkKind::kAttention, attention_shape(c.graph, c.node), c.all_read() + c.written(0));
}
// Counts the making of the matrix of biases that attention reads, unless the node has one as an input; returns its
// bytes, or 0.
double own_biases(Counted& c, WorkKind kind, const AttentionShape& shape) {
  if (shape.bias_stride == 0) return 0;
  const double bytes = static_cast<double>(bytes_of(c.in(shape.form.q()).dtype, 1)) * scores(c, shape);
  if (!shape.form.made_biases) make_biases(c, kind, shape, bytes);
  return bytes;
}

void attention(Counted& c) {
  const AttentionShape shape = attention_shape(c.graph, c.node);
  const double biases = own_biases(c, WorkKind::kAttention, shape);
  const double made = shape.form.made_biases ? c.read(shape.form.biases()) : 0;  // those for scores are read
  attention_kernel(c, "attention", WorkKind::kAttention, shape, 2, c.all_read() - made + c.all_written() + biases,
                   CountedWork::kScores);
}

void cached_attention(Counted& c) {
  KernelWork& work = c.add("cached_attention", WorkKind::kAttention, c.all_read() + c.written(0));
  work.flops = 4.0 * cached_attention_work(c.graph, c.node);
}

void attention_grad(Counted& c) {
  const AttentionShape shape = attention_shape(c.graph, c.node);
  const AttentionGradScratch scratch(c.graph, c.node, shape);
  const bool of_tables = table_gradients(c.node);
  const double sums = (of_tables ? 5.0 : 3.0) * static_cast<double>(scratch.row_sums) * sizeof(float);
  const double partials = static_cast<double>(scratch.partials) * sizeof(float);
  const SummedOutputs of = summed_outputs(c.node).value_or(SummedOutputs{});
  const double tile_sums = c.in_parts() ? c.written(of.first) : static_cast<double>(scratch.tile_sums) * sizeof(float);
  // The heads of samples that run at the same time find their sums of dq in L2.
  const double dq_sums = 2.0 * static_cast<double>(scratch.dq_sums) * sizeof(float);
  const double tensor = c.read(0);
  // doutput, output, the sums; then doutput, q, k, v and what they give.
  c.add("attention_row_sums", WorkKind::kAttentionGrad, 2 * tensor + c.read(5) + sums + partials);
  const double biases = own_biases(c, WorkKind::kAttentionGrad, shape);
  const bool at_once = shape.head_size <= 64;
  attention_kernel(c, "attention_backward", WorkKind::kAttentionGrad, shape, at_once ? 5 : 4,
                   (at_once ? 7 : 6) * tensor + sums + biases + dq_sums + partials + tile_sums,
                   CountedWork::kScoresGrad);
  if (!at_once) {
    attention_kernel(c, "attention_backward", WorkKind::kAttentionGrad, shape, 2, 5 * tensor + sums + biases,
                     CountedWork::kScoresGrad);
  }
  if (shape.group > 1) {
    const double shared = static_cast<double>(scratch.shared_sums) * sizeof(float);
    c.add("attention_shared_sums", WorkKind::kAttentionGrad, shared + c.written(1) + c.written(2));
  }
  if (of_tables) c.add("attention_table_sums", WorkKind::kAttentionGrad, partials);
  if (of.count > 0 && !c.in_parts()) c.add("attention_column_sums", WorkKind::kReductions, tile_sums);
}

void layer_norm(Counted& c) { c.add("layer_norm", WorkKind::kNormalisation, c.all_read() + c.all_written()); }
void affine(Counted& c) { c.add("affine", WorkKind::kNormalisation, c.all_read() + c.all_written()); }
void layer_norm_grad(Counted& c) {
  const LayerNormForm form = layer_norm_form(c.node);
  const bool at_once = holds_rows(c.in(0).shape[1]);
  const auto partial = static_cast<double>(layer_norm_grad_scratch_bytes(c.in(0), form.column_sums && at_once));
  const double rows = c.read(0) + c.read(1) + c.read(2) + (form.drops ? 2 : 1) * c.written(0);
  if (at_once) {
    c.add("layer_norm_backward", WorkKind::kNormalisation, rows + partial);
  } else {
    c.add("layer_norm_partial_sums", WorkKind::kNormalisation, c.read(0) + c.read(1) + partial);
    c.add("layer_norm_input_grad", WorkKind::kNormalisation, rows);
  }
  if (c.in_parts()) return;
  c.add("layer_norm_whole_sums", WorkKind::kNormalisation, partial);
  if (!form.column_sums || at_once) return;
  c.add("column_partial_sums", WorkKind::kReductions, c.written(0) + partial / 2);
  c.add("column_whole_sums", WorkKind::kReductions, partial / 2);
}
void rms_norm(Counted& c) { c.add("rms_norm", WorkKind::kNormalisation, c.all_read() + c.all_written()); }
void rms_norm_grad(Counted& c) {
  const auto partial = static_cast<double>(column_sums_scratch_bytes(c.in(0)));
  c.add("rms_norm_partial_sums", WorkKind::kNormalisation, c.read(0) + c.read(1) + partial);
  c.add("rms_norm_input_grad", WorkKind::kNormalisation, c.read(0) + c.read(1) + c.read(2) + c.written(0));
  if (!c.in_parts()) c.add("rms_norm_whole_sums", WorkKind::kNormalisation, partial);
}
void row_norms(Counted& c) { c.add("inverse_row_norms", WorkKind::kNormalisation, c.all_read() + c.all_written()); }

void bias_grad(Counted& c) {
  const auto partial = static_cast<double>(column_sums_scratch_bytes(c.in(0)));
  c.add("column_partial_sums", WorkKind::kReductions, c.read(0) + partial);
  if (!c.in_parts()) c.add("column_whole_sums", WorkKind::kReductions, partial + c.written(0));
}
void add_partial_sums(Counted& c) {
  c.add("add_partial_sums", WorkKind::kReductions, c.all_read() + c.all_written(),
        static_cast<int>((c.node.inputs.size() + kMostParts - 1) / kMostParts));
}
void sum_squares(Counted& c) {
  const auto starts = [](std::size_t tensors) { return static_cast<int>((tensors + kMostSquares - 1) / kMostSquares); };
  std::size_t of_blocks = 0;
  double partial = 0;
  for (std::size_t i = 0; i < c.node.inputs.size(); ++i) {
    const std::int64_t blocks = element_sum_blocks(c.in(i).shape.elements());
    if (blocks <= 1 && c.node.row_count == kNoValue) continue;
    ++of_blocks;
    partial += 8.0 * static_cast<double>(blocks);
  }
  c.add("partial_squares", WorkKind::kReductions, c.all_read() + partial, starts(c.node.inputs.size()));
  if (of_blocks > 0) c.add("whole_squares", WorkKind::kReductions, partial, starts(of_blocks));
}
void gradient_norm(Counted& c) {
  const std::size_t squares =
      c.node.inputs.size() - (std::get<GradientNormAttributes>(c.node.attributes).unscales ? 2 : 1);
  const std::size_t starts = std::max<std::size_t>(1, (squares + kMostAddedSquares - 1) / kMostAddedSquares);
  if (starts > 1) {
    c.add("add_squares", WorkKind::kReductions, 8.0 * static_cast<double>(squares), static_cast<int>(starts - 1));
  }
  c.add("gradient_norm", WorkKind::kReductions, starts > 1 ? 0 : 8.0 * static_cast<double>(squares));
}

// A list of items is sorted by one block, while others clear the table, then its rows are summed.
void summed_lists(Counted& c, double items, double cleared, double written) {
  c.add("sort_items", WorkKind::kEmbeddings, 2 * items * sizeof(Item) + cleared);
  if (c.node.op == Op::kEmbeddingRowGrad) c.add("number_ids", WorkKind::kEmbeddings, 2 * items * sizeof(Item));
  c.add("sum_chunks", WorkKind::kEmbeddings, c.read(0) + written);
  c.add("sum_parts", WorkKind::kEmbeddings, written);
}
void embedding_grad(Counted& c) {
  const bool adds = c.node.inputs.size() == 3, clears = c.node.op == Op::kEmbeddingGrad && !adds;
  summed_lists(c, static_cast<double>(c.in(0).shape[0]), clears ? c.written(0) : 0, (adds ? 2 : 1) * c.read(0));
}
void spatial_embedding_grad(Counted& c) {
  summed_lists(c, 6 * static_cast<double>(c.in(0).shape[0]), c.all_written(), c.read(0));
}
void merge_row_grads(Counted& c) {
  const MergeScratch scratch(c.in(2), c.in(5));
  c.add("find_places", WorkKind::kEmbeddings, c.read(3));
  c.add("count_news", WorkKind::kEmbeddings, c.read(3));
  c.add("find_origins", WorkKind::kEmbeddings, c.read(0) + c.read(3));
  int tiles = 0;
  for (std::int64_t tile = 0; tile < MergeScratch::kTiles; ++tile) tiles += tile * scratch.tile_rows < c.in(2).shape[0];
  c.add("read_tile", WorkKind::kEmbeddings, 2 * c.read(2), tiles);
  c.add("write_tile", WorkKind::kEmbeddings, 2 * c.read(2) + c.read(5), tiles);
  c.add("write_ids", WorkKind::kEmbeddings, 2 * c.read(0));
}

void loss(Counted& c) {
  c.add(op_name(c.node.op), WorkKind::kLoss, c.all_read() + c.all_written());
  c.add("sum of losses", WorkKind::kLoss, 0);
}
void softmax_sums(Counted& c) { c.add("softmax_sums", WorkKind::kLoss, c.all_read() + c.all_written()); }
void cross_entropy_part(Counted& c) { c.add("cross_entropy_part", WorkKind::kLoss, c.all_read() + c.all_written()); }
void label_scores(Counted& c) { c.add("label_scores", WorkKind::kLoss, c.all_read() + c.all_written()); }
void contrastive_loss(Counted& c) {
  c.add("to_units", WorkKind::kLoss, 2 * c.read(0));
  c.add("sums_of_rows", WorkKind::kLoss, c.read(0));
  c.add("contrastive_gradient", WorkKind::kLoss, c.read(0) + c.written(1));
  c.add("contrastive_sum", WorkKind::kLoss, 0);
}
void relation_loss(Counted& c) {
  c.add("relations", WorkKind::kLoss, c.read(0) + c.read(1));
  c.add("relations_grad", WorkKind::kLoss, c.read(0) + c.read(1) + c.written(1));
  c.add("relation_sum", WorkKind::kLoss, 0);
}
void pair_scores_grad(Counted& c) { c.add("pair_scores_grad", WorkKind::kLoss, c.all_read() + c.all_written(), 2); }

void linear_int8(Counted& c) {
  c.add("quantize_rows", WorkKind::kProducts, c.read(1) + elements(c.in(1)));
  c.add("quantize_rows", WorkKind::kProducts, c.read(0) + elements(c.in(0)));
  c.add("int8_product", WorkKind::kProducts, elements(c.in(0)) + elements(c.in(1)) + c.written(0)).flops =
      2 * linear_work(c.graph, c.node);
}

void adamw(Counted& c) {
  const auto& attributes = std::get<AdamWAttributes>(c.node.attributes);
  const double whole = elements(c.in(0));
  const double share = attributes.count > 0 && whole > 0 ? static_cast<double>(attributes.count) / whole : 1;
  c.add("adamw", WorkKind::kUpdates, share * (c.all_read() + c.all_written()));
}
void adafactor(Counted& c) {
  const UpdateForm form = update_form(c.graph, c.node);
  const double gradient = static_cast<double>(c.in(form.gradient_values()).bytes());
  if (form.by_rows) c.add("cudaMemsetAsync", WorkKind::kUpdates, 8 * static_cast<double>(c.in(0).shape[0]));
  if (form.state_parts == 2) {
    c.add("sum_row_squares", WorkKind::kUpdates, gradient);
    c.add("average_rows", WorkKind::kUpdates, 0);
  }
  c.add("sum_column_squares", WorkKind::kUpdates, gradient);
  c.add("average_columns", WorkKind::kUpdates, 0);
  c.add("sum_unit_squares", WorkKind::kUpdates, gradient);
  c.add("find_divisor", WorkKind::kUpdates, 0);
  c.add("apply", WorkKind::kUpdates, gradient + c.read(0) + c.written(0));
}

void nothing(Counted&) {}
// Messages and transfers do not run on the stream of the kernels; what some of them start there depends on the ranks.
void exchange(Counted& c) { c.add("exchange", WorkKind::kExchange, c.all_read() + c.all_written(), 0); }

using Count = void (*)(Counted&);
constexpr OpTable<Count> kCounts = {
    {Op::kAdd, elementwise},
    {Op::kMultiply, elementwise},
    {Op::kScale, elementwise},
    {Op::kDropout, elementwise},
    {Op::kGelu, elementwise},
    {Op::kGeluGrad, gelu_grad},
    {Op::kSiluMultiply, elementwise},
    {Op::kSiluMultiplyGrad, elementwise},
    {Op::kRotaryTable, rows},
    {Op::kRotary, rows},
    {Op::kTanh, elementwise},
    {Op::kTanhGrad, elementwise},
    {Op::kRelu, elementwise},
    {Op::kReluGrad, elementwise},
    {Op::kCast, casts},
    {Op::kAccumulate, elementwise},
    {Op::kLayerNorm, layer_norm},
    {Op::kRmsNorm, rms_norm},
    {Op::kRmsNormGrad, rms_norm_grad},
    {Op::kAffine, affine},
    {Op::kLayerNormGrad, layer_norm_grad},
    {Op::kInverseRowNorms, row_norms},
    {Op::kLinear, row_product},
    {Op::kLinearAdd, row_product},
    {Op::kLinearInputGrad, row_product},
    {Op::kLinearWeightGrad, weight_gradient},
    {Op::kLinearInt8, linear_int8},
    {Op::kEmbedding, lookup},
    {Op::kSpatialEmbedding, lookup},
    {Op::kEmbeddingGrad, embedding_grad},
    {Op::kEmbeddingRowGrad, embedding_grad},
    {Op::kSpatialEmbeddingGrad, spatial_embedding_grad},
    {Op::kMergeRowGrads, merge_row_grads},
    {Op::kPatchify, rows},
    {Op::kVisualEmbedding, rows},
    {Op::kVisualEmbeddingGrad, rows},
    {Op::kPackRows, rows},
    {Op::kGatherRows, rows},
    {Op::kConcatHeads, rows},
    {Op::kSplitHeads, rows},
    {Op::kJoinPairs, rows},
    {Op::kJoinPairsGrad, rows},
    {Op::kPairScores, rows},
    {Op::kPairScoresGrad, pair_scores_grad},
    {Op::kPutRows, rows},
    {Op::kSlice, rows},
    {Op::kTakeRows, take_rows},
    {Op::kJoinRows, join_rows},
    {Op::kLabelScores, label_scores},
    {Op::kSoftmaxSums, softmax_sums},
    {Op::kCrossEntropyPart, cross_entropy_part},
    {Op::kCrossEntropy, loss},
    {Op::kElementLoss, loss},
    {Op::kSpanCrossEntropy, loss},
    {Op::kSoftCrossEntropy, loss},
    {Op::kCachedGradient, loss},
    {Op::kContrastiveLoss, contrastive_loss},
    {Op::kRelationLoss, relation_loss},
    {Op::kBiasGrad, bias_grad},
    {Op::kAddPartialSums, add_partial_sums},
    {Op::kSumSquares, sum_squares},
    {Op::kGradientNorm, gradient_norm},
    {Op::kAttentionBias, attention_bias},
    {Op::kAttention, attention},
    {Op::kCachedAttention, cached_attention},
    {Op::kAttentionGrad, attention_grad},
    {Op::kAdamW, adamw},
    {Op::kAdamWRows, adamw},
    {Op::kAdafactor, adafactor},
    {Op::kAdafactorRows, adafactor},
    {Op::kFetchBegin, exchange},
    {Op::kFetchEnd, nothing},
    {Op::kStoreBegin, exchange},
    {Op::kStoreEnd, nothing},
    {Op::kReduceScatterBegin, exchange},
    {Op::kReduceScatterEnd, nothing},
    {Op::kAllGatherBegin, exchange},
    {Op::kAllGatherEnd, nothing},
    {Op::kGatherShardsBegin, exchange},
    {Op::kAllReduceBegin, exchange},
    {Op::kAllReduceEnd, nothing},
    {Op::kGatherRowsBegin, exchange},
    {Op::kGatherRowsEnd, nothing},
    {Op::kAllToAllRowsBegin, exchange},
    {Op::kAllToAllRowsEnd, nothing},
};

}  // namespace

std::string_view work_kind_name(WorkKind kind) {
  static constexpr std::array<std::string_view, kWorkKinds> kNames = {"matrix products",
                                                                      "attention",
                                                                      "attention's gradient",
                                                                      "element-wise and rows",
                                                                      "normalisation",
                                                                      "sums and norm",
                                                                      "embeddings",
                                                                      "updates",
                                                                      "loss",
                                                                      "exchange"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<KernelWork> kernel_work(const Graph& graph, const Node& node) {
  const Count count = kCounts[node.op];
  check(count != nullptr, "the work of every op's kernels is counted");
  Counted counted{.graph = graph, .node = node};
  count(counted);
  return std::move(counted.kernels);
}

}  // namespace plimsoll::cuda
