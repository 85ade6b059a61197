#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/bytes.h"
#include "base/counted.h"
#include "formats/little_endian.h"
#include "tensor/half.h"
#include "tensor/numpy_name.h"

namespace plimsoll {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kDTypes = "F64, F32, BF16, F16, I64, I32, I16, I8, U8, BOOL";
constexpr std::string_view kDamaged = "the file is damaged or torn: get it again";

// A tensor as declared in the header; offsets count from the end of the header.
struct Declared {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0, end = 0;
};

// Reads the header as a stream of JSON events and accepts only the structure that the format allows, so that a hostile
// header is refused at its first invalid token and never becomes a tree in memory.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string path) : path_(std::move(path)) {}

  std::vector<Declared> tensors;
  SafetensorsMetadata metadata;

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == kMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      dtype_.reset();
      dims_.clear();
      offsets_.clear();
      seen_shape_ = seen_offsets_ = false;
    } else {
      refuse("an object where none belongs");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kTop) {
      if (name == kMetadataKey && std::exchange(seen_metadata_, true)) refuse("metadata twice");
      tensor_ = name;
    } else if (place_ == Place::kTensor) {
      const bool known = name == "dtype" || name == "shape" || name == "data_offsets";
      if (!known) refuse(fmt::format("an unknown field '{}'", name));
    }
    key_ = std::move(name);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kMetadata) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTensor) {
      if (!dtype_ || !seen_shape_ || !seen_offsets_) refuse("dtype, shape or data_offsets missing");
      if (offsets_.size() != 2) refuse(fmt::format("{} data_offsets", offsets_.size()));
      tensors.push_back({tensor_, checked_tensor_type(*dtype_, dims_, where()), offsets_[0], offsets_[1]});
      place_ = Place::kTop;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor) refuse("a list where none belongs");
    bool* seen = key_ == "shape" ? &seen_shape_ : key_ == "data_offsets" ? &seen_offsets_ : nullptr;
    if (seen == nullptr || std::exchange(*seen, true)) refuse(fmt::format("'{}' twice, or no list", key_));
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) refuse("a number");
    std::vector<std::uint64_t>& list = place_ == Place::kShape ? dims_ : offsets_;
    const std::size_t limit = place_ == Place::kShape ? Shape::kMaxRank : 2;
    if (list.size() == limit) {
      refuse(fmt::format("more than {} in '{}'", counted(limit, "number"), key_));
    }
    list.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      if (!metadata.emplace(key_, std::move(value)).second) {
        refuse(fmt::format("metadata '{}' twice", key_));
      }
    } else if (place_ == Place::kTensor && key_ == "dtype" && !dtype_) {
      dtype_ = parse_dtype(value);
      if (!dtype_) {
        throw DataError({.what = "a tensor's type is none that can be used here",
                         .where = where(),
                         .found = value,
                         .allowed = std::string(kDTypes),
                         .remedy = "save the model in F32, F16 or BF16"});
      }
    } else {
      refuse(fmt::format("the text '{}'", value));
    }
    return true;
  }

  bool number_integer(number_integer_t value) override { return refuse(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return refuse(text); }
  bool boolean(bool value) override { return refuse(value ? "true" : "false"); }
  bool null() override { return refuse("null"); }
  bool binary(binary_t&) override { return refuse("binary"); }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception&) override {
    throw DataError({.what = "a safetensors header is not JSON",
                     .where = fmt::format("{}, header byte {}", path_, position),
                     .found = fmt::format("'{}'", token.substr(0, 40)),
                     .remedy = std::string(kDamaged)});
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  std::string where() const { return tensor_.empty() ? path_ : fmt::format("{}, tensor '{}'", path_, tensor_); }
  bool refuse(std::string found) const {
    throw DataError({.what = "a safetensors header is not as the format has it",
                     .where = where(),
                     .found = std::move(found),
                     .allowed = R"({"dtype": text, "shape": [numbers], "data_offsets": [2 numbers]})",
                     .remedy = std::string(kDamaged)});
  }

  std::string path_;
  Place place_ = Place::kStart;
  std::string key_, tensor_;
  bool seen_metadata_ = false, seen_shape_ = false, seen_offsets_ = false;
  std::optional<DType> dtype_;
  std::vector<std::uint64_t> dims_, offsets_;
};

