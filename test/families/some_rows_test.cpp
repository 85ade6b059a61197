// Tables of which memory has only some rows: read from files and written to them, whole and in a rank's parts, in any
// form of memory. The reference is the whole table.
#include "model/some_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/parameters.h"
#include "model/repeated_decay.h"
#include "support/scratch_folder.h"
#include "tensor/device_tensor.h"

namespace plimsoll::test {
namespace {

struct Table {
  std::string name;
  std::int64_t rows = 0, width = 0;
  std::vector<std::int32_t> kept;
};
void PrintTo(const Table& of, std::ostream* out) { *out << of.name; }

float table_value(std::int64_t element) { return std::sin(static_cast<float>(element)); }

// Multiplies as the reference's AdamW does, one update after the other.
float decayed(float value, std::span<const float> factors) {
  for (const float factor : factors) value *= factor;
  return value;
}

std::vector<float> decays_of(std::size_t updates) {
  std::vector<float> factors(updates);
  for (std::size_t i = 0; i < updates; ++i) factors[i] = 1 - 1e-5F * static_cast<float>(i % 7);
  return factors;
}

class SomeRows : public testing::TestWithParam<Table> {
 protected:
  ParameterSpec spec() const {
    const Table& of = GetParam();
    return {.name = "table.weight",
            .shape = {std::ssize(of.kept), of.width},
            .file_shape = {of.rows, of.width},
            .rows = std::make_shared<const std::vector<std::int32_t>>(of.kept),
            .part = ParameterSpec::Part::kWordEmbedding};
  }
  WeightsFile file() const {
    std::vector<float> values(static_cast<std::size_t>(GetParam().rows * GetParam().width));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = table_value(static_cast<std::int64_t>(i));
    return write(values);
  }
  WeightsFile write(const std::vector<float>& values) const {
    SafetensorsWriter writer(folder_ / "model.safetensors", {{"table.weight", {DType::kF32, spec().file_shape}}});
    writer.write(std::as_bytes(std::span(values)));
    writer.finish();
    return open_weights(folder_ / "model.safetensors");
  }
  // The file's value of an element in memory.
  float in_file(std::int64_t element) const {
    const std::int64_t width = GetParam().width;
    return table_value(GetParam().kept[static_cast<std::size_t>(element / width)] * width + element % width);
  }
  std::size_t elements() const { return static_cast<std::size_t>(spec().shape.elements()); }
  ParameterReport load(const ParameterSource& source, const ParameterPlace& place) const {
    return load_parameters({spec()}, source, [&](const std::string&) { return place; });
  }
  std::vector<float> save(const ParameterSource& original, const ParameterPlace& place) const {
    save_parameters(folder_ / "saved.safetensors", {spec()}, original, [&](const std::string&) { return place; });
    std::vector<float> values(static_cast<std::size_t>(GetParam().rows * GetParam().width));
    std::vector<std::byte> staging(64);
    open_weights(folder_ / "saved.safetensors").read_as_f32("table.weight", values, staging);
    return values;
  }
  // Expects the table of a file in which memory's rows are -1, and the others have decayed.
  void expect_saved(const std::vector<float>& saved, std::span<const float> decays) const {
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const auto row = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / GetParam().width);
      const bool kept = std::ranges::binary_search(GetParam().kept, row);
      ASSERT_EQ(saved[i], kept ? -1 : decayed(table_value(static_cast<std::int64_t>(i)), decays)) << i;
    }
  }

  ScratchFolder folder_;
};

TEST_P(SomeRows, AreReadAndTheOthersDecayInTheFile) {
  const WeightsFile weights = file();
  std::vector<float> values(elements());
  const ParameterPlace place{std::span<float>(values)};
  ParameterSource source{.weights = &weights};
  load(source, place);
  source.table_hash = hash_table({spec()}, source);
  ASSERT_TRUE(source.table_hash);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], in_file(static_cast<std::int64_t>(i))) << i;
  std::ranges::fill(values, -1.0F);
  for (const std::size_t updates : {0U, 1U, 50U}) {
    const std::vector<float> decays = decays_of(updates);
    source.decays = decays;
    expect_saved(save(source, place), decays);
  }
}

TEST_P(SomeRows, OfARankAreAPart) {
  const WeightsFile weights = file();
  const auto bound = static_cast<std::int64_t>(elements()) * 2 / 3;  // seldom between two rows
  for (const auto& [first, count] :
       {std::pair{std::int64_t{0}, bound}, std::pair{bound, static_cast<std::int64_t>(elements()) - bound}}) {
    std::vector<float> values(static_cast<std::size_t>(count));
    load({.weights = &weights},
         ParameterPlace(DeviceTensor(TensorView({DType::kF32, {count}}, values.data())), {}, first));
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], in_file(first + i)) << i;
  }
}

TEST_P(SomeRows, InHalvesKeepEveryBit) {
  const WeightsFile weights = file();
  std::vector<std::uint16_t> high(elements());
  std::vector<std::int16_t> low(elements());
  const ParameterPlace place(DeviceTensor(TensorView({DType::kBF16, spec().shape}, high.data())),
                             DeviceTensor(TensorView({DType::kI16, spec().shape}, low.data())));
  load({.weights = &weights}, place);
  std::vector<float> read(elements());
  place.read(0, read);
  for (std::size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], in_file(static_cast<std::int64_t>(i))) << i;
}

