#include "formats/weights.h"

#include <limits>

#include "formats/allocation_guard.h"
#include "formats/safetensors.h"
#include "formats/torch_archive.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Writes one float per name, counted from `first`.
void write_shard(const std::filesystem::path& path, const std::vector<std::string>& names, float first) {
  std::vector<TensorDeclaration> tensors;
  for (const std::string& name : names) tensors.push_back({name, {DType::kF32, {1}}});
  SafetensorsWriter writer(path, tensors);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const float value = first + static_cast<float>(i);
    writer.write(std::as_bytes(std::span(&value, 1)));
  }
  writer.finish();
}

std::string error_of(const std::filesystem::path& directory) {
  return data_error([&] { (void)open_weights(directory); });
}

TEST(Weights, TakesFilesInTheOrderOfTransformers) {
  const ScratchFolder directory;
  std::filesystem::copy_file(golden("state.bin"), directory.path() / "pytorch_model.bin");
  EXPECT_EQ(open_weights(directory.path()).path().filename(), "pytorch_model.bin");
  EXPECT_EQ(open_weights(directory.path()).entries().size(), 15U);
  write_shard(directory.path() / "part.safetensors", {"a"}, 1);
  directory.write("model.safetensors.index.json", R"({"weight_map": {"a": "part.safetensors"}})");
  EXPECT_EQ(open_weights(directory.path()).path().filename(), "model.safetensors.index.json");
  write_shard(directory.path() / "model.safetensors", {"b"}, 2);
  const WeightsFile weights = open_weights(directory.path());
  EXPECT_EQ(weights.path().filename(), "model.safetensors");
  EXPECT_THAT(read_tensor<float>(weights, "b"), ElementsAre(2));
  EXPECT_EQ(weights.find("a"), nullptr);
  EXPECT_THAT(read_tensor<float>(open_weights(directory.path() / "part.safetensors"), "a"), ElementsAre(1));
}

TEST(Weights, ReadsShards) {
  const ScratchFolder directory;
  write_shard(directory.path() / "one.safetensors", {"a", "b", "unlisted"}, 1);
  write_shard(directory.path() / "two.safetensors", {"c", "d"}, 10);
  directory.write("model.safetensors.index.json",
                  R"({"metadata": {"total_size": 16}, "weight_map": {"d": "two.safetensors", "a": "one.safetensors",
                     "c": "two.safetensors", "b": "one.safetensors"}})");
  const WeightsFile weights = open_weights(directory.path());
  EXPECT_EQ(weights.entries().size(), 4U);
  EXPECT_EQ(weights.files().size(), 2U);
  EXPECT_EQ(weights.find("unlisted"), nullptr);
  for (const auto& [name, value] : {std::pair{"a", 1.0F}, {"b", 2.0F}, {"c", 10.0F}, {"d", 11.0F}}) {
    EXPECT_THAT(read_tensor<float>(weights, name), ElementsAre(value)) << name;
  }
}

// What `stored` says is where `read` reads.
TEST(Weights, SaysWhereTensorsLieInTheirFiles) {
  const ScratchFolder directory;
  write_shard(directory.path() / "one.safetensors", {"a", "b", "unlisted"}, 1);
  write_shard(directory.path() / "two.safetensors", {"c", "d"}, 10);
  std::filesystem::copy_file(golden("state.bin"), directory.path() / "p1.bin");
  directory.write("model.safetensors.index.json",
                  R"({"weight_map": {"d": "two.safetensors", "a": "one.safetensors", "b": "one.safetensors",
                     "parameter": "p1.bin"}})");
  const WeightsFile weights = open_weights(directory.path());
  for (const std::string name : {"a", "b", "d"}) {
    const std::optional<StoredTensor> stored = weights.stored(name);
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->file.filename(), name == "d" ? "two.safetensors" : "one.safetensors");
    EXPECT_EQ(stored->dtype, DType::kF32);
    float value = 0;
    ASSERT_EQ(::pread(stored->descriptor, &value, sizeof value, static_cast<off_t>(stored->offset_bytes)), 4);
    EXPECT_THAT(read_tensor<float>(weights, name), ElementsAre(value)) << name;
  }
  EXPECT_FALSE(weights.stored("parameter")) << "a pickle's tensors may have strides";
}

TEST(Weights, ReadsShardsOfPickles) {
  const ScratchFolder directory;
  std::filesystem::copy_file(golden("state.bin"), directory.path() / "p1.bin");
  directory.write("pytorch_model.bin.index.json", R"({"weight_map": {"parameter": "p1.bin"}})");
  EXPECT_THAT(read_tensor<float>(open_weights(directory.path()), "parameter"), ElementsAre(0, 1, 2));
}

