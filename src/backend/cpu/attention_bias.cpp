// attention_bias. CPU kernels of attention look biases up in the tables themselves, so this one need not be fast.
#include <cstdint>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "graph/attention_form.h"
#include "graph/relative_bucket.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kRowGrain = 4;

void store(DType dtype, float value, void* to, std::int64_t at) {
  if (dtype == DType::kF32) {
    static_cast<float*>(to)[at] = value;
  } else {
    static_cast<std::uint16_t*>(to)[at] = dtype == DType::kBF16 ? float_to_bfloat16(value) : float_to_half(value);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_attention_bias(const Graph& graph, const Node& node) {
  const AttentionAttributes attributes = attention_attributes(node);
  const AttentionForm form = attention_form(node);
  const std::int64_t columns = graph.type(node.outputs[0]).shape[1], keys = columns / attributes.heads;
  return make_kernel([=](const KernelArguments& a) {
    const auto offsets = a.inputs[form.sample_offsets()].span<const std::int32_t>();
    const auto* const key_mask = a.inputs[form.key_mask()].data<const std::int32_t>();
    const auto* const coordinates = a.inputs[form.coordinates()].data<const std::int32_t>();
    const TensorView& to = a.outputs[0];
    for (std::size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
      const std::int64_t begin = offsets[sample], length = offsets[sample + 1] - begin;
      // Returns the sum of the tables' biases for the rows `query` and `key`.
      const auto bias = [&](std::int64_t query, std::int64_t key, std::int64_t head) {
        float sum = 0;
        for (std::size_t t = 0; t < AttentionForm::kBiases; ++t) {
          if (!form.has_bias[t]) continue;
          const TensorView& table = a.inputs[form.table(t)];
          const auto bins = static_cast<std::int32_t>(table.shape()[1]);
          const auto at = [&](std::int64_t row) { return coordinates[3 * row + static_cast<std::int64_t>(t)]; };
          const std::int64_t most = t == 0 ? attributes.max_position_distance : attributes.max_spatial_distance;
          const std::int32_t bin = relative_bucket(at(key) - at(query), bins, static_cast<std::int32_t>(most));
          sum += table.data<const float>()[head * bins + bin];
        }
        return sum;
      };
      parallel_for(length, kRowGrain, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t query = begin + first; query < begin + end; ++query) {
          for (std::int64_t column = 0; column < columns; ++column) {
            const std::int64_t head = column / keys, key = column % keys;
            const bool open = key < length && key_mask[begin + key] != 0;
            const float value = open ? bias(query, begin + key, head) : -std::numeric_limits<float>::infinity();
            store(to.dtype(), value, to.raw(), query * columns + column);
          }
        }
      });
    }
  });
}

}  // namespace plimsoll
