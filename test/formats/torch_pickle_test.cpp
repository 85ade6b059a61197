#include "formats/torch_pickle.h"

#include <algorithm>
#include <functional>

#include "formats/torch_archive.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& content) {
  const ScratchFolder directory;
  return data_error([&] { TorchPickleReader reader(directory.write("pytorch_model.bin", content)); });
}
std::string error_of(const TensorRecord& tensor) {
  return error_of(torch_archive(pickled_dict({{"w", pickled(tensor)}})));
}

class GoldenState : public testing::TestWithParam<const char*> {};

TEST_P(GoldenState, HoldsWhatTorchSaved) {
  const TorchPickleReader reader(golden(GetParam()));
  EXPECT_EQ(reader.entries().size(), 15U);
  EXPECT_EQ(reader.entries().front().name, "embedding.weight");
  const std::vector<float> tied{-1, -.75F, -.5F, -.25F, 0, .25F};
  EXPECT_EQ(read_tensor<float>(reader, "embedding.weight"), tied);
  EXPECT_EQ(read_tensor<float>(reader, "head.weight"), tied);
  EXPECT_EQ(reader.at("head.weight").offset_bytes, reader.at("embedding.weight").offset_bytes);
  EXPECT_THAT(read_tensor<float>(reader, "row"), ElementsAre(-.25F, 0, .25F));
  EXPECT_EQ(reader.at("f16").type, (TensorType{DType::kF16, {2, 2, 2}}));
  EXPECT_EQ(read_tensor<std::uint16_t>(reader, "f16")[1], 0xB800);  // -0.5
  EXPECT_EQ(read_tensor<std::uint16_t>(reader, "bf16")[1], 0xBF00);
  EXPECT_THAT(read_tensor<std::int64_t>(reader, "i64"), ElementsAre(-2, -1, 0, 1));
  EXPECT_THAT(read_tensor<std::uint8_t>(reader, "bool"), ElementsAre(1, 0, 1));
  EXPECT_THAT(read_tensor<float>(reader, "parameter"), ElementsAre(0, 1, 2));
  EXPECT_THAT(read_tensor<float>(reader, "scalar"), ElementsAre(7));
  EXPECT_EQ(reader.at("scalar").type.shape.rank(), 0U);
  EXPECT_EQ(reader.at("empty").type, (TensorType{DType::kF32, {0, 3}}));
  // Strided views, gathered row-major.
  EXPECT_EQ(reader.at("transposed").type, (TensorType{DType::kF32, {4, 3}}));
  EXPECT_THAT(read_tensor<float>(reader, "transposed"), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(read_tensor<float>(reader, "every_other"), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(read_tensor<float>(reader, "expanded"), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(read_tensor<double>(reader, "f64.transposed"), ElementsAre(0, 3, 1, 4, 2, 5));
}

// Element (c, a, b) of permute(2, 0, 1) of arange(24).reshape(2, 3, 4) is 12a + 4b + c. It is read whole, and in every
// part.
TEST_P(GoldenState, GathersStridedTensorsWholeAndInParts) {
  const TorchPickleReader reader(golden(GetParam()));
  std::vector<float> expected;
  for (int c = 0; c < 4; ++c) {
    for (int a = 0; a < 2; ++a) {
      for (int b = 0; b < 3; ++b) expected.push_back(static_cast<float>(12 * a + 4 * b + c));
    }
  }
  EXPECT_EQ(read_tensor<float>(reader, "permuted"), expected);
  for (std::size_t first = 0; first < 24; ++first) {
    for (std::size_t count = 0; first + count <= 24; ++count) {
      std::vector<float> part(count);
      reader.read_elements(reader.at("permuted"), first, std::as_writable_bytes(std::span(part)));
      ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(first)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Protocols, GoldenState, testing::Values("state.bin", "state_protocol4.bin"),
                         [](const auto& instance) {
                           return std::string(instance.param) == "state.bin" ? "two" : "four";
                         });

// The tensor is larger than the reading window; it is compared with a plain double loop.
TEST(TorchPickle, GathersALargeTransposedMatrix) {
  constexpr std::int32_t kRows = 301, kColumns = 203;
  std::string storage;
  for (std::int32_t i = 0; i < kRows * kColumns; ++i) storage += little_endian(i * 3 + 1);
  ZipBuilder zip;
  zip.add("m/data.pkl", pickled_dict({{"w", pickled(TensorRecord{.storage_class = "IntStorage",
                                                                 .storage_elements = kRows * kColumns,
                                                                 .sizes = {kColumns, kRows},
                                                                 .strides = {1, kColumns}})}}));
  zip.add("m/data/0", storage);
  const ScratchFolder directory;
  const TorchPickleReader reader(directory.write("pytorch_model.bin", zip.finish()));
  const auto values = read_tensor<std::int32_t>(reader, "w");
  std::vector<std::int32_t> part(5000);
  reader.read_elements(reader.at("w"), 777, std::as_writable_bytes(std::span(part)));
  for (std::int32_t column = 0; column < kColumns; ++column) {
    for (std::int32_t row = 0; row < kRows; ++row) {
      const auto i = static_cast<std::size_t>(column * kRows + row);
      ASSERT_EQ(values[i], (row * kColumns + column) * 3 + 1);
      if (i >= 777 && i < 777 + part.size()) {
        ASSERT_EQ(part[i - 777], values[i]);
      }
    }
  }
}

TEST(TorchPickle, FindsANestedStateDict) {
  const TorchPickleReader reader(golden("nested.bin"));
  std::vector<std::string> names;
  for (const TensorEntry& entry : reader.entries()) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_THAT(read_tensor<float>(reader, "0.weight"), ElementsAre(0, 1, 2, 3));
}

TEST(TorchPickle, RefusesWhatWouldRunCode) {
  EXPECT_THAT(data_error([] { TorchPickleReader reader(golden("runs_code.bin")); }),
              AllOf(HasSubstr("would run code"), HasSubstr("'posix.system'")));
  EXPECT_THAT(data_error([] { TorchPickleReader reader(golden("whole_module.bin")); }),
              AllOf(HasSubstr("would run code"), HasSubstr("'torch.nn.modules.container.Sequential'")));
}

TEST(TorchPickle, RefusesOtherFormatsWithARemedy) {
  EXPECT_THAT(data_error([] { TorchPickleReader reader(golden("legacy.bin")); }),
              AllOf(HasSubstr("before version 1.6"), HasSubstr("torch.save(torch.load(")));
  EXPECT_THAT(error_of("\x7f"
                       "ELF and so on"),
              HasSubstr("not a file that torch.save wrote"));
  EXPECT_THAT(error_of(""), HasSubstr("not a file that torch.save wrote"));
  // These bytes begin what torch.save writes with _use_new_zipfile_serialization=False, in each pickle_protocol.
  const std::string number = "\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  const std::string frame("\x95\x0d\0\0\0\0\0\0\0", 9);
  for (const std::string& start :
       {std::string("L119547037146038801333356L\n.L1001L\n."), "\x80\x02" + number + "\x80\x02M\xe9\x03",
        "\x80\x03" + number + "\x80\x03M\xe9\x03", "\x80\x04" + frame + number, "\x80\x05" + frame + number}) {
    EXPECT_THAT(error_of(start), AllOf(HasSubstr("before version 1.6"), HasSubstr("torch.save(torch.load(")));
  }
  EXPECT_THAT(error_of("\x80\x03}q\x01X\x01"), AllOf(HasSubstr("not a file that torch.save wrote"), HasSubstr("pickle.dump")));
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(data_error([] { TorchPickleReader reader(golden("stored.npz")); }), HasSubstr("0 entries"));
}

TEST(TorchPickle, TakesAHandMadeRecord) {
  const ScratchFolder directory;
  const TorchPickleReader reader(
      directory.write("pytorch_model.bin", torch_archive(pickled_dict({{"w", pickled(TensorRecord{})}}))));
  EXPECT_THAT(read_tensor<float>(reader, "w"), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TorchPickle, RefusesTensorsBeyondTheirStorage) {
  EXPECT_THAT(error_of(TensorRecord{.storage_elements = 7}), HasSubstr("storage is shorter"));
  EXPECT_THAT(error_of(TensorRecord{.storage_class = "DoubleStorage"}), HasSubstr("storage is shorter"));
  EXPECT_THAT(error_of(TensorRecord{.offset = 1}), HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(TensorRecord{.offset = 7}), HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(TensorRecord{.offset = 7, .sizes = {0, 3}}), HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(TensorRecord{.sizes = {3, 3}}), HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(TensorRecord{.strides = {4, 1}}), HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(TensorRecord{.strides = {0x7FFFFFFF, 0x7FFFFFFF}}), HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(TensorRecord{.storage_elements = 0, .sizes = {}, .strides = {}}),
              HasSubstr("beyond its storage"));
}

TEST(TorchPickle, RefusesRecordsThatLie) {
  EXPECT_THAT(error_of(TensorRecord{.key = "1"}), HasSubstr("storage is missing"));
  EXPECT_THAT(error_of(TensorRecord{.key = "../data.pkl"}), HasSubstr("storage is missing"));
  EXPECT_THAT(error_of(TensorRecord{.offset = -1}), HasSubstr("negative"));
  EXPECT_THAT(error_of(TensorRecord{.sizes = {-2, 3}}), HasSubstr("negative"));
  EXPECT_THAT(error_of(TensorRecord{.strides = {3, -1}}), HasSubstr("negative"));
  EXPECT_THAT(error_of(TensorRecord{.storage_elements = -1}), HasSubstr("negative"));
  EXPECT_THAT(error_of(TensorRecord{.sizes = {2}}), HasSubstr("sizes and strides differ"));
  EXPECT_THAT(error_of(TensorRecord{.sizes = {1, 1, 1, 1, 1, 6}, .strides = {6, 6, 6, 6, 6, 1}}),
              HasSubstr("too many dimensions"));
  EXPECT_THAT(error_of(TensorRecord{.sizes = {0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF}, .strides = {0, 0, 0}}),
              HasSubstr("larger than any file"));
  EXPECT_THAT(error_of(TensorRecord{.storage_class = "FuzzyFloatStorage"}), HasSubstr("would run code"));
  const std::string tensor = pickled(TensorRecord{});
  // The call lacks arguments, or its storage is not one.
  EXPECT_THAT(error_of(torch_archive(pickled_dict({{"w", "ctorch._utils\n_rebuild_tensor_v2\n)R"}}))),
              HasSubstr("record is too short"));
  EXPECT_THAT(error_of(torch_archive(pickled_dict({{"w", "ctorch._utils\n_rebuild_tensor_v2\n(NK\x01))tR"}}))),
              HasSubstr("not as torch.save writes it"));
  EXPECT_THAT(error_of(torch_archive("\x80\x02}(" + pickled("w") + tensor + pickled("w") + tensor + "u.")),
              HasSubstr("comes twice"));
  EXPECT_THAT(error_of(torch_archive(pickled_dict({{"w", "N"}}))), HasSubstr("holds no tensors"));
  EXPECT_THAT(error_of(torch_archive("\x80\x02N.")), HasSubstr("no dictionary"));
}

// PyTorch has tensors that a state dict of weights never has: none of them is code, and each is reported by its kind.
TEST(TorchPickle, CallsTensorsThatAreNotReadByTheirKind) {
  for (const auto& [storage_class, kind] : {std::pair{"ComplexFloatStorage", "complex numbers"},
                                            {"ComplexDoubleStorage", "complex numbers"},
                                            {"QInt8Storage", "a quantized tensor"}}) {
    EXPECT_THAT(error_of(TensorRecord{.storage_class = storage_class}),
                AllOf(HasSubstr("not read"), HasSubstr("tensor 'w'"), HasSubstr(kind), HasSubstr("F32")));
  }
  const auto rebuilt = [](const std::string& global, const std::string& arguments) {
    return error_of(torch_archive(pickled_dict({{"w", "c" + global + "\n(" + arguments + "tR"}})));
  };
  EXPECT_THAT(rebuilt("torch._utils\n_rebuild_tensor_v3", "K\x01" "ctorch\nfloat8_e4m3fn\n"),
              AllOf(HasSubstr("tensor 'w'"), HasSubstr("torch.float8_e4m3fn")));
  EXPECT_THAT(rebuilt("torch._utils\n_rebuild_sparse_tensor", "ctorch.serialization\n_get_layout\n"),
              HasSubstr("a sparse tensor"));
  EXPECT_THAT(rebuilt("torch._utils\n_rebuild_qtensor", "ctorch\nper_tensor_affine\n"), HasSubstr("a quantized tensor"));
  EXPECT_THAT(rebuilt("torch._utils\n_rebuild_nested_tensor", ""), HasSubstr("a nested tensor"));
  EXPECT_THAT(rebuilt("torch._utils\n_rebuild_meta_tensor_no_storage", "ctorch\nfloat32\n"), HasSubstr("without values"));
  // Names beside these are still refused as code.
  EXPECT_THAT(rebuilt("torch\nload", ""), AllOf(HasSubstr("would run code"), HasSubstr("'torch.load'")));
  EXPECT_THAT(rebuilt("torch._utils\n_rebuild_tensor_v9", ""), HasSubstr("would run code"));
}

// A size, a device or a type beside the tensors is skipped, like other values that are not tensors.
TEST(TorchPickle, PassesOverPlainValuesOfTorch) {
  const ScratchFolder directory;
  const TorchPickleReader reader(directory.write(
      "pytorch_model.bin", torch_archive(pickled_dict({{"size", "ctorch\nSize\n(K\x02tR"},
                                                       {"dtype", "ctorch\nfloat16\n"},
                                                       {"w", pickled(TensorRecord{})}}))));
  EXPECT_EQ(reader.entries().size(), 1U);
}

// The memory would be a million times the file's size: a name of the pickle's length, recalled for each tensor.
TEST(TorchPickle, RefusesANameRecalledForOtherTensors) {
  const std::string tensor = pickled(TensorRecord{});
  const std::string first = "\x80\x02}(" + pickled("name") + std::string("q\0", 2) + tensor + "q\x01";
  EXPECT_THAT(error_of(torch_archive(first + std::string("h\0h\x01u.", 6))),
              AllOf(HasSubstr("comes twice"), HasSubstr("'name'")));
  // The tensor itself may be shared: tied weights.
  const ScratchFolder directory;
  const TorchPickleReader tied(directory.write("tied.bin", torch_archive(first + pickled("other") + "h\x01u.")));
  EXPECT_EQ(tied.entries().size(), 2U);
}

TEST(TorchPickle, RefusesAStorageOfAnEndlessName) {
  EXPECT_THAT(error_of(TensorRecord{.key = std::string(60000, '0')}), HasSubstr("storage is missing"));
  EXPECT_LT(error_of(TensorRecord{.key = std::string(60000, '0')}).size(), 1000U);
}

TEST(TorchPickle, RefusesArchivesThatMislead) {
  const std::string pickle = pickled_dict({{"w", pickled(TensorRecord{})}});
  ZipBuilder two;
  two.add("a/data.pkl", pickle);
  two.add("b/data.pkl", pickle);
  EXPECT_THAT(error_of(two.finish()), HasSubstr("2 entries called data.pkl"));
  ZipBuilder big;
  big.add("a/data.pkl", pickle);
  big.add("a/byteorder", "big");
  EXPECT_THAT(error_of(big.finish()), HasSubstr("little endian"));
}

TEST(TorchPickle, RefusesTornFilesAtEveryLength) {
  const std::string whole = read_text_file(golden("state.bin"));
  const ScratchFolder directory;
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    const auto path = directory.write("torn", std::string_view(whole).substr(0, length));
    EXPECT_THROW(TorchPickleReader{path}, DataError) << length;
  }
}

}  // namespace
}  // namespace plimsoll
