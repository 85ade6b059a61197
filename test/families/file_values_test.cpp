// Matrices that files have the other way round: read and written in any form of memory, whole and in parts.
#include "model/file_values.h"

#include <gtest/gtest.h>

#include <array>

#include "model/parameters.h"
#include "support/scratch_folder.h"
#include "tensor/device_tensor.h"

namespace plimsoll::test {
namespace {

struct Case {
  std::int64_t out = 0, in = 0;
};
// Small and odd, as wide as a tile, and of more than one strip either way.
constexpr std::array<Case, 6> kCases = {{{3, 5}, {1, 40}, {40, 1}, {33, 16}, {1300, 1000}, {700, 1700}}};

ParameterSpec spec_of(Case shape) {
  return {.name = "layer.weight",
          .shape = {shape.out, shape.in},
          .file_shape = {shape.in, shape.out},
          .transposed = true,
          .part = ParameterSpec::Part::kEncoderMatrix};
}

float value_at(std::int64_t out, std::int64_t in) { return static_cast<float>(out) * 4096 + static_cast<float>(in); }

// As memory has it, or the other way round, as the file has it.
std::vector<float> values_of(Case shape, bool in_file) {
  std::vector<float> values;
  const std::int64_t rows = in_file ? shape.in : shape.out, columns = in_file ? shape.out : shape.in;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) values.push_back(in_file ? value_at(c, r) : value_at(r, c));
  }
  return values;
}

class TransposedValues : public testing::Test {
 protected:
  WeightsFile file_of(Case shape) const {
    const ParameterSpec spec = spec_of(shape);
    SafetensorsWriter writer(folder_ / "model.safetensors", {{spec.name, {DType::kF32, spec.file_shape}}});
    const std::vector<float> values = values_of(shape, true);
    writer.write(std::as_bytes(std::span(values)));
    writer.finish();
    return open_weights(folder_ / "model.safetensors");
  }
  // The values of the file that save_parameters makes of such a place.
  std::vector<float> saved(Case shape, const ParameterPlace& place, const ParameterSource& original = {}) const {
    save_parameters(folder_ / "saved.safetensors", {spec_of(shape)}, original,
                    [&](const std::string&) { return place; });
    std::vector<float> values(static_cast<std::size_t>(shape.out * shape.in));
    std::vector<std::byte> staging(64);
    open_weights(folder_ / "saved.safetensors").read_as_f32("layer.weight", values, staging);
    return values;
  }

  ScratchFolder folder_;
};

TEST_F(TransposedValues, GoToFloatsAndBack) {
  for (const Case shape : kCases) {
    SCOPED_TRACE(testing::Message() << shape.out << " x " << shape.in);
    const WeightsFile weights = file_of(shape);
    std::vector<float> values(static_cast<std::size_t>(shape.out * shape.in));
    load_parameters({spec_of(shape)}, {.weights = &weights},
                    [&](const std::string&) { return ParameterPlace(std::span<float>(values)); });
    EXPECT_TRUE(values == values_of(shape, false));
    EXPECT_TRUE(saved(shape, ParameterPlace(std::span<float>(values))) == values_of(shape, true));
  }
}

TEST_F(TransposedValues, GoToHalvesAndBack) {
  for (const Case shape : kCases) {
    SCOPED_TRACE(testing::Message() << shape.out << " x " << shape.in);
    const WeightsFile weights = file_of(shape);
    const auto elements = static_cast<std::size_t>(shape.out * shape.in);
    std::vector<std::uint16_t> high(elements);
    std::vector<std::int16_t> low(elements);
    const Shape type = {shape.out, shape.in};
    const DeviceTensor upper(TensorView({DType::kBF16, type}, std::as_writable_bytes(std::span(high)).data()));
    const DeviceTensor lower(TensorView({DType::kI16, type}, std::as_writable_bytes(std::span(low)).data()));
    const ParameterPlace split(upper, lower), rounded(upper);
    load_parameters({spec_of(shape)}, {.weights = &weights}, [&](const std::string&) { return split; });
    EXPECT_TRUE(saved(shape, split) == values_of(shape, true));
    // What is frozen in halves comes from where it came from.
    EXPECT_TRUE(saved(shape, rounded, {.weights = &weights}) == values_of(shape, true));
  }
}

TEST_F(TransposedValues, AreReadFromAnyElementOn) {
  const Case shape = {7, 37};
  const WeightsFile weights = file_of(shape);
  const std::vector<float> whole = values_of(shape, false);
  std::vector<std::byte> staging(64);
  for (std::size_t first = 0; first < whole.size(); first += 5) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{30}, std::size_t{90}, whole.size() - first}) {
      if (first + count > whole.size()) continue;
      std::vector<float> part(count);
      read_values(weights, "layer.weight", spec_of(shape), static_cast<std::int64_t>(first), part, staging);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)))
          << first << ", " << count;
    }
  }
}

// A fresh weight that is frozen in halves is drawn again as it is saved, from any element on.
TEST_F(TransposedValues, FreshOnesAreSavedAsTheyAreInMemory) {
  const Case shape = {1300, 1001};  // strips begin at elements that are no multiples of four
  const ParameterSpec spec = spec_of(shape);
  std::vector<float> values(static_cast<std::size_t>(shape.out * shape.in));
  load_parameters({spec}, {.seed = 9}, [&](const std::string&) { return ParameterPlace(std::span<float>(values)); });
  std::vector<std::uint16_t> high(values.size());
  const DeviceTensor upper(TensorView({DType::kBF16, spec.shape}, std::as_writable_bytes(std::span(high)).data()));
  EXPECT_TRUE(saved(shape, ParameterPlace(upper), {.seed = 9}) ==
              saved(shape, ParameterPlace(std::span<float>(values))));
}

}  // namespace
}  // namespace plimsoll::test
