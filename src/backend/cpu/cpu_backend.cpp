#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/collectives.h"
#include "backend/column_sums_kernel.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/kernels.h"
#include "backend/partial_sums_kernel.h"
#include "backend/row_parts.h"
#include "backend/skippable_update.h"
#include "backend/transfers.h"
#include "base/bytes.h"
#include "base/process.h"
#include "graph/column_sums.h"
#include "graph/op_facts.h"
#include "graph/op_table.h"
#include "graph/partial_sums.h"
#include "graph/update_form.h"
#include "hwy/targets.h"

namespace plimsoll {

namespace {

using Factory = std::unique_ptr<Kernel> (*)(const Graph&, const Node&);
constexpr OpTable<Factory> kFactories = {
    {Op::kEmbedding, make_embedding},
    {Op::kSpatialEmbedding, make_spatial_embedding},
    {Op::kPatchify, make_patchify},
    {Op::kVisualEmbedding, make_visual_embedding},
    {Op::kAdd, make_add},
    {Op::kScale, make_scale},
    {Op::kMultiply, make_multiply},
    {Op::kInverseRowNorms, make_inverse_row_norms},
    {Op::kLayerNorm, make_layer_norm},
    {Op::kRmsNorm, make_rms_norm},
    {Op::kAffine, make_affine},
    {Op::kDropout, make_dropout},
    {Op::kPackRows, make_pack_rows},
    {Op::kGatherRows, make_gather_rows},
    {Op::kTakeRows, make_take_rows_kernel},
    {Op::kJoinRows, make_join_rows_kernel},
    {Op::kConcatHeads, make_concat_heads},
    {Op::kSplitHeads, make_split_heads},
    {Op::kPairScores, make_pair_scores},
    {Op::kJoinPairs, make_join_pairs},
    {Op::kRotaryTable, make_rotary_table},
    {Op::kRotary, make_rotary},
    {Op::kAttentionBias, make_attention_bias},
    {Op::kAttention, make_attention},
    {Op::kCachedAttention, make_cached_attention},
    {Op::kGelu, make_gelu},
    {Op::kSiluMultiply, make_silu_multiply},
    {Op::kTanh, make_tanh},
    {Op::kRelu, make_relu},
    {Op::kCast, make_cast},
    {Op::kLabelScores, make_label_scores},
    {Op::kSoftmaxSums, make_softmax_sums},
    {Op::kCrossEntropyPart, make_cross_entropy_part},
    {Op::kCrossEntropy, make_cross_entropy},
    {Op::kElementLoss, make_element_loss},
    {Op::kSpanCrossEntropy, make_span_cross_entropy},
    {Op::kSoftCrossEntropy, make_soft_cross_entropy},
    {Op::kRelationLoss, make_relation_loss},
    {Op::kContrastiveLoss, make_contrastive_loss},
    {Op::kCachedGradient, make_cached_gradient},
    {Op::kEmbeddingGrad, make_embedding_grad},
    {Op::kEmbeddingRowGrad, make_embedding_row_grad},
    {Op::kSpatialEmbeddingGrad, make_spatial_embedding_grad},
    {Op::kVisualEmbeddingGrad, make_visual_embedding_grad},
    {Op::kBiasGrad, make_bias_grad},
    {Op::kLayerNormGrad, make_layer_norm_grad},
    {Op::kRmsNormGrad, make_rms_norm_grad},
    {Op::kAttentionGrad, make_attention_grad},
    {Op::kPairScoresGrad, make_pair_scores_grad},
    {Op::kJoinPairsGrad, make_join_pairs_grad},
    {Op::kReluGrad, make_relu_grad},
    {Op::kGeluGrad, make_gelu_grad},
    {Op::kSiluMultiplyGrad, make_silu_multiply_grad},
    {Op::kTanhGrad, make_tanh_grad},
    {Op::kAccumulate, make_accumulate},
    {Op::kMergeRowGrads, make_merge_row_grads},
    {Op::kPutRows, make_put_rows_kernel},
    {Op::kSumSquares, make_sum_squares},
    {Op::kGradientNorm, make_gradient_norm},
    {Op::kAdamW, make_adamw},
    {Op::kAdamWRows, make_adamw},
    {Op::kAdafactor, make_adafactor},
    {Op::kAdafactorRows, make_adafactor},
};

// Products share oneDNN's primitives.
using ProductFactory = std::unique_ptr<Kernel> (*)(const Graph&, const Node&, MatmulCache&);
constexpr OpTable<ProductFactory> kProductFactories = {
    {Op::kLinear, make_linear},
    {Op::kLinearAdd, make_linear_add},
    {Op::kLinearInt8, make_linear_int8},
    {Op::kLinearInputGrad, make_linear_input_grad},
    {Op::kLinearWeightGrad, make_linear_weight_grad},
};

std::unique_ptr<Kernel> make(const Graph& graph, const Node& node, MatmulCache& cache) {
  const auto again = [&](const Graph& g, const Node& n) { return make(g, n, cache); };
  if (partial_sums(node) > 0) return partial_sums_kernel(graph, node, again);
  if (!column_sums(node).empty()) return column_sums_kernel(graph, node, again);
  const bool has_bias = (node.op == Op::kLinear || node.op == Op::kLinearInt8) && node.inputs.size() == 3;
  if (has_bias && is_half(graph.type(node.inputs[2]).dtype)) return with_wide_bias(graph, node, again);
  if (kProductFactories[node.op] != nullptr) return kProductFactories[node.op](graph, node, cache);
  check(kFactories[node.op] != nullptr,
        [&] { return fmt::format("the CPU backend has no kernel for {} (node '{}')", op_name(node.op), node.name); });
  return kFactories[node.op](graph, node);
}

// Runs a kernel on the backend's team, whichever thread calls and whatever other backends there are.
class TeamKernel final : public Kernel {
 public:
  TeamKernel(std::unique_ptr<Kernel> kernel, int threads) : kernel_(std::move(kernel)), threads_(threads) {}
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  void run(const KernelArguments& arguments) const override {
    omp_set_num_threads(threads_);
    kernel_->run(arguments);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  int threads_;
};

// One anonymous mapping, unmapped on destruction.
class MappedMemory final : public DeviceMemory {
 public:
  explicit MappedMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      throw EnvironmentError({.what = "the system refused memory",
                              .found = fmt::format("{} asked for: {}", format_bytes(bytes), std::strerror(errno)),
                              .remedy = "lower --budget, or free memory on this machine"});
    }
    data_ = static_cast<std::byte*>(address);
    ::madvise(address, bytes,
              MADV_HUGEPAGE);  // best effort: fewer TLB misses; every page is touched anyway
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (std::size_t offset = 0; offset < bytes; offset += page)
      static_cast<volatile std::byte*>(data_)[offset] = std::byte{0};
  }
  ~MappedMemory() override {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::span<std::byte> bytes() const override { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

namespace {

// libgomp ends the process if it cannot start a thread. Starting threads here first makes that an ordinary error.
void expect_threads(int count) {
  std::mutex gate;
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(std::max(0, count)));
  const std::scoped_lock closed(gate);  // keeps all threads alive at once; opened before they are joined
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&gate] { const std::scoped_lock pass(gate); });
  }
}

}  // namespace

