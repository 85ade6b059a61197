#include "formats/quantized_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/counted.h"
#include "base/error.h"
#include "formats/json.h"
#include "tensor/block_code.h"

namespace plimsoll {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr std::string_view kWeight = ".weight", kScales = ".SCB", kWeightFormat = ".weight_format";
constexpr std::uint64_t kMostStateBytes = 1 << 16;
constexpr std::int64_t kLargestBlock = 1 << 20, kSmallestBlock = 32;
constexpr float kOf127 = 7.874015718698502e-3F;  // 1 / 127, as bitsandbytes multiplies by it
// How many codes and factors are read at a time.
constexpr std::int64_t kBytesAtOnce = 16384, kElementsAtOnce = 2 * kBytesAtOnce;
constexpr std::int64_t kFactorsAtOnce = kElementsAtOnce / kSmallestBlock + 2;

std::string module_of(std::string_view name) { return std::string(name.substr(0, name.size() - kWeight.size())); }

constexpr std::int64_t blocks_of(std::int64_t elements, std::int64_t size) { return (elements + size - 1) / size; }

// The tensors of one matrix, all of which must exist.
class Group {
 public:
  Group(const TensorSource& file, std::string name) : file_(file), name_(std::move(name)) {}

  [[noreturn]] void refuse(std::string what, std::string found, std::string allowed) const {
    throw DataError({.what = std::move(what),
                     .where = fmt::format("{}, tensor '{}'", file_.path().string(), name_),
                     .found = std::move(found),
                     .allowed = std::move(allowed),
                     .remedy = "copy the model again; or save it again with save_pretrained() of `transformers`, whose "
                               "form this is (bitsandbytes)"});
  }
  const TensorEntry& at(const std::string& name, DType dtype, std::int64_t elements) const {
    const TensorEntry* const entry = file_.find(name);
    const std::string allowed =
        fmt::format("'{}' of {} with {}", name, dtype_name(dtype), counted(elements, "element"));
    if (entry == nullptr) refuse("a quantized weight lacks a tensor", "no such tensor", allowed);
    if (entry->type.dtype != dtype || entry->type.shape.elements() != elements) {
      refuse("a quantized weight's tensors do not fit together",
             fmt::format("'{}' of {}", name, to_string(entry->type)), allowed);
    }
    return *entry;
  }
  template <std::size_t size>
  void read(const std::string& name, std::array<float, size>& values) const {
    file_.read_elements(at(name, DType::kF32, size), 0, std::as_writable_bytes(std::span(values)));
  }
  const TensorSource& file() const { return file_; }
  const std::string& name() const { return name_; }

