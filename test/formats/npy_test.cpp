#include "formats/npy.h"

#include <numeric>

#include "formats/support.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> read_floats(const std::filesystem::path& path) {
  const NpyReader reader(path);
  std::vector<float> values(static_cast<std::size_t>(reader.type().shape.elements()));
  reader.read(std::as_writable_bytes(std::span(values)));
  return values;
}

std::string made_file(const std::string& dictionary, std::size_t data_bytes, char version = 1) {
  const auto length = static_cast<std::uint32_t>(dictionary.size());
  return "\x93NUMPY" + std::string{version, '\0'} + little_endian(length).substr(0, version == 1 ? 2 : 4) + dictionary +
         std::string(data_bytes, '\x01');
}
std::string error_of(const std::string& content) {
  const ScratchFolder directory;
  return data_error([&] { NpyReader reader(directory.write("x.npy", content)); });
}
std::string error_of_header(const std::string& dictionary) { return error_of(made_file(dictionary, 24)); }

TEST(Npy, ReadsWhatNumPyWritesInAllVersions) {
  for (const char* name : {"version1.npy", "version2.npy", "version3.npy"}) {
    EXPECT_EQ(NpyReader(golden(name)).type(), (TensorType{DType::kF32, {2, 3}})) << name;
    EXPECT_THAT(read_floats(golden(name)), ElementsAre(0, 1, 2, 3, 4, 5)) << name;
  }
  EXPECT_EQ(NpyReader(golden("scalar.npy")).type(), (TensorType{DType::kI64, {}}));
}

TEST(Npy, RoundTrip) {
  const ScratchFolder directory;
  const auto path = directory.path() / "x.npy";
  const std::vector<Shape> shapes{{}, {0}, {5}, {2, 3}, {1, 2, 3, 1, 2}};
  for (const Shape& shape : shapes) {
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    std::iota(values.begin(), values.end(), -1.0F);
    write_npy(path, {DType::kF32, shape}, std::as_bytes(std::span(values)));
    EXPECT_EQ(NpyReader(path).type(), (TensorType{DType::kF32, shape}));
    EXPECT_EQ(read_floats(path), values);
    EXPECT_EQ((std::filesystem::file_size(path) - values.size() * 4) % 64, 0U) << "data begin aligned";
  }
  for (const DType dtype :
       {DType::kF64, DType::kF16, DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    const TensorType type{dtype, {3}};
    write_npy(path, type, std::vector<std::byte>(type.bytes()));
    EXPECT_EQ(NpyReader(path).type(), type);
  }
  EXPECT_THROW(write_npy(path, {DType::kBF16, {1}}, std::vector<std::byte>(2)), DataError);
}

TEST(Npy, RefusesOtherLayoutsAndTypes) {
  EXPECT_THAT(data_error([] { NpyReader reader(golden("fortran.npy")); }), HasSubstr("Fortran order"));
  EXPECT_THAT(data_error([] { NpyReader reader(golden("big_endian.npy")); }), HasSubstr(">f4"));
  EXPECT_THAT(data_error([] { NpyReader reader(golden("records.npy")); }), HasSubstr("type that is not read"));
}

TEST(Npy, AcceptsTheHeaderInAnyOrderAndSpacing) {
  const ScratchFolder directory;
  for (const char version : {'\1', '\2', '\3'}) {
    const NpyReader reader(
        directory.write("x.npy", made_file("{ 'shape':(6,),'fortran_order':True ,'descr' : '<f4'}\n", 24, version)));
    EXPECT_EQ(reader.type(), (TensorType{DType::kF32, {6}}));
  }
}

TEST(Npy, RefusesHeadersThatLie) {
  const auto header = [](const std::string& shape) {
    return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}";
  };
  EXPECT_THAT(error_of_header(header("(5,)")), HasSubstr("shape and its bytes disagree"));
  EXPECT_THAT(error_of_header(header("(7,)")), HasSubstr("shape and its bytes disagree"));
  EXPECT_THAT(error_of_header(header("(4294967296, 4294967296)")), HasSubstr("larger than any file"));
  EXPECT_THAT(error_of_header(header("(18446744073709551622,)")), HasSubstr("the size"));
  EXPECT_THAT(error_of_header(header("(-1,)")), HasSubstr("the size '-1"));
  EXPECT_THAT(error_of_header(header("(1,1,1,1,1,6)")), HasSubstr("too many dimensions"));
  EXPECT_THAT(error_of_header(header("6")), HasSubstr("no '('"));
  EXPECT_THAT(error_of_header(header("(6")), HasSubstr("no ')'"));
  EXPECT_THAT(error_of_header(header("(6,), 'shape': (6,)")), HasSubstr("the key 'shape'"));
  EXPECT_THAT(error_of_header(header("(6,), 'x': 1")), HasSubstr("the key 'x'"));
  EXPECT_THAT(error_of_header(header("(6,)") + "x"), HasSubstr("after the dictionary"));
  EXPECT_THAT(error_of_header("{'descr': '<f4', 'fortran_order': False}"), HasSubstr("missing"));
  EXPECT_THAT(error_of_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}"), HasSubstr("True or False"));
  EXPECT_THAT(error_of_header("{'descr"), HasSubstr("without an end"));
  EXPECT_THAT(error_of_header(""), HasSubstr("no '{'"));
  EXPECT_THAT(error_of(made_file(header("(6,)"), 24, 4)), HasSubstr("version"));
  EXPECT_THAT(error_of("\x93NUMPY\x01" + std::string{'\0'} + "\xFF\xFF{"), HasSubstr("65535 bytes"));
  EXPECT_THAT(error_of("PNG and so on"), HasSubstr("does not begin as"));
}

TEST(Npy, RefusesTornFilesAtEveryLength) {
  const std::string whole = read_text_file(golden("version2.npy"));
  const ScratchFolder directory;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto path = directory.write("torn.npy", std::string_view(whole).substr(0, length));
    EXPECT_THROW(NpyReader{path}, DataError) << length;
  }
}

TEST(Npz, ReadsStoredAndDeflatedArchives) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const NpzReader reader(golden(name));
    ASSERT_EQ(reader.entries().size(), 2U) << name;
    EXPECT_THAT(read_tensor<float>(reader, "matrix"), ElementsAre(0, 1, 2, 3, 4, 5));
    std::vector<std::int64_t> expected(300);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(read_tensor<std::int64_t>(reader, "labels"), expected);
    std::vector<std::int64_t> part(3);
    reader.read_elements(reader.at("labels"), 297, std::as_writable_bytes(std::span(part)));
    EXPECT_THAT(part, ElementsAre(297, 298, 299));
  }
}

TEST(Npz, RefusesAnArchiveOfOtherThings) {
  EXPECT_THAT(data_error([] { NpzReader reader(golden("state.bin")); }), HasSubstr("more than arrays"));
}

}  // namespace
}  // namespace plimsoll
