#include "data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

#include "data/batch_inputs.h"
#include "data/padded_batch.h"
#include "data/pages_fixture.h"

namespace plimsoll {
namespace {

using test::caught;
using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr std::int32_t kPad = 1;
// A batch with all arrays, of images of two cells per side: V = 5.
constexpr ImageForm kImage{.size = 4, .patches_per_side = 2};
BatchShape shape_for(std::int64_t samples, std::int64_t text) {
  return test::shape_with_every_input(samples, text, kImage);
}
const BatchShape kShape = shape_for(3, 8);

EncodedExample example_of(std::vector<std::int32_t> ids, std::int32_t label) {
  EncodedExample example;
  example.input_ids = std::move(ids);
  for (std::size_t i = 0; i < example.input_ids.size(); ++i) {
    const auto n = static_cast<std::int32_t>(10 * (i + 1));
    example.bbox.push_back({n, n + 1, n + 2, n + 3});
    example.labels.push_back(i == 1 ? label : kIgnoredLabel);
    example.predicts.push_back(i == 1 ? 7 : kNoWord);
  }
  return example;
}

std::span<const std::int32_t> ints(const Batch& batch, std::string_view name) {
  return batch.tensor(name).span<std::int32_t>();
}

// Computed by transformers: create_position_ids_from_input_ids([0, 50, 1, 60, 1, 1, 70, 2], padding_idx=1).
TEST(Batch, AWordThatReadsPadHasThePositionOfPadding) {
  const std::vector<std::int32_t> ids = {0, 50, 1, 60, 1, 1, 70, 2};
  Batch batch(kShape);
  batch.begin({});
  batch.add(example_of(ids, 4), {}, 0);
  batch.finish();
  EXPECT_THAT(ints(batch, "position_ids"), ElementsAre(2, 3, 1, 4, 1, 1, 5, 6));
  EXPECT_THAT(ints(batch, "input_ids"), ElementsAreArray(ids));
  EXPECT_EQ(batch.rows(), 13);
}

// As LlamaForSequenceClassification picks the token that represents a text: the last that is not padding, wherever
// padding stands; the first of a text that has no other.
TEST(Batch, ATextsLastRowIsNoPadding) {
  BatchShape shape = shape_for(3, 8);
  shape.inputs.push_back({.name = std::string(input::kLastRows), .type = {DType::kI32, {3}}});
  shape.inputs.push_back({.name = std::string(input::kLastRowOf), .type = {DType::kI32, {8 + 15}}});
  const auto last_rows = [](const BatchShape& form) {
    Batch batch(form);
    batch.begin({});
    for (const std::vector<std::int32_t>& ids : {std::vector{0, 50, kPad}, std::vector{kPad, kPad}, std::vector{0, 60}})
      batch.add(example_of(ids, 4), {}, 0);
    batch.finish();
    const auto rows = ints(batch, input::kLastRows);
    for (std::size_t sample = 0; sample < 3; ++sample) {
      EXPECT_EQ(ints(batch, input::kLastRowOf)[static_cast<std::size_t>(rows[sample])], sample);
    }
    return std::vector<std::int32_t>(rows.begin(), rows.end());
  };
  EXPECT_THAT(last_rows(shape), ElementsAre(1, 8, 16));
  shape.token.pads = false;  // the config names no such token
  EXPECT_THAT(last_rows(shape), ElementsAre(2, 9, 16));
}

TEST(Batch, PacksSampleAfterSample) {
  Batch batch(kShape);
  batch.begin({.epoch = 2, .update = 5});
  EXPECT_EQ(batch.add(example_of({0, 50, 2}, 4), {.page = 9}, 30), 0);
  EXPECT_EQ(batch.add(example_of({0, 60}, 3), {.page = 8, .window = 1}, 31), 1);
  std::fill(batch.pixels(1).begin(), batch.pixels(1).end(), 0.5F);
  batch.finish();

  EXPECT_EQ(batch.samples(), 2);
  EXPECT_EQ(batch.rows(), 15);
  EXPECT_EQ(batch.loss_terms(), 2);
  EXPECT_EQ(batch.info().update, 5U);
  EXPECT_EQ(batch.references()[1].page, 8U);
  EXPECT_EQ(batch.first_text_row(0), 0);
  EXPECT_EQ(batch.first_text_row(1), 3);
  EXPECT_EQ(batch.first_text_row(2), 5);
  EXPECT_THAT(batch.predicts(), ElementsAre(-1, 7, -1, -1, 7));

  EXPECT_THAT(ints(batch, "input_ids"), ElementsAre(0, 50, 2, 0, 60, 0, 0, 0));
  EXPECT_THAT(ints(batch, "position_ids"), ElementsAre(2, 3, 4, 2, 3, 0, 0, 0));
  EXPECT_THAT(ints(batch, "token_type_ids"), Each(0));
  EXPECT_THAT(ints(batch, "labels"), ElementsAre(-100, 4, -100, -100, 3, -100, -100, -100));
  EXPECT_THAT(ints(batch, "bbox").first(8), ElementsAre(10, 11, 12, 13, 20, 21, 22, 23));
  EXPECT_THAT(ints(batch, "bbox").subspan(12, 4), ElementsAre(10, 11, 12, 13));
  // There are 8 + 15 rows, of which 15 are used.
  EXPECT_THAT(ints(batch, "row_source"),
              ElementsAre(0, 1, 2, -1, -2, -3, -4, -5, 3, 4, -6, -7, -8, -9, -10, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ints(batch, "text_row_index"), ElementsAre(0, 1, 2, 8, 9, 0, 0, 0));
  EXPECT_THAT(ints(batch, "visual_row_index"), ElementsAre(3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 0, 0, 0, 0, 0));
  EXPECT_THAT(ints(batch, "sample_offsets"), ElementsAre(0, 8, 15, 15));
  EXPECT_THAT(ints(batch, "relative_coordinates").first(24),
              ElementsAre(0, 10, 13, 1, 20, 23, 2, 30, 33,  // text: position, x0, y1
                          0, 1, 999,                        // CLS
                          1, 0, 500, 2, 500, 500, 3, 0, 1000, 4, 500, 1000));
  EXPECT_THAT(ints(batch, "row_keys").first(20),
              ElementsAre(30, 0, 30, 1, 30, 2, 30, 65536, 30, 65537, 30, 65538, 30, 65539, 30, 65540, 31, 0, 31, 1));
  EXPECT_THAT(ints(batch, "text_row_keys"), ElementsAre(30, 0, 30, 1, 30, 2, 31, 0, 31, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ints(batch, "key_mask").first(15), Each(1));
  EXPECT_THAT(ints(batch, "key_mask").subspan(15), Each(0));
  EXPECT_THAT(ints(batch, "text_rows"), ElementsAre(5));
  EXPECT_THAT(ints(batch, "visual_rows"), ElementsAre(10));
  EXPECT_THAT(ints(batch, "patch_rows"), ElementsAre(8));
  EXPECT_THAT(ints(batch, "rows"), ElementsAre(15));
  const auto pixels = batch.tensor("pixel_values").span<float>();
  EXPECT_THAT(pixels.first(48), Each(0.0F));
  EXPECT_THAT(pixels.subspan(48, 48), Each(0.5F));
}

// Bytes become the floats that they stand for, in planes; unused rows become 0.
TEST(Batch, NormalisesPixelsHeldAsBytes) {
  PixelValues values{};
  for (std::size_t i = 0; i < 256; ++i)
    values[0][i] = 1.0F, values[1][i] = -0.5F * static_cast<float>(i), values[2][i] = 3;
  BatchShape shape = kShape;
  shape.pixel_type = DType::kU8;
  Batch batch(shape, values);
  batch.begin();
  for (std::int32_t b = 0; b < 3; ++b) {
    batch.add(example_of({0, 50}, 4), {}, b);
    std::ranges::fill(batch.pixel_bytes(b), std::uint8_t{200});
  }
  batch.finish();
  batch.begin();
  batch.add(example_of({0, 50, 2}, 4), {}, 0);
  for (std::size_t i = 0; i < 48; ++i) batch.pixel_bytes(0)[i] = static_cast<std::uint8_t>(i);
  batch.finish();
  EXPECT_THAT(batch.tensor("pixel_values").span<std::uint8_t>().subspan(48), Each(0));
  std::vector<float> floats(3 * 48, 7.0F);
  batch.write_pixels(floats);
  EXPECT_THAT(std::span(floats).first(16), Each(1.0F));
  for (std::size_t pixel = 0; pixel < 16; ++pixel) {
    EXPECT_EQ(floats[16 + pixel], -0.5F * static_cast<float>(3 * pixel + 1));
  }
  EXPECT_THAT(std::span(floats).subspan(32, 16), Each(3.0F));
  EXPECT_THAT(std::span(floats).subspan(48), Each(0.0F));
}

TEST(Batch, VisualBoxesAreTransformersOnes) {
  // The values are torch.div(torch.arange(0, 15000, 1000), 14, rounding_mode="trunc").
  const std::int32_t grid[] = {0, 71, 142, 214, 285, 357, 428, 500, 571, 642, 714, 785, 857, 928, 1000};
  EXPECT_EQ(visual_coordinates(0, 14), (std::array<std::int32_t, 3>{0, 1, 999}));
  for (std::int64_t row = 0; row < 14; ++row) {
    for (std::int64_t column = 0; column < 14; ++column) {
      const std::int64_t token = 1 + 14 * row + column;
      EXPECT_EQ(visual_coordinates(token, 14),
                (std::array<std::int32_t, 3>{static_cast<std::int32_t>(token), grid[column], grid[row + 1]}));
    }
  }
}

TEST(Batch, PadsOnlyWhenAsked) {
  Batch batch(kShape);
  batch.begin();
  batch.add(example_of({0, 50, 2}, 4), {}, 0, 5);
  batch.finish();
  EXPECT_THAT(ints(batch, "input_ids").first(5), ElementsAre(0, 50, 2, kPad, kPad));
  EXPECT_THAT(ints(batch, "position_ids").first(5), ElementsAre(2, 3, 4, kPad, kPad));
  EXPECT_THAT(ints(batch, "key_mask").first(10), ElementsAre(1, 1, 1, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_THAT(ints(batch, "bbox").subspan(12, 8), Each(0));
  EXPECT_THAT(ints(batch, "relative_coordinates").subspan(9, 6), ElementsAre(3, 0, 0, 4, 0, 0));
  EXPECT_EQ(batch.loss_terms(), 1);
  EXPECT_EQ(batch.text_rows(), 5);
}

// A batch's earlier contents leave no trace.
TEST(Batch, BytesDependOnItsExamplesAlone) {
  Batch used(kShape), fresh(kShape);
  used.begin();
  for (std::int32_t b = 0; b < 3; ++b) {
    used.add(example_of({5, 6}, 7), {}, b);
    std::fill(used.pixels(b).begin(), used.pixels(b).end(), 3.0F);
  }
  used.finish();
  for (Batch* batch : {&used, &fresh}) {
    batch->begin();
    batch->add(example_of({0, 50, 2}, 4), {}, 0);
    std::fill(batch->pixels(0).begin(), batch->pixels(0).end(), 1.0F);
    batch->finish();
  }
  for (std::size_t i = 0; i < used.tensors().size(); ++i) {
    const auto& [name, a] = used.tensors()[i];
    const TensorView b = fresh.tensors()[i].second;
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << name;
  }
}

// Computed by transformers: BERT's positions are torch.arange(6) whatever the tokens are.
TEST(Batch, ATextModelHasNeitherBoxesNorVisualRows) {
  const auto ints_of = [](std::string_view name, Shape shape) {
    return InputSpec{.name = std::string(name), .type = {DType::kI32, shape}};
  };
  const BatchShape shape{
      .max_samples = 2,
      .max_text_rows = 8,
      .token = {.pad_id = 0, .first_position = 0},
      .inputs = {ints_of(input::kInputIds, {8}), ints_of(input::kPositionIds, {8}), ints_of(input::kRowKeys, {8, 2}),
                 ints_of(input::kSampleOffsets, {3}), ints_of(input::kKeyMask, {8}), ints_of(input::kLabels, {8}),
                 ints_of(input::kRows, {1})}};
  Batch batch(shape);
  batch.begin();
  batch.add(example_of({101, 0, 50, 102}, 4), {}, 7, 6);
  EXPECT_TRUE(batch.pixels(0).empty() && batch.pixel_bytes(0).empty());
  batch.finish();
  EXPECT_EQ(batch.rows(), 6);
  EXPECT_EQ(batch.first_text_row(1), 6);
  EXPECT_THAT(ints(batch, "input_ids"), ElementsAre(101, 0, 50, 102, 0, 0, 0, 0));
  EXPECT_THAT(ints(batch, "position_ids"), ElementsAre(0, 1, 2, 3, 4, 5, 0, 0));
  EXPECT_THAT(ints(batch, "key_mask"), ElementsAre(1, 1, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(ints(batch, "sample_offsets"), ElementsAre(0, 6, 6));
  EXPECT_THAT(ints(batch, "rows"), ElementsAre(6));
  EXPECT_FALSE(batch.has("bbox"));

  BatchShape unknown = shape;
  unknown.inputs.push_back(ints_of("inputs_embeds", {8}));
  EXPECT_THROW(Batch{unknown}, InternalError);
  BatchShape misshapen = shape;
  misshapen.inputs.front() = ints_of(input::kInputIds, {9});
  EXPECT_THROW(Batch{misshapen}, InternalError);
}

TEST(Batch, RefusesMoreThanItHolds) {
  Batch batch(kShape);
  batch.begin();
  batch.add(example_of({1, 2, 3, 4, 5}, 0), {}, 0);
  EXPECT_THROW(batch.add(example_of({1, 2, 3, 4}, 0), {}, 1), InternalError);
  EXPECT_THROW(batch.tensor("nothing"), InternalError);
}

TEST(Batch, EveryArrayIsAlignedAndApart) {
  const Batch batch(kShape);
  std::set<std::string_view> names;
  std::uint64_t bytes = 0;
  for (const auto& [name, view] : batch.tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.raw()) % 64, 0U) << name;
    names.insert(name);
    bytes += view.bytes();
  }
  EXPECT_EQ(names.size(), 18U);
  EXPECT_GE(Batch::host_bytes(kShape), bytes);
}

struct PaddedFixture {
  // Two pages of four tokens; the second has two pads.
  std::vector<std::int64_t> ids = {0, 50, 51, 2, 0, 60, 1, 1};
  std::vector<std::int64_t> mask = {1, 1, 1, 1, 1, 1, 0, 0};
  std::vector<std::int64_t> labels = {-100, 1, -100, -100, -100, 2, -100, -100};
  std::vector<std::int64_t> boxes = std::vector<std::int64_t>(32, 5);
  std::vector<std::int64_t> types = {0, 1, 1, 0, 0, 0, 1, 0};
  std::vector<float> pixels = std::vector<float>(2 * 48, 0.25F);

  PaddedTensors tensors() {
    const auto view = [](auto& data, DType dtype, Shape shape) { return TensorView({dtype, shape}, data.data()); };
    return {.input_ids = view(ids, DType::kI64, {2, 4}),
            .bbox = view(boxes, DType::kI64, {2, 4, 4}),
            .attention_mask = view(mask, DType::kI64, {2, 4}),
            .pixel_values = view(pixels, DType::kF32, {2, 3, 4, 4}),
            .labels = view(labels, DType::kI64, {2, 4}),
            .token_type_ids = view(types, DType::kI64, {2, 4})};
  }
  static constexpr PaddedLimits kLimits{.vocab_size = 100, .labels = 3, .positions = 6, .token_types = 2};
};

TEST(PaddedBatch, KeepsEveryPosition) {
  PaddedFixture fixture;
  const PaddedSize size = padded_size(fixture.tensors(), kImage, "batch.safetensors");
  EXPECT_EQ(size.samples, 2);
  EXPECT_EQ(size.tokens, 4);
  Batch batch(shape_for(2, 8));
  pack_padded(fixture.tensors(), PaddedFixture::kLimits, "batch.safetensors", batch);
  EXPECT_THAT(ints(batch, "input_ids"), ElementsAre(0, 50, 51, 2, 0, 60, 1, 1));
  EXPECT_THAT(ints(batch, "position_ids"), ElementsAre(2, 3, 4, 5, 2, 3, 1, 1));
  EXPECT_THAT(ints(batch, "token_type_ids"), ElementsAre(0, 1, 1, 0, 0, 0, 1, 0));
  EXPECT_THAT(ints(batch, "key_mask"), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_THAT(ints(batch, "labels"), ElementsAre(-100, 1, -100, -100, -100, 2, -100, -100));
  EXPECT_THAT(ints(batch, "sample_offsets"), ElementsAre(0, 9, 18));
  // Pad rows keep their 1D position.
  EXPECT_THAT(ints(batch, "relative_coordinates").subspan(3 * 11, 6), ElementsAre(2, 5, 5, 3, 5, 5));
  EXPECT_THAT(batch.tensor("pixel_values").span<float>(), Each(0.25F));
  EXPECT_EQ(batch.loss_terms(), 2);
  EXPECT_EQ(batch.info().loss_weight_in_update, 2);

  fixture.labels.clear();
  PaddedTensors unlabelled = fixture.tensors();
  unlabelled.labels = unlabelled.token_type_ids = {};
  pack_padded(unlabelled, PaddedFixture::kLimits, "batch.safetensors", batch);
  EXPECT_THAT(ints(batch, "labels"), Each(-100));
  EXPECT_THAT(ints(batch, "token_type_ids"), Each(0));
}

TEST(PaddedBatch, LetsNothingBadThrough) {
  const auto problem = [](auto&& spoil) {
    PaddedFixture fixture;
    spoil(fixture);
    return caught<DataError>([&] {
             Batch batch(shape_for(2, 8));
             pack_padded(fixture.tensors(), PaddedFixture::kLimits, "b", batch);
           })
        .problem();
  };
  EXPECT_THAT(problem([](PaddedFixture& f) { f.ids[1] = 100; }).where,
              HasSubstr("page 0, token 1, tensor 'input_ids'"));
  EXPECT_EQ(problem([](PaddedFixture& f) { f.ids[1] = -1; }).found, "-1");
  EXPECT_EQ(problem([](PaddedFixture& f) { f.boxes[17] = 1024; }).allowed, "0 to 1023");
  EXPECT_EQ(problem([](PaddedFixture& f) { f.mask[7] = 2; }).allowed, "0 to 1");
  EXPECT_EQ(problem([](PaddedFixture& f) { f.types[3] = 2; }).allowed, "0 to 1");
  EXPECT_THAT(problem([](PaddedFixture& f) { f.types[3] = -1; }).where, HasSubstr("token 3, tensor 'token_type_ids'"));
  EXPECT_EQ(problem([](PaddedFixture& f) { f.labels[5] = 3; }).allowed, "0 to 2");
  EXPECT_THAT(problem([](PaddedFixture& f) { f.pixels[50] = std::numeric_limits<float>::quiet_NaN(); }).found,
              HasSubstr("nan"));

  PaddedFixture fixture;
  PaddedTensors tensors = fixture.tensors();
  tensors.bbox = TensorView({DType::kI64, {2, 4, 3}}, fixture.boxes.data());
  const auto error = caught<DataError>([&] { padded_size(tensors, kImage, "b"); });
  EXPECT_EQ(error.problem().found, "I64[2, 4, 3]");
  EXPECT_EQ(error.problem().allowed, "I64[2, 4, 4]");
  tensors = fixture.tensors();
  tensors.pixel_values = TensorView({DType::kF32, {2, 3, 5, 5}}, fixture.pixels.data());
  EXPECT_THROW(padded_size(tensors, kImage, "b"), DataError);
  // Patches would tile this image too, but there would be more of them than the model has positions.
  std::vector<float> larger(2 * 3 * 8 * 8);
  tensors.pixel_values = TensorView({DType::kF32, {2, 3, 8, 8}}, larger.data());
  const auto size_error = caught<DataError>([&] { padded_size(tensors, kImage, "b"); });
  EXPECT_THAT(size_error.problem().where, HasSubstr("'pixel_values'"));
  EXPECT_THAT(size_error.problem().allowed, HasSubstr("[2, 3, 4, 4]"));
  EXPECT_THAT(size_error.problem().allowed, HasSubstr("input_size is 4"));
}

// What a head of whole pages reads: the first row of each sample, in both directions, its keys, and the targets.
TEST(Batch, SaysWhereSamplesBeginAndWhatTheyAreTrainedTowards) {
  const ImageForm image{.size = 32, .patches_per_side = 1};  // two visual rows
  const std::int64_t samples = 3, text = 8, rows = text + samples * image.visual_tokens();
  BatchShape shape{.max_samples = samples, .max_text_rows = text, .image = image};
  const auto add = [&](std::string_view name, Shape dims, DType dtype = DType::kI32, bool is_target = false) {
    shape.inputs.push_back({.name = std::string(name),
                            .type = {dtype, dims},
                            .target = is_target ? TargetForm{.names = {std::string(name)},
                                                             .shape = dims.rank() > 1 ? Shape{dims[1]} : Shape()}
                                                : TargetForm()});
  };
  add(input::kSampleOffsets, {samples + 1});
  add(input::kFirstRows, {samples});
  add(input::kFirstRowOf, {rows});
  add(input::kSampleKeys, {samples, 2});
  add(input::kSamples, {1});
  add("numbers", {samples, 2}, DType::kF32, true);
  add(input::kLabels, {samples}, DType::kI32, true);
  Batch batch(shape);
  const auto example = [](std::size_t tokens, std::vector<std::int32_t> targets) {
    EncodedExample e;
    e.input_ids.assign(tokens, 9);
    e.bbox.resize(tokens);
    e.labels.assign(tokens, kIgnoredLabel);
    e.predicts.assign(tokens, kNoWord);
    e.loss_terms = std::ssize(targets);
    e.targets = std::move(targets);
    return e;
  };
  const auto half = std::bit_cast<std::int32_t>(0.5F);
  for (int again = 0; again < 2; ++again) {  // nothing is left of the batch before
    batch.begin();
    batch.add(example(3, {half, 0, 7}), {}, 5);
    batch.add(example(2, {}), {}, 6);
    batch.finish();
    const auto ints = [&](std::string_view name) { return batch.tensor(name).span<std::int32_t>(); };
    EXPECT_THAT(ints(input::kFirstRows), testing::ElementsAre(0, 5, -1));
    std::vector<std::int32_t> first_row_of(static_cast<std::size_t>(rows), -1);
    first_row_of[0] = 0;
    first_row_of[5] = 1;
    EXPECT_THAT(ints(input::kFirstRowOf), testing::ElementsAreArray(first_row_of));
    EXPECT_THAT(ints(input::kSampleKeys), testing::ElementsAre(5, 0, 6, 0, 0, 0));
    EXPECT_THAT(ints(input::kSamples), testing::ElementsAre(2));
    EXPECT_THAT(ints(input::kLabels), testing::ElementsAre(7, kIgnoredLabel, kIgnoredLabel));
    EXPECT_THAT(batch.tensor("numbers").span<float>(), testing::ElementsAre(0.5F, 0, 0, 0, 0, 0));
    EXPECT_EQ(batch.loss_terms(), 3);
    batch.begin();
    for (int i = 0; i < 2; ++i) batch.add(example(4, {half, half, 1}), {}, i);
    batch.add(example(0, {}), {}, 2);
    batch.finish();
  }
  EXPECT_THROW(batch.add(example(1, {}), {}, 0), InternalError);
  batch.begin();
  EXPECT_THROW(batch.add(example(1, {half}), {}, 0), InternalError);
}

}  // namespace
}  // namespace plimsoll
