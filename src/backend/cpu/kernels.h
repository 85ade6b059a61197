// One factory for each op of the CPU backend; cpu_backend.cpp dispatches to them. The op catalogue (graph/op.h) says
// what each computes. All compute in F32; those of an encoder layer read and store F32, BF16 or F16, the others F32
// (`prepare` has checked it). Kernels allocate nothing in `run`; memory they need besides inputs and outputs is
// declared as scratch.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "backend/backend.h"

namespace plimsoll {

class MatmulCache;

// matmul_kernels.cpp: products by oneDNN in groups of rows
std::unique_ptr<Kernel> make_linear(const Graph& graph, const Node& node, MatmulCache& cache);
std::unique_ptr<Kernel> make_linear_add(const Graph& graph, const Node& node, MatmulCache& cache);
std::unique_ptr<Kernel> make_linear_input_grad(const Graph& graph, const Node& node, MatmulCache& cache);
std::unique_ptr<Kernel> make_linear_weight_grad(const Graph& graph, const Node& node, MatmulCache& cache);

// Returns whether linear_weight_grad adds to its result's old content: the input `sum`, if there is one, has the
// result's bytes, and counts unless the input `keep` is 0.
inline bool adds_to_sum(const KernelArguments& a) {
  return a.inputs.size() == 3 || (a.inputs.size() > 3 && *a.inputs[3].data<std::int32_t>() != 0);
}

// Makes the kernel of linear or linear_int8 if the bias is a half: it is widened in scratch first.
using MakeLinear = std::function<std::unique_ptr<Kernel>(const Graph&, const Node&)>;
std::unique_ptr<Kernel> with_wide_bias(const Graph& graph, const Node& node, const MakeLinear& make);

// coded_products.cpp: products with a weight in Q8 or NF4
std::unique_ptr<Kernel> make_coded_linear(const Graph& graph, const Node& node, MatmulCache& cache);
std::unique_ptr<Kernel> make_coded_linear_input_grad(const Graph& graph, const Node& node, MatmulCache& cache);

// int8_products.cpp: products of rows rounded to bytes
std::unique_ptr<Kernel> make_linear_int8(const Graph& graph, const Node& node, MatmulCache& cache);

// attention.cpp, attention_grad.cpp, attention_bias.cpp
std::unique_ptr<Kernel> make_attention(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_cached_attention(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_attention_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_attention_bias(const Graph& graph, const Node& node);

// elementwise.cpp
std::unique_ptr<Kernel> make_add(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_multiply(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_accumulate(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_scale(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_gelu(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_gelu_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_silu_multiply(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_silu_multiply_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_tanh(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_tanh_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_relu(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_relu_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_cast(const Graph& graph, const Node& node);

// dropout.cpp
std::unique_ptr<Kernel> make_dropout(const Graph& graph, const Node& node);

// layer_norm.cpp
std::unique_ptr<Kernel> make_layer_norm(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_affine(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_layer_norm_grad(const Graph& graph, const Node& node);

// rms_norm.cpp
std::unique_ptr<Kernel> make_rms_norm(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_rms_norm_grad(const Graph& graph, const Node& node);

// rotary.cpp
std::unique_ptr<Kernel> make_rotary_table(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_rotary(const Graph& graph, const Node& node);

// row_norms.cpp
std::unique_ptr<Kernel> make_inverse_row_norms(const Graph& graph, const Node& node);

// rows.cpp: copies of rows
std::unique_ptr<Kernel> make_embedding(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_spatial_embedding(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_visual_embedding(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_patchify(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_pack_rows(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_gather_rows(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_concat_heads(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_split_heads(const Graph& graph, const Node& node);

// pairs.cpp: every two rows of a group
std::unique_ptr<Kernel> make_pair_scores(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_pair_scores_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_join_pairs(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_join_pairs_grad(const Graph& graph, const Node& node);

// contrastive.cpp
std::unique_ptr<Kernel> make_contrastive_loss(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_cached_gradient(const Graph& graph, const Node& node);

// row_gradients.cpp: sums of rows
std::unique_ptr<Kernel> make_embedding_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_embedding_row_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_spatial_embedding_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_visual_embedding_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_bias_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_merge_row_grads(const Graph& graph, const Node& node);

// loss.cpp
std::unique_ptr<Kernel> make_label_scores(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_softmax_sums(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_cross_entropy_part(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_cross_entropy(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_element_loss(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_span_cross_entropy(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_soft_cross_entropy(const Graph& graph, const Node& node);

// relations.cpp
std::unique_ptr<Kernel> make_relation_loss(const Graph& graph, const Node& node);

// update.cpp
std::unique_ptr<Kernel> make_sum_squares(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_gradient_norm(const Graph& graph, const Node& node);

// adamw.cpp, adafactor.cpp: each also serves its op by rows
std::unique_ptr<Kernel> make_adamw(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_adafactor(const Graph& graph, const Node& node);

// Returns the address of a tensor's element, whatever its type.
inline void* element(const TensorView& view, std::int64_t index) {
  return static_cast<std::byte*>(view.raw()) + static_cast<std::size_t>(index) * dtype_bytes(view.dtype());
}

// Makes a kernel from a callable `void(const KernelArguments&)` and its scratch size.
template <typename Run>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Run run, std::size_t scratch_bytes) : run_(std::move(run)), scratch_bytes_(scratch_bytes) {}
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void run(const KernelArguments& arguments) const override { run_(arguments); }

 private:
  Run run_;
  std::size_t scratch_bytes_;
};

template <typename Run>
std::unique_ptr<Kernel> make_kernel(Run run, std::size_t scratch_bytes = 0) {
  return std::make_unique<FunctionKernel<Run>>(std::move(run), scratch_bytes);
}

}  // namespace plimsoll
