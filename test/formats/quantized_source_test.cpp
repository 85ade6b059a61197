#include "formats/quantized_source.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/allocation_guard.h"
#include "formats/quantized_writer.h"
#include "formats/torch_archive.h"
#include "formats/weights.h"
#include "tensor/block_code.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Element i of a matrix that tools/make_quantized_golden.py had quantized.
std::vector<float> counted_matrix(std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const double share = static_cast<double>(static_cast<std::uint32_t>(i * 2654435761U)) / 0x1p32 - 0.5;
    values[i] = static_cast<float>(share * static_cast<double>(1 + i / 64 % 7) * 0.01);
  }
  return values;
}

std::vector<float> read_all(const TensorSource& weights, const std::string& name) {
  return read_tensor<float>(weights, name);
}

TEST(QuantizedSource, GivesWhatBitsandbytesDecodes) {
  const WeightsFile weights = open_weights(golden("quantized.safetensors"));
  const std::map<std::string, Coding> codings = {
      {"plain.weight", Coding::kNormalFloat}, {"double.weight", Coding::kNormalFloat},
      {"odd.weight", Coding::kOther},         {"wide.weight", Coding::kOther},
      {"fp4.weight", Coding::kOther},         {"stored.weight", Coding::kNormalFloat},
      {"eight.weight", Coding::kBytes}};
  for (const auto& [name, coding] : codings) {
    EXPECT_EQ(weights.coding(name), coding) << name;
    EXPECT_EQ(weights.coding(name + ".decoded"), Coding::kNone);
    EXPECT_EQ(weights.at(name).type, weights.at(name + ".decoded").type);
    const std::vector<float> expected = read_all(weights, name + ".decoded"), found = read_all(weights, name);
    EXPECT_EQ(found, expected) << name;
    // From every element on, to the end and in parts.
    std::vector<std::byte> staging(64);
    for (std::size_t first = 0; first<found.size(); first += found.size()> 1000 ? 997 : 1) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{70}, found.size()}) {
        std::vector<float> part(std::min(count, found.size() - first));
        weights.read_as_f32(name, static_cast<std::int64_t>(first), part, staging);
        ASSERT_TRUE(std::ranges::equal(part, std::span(found).subspan(first, part.size()))) << name << ' ' << first;
      }
    }
  }
  EXPECT_THAT(read_all(weights, "bias"), ElementsAre(0, 1, 2));
  // Each matrix, what it decodes to, and the bias: no part of a matrix counts.
  EXPECT_EQ(weights.entries().size(), 2 * codings.size() + 1);
}

TEST(QuantizedSource, RowsAreHeldAsTheyAreInTheFile) {
  const WeightsFile weights = open_weights(golden("quantized.safetensors"));
  for (const char* name : {"plain.weight", "double.weight", "stored.weight"}) {
    const std::vector<float> values = read_all(weights, name);
    const auto columns = static_cast<std::size_t>(weights.at(name).type.shape[1]);
    std::vector<std::byte> codes(coded_row_bytes(DType::kNF4, static_cast<std::int64_t>(columns)));
    std::vector<float> back(columns);
    for (std::size_t row = 0; row < values.size(); row += columns) {
      encode_row(DType::kNF4, std::span(values).subspan(row, columns), codes.data());
      decode_row(DType::kNF4, codes.data(), 0, back);
      ASSERT_TRUE(std::ranges::equal(back, std::span(values).subspan(row, columns))) << name << ' ' << row;
    }
  }
}

TEST(QuantizedSource, ReadingAllocatesLittle) {
  const WeightsFile weights = open_weights(golden("quantized.safetensors"));
  std::vector<float> values(130 * 128);
  std::vector<std::byte> staging(64);
  const AllocationGuard guard;
  weights.read_as_f32("double.weight", values, staging);
  EXPECT_LE(guard.largest_bytes(), 64U);
}

// The tensors of a file with one changed, taken away (no bytes) or put in.
using Tensors = std::map<std::string, std::pair<TensorType, std::vector<std::byte>>>;
Tensors tensors_of(const std::string& matrix) {
  const SafetensorsReader file(golden("quantized.safetensors"));
  Tensors tensors;
  for (const TensorEntry& entry : file.entries()) {
    if (!entry.name.starts_with(matrix) || entry.name.ends_with(".decoded")) continue;
    std::vector<std::byte> bytes(entry.type.bytes());
    file.read(entry.name, bytes);
    tensors[entry.name] = {entry.type, std::move(bytes)};
  }
  return tensors;
}

void write_tensors(const std::filesystem::path& path, const Tensors& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors) declarations.push_back({name, tensor.first});
  SafetensorsWriter writer(path, declarations);
  for (const auto& [name, tensor] : tensors) writer.write(tensor.second);
  writer.finish();
}

std::string refusal(const Tensors& tensors) {
  const ScratchFolder directory;
  write_tensors(directory.path() / "model.safetensors", tensors);
  return data_error([&] { (void)open_weights(directory.path()); });
}

std::pair<TensorType, std::vector<std::byte>> text_tensor(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {{DType::kU8, {static_cast<std::int64_t>(text.size())}}, {bytes.begin(), bytes.end()}};
}

