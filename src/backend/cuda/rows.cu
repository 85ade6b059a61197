// patchify, visual_embedding and its gradient, pack_rows, gather_rows, take_rows, join_rows, concat_heads, split_heads.
#include "backend/cuda/packs.h"
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {
namespace {

template <typename Unit>
struct PackSource {
  const Unit *text, *visual;
  const std::int32_t* source;
  std::int64_t units;
  __device__ RowSource<Unit> operator()(std::int64_t row) const {
    const std::int64_t from = source[row];
    return {from >= 0 ? text + from * units : visual + (-1 - from) * units};
  }
};

template <typename Unit>
struct GatherSource {
  const Unit* x;
  const std::int32_t* index;
  std::int64_t units;
  __device__ RowSource<Unit> operator()(std::int64_t row) const {
    const std::int64_t from = index[row];
    return {from >= 0 ? x + from * units : nullptr};
  }
};

// y[row] = x[first + row] for the real rows of x, which *part counts, and zeros after them. `rows` are those of x, in
// units.
template <typename Unit>
__global__ void take_rows(const Unit* x, std::int64_t first, std::int64_t count, Unit* y, std::int32_t* part,
                          Rows rows) {
  const std::int64_t units = rows.columns, behind = rows.real() - first;
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const RowSource<Unit> from{row < behind ? x + (first + row) * units : nullptr};
    for (std::int64_t unit = lane_index(); unit < units; unit += kWarp) y[row * units + unit] = from(unit);
  }
  const std::int64_t real = behind < count ? behind : count;
  if (blockIdx.x == 0 && threadIdx.x == 0) *part = static_cast<std::int32_t>(real > 0 ? real : 0);
}

std::unique_ptr<Kernel> make_take_rows(const Context& context, const TensorType& x, const RowPartAttributes& part) {
  const std::int64_t columns = x.shape.rank() == 1 ? 1 : x.shape[1];
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * dtype_bytes(x.dtype);
  return make_launch(0, [&context, row_bytes, part](const KernelArguments& a) {
    Rows rows = rows_of(a, a.inputs[0]);
    for_unit(row_bytes, [&]<typename Unit>(Unit) {
      rows.columns = static_cast<std::int64_t>(row_bytes / sizeof(Unit));
      launch(context.stream(), take_rows<Unit>, {.blocks = row_blocks(part.count), .threads = kRowThreads},
             static_cast<const Unit*>(a.inputs[0].raw()), part.first, part.count,
             static_cast<Unit*>(a.outputs[0].raw()), output<std::int32_t>(a, 1), rows);
    });
  });
}

// Copies a part of `count` rows to the rows of y from `first` on that are real.
template <typename Unit>
__global__ void join_part(const Unit* part, std::int64_t first, std::int64_t count, Unit* y, Rows rows) {
  const std::int64_t units = rows.columns, behind = rows.real() - first, real = behind < count ? behind : count;
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    for (std::int64_t unit = lane_index(); unit < units; unit += kWarp) {
      y[(first + row) * units + unit] = part[row * units + unit];
    }
  }
}

std::unique_ptr<Kernel> make_join_rows(const Context& context, const TensorType& y) {
  const std::size_t row_bytes = static_cast<std::size_t>(y.shape[1]) * dtype_bytes(y.dtype);
  return make_launch(0, [&context, row_bytes](const KernelArguments& a) {
    Rows rows = rows_of(a, a.outputs[0]);
    for_unit(row_bytes, [&]<typename Unit>(Unit) {
      rows.columns = static_cast<std::int64_t>(row_bytes / sizeof(Unit));
      std::int64_t first = 0;
      for (const TensorView& part : a.inputs) {
        const std::int64_t count = part.shape()[0];
        launch(context.stream(), join_part<Unit>, {.blocks = row_blocks(count), .threads = kRowThreads},
               static_cast<const Unit*>(part.raw()), first, count, static_cast<Unit*>(a.outputs[0].raw()), rows);
        first += count;
      }
    });
  });
}

// A patch is read in runs; each is one of its rows in one channel.
struct PatchShape {
  std::int64_t channels, down, across;  // patches of an image
  std::int64_t size, run, line;         // rows of a patch; units of a run and of a row of the image
};
template <typename Unit>
struct Patch {
  const Unit* from;  // its first unit in the first channel
  PatchShape shape;
  __device__ Unit operator()(std::int64_t unit) const {
    const auto at = static_cast<unsigned>(unit), run = static_cast<unsigned>(shape.run);
    const auto size = static_cast<unsigned>(shape.size);
    const std::int64_t channel = at / run / size, y = at / run % size;
    return from[(channel * shape.down * shape.size + y) * shape.line + at % run];
  }
};
template <typename Unit>
struct PatchSource {
  const Unit* pixels;
  PatchShape shape;
  __device__ Patch<Unit> operator()(std::int64_t row) const {
    const std::int64_t image = row / (shape.down * shape.across);
    const std::int64_t top = row / shape.across % shape.down * shape.size, left = row % shape.across * shape.run;
    return {pixels + (image * shape.channels * shape.down * shape.size + top) * shape.line + left, shape};
  }
};