 private:
  const TensorSource& file_;
  std::string name_;
};

// NAME.quant_state.bitsandbytes__nf4: the properties that are not tensors.
struct State {
  Shape shape{};
  std::int64_t block = 0, nested_block = 0;  // nested_block 0: factors are not quantized
  float nested_offset = 0;
};

State read_state(const Group& group, const TensorEntry& entry) {
  const auto refuse = [&](const std::string& found) {
    group.refuse("the state of a quantized weight is not understood", found,
                 "a JSON text with blocksize and a shape of two dimensions, and nested_blocksize and nested_offset if "
                 "factors are quantized");
  };
  if (entry.type.dtype != DType::kU8 || entry.type.bytes() > kMostStateBytes) {
    refuse(fmt::format("'{}' of {}", entry.name, to_string(entry.type)));
  }
  std::string text(entry.type.bytes(), '\0');
  group.file().read_elements(entry, 0, std::as_writable_bytes(std::span(text)));
  const nlohmann::json json =
      parse_json(text, fmt::format("{}, tensor '{}'", group.file().path().string(), entry.name));
  if (!json.is_object()) refuse("no JSON object");
  const auto whole = [&](const char* key, std::int64_t least, std::int64_t most) {
    const nlohmann::json value = json.value(key, nlohmann::json());
    const bool is_whole = value.is_number_integer() && value >= least && value <= most;
    if (!is_whole) refuse(fmt::format("\"{}\": {}", key, value.dump()));
    return value.get<std::int64_t>();
  };
  State state{.block = whole("blocksize", kSmallestBlock, kLargestBlock)};
  const nlohmann::json shape = json.value("shape", nlohmann::json());
  std::vector<std::uint64_t> dims;
  for (const nlohmann::json& dim : shape.is_array() ? shape : nlohmann::json::array()) {
    if (dim.is_number_unsigned()) dims.push_back(dim.get<std::uint64_t>());
  }
  if (dims.size() != 2 || shape.size() != 2) refuse(fmt::format("\"shape\": {}", shape.dump()));
  state.shape = checked_tensor_type(DType::kF32, dims, group.file().path().string()).shape;
  if (json.contains("nested_blocksize")) {
    state.nested_block = whole("nested_blocksize", kSmallestBlock, kLargestBlock);
    const nlohmann::json offset = json.value("nested_offset", nlohmann::json());
    if (!offset.is_number()) refuse(fmt::format("\"nested_offset\": {}", offset.dump()));
    state.nested_offset = static_cast<float>(offset.get<double>());
  }
  return state;
}

// Calls body(name of the matrix, its state) for every matrix in 4 bits.
template <typename Body>
void for_each_in_4_bits(const TensorSource& file, const Body& body) {
  for (const TensorEntry& entry : file.entries()) {
    if (const std::size_t at = entry.name.rfind(kState); at != std::string::npos) body(entry.name.substr(0, at), entry);
  }
}

// Calls body(name of the matrix) for every matrix in 8 bits.
template <typename Body>
void for_each_in_8_bits(const TensorSource& file, const Body& body) {
  for (const TensorEntry& entry : file.entries()) {
    if (entry.type.dtype == DType::kI8 && entry.name.ends_with(kWeight) &&
        file.find(module_of(entry.name) + std::string(kScales)) != nullptr) {
      body(entry.name);
    }
  }
}

}  // namespace

// Where a matrix's numbers are; they are read on demand.
struct QuantizedSource::Matrix {
  Shape shape;
  const TensorEntry* codes = nullptr;
  const TensorEntry* scales = nullptr;  // in 8 bits: a factor for each row
  // In 4 bits.
  State state{};
  std::array<float, 16> values{};
  const TensorEntry* absmax = nullptr;
  std::array<float, 256> nested_values{};
  const TensorEntry* nested_absmax = nullptr;

  Matrix(const Group& group, const TensorEntry& state_entry);
  explicit Matrix(const Group& group);

  Coding coding() const {
    if (scales != nullptr) return Coding::kBytes;
    return values == kNormalFloats && state.block == kCodeBlock && shape[1] % kCodeBlock == 0 ? Coding::kNormalFloat
                                                                                              : Coding::kOther;
  }
  void read_factors(const TensorSource& file, std::int64_t first, std::span<float> to) const;
  void read(const TensorSource& file, std::int64_t first, std::span<float> to) const;
  void read_part(const TensorSource& file, std::int64_t first, std::span<float> to) const;
  void read_8_bits(const TensorSource& file, std::int64_t first, std::span<float> to) const;
};

QuantizedSource::Matrix::Matrix(const Group& group, const TensorEntry& state_entry)
    : state(read_state(group, state_entry)) {
  const std::string& name = group.name();
  shape = state.shape;
  const std::int64_t elements = shape.elements(), blocks = blocks_of(elements, state.block);
  codes = group.file().find(name);
  // bnb_4bit_quant_storage may give the same bytes another type.
  if (codes == nullptr || codes->type.bytes() != static_cast<std::size_t>(blocks_of(elements, 2))) {
    group.refuse("a quantized weight's codes do not fit its shape",
                 codes == nullptr ? "no such tensor" : to_string(codes->type),
                 "half a byte for each of " + counted(elements, "element"));
  }
  group.read(name + ".quant_map", values);
  if (state.nested_block == 0) {
    absmax = &group.at(name + ".absmax", DType::kF32, blocks);
    return;
  }
  absmax = &group.at(name + ".absmax", DType::kU8, blocks);
  group.read(name + ".nested_quant_map", nested_values);
  nested_absmax = &group.at(name + ".nested_absmax", DType::kF32, blocks_of(blocks, state.nested_block));
}

