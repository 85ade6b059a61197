// The matrix of biases that attention's scores begin with: for each query, head and key of the query's sample, the sum
// of the entries of the tables of position, x and y for their distances, rounded once to the type of q, or -infinity if
// the key is masked or does not exist. A thread finds the bins of a few neighbouring keys once, for all heads, whose
// values are side by side in shared memory.
#include <algorithm>

#include "backend/cuda/attention.h"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 256, kBlockQueries = 8;
constexpr int kHeadsAtOnce = 4;  // a thread reads their values in 16 bytes

struct BiasShared {
  SharedPieces pieces;
  SharedPiece<std::uint8_t> bins;  // of distances
  SharedPiece<float> values;       // [rows][heads]: the bins of all tables, then the values of a masked key, then zeros
  int heads;                       // a whole number of kHeadsAtOnce
  int shut, none;                  // the last two rows

  PLIMSOLL_HOST_DEVICE explicit BiasShared(const AttentionShape& shape)
      : heads((shape.heads + kHeadsAtOnce - 1) / kHeadsAtOnce * kHeadsAtOnce),
        shut(shape.all_bins()),
        none(shape.all_bins() + 1) {
    bins = pieces.take<std::uint8_t>(shape.distances());
    values = pieces.take<float>((shape.all_bins() + 2) * heads);
  }
};

__device__ void fill_values(const BiasShared& shared, const BiasTensors& in, const AttentionShape& shape) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (int t = 0; t < kTables; ++t) {
    const BucketEdges& edges = shape.edges[t];
    for (int i = thread; i < edges.bins * shared.heads; i += kThreads) {
      const int bin = i / shared.heads, head = i % shared.heads;
      shared.values[edges.first * shared.heads + i] = head < shape.heads ? in.tables[t][head * edges.bins + bin] : 0.0F;
    }
  }
  for (int head = thread; head < shared.heads; head += kThreads) {
    shared.values[shared.shut * shared.heads + head] = -INFINITY;
    shared.values[shared.none * shared.heads + head] = 0;
  }
}

// Fills all columns of the rows if they are kAttentionBias's output, else those up to a multiple of kBiasColumns, which
// is all that attention reads.
template <typename T>
__global__ void __launch_bounds__(kThreads) attention_bias(const BiasTensors in, const AttentionShape shape, T* to) {
  constexpr int kChunk = 16 / sizeof(T);
  using Heads = Pack<float, kHeadsAtOnce>;
  const std::int64_t begin = in.offsets[blockIdx.y];
  const int length = in.offsets[blockIdx.y + 1] - in.offsets[blockIdx.y];
  const int first = static_cast<int>(blockIdx.x) * kBlockQueries;
  if (first >= length) return;
  const BiasShared shared(shape);
  number_bins(+shared.bins, shape);
  fill_values(shared, in, shape);
  __syncthreads();

  const int whole = (length + kBiasColumns - 1) / kBiasColumns * kBiasColumns;
  const bool all_columns = shape.form.op == Op::kAttentionBias;
  const int chunks = (!all_columns && whole < shape.bias_stride ? whole : shape.bias_stride) / kChunk;
  for (int item = static_cast<int>(threadIdx.x); item < kBlockQueries * chunks; item += kThreads) {
    const int query = first + item / chunks, key = item % chunks * kChunk;
    if (query >= length) break;
    const std::int32_t* const of_query = in.coordinates + kTables * (begin + query);
    int row[kChunk][kTables];  // where each table's row of values begins
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const bool open = key + i < length && in.key_mask[begin + key + i] != 0;
      const std::int32_t* const of_key = in.coordinates + kTables * (begin + (open ? key + i : query));
#pragma unroll
      for (int t = 0; t < kTables; ++t) {
        const BucketEdges& edges = shape.edges[t];
        const int distance = distance_number(shape, t, distance_of_key(edges, of_key[t]), of_query[t]);
        row[i][t] = (edges.bins == 0 ? shared.none : edges.first + shared.bins[distance]) * shared.heads;
      }
      if (!open) row[i][0] = shared.shut * shared.heads;
    }
    T* const at = to + (begin + query) * shape.heads * shape.bias_stride + key;
    for (int head = 0; head < shape.heads; head += kHeadsAtOnce) {
      Pack<T, kChunk> values[kHeadsAtOnce];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const auto parts = [&](int t) { return *reinterpret_cast<const Heads*>(shared.values + row[i][t] + head); };
        const Heads position = parts(0), x = parts(1), y = parts(2);
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; ++h) {
          values[h].at[i] = from_float<T>(position.at[h] + x.at[h] + y.at[h]);
        }
      }
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        if (head + h >= shape.heads) break;
        *reinterpret_cast<Pack<T, kChunk>*>(at + (head + h) * shape.bias_stride) = values[h];
      }
    }
  }
}

std::size_t shared_bytes_of(const AttentionShape& shape) { return BiasShared(shape).pieces.bytes(); }

template <typename T>
void start(const Context& context, const BiasTensors& in, const AttentionShape& shape, std::int64_t longest, T* to) {
  launch(context.stream(), attention_bias<T>,
         {.blocks = static_cast<unsigned>((longest + kBlockQueries - 1) / kBlockQueries),
          .threads = kThreads,
          .blocks_y = static_cast<unsigned>(shape.samples),
          .shared_bytes = shared_bytes_of(shape)},
         in, shape, to);
}

}  // namespace

template <typename T>
void prepare_biases(const Context& context, const AttentionShape& shape) {
  if (shape.bias_stride > 0 && !shape.form.made_biases)
    allow_shared_memory(context, attention_bias<T>, shared_bytes_of(shape));
}

template <typename T>
void make_biases(const Context& context, AttentionTensors<T>& in, const AttentionShape& shape, std::int64_t longest,
                 std::byte* scratch) {
  if (shape.bias_stride == 0 || shape.form.made_biases) return;
  auto* const biases = reinterpret_cast<T*>(scratch);
  start<T>(context, in, shape, longest, biases);
  in.biases = biases;
}

std::unique_ptr<Kernel> make_attention_bias(const Context& context, const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node);
  return for_floating(graph.type(node.outputs[0]).dtype, [&]<typename T>(T) {
    prepare_biases<T>(context, shape);
    return make_launch(0, [=, &context](const KernelArguments& a) {
      start(context, BiasTensors(a, shape.form), shape, a.bound(shape.longest), output<T>(a, 0));
    });
  });
}

template void prepare_biases<float>(const Context&, const AttentionShape&);
template void prepare_biases<Bf16>(const Context&, const AttentionShape&);
template void prepare_biases<F16>(const Context&, const AttentionShape&);
template void make_biases(const Context&, AttentionTensors<float>&, const AttentionShape&, std::int64_t, std::byte*);
template void make_biases(const Context&, AttentionTensors<Bf16>&, const AttentionShape&, std::int64_t, std::byte*);
template void make_biases(const Context&, AttentionTensors<F16>&, const AttentionShape&, std::int64_t, std::byte*);

}  // namespace plimsoll::cuda