std::unique_ptr<Kernel> make_patchify(const Context& context, const TensorType& pixels, std::int64_t size) {
  const std::size_t element = dtype_bytes(pixels.dtype);
  return make_launch(0, [&context, size, element, image = pixels.shape](const KernelArguments& a) {
    for_unit(static_cast<std::size_t>(size) * element, [&]<typename Unit>(Unit) {
      const auto units = [&](std::int64_t elements) {
        return elements * static_cast<std::int64_t>(element) / static_cast<std::int64_t>(sizeof(Unit));
      };
      const PatchShape shape{image[1], image[2] / size, image[3] / size, size, units(size), units(image[3])};
      launch_copy<Unit>(context, a, PatchSource<Unit>{static_cast<const Unit*>(a.inputs[0].raw()), shape});
    });
  });
}

// make_source(unit, units of a row) says what each of the output's rows, of `row_bytes`, is a copy of.
template <typename MakeSource>
std::unique_ptr<Kernel> make_copy(const Context& context, const TensorType& x, const MakeSource& make_source) {
  const std::size_t row_bytes = static_cast<std::size_t>(x.shape[1]) * dtype_bytes(x.dtype);
  return make_launch(0, [&context, row_bytes, make_source](const KernelArguments& a) {
    for_unit(row_bytes, [&]<typename Unit>(Unit unit) {
      launch_copy<Unit>(context, a, make_source(a, unit, static_cast<std::int64_t>(row_bytes / sizeof(Unit))));
    });
  });
}

template <typename Unit>
const Unit* units(const KernelArguments& a, std::size_t index) {
  return static_cast<const Unit*>(a.inputs[index].raw());
}

template <int N, typename T>
__global__ void visual_embedding(const T* patches, const T* cls, const T* positions, T* y, Rows rows,
                                 std::int64_t visual) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const std::int64_t sample = row / visual, token = row % visual;
    const T* const from = token == 0 ? cls : patches + (sample * (visual - 1) + token - 1) * width;
    for (std::int64_t c = lane_index() * N; c < width; c += kWarp * N) {
      float sum[N], position[N];
      load(from + c, N, sum);
      load(positions + token * width + c, N, position);
      for (int i = 0; i < N; ++i) sum[i] += position[i];
      store(sum, N, y + row * width + c);
    }
  }
}

// One warp per token and group of columns: copies its rows, one of each sample, and sums them at the same time.
template <int N, typename T>
__global__ void visual_embedding_grad(const T* dy, T* dpatches, T* dcls, T* dpositions, Rows rows,
                                      std::int64_t visual) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t token = first_row(); token < visual; token += row_stride()) {
    for (std::int64_t c = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane_index()) * N; c < width;
         c += static_cast<std::int64_t>(gridDim.y) * kWarp * N) {
      float sum[N] = {};
      for (std::int64_t row = token, sample = 0; row < count; row += visual, ++sample) {
        float each[N];
        load(dy + row * width + c, N, each);
        for (int i = 0; i < N; ++i) sum[i] += each[i];
        if (token > 0) store(each, N, dpatches + (sample * (visual - 1) + token - 1) * width + c);
      }
      store(sum, N, dpositions + token * width + c);
      if (token == 0) store(sum, N, dcls + c);
    }
  }
}

