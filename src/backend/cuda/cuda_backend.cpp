#include "backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/graph_recorder.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/named_kernel.h"
#include "backend/cuda/pinned_store.h"
#include "backend/cuda/rank_exchange.h"
#include "backend/cuda/sizes/sizes.h"
#include "backend/transfers.h"

namespace plimsoll {
namespace {

class Slice final : public Kernel {
 public:
  Slice(const cuda::Context& context, const Node& node)
      : context_(context), first_(std::get<SliceAttributes>(node.attributes).first) {}

  void run(const KernelArguments& a) const override {
    const TensorView& slice = a.outputs[0];
    if (slice.bytes() == 0) return;
    const auto offset = static_cast<std::size_t>(first_) * dtype_bytes(slice.dtype());
    cuda::check_cuda(cudaMemcpyAsync(slice.raw(), static_cast<const std::byte*>(a.inputs[0].raw()) + offset,
                                     slice.bytes(), cudaMemcpyDeviceToDevice, context_.stream()),
                     "the copy of a part of a tensor");
  }

 private:
  const cuda::Context& context_;
  std::int64_t first_;
};

}  // namespace

CudaBackend::CudaBackend(int device) : context_(std::make_unique<cuda::Context>(device)) {}
CudaBackend::~CudaBackend() = default;

std::unique_ptr<Kernel> CudaBackend::prepare(const Graph& graph, const Node& node) {
  std::unique_ptr<Kernel> kernel = make(graph, node);
  return cuda::names_ranges() ? cuda::named_kernel(node, std::move(kernel)) : std::move(kernel);
}

std::unique_ptr<Kernel> CudaBackend::make(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kScale:
    case Op::kDropout:
    case Op::kGelu:
    case Op::kGeluGrad:
    case Op::kSiluMultiply:
    case Op::kSiluMultiplyGrad:
    case Op::kTanh:
    case Op::kTanhGrad:
    case Op::kRelu:
    case Op::kReluGrad:
    case Op::kCast:
    case Op::kAccumulate:
      return cuda::make_elementwise(*context_, graph, node);
    case Op::kLayerNorm:
    case Op::kAffine:
    case Op::kLayerNormGrad:
      return cuda::make_normalisation(*context_, graph, node);
    case Op::kRmsNorm:
    case Op::kRmsNormGrad:
      return cuda::make_rms_norm(*context_, graph, node);
    case Op::kRotaryTable:
    case Op::kRotary:
      return cuda::make_rotary(*context_, graph, node);
    case Op::kInverseRowNorms:
      return cuda::make_inverse_row_norms(*context_, graph, node);
    case Op::kLinear:
    case Op::kLinearAdd:
    case Op::kLinearInputGrad:
    case Op::kLinearWeightGrad:
      return cuda::make_linear(*context_, matmuls(), graph, node);
    case Op::kLinearInt8:
      return cuda::make_linear_int8(*context_, graph, node);
    case Op::kEmbedding:
    case Op::kSpatialEmbedding:
    case Op::kEmbeddingGrad:
    case Op::kSpatialEmbeddingGrad:
      return cuda::make_embedding(*context_, graph, node);
    case Op::kPatchify:
    case Op::kVisualEmbedding:
    case Op::kVisualEmbeddingGrad:
    case Op::kPackRows:
    case Op::kGatherRows:
    case Op::kTakeRows:
    case Op::kJoinRows:
    case Op::kConcatHeads:
    case Op::kSplitHeads:
      return cuda::make_rows(*context_, graph, node);
    case Op::kPairScores:
    case Op::kPairScoresGrad:
    case Op::kJoinPairs:
    case Op::kJoinPairsGrad:
      return cuda::make_pairs(*context_, graph, node);
    case Op::kLabelScores:
    case Op::kSoftmaxSums:
    case Op::kCrossEntropyPart:
    case Op::kCrossEntropy:
    case Op::kElementLoss:
    case Op::kSpanCrossEntropy:
    case Op::kSoftCrossEntropy:
      return cuda::make_loss(*context_, graph, node);
    case Op::kRelationLoss:
      return cuda::make_relation_loss(*context_, graph, node);
    case Op::kContrastiveLoss:
    case Op::kCachedGradient:
    case Op::kPutRows:
      return cuda::make_contrastive(*context_, graph, node);
    case Op::kEmbeddingRowGrad:
    case Op::kMergeRowGrads:
      return cuda::make_row_gradients(*context_, graph, node);
    case Op::kBiasGrad:
    case Op::kAddPartialSums:
    case Op::kSumSquares:
    case Op::kGradientNorm:
      return cuda::make_reductions(*context_, graph, node);
    case Op::kAdamW:
    case Op::kAdamWRows:
      return cuda::make_adamw(*context_, graph, node);
    case Op::kAdafactor:
    case Op::kAdafactorRows:
      return cuda::make_adafactor(*context_, graph, node);
    case Op::kAttentionBias:
      return cuda::make_attention_bias(*context_, graph, node);
    case Op::kAttention:
      return cuda::make_attention(*context_, graph, node);
    case Op::kCachedAttention:
      return cuda::make_cached_attention(*context_, graph, node);
    case Op::kAttentionGrad:
      return cuda::make_attention_grad(*context_, graph, node);
    case Op::kFetchBegin:
    case Op::kFetchEnd:
    case Op::kStoreBegin:
    case Op::kStoreEnd:
      return make_transfer_kernel(node);
    case Op::kSlice:
      return std::make_unique<Slice>(*context_, node);
    case Op::kReduceScatterBegin:
    case Op::kReduceScatterEnd:
    case Op::kAllGatherBegin:
    case Op::kAllGatherEnd:
    case Op::kGatherShardsBegin:
    case Op::kAllReduceBegin:
    case Op::kAllReduceEnd:
    case Op::kGatherRowsBegin:
    case Op::kGatherRowsEnd:
    case Op::kAllToAllRowsBegin:
    case Op::kAllToAllRowsEnd:
      return cuda::make_collective(*context_, graph, node);
  }
  check(false, [&] { return fmt::format("the CUDA backend knows every op of the catalogue; node '{}'", node.name); });
  return nullptr;
}

