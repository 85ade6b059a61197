#include "formats/safetensors.h"

#include <limits>

#include "formats/support.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

// Returns a file with this header (with its true length) and this many bytes of data.
std::string made_file(const std::string& header, std::size_t data_bytes) {
  return little_endian<std::uint64_t>(header.size()) + header + std::string(data_bytes, '\x01');
}

std::string error_of(const std::string& content) {
  const ScratchFolder directory;
  return data_error([&] { SafetensorsReader reader(directory.write("x.safetensors", content)); });
}

TEST(Safetensors, RoundTripKeepsOrderTypesBytesAndMetadata) {
  const ScratchFolder directory;
  const auto path = directory.path() / "x.safetensors";
  const std::vector<float> matrix{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> ids{-1, 1LL << 40};
  const std::vector<std::uint8_t> odd{7, 8, 9};
  const float scalar = 2.5F;
  const std::string strange = "quoted \"name\" \\ é\n";
  SafetensorsWriter writer(path,
                           {{"z", {DType::kF32, {1, 2, 1, 3, 1}}},
                            {"empty", {DType::kF16, {0, 4}}},
                            {strange, {DType::kI64, {2}}},
                            {"odd", {DType::kU8, {3}}},
                            {"scalar", {DType::kF32, {}}}},
                           {{"format", "pt"}, {"step", "17"}});
  writer.write(bytes_of(matrix).first(10));  // in pieces
  writer.write(bytes_of(matrix).subspan(10));
  writer.write({});
  writer.write(bytes_of(ids));
  writer.write(bytes_of(odd));
  writer.write(std::as_bytes(std::span(&scalar, 1)));
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is in place before finish()";
  writer.finish();
  EXPECT_FALSE(std::filesystem::exists(aside_path(path)));

  const SafetensorsReader reader(path);
  std::vector<std::string> names;
  for (const TensorEntry& entry : reader.entries()) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("z", "empty", strange, "odd", "scalar"));
  EXPECT_EQ(reader.at("z").type, (TensorType{DType::kF32, {1, 2, 1, 3, 1}}));
  EXPECT_EQ(reader.at("empty").type, (TensorType{DType::kF16, {0, 4}}));
  EXPECT_EQ(reader.at("scalar").type, (TensorType{DType::kF32, {}}));
  EXPECT_EQ(reader.at("z").offset_bytes % 8, 0U);
  EXPECT_EQ(read_tensor<float>(reader, "z"), matrix);
  EXPECT_EQ(read_tensor<std::int64_t>(reader, strange), ids);
  EXPECT_EQ(read_tensor<std::uint8_t>(reader, "odd"), odd);
  EXPECT_EQ(read_tensor<float>(reader, "scalar"), std::vector{scalar});
  EXPECT_TRUE(read_tensor<std::uint16_t>(reader, "empty").empty());
  EXPECT_EQ(reader.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"step", "17"}}));
  EXPECT_EQ(reader.find("none"), nullptr);
}

TEST(Safetensors, ReadsPartsAndNamesWhatIsMissing) {
  const ScratchFolder directory;
  const auto path = directory.path() / "x.safetensors";
  SafetensorsWriter writer(path, {{"a", {DType::kI32, {4}}}});
  writer.write(bytes_of(std::vector<std::int32_t>{1, 2, 3, 4}));
  writer.finish();
  const SafetensorsReader reader(path);
  std::vector<std::int32_t> part(2);
  reader.read_elements(reader.at("a"), 1, std::as_writable_bytes(std::span(part)));
  EXPECT_THAT(part, ElementsAre(2, 3));
  EXPECT_THROW(reader.read_elements(reader.at("a"), 3, std::as_writable_bytes(std::span(part))), InternalError);
  EXPECT_THAT(data_error([&] { (void)reader.at("b"); }), AllOf(HasSubstr("'b'"), HasSubstr("'a'")));
}

TEST(Safetensors, AbandonedWriterLeavesTheOldFile) {
  const ScratchFolder directory;
  const auto path = directory.write("x.safetensors", "old");
  {
    SafetensorsWriter writer(path, {{"a", {DType::kI32, {4}}}});
    writer.write(bytes_of(std::vector<std::int32_t>{1}));
    EXPECT_THROW(writer.finish(), InternalError);
  }
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_FALSE(std::filesystem::exists(aside_path(path)));
}