template <typename T>
std::unique_ptr<Kernel> make_visual_embedding(const Context& context, std::int64_t visual) {
  return make_launch(0, [&context, visual](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.outputs[0]);
    for_pack(rows.columns, [&](auto pack) {
      launch(context.stream(), visual_embedding<pack(), T>,
             {.blocks = row_blocks(rows.capacity), .threads = kRowThreads}, input<T>(a, 0), input<T>(a, 1),
             input<T>(a, 2), output<T>(a, 0), rows, visual);
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> make_visual_embedding_grad(const Context& context, std::int64_t visual) {
  return make_launch(0, [&context, visual](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    for_pack(rows.columns, [&](auto pack) {
      launch(
          context.stream(), visual_embedding_grad<pack(), T>,
          {.blocks = row_blocks(visual), .threads = kRowThreads, .blocks_y = blocks_for(rows.columns / pack(), kWarp)},
          input<T>(a, 0), output<T>(a, 0), output<T>(a, 1), output<T>(a, 2), rows, visual);
    });
  });
}

struct HeadsShape {
  std::int64_t first, second;  // columns per head
  float first_factor, second_factor;
};

// Finds column c of the matrix with both parts: it lies in the first matrix, or in the second one.
struct HeadsColumn {
  bool is_first;
  std::int64_t column;
  __device__ HeadsColumn(const HeadsShape& shape, std::int64_t c) {
    const auto both = static_cast<unsigned>(shape.first + shape.second);
    const std::int64_t head = static_cast<unsigned>(c) / both, at = static_cast<unsigned>(c) % both;
    is_first = at < shape.first;
    column = is_first ? head * shape.first + at : head * shape.second + at - shape.first;
  }
};

// N columns per lane, all of one part; rows.columns are those of both. `second` may be nullptr.
template <int N, typename T>
__global__ void concat_heads(const T* first, const T* second, T* y, Rows rows, HeadsShape shape, std::int64_t heads) {
  const std::int64_t count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    for (std::int64_t c = lane_index() * N; c < rows.columns; c += kWarp * N) {
      const HeadsColumn at(shape, c);
      float values[N] = {};
      if (at.is_first) {
        load(first + row * heads * shape.first + at.column, N, values);
      } else if (second != nullptr) {
        load(second + row * heads * shape.second + at.column, N, values);
      }
      for (float& value : values) value *= at.is_first ? shape.first_factor : shape.second_factor;
      store(values, N, y + row * rows.columns + c);
    }
  }
}

template <int N, typename T>
__global__ void split_heads(const T* x, T* first, T* second, Rows rows, HeadsShape shape, std::int64_t heads) {
  const std::int64_t count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    for (std::int64_t c = lane_index() * N; c < rows.columns; c += kWarp * N) {
      const HeadsColumn at(shape, c);
      if (!at.is_first && second == nullptr) continue;
      float values[N];
      load(x + row * rows.columns + c, N, values);
      for (float& value : values) value *= at.is_first ? shape.first_factor : shape.second_factor;
      store(values, N,
            at.is_first ? first + row * heads * shape.first + at.column
                        : second + row * heads * shape.second + at.column);
    }
  }
}

template <typename T>
std::unique_ptr<Kernel> make_heads(const Context& context, const HeadsAttributes& attributes, bool concat) {
  const HeadsShape shape{attributes.first_size, attributes.second_size, static_cast<float>(attributes.first_factor),
                         static_cast<float>(attributes.second_factor)};
  return make_launch(
      0, [&context, shape, heads = attributes.heads, has_second = attributes.second, concat](const KernelArguments& a) {
        const Rows rows = rows_of(a, concat ? a.outputs[0] : a.inputs[0]);
        for_pack(shape.first | shape.second, [&](auto pack) {
          const Launch of_rows{.blocks = row_blocks(rows.capacity), .threads = kRowThreads};
          if (concat) {
            launch(context.stream(), concat_heads<pack(), T>, of_rows, input<T>(a, 0),
                   has_second ? input<T>(a, 1) : nullptr, output<T>(a, 0), rows, shape, heads);
          } else {
            launch(context.stream(), split_heads<pack(), T>, of_rows, input<T>(a, 0), output<T>(a, 0),
                   has_second ? output<T>(a, 1) : nullptr, rows, shape, heads);
          }
        });
      });
}

}  // namespace

std::unique_ptr<Kernel> make_rows(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& first = graph.type(node.inputs[0]);
  switch (node.op) {
    case Op::kPatchify:
      return make_patchify(context, first, std::get<PatchAttributes>(node.attributes).patch_size);
    case Op::kPackRows:
      return make_copy(context, first, []<typename Unit>(const KernelArguments& a, Unit, std::int64_t row_units) {
        return PackSource<Unit>{units<Unit>(a, 0), units<Unit>(a, 1), input<std::int32_t>(a, 2), row_units};
      });
    case Op::kGatherRows:
      return make_copy(context, first, []<typename Unit>(const KernelArguments& a, Unit, std::int64_t row_units) {
        return GatherSource<Unit>{units<Unit>(a, 0), input<std::int32_t>(a, 1), row_units};
      });
    case Op::kTakeRows:
      return make_take_rows(context, first, std::get<RowPartAttributes>(node.attributes));
    case Op::kJoinRows:
      return make_join_rows(context, graph.type(node.outputs[0]));
    default:
      break;
  }
  return for_floating(first.dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    if (node.op == Op::kConcatHeads || node.op == Op::kSplitHeads) {
      return make_heads<T>(context, std::get<HeadsAttributes>(node.attributes), node.op == Op::kConcatHeads);
    }
    if (node.op == Op::kVisualEmbedding) return make_visual_embedding<T>(context, graph.type(node.inputs[2]).shape[1]);
    check(node.op == Op::kVisualEmbeddingGrad, "make_rows knows the op");
    return make_visual_embedding_grad<T>(context, std::get<VisualAttributes>(node.attributes).patches + 1);
  });
}

}  // namespace plimsoll::cuda