TEST(QuantizedSource, NamesWhatDoesNotFit) {
  for (const char* part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ""}) {
    const std::string name = std::string("double.weight") + part;
    Tensors tensors = tensors_of("double");
    tensors.erase(name);
    EXPECT_THAT(refusal(tensors), AllOf(HasSubstr("tensor 'double.weight'"), HasSubstr("no such tensor"))) << part;
    tensors = tensors_of("double");
    tensors[name] = {{DType::kF32, {3}}, std::vector<std::byte>(12)};
    EXPECT_THAT(refusal(tensors), AllOf(HasSubstr("tensor 'double.weight'"), HasSubstr("F32[3]"))) << part;
  }
  const std::string state = "plain.weight.quant_state.bitsandbytes__nf4";
  const std::map<std::string, std::string> states = {
      {"[1]", "no JSON object"},
      {"nonsense", "no JSON object"},
      {R"({"blocksize": 64})", "\"shape\": null"},
      {R"({"blocksize": 64, "shape": [6, 128, 1]})", "[6,128,1]"},
      {R"({"blocksize": 64, "shape": [6, -128]})", "[6,-128]"},
      {R"({"blocksize": 63.5, "shape": [6, 128]})", "63.5"},
      {R"({"blocksize": 0, "shape": [6, 128]})", "\"blocksize\": 0"},
      {R"({"blocksize": 64, "shape": [6, 128], "nested_blocksize": 256})", "\"nested_offset\": null"},
      {R"({"blocksize": 64, "shape": [7, 128]})", "896"}};
  for (const auto& [text, found] : states) {
    Tensors tensors = tensors_of("plain");
    tensors[state] = text_tensor(text);
    EXPECT_THAT(refusal(tensors), HasSubstr("plain.weight")) << text;
    EXPECT_THAT(refusal(tensors), HasSubstr(found)) << text;
  }
  Tensors tensors = tensors_of("plain");
  tensors[state] = text_tensor(R"({"blocksize": 64, "shape": [9223372036854775807, 9223372036854775807]})");
  EXPECT_THAT(refusal(tensors), HasSubstr("larger than any file"));
  tensors = tensors_of("eight");
  tensors["eight.SCB"] = {{DType::kF32, {3}}, std::vector<std::byte>(12)};
  EXPECT_THAT(refusal(tensors), AllOf(HasSubstr("tensor 'eight.weight'"), HasSubstr("eight.SCB")));
  tensors = tensors_of("eight");
  tensors["eight.weight_format"].second[0] = std::byte{2};
  EXPECT_THAT(refusal(tensors), HasSubstr("'eight.weight_format': 2"));
}

// Without factors in 8 bits what is written is what bitsandbytes writes; with them, what it stands for is as near.
TEST(QuantizedWriter, WritesWhatBitsandbytesWrites) {
  const SafetensorsReader theirs(golden("quantized.safetensors"));
  for (const bool use_double_quant : {false, true}) {
    const std::string name = use_double_quant ? "double.weight" : "plain.weight";
    const WeightsFile decoded = open_weights(golden("quantized.safetensors"));
    const Shape shape = decoded.at(name).type.shape;
    const std::vector<float> matrix = counted_matrix(shape.elements());
    const ScratchFolder directory;
    const std::filesystem::path path = directory.path() / "model.safetensors";
    const QuantizedWriter quantized({name, {DType::kF32, shape}}, use_double_quant);
    SafetensorsWriter writer(path, quantized.declarations());
    quantized.write(writer, [&](std::int64_t first, std::span<float> values) {
      std::ranges::copy(std::span(matrix).subspan(static_cast<std::size_t>(first), values.size()), values.begin());
    });
    writer.finish();
    const SafetensorsReader ours(path);
    EXPECT_EQ(ours.entries().size(), use_double_quant ? 6U : 4U);
    for (const TensorEntry& entry : ours.entries()) {
      ASSERT_NE(theirs.find(entry.name), nullptr) << entry.name;
      if (entry.name.find("quant_state") != std::string::npos) continue;
      EXPECT_EQ(entry.type, theirs.at(entry.name).type) << entry.name;
    }
    EXPECT_EQ(read_tensor<std::uint8_t>(ours, name), read_tensor<std::uint8_t>(theirs, name));
    EXPECT_EQ(read_tensor<float>(ours, name + ".quant_map"), read_tensor<float>(theirs, name + ".quant_map"));
    const std::vector<float> found = read_all(open_weights(path), name), expected = read_all(decoded, name);
    if (!use_double_quant) {
      EXPECT_EQ(read_tensor<float>(ours, name + ".absmax"), read_tensor<float>(theirs, name + ".absmax"));
      EXPECT_EQ(found, expected);
      continue;
    }
    // Their mean of factors is a sum in F32.
    EXPECT_EQ(read_tensor<std::uint8_t>(ours, name + ".absmax"), read_tensor<std::uint8_t>(theirs, name + ".absmax"));
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-8F) << i;
  }
}

}  // namespace
}  // namespace plimsoll
