#include "backend/collectives.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "backend/collective_parts.h"
#include "base/error.h"
#include "ranks/communicator.h"

namespace plimsoll {
namespace {

class CollectiveKernel : public Kernel, protected CollectiveParts {
 public:
  using CollectiveParts::CollectiveParts;

  void run(const KernelArguments& arguments) const final {
    check(arguments.ranks != nullptr && arguments.ranks->size() == ranks() && arguments.ranks->rank() == rank(),
          "a program of many ranks is given their communicator");
    run(arguments, *arguments.ranks);
  }

 protected:
  virtual void run(const KernelArguments& arguments, Communicator& ranks) const = 0;

  // No message is sent if one of the two ranks owns nothing, which both know.
  void send(Communicator& ranks, int other, std::span<const std::byte> bytes, bool rows = false) const {
    if (!bytes.empty()) ranks.send(ticket(), other, bytes, rows);
  }
  void receive(Communicator& ranks, int other, std::span<std::byte> bytes, bool rows = false) const {
    if (!bytes.empty()) ranks.receive(ticket(), other, bytes, rows);
  }
};

// reduce_scatter sends every rank what it owns, and receives what this rank owns; all_reduce sends and receives all.
class ReduceBegin final : public CollectiveKernel {
 public:
  ReduceBegin(const Node& node, bool whole) : CollectiveKernel(node), whole_(whole) {}

 private:
  void run(const KernelArguments& a, Communicator& ranks) const override {
    std::span<std::byte> staging = a.outputs.back().byte_span();
    const std::size_t each = staging_bytes(staging);
    for_each_other([&](int other) {
      std::span<std::byte> place = staging.subspan(staging_place(other) * each, each);
      for (std::size_t i = 0; i < parts().size(); ++i) {
        const TensorView& tensor = a.outputs[i];
        const std::size_t mine = whole_ ? tensor.bytes() : owned(tensor, parts()[i], rank()).size();
        receive(ranks, other, place.first(mine));
        place = place.subspan(mine);
      }
    });
    for_each_other([&](int other) {
      for (std::size_t i = 0; i < parts().size(); ++i) {
        const TensorView& tensor = a.outputs[i];
        send(ranks, other, whole_ ? tensor.byte_span() : owned(tensor, parts()[i], other));
      }
    });
  }

  bool whole_;
};

class ReduceEnd final : public CollectiveKernel {
 public:
  ReduceEnd(const Node& node, bool whole) : CollectiveKernel(node), whole_(whole) {}

 private:
  void run(const KernelArguments& a, Communicator& ranks) const override {
    ranks.wait(ticket());
    const std::span<std::byte> staging = a.inputs.back().byte_span();
    const std::size_t each = staging_bytes(staging);
    sum_parts(a.outputs, whole_,
              [&]<typename T>(std::span<std::byte> mine, std::size_t first) { sum<T>(mine, staging, first, each); });
  }

  // mine = the sum over ranks in their order, of which only this rank's is not in the staging buffer. Goes through
  // blocks that stay in the cache.
  template <typename T>
  void sum(std::span<std::byte> mine, std::span<std::byte> staging, std::size_t first, std::size_t each) const {
    constexpr std::size_t kBlock = 2048;
    T* const own = reinterpret_cast<T*>(mine.data());
    const std::size_t count = mine.size() / sizeof(T);
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t size = std::min(kBlock, count - begin);
      T total[kBlock];
      for (int r = 0; r < ranks(); ++r) {
        const T* const from =
            r == rank() ? own + begin
                        : reinterpret_cast<const T*>(staging.data() + staging_place(r) * each + first) + begin;
        if (r == 0) {
          std::copy_n(from, size, total);
        } else {
          for (std::size_t k = 0; k < size; ++k) total[k] += from[k];
        }
      }
      std::copy_n(total, size, own + begin);
    }
  }

  bool whole_;
};

// `from_shards`: the elements that this rank owns are in tensors of their own, not at their place in the parts.
class AllGatherBegin final : public CollectiveKernel {
 public:
  AllGatherBegin(const Node& node, bool from_shards) : CollectiveKernel(node), from_shards_(from_shards) {}

 private:
  void run(const KernelArguments& a, Communicator& ranks) const override {
    for (std::size_t i = 0; from_shards_ && i < parts().size(); ++i) {
      std::ranges::copy(a.inputs[i].byte_span(), owned(a.outputs[i], parts()[i], rank()).begin());
    }
    for_each_other([&](int other) {
      for (std::size_t i = 0; i < parts().size(); ++i) {
        receive(ranks, other, owned(a.outputs[i], parts()[i], other));
      }
    });
    for_each_other([&](int other) {
      for (std::size_t i = 0; i < parts().size(); ++i) {
        send(ranks, other, owned(a.outputs[i], parts()[i], rank()));
      }
    });
  }

