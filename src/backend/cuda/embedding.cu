// embedding, of tables whole or coded; spatial_embedding; their dense gradients.
#include "backend/cuda/decode.h"
#include "backend/cuda/grouped_sums.h"
#include "graph/box_size.h"

namespace plimsoll::cuda {
namespace {

template <typename Unit>
struct LookUp {
  const Unit* table;
  const std::int32_t* ids;
  std::int64_t units;
  __device__ RowSource<Unit> operator()(std::int64_t row) const { return {table + ids[row] * units}; }
};

std::unique_ptr<Kernel> make_embedding_rows(const Context& context, const TensorType& table) {
  const std::size_t row_bytes = static_cast<std::size_t>(table.shape[1]) * dtype_bytes(table.dtype);
  return make_launch(0, [&context, row_bytes](const KernelArguments& a) {
    for_unit(row_bytes, [&]<typename Unit>(Unit) {
      launch_copy<Unit>(context, a,
                        LookUp<Unit>{static_cast<const Unit*>(a.inputs[0].raw()), input<std::int32_t>(a, 1),
                                     static_cast<std::int64_t>(row_bytes / sizeof(Unit))});
    });
  });
}

template <DType kCode>
__global__ void embedding_coded(const std::uint8_t* table, const std::int32_t* ids, float* y, Rows rows) {
  const std::int64_t width = rows.columns, count = rows.real();
  const auto row_bytes = static_cast<std::int64_t>(coded_row_bytes(kCode, width));
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const std::uint8_t* const from = table + ids[row] * row_bytes;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) y[row * width + c] = decoded<kCode>(from, c);
  }
}

template <DType kCode>
std::unique_ptr<Kernel> make_embedding_coded(const Context& context) {
  return make_launch(0, [&context](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.outputs[0]);
    launch(context.stream(), embedding_coded<kCode>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
           static_cast<const std::uint8_t*>(a.inputs[0].raw()), input<std::int32_t>(a, 1), output<float>(a, 0), rows);
  });
}

// The six look-ups of a box, in the order of their columns: x(x0) y(y0) x(x1) y(y1) h(y1-y0) w(x1-x0). Returns the row
// that the `slot`-th one takes from its table; sizes are clipped as graph/box_size.h says.
__device__ std::int32_t spatial_row(const std::int32_t* box, unsigned slot, std::int64_t table_rows) {
  if (slot < 4) return box[slot];
  const std::int32_t size = slot == 4 ? box[3] - box[1] : box[2] - box[0];
  return std::clamp(size, 0, static_cast<std::int32_t>(largest_box_size(table_rows)));
}
// Returns 0..3 for x, y, h, w.
__device__ unsigned spatial_table(unsigned slot) { return slot < 4 ? slot % 2 : slot - 2; }

template <typename Unit>
struct SpatialTables {
  const Unit* at[4];
  std::int64_t rows, coordinate, size;  // the latter two: units of a row of x and y, and of h and w
};

template <typename Unit>
__global__ void spatial_embedding(SpatialTables<Unit> tables, const std::int32_t* boxes, Unit* y, Rows rows) {
  const std::int64_t count = rows.real(), units = 4 * tables.coordinate + 2 * tables.size;
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    Unit* to = y + row * units;
    for (unsigned slot = 0; slot < 6; ++slot) {
      const std::int64_t width = slot < 4 ? tables.coordinate : tables.size;
      const Unit* const from = tables.at[spatial_table(slot)] + spatial_row(boxes + 4 * row, slot, tables.rows) * width;
      for (std::int64_t unit = lane_index(); unit < width; unit += kWarp) to[unit] = from[unit];
      to += width;
    }
  }
}

// Computes the sum of the six rows, N columns per lane; tables.coordinate counts floats.
template <int N>
__global__ void spatial_sums(SpatialTables<float> tables, const std::int32_t* boxes, float* y, Rows rows) {
  const std::int64_t count = rows.real(), width = tables.coordinate;
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    for (std::int64_t c = lane_index() * N; c < width; c += kWarp * N) {
      float sum[N] = {};
      for (unsigned slot = 0; slot < 6; ++slot) {
        float each[N];
        load(tables.at[spatial_table(slot)] + spatial_row(boxes + 4 * row, slot, tables.rows) * width + c, N, each);
        for (int i = 0; i < N; ++i) sum[i] += each[i];
      }
      store(sum, N, y + row * width + c);
    }
  }
}

std::unique_ptr<Kernel> make_spatial_sums(const Context& context, const SpatialAttributes& attributes) {
  return make_launch(0, [&context, attributes](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.outputs[0]);
    SpatialTables<float> tables{{}, attributes.table_rows, attributes.coordinate_size, attributes.shape_size};
    for (std::size_t i = 0; i < 4; ++i) tables.at[i] = input<float>(a, i);
    for_pack(attributes.coordinate_size, [&](auto pack) {
      launch(context.stream(), spatial_sums<pack()>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
             tables, input<std::int32_t>(a, 4), output<float>(a, 0), rows);
    });
  });
}

