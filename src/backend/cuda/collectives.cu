// The nodes by which ranks exchange tensors (graph/op.h): they do what backend/collectives.cpp does in the host's
// memory, with the same messages and the same bits. The host does not know how many rows a rank has: messages of rows
// have their full length, and kernels, which read the counts on the device, close the gaps.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/collective_parts.h"
#include "backend/cuda/blocks.h"
#include "backend/cuda/rank_exchange.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/rank_rows.h"

namespace plimsoll::cuda {
namespace {

constexpr unsigned kThreads = 256;

// own = the sum over ranks in their order, of which only this rank's is not in the staging buffer; a rank's values
// begin `each` elements after those of the previous rank.
template <typename T>
__global__ void sum_over_ranks(T* own, const T* staging, std::int64_t each, std::int64_t count, int rank, int ranks) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += stride) {
    T total = rank == 0 ? own[at] : staging[at];
    for (int r = 1; r < ranks; ++r) total += r == rank ? own[at] : staging[staging_place(rank, r) * each + at];
    own[at] = total;
  }
}

// Moves rows of `stride` units down by whole rows; one thread moves one unit of each row, and reads a unit before
// another one overwrites it.
template <typename Unit>
__device__ void move_down(Unit* at, std::int64_t stride, std::int64_t to, std::int64_t from, std::int64_t count) {
  constexpr int kAtOnce = 8;
  if (to == from) return;
  for (std::int64_t i = 0; i < count; i += kAtOnce) {
    const int rows = count - i < kAtOnce ? static_cast<int>(count - i) : kAtOnce;
    Unit held[kAtOnce];
    for (int k = 0; k < rows; ++k) held[k] = at[(from + i + k) * stride];
    for (int k = 0; k < rows; ++k) at[(to + i + k) * stride] = held[k];
  }
}

// One thread per unit of a row, and one more for the ids and the number of rows.
template <typename Unit>
__global__ void close_gaps(std::int32_t* ids, Unit* rows, const std::int32_t* counts, std::int32_t* all, int ranks,
                           std::int64_t capacity, std::int64_t units) {
  const std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit > units) return;
  std::int64_t to = 0;
  for (int r = 0; r < ranks; ++r) {
    if (unit < units) {
      move_down(rows + unit, units, to, r * capacity, counts[r]);
    } else {
      move_down(ids, 1, to, r * capacity, counts[r]);
    }
    to += counts[r];
  }
  if (unit == units) *all = static_cast<std::int32_t>(to);
}

// The rows of a table that each rank owns: [at[rank], at[rank + 1]).
constexpr int kMostRanks = 256;
struct RowBounds {
  std::int32_t at[kMostRanks + 1];
};

// Returns whether ids[i] asks for a row of [first, end); an id that equals the one before it does not.
__device__ inline bool asks(const std::int32_t* ids, std::int64_t i, std::int32_t first, std::int32_t end) {
  return ids[i] >= first && ids[i] < end && (i == 0 || ids[i] != ids[i - 1]);
}

// Computes places[i], the place of the row of ids[i] among those that arrive, which are stored owner after owner, and
// for one owner in the order of ids; 0 for ids that are not real; and firsts[r], where the rows of owner r begin. One
// thread per place and per first.
__global__ void find_places(const std::int32_t* ids, const std::int32_t* count_of, std::int64_t n,
                            PLIMSOLL_IN_PLACE const RowBounds bounds, int ranks, std::int32_t* places,
                            std::int32_t* firsts) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread > n + ranks) return;
  const std::int64_t count = count_of == nullptr ? n : *count_of;
  std::int32_t before = 0, end = 0;  // how many ask for a row below `before` and, up to `last`, below `end`
  std::int64_t last = -1;
  const bool is_place = thread < n;
  if (!is_place) {
    before = end = bounds.at[thread - n];
  } else if (thread < count && ids[thread] >= 0 && ids[thread] < bounds.at[ranks]) {
    int owner = 0;
    while (ids[thread] >= bounds.at[owner + 1]) ++owner;
    before = bounds.at[owner];
    end = bounds.at[owner + 1];
    last = thread;
  } else {
    places[thread] = 0;
    return;
  }
  std::int32_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) found += asks(ids, i, 0, i <= last ? end : before) ? 1 : 0;
  if (is_place) {
    places[thread] = found - 1;
  } else {
    firsts[thread - n] = found;
  }
}

