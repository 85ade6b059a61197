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

#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/kernels.h"
#include "backend/skippable_update.h"
#include "backend/transfers.h"
#include "base/bytes.h"
#include "base/process.h"
#include "graph/update_form.h"
#include "hwy/targets.h"

namespace plimsoll {

namespace {

using Factory = std::unique_ptr<Kernel> (*)(const Graph&, const Node&);

// Returns nullptr if this backend has no such kernel.
Factory factory_of(Op op) {
  switch (op) {
    case Op::kEmbedding:
      return make_embedding;
    case Op::kSpatialEmbedding:
      return make_spatial_embedding;
    case Op::kPatchify:
      return make_patchify;
    case Op::kVisualEmbedding:
      return make_visual_embedding;
    case Op::kAdd:
      return make_add;
    case Op::kScale:
      return make_scale;
    case Op::kLayerNorm:
      return make_layer_norm;
    case Op::kLayerNormAffine:
      return make_layer_norm_affine;
    case Op::kDropout:
      return make_dropout;
    case Op::kPackRows:
      return make_pack_rows;
    case Op::kGatherRows:
      return make_gather_rows;
    case Op::kConcatHeads:
      return make_concat_heads;
    case Op::kSplitHeads:
      return make_split_heads;
    case Op::kPairScores:
      return make_pair_scores;
    case Op::kAttention:
      return make_attention;
    case Op::kGelu:
      return make_gelu;
    case Op::kTanh:
      return make_tanh;
    case Op::kRelu:
      return make_relu;
    case Op::kCast:
      return make_cast;
    case Op::kCrossEntropy:
      return make_cross_entropy;
    case Op::kElementLoss:
      return make_element_loss;
    case Op::kSpanCrossEntropy:
      return make_span_cross_entropy;
    case Op::kEmbeddingGrad:
      return make_embedding_grad;
    case Op::kEmbeddingRowGrad:
      return make_embedding_row_grad;
    case Op::kSpatialEmbeddingGrad:
      return make_spatial_embedding_grad;
    case Op::kVisualEmbeddingGrad:
      return make_visual_embedding_grad;
    case Op::kBiasGrad:
      return make_bias_grad;
    case Op::kLayerNormGrad:
      return make_layer_norm_grad;
    case Op::kAttentionGrad:
      return make_attention_grad;
    case Op::kPairScoresGrad:
      return make_pair_scores_grad;
    case Op::kReluGrad:
      return make_relu_grad;
    case Op::kGeluGrad:
      return make_gelu_grad;
    case Op::kTanhGrad:
      return make_tanh_grad;
    case Op::kAccumulate:
      return make_accumulate;
    case Op::kMergeRowGrads:
      return make_merge_row_grads;
    case Op::kSumSquares:
      return make_sum_squares;
    case Op::kGradientNorm:
      return make_gradient_norm;
    case Op::kAdamW:
    case Op::kAdamWRows:
      return make_adamw;
    case Op::kAdafactor:
    case Op::kAdafactorRows:
      return make_adafactor;
    default:
      return nullptr;
  }
}

// True for the ops of an encoder layer and those between it and the rest of the model.
bool takes_halves(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kLinear:
    case Op::kLinearAdd:
    case Op::kScale:
    case Op::kLayerNorm:
    case Op::kLayerNormAffine:
    case Op::kDropout:
    case Op::kPackRows:
    case Op::kGatherRows:
    case Op::kConcatHeads:
    case Op::kSplitHeads:
    case Op::kAttention:
    case Op::kGelu:
    case Op::kTanh:
    case Op::kRelu:
    case Op::kCast:
    case Op::kLinearInputGrad:
    case Op::kLinearWeightGrad:
    case Op::kBiasGrad:
    case Op::kLayerNormGrad:
    case Op::kAttentionGrad:
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kTanhGrad:
      return true;
    default:
      return false;
  }
}

bool takes_codes(Op op) { return op == Op::kLinear || op == Op::kLinearInputGrad || op == Op::kEmbedding; }

std::unique_ptr<Kernel> make(const Graph& graph, const Node& node, MatmulCache& cache) {
  switch (node.op) {
    case Op::kLinear:
      return make_linear(graph, node, cache);
    case Op::kLinearAdd:
      return make_linear_add(graph, node, cache);
    case Op::kLinearInputGrad:
      return make_linear_input_grad(graph, node, cache);
    case Op::kLinearWeightGrad:
      return make_linear_weight_grad(graph, node, cache);
    default:
      break;
  }
  const Factory factory = factory_of(node.op);
  check(factory != nullptr,
        [&] { return fmt::format("the CPU backend has no kernel for {} (node '{}')", op_name(node.op), node.name); });
  return factory(graph, node);
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

CpuBackend::CpuBackend(int threads)
    : threads_(threads > 0 ? threads : available_cores()), matmuls_(std::make_unique<MatmulCache>()) {
  expect_threads(threads_ - 1);
  omp_set_dynamic(0);
  // Kernels keep pointers to their functions for this machine's vectors, so the target is chosen before the first one.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

CpuBackend::~CpuBackend() = default;

std::unique_ptr<Kernel> CpuBackend::prepare(const Graph& graph, const Node& node) {
  if (is_transfer(node.op)) return make_transfer_kernel(node);
  for (const auto& list : {node.inputs, node.outputs}) {
    for (const ValueId id : list) {
      const DType dtype = graph.type(id).dtype;
      const bool known = dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kF64 ||
                         (is_half(dtype) && takes_halves(node.op)) || (is_coded(dtype) && takes_codes(node.op)) ||
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

// oneDNN's general product packs its operands into buffers that each thread has for itself: with base's shapes up to
// 0.83 MiB a thread, and 2.51 MiB where it divides the product along one dimension only, among 3, 5, 6 or 7 threads.
// One or two threads take 2.7 MiB in all, which every run's reserve covers.
std::size_t CpuBackend::library_bytes() const {
  constexpr std::size_t kCovered = 2900 * kKiB, kWhole = 2600 * kKiB, kPart = 870 * kKiB;
  if (threads_ <= 2 || !matmuls_->is_general(DType::kF32, DType::kF32)) return 0;
  const std::size_t bytes = static_cast<std::size_t>(threads_) * (threads_ == 4 || threads_ > 7 ? kPart : kWhole);
  return bytes - std::min(bytes, kCovered);
}

std::unique_ptr<DeviceMemory> CpuBackend::allocate(std::size_t bytes) { return std::make_unique<MappedMemory>(bytes); }

}  // namespace plimsoll
