#include "formats/quantized_writer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/error.h"
#include "tensor/block_code.h"
#include "tensor/dynamic_code.h"
#include "tensor/numpy_name.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kWrittenAtOnce = 1 << 18;
// The state's text ends in spaces, because its length is declared before its numbers are known.
constexpr std::int64_t kStateBytes = 256;

}  // namespace

std::int64_t QuantizedWriter::blocks() const { return (matrix_.type.shape.elements() + kCodeBlock - 1) / kCodeBlock; }

std::vector<TensorDeclaration> QuantizedWriter::declarations() const {
  const std::string& name = matrix_.name;
  std::vector<TensorDeclaration> tensors = {
      {name, {DType::kU8, {(matrix_.type.shape.elements() + 1) / 2, 1}}},
      {name + ".absmax", {use_double_quant_ ? DType::kU8 : DType::kF32, {blocks()}}},
      {name + ".quant_map", {DType::kF32, {static_cast<std::int64_t>(kNormalFloats.size())}}}};
  if (use_double_quant_) {
    tensors.push_back({name + ".nested_absmax", {DType::kF32, {code_blocks(blocks())}}});
    tensors.push_back({name + ".nested_quant_map", {DType::kF32, {static_cast<std::int64_t>(kSignedCodes.size())}}});
  }
  tensors.push_back({name + ".quant_state.bitsandbytes__nf4", {DType::kU8, {kStateBytes}}});
  return tensors;
}

void QuantizedWriter::write(SafetensorsWriter& writer, const Read& read) const {
  const Shape& shape = matrix_.type.shape;
  const std::int64_t elements = shape.elements();
  std::vector<float> factors, values(static_cast<std::size_t>(std::min(elements, kWrittenAtOnce)));
  factors.reserve(static_cast<std::size_t>(blocks()));
  std::vector<std::uint8_t> codes;
  for (std::int64_t first = 0; first < elements; first += kWrittenAtOnce) {
    const std::span<float> part =
        std::span(values).first(static_cast<std::size_t>(std::min(kWrittenAtOnce, elements - first)));
    read(first, part);
    codes.assign((part.size() + 1) / 2, 0);
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (i % kCodeBlock == 0) {
        factors.push_back(largest_magnitude(part.subspan(i, std::min<std::size_t>(kCodeBlock, part.size() - i))));
      }
      const unsigned code = normal_float_code(part[i] * normal_float_scale(factors.back()));
      codes[i / 2] = static_cast<std::uint8_t>(codes[i / 2] | (i % 2 == 0 ? code << 4U : code));
    }
    writer.write(std::as_bytes(std::span(codes)));
  }
  nlohmann::ordered_json state = {{"quant_type", "nf4"},
                                  {"blocksize", kCodeBlock},
                                  {"dtype", numpy_name(matrix_.type.dtype)},
                                  {"shape", {shape[0], shape[1]}}};
  std::vector<float> nested;
  if (!use_double_quant_) {
    writer.write(std::as_bytes(std::span(factors)));
  } else {
    const auto offset =
        static_cast<float>(std::accumulate(factors.begin(), factors.end(), 0.0) / static_cast<double>(factors.size()));
    for (float& factor : factors) factor -= offset;
    codes.clear();
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if (i % kStateBlock == 0) {
        nested.push_back(
            largest_magnitude(std::span(factors).subspan(i, std::min<std::size_t>(kStateBlock, factors.size() - i))));
      }
      codes.push_back(nearest_code(kSignedCodes, factors[i] * normal_float_scale(nested.back())));
    }
    writer.write(std::as_bytes(std::span(codes)));
    state["nested_blocksize"] = kStateBlock;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = double{offset};
  }
  writer.write(std::as_bytes(std::span(kNormalFloats)));
  if (use_double_quant_) {
    writer.write(std::as_bytes(std::span(nested)));
    writer.write(std::as_bytes(std::span(kSignedCodes)));
  }
  std::string text = state.dump();
  check(std::ssize(text) <= kStateBytes, "the state has room");
  text.resize(kStateBytes, ' ');
  writer.write(std::as_bytes(std::span(text)));
}

}  // namespace plimsoll