// Copies the own rows that each rank asks for to its place in what is sent, and those that this rank asks for itself
// among those that arrive. One block for each id of each rank.
template <typename Unit>
__global__ void pick_rows(const Unit* table, const std::int32_t* all_ids, const std::int32_t* counts, std::int64_t n,
                          std::int32_t first, std::int32_t end, int rank, const std::int32_t* firsts, Unit* rows,
                          Unit* sent, std::int64_t units) {
  const auto other = static_cast<int>(blockIdx.y);
  const std::int32_t* const ids = all_ids + other * n;
  const std::int64_t i = blockIdx.x, count = counts == nullptr ? n : counts[other];
  if (i >= count || !asks(ids, i, first, end)) return;
  unsigned mine = 0;
  for (std::int64_t k = threadIdx.x; k < i; k += kThreads) mine += asks(ids, k, first, end) ? 1 : 0;
  const std::int64_t place = block_place<kThreads>(mine).all;
  Unit* const to =
      other == rank ? rows + (firsts[rank] + place) * units : sent + (staging_place(rank, other) * n + place) * units;
  for (std::int64_t k = threadIdx.x; k < units; k += kThreads) to[k] = table[(ids[i] - first) * units + k];
}

// Moves the rows that one owner has sent to their places.
template <typename Unit>
__global__ void place_rows(const Unit* arrived, const std::int32_t* firsts, int owner, Unit* rows, std::int64_t units) {
  const std::int64_t count = (firsts[owner + 1] - firsts[owner]) * units;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += stride) {
    rows[firsts[owner] * units + at] = arrived[at];
  }
}

void copy(cudaStream_t stream, std::span<std::byte> to, const void* from) {
  if (to.empty()) return;
  check_cuda(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToDevice, stream), "a copy between tensors");
}

// Calls make(T{}) with a type of that many bytes, or of 2.
template <typename Make>
std::unique_ptr<Kernel> for_units(std::int64_t row_bytes, const Make& make) {
  if (row_bytes % 4 == 0) return make(std::uint32_t{});
  return make(std::uint16_t{});
}

class Collective : public Kernel, protected CollectiveParts {
 public:
  Collective(const Context& context, const Node& node) : CollectiveParts(node), context_(context) {
    if (context.exchange() != nullptr) context.exchange()->reserve(ticket());
  }

  void run(const KernelArguments& a) const final {
    RankExchange* const exchange = context_.exchange();
    check(exchange != nullptr && exchange->ranks() == ranks() && exchange->rank() == rank(),
          "a program of many ranks runs where their devices are connected");
    start(a, *exchange);
    check_cuda(cudaGetLastError(), "the start of a kernel");
  }

 protected:
  virtual void start(const KernelArguments& a, RankExchange& exchange) const = 0;

  cudaStream_t stream() const { return context_.stream(); }
  // No message is sent if one of the two ranks owns nothing, which both know.
  static void exchange_bytes(RankExchange& exchange, int other, std::span<const std::byte> sent,
                             std::span<std::byte> received, bool rows = false) {
    if (!received.empty()) exchange.receive(received, other, rows);
    if (!sent.empty()) exchange.send(sent, other, rows);
  }

 private:
  const Context& context_;
};

class ReduceBegin final : public Collective {
 public:
  ReduceBegin(const Context& context, const Node& node, bool whole) : Collective(context, node), whole_(whole) {}

 private:
  void start(const KernelArguments& a, RankExchange& exchange) const override {
    const std::span<std::byte> staging = a.outputs.back().byte_span();
    const std::size_t each = staging_bytes(staging);
    std::size_t first = 0;
    exchange.begin();
    for (std::size_t i = 0; i < parts().size(); ++i) {
      const TensorView& tensor = a.outputs[i];
      const std::size_t mine = whole_ ? tensor.bytes() : owned(tensor, parts()[i], rank()).size();
      exchange.next(1);
      for_each_other([&](int other) {
        exchange_bytes(exchange, other, whole_ ? tensor.byte_span() : owned(tensor, parts()[i], other),
                       staging.subspan(staging_place(other) * each + first, mine));
      });
      first += mine;
    }
    exchange.end(ticket());
  }

  bool whole_;
};

class ReduceEnd final : public Collective {
 public:
  ReduceEnd(const Context& context, const Node& node, bool whole) : Collective(context, node), whole_(whole) {}

 private:
  void start(const KernelArguments& a, RankExchange& exchange) const override {
    exchange.wait(ticket());
    const std::span<std::byte> staging = a.inputs.back().byte_span();
    const std::size_t each = staging_bytes(staging);
    sum_parts(a.outputs, whole_,
              [&]<typename T>(std::span<std::byte> mine, std::size_t first) { sum<T>(mine, staging, first, each); });
  }

