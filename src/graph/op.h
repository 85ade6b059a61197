// The op catalogue: every operation that a graph may hold, with attributes that are fixed when the graph is built.
// Values that change from step to step (learning rate, loss scale, dropout key, row counts) are always inputs.
//
// Shapes use the letters of docs/architecture.md: n rows (packed tokens, capacity), K/M features, D hidden, H heads,
// B samples, V visual tokens a sample, P patches a sample, C labels, R table rows. f = the node's floating type: F32, F64, or
// a half (BF16, F16). w = wide(f), the type of what is summed or small: F32 where f is a half. Kernels compute in w and
// round once, when they store; linear and linear_input_grad in halves may first round a weight or bias that is wider, or
// coded, to f. A weight or table that does not train may be coded, Q8 or NF4 (tensor/block_code.h).
//
// Packed rows: a batch's tokens lie one after the other without padding. A row-wise node's `Node::row_count` names an
// i32[1] value, the number of real leading rows; rows beyond it are neither read nor defined. A kernel may overwrite
// rows of an input beyond those that the producing node defines. `row_keys` holds (sample, token coordinate) for each
// row, `relative_coordinates` (position, box x0, box y1).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace plimsoll {

enum class Op : std::uint8_t {
  // --- forward ------------------------------------------------------------------------------------------------------
  kEmbedding,         // table f[R,D], ids i32[n]                      -> f[n,D]        EmbeddingAttributes
  kSpatialEmbedding,  // x,y tables f[R,c], h,w tables f[R,s], bbox i32[n,4] -> f[n,D], D = 4c+2s:
                      //                                                  x(x0) y(y0) x(x1) y(y1) h(y1-y0) w(x1-x0),
                      //                                                  sizes clipped (box_size.h); their sum, with
                      //                                                  D = c = s, where SpatialAttributes say so
  kPatchify,          // pixels f[B,C,Y,X]                             -> f[B*P, C*s*s] PatchAttributes; patch row-major,
                      //                                                  inside a patch channel, y, x
  kVisualEmbedding,   // patches f[B*P,D], cls f[1,1,D], positions f[1,P+1,D] -> f[B*V,D], V = P+1: cls first
  kAdd,               // a, b the same type                            -> a's type
  kLinear,            // x f[n,K], weight f or w[M,K], bias f or w[M] (optional) -> f[n,M] = x weight^T + bias
  kLinearAdd,         // x f[n,K], weight f or w[M,K], addend f[n,M]   -> addend + x weight^T, its sum rounded once
  kLinearInt8,        // x f[n,K], weight f or w[M,K], bias w[M] (optional) -> f[n,M], as kLinear of rounded rows: code c
                      //                                                  of a row of x or of weight is its element times
                      //                                                  127 / the row's largest magnitude, to nearest, ties
                      //                                                  to even, and stands for c times that magnitude /
                      //                                                  127; codes are multiplied as whole numbers, so that
                      //                                                  their sum is exact. Has no gradient
  kScale,             // x f[n,K]                                      -> f[n,K] = factor x   ScaleAttributes
  kMultiply,          // a, b the same type                            -> a's type, element by element
  kInverseRowNorms,   // weight f or w[M,K], a w[R,K], b w[M,R]        -> w[M] = 1 / the norm of each row of weight +
                      //                                                  factor b a; a constant: no gradient passes it
                      //                                                                               ScaleAttributes
  kLayerNorm,         // x f[n,D], gamma w[D], beta w[D] (, residual f[n,D] (, row_keys i32[n,2], dropout_key i32[2]))
                      //                                               -> y f[n,D], normalized f[n,D], rstd w[n]: of x, or of
                      //                                                  residual + x, x after dropout (base/dropout.h)
                      //                                                  where there are keys. LayerNormAttributes; y is
                      //                                                  computed from the stored `normalized`, exactly as
                      //                                                  kAffine
  kRmsNorm,           // x f[n,G*D], gamma w[D]                        -> y f[n,G*D], normalized f[n,G*D], rstd w[n,G]: D
                      //                                                  columns at a time over the root of the mean of their
                      //                                                  squares + eps (Zhang, Sennrich 2019), then * gamma;
                      //                                                  y is computed from the stored `normalized`, exactly
                      //                                                  as kAffine            RmsNormAttributes
  kAffine,            // x f[n,D], gamma w[D] (, beta w[D])            -> f[n,D] = x * gamma (+ beta)
  kDropout,           // x f[n,D], row_keys i32[n,2], dropout_key i32[2] -> [n,D] of f, or of DropoutAttributes' type, as
                      //                                                  kCast would make it (base/dropout.h). Its own
                      //                                                  gradient
  kPackRows,          // text f[nt,D], visual f[nv,D], source i32[n], text_index i32[nt], visual_index i32[nv]
                      //                                               -> f[n,D]: source >= 0: that text row, else visual row
                      //                                                  -1-source; the indices (row in n of each text and
                      //                                                  visual row) are for the gradient
  kGatherRows,        // x f[n,D], index i32[m], inverse i32[n]        -> f[m,D]: row index[i] of x, zeros where index < 0;
                      //                                                  `inverse` is the gradient's index
  kTakeRows,          // x f[n,D] or i32[n]                            -> [count,D] or [count]: the real rows of x from
                      //                                                  `first` on, then zeros; their number i32[1]
                      //                                                  RowPartAttributes
  kJoinRows,          // several x f[count,D], the last of fewer rows  -> f[n,D]: their rows, one after the other
  kConcatHeads,       // a f[n,H*A] (, b f[n,H*B])                     -> f[n,H*(A+B)]: for each head its columns of a, times
                      //                                                  first_factor, then those of b, times
                      //                                                  second_factor, or zeros without b
                      //                                                  HeadsAttributes; kSplitHeads is its gradient
  kSplitHeads,        // x f[n,H*(A+B)]                                -> a f[n,H*A] (, b f[n,H*B]): each head's first columns,
                      //                                                  times first_factor, and its last, times
                      //                                                  second_factor; kConcatHeads is its gradient
  kPairScores,        // heads f[n,P], tails f[n,C*P], head_terms f[n,C], tail_terms f[n,C] -> f[n*E,C]: of every two of
                      //                                                  E rows, n = B*E; row (b E + h) E + t, column c:
                      //                                                  heads[b E + h] . tails[b E + t, c P ...] +
                      //                                                  head_terms[b E + h, c] + tail_terms[b E + t, c]
                      //                                                  PairAttributes; without a row count
  kJoinPairs,         // x f[n,K]                                      -> f[n,2K] or f[n,4K]: row 2k holds a = x[2k], b = x[2k+1]
                      //                                                  (, |a - b|, a b), side by side; rows 2k+1, and a
                      //                                                  last row without a partner, are 0  JoinAttributes
  kRotaryTable,       // positions i32[n], frequencies w[D/2]          -> w[n,D]: cosines, then sines, of the angles position *
                      //                                                  frequency, rounded to a float first, as transformers
                      //                                                  has them. A constant
  kRotary,            // x f[n,H*D], table w[n,D] (kRotaryTable's)     -> f[n,H*D]: of each head columns j and j + D/2, as a
                      //                                                  point, turned by angle j (Su et al. 2021, in the
                      //                                                  order of GPT-NeoX)  RotaryAttributes; its own
                      //                                                  gradient, the other way round
  kAttentionBias,     // sample_offsets i32[B+1], key_mask i32[n], relative_coordinates i32[n,3], tables as kAttention's
                      //                                               -> f[n,H*K] of AttentionBiasAttributes' type: element
                      //                                                  h K + j of row i is what the tables have for i and
                      //                                                  key j of its sample, rounded once, -infinity where
                      //                                                  that is masked or no row; K is the longest sample's
                      //                                                  rows in whole eights. A constant: no gradient
                      //                                                  passes it
  kAttention,         // q f[n,D], k,v f[n,D] (or D H'/H columns), sample_offsets i32[B+1], key_mask i32[n], row_keys i32[n,2], dropout_key i32[2]
                      // (, relative_coordinates i32[n,3], position_table w[H,bins], x_table w[H,bins2], y_table
                      // w[H,bins2] (, biases f[n,H*K]): graph/attention_form.h)
                      //                                               -> output f[n,D], log_sum_exp w[n,2H]
                      //                                                  AttentionAttributes
  kCachedAttention,   // q f[n,H*E], keys f[R,H'*E], values f[R,H'*E], seen i32[n,2] -> f[n,H*E]: row i attends to the rows
                      //                                                  [seen[i,0], seen[i,1]) of the tables, of which
                      //                                                  there is one at least. Has no gradient
                      //                                                  AttentionAttributes: of heads alone
  kGelu,              // x f[n,K]                                      -> f[n,K], erf form, or as GeluAttributes say
  kSiluMultiply,      // gate f[n,K], x f[n,K]                         -> f[n,K] = gate / (1 + exp(-gate)) * x (Shazeer 2020,
                      //                                                  SwiGLU)
  kTanh,              // x f[n,K]                                      -> f[n,K]
  kRelu,              // x f[n,K]                                      -> f[n,K], max(x, 0); NaN where x is
  kCast,              // x f[n,K]                                      -> [n,K] in CastAttributes' type, to nearest, ties to
                      //                                                  even; or, without a row count, several x f[...] of
                      //                                                  one type, an output each
  kLabelScores,       // logits f[n,C], labels i32[n]                  -> w[n,2]: -log softmax at the label, and 1 where no
                      //                                                  other class has more, nor one before it as much;
                      //                                                  0, 0 where the label is -100
  kSoftmaxSums,       // logits f[n,C]                                 -> w[n,2]: the largest of a row, and the sum of
                      //                                                  exp(logit - largest). A constant
  kCrossEntropyPart,  // logits f[n,c], labels i32[n], sums w[n,2] (kSoftmaxSums'), loss_scale w[1] -> f[n,c]: of
                      //                                                  kCrossEntropy's gradient the columns of these
                      //                                                  classes, `first` on    ClassPartAttributes
  kCrossEntropy,      // logits f[n,C], labels i32[n], loss_scale w[1] (, class_weights w[C])
                      //                                               -> loss w[1] = loss_scale * sum over labels != -100 of
                      //                                                  -log softmax, grad f[n,C] = d loss / d logits
                      //                                                  CrossEntropyAttributes
  kElementLoss,       // logits f[n,C], targets f[n,C], loss_scale f[1] -> loss f[1] = loss_scale * sum over the elements,
                      //                                                  grad f[n,C]       ElementLossAttributes
  kSpanCrossEntropy,  // logits f[n,K], positions i32[B,K], sample_offsets i32[B+1], loss_scale f[1] -> loss f[1] =
                      //                                                  loss_scale * sum over samples and columns whose
                      //                                                  position is not -100 of -log softmax over the
                      //                                                  sample's rows, at its row `position`;
                      //                                                  grad f[n,K]
  kSoftCrossEntropy,  // logits f[n,C], teacher f[n,C], labels i32[n], loss_scale f[1] -> loss f[1] = loss_scale * weight * t^2
                      //                                                  * sum over labels != -100 of the Kullback-Leibler
                      //                                                  divergence of softmax(logits / t) from
                      //                                                  softmax(teacher / t), grad f[n,C]
                      //                                                  SoftTargetAttributes
  kRelationLoss,      // x f[n,D], teacher f[n,E], sample_offsets i32[B+1], loss_scale f[1] -> loss f[1], grad f[n,D]
                      //                                                  RelationAttributes have the formula
  kContrastiveLoss,   // x f[n,D], groups i32[n], loss_scale f[1]      -> loss f[1], grad f[n,D]  ContrastiveAttributes
  kCachedGradient,    // x f[n,D], table f[R,D], first i32[1]          -> loss f[1] = sum over rows of x[i] . table[first + i],
                      //                                                  grad f[n,D] = those rows of the table
  // --- backward -----------------------------------------------------------------------------------------------------
  kEmbeddingGrad,         // dy f[n,D], ids i32[n] (, sum f[R,D])      -> f[R,D] (+ sum, whose bytes the output takes)
                          //                                              EmbeddingAttributes
  kEmbeddingRowGrad,      // dy f[n,D], ids i32[n]                     -> ids i32[n], count i32[1], rows f[n,D]: the distinct
                          //                                              ids ascending and their summed rows
  kSpatialEmbeddingGrad,  // dy f[n,D], bbox i32[n,4]                  -> gradients of x, y, h, w tables  SpatialAttributes
  kVisualEmbeddingGrad,   // dy f[B*V,D]                               -> dpatches f[B*P,D], dcls f[1,1,D], dpositions f[1,P+1,D]
                          //                                              VisualAttributes
  kLinearInputGrad,       // dy f[n,M], weight f or w[M,K] (, addend f[n,K]) -> f[n,K] = dy weight (+ addend), rounded once
  kLinearWeightGrad,      // dy f[n,M], x f[n,K] (, sum w[M,K] (, keep i32[1])) -> w[M,K] = dy^T x (+ sum unless keep is 0; the
                          //                                              output takes sum's bytes)
  kBiasGrad,              // dy f[n,M]                                 -> w[M], column sums             BiasGradAttributes
  kLayerNormGrad,         // dy f[n,D], normalized f[n,D], rstd w[n], gamma w[D] (, row_keys i32[n,2], dropout_key i32[2])
                          //                                           -> dx f[n,D] (, dx after dropout f[n,D], where there are
                          //                                              keys), dgamma w[D], dbeta w[D] (, column sums w[D] of
                          //                                              the gradient of kLayerNorm's x)
                          //                                              LayerNormAttributes, graph/layer_norm_form.h
  kRmsNormGrad,           // dy f[n,G*D], normalized f[n,G*D], rstd w[n,G], gamma w[D] -> dx f[n,G*D], dgamma w[D]
                          //                                              RmsNormAttributes
  kAttentionGrad,         // doutput, q, k, v, output, log_sum_exp, then kAttention's inputs from sample_offsets on
                          //                                           -> dq, dk, dv (+ gradients of its tables, w, if
                          //                                              AttentionAttributes::table_gradients; + column sums
                          //                                              w[D] of dq, dk, dv, if ::column_sums, where H' = H)
  kPairScoresGrad,        // dy f[n*E,C], heads f[n,P], tails f[n,C*P] -> gradients of kPairScores' inputs; pairs whose dy is
                          //                                              0 cost nothing, on a CPU
  kJoinPairsGrad,         // dy f[n,2K] or f[n,4K], x f[n,K]            -> f[n,K]        JoinAttributes; |a - b| has slope 0 where
                          //                                              a = b
  kReluGrad,              // dy f[n,K], y f[n,K] (relu's output)       -> f[n,K]
  kGeluGrad,              // dy f[n,K], x f[n,K]                       -> f[n,K] (, its column sums w[K], if GeluAttributes
                          //                                              say so)
  kSiluMultiplyGrad,      // dy f[n,K], gate f[n,K], x f[n,K]          -> gradients of gate and x
  kTanhGrad,              // dy f[n,K], y f[n,K] (tanh's output)       -> f[n,K]
  kAddPartialSums,        // several partial sums w[P,S D]             -> of each S sums w[D] over its P rows
                          //                                              PartialSumsAttributes, graph/partial_sums.h
  // --- accumulation and update --------------------------------------------------------------------------------------
  // `keep` i32[1]: 0 in the first micro-batch of an update, where the sum's old content is dropped.
  kAccumulate,     // sum, x the same type, keep i32[1]                -> x (+ sum where keep != 0), in sum's bytes
  kMergeRowGrads,  // sum ids i32[c], count i32[1], rows f[c,D], then ids i32[n], count i32[1], rows f[n,D], then keep i32[1]
                   //                                                  -> the three sums, in their bytes, ids ascending
  kPutRows,        // table f[R,D], rows f[n,D], first i32[1] or index i32[n] -> the table in its bytes: its rows from `first`
                   //                                                  on, or those of `index`, distinct, are the real ones
                   //                                                  of these
  kSumSquares,     // x f[...] (row_count: leading rows that count)    -> f64[1]; of several tensors, of which all rows
                   //                                                  count, an output each
  kGradientNorm,   // max_grad_norm f32[1] (, unscale f32[1]), sums of squares f64[1]... -> norm f32[1], clip f32[1] =
                   //                                                  min(1, max / (norm + 1e-6)), 1 where max <= 0
                   //                                                  GradientNormAttributes; with unscale the norm is
                   //                                                  that of gradients times unscale, and clip has it
                   //                                                  as a factor. NaN where the norm is not finite
  // A NaN clip makes an update change nothing, so that no NaN or infinite gradient reaches a parameter. Updates have
  // the forms of graph/update_form.h. The parameter is f, or split in two (bf16 and i16); the gradient is multiplied by
  // `clip` first; `step` is 1 for the first update.
  kAdamW,          // parameter, m, v, gradient f[...], learning_rate f32[1], step i32[1], clip f32[1]
                   //                                                  -> parameter, m, v in their bytes   AdamWAttributes
                   //                                                  m and v: f[...] each, or u8[...] codes and f[blocks]
  kAdamWRows,      // parameter [R,D], m, v, ids i32[c], count i32[1], rows f[c,D], learning_rate, step, clip
                   //                                                  -> as kAdamW; absent rows have gradient 0
  kAdafactor,      // parameter, row mean f[..,M], column mean f[..,K] (read as f[..,M,K]) or mean f[M] (of f[M]), gradient,
                   // learning_rate, step, clip                        -> parameter, means in their bytes
                   //                                                                                AdafactorAttributes
  kAdafactorRows,  // parameter [R,D], row mean f[R], column mean f[D], ids, count, rows, learning_rate, step, clip
                   //                                                  -> as kAdafactor; absent rows have gradient 0
  // --- offload: tensors that live in a file between their uses (transform/offload.h) ---------------------------------
  // A transfer begins at one node and overlaps those that follow; the bytes may be used again after the node that
  // waits for it.                                                                                 TransferAttributes
  kFetchBegin,  //                                                     -> the parts, whose bytes are on their way
  kFetchEnd,    // parts                                               -> parts in their bytes, arrived
  kStoreBegin,  // parts                                               -> parts in their bytes, to be read only
  kStoreEnd,    // parts                                               -> nothing: the bytes are written
  // --- ranks: what the processes of one run exchange (transform/data_parallel.h) -------------------------------------
  // Every rank has the same parts, and rank r owns the elements [bounds[r], bounds[r + 1]) of each. As with offloading,
  // an exchange begins at one node and overlaps those that follow, and the bytes may be used again after its end.
  // Sums are taken in the order of ranks, so that they are the same bits on all.              CollectiveAttributes
  kReduceScatterBegin,  // parts f[...]                                -> parts in their bytes, being sent; staging f[s]
  kReduceScatterEnd,    // parts, staging                              -> parts in their bytes: the own elements are the
                        //                                                sums over ranks, the others are not defined
  kAllGatherBegin,      // parts, whose own elements are defined        -> parts in their bytes, on their way
  kAllGatherEnd,        // parts                                       -> parts in their bytes, whole
  kGatherShardsBegin,   // own elements of each part, as fewer rows    -> parts, on their way to kAllGatherEnd
  kAllReduceBegin,      // parts f[...], small ones                    -> parts in their bytes, being sent; staging f[s]
  kAllReduceEnd,        // parts, staging                              -> parts in their bytes: their sums over ranks
  kGatherRowsBegin,     // ids i32[n], count i32[1], rows f[n,D]       -> ids i32[R n], rows f[R n,D], counts i32[R],
                        //                                                being sent, R ranks
  kGatherRowsEnd,       // ids, rows, counts                           -> ids, rows in their bytes: those of all ranks one
                        //                                                after the other; their number i32[1]
  kAllToAllRowsBegin,   // own rows f[r,D] of a table, ids i32[R n] of all ranks, counts i32[R] of the real
                        //                                                ones (without them: all)
                        //                                             -> rows f[n,D], the place of each own id among them
                        //                                                i32[n], what is sent f[(R-1) n,D]; one part, the table
  kAllToAllRowsEnd,     // rows, what is sent                          -> rows in their bytes, arrived
  kSlice,               // x f[...]                                    -> f[count]: elements `first` on, in order
                        //                                                SliceAttributes
};
inline constexpr std::size_t kOpCount = static_cast<std::size_t>(Op::kSlice) + 1;

