// embedding, spatial_embedding and their dense gradients. The gradients of a table row are summed in the order of the
// rows that looked it up.
#include <algorithm>
#include <array>

#include "backend/reference/loop_kernel.h"
#include "graph/box_size.h"

namespace plimsoll::reference {
namespace {

template <typename T>
void embedding(const KernelArguments& a) {
  const Matrix<const T> table(a.inputs[0]);
  const std::int32_t* ids = a.inputs[1].data<std::int32_t>();
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    check(ids[row] >= 0 && ids[row] < table.rows(), "an id is a row of the table");
    std::copy_n(table[ids[row]], table.columns(), y[row]);
  }
}

// The scratch holds D doubles. A sum so far is read where the result is written.
template <typename T>
void embedding_grad(const KernelArguments& a, std::int64_t padding_idx, std::int64_t first_row) {
  const Matrix<const T> dy(a.inputs[0]);
  const std::int32_t* ids = a.inputs[1].data<std::int32_t>();
  const Matrix<T> dtable(a.outputs[0]);
  const bool adds = a.inputs.size() == 3;
  double* sum = scratch_doubles(a);
  for (std::int64_t id = 0; id < dtable.rows(); ++id) {
    adds ? std::copy_n(dtable[id], dtable.columns(), sum) : std::fill_n(sum, dtable.columns(), 0.0);
    for (std::int64_t row = 0; row < a.rows(dy.rows()); ++row) {
      if (ids[row] != first_row + id || ids[row] == padding_idx) continue;
      for (std::int64_t c = 0; c < dtable.columns(); ++c) sum[c] += double{dy[row][c]};
    }
    for (std::int64_t c = 0; c < dtable.columns(); ++c) dtable[id][c] = static_cast<T>(sum[c]);
  }
}

// The six look-ups of a box in the order of their columns: the table (0..3: x, y, h, w) and its row.
struct SpatialLookup {
  std::size_t table;
  std::int64_t row;
};
std::array<SpatialLookup, 6> spatial_lookups(const std::int32_t* box, std::int64_t table_rows) {
  const std::int64_t x0 = box[0], y0 = box[1], x1 = box[2], y1 = box[3];
  for (const std::int64_t coordinate : {x0, y0, x1, y1}) {
    check(coordinate >= 0 && coordinate < table_rows, "a box coordinate is a row of the tables");
  }
  const auto clipped = [&](std::int64_t size) {
    return std::clamp<std::int64_t>(size, 0, largest_box_size(table_rows));
  };
  return {{{0, x0}, {1, y0}, {0, x1}, {1, y1}, {2, clipped(y1 - y0)}, {3, clipped(x1 - x0)}}};
}

template <typename T>
void spatial_embedding(const KernelArguments& a, bool sums) {
  const std::array<Matrix<const T>, 4> tables = {Matrix<const T>(a.inputs[0]), Matrix<const T>(a.inputs[1]),
                                                 Matrix<const T>(a.inputs[2]), Matrix<const T>(a.inputs[3])};
  const Matrix<const std::int32_t> boxes(a.inputs[4]);
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    const std::array<SpatialLookup, 6> lookups = spatial_lookups(boxes[row], tables[0].rows());
    if (sums) {
      for (std::int64_t c = 0; c < y.columns(); ++c) {
        double sum = 0;
        for (const SpatialLookup& lookup : lookups) sum += double{tables[lookup.table][lookup.row][c]};
        y[row][c] = static_cast<T>(sum);
      }
      continue;
    }
    T* out = y[row];
    for (const SpatialLookup& lookup : lookups) {
      out = std::copy_n(tables[lookup.table][lookup.row], tables[lookup.table].columns(), out);
    }
  }
}

// The scratch holds max(c, s) doubles.
template <typename T>
void spatial_embedding_grad(const KernelArguments& a, const SpatialAttributes& attributes) {
  const Matrix<const T> dy(a.inputs[0]);
  const Matrix<const std::int32_t> boxes(a.inputs[1]);
  double* sum = scratch_doubles(a);
  for (std::size_t table = 0; table < 4; ++table) {
    const Matrix<T> dtable(a.outputs[table]);
    for (std::int64_t id = 0; id < dtable.rows(); ++id) {
      std::fill_n(sum, dtable.columns(), 0.0);
      for (std::int64_t row = 0; row < a.rows(dy.rows()); ++row) {
        const std::array<SpatialLookup, 6> lookups = spatial_lookups(boxes[row], dtable.rows());
        for (std::size_t slot = 0; slot < lookups.size(); ++slot) {
          if (lookups[slot].table != table || lookups[slot].row != id) continue;
          const T* const part = dy[row] + attributes.column(static_cast<std::int64_t>(slot));
          for (std::int64_t c = 0; c < dtable.columns(); ++c) sum[c] += double{part[c]};
        }
      }
      for (std::int64_t c = 0; c < dtable.columns(); ++c) dtable[id][c] = static_cast<T>(sum[c]);
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> make_embedding_kernel(const Graph& graph, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    switch (node.op) {
      case Op::kEmbedding:
        return make_kernel(node, [](const KernelArguments& a) { embedding<T>(a); });
      case Op::kSpatialEmbedding:
        return make_kernel(node, [sums = std::get<SpatialAttributes>(node.attributes).sums](const KernelArguments& a) {
          spatial_embedding<T>(a, sums);
        });
      case Op::kEmbeddingGrad: {
        const auto& attributes = std::get<EmbeddingAttributes>(node.attributes);
        const auto width = static_cast<std::size_t>(graph.type(node.inputs[0]).shape[1]);
        return make_kernel(node, width * sizeof(double),
                           [padding = attributes.padding_idx, first = attributes.first_row](const KernelArguments& a) {
                             embedding_grad<T>(a, padding, first);
                           });
      }
      default: {
        check(node.op == Op::kSpatialEmbeddingGrad, "make_embedding_kernel knows the op");
        const SpatialAttributes attributes = std::get<SpatialAttributes>(node.attributes);
        const auto width = static_cast<std::size_t>(std::max(attributes.coordinate_size, attributes.shape_size));
        return make_kernel(node, width * sizeof(double),
                           [attributes](const KernelArguments& a) { spatial_embedding_grad<T>(a, attributes); });
      }
    }
  });
}

}  // namespace plimsoll::reference