  template <typename T>
  void sum(std::span<std::byte> mine, std::span<std::byte> staging, std::size_t first, std::size_t each) const {
    const auto count = static_cast<std::int64_t>(mine.size() / sizeof(T));
    launch(stream(), sum_over_ranks<T>, {.blocks = blocks_for(count, kThreads), .threads = kThreads},
           reinterpret_cast<T*>(mine.data()), reinterpret_cast<const T*>(staging.data() + first),
           static_cast<std::int64_t>(each / sizeof(T)), count, rank(), ranks());
  }

  bool whole_;
};

class AllGatherBegin final : public Collective {
 public:
  AllGatherBegin(const Context& context, const Node& node, bool from_shards)
      : Collective(context, node), from_shards_(from_shards) {}

 private:
  void start(const KernelArguments& a, RankExchange& exchange) const override {
    for (std::size_t i = 0; from_shards_ && i < parts().size(); ++i) {
      copy(stream(), owned(a.outputs[i], parts()[i], rank()), a.inputs[i].raw());
    }
    exchange.begin();
    for (std::size_t i = 0; i < parts().size(); ++i) {
      exchange.next(1);
      for_each_other([&](int other) {
        exchange_bytes(exchange, other, owned(a.outputs[i], parts()[i], rank()),
                       owned(a.outputs[i], parts()[i], other));
      });
    }
    exchange.end(ticket());
  }

  bool from_shards_;
};

// Ends an exchange whose data need no further work when they arrive.
class ArrivalEnd final : public Collective {
 public:
  using Collective::Collective;

 private:
  void start(const KernelArguments&, RankExchange& exchange) const override { exchange.wait(ticket()); }
};

class GatherRowsBegin final : public Collective {
 public:
  using Collective::Collective;

 private:
  void start(const KernelArguments& a, RankExchange& exchange) const override {
    const std::array<std::size_t, 3> inputs = {0, 2, 1};  // ids, rows, count, in the order of the outputs
    const auto place = [&](std::size_t i, int r) {
      const std::size_t bytes = a.inputs[inputs[i]].bytes();
      return a.outputs[i].byte_span().subspan(static_cast<std::size_t>(r) * bytes, bytes);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) copy(stream(), place(i, rank()), a.inputs[inputs[i]].raw());
    exchange.begin();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      exchange.next(1);
      for_each_other(
          [&](int other) { exchange_bytes(exchange, other, place(i, rank()), place(i, other), inputs[i] != 1); });
    }
    exchange.end(ticket());
  }
};

template <typename Unit>
class GatherRowsEnd final : public Collective {
 public:
  using Collective::Collective;

 private:
  void start(const KernelArguments& a, RankExchange& exchange) const override {
    exchange.wait(ticket());
    const std::int64_t rows = a.inputs[0].elements();
    const std::int64_t units = rows == 0 ? 0 : static_cast<std::int64_t>(a.inputs[1].bytes() / sizeof(Unit)) / rows;
    launch(stream(), close_gaps<Unit>, {.blocks = blocks_for(units + 1, kThreads), .threads = kThreads},
           output<std::int32_t>(a, 0), static_cast<Unit*>(a.outputs[1].raw()), input<std::int32_t>(a, 2),
           output<std::int32_t>(a, 2), ranks(), rows / ranks(), units);
  }
};

// All ranks know all ids, so each knows which rows it sends and receives. They are sent owner after owner, since there
// is room for those of one owner; the next node finds them in their places.
template <typename Unit>
class AllToAllRowsBegin final : public Collective {
 public:
  AllToAllRowsBegin(const Context& context, const Graph& graph, const Node& node)
      : Collective(context, node), scratch_(graph, node) {
    check(ranks() <= kMostRanks, "so many ranks look up rows of a table that they share");
    for (int r = 0; r <= ranks(); ++r) bounds_.at[r] = static_cast<std::int32_t>(bound(r));
  }
  std::size_t scratch_bytes() const override { return scratch_.layout.bytes(); }

 private:
  std::int64_t bound(int rank) const {
    return parts()[0].bounds[static_cast<std::size_t>(rank)] / parts()[0].type.shape[1];
  }
  bool owns(int rank) const { return bound(rank + 1) > bound(rank); }