CpuBackend::CpuBackend(int threads, GeneralProducts general)
    : threads_(threads > 0 ? threads : available_cores()), matmuls_(std::make_unique<MatmulCache>(general)) {
  expect_threads(threads_ - 1);
  omp_set_dynamic(0);
  // Kernels keep pointers to their functions for this machine's vectors, so the target is chosen before the first one.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

CpuBackend::~CpuBackend() = default;

void CpuBackend::release_unused() { matmuls_->release_unused(); }

void CpuBackend::make_code() { matmuls_->make_code(); }

std::size_t CpuBackend::code_bytes() const { return matmuls_->code_bytes(); }

std::unique_ptr<Kernel> CpuBackend::prepare(const Graph& graph, const Node& node) {
  if (is_transfer(node.op)) return make_transfer_kernel(node);
  if (is_collective(node.op)) return make_collective_kernel(node);
  if (node.op == Op::kSlice) return make_slice_kernel(node);
  if (node.op == Op::kAddPartialSums) return make_add_partial_sums_kernel(node);
  const OpFacts& facts = op_facts(node.op);
  for (const auto& list : {node.inputs, node.outputs}) {
    for (const ValueId id : list) {
      const DType dtype = graph.type(id).dtype;
      const bool known = dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kF64 ||
                         (is_half(dtype) && facts.takes_halves) || (is_coded(dtype) && facts.takes_codes) ||
                         is_parameter_update(node.op);  // the shape rule has checked its types
      check(known, [&] {
        return fmt::format("the CPU backend has no kernel for this type: node '{}' ({}) has '{}' of {}", node.name,
                           op_name(node.op), graph.value(id).name, to_string(graph.type(id)));
      });
    }
  }
  omp_set_num_threads(threads_);  // oneDNN fixes its partition when a primitive is made, and attention its scratch
  std::unique_ptr<Kernel> kernel = std::make_unique<TeamKernel>(make(graph, node, *matmuls_), threads_);
  if (is_parameter_update(node.op)) return std::make_unique<SkippableUpdate>(std::move(kernel));
  return kernel;
}

// oneDNN's general product packs its operands into buffers of each thread's own: for the base model's shapes up to 0.83
// MiB per thread, and 2.51 MiB where it divides the product along one dimension only, among 3, 5, 6 or 7 threads. One
// or two threads take 2.7 MiB in all, which every run's reserve covers.
std::size_t CpuBackend::library_bytes() const {
  constexpr std::size_t kCovered = 2900 * kKiB, kWhole = 2600 * kKiB, kPart = 870 * kKiB;
  if (threads_ <= 2 || !matmuls_->has_general_f32()) return 0;
  const std::size_t bytes = static_cast<std::size_t>(threads_) * (threads_ == 4 || threads_ > 7 ? kPart : kWhole);
  return bytes - std::min(bytes, kCovered);
}

bool CpuBackend::multiplies_int8() const { return plimsoll::multiplies_int8(); }

std::unique_ptr<DeviceMemory> CpuBackend::allocate(std::size_t bytes) { return std::make_unique<MappedMemory>(bytes); }

}  // namespace plimsoll
