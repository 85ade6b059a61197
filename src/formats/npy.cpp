#include "formats/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "formats/little_endian.h"

namespace plimsoll {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeaderBytes = 64 * kKiB;  // NumPy's own writers stay below 10 KiB

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {{"<f8", DType::kF64}, {"<f4", DType::kF32}, {"<f2", DType::kF16},
                             {"<i8", DType::kI64}, {"<i4", DType::kI32}, {"<i2", DType::kI16},
                             {"|i1", DType::kI8},  {"|u1", DType::kU8},  {"|b1", DType::kBool}};

// Reads the header's dictionary: three known keys, each exactly once, in any order.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  TensorType parse() {
    std::optional<DType> dtype;
    std::optional<std::vector<std::uint64_t>> dims;
    std::optional<bool> fortran_order;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype) {
        dtype = descr();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = boolean();
      } else if (key == "shape" && !dims) {
        dims = tuple();
      } else {
        refuse(fmt::format("the key '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty()) refuse(fmt::format("'{}' after the dictionary", text_.substr(0, 20)));
    if (!dtype || !dims || !fortran_order) refuse("descr, fortran_order or shape missing");
    if (*fortran_order && dims->size() > 1) {
      throw DataError({.what = "an array is in Fortran order",
                       .where = where_,
                       .allowed = "C order",
                       .remedy = "save it again with numpy.save(path, numpy.ascontiguousarray(a))"});
    }
    return checked_tensor_type(*dtype, *dims, where_);
  }

 private:
  [[noreturn]] void refuse(std::string found) const {
    throw DataError({.what = "an .npy header is not as NumPy writes it",
                     .where = where_,
                     .found = std::move(found),
                     .allowed = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                     .remedy = "the file is damaged: get it again"});
  }
  void skip_space() {
    const std::size_t end = text_.find_first_not_of(" \n\t");
    text_.remove_prefix(std::min(end, text_.size()));
  }
  bool accept(char symbol) {
    skip_space();
    if (!text_.starts_with(symbol)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char symbol) {
    if (!accept(symbol)) refuse(fmt::format("no '{}' before '{}'", symbol, text_.substr(0, 20)));
  }
  std::string_view quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) refuse("a text without an end");
    const std::string_view found = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return found;
  }
  DType descr() {
    skip_space();
    const std::string_view found = text_.starts_with('\'') ? quoted() : text_.substr(0, 40);
    for (const Descr& known : kDescrs) {
      if (known.text == found) return known.dtype;
    }
    std::string allowed;
    for (const Descr& known : kDescrs) allowed += fmt::format("{} ", known.text);
    allowed.pop_back();
    throw DataError({.what = "an array's elements are of a type that is not read",
                     .where = where_,
                     .found = std::string(found),
                     .allowed = std::move(allowed),
                     .remedy = "convert it with numpy.astype (for big-endian data too) and save again"});
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] :
         {std::pair<std::string_view, bool>{"True", true}, std::pair<std::string_view, bool>{"False", false}}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    refuse(fmt::format("no True or False before '{}'", text_.substr(0, 20)));
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> dims;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::uint64_t value = 0;
      std::size_t digits = 0;
      for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
        value = value * 10 + static_cast<std::uint64_t>(text_[digits] - '0');
      }
      if (digits == 0 || digits > 18) refuse(fmt::format("the size '{}'", text_.substr(0, 20)));
      text_.remove_prefix(digits);
      dims.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }

  std::string_view text_;
  std::string where_;
};

struct NpyHeader {
  TensorType type;
  std::uint64_t data_offset = 0;
};