QuantizedSource::Matrix::Matrix(const Group& group) {
  codes = group.file().find(group.name());
  shape = codes->type.shape;
  if (shape.rank() != 2) {
    group.refuse("a quantized weight is not a matrix", to_string(codes->type), "two dimensions");
  }
  const std::string module = module_of(group.name());
  scales = &group.at(module + std::string(kScales), DType::kF32, shape[0]);
  const std::string format = module + std::string(kWeightFormat);
  if (group.file().find(format) == nullptr) return;
  std::byte order{};
  group.file().read_elements(group.at(format, DType::kU8, 1), 0, {&order, 1});
  if (order != std::byte{0}) {
    group.refuse("a quantized weight has the order of some GPU's products",
                 fmt::format("'{}': {}", format, std::to_integer<int>(order)), "0, row after row");
  }
}

// Reads the factors of blocks from `first` on.
void QuantizedSource::Matrix::read_factors(const TensorSource& file, std::int64_t first, std::span<float> to) const {
  if (state.nested_block == 0) {
    return file.read_elements(*absmax, static_cast<std::uint64_t>(first), std::as_writable_bytes(to));
  }
  std::array<std::uint8_t, kFactorsAtOnce> bytes;
  std::array<float, blocks_of(kFactorsAtOnce, kSmallestBlock) + 1> outer;
  const std::int64_t count = std::ssize(to), outer_first = first / state.nested_block;
  const std::int64_t outer_count = (first + count - 1) / state.nested_block - outer_first + 1;
  file.read_elements(*absmax, static_cast<std::uint64_t>(first),
                     std::as_writable_bytes(std::span(bytes).first(to.size())));
  file.read_elements(*nested_absmax, static_cast<std::uint64_t>(outer_first),
                     std::as_writable_bytes(std::span(outer).first(static_cast<std::size_t>(outer_count))));
  for (std::int64_t i = 0; i < count; ++i) {
    const float factor = outer[static_cast<std::size_t>((first + i) / state.nested_block - outer_first)];
    const auto at = static_cast<std::size_t>(i);
    to[at] = nested_values[bytes[at]] * factor + state.nested_offset;
  }
}

// Reads at most kElementsAtOnce elements.
void QuantizedSource::Matrix::read_part(const TensorSource& file, std::int64_t first, std::span<float> to) const {
  constexpr std::int64_t kWord = 8;  // no type of codes has more bytes
  alignas(kWord) std::array<std::byte, kBytesAtOnce + 2 * kWord> bytes;
  std::array<float, kFactorsAtOnce> factors;
  const std::int64_t end = first + std::ssize(to), width = static_cast<std::int64_t>(dtype_bytes(codes->type.dtype));
  const std::int64_t begin_byte = first / 2 / kWord * kWord;
  const std::int64_t end_byte = std::min<std::int64_t>(static_cast<std::int64_t>(codes->type.bytes()),
                                                       blocks_of(blocks_of(end, 2), kWord) * kWord);
  file.read_elements(*codes, static_cast<std::uint64_t>(begin_byte / width),
                     std::span(bytes).first(static_cast<std::size_t>(end_byte - begin_byte)));
  const std::int64_t first_block = first / state.block;
  read_factors(file, first_block,
               std::span(factors).first(static_cast<std::size_t>((end - 1) / state.block - first_block + 1)));
  for (std::int64_t i = first; i < end; ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[static_cast<std::size_t>(i / 2 - begin_byte)]);
    const unsigned code = i % 2 == 0 ? byte >> 4U : byte & 15U;
    to[static_cast<std::size_t>(i - first)] =
        values[code] * factors[static_cast<std::size_t>(i / state.block - first_block)];
  }
}