TEST(Safetensors, WriterRefusesMoreThanDeclared) {
  const ScratchFolder directory;
  const auto path = directory.path() / "x.safetensors";
  const std::vector<float> two(2);
  SafetensorsWriter writer(path, {{"a", {DType::kF32, {1}}}, {"b", {DType::kF32, {1}}}});
  EXPECT_THROW(writer.write(bytes_of(two)), InternalError) << "a piece across two tensors";
  writer.write(bytes_of(two).first(4));
  writer.write(bytes_of(two).first(4));
  EXPECT_THROW(writer.write(bytes_of(two).first(4)), InternalError);
  using Tensors = std::vector<TensorDeclaration>;
  const Tensors twins{{"a", {DType::kF32, {1}}}, {"a", {DType::kF32, {1}}}};
  EXPECT_THROW(SafetensorsWriter(directory.path() / "y", twins), InternalError);
  const Tensors not_utf8{{"\xFF", {DType::kF32, {1}}}};
  EXPECT_THROW(SafetensorsWriter(directory.path() / "y", not_utf8), DataError);
}

TEST(Safetensors, WriterRoundsToTheDeclaredType) {
  const ScratchFolder directory;
  const auto path = directory.path() / "x.safetensors";
  // More than the writer rounds at a time, and a value between two of each type.
  std::vector<float> values(10'000, 1.0F + 0x1.8p-9F);
  values.back() = 1e5F;
  const auto size = static_cast<std::int64_t>(values.size());
  const std::vector<TensorDeclaration> tensors{{"brain", {DType::kBF16, {size}}}, {"half", {DType::kF16, {size}}}};
  {
    SafetensorsWriter writer(path, tensors);
    writer.write_floats(values);
    EXPECT_THAT(data_error([&] { writer.write_floats(values); }), AllOf(HasSubstr("float16"), HasSubstr("65504")));
  }
  values.back() = std::numeric_limits<float>::infinity();  // it was infinite before
  SafetensorsWriter writer(path, tensors);
  writer.write_floats(values);
  writer.write_floats(std::span(values).first(4097));
  writer.write_floats(std::span(values).subspan(4097));
  writer.finish();
  const SafetensorsReader reader(path);
  std::vector<std::uint16_t> halves(values.size());
  for (const bool brain : {true, false}) {
    reader.read(brain ? "brain" : "half", std::as_writable_bytes(std::span(halves)));
    for (std::size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(halves[i], brain ? float_to_bfloat16(values[i]) : float_to_half(values[i])) << i;
    }
  }
}

TEST(Safetensors, ReadsWhatHuggingFaceWrites) {
  const SafetensorsReader reader(golden("hugging_face.safetensors"));
  EXPECT_EQ(reader.entries().size(), 11U);
  EXPECT_EQ(reader.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"note", "a \"quoted\" Unicode é"}}));
  EXPECT_THAT(read_tensor<double>(reader, "f64"), ElementsAre(0, 1, 2));
  EXPECT_THAT(read_tensor<float>(reader, "f32"), ElementsAre(-1, -.75F, -.5F, -.25F, 0, .25F));
  EXPECT_THAT(read_tensor<std::int64_t>(reader, "i64"), ElementsAre(-2, -1, 0, 1));
  EXPECT_THAT(read_tensor<std::int32_t>(reader, "i32"), ElementsAre(0, 1));
  EXPECT_THAT(read_tensor<std::uint8_t>(reader, "u8"), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read_tensor<std::uint8_t>(reader, "bool"), ElementsAre(1, 0, 1));
  EXPECT_THAT(read_tensor<float>(reader, "scalar"), ElementsAre(7));
  EXPECT_EQ(reader.at("f16").type, (TensorType{DType::kF16, {2, 2, 2}}));
  EXPECT_EQ(read_tensor<std::uint16_t>(reader, "f16")[1], 0xB800);  // -0.5
  EXPECT_EQ(read_tensor<std::uint16_t>(reader, "bf16")[1], 0xBF00);
  EXPECT_EQ(reader.at("empty").type, (TensorType{DType::kF32, {0, 3}}));
  EXPECT_EQ(reader.at("rank5").type, (TensorType{DType::kF32, {1, 2, 1, 2, 1}}));
}

TEST(Safetensors, AcceptsTheSmallestFiles) {
  const ScratchFolder directory;
  EXPECT_TRUE(SafetensorsReader(directory.write("a", made_file("{}", 0))).entries().empty());
  EXPECT_TRUE(SafetensorsReader(directory.write("b", made_file(R"({"__metadata__":{}}  )", 0))).entries().empty());
}

struct BadHeader {
  const char* name;
  std::string header;
  std::size_t data_bytes;
  const char* expected;  // part of the expected message
};

class BadHeaders : public testing::TestWithParam<BadHeader> {};

TEST_P(BadHeaders, AreRefusedByName) {
  EXPECT_THAT(error_of(made_file(GetParam().header, GetParam().data_bytes)), HasSubstr(GetParam().expected));
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}
std::string two(const std::string& first, const std::string& second) {
  const auto tensor = [](const std::string& offsets) {
    return R"({"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}";
  };
  return R"({"a":)" + tensor(first) + R"(,"b":)" + tensor(second) + "}";
}

