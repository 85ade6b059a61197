// The matrix of biases that attention's scores begin with: for each query, head and key of the query's sample the sum
// of what the tables of position, x and y have for their distances, rounded once to the type of q; -infinity where the
// key is masked or does not exist. A thread finds the bins of a few neighbouring keys once, for all heads.
#include "backend/cuda/attention.h"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 256, kBlockQueries = 8;

template <typename T>
__global__ void attention_bias(const AttentionTensors<T> in, const AttentionShape shape, T* to) {
  constexpr int kChunk = 16 / sizeof(T);
  const std::int64_t begin = in.offsets[blockIdx.y], end = in.offsets[blockIdx.y + 1];
  const std::int64_t first = begin + static_cast<std::int64_t>(blockIdx.x) * kBlockQueries;
  if (first >= end) return;
  auto* const bins = dynamic_shared<std::uint8_t>();
  number_bins(bins, shape);
  __syncthreads();

  const std::int64_t whole = (end - begin + kBiasColumns - 1) / kBiasColumns * kBiasColumns;
  const int chunks = static_cast<int>((whole < shape.bias_stride ? whole : shape.bias_stride) / kChunk);
  for (int item = static_cast<int>(threadIdx.x); item < kBlockQueries * chunks; item += kThreads) {
    const std::int64_t query = first + item / chunks, key = begin + item % chunks * kChunk;
    if (query >= end) break;
    int found[kChunk][kTables];
    bool open[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      open[i] = key + i < end && in.key_mask[key + i] != 0;
      const std::int64_t at = open[i] ? key + i : query;
#pragma unroll
      for (int t = 0; t < kTables; ++t) {
        const int of_key = distance_of_key(shape.edges[t], in.coordinates[kTables * at + t]);
        found[i][t] = bins[distance_number(shape, t, of_key, in.coordinates[kTables * query + t])];
      }
    }
    for (int head = 0; head < shape.heads; ++head) {
      Pack<T, kChunk> values;
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        float sum = 0;
#pragma unroll
        for (int t = 0; t < kTables; ++t) {
          if (shape.edges[t].bins > 0) sum += in.tables[t][head * shape.edges[t].bins + found[i][t]];
        }
        values.at[i] = from_float<T>(open[i] ? sum : -INFINITY);
      }
      *reinterpret_cast<Pack<T, kChunk>*>(to + (query * shape.heads + head) * shape.bias_stride + key - begin) = values;
    }
  }
}

std::size_t shared_bytes_of(const AttentionShape& shape) { return static_cast<std::size_t>(shape.distances()); }

}  // namespace

template <typename T>
void prepare_biases(const Context& context, const AttentionShape& shape) {
  if (shape.bias_stride > 0) allow_shared_memory(context, attention_bias<T>, shared_bytes_of(shape));
}

template <typename T>
const T* make_biases(const Context& context, const AttentionTensors<T>& in, const AttentionShape& shape,
                     std::int64_t longest, std::byte* scratch) {
  if (shape.bias_stride == 0) return nullptr;
  auto* const biases = reinterpret_cast<T*>(scratch);
  launch(context.stream(), attention_bias<T>,
         {.blocks = static_cast<unsigned>((longest + kBlockQueries - 1) / kBlockQueries),
          .threads = kThreads,
          .blocks_y = static_cast<unsigned>(shape.samples),
          .shared_bytes = shared_bytes_of(shape)},
         in, shape, biases);
  return biases;
}

template void prepare_biases<float>(const Context&, const AttentionShape&);
template void prepare_biases<Bf16>(const Context&, const AttentionShape&);
template void prepare_biases<F16>(const Context&, const AttentionShape&);
template const float* make_biases(const Context&, const AttentionTensors<float>&, const AttentionShape&, std::int64_t,
                                  std::byte*);
template const Bf16* make_biases(const Context&, const AttentionTensors<Bf16>&, const AttentionShape&, std::int64_t,
                                 std::byte*);
template const F16* make_biases(const Context&, const AttentionTensors<F16>&, const AttentionShape&, std::int64_t,
                                std::byte*);

}  // namespace plimsoll::cuda