void QuantizedSource::Matrix::read_8_bits(const TensorSource& file, std::int64_t first, std::span<float> to) const {
  // The codes lie in the last quarter of their floats' bytes until they are floats.
  const std::span<std::byte> bytes = std::as_writable_bytes(to).last(to.size());
  file.read_elements(*codes, static_cast<std::uint64_t>(first), bytes);
  float scale = 0;
  for (std::int64_t i = 0, row = -1; i < std::ssize(to); ++i) {
    if (const std::int64_t its = (first + i) / shape[1]; its != row) {
      row = its;
      file.read_elements(*scales, static_cast<std::uint64_t>(row), std::as_writable_bytes(std::span(&scale, 1)));
    }
    const auto code = static_cast<float>(static_cast<std::int8_t>(bytes[static_cast<std::size_t>(i)]));
    to[static_cast<std::size_t>(i)] = code * scale * kOf127;
  }
}

void QuantizedSource::Matrix::read(const TensorSource& file, std::int64_t first, std::span<float> to) const {
  while (!to.empty()) {
    const std::span<float> part = to.first(std::min<std::size_t>(to.size(), kElementsAtOnce));
    if (scales != nullptr) {
      read_8_bits(file, first, part);
    } else {
      read_part(file, first, part);
    }
    first += std::ssize(part);
    to = to.subspan(part.size());
  }
}

bool holds_quantized(const TensorSource& file) {
  bool any = false;
  for_each_in_4_bits(file, [&](const std::string&, const TensorEntry&) { any = true; });
  for_each_in_8_bits(file, [&](const std::string&) { any = true; });
  return any;
}

QuantizedSource::QuantizedSource(std::unique_ptr<TensorSource> file)
    : TensorSource(file->path()), file_(std::move(file)) {
  std::map<std::string, std::shared_ptr<const Matrix>, std::less<>> matrices;
  std::set<std::string, std::less<>> parts;
  for_each_in_4_bits(*file_, [&](const std::string& name, const TensorEntry& state) {
    matrices.emplace(name, std::make_shared<const Matrix>(Group(*file_, name), state));
    for (const char* part : {".quant_map", ".absmax", ".nested_quant_map", ".nested_absmax"}) parts.insert(name + part);
    parts.insert(state.name);
  });
  for_each_in_8_bits(*file_, [&](const std::string& name) {
    matrices.emplace(name, std::make_shared<const Matrix>(Group(*file_, name)));
    for (const std::string_view part : {kScales, kWeightFormat}) parts.insert(module_of(name) + std::string(part));
  });
  std::vector<TensorEntry> entries;
  for (std::size_t i = 0; i < file_->entries().size(); ++i) {
    const TensorEntry& entry = file_->entries()[i];
    if (parts.contains(entry.name)) continue;
    const auto matrix = matrices.find(entry.name);
    places_.push_back(i);
    matrices_.push_back(matrix == matrices.end() ? nullptr : matrix->second);
    entries.push_back(entry);
    if (matrices_.back() != nullptr) entries.back().type = {DType::kF32, matrices_.back()->shape};
  }
  set_entries(std::move(entries));
}

Coding QuantizedSource::coding(std::size_t index) const {
  return matrices_[index] == nullptr ? Coding::kNone : matrices_[index]->coding();
}

void QuantizedSource::read_range(std::size_t index, std::uint64_t first_element,
                                 std::span<std::byte> destination) const {
  if (matrices_[index] == nullptr) {
    return file_->read_elements(file_->entries()[places_[index]], first_element, destination);
  }
  const std::span<float> floats(reinterpret_cast<float*>(destination.data()), destination.size() / sizeof(float));
  matrices_[index]->read(*file_, static_cast<std::int64_t>(first_element), floats);
}

std::optional<StoredTensor> QuantizedSource::stored_at(std::size_t index) const {
  if (matrices_[index] != nullptr) return std::nullopt;
  return file_->stored(file_->entries()[places_[index]].name);
}

}  // namespace plimsoll