// The tensors, sorted by offset, must cover the data exactly.
void check_layout(const std::vector<Declared>& tensors, std::uint64_t data_bytes, const std::string& path) {
  std::vector<const Declared*> sorted;
  for (const Declared& tensor : tensors) {
    const auto where = fmt::format("{}, tensor '{}'", path, tensor.name);
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      throw DataError({.what = "a tensor does not lie inside its file",
                       .where = where,
                       .found = fmt::format("data bytes {} to {}", tensor.begin, tensor.end),
                       .allowed = fmt::format("0 to {}", data_bytes),
                       .remedy = "the file is torn: copy or download it again"});
    }
    if (tensor.end - tensor.begin != tensor.type.bytes()) {
      throw DataError(
          {.what = "a tensor's shape and its bytes disagree",
           .where = where,
           .found = counted(tensor.end - tensor.begin, "byte"),
           .allowed = fmt::format("{} for {}", counted(tensor.type.bytes(), "byte"), to_string(tensor.type)),
           .remedy = std::string(kDamaged)});
    }
    sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Declared* a, const Declared* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t expected = 0;
  for (const Declared* tensor : sorted) {
    if (tensor->begin != expected) {
      throw DataError({.what = tensor->begin < expected ? "two tensors share bytes" : "bytes lie between tensors",
                       .where = fmt::format("{}, tensor '{}'", path, tensor->name),
                       .found = fmt::format("it begins at data byte {}", tensor->begin),
                       .allowed = fmt::format("{}, where the one before ends", expected),
                       .remedy = std::string(kDamaged)});
    }
    expected = tensor->end;
  }
  if (expected != data_bytes) {
    throw DataError({.what = "a file is longer than its tensors",
                     .where = path,
                     .found = counted(data_bytes, "byte") + " of data",
                     .allowed = counted(expected, "byte"),
                     .remedy = std::string(kDamaged)});
  }
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : TensorSource(path), file_(path) {
  refuse_placeholder(file_);
  if (file_.size_bytes() < 8) {
    throw DataError({.what = "a file is too short for safetensors",
                     .where = path.string(),
                     .found = counted(file_.size_bytes(), "byte"),
                     .allowed = "at least 8",
                     .remedy = "the file is torn: copy or download it again"});
  }
  std::array<std::byte, 8> length_bytes{};
  file_.read_at(0, length_bytes);
  const auto header_bytes = load_little_endian<std::uint64_t>(length_bytes);
  const std::uint64_t allowed_bytes = std::min(file_.size_bytes() - 8, kMaxSafetensorsHeaderBytes);
  if (header_bytes > allowed_bytes) {
    throw DataError({.what = "a safetensors header is longer than its file or than any header",
                     .where = path.string(),
                     .found = counted(header_bytes, "byte"),
                     .allowed = fmt::format("at most {}", allowed_bytes),
                     .remedy = "the file is torn, or is no safetensors file: get it again"});
  }
  std::string header(header_bytes, '\0');
  file_.read_at(8, std::as_writable_bytes(std::span(header.data(), header.size())));

  HeaderHandler handler(path.string());
  if (!nlohmann::json::sax_parse(header, &handler)) {
    throw DataError(
        {.what = "a safetensors header is not JSON", .where = path.string(), .remedy = std::string(kDamaged)});
  }
  check_layout(handler.tensors, file_.size_bytes() - 8 - header_bytes, path.string());
  metadata_ = std::move(handler.metadata);
  std::vector<TensorEntry> entries;
  entries.reserve(handler.tensors.size());
  for (Declared& tensor : handler.tensors) {
    entries.push_back({std::move(tensor.name), tensor.type, 8 + header_bytes + tensor.begin});
  }
  set_entries(std::move(entries));
}

void SafetensorsReader::read_range(std::size_t index, std::uint64_t first_element,
                                   std::span<std::byte> destination) const {
  const TensorEntry& entry = entries()[index];
  file_.read_at(entry.offset_bytes + first_element * dtype_bytes(entry.type.dtype), destination);
}

std::optional<StoredTensor> SafetensorsReader::stored_at(std::size_t index) const {
  const TensorEntry& entry = entries()[index];
  return StoredTensor{.file = file_.path(),
                      .descriptor = file_.descriptor(),
                      .offset_bytes = entry.offset_bytes,
                      .dtype = entry.type.dtype};
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorDeclaration> tensors,
                                     const SafetensorsMetadata& metadata)
    : tensors_(std::move(tensors)), file_(path) {
  // The text is built by hand, not from a JSON tree, because the order of the keys is the order of the bytes.
  const auto quote = [&path](const std::string& text) {
    try {
      return nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) {
      throw DataError({.what = "a name is not UTF-8 and cannot be saved",
                       .where = path.string(),
                       .remedy = "rename the tensor in the file it came from"});
    }
  };
  std::string header = "{";
  if (!metadata.empty()) {
    header += fmt::format("\"{}\":{{", kMetadataKey);
    for (const auto& [key, value] : metadata) header += quote(key) + ":" + quote(value) + ",";
    header.back() = '}';
    header += ',';
  }
  std::set<std::string_view> names{kMetadataKey};
  std::uint64_t offset = 0;
  for (const TensorDeclaration& tensor : tensors_) {
    check(names.insert(tensor.name).second, "names in a safetensors file are distinct");
    const std::uint64_t end = offset + tensor.type.bytes();
    header += fmt::format(R"({}:{{"dtype":"{}","shape":[)", quote(tensor.name), dtype_name(tensor.type.dtype));
    for (std::size_t axis = 0; axis < tensor.type.shape.rank(); ++axis) {
      header += fmt::format("{}{}", axis == 0 ? "" : ",", tensor.type.shape[axis]);
    }
    header += fmt::format(R"(],"data_offsets":[{},{}]}},)", offset, end);
    offset = end;
  }
  if (header.back() == ',') header.pop_back();
  header += '}';
  header.resize(round_up(header.size(), 8), ' ');
  check(header.size() <= kMaxSafetensorsHeaderBytes, "a safetensors header is at most 100 MB");
  const auto length = static_cast<std::uint64_t>(header.size());
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(header);
}

const TensorDeclaration& SafetensorsWriter::next_tensor() {
  while (current_ < tensors_.size() && current_done_bytes_ == tensors_[current_].type.bytes()) {
    ++current_;
    current_done_bytes_ = 0;
  }
  check(current_ < tensors_.size(), "no more is written than the header declares");
  return tensors_[current_];
}

void SafetensorsWriter::write_floats(std::span<const float> values) {
  if (values.empty()) return;
  const TensorDeclaration& tensor = next_tensor();
  if (tensor.type.dtype == DType::kF32) return write(std::as_bytes(values));
  check(is_half(tensor.type.dtype), "values are written as F32, BF16 or F16");
  const bool brain = tensor.type.dtype == DType::kBF16;
  std::array<std::uint16_t, 4096> halves{};
  for (std::size_t first = 0; first < values.size(); first += halves.size()) {
    const std::span<const float> part = values.subspan(first, std::min(halves.size(), values.size() - first));
    for (std::size_t i = 0; i < part.size(); ++i) {
      halves[i] = brain ? float_to_bfloat16(part[i]) : float_to_half(part[i]);
      const float written = brain ? bfloat16_to_float(halves[i]) : half_to_float(halves[i]);
      if (!std::isinf(written) || std::isinf(part[i])) continue;
      throw DataError({.what = fmt::format("a weight is too large for {}", numpy_name(tensor.type.dtype)),
                       .where = fmt::format("tensor '{}'", tensor.name),
                       .found = fmt::format("{}", part[i]),
                       .allowed = brain ? "up to 3.39e38" : "up to 65504",
                       .remedy = "write float32"});
    }
    write(std::as_bytes(std::span(halves).first(part.size())));
  }
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const TensorDeclaration& tensor = next_tensor();
  check(bytes.size() <= tensor.type.bytes() - current_done_bytes_, "a piece ends within its tensor");
  file_.write(bytes);
  current_done_bytes_ += bytes.size();
}

FileSum SafetensorsWriter::finish() {
  while (current_ < tensors_.size() && current_done_bytes_ == tensors_[current_].type.bytes()) {
    ++current_;
    current_done_bytes_ = 0;
  }
  check(current_ == tensors_.size(), "every declared tensor was written");
  return file_.close();
}

}  // namespace plimsoll