  bool from_shards_;
};

// Ends an exchange whose data need no further work when they arrive.
class ArrivalEnd final : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

 private:
  void run(const KernelArguments&, Communicator& ranks) const override { ranks.wait(ticket()); }
};

// A message has exactly as many rows as its sender has.
class GatherRowsBegin final : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

 private:
  void run(const KernelArguments& a, Communicator& ranks) const override {
    const auto capacity = static_cast<std::size_t>(a.inputs[0].elements());
    const std::size_t row_bytes = capacity == 0 ? 0 : a.inputs[2].bytes() / capacity;
    const auto count = static_cast<std::size_t>(*a.inputs[1].data<std::int32_t>());
    const auto id_place = [&](int r) {
      return a.outputs[0].byte_span().subspan(static_cast<std::size_t>(r) * capacity * sizeof(std::int32_t),
                                              capacity * sizeof(std::int32_t));
    };
    const auto row_place = [&](int r) {
      return a.outputs[1].byte_span().subspan(static_cast<std::size_t>(r) * capacity * row_bytes, capacity * row_bytes);
    };
    const auto count_place = [&](int r) {
      return a.outputs[2].byte_span().subspan(static_cast<std::size_t>(r) * sizeof(std::int32_t), sizeof(std::int32_t));
    };
    const auto ids = id_place(rank()).first(count * sizeof(std::int32_t));
    const auto rows = row_place(rank()).first(count * row_bytes);
    std::memcpy(ids.data(), a.inputs[0].raw(), ids.size());
    std::memcpy(rows.data(), a.inputs[2].raw(), rows.size());
    std::memcpy(count_place(rank()).data(), a.inputs[1].raw(), sizeof(std::int32_t));
    for_each_other([&](int other) {
      ranks.receive(ticket(), other, count_place(other));
      ranks.receive(ticket(), other, id_place(other), true);
      ranks.receive(ticket(), other, row_place(other), true);
    });
    for_each_other([&](int other) {
      ranks.send(ticket(), other, count_place(rank()));
      ranks.send(ticket(), other, ids, true);
      ranks.send(ticket(), other, rows, true);
    });
  }
};

// Closes the gaps after each rank's rows.
class GatherRowsEnd final : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

 private:
  void run(const KernelArguments& a, Communicator& ranks) const override {
    ranks.wait(ticket());
    const std::size_t capacity = static_cast<std::size_t>(a.inputs[0].elements() / this->ranks());
    const std::size_t row_bytes =
        capacity == 0 ? 0 : a.inputs[1].bytes() / (capacity * static_cast<std::size_t>(this->ranks()));
    auto* const ids = a.outputs[0].data<std::int32_t>();
    auto* const rows = static_cast<std::byte*>(a.outputs[1].raw());
    std::size_t total = 0;
    for (int r = 0; r < this->ranks(); ++r) {
      const auto count = static_cast<std::size_t>(a.inputs[2].data<std::int32_t>()[r]);
      const std::size_t from = static_cast<std::size_t>(r) * capacity;
      std::memmove(ids + total, ids + from, count * sizeof(std::int32_t));
      std::memmove(rows + total * row_bytes, rows + from * row_bytes, count * row_bytes);
      total += count;
    }
    *a.outputs[2].data<std::int32_t>() = static_cast<std::int32_t>(total);
  }
};

// Visits the rows that a rank wants from one owner, in the order of its ids. An id that equals the one before it, such
// as padding, shares its row. `body` gets the position of the id, the row of the table, and whether the row is new.
template <typename Body>
void for_each_wanted(std::span<const std::int32_t> ids, std::int64_t first, std::int64_t end, const Body& body) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= first && ids[i] < end) body(i, ids[i], i == 0 || ids[i] != ids[i - 1]);
  }
}