TEST(Weights, NamesWhatIsWrongWithAnIndex) {
  const ScratchFolder directory;
  write_shard(directory.path() / "one.safetensors", {"a"}, 1);
  const auto error_of_index = [&](const std::string& text) {
    directory.write("model.safetensors.index.json", text);
    return error_of(directory.path());
  };
  EXPECT_THAT(error_of_index(R"({"weight_map": {"z": "one.safetensors"}})"),
              AllOf(HasSubstr("'z'"), HasSubstr("one.safetensors")));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a": "gone.safetensors"}})"), HasSubstr("gone.safetensors"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a": "../one.safetensors"}})"), HasSubstr("elsewhere"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a": "/etc/passwd"}})"), HasSubstr("elsewhere"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a": ".."}})"), HasSubstr("elsewhere"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a": ""}})"), HasSubstr("elsewhere"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a": 1}})"), HasSubstr("names no file"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {}})"), HasSubstr("names no tensors"));
  EXPECT_THAT(error_of_index(R"({"weight_map": []})"), HasSubstr("no weight_map"));
  EXPECT_THAT(error_of_index("[]"), HasSubstr("no weight_map"));
  EXPECT_THAT(error_of_index(R"({"weight_map": )" + std::string(1'000'000, '[')), HasSubstr("too deep"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a")"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of_index(R"({"weight_map": {"a": "one.safetensors", "a": "one.safetensors"}})"),
              HasSubstr("names a tensor twice"));
}

TEST(Weights, ListsWhatWasLookedFor) {
  const ScratchFolder directory;
  directory.write("config.json", "{}");
  directory.write("tf_model.h5", "");
  EXPECT_THAT(error_of(directory.path()),
              AllOf(HasSubstr("model.safetensors, model.safetensors.index.json, pytorch_model.bin, "
                              "pytorch_model.bin.index.json"),
                    HasSubstr("config.json, tf_model.h5")));
  EXPECT_THAT(error_of(directory.path() / "none"), HasSubstr("missing directory"));
}

TEST(Weights, ReadsEveryFloatingTypeAsFloat) {
  const ScratchFolder directory;
  const auto path = directory.path() / "model.safetensors";
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  const std::vector<double> doubles{0.1, -1e300, std::numeric_limits<double>::denorm_min(), 3, 1.0 + 0x1p-24};
  const std::vector<float> floats{0.1F, -2};
  const std::vector<std::int64_t> ids{1};
  const auto narrow = std::as_bytes(std::span(bits));
  SafetensorsWriter writer(path, {{"half", {DType::kF16, {256, 256}}},
                                  {"bfloat16", {DType::kBF16, {65536}}},
                                  {"f64", {DType::kF64, {5}}},
                                  {"f32", {DType::kF32, {2}}},
                                  {"i64", {DType::kI64, {1}}},
                                  {"empty", {DType::kF16, {0}}}});
  writer.write(narrow);
  writer.write(narrow);
  writer.write(std::as_bytes(std::span(doubles)));
  writer.write(std::as_bytes(std::span(floats)));
  writer.write(std::as_bytes(std::span(ids)));
  writer.finish();

  const WeightsFile weights = open_weights(path);
  const auto same_bits = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  std::vector<float> wide(65536);
  weights.read_as_f32("half", wide, {});
  for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_TRUE(same_bits(wide[i], half_to_float(bits[i]))) << i;
  weights.read_as_f32("bfloat16", wide, {});
  for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_TRUE(same_bits(wide[i], bfloat16_to_float(bits[i]))) << i;
  for (const std::size_t staging_bytes : {8U, 20U, 4096U}) {  // smaller, odd and larger than the tensor
    std::vector<std::byte> staging(staging_bytes);
    std::vector<float> five(5);
    weights.read_as_f32("f64", five, staging);
    EXPECT_THAT(five, ElementsAre(0.1F, -std::numeric_limits<float>::infinity(), 0, 3, 1)) << staging_bytes;
  }
  std::vector<float> two(2);
  weights.read_as_f32("f32", two, {});
  EXPECT_EQ(two, floats);
  weights.read_as_f32("empty", {}, {});
  std::vector<float> one(1);
  EXPECT_THAT(data_error([&] { weights.read_as_f32("i64", one, {}); }), HasSubstr("I64[1]"));
  EXPECT_THROW(weights.read_as_f32("f32", one, {}), InternalError) << "a destination of another size";
}

TEST(Weights, ReadingAllocatesNothing) {
  std::vector<std::byte> staging(64), bytes(256);
  std::vector<float> values(24);
  for (const char* name : {"state.bin", "hugging_face.safetensors"}) {
    const WeightsFile weights = open_weights(golden(name));
    const AllocationGuard guard;
    for (const TensorEntry& entry : weights.entries()) {
      weights.read(entry.name, std::span(bytes).first(entry.type.bytes()));
      const auto elements = static_cast<std::size_t>(entry.type.shape.elements());
      if (is_floating(entry.type.dtype)) weights.read_as_f32(entry.name, std::span(values).first(elements), staging);
    }
    EXPECT_EQ(guard.largest_bytes(), 0U) << name;
  }
}

TEST(Weights, ReadsStridedDoublesThroughASmallStagingBuffer) {
  const WeightsFile weights = open_weights(golden("state.bin"));
  std::vector<std::byte> staging(16);
  std::vector<float> values(6);
  weights.read_as_f32("f64.transposed", values, staging);
  EXPECT_THAT(values, ElementsAre(0, 3, 1, 4, 2, 5));
}

}  // namespace
}  // namespace plimsoll