struct NoAttributes {
  friend bool operator==(const NoAttributes&, const NoAttributes&) = default;
};
struct EmbeddingAttributes {
  std::int64_t padding_idx = -1;  // this row receives no gradient; -1: none
  bool row_gradient = false;      // the gradient is (ids, rows), never a dense table
  std::int64_t table_rows = 0;    // R, for kEmbeddingGrad
  std::int64_t first_row = 0;     // of the table: the gradient has R rows, from this one on
  friend bool operator==(const EmbeddingAttributes&, const EmbeddingAttributes&) = default;
};
struct SpatialAttributes {
  std::int64_t table_rows = 0;       // R of each spatial table
  std::int64_t coordinate_size = 0;  // width of the x and y tables
  std::int64_t shape_size = 0;       // width of the h and w tables
  bool sums = false;                 // the six rows are added up, not put side by side
  // The column of an output row where the `slot`-th row begins.
  constexpr std::int64_t column(std::int64_t slot) const {
    return sums ? 0 : slot < 4 ? slot * coordinate_size : 4 * coordinate_size + (slot - 4) * shape_size;
  }
  constexpr std::int64_t columns() const { return sums ? coordinate_size : column(6); }
  friend bool operator==(const SpatialAttributes&, const SpatialAttributes&) = default;
};
struct PatchAttributes {
  std::int64_t patch_size = 16;
  friend bool operator==(const PatchAttributes&, const PatchAttributes&) = default;
};
struct VisualAttributes {
  std::int64_t patches = 196;  // P, for kVisualEmbeddingGrad
  friend bool operator==(const VisualAttributes&, const VisualAttributes&) = default;
};
struct LayerNormAttributes {
  double eps = 1e-5;
  double dropout_p = 0;  // of x, where there is a residual; 0: no dropout
  std::uint32_t site = 0;
  bool column_sums = false;       // of a gradient: they are its last output
  std::int64_t partial_sums = 0;  // of a gradient (graph/partial_sums.h)
  friend bool operator==(const LayerNormAttributes&, const LayerNormAttributes&) = default;
};
struct RmsNormAttributes {
  double eps = 1e-6;
  std::int64_t partial_sums = 0;  // of a gradient
  friend bool operator==(const RmsNormAttributes&, const RmsNormAttributes&) = default;
};
struct RotaryAttributes {
  bool back = false;  // turns by -angle: a gradient
  friend bool operator==(const RotaryAttributes&, const RotaryAttributes&) = default;
};
struct GeluAttributes {
  bool by_tanh = false;           // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks, Gimpel 2016)
  bool column_sums = false;       // of a gradient
  std::int64_t partial_sums = 0;  // of a gradient with column sums
  friend bool operator==(const GeluAttributes&, const GeluAttributes&) = default;
};
struct BiasGradAttributes {  // a node may have none
  std::int64_t partial_sums = 0;
  friend bool operator==(const BiasGradAttributes&, const BiasGradAttributes&) = default;
};
struct PartialSumsAttributes {
  std::vector<std::int64_t> sums{};  // S of each input
  friend bool operator==(const PartialSumsAttributes&, const PartialSumsAttributes&) = default;
};
struct CastAttributes {
  DType to = DType::kF32;
  friend bool operator==(const CastAttributes&, const CastAttributes&) = default;
};
// The loss of a row with label y, where l_c is -log softmax at class c, p_c its exp(-l_c), w the class weights (1 without
// them) and s the smoothing: (1 - s) w_y l_y + s / C * sum of w_c l_c (torch.nn.CrossEntropyLoss), or, with a gamma,
// w_y (1 - p_y)^gamma l_y (Lin et al. 2017). One of the two at most.
struct CrossEntropyAttributes {
  double label_smoothing = 0;  // s
  double focal_gamma = 0;
  friend bool operator==(const CrossEntropyAttributes&, const CrossEntropyAttributes&) = default;
};
// The loss of an element x with target y: -(y log s(x) + (1 - y) log(1 - s(x))) with the logistic function s (PyTorch's
// BCEWithLogitsLoss), or (x - y)^2.
struct ElementLossAttributes {
  enum class Kind : std::uint8_t { kBinaryCrossEntropy, kSquaredError };
  Kind kind = Kind::kBinaryCrossEntropy;
  double weight = 1;  // a factor of the loss
  friend bool operator==(const ElementLossAttributes&, const ElementLossAttributes&) = default;
};
// Hinton, Vinyals, Dean 2015: the temperature's square keeps gradients as large as those of labels.
struct SoftTargetAttributes {
  double temperature = 1;  // t
  double weight = 1;       // a factor of the loss
  friend bool operator==(const SoftTargetAttributes&, const SoftTargetAttributes&) = default;
};
// How rows of a sample relate to one another (Wang et al. 2021, "MiniLMv2"): with the columns divided among `heads`, of
// d columns each in x, row i of relations is softmax over the sample's rows j of x_i . x_j / sqrt(d). The loss is
// loss_scale * weight / heads * the sum over heads and rows of the Kullback-Leibler divergence of x's from the teacher's.
struct RelationAttributes {
  std::int64_t heads = 1;
  double weight = 1;
  std::int64_t longest_sample = 0;  // no sample has more rows; 0: unknown. Only the scratch size depends on it
  friend bool operator==(const RelationAttributes&, const RelationAttributes&) = default;
};
struct ScaleAttributes {
  double factor = 1;
  friend bool operator==(const ScaleAttributes&, const ScaleAttributes&) = default;
};
struct HeadsAttributes {
  std::int64_t heads = 1;                        // H
  std::int64_t first_size = 0, second_size = 0;  // A and B, columns per head
  double first_factor = 1, second_factor = 1;
  bool second = true;  // there is a b
  friend bool operator==(const HeadsAttributes&, const HeadsAttributes&) = default;
};
struct PairAttributes {
  std::int64_t group = 1;  // E, rows per sample
  friend bool operator==(const PairAttributes&, const PairAttributes&) = default;
};
struct JoinAttributes {
  bool products = false;  // four parts, not two
  friend bool operator==(const JoinAttributes&, const JoinAttributes&) = default;
};
// InfoNCE in both directions (van den Oord et al. 2018; Radford et al. 2021). Rows 2k and 2k+1 are a pair; it counts if
// their groups are the same and not -100. With s(i, j) the cosine of two rows, 0 for a row shorter than 1e-12, over the
// temperature: each row i of a pair that counts, with its partner p(i), adds half of -log(exp s(i, p(i)) / sum over j of
// exp s(i, j)) to the loss, times loss_scale; j is p(i) and those of the pairs' rows on p(i)'s side whose group is not
// -100 and differs from i's.
struct ContrastiveAttributes {
  double temperature = 0.05;
  friend bool operator==(const ContrastiveAttributes&, const ContrastiveAttributes&) = default;
};
struct DropoutAttributes {
  double p = 0.1;
  std::uint32_t site = 0;
  std::optional<DType> to = std::nullopt;  // the output's type; nothing: that of x
  friend bool operator==(const DropoutAttributes&, const DropoutAttributes&) = default;
};
// scores = (q k^T + position_table[bucket(key pos - query pos)] + x_table[bucket(key x0 - query x0)] +
// y_table[bucket(key y1 - query y1)]) / sqrt(D/H), without masked keys; then softmax, dropout, times v. Buckets are
// T5's bidirectional log buckets (graph/relative_bucket.h). A sample attends only within itself. A query whose keys are
// all masked has output 0, log_sum_exp -infinity and no gradient; log_sum_exp is computed before dropout.
struct AttentionAttributes {
  std::int64_t heads = 12;
  double dropout_p = 0;  // 0: no dropout
  std::uint32_t site = 0;
  bool position_bias = true;  // has position_table
  bool spatial_bias = true;   // has x_table and y_table
  std::int64_t max_position_distance = 128;
  std::int64_t max_spatial_distance = 256;
  bool table_gradients = false, column_sums = false;  // of a gradient
  std::int64_t partial_sums = 0;                      // of a gradient with column sums
  std::int64_t longest_sample = 0;  // no sample has more rows; 0: unknown. Only sizes depend on it
  bool made_biases = false;         // has biases, made from the tables by a kAttentionBias
  bool causal = false;              // a row sees no later row of its sample
  std::int64_t key_value_heads = 0;  // H' of k and v, each of which serves H / H' neighbouring heads; 0: H
  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
};
struct AttentionBiasAttributes {
  AttentionAttributes attention{};  // of the nodes that read the biases, without made_biases
  DType to = DType::kF32;
  friend bool operator==(const AttentionBiasAttributes&, const AttentionBiasAttributes&) = default;
};
struct GradientNormAttributes {
  bool unscales = false;  // gradients were multiplied by a loss scale; the input `unscale` is its inverse
  friend bool operator==(const GradientNormAttributes&, const GradientNormAttributes&) = default;
};
struct AdamWAttributes {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double rate_factor = 1;  // of the learning rate
  // For a node that updates part of its parameter: `count` elements from `first` on, a multiple of kStateBlock; its
  // moments are for those elements only, and flat. count 0: all elements, with moments in the parameter's shape.
  std::int64_t first = 0, count = 0;
  // Where the node's parameter and its dense gradient begin, as elements of the whole parameter: a rank may hold only a
  // part of either.
  std::int64_t parameter_first = 0, gradient_first = 0;
  bool whole_moments = false;  // the moments are those of the whole parameter; the node updates only its part of them
  friend bool operator==(const AdamWAttributes&, const AdamWAttributes&) = default;
};
// Shazeer, Stern 2018, without first moment or relative steps; at update t the decay of the means is 1 - t^decay_rate.
struct AdafactorAttributes {
  double eps = 1e-30;  // added to squared gradients
  double clip_threshold = 1.0;  // limit on the root mean square of an update
  double decay_rate = -0.8;
  double weight_decay = 0;
  double rate_factor = 1;  // of the learning rate
  friend bool operator==(const AdafactorAttributes&, const AdafactorAttributes&) = default;
};
struct TransferAttributes {
  struct Part {
    std::uint64_t offset = 0;  // in bytes, in the file
    TensorType type{};
    std::size_t file_bytes = 0;  // how many bytes of it the file has; 0: as many as memory
    std::size_t moved_bytes() const { return file_bytes > 0 ? file_bytes : type.bytes(); }
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::int64_t ticket = 0;  // the number shared by the node that begins a transfer and the one that waits for it
  std::vector<Part> parts{};
  friend bool operator==(const TransferAttributes&, const TransferAttributes&) = default;
};
struct CollectiveAttributes {
  struct Part {
    TensorType type{};
    std::vector<std::int64_t> bounds{};  // R + 1 of them, from 0 to the number of elements
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::int64_t ticket = 1;  // the number shared by the node that begins an exchange and the one that ends it, from 1 on
  int rank = 0, ranks = 1;
  std::vector<Part> parts{};
  friend bool operator==(const CollectiveAttributes&, const CollectiveAttributes&) = default;
};
struct SliceAttributes {
  std::int64_t first = 0, count = 0;
  friend bool operator==(const SliceAttributes&, const SliceAttributes&) = default;
};
// Selects the classes [first, first + c) of those that a row has logits for.
struct ClassPartAttributes {
  std::int64_t first = 0;
  friend bool operator==(const ClassPartAttributes&, const ClassPartAttributes&) = default;
};
struct RowPartAttributes {
  std::int64_t first = 0, count = 0;
  friend bool operator==(const RowPartAttributes&, const RowPartAttributes&) = default;
};
using Attributes =
    std::variant<NoAttributes, EmbeddingAttributes, SpatialAttributes, PatchAttributes, VisualAttributes,
                 LayerNormAttributes, RmsNormAttributes, RotaryAttributes, GeluAttributes, CastAttributes, CrossEntropyAttributes, ElementLossAttributes,
                 SoftTargetAttributes, RelationAttributes, ScaleAttributes, HeadsAttributes, PairAttributes, JoinAttributes,
                 ContrastiveAttributes,
                 DropoutAttributes, AttentionAttributes, AttentionBiasAttributes, GradientNormAttributes, AdamWAttributes, AdafactorAttributes, TransferAttributes,
                 CollectiveAttributes, SliceAttributes, RowPartAttributes, ClassPartAttributes, BiasGradAttributes,
                 PartialSumsAttributes>;

// Accepts the attributes of a kGelu, which may have none, or of a kGeluGrad.
inline bool gelu_by_tanh(const Attributes& attributes) {
  const auto* const gelu = std::get_if<GeluAttributes>(&attributes);
  return gelu != nullptr && gelu->by_tanh;
}

// Ops that end a forward graph: outputs loss and gradient of their first input, the logits.
constexpr bool is_loss(Op op) { return op >= Op::kCrossEntropy && op <= Op::kCachedGradient; }
constexpr bool is_transfer(Op op) { return op >= Op::kFetchBegin && op <= Op::kStoreEnd; }
constexpr bool is_collective(Op op) { return op >= Op::kReduceScatterBegin && op <= Op::kAllToAllRowsEnd; }

// Returns the op's only name in graphs, kernels, tests and benchmarks, such as "layer_norm".
std::string_view op_name(Op op);

// Says that output `output` may or must use the bytes of input `input`. `kMay` applies if the input dies at the node
// and both have the same size; kernels of these ops handle both cases. `kMust` is how parameters and states change.
struct Alias {
  enum class Kind : std::uint8_t { kMay, kMust };
  std::size_t output;
  std::size_t input;
  Kind kind;
};
// Returns the aliases of `op` for a node with `input_count` inputs (an optional input comes with its alias).
std::vector<Alias> op_aliases(Op op, std::size_t input_count);

}  // namespace plimsoll