// All ranks know all ids, so they know how many rows a message has. What arrives is stored owner after owner.
class AllToAllRowsBegin final : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

 private:
  void run(const KernelArguments& a, Communicator& ranks) const override {
    const Part& table = parts()[0];
    const auto n = static_cast<std::size_t>(a.outputs[1].elements());
    const std::int64_t width = table.type.shape[1];
    const std::size_t row_bytes = static_cast<std::size_t>(width) * dtype_bytes(table.type.dtype);
    const auto ids_of = [&](int rank) {
      const bool counted = a.inputs.size() == 3;
      const auto count = counted ? static_cast<std::size_t>(a.inputs[2].data<std::int32_t>()[rank]) : n;
      check(count <= n, "a rank has no more ids than there is room for");
      return std::span(a.inputs[1].data<std::int32_t>() + static_cast<std::size_t>(rank) * n, count);
    };
    const auto bound = [&](int rank) { return table.bounds[static_cast<std::size_t>(rank)] / width; };
    const std::span<const std::int32_t> own_ids = ids_of(rank());
    std::byte* const rows = static_cast<std::byte*>(a.outputs[0].raw());
    auto* const places = a.outputs[1].data<std::int32_t>();
    std::fill_n(places, n, 0);  // of ids that are not real
    std::size_t arriving = 0;
    for (int owner = 0; owner < this->ranks(); ++owner) {
      const std::size_t before = arriving;
      for_each_wanted(own_ids, bound(owner), bound(owner + 1), [&](std::size_t i, std::int64_t, bool first) {
        if (first) ++arriving;
        places[i] = static_cast<std::int32_t>(arriving - 1);
      });
      const std::span<std::byte> place(rows + before * row_bytes, (arriving - before) * row_bytes);
      if (owner == rank()) {
        copy(a.inputs[0], row_bytes, own_ids, place.data());
      } else {
        receive(ranks, owner, place, true);
      }
    }
    std::byte* const sent = static_cast<std::byte*>(a.outputs[2].raw());
    for_each_other([&](int other) {
      std::byte* const place = sent + staging_place(other) * n * row_bytes;
      send(ranks, other, {place, copy(a.inputs[0], row_bytes, ids_of(other), place)}, true);
    });
  }

  // Copies the own rows that a rank wants; returns their bytes.
  std::size_t copy(const TensorView& own, std::size_t row_bytes, std::span<const std::int32_t> ids,
                   std::byte* to) const {
    const std::int64_t width = parts()[0].type.shape[1];
    const std::int64_t first = parts()[0].bounds[static_cast<std::size_t>(rank())] / width;
    const std::int64_t end = parts()[0].bounds[static_cast<std::size_t>(rank()) + 1] / width;
    std::size_t bytes = 0;
    for_each_wanted(ids, first, end, [&](std::size_t, std::int64_t row, bool is_first) {
      if (!is_first) return;
      std::memcpy(to + bytes,
                  static_cast<const std::byte*>(own.raw()) + static_cast<std::size_t>(row - first) * row_bytes,
                  row_bytes);
      bytes += row_bytes;
    });
    return bytes;
  }
};

class SliceKernel final : public Kernel {
 public:
  explicit SliceKernel(const Node& node) : attributes_(std::get<SliceAttributes>(node.attributes)) {}

  void run(const KernelArguments& a) const override {
    const std::size_t each = dtype_bytes(a.outputs[0].dtype());
    std::memcpy(a.outputs[0].raw(),
                static_cast<const std::byte*>(a.inputs[0].raw()) + static_cast<std::size_t>(attributes_.first) * each,
                a.outputs[0].bytes());
  }

 private:
  SliceAttributes attributes_;
};

}  // namespace

std::unique_ptr<Kernel> make_collective_kernel(const Node& node) {
  switch (node.op) {
    case Op::kReduceScatterBegin:
      return std::make_unique<ReduceBegin>(node, false);
    case Op::kReduceScatterEnd:
      return std::make_unique<ReduceEnd>(node, false);
    case Op::kAllReduceBegin:
      return std::make_unique<ReduceBegin>(node, true);
    case Op::kAllReduceEnd:
      return std::make_unique<ReduceEnd>(node, true);
    case Op::kAllGatherBegin:
      return std::make_unique<AllGatherBegin>(node, false);
    case Op::kGatherShardsBegin:
      return std::make_unique<AllGatherBegin>(node, true);
    case Op::kAllGatherEnd:
    case Op::kAllToAllRowsEnd:
      return std::make_unique<ArrivalEnd>(node);
    case Op::kGatherRowsBegin:
      return std::make_unique<GatherRowsBegin>(node);
    case Op::kGatherRowsEnd:
      return std::make_unique<GatherRowsEnd>(node);
    case Op::kAllToAllRowsBegin:
      return std::make_unique<AllToAllRowsBegin>(node);
    default:
      check(false, "the op is one that ranks exchange tensors by");
      return nullptr;
  }
}

std::unique_ptr<Kernel> make_slice_kernel(const Node& node) { return std::make_unique<SliceKernel>(node); }

}  // namespace plimsoll