std::unique_ptr<DeviceMemory> CudaBackend::allocate(std::size_t bytes) { return context_->allocate(bytes); }
const cuda::Gpu& CudaBackend::gpu() const { return context_->gpu(); }
std::optional<DeviceUse> CudaBackend::device_use() { return gpu().use(); }
std::size_t CudaBackend::reserved_bytes() {
  const std::size_t held = gpu().use().held_bytes;
  return held - std::min(held, context_->allocated_bytes());
}
void CudaBackend::wait() { context_->wait(context_->stream(), "the kernels that were started"); }

void CudaBackend::connect(Communicator& ranks, std::chrono::milliseconds timeout) {
  exchange_ = std::make_unique<cuda::RankExchange>(*context_, cuda::load_nccl(), ranks, timeout);
  context_->use(exchange_.get());
}
std::size_t CudaBackend::connection_bytes() const { return exchange_ == nullptr ? 0 : exchange_->device_bytes(); }

cuda::Matmuls& CudaBackend::matmuls() {
  if (matmuls_ == nullptr) matmuls_ = std::make_unique<cuda::Matmuls>(*context_, cuda::load_cublaslt());
  return *matmuls_;
}

void CudaBackend::multiply_one_by_one() { matmuls().run_no_batches(); }

std::optional<TransferSpeed> CudaBackend::offload_speed() {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  constexpr double kTimes = 4, kLeastMilliseconds = 1e-3;
  const cuda::PinnedBytes here(kBytes, "to measure how fast the device reads it");
  const cuda::DeviceBytes there(kBytes);
  const cudaStream_t stream = context_->stream();
  const auto bytes_per_second = [&](void* to, const void* from, cudaMemcpyKind kind) {
    const auto copy = [&] {
      cuda::check_cuda(cudaMemcpyAsync(to, from, kBytes, kind, stream), "a copy that is timed");
    };
    const cuda::Event begin, end;
    copy();  // the first one warms up
    begin.record(stream);
    for (int i = 0; i < static_cast<int>(kTimes); ++i) copy();
    end.record(stream);
    end.wait();
    const double milliseconds = std::max(kLeastMilliseconds, double{end.milliseconds_since(begin)});
    return kTimes * static_cast<double>(kBytes) / (1e-3 * milliseconds);
  };
  void *const host = here.bytes().data(), *const device = there.bytes().data();
  return TransferSpeed{.read_bytes_per_second = bytes_per_second(device, host, cudaMemcpyHostToDevice),
                       .write_bytes_per_second = bytes_per_second(host, device, cudaMemcpyDeviceToHost),
                       .both_ways = true};
}

BufferBytes CudaBackend::buffer_bytes(std::size_t arena_bytes) const {
  const std::size_t bytes = cuda::copy_ring_bytes(arena_bytes);
  return {.device = bytes, .host = bytes};
}

std::unique_ptr<OffloadStore> CudaBackend::make_offload_store(std::uint64_t bytes, std::size_t tickets) {
  return std::make_unique<cuda::PinnedStore>(*context_, bytes, tickets);
}

std::unique_ptr<Recorder> CudaBackend::make_recorder() {
  if (!records_) return nullptr;
  return std::make_unique<cuda::GraphRecorder>(*context_);
}

void CudaBackend::prepare_bounds(std::span<const std::int64_t> row_bounds) { matmuls().prepare(row_bounds); }
Choices CudaBackend::choices() { return matmuls().choices(); }
bool CudaBackend::use_choices(const Choices& choices, const std::string& where) {
  return matmuls().use(choices, where);
}
std::size_t CudaBackend::tune(const DeviceMemory& memory) { return matmuls().tune(memory.bytes()); }

}  // namespace plimsoll