// `read` returns bytes of the file (or of the archive's entry), whose size is `size_bytes`.
NpyHeader parse_npy(const std::function<void(std::uint64_t, std::span<std::byte>)>& read, std::uint64_t size_bytes,
                    const std::string& where) {
  const auto torn = [&](std::string what, std::string found, std::string allowed) {
    throw DataError({.what = std::move(what),
                     .where = where,
                     .found = std::move(found),
                     .allowed = std::move(allowed),
                     .remedy = "the file is torn, or no .npy file: get it again"});
  };
  std::array<std::byte, 12> start{};
  const auto start_bytes = std::min<std::uint64_t>(size_bytes, start.size());
  read(0, std::span(start).first(start_bytes));
  if (start_bytes < 10 || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    torn("a file does not begin as an .npy file does", counted(size_bytes, "byte"), "");
  }
  const auto version = static_cast<int>(start[6]);
  if (version < 1 || version > 3) torn("an .npy version", fmt::format("{}", version), "1 to 3");
  const std::uint64_t prefix_bytes = version == 1 ? 10 : 12;
  if (start_bytes < prefix_bytes) torn("an .npy header is torn", "", "");
  const std::uint64_t header_bytes =
      version == 1 ? load_little_endian<std::uint16_t>(start, 8) : load_little_endian<std::uint32_t>(start, 8);
  const std::uint64_t allowed = std::min(size_bytes - prefix_bytes, kMaxHeaderBytes);
  if (header_bytes > allowed) {
    torn("an .npy header is longer than its file, or than any header", counted(header_bytes, "byte"),
         fmt::format("at most {}", allowed));
  }
  std::string header(header_bytes, '\0');
  read(prefix_bytes, std::as_writable_bytes(std::span(header.data(), header.size())));
  const NpyHeader result{HeaderParser(header, where).parse(), prefix_bytes + header_bytes};
  if (size_bytes - result.data_offset != result.type.bytes()) {
    torn("an .npy file's shape and its bytes disagree", counted(size_bytes - result.data_offset, "byte") + " of data",
         fmt::format("{} for {}", result.type.bytes(), to_string(result.type)));
  }
  return result;
}

}  // namespace

NpyReader::NpyReader(const std::filesystem::path& path) : file_(path) {
  refuse_placeholder(file_);
  const NpyHeader header =
      parse_npy([this](std::uint64_t offset, std::span<std::byte> out) { file_.read_at(offset, out); },
                file_.size_bytes(), path.string());
  type_ = header.type;
  offset_bytes_ = header.data_offset;
}

void NpyReader::read(std::span<std::byte> destination) const {
  check(destination.size() == type_.bytes(), "an array is read into exactly its bytes");
  file_.read_at(offset_bytes_, destination);
}

NpzReader::NpzReader(const std::filesystem::path& path) : TensorSource(path), zip_(path) {
  constexpr std::string_view kSuffix = ".npy";
  std::vector<TensorEntry> entries;
  for (const ZipEntry& entry : zip_.entries()) {
    if (!entry.name.ends_with(kSuffix)) {
      throw DataError({.what = "an archive holds more than arrays",
                       .where = path.string(),
                       .found = fmt::format("'{}'", entry.name),
                       .allowed = "entries named *.npy, as numpy.savez writes them"});
    }
    const NpyHeader header =
        parse_npy([&](std::uint64_t offset, std::span<std::byte> out) { zip_.read(entry, offset, out); }, entry.bytes,
                  fmt::format("{}, entry '{}'", path.string(), entry.name));
    entries.push_back({entry.name.substr(0, entry.name.size() - kSuffix.size()), header.type, header.data_offset});
    zip_entries_.push_back(&entry);
  }
  set_entries(std::move(entries));
}

void NpzReader::verify() const {
  for (const ZipEntry& entry : zip_.entries()) zip_.verify(entry);
}

void NpzReader::read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const {
  const TensorEntry& entry = entries()[index];
  zip_.read(*zip_entries_[index], entry.offset_bytes + first_element * dtype_bytes(entry.type.dtype), destination);
}

void write_npy(const std::filesystem::path& path, const TensorType& type, std::span<const std::byte> bytes) {
  check(bytes.size() == type.bytes(), "an array is written from exactly its bytes");
  const auto* descr = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                   [&](const Descr& known) { return known.dtype == type.dtype; });
  if (descr == std::end(kDescrs)) {
    throw DataError({.what = "NumPy has no such type",
                     .where = path.string(),
                     .found = std::string(dtype_name(type.dtype)),
                     .remedy = "save it as safetensors, or as F32"});
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr->text);
  for (const std::int64_t dim : type.shape.dims()) header += fmt::format("{}, ", dim);
  header += "), }";
  // The data begin at a multiple of 64; the header ends in a newline.
  constexpr std::size_t kPrefixBytes = 10;
  header.resize(round_up(kPrefixBytes + header.size() + 1, 64) - kPrefixBytes - 1, ' ');
  header += '\n';
  OutputFile file(path);
  file.write(kMagic);
  const std::array<char, 4> version_and_length{1, 0, static_cast<char>(header.size() & 0xFFU),
                                               static_cast<char>(header.size() >> 8)};
  file.write(std::string_view(version_and_length.data(), version_and_length.size()));
  file.write(header);
  file.write(bytes);
  file.close();
}

}  // namespace plimsoll
