// Ops that move rows: patchify, visual_embedding and its gradient, pack_rows, gather_rows, concat_heads, split_heads.
#include <algorithm>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// pixels[B,C,Y,X] -> row b*P + patch, patches row-major; inside a row: channel, y, x.
template <typename T>
void patchify(const KernelArguments& a, std::int64_t size) {
  const Shape& shape = a.inputs[0].shape();
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  const std::int64_t down = height / size, across = width / size;
  const T* pixels = a.inputs[0].data<T>();
  const Matrix<T> patches(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(patches.rows()); ++row) {
    const std::int64_t sample = row / (down * across);
    const std::int64_t top = row / across % down * size, left = row % across * size;
    T* out = patches[row];
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t y = top; y < top + size; ++y) {
        out = std::copy_n(pixels + ((sample * channels + channel) * height + y) * width + left, size, out);
      }
    }
  }
}

// Row b*V of the output is cls + positions[0], row b*V + 1 + p is patches[b*P + p] + positions[1 + p]. The row count
// counts output rows.
template <typename T>
void visual_embedding(const KernelArguments& a) {
  const Matrix<const T> patches(a.inputs[0]);
  const T* cls = a.inputs[1].data<T>();
  const T* positions = a.inputs[2].data<T>();
  const std::int64_t visual = a.inputs[2].shape()[1];
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    const std::int64_t sample = row / visual, token = row % visual;
    const T* source = token == 0 ? cls : patches[sample * (visual - 1) + token - 1];
    for (std::int64_t c = 0; c < y.columns(); ++c) {
      y[row][c] = static_cast<T>(double{source[c]} + double{positions[token * y.columns() + c]});
    }
  }
}

// dpatches[b*P + p] = dy[b*V + 1 + p]; dcls sums the cls rows, dpositions sums each token's rows over the samples.
template <typename T>
void visual_embedding_grad(const KernelArguments& a) {
  const Matrix<const T> dy(a.inputs[0]);
  const Matrix<T> dpatches(a.outputs[0]);
  T* dcls = a.outputs[1].data<T>();
  T* dpositions = a.outputs[2].data<T>();
  const std::int64_t visual = a.outputs[2].shape()[1], width = dy.columns(), rows = a.rows(dy.rows());
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row % visual == 0) continue;
    std::copy_n(dy[row], width, dpatches[row / visual * (visual - 1) + row % visual - 1]);
  }
  for (std::int64_t token = 0; token < visual; ++token) {
    for (std::int64_t c = 0; c < width; ++c) {
      double sum = 0.0;
      for (std::int64_t row = token; row < rows; row += visual) sum += double{dy[row][c]};
      dpositions[token * width + c] = static_cast<T>(sum);
      if (token == 0) dcls[c] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void pack_rows(const KernelArguments& a) {
  const Matrix<const T> text(a.inputs[0]), visual(a.inputs[1]);
  const std::int32_t* source = a.inputs[2].data<std::int32_t>();
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    const bool is_text = source[row] >= 0;
    const std::int64_t from = is_text ? source[row] : -1 - std::int64_t{source[row]};
    check(from < (is_text ? text.rows() : visual.rows()), "a packed row has a source");
    std::copy_n(is_text ? text[from] : visual[from], y.columns(), y[row]);
  }
}

// The row count counts output rows; rows with a negative index are zeros.
template <typename T>
void gather_rows(const KernelArguments& a) {
  const Matrix<const T> x(a.inputs[0]);
  const std::int32_t* index = a.inputs[1].data<std::int32_t>();
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    check(index[row] < x.rows(), "a gathered row exists");
    if (index[row] < 0) {
      std::fill_n(y[row], y.columns(), T{0});
    } else {
      std::copy_n(x[index[row]], y.columns(), y[row]);
    }
  }
}

// Works head by head; without a second matrix, its columns are zeros.
template <typename T>
void concat_heads(const KernelArguments& a, const HeadsAttributes& heads) {
  const Matrix<T> y(a.outputs[0]);
  const std::int64_t both = heads.first_size + heads.second_size;
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    for (std::int64_t c = 0; c < y.columns(); ++c) {
      const std::int64_t head = c / both, at = c % both;
      if (at < heads.first_size) {
        const Matrix<const T> first(a.inputs[0]);
        y[row][c] = static_cast<T>(heads.first_factor * double{first[row][head * heads.first_size + at]});
      } else if (heads.second) {
        const Matrix<const T> second(a.inputs[1]);
        const std::int64_t column = head * heads.second_size + at - heads.first_size;
        y[row][c] = static_cast<T>(heads.second_factor * double{second[row][column]});
      } else {
        y[row][c] = T{0};
      }
    }
  }
}

template <typename T>
void split_heads(const KernelArguments& a, const HeadsAttributes& heads) {
  const Matrix<const T> x(a.inputs[0]);
  const std::int64_t both = heads.first_size + heads.second_size;
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    for (std::int64_t c = 0; c < x.columns(); ++c) {
      const std::int64_t head = c / both, at = c % both;
      if (at < heads.first_size) {
        const Matrix<T> first(a.outputs[0]);
        first[row][head * heads.first_size + at] = static_cast<T>(heads.first_factor * double{x[row][c]});
      } else if (heads.second) {
        const Matrix<T> second(a.outputs[1]);
        const std::int64_t column = head * heads.second_size + at - heads.first_size;
        second[row][column] = static_cast<T>(heads.second_factor * double{x[row][c]});
      }
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> make_rows_kernel(const Graph&, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    switch (node.op) {
      case Op::kPatchify: {
        const std::int64_t size = std::get<PatchAttributes>(node.attributes).patch_size;
        return make_kernel(node, [size](const KernelArguments& a) { patchify<T>(a, size); });
      }
      case Op::kVisualEmbedding:
        return make_kernel(node, [](const KernelArguments& a) { visual_embedding<T>(a); });
      case Op::kVisualEmbeddingGrad:
        return make_kernel(node, [](const KernelArguments& a) { visual_embedding_grad<T>(a); });
      case Op::kConcatHeads:
        return make_kernel(node, [heads = std::get<HeadsAttributes>(node.attributes)](const KernelArguments& a) {
          concat_heads<T>(a, heads);
        });
      case Op::kSplitHeads:
        return make_kernel(node, [heads = std::get<HeadsAttributes>(node.attributes)](const KernelArguments& a) {
          split_heads<T>(a, heads);
        });
      case Op::kPackRows:
        return make_kernel(node, [](const KernelArguments& a) { pack_rows<T>(a); });
      default:
        check(node.op == Op::kGatherRows, "make_rows_kernel knows the op");
        return make_kernel(node, [](const KernelArguments& a) { gather_rows<T>(a); });
    }
  });
}

}  // namespace plimsoll::reference
