// Makes the kernels, one file per group of ops.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "backend/cuda/context.h"

namespace plimsoll::cuda {

class Matmuls;

std::unique_ptr<Kernel> make_attention(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_cached_attention(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_attention_bias(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_attention_grad(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_elementwise(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_normalisation(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_rms_norm(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_rotary(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_inverse_row_norms(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_linear(const Context& context, Matmuls& matmuls, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_linear_int8(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_embedding(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_rows(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_pairs(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_contrastive(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_loss(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_relation_loss(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_row_gradients(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_reductions(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_adamw(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_collective(const Context& context, const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_adafactor(const Context& context, const Graph& graph, const Node& node);

// Fills `count` elements of F32, BF16 or F16 with numbers of the standard normal distribution, the same ones for the
// same seed.
void fill_normal(const Context& context, DType dtype, void* to, std::int64_t count, std::uint32_t seed);

}  // namespace plimsoll::cuda
