// Plants faults in the tensors of a batch, at ten places each.
#include "data/tensor_checks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace plimsoll {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kB = 3, kS = 20, kSize = 4;
constexpr std::int32_t kPad = 1;
constexpr PaddedLimits kLimits{.vocab_size = 100, .labels = 3, .positions = 30, .coordinates = 1024};

// Has memory enough for the widest type.
struct Batch8 {
  std::vector<std::int64_t> ids = std::vector<std::int64_t>(kB * kS, 5),
                            boxes = std::vector<std::int64_t>(kB * kS * 4, 7),
                            mask = std::vector<std::int64_t>(kB * kS, 1),
                            labels = std::vector<std::int64_t>(kB * kS, 2),
                            positions = std::vector<std::int64_t>(kB * kS);
  std::vector<double> pixels = std::vector<double>(kB * 3 * kSize * kSize);

  Batch8() {
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = kPad + 1 + static_cast<std::int64_t>(i) % kS;
  }
  PaddedTensors tensors() {
    const auto view = [](auto& data, DType dtype, Shape shape) { return TensorView({dtype, shape}, data.data()); };
    return {.input_ids = view(ids, DType::kI64, {kB, kS}),
            .bbox = view(boxes, DType::kI64, {kB, kS, 4}),
            .attention_mask = view(mask, DType::kI64, {kB, kS}),
            .pixel_values = view(pixels, DType::kF32, {kB, 3, kSize, kSize}),
            .labels = view(labels, DType::kI64, {kB, kS}),
            .position_ids = view(positions, DType::kI64, {kB, kS})};
  }
};

Findings types(const PaddedTensors& tensors) {
  Findings findings(100);
  check_tensor_types(tensors, kSize, "batch.npz", findings);
  return findings;
}
Findings values(const PaddedTensors& tensors) {
  Findings findings(1000);
  check_tensor_values(tensors, kLimits, {.pad_id = kPad}, "batch.npz", findings);
  return findings;
}

TEST(TensorChecks, GoodTensorsHaveNoFindings) {
  Batch8 batch;
  EXPECT_TRUE(types(batch.tensors()).empty());
  EXPECT_TRUE(values(batch.tensors()).empty());
  PaddedTensors few = batch.tensors();
  few.labels = few.position_ids = {};
  EXPECT_TRUE(types(few).empty());
}

struct Member {
  const char* name;
  TensorView PaddedTensors::*tensor;
};
constexpr Member kIntegers[] = {{"input_ids", &PaddedTensors::input_ids},
                                {"bbox", &PaddedTensors::bbox},
                                {"attention_mask", &PaddedTensors::attention_mask},
                                {"labels", &PaddedTensors::labels},
                                {"position_ids", &PaddedTensors::position_ids}};

TEST(TensorChecks, NamesTypesThatDoNotMatch) {
  Batch8 batch;
  const auto expect = [&](const Member& member, DType dtype, const char* words) {
    PaddedTensors tensors = batch.tensors();
    TensorView& tensor = tensors.*member.tensor;
    tensor = TensorView({dtype, tensor.shape()}, tensor.raw());
    const Findings findings = types(tensors);
    ASSERT_EQ(findings.count("tensor-dtype"), 1U);
    EXPECT_EQ(findings.count(Severity::kError), 1U);
    EXPECT_THAT(findings.sorted()[0].first.what, HasSubstr(words));
    EXPECT_EQ(findings.sorted()[0].first.where, fmt::format("batch.npz, tensor '{}'", member.name));
  };
  for (const Member& member : kIntegers) {
    expect(member, DType::kI32, "int32 where int64 is expected");
    expect(member, DType::kF32, "float32 where int64 is expected");
    expect(member, DType::kBool, "bool where int64 is expected");
  }
  const Member pixels{"pixel_values", &PaddedTensors::pixel_values};
  expect(pixels, DType::kF64, "float64 where float32 is expected");
  expect(pixels, DType::kF16, "float16 where float32 is expected");
  expect(pixels, DType::kU8, "uint8 where float32 is expected");
}