INSTANTIATE_TEST_SUITE_P(
    All, BadHeaders,
    testing::Values(BadHeader{"overlap", two("[0,4]", "[2,6]"), 6, "two tensors share bytes"},
                    BadHeader{"hole", two("[0,4]", "[5,9]"), 9, "bytes lie between tensors"},
                    BadHeader{"beyond_the_end", two("[0,4]", "[4,8]"), 7, "does not lie inside its file"},
                    BadHeader{"trailing_bytes", two("[0,4]", "[4,8]"), 9, "longer than its tensors"},
                    BadHeader{"data_without_tensors", "{}", 1, "longer than its tensors"},
                    BadHeader{"backwards", one("U8", "[4]", "[4,0]"), 4, "does not lie inside its file"},
                    BadHeader{"huge_offset", one("U8", "[4]", "[0,18446744073709551615]"), 4, "inside its file"},
                    BadHeader{"over_64_bits", one("U8", "[4]", "[0,18446744073709551616]"), 4, "1844674407370"},
                    BadHeader{"wrong_size", one("F32", "[4]", "[0,4]"), 4, "shape and its bytes disagree"},
                    BadHeader{"wrong_dtype", one("F8_E4M3", "[4]", "[0,4]"), 4, "F8_E4M3"},
                    BadHeader{"shape_overflows", one("U8", "[4294967296,4294967296]", "[0,0]"), 0,
                              "larger than any file"},
                    BadHeader{"shape_overflows_behind_zero", one("U8", "[0,4294967296,4294967296]", "[0,0]"), 0,
                              "larger than any file"},
                    BadHeader{"rank6", one("U8", "[1,1,1,1,1,1]", "[0,1]"), 1, "more than 5 numbers"},
                    BadHeader{"negative", one("U8", "[-1]", "[0,1]"), 1, "-1"},
                    BadHeader{"fraction", one("U8", "[1.5]", "[0,1]"), 1, "1.5"},
                    BadHeader{"three_offsets", one("U8", "[1]", "[0,1,1]"), 1, "more than 2 numbers"},
                    BadHeader{"one_offset", one("U8", "[1]", "[0]"), 1, "1 data_offsets"},
                    BadHeader{"shape_is_text", one("U8", R"("1")", "[0,1]"), 1, "the text '1'"},
                    BadHeader{"nested", one("U8", "[[1]]", "[0,1]"), 1, "a list where none belongs"},
                    BadHeader{"no_dtype", R"({"w":{"shape":[1],"data_offsets":[0,1]}})", 1, "missing"},
                    BadHeader{"unknown_field", R"({"w":{"color":1}})", 1, "'color'"},
                    BadHeader{"dtype_twice", R"({"w":{"dtype":"U8","dtype":"I8"}})", 1, "'I8'"},
                    BadHeader{"shape_twice", R"({"w":{"shape":[1],"shape":[1]}})", 1, "'shape' twice"},
                    BadHeader{"name_twice",
                              R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                              R"("w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                              0, "name comes twice"},
                    BadHeader{"metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "metadata twice"},
                    BadHeader{"metadata_key_twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' twice"},
                    BadHeader{"metadata_number", R"({"__metadata__":{"a":1}})", 0, "a number"},
                    BadHeader{"not_an_object", "[]", 0, "a list where none belongs"},
                    BadHeader{"null", "null", 0, "null"},
                    BadHeader{"torn_json", R"({"w":{"dtype":"U8")", 0, "not JSON"},
                    BadHeader{"not_utf8", "{\"\xFF\":{}}", 0, "not JSON"},
                    BadHeader{"two_documents", "{}{}", 0, "not JSON"}, BadHeader{"empty", "", 0, "not JSON"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Safetensors, RefusesTornFilesAtEveryLength) {
  const std::string whole = read_text_file(golden("hugging_face.safetensors"));
  const ScratchFolder directory;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto path = directory.write("torn", std::string_view(whole).substr(0, length));
    EXPECT_THROW(SafetensorsReader{path}, DataError) << length;
  }
}

TEST(Safetensors, RefusesAHeaderLongerThanItsFileOrThanAnyHeader) {
  EXPECT_THAT(error_of(little_endian<std::uint64_t>(1000) + "{}"), HasSubstr("at most 2"));
  EXPECT_THAT(error_of(little_endian<std::uint64_t>(~0ULL) + "{}"), HasSubstr("18446744073709551615"));
  const ScratchFolder directory;
  const auto path = directory.write("large", little_endian<std::uint64_t>(200'000'000));
  std::filesystem::resize_file(path, 300'000'000);  // sparse: takes no space
  EXPECT_THAT(data_error([&] { SafetensorsReader reader(path); }), HasSubstr("at most 100000000"));
}

TEST(Safetensors, KnowsPlaceholdersForWhatTheyAre) {
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
              HasSubstr("git lfs pull"));
  EXPECT_THAT(error_of("<!DOCTYPE html><html></html>"), HasSubstr("web page"));
}

}  // namespace
}  // namespace plimsoll
