// linear and its input's gradient with a weight in Q8 or NF4, or in halves that the machine does not multiply: the
// weight is decoded one tile of output columns at a time, so that a large weight is never in memory as a whole, and
// each tile is multiplied with all rows.
#include <algorithm>
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/decode.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/product_parts.h"
#include "backend/scratch.h"
#include "tensor/block_code.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kTile = 256;  // output columns
static_assert(kTile % kCodeBlock == 0);
// A matrix of at most this many elements is one tile: it takes at most a MiB, and its product is stored directly.
constexpr std::int64_t kSmallMatrix = 1 << 18;

// y[n, columns] = x[n, inner] b (+ bias) for n real rows; b is the weight [inner, columns], or, transposed, [columns,
// inner].
class CodedProduct final : public Kernel {
 public:
  CodedProduct(MatmulCache& cache, const Graph& graph, const Node& node, bool transposed)
      : x_type_(graph.type(node.inputs[0]).dtype),
        weight_(graph.type(node.inputs[1])),
        transposed_(transposed),
        product_(product_type(x_type_)),
        capacity_(graph.type(node.inputs[0]).shape[0]),
        inner_(graph.type(node.inputs[0]).shape[1]),
        columns_(graph.type(node.outputs[0]).shape[1]),
        tile_(inner_ * columns_ <= kSmallMatrix ? columns_ : std::min(kTile, columns_)),
        // A blocked product would copy the rows again for each tile.
        general_(product_ == DType::kF32 ? cache.general({.rows = capacity_, .columns = tile_, .inner = inner_},
                                                         capacity_, weight_.shape[1])
                                         : nullptr),
        chunk_(stores_directly() ? capacity_ : std::min(kChunk, capacity_)) {
    const std::int64_t width = tile_;
    tile_parts_ = {.shape = {.columns = width,
                             .inner = inner_,
                             .operands = product_,
                             .result = product_,
                             .transposed_b = transposed,
                             .bias = node.inputs.size() == 3},
                   .general = general_.get()};
    if (general_ != nullptr && stores_directly()) tile_parts_.shape.row_stride = columns_;
    std::size_t library_bytes = 0;
    const auto fill = [&](Ladder& ladder, std::int64_t columns) {
      ladder.fill(1, chunk_, [&](std::int64_t rows) {
        MatmulShape shape = tile_parts_.shape;
        shape.rows = rows;
        shape.columns = columns;
        auto product = cache.matmul(shape);
        library_bytes = std::max(library_bytes, product->scratch_bytes());
        return product;
      });
    };
    if (general_ == nullptr) {
      fill(tiles_, width);
      if (columns_ % width > 0) fill(last_tile_, columns_ % width);
    }
    ScratchLayout layout;
    tile_at_ = layout.add_bytes(bytes_of(product_, inner_ * width));
    tile_parts_.lay_out(layout, library_bytes);
    last_tile_parts_ = tile_parts_;
    last_tile_parts_.shape.columns = columns_ % width;
    x_at_ = layout.add_bytes(x_type_ == product_ ? 0 : bytes_of(product_, chunk_ * inner_));
    y_at_ = layout.add_bytes(stores_directly() ? 0 : bytes_of(product_, chunk_ * width));
    scratch_bytes_ = layout.bytes();
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = arguments.rows(capacity_);
    if (rows == 0) return;
    std::byte* const scratch = arguments.scratch.data();
    const float* const bias = arguments.inputs.size() > 2 ? arguments.inputs[2].data<float>() : nullptr;
    for (std::int64_t column = 0; column < columns_; column += tile_) {
      const std::int64_t width = std::min(tile_, columns_ - column);
      decode_tile(arguments.inputs[1].raw(), column, width, scratch + tile_at_);
      const void* const weight = scratch + tile_at_;
      const bool whole = width == tile_;
      const Ladder& products = whole ? tiles_ : last_tile_;
      const RowParts& parts = whole ? tile_parts_ : last_tile_parts_;
      const float* const tile_bias = bias == nullptr ? nullptr : bias + column;
      for (std::int64_t first = 0; first < rows; first += chunk_) {
        const std::int64_t count = std::min(chunk_, rows - first);
        const void* x = at(arguments.inputs[0].raw(), x_type_, first * inner_);
        void* const y = at(arguments.outputs[0].raw(), x_type_, first * columns_ + column);
        if (x_type_ != product_) {
          convert(x, x_type_, scratch + x_at_, product_, count * inner_);
          x = scratch + x_at_;
        }
        if (stores_directly()) {
          parts.multiply(products, count, x, weight, tile_bias, y, scratch);
          continue;
        }
        parts.multiply(products, count, x, weight, tile_bias, scratch + y_at_, scratch);
        parallel_for(count, kStep, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            convert(at(scratch + y_at_, product_, row * width), product_, at(y, x_type_, row * columns_), x_type_,
                    width);
          }
        });
      }
    }
  }

 private:
  // Otherwise a tile goes through scratch: oneDNN's prepared products store dense rows only, or allocate memory when
  // they run.
  bool stores_directly() const { return x_type_ == product_ && (columns_ == tile_ || general_ != nullptr); }

  void decode_tile(const void* weight, std::int64_t column, std::int64_t width, void* to) const {
    const std::int64_t weight_columns = weight_.shape[1];
    if (transposed_) {
      decode_rows(weight_.dtype, weight, weight_columns, column, width, 0, inner_, to, product_);
    } else {
      decode_rows(weight_.dtype, weight, weight_columns, 0, inner_, column, width, to, product_);
    }
  }

  DType x_type_;
  TensorType weight_;
  bool transposed_;
  DType product_;  // type that oneDNN reads and writes
  std::int64_t capacity_, inner_, columns_;
  std::int64_t tile_;                        // output columns of a tile
  std::unique_ptr<GeneralProduct> general_;  // or nullptr, and products are prepared
  std::int64_t chunk_;
  Ladder tiles_{chunk_}, last_tile_{chunk_};  // the second serves a last tile that is narrower
  RowParts tile_parts_{}, last_tile_parts_{};
  std::size_t tile_at_ = 0, x_at_ = 0, y_at_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_coded_linear(const Graph& graph, const Node& node, MatmulCache& cache) {
  return std::make_unique<CodedProduct>(cache, graph, node, true);
}

std::unique_ptr<Kernel> make_coded_linear_input_grad(const Graph& graph, const Node& node, MatmulCache& cache) {
  return std::make_unique<CodedProduct>(cache, graph, node, false);
}

}  // namespace plimsoll