// What memory has in fewer bits never changes, so that the file's table is copied. Blocks of codes lie within a row.
class CodedRows : public SomeRows {};

TEST_P(CodedRows, AreReadAndCopied) {
  const WeightsFile weights = file();
  std::vector<std::byte> codes(TensorType{DType::kQ8, spec().shape}.bytes());
  const ParameterPlace place(DeviceTensor(TensorView({DType::kQ8, spec().shape}, codes.data())));
  load({.weights = &weights}, place);
  std::vector<float> read(elements());
  place.read(0, read);
  for (std::size_t i = 0; i < read.size(); ++i) ASSERT_NEAR(read[i], in_file(static_cast<std::int64_t>(i)), 0.01) << i;
  const std::vector<float> saved = save({.weights = &weights}, place);
  for (std::size_t i = 0; i < saved.size(); ++i) ASSERT_EQ(saved[i], table_value(static_cast<std::int64_t>(i))) << i;
}

// Fresh values are those that a table with all rows would have.
TEST_P(SomeRows, OfFreshValuesAreThoseOfTheWholeTable) {
  ParameterSpec whole = spec();
  whole.shape = whole.file_shape;
  whole.rows = nullptr;
  whole.init = ParameterSpec::Init::kNormalPaddingRow;
  whole.padding_row = GetParam().kept.front();
  std::vector<float> all(static_cast<std::size_t>(whole.shape.elements())), values(elements());
  load_parameters({whole}, {.seed = 3}, [&](const std::string&) { return ParameterPlace(std::span<float>(all)); });
  ParameterSpec some = spec();
  some.init = whole.init;
  some.padding_row = whole.padding_row;
  load_parameters({some}, {.seed = 3}, [&](const std::string&) { return ParameterPlace(std::span<float>(values)); });
  const auto width = static_cast<std::size_t>(GetParam().width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], all[static_cast<std::size_t>(GetParam().kept[i / width]) * width + i % width]) << i;
  }
  save_parameters(folder_ / "saved.safetensors", {some}, {.seed = 3},
                  [&](const std::string&) { return ParameterPlace(std::span<float>(values)); });
  std::vector<float> saved(all.size());
  std::vector<std::byte> staging(64);
  open_weights(folder_ / "saved.safetensors").read_as_f32("table.weight", saved, staging);
  EXPECT_TRUE(saved == all);
}

// A file that has changed since, by as little as a bit of a row that memory lacks.
TEST_P(SomeRows, OfAFileThatHasChangedAreRefused) {
  std::vector<float> values(elements());
  const ParameterPlace place{std::span<float>(values)};
  std::optional<std::uint64_t> hash;
  {
    const WeightsFile weights = file();
    load({.weights = &weights}, place);
    hash = hash_table({spec()}, {.weights = &weights});
  }
  std::vector<float> other(static_cast<std::size_t>(GetParam().rows * GetParam().width));
  for (std::size_t i = 0; i < other.size(); ++i) other[i] = table_value(static_cast<std::int64_t>(i));
  other.back() = std::nextafter(other.back(), 2.0F);
  const WeightsFile changed = write(other);
  try {
    save({.weights = &changed, .table_hash = hash}, place);
    FAIL() << "it was saved";
  } catch (const DataError& error) {
    EXPECT_EQ(error.problem().what, "the model that the run goes on from has changed since");
  }
}

// Rows that memory lacks are saved again, so they must be numbers, too.
TEST_P(SomeRows, AreRefusedIfAnyRowIsNoNumber) {
  std::vector<float> damaged(static_cast<std::size_t>(GetParam().rows * GetParam().width), 1.0F);
  damaged.back() = std::numeric_limits<float>::infinity();
  const WeightsFile weights = write(damaged);
  std::vector<float> values(elements());
  const ParameterPlace place{std::span<float>(values)};
  EXPECT_THROW(load({.weights = &weights}, place), DataError);
  EXPECT_NO_THROW(load({.weights = &weights, .takes_any_number = true}, place));
}

INSTANTIATE_TEST_SUITE_P(, SomeRows,
                         testing::Values(Table{"Small", 7, 5, {1, 2, 5}}, Table{"OneRow", 9, 3, {4}},
                                         Table{"FirstAndLast", 40, 64, {0, 39}}, Table{"OneColumn", 70, 1, {0, 3, 69}},
                                         Table{"ManyPieces", 4100, 67, {0, 1, 977, 978, 979, 3000, 4099}},
                                         Table{"RowsBeyondAPiece", 3, 70000, {1}}),
                         [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(, CodedRows,
                         testing::Values(Table{"Small", 40, 64, {0, 7, 39}}, Table{"ManyPieces", 2100, 128, {3, 2099}}),
                         [](const auto& test) { return test.param.name; });

TEST(RepeatedDecay, IsThatOfOneUpdateAfterTheOther) {
  for (const std::size_t count : {0U, 1U, 7U, 64U, 131U, 1000U}) {
    for (const std::size_t updates : {0U, 1U, 33U}) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = table_value(static_cast<std::int64_t>(i));
      decay_repeatedly(values, decays_of(updates));
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(values[i], decayed(table_value(static_cast<std::int64_t>(i)), decays_of(updates))) << i;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