TEST(TensorChecks, NamesShapesThatDoNotMatch) {
  Batch8 batch;
  for (const Member& member : kIntegers) {
    SCOPED_TRACE(member.name);
    PaddedTensors tensors = batch.tensors();
    TensorView& tensor = tensors.*member.tensor;
    const bool box = tensor.shape().rank() == 3;
    tensor = TensorView({DType::kI64, box ? Shape{kS, kB, 4} : Shape{kS, kB}}, tensor.raw());
    Findings findings = types(tensors);
    EXPECT_EQ(findings.count("tensor-transposed"), 1U) << findings.to_text();
    EXPECT_EQ(findings.count(Severity::kError), 1U) << findings.to_text();
    EXPECT_THAT(findings.sorted()[0].first.what, HasSubstr(box ? "[S, B, 4] where [B, S, 4]" : "[S, B] where [B, S]"));
    EXPECT_THAT(findings.sorted()[0].first.where, HasSubstr(member.name));
    if (member.tensor == &PaddedTensors::input_ids) continue;
    tensor = TensorView({DType::kI64, box ? Shape{kB, kS - 1, 4} : Shape{kB, kS - 1}}, tensor.raw());
    findings = types(tensors);
    EXPECT_EQ(findings.count("tensor-shape"), 1U) << findings.to_text();
  }
  PaddedTensors tensors = batch.tensors();
  tensors.input_ids = TensorView({DType::kI64, {kB * kS}}, batch.ids.data());
  EXPECT_EQ(types(tensors).count("tensor-shape"), 1U);
  tensors = batch.tensors();
  tensors.pixel_values = TensorView({DType::kF32, {kB, kSize, kSize, 3}}, batch.pixels.data());
  EXPECT_EQ(types(tensors).count("tensor-shape"), 1U) << "channels last";
  // Several faults at once are all found.
  tensors.labels = TensorView({DType::kI32, {kS, kB}}, batch.labels.data());
  EXPECT_EQ(types(tensors).count(Severity::kError), 3U);
}

TEST(TensorChecks, PlantedValuesAreFoundWhereTheyAre) {
  struct Planted {
    const char* kind;
    const char* tensor;
    std::vector<std::int64_t> Batch8::*data;
    std::int64_t value;
    std::size_t width = 1;
  };
  const Planted planted[] = {{"token-outside", "input_ids", &Batch8::ids, 100},
                             {"token-outside", "input_ids", &Batch8::ids, -1},
                             {"token-outside", "input_ids", &Batch8::ids, 1LL << 40},
                             {"box-outside", "bbox", &Batch8::boxes, 1024, 4},
                             {"box-outside", "bbox", &Batch8::boxes, -3, 4},
                             {"mask-value", "attention_mask", &Batch8::mask, 2},
                             {"mask-value", "attention_mask", &Batch8::mask, -10000},
                             {"label-outside", "labels", &Batch8::labels, 3},
                             {"label-outside", "labels", &Batch8::labels, -1},
                             {"position-outside", "position_ids", &Batch8::positions, 30},
                             {"position-differs", "position_ids", &Batch8::positions, 0}};
  std::mt19937_64 random(7);
  for (const Planted& each : planted) {
    for (int place = 0; place < 10; ++place) {
      Batch8 batch;
      auto& data = batch.*each.data;
      const std::size_t at = random() % data.size(), token = at / each.width;
      data[at] = each.value;
      const Findings findings = values(batch.tensors());
      ASSERT_EQ(findings.count(Severity::kError), 1U) << findings.to_text();
      const Finding found = findings.sorted()[0];
      EXPECT_EQ(found.kind, each.kind);
      EXPECT_EQ(found.first.where,
                fmt::format("batch.npz, page {}, token {}, tensor '{}'", token / kS, token % kS, each.tensor));
      EXPECT_EQ(found.first.found, std::to_string(each.value));
    }
  }
  for (int place = 0; place < 10; ++place) {
    Batch8 batch;
    const PaddedTensors tensors = batch.tensors();
    const auto pixels = tensors.pixel_values.span<float>();
    const std::size_t at = random() % pixels.size(), each = pixels.size() / kB;
    pixels[at] = place % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    const Findings findings = values(tensors);
    ASSERT_EQ(findings.count("not-finite"), 1U);
    EXPECT_EQ(findings.sorted()[0].first.where, fmt::format("batch.npz, page {}, tensor 'pixel_values'", at / each));
    EXPECT_THAT(findings.sorted()[0].first.found, HasSubstr(fmt::format("element {}", at % each)));
  }
  Batch8 batch;
  PaddedTensors tensors = batch.tensors();
  tensors.position_ids = {};
  PaddedLimits few = kLimits;
  few.positions = 18;  // tokens 16 to 19 have none
  Findings findings;
  check_tensor_values(tensors, few, {.pad_id = kPad}, "b", findings);
  EXPECT_EQ(findings.count("too-many-tokens"), 4U * kB);
  EXPECT_EQ(findings.sorted()[0].first.where, "b, page 0, token 16, tensor 'input_ids'");
}

}  // namespace
}  // namespace plimsoll