  void start(const KernelArguments& a, RankExchange& exchange) const override {
    const std::int64_t n = scratch_.ids, units = scratch_.row_bytes / static_cast<std::int64_t>(sizeof(Unit));
    if (n > 0) {
      exchange_rows(a, exchange, n, units);
    } else {
      exchange.begin();
    }
    exchange.end(ticket());
    exchange.wait(ticket());  // the scratch is this node's
  }

  void exchange_rows(const KernelArguments& a, RankExchange& exchange, std::int64_t n, std::int64_t units) const {
    const auto* const ids = input<std::int32_t>(a, 1);
    const std::int32_t* const counts = a.inputs.size() == 3 ? input<std::int32_t>(a, 2) : nullptr;
    auto* const rows = static_cast<Unit*>(a.outputs[0].raw());
    auto* const firsts = reinterpret_cast<std::int32_t*>(a.scratch.data() + scratch_.firsts);
    launch(stream(), find_places,
           {.blocks = static_cast<unsigned>((n + ranks() + kThreads) / kThreads), .threads = kThreads},
           ids + rank() * n, counts == nullptr ? nullptr : counts + rank(), n, bounds_, ranks(),
           output<std::int32_t>(a, 1), firsts);
    if (owns(rank())) {
      launch(stream(), pick_rows<Unit>,
             {.blocks = static_cast<unsigned>(n), .threads = kThreads, .blocks_y = static_cast<unsigned>(ranks())},
             static_cast<const Unit*>(a.inputs[0].raw()), ids, counts, n, bounds_.at[rank()], bounds_.at[rank() + 1],
             rank(), firsts, rows, static_cast<Unit*>(a.outputs[2].raw()), units);
    }
    const auto bytes = static_cast<std::size_t>(n * scratch_.row_bytes);
    const std::span<std::byte> arrived = a.scratch.subspan(scratch_.arrived, bytes);
    exchange.begin();
    for (int i = 1; i < ranks(); ++i) {
      const int to = (rank() + i) % ranks(), from = (rank() - i + ranks()) % ranks();
      if (owns(rank())) exchange.send(a.outputs[2].byte_span().subspan(staging_place(to) * bytes, bytes), to, true);
      if (owns(from)) exchange.receive(arrived, from, true);
      exchange.flush();
      if (!owns(from)) continue;
      launch(exchange.stream(), place_rows<Unit>, {.blocks = blocks_for(n * units, kThreads), .threads = kThreads},
             reinterpret_cast<const Unit*>(arrived.data()), firsts, from, rows, units);
    }
  }

  AllToAllScratch scratch_;
  RowBounds bounds_{};
};

}  // namespace

std::unique_ptr<Kernel> make_collective(const Context& context, const Graph& graph, const Node& node) {
  const auto row_bytes = [&](const TensorType& rows) {
    return rows.shape[1] * static_cast<std::int64_t>(dtype_bytes(rows.dtype));
  };
  switch (node.op) {
    case Op::kReduceScatterBegin:
      return std::make_unique<ReduceBegin>(context, node, false);
    case Op::kReduceScatterEnd:
      return std::make_unique<ReduceEnd>(context, node, false);
    case Op::kAllReduceBegin:
      return std::make_unique<ReduceBegin>(context, node, true);
    case Op::kAllReduceEnd:
      return std::make_unique<ReduceEnd>(context, node, true);
    case Op::kAllGatherBegin:
      return std::make_unique<AllGatherBegin>(context, node, false);
    case Op::kGatherShardsBegin:
      return std::make_unique<AllGatherBegin>(context, node, true);
    case Op::kAllGatherEnd:
    case Op::kAllToAllRowsEnd:
      return std::make_unique<ArrivalEnd>(context, node);
    case Op::kGatherRowsBegin:
      return std::make_unique<GatherRowsBegin>(context, node);
    case Op::kGatherRowsEnd:
      return for_units(row_bytes(graph.type(node.inputs[1])), [&]<typename Unit>(Unit) -> std::unique_ptr<Kernel> {
        return std::make_unique<GatherRowsEnd<Unit>>(context, node);
      });
    case Op::kAllToAllRowsBegin:
      return for_units(row_bytes(graph.type(node.outputs[0])), [&]<typename Unit>(Unit) -> std::unique_ptr<Kernel> {
        return std::make_unique<AllToAllRowsBegin<Unit>>(context, graph, node);
      });
    default:
      check(false, "the op is one that ranks exchange tensors by");
      return nullptr;
  }
}

}  // namespace plimsoll::cuda