std::unique_ptr<Kernel> make_spatial_embedding(const Context& context, const SpatialAttributes& attributes,
                                               DType dtype) {
  if (attributes.sums) {
    check(dtype == DType::kF32, "tables are F32");
    return make_spatial_sums(context, attributes);
  }
  const std::size_t coordinate = static_cast<std::size_t>(attributes.coordinate_size) * dtype_bytes(dtype);
  const std::size_t size = static_cast<std::size_t>(attributes.shape_size) * dtype_bytes(dtype);
  return make_launch(0, [&context, table_rows = attributes.table_rows, coordinate, size](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.outputs[0]);
    for_unit(coordinate | size, [&]<typename Unit>(Unit) {
      SpatialTables<Unit> tables{{},
                                 table_rows,
                                 static_cast<std::int64_t>(coordinate / sizeof(Unit)),
                                 static_cast<std::int64_t>(size / sizeof(Unit))};
      for (std::size_t i = 0; i < 4; ++i) tables.at[i] = static_cast<const Unit*>(a.inputs[i].raw());
      launch(context.stream(), spatial_embedding<Unit>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
             tables, input<std::int32_t>(a, 4), static_cast<Unit*>(a.outputs[0].raw()), rows);
    });
  });
}

// Absent rows become zeros, or stay unchanged in the sum so far.
std::unique_ptr<Kernel> make_embedding_grad(const Context& context, const TensorType& dy,
                                            const EmbeddingAttributes& attributes) {
  const EmbeddingGradScratch scratch(dy);
  return make_launch(scratch.layout.bytes(), [&context, parts = scratch.list, attributes](const KernelArguments& a) {
    const IdItems items{.ids = input<std::int32_t>(a, 1),
                        .padding_idx = static_cast<std::int32_t>(attributes.padding_idx),
                        .rows = rows_of(a, a.inputs[0]),
                        .first = static_cast<std::int32_t>(attributes.first_row),
                        .targets = static_cast<std::int32_t>(attributes.table_rows)};
    SumLists<1> lists{{list_at(a, parts, output<float>(a, 0))}};
    lists.at[0].adds = a.inputs.size() == 3;
    if (!lists.at[0].adds) lists.at[0].cleared = a.outputs[0].elements();
    launch_sort(context, items, lists);
    launch_sums(context, input<float>(a, 0), lists, items.rows.capacity, items.rows.columns);
  });
}

// One list per table: each row looks up x and y twice.
struct SpatialItems {
  const std::int32_t* boxes;
  Rows rows;
  SpatialAttributes attributes;

  __device__ std::int64_t count(unsigned table) const { return rows.real() * (table < 2 ? 2 : 1); }
  __device__ Item item(unsigned table, std::int64_t index) const {
    const std::int64_t row = table < 2 ? index / 2 : index;
    const unsigned slot = table < 2 ? table + 2 * static_cast<unsigned>(index % 2) : table + 2;
    return {spatial_row(boxes + 4 * row, slot, attributes.table_rows),
            static_cast<std::int32_t>(row * rows.columns + attributes.column(slot))};
  }
};

std::unique_ptr<Kernel> make_spatial_embedding_grad(const Context& context, const TensorType& dy,
                                                    const SpatialAttributes& attributes) {
  const SpatialGradScratch scratch(dy, attributes);
  return make_launch(scratch.layout.bytes(), [&context, parts = scratch.lists, attributes](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    SumLists<4> lists;
    for (std::size_t i = 0; i < 4; ++i) {
      lists.at[i] = list_at(a, parts[i], output<float>(a, i));
      lists.at[i].cleared = a.outputs[i].elements();
    }
    launch_sort(context, SpatialItems{input<std::int32_t>(a, 1), rows, attributes}, lists);
    launch_sums(context, input<float>(a, 0), lists, 2 * rows.capacity,
                attributes.coordinate_size | attributes.shape_size);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_embedding(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& first = graph.type(node.inputs[0]);
  switch (node.op) {
    case Op::kEmbedding:
      if (first.dtype == DType::kQ8) return make_embedding_coded<DType::kQ8>(context);
      if (first.dtype == DType::kNF4) return make_embedding_coded<DType::kNF4>(context);
      return make_embedding_rows(context, first);
    case Op::kSpatialEmbedding:
      return make_spatial_embedding(context, std::get<SpatialAttributes>(node.attributes), first.dtype);
    case Op::kEmbeddingGrad:
      return make_embedding_grad(context, first, std::get<EmbeddingAttributes>(node.attributes));
    default:
      check(node.op == Op::kSpatialEmbeddingGrad, "make_embedding knows the op");
      return make_spatial_embedding_grad(context, first, std::get<SpatialAttributes>(node.attributes));
  }
}

}  // namespace plimsoll::cuda
