#include "formats/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "formats/little_endian.h"

namespace plimsoll {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56, kLocator64Bytes = 20, kMaxCommentBytes = 0xFFFF;
constexpr std::uint64_t kMaxDirectoryBytes = 64 * kMiB;
constexpr std::uint64_t kMaxDeflateRatio = 1032;   // the limit of any deflate stream (zlib's technical notes)
constexpr std::uint16_t kEncryptedFlags = 0x2041;  // encryption, strong encryption, masked headers

[[noreturn]] void refuse(const std::filesystem::path& path, std::string what, std::string found = {},
                         std::string allowed = {}) {
  throw DataError({.what = std::move(what),
                   .where = path.string(),
                   .found = std::move(found),
                   .allowed = std::move(allowed),
                   .remedy = "the file is damaged or torn: copy or download it again"});
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
};

// The end record is at the file's end, before a comment of at most 64 KiB.
Directory find_directory(const InputFile& file) {
  const std::uint64_t size = file.size_bytes();
  if (size < kEndBytes) refuse(file.path(), "a file is too short for a zip archive");
  std::vector<std::byte> tail(std::min<std::uint64_t>(size, kEndBytes + kMaxCommentBytes));
  const std::uint64_t tail_offset = size - tail.size();
  file.read_at(tail_offset, tail);
  std::size_t at = tail.size() - kEndBytes + 1;
  bool found = false;
  while (at > 0 && !found) {
    --at;
    found = load_little_endian<std::uint32_t>(tail, at) == kEndSignature &&
            load_little_endian<std::uint16_t>(tail, at + 20) == tail.size() - at - kEndBytes;
  }
  if (!found) refuse(file.path(), "a zip archive has no end record");
  const std::uint64_t end_offset = tail_offset + at;
  Directory directory{.offset = load_little_endian<std::uint32_t>(tail, at + 16),
                      .bytes = load_little_endian<std::uint32_t>(tail, at + 12),
                      .entries = load_little_endian<std::uint16_t>(tail, at + 10)};
  std::uint64_t directory_end = end_offset;
  if (directory.offset == 0xFFFFFFFF || directory.bytes == 0xFFFFFFFF || directory.entries == 0xFFFF) {
    std::array<std::byte, kLocator64Bytes> locator{};
    std::array<std::byte, kEnd64Bytes> end64{};
    if (end_offset < kLocator64Bytes) refuse(file.path(), "a zip64 archive has no locator");
    file.read_at(end_offset - kLocator64Bytes, locator);
    if (load_little_endian<std::uint32_t>(locator) != kLocator64Signature) {
      refuse(file.path(), "a zip64 archive has no locator");
    }
    directory_end = load_little_endian<std::uint64_t>(locator, 8);
    if (end_offset < kEnd64Bytes || directory_end > end_offset - kEnd64Bytes) {
      refuse(file.path(), "a zip64 end record does not lie inside its file", fmt::format("offset {}", directory_end));
    }
    file.read_at(directory_end, end64);
    if (load_little_endian<std::uint32_t>(end64) != kEnd64Signature) {
      refuse(file.path(), "a zip64 archive has no end record");
    }
    directory = {.offset = load_little_endian<std::uint64_t>(end64, 48),
                 .bytes = load_little_endian<std::uint64_t>(end64, 40),
                 .entries = load_little_endian<std::uint64_t>(end64, 32)};
  }
  if (directory.bytes > directory_end || directory.offset > directory_end - directory.bytes) {
    refuse(file.path(), "a zip's directory does not lie inside its file",
           fmt::format("{} at {}", counted(directory.bytes, "byte"), directory.offset),
           fmt::format("an end at or before byte {}", directory_end));
  }
  if (directory.bytes > kMaxDirectoryBytes) {
    refuse(file.path(), "a zip's directory is larger than any of its kind", format_bytes(directory.bytes),
           format_bytes(kMaxDirectoryBytes));
  }
  if (directory.entries > directory.bytes / kCentralBytes) {
    refuse(file.path(), "a zip's directory is too short for its entries",
           fmt::format("{} in {}", counted(directory.entries, "entry"), counted(directory.bytes, "byte")));
  }
  return directory;
}

// Sizes that do not fit 32 bits are in the zip64 extra field (id 1), in this order.
void apply_zip64(std::span<const std::byte> extra, ZipEntry& entry, std::uint64_t& header_offset,
                 const std::filesystem::path& path) {
  std::array<std::uint64_t*, 3> wide{&entry.bytes, &entry.stored_bytes, &header_offset};
  const auto saturated = [](const std::uint64_t* value) { return *value == 0xFFFFFFFF; };
  if (std::none_of(wide.begin(), wide.end(), saturated)) return;
  while (extra.size() >= 4) {
    const auto id = load_little_endian<std::uint16_t>(extra);
    const auto length = load_little_endian<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4) break;
    if (id == 1) {
      std::span<const std::byte> field = extra.subspan(4, length);
      for (std::uint64_t* value : wide) {
        if (!saturated(value)) continue;
        if (field.size() < 8) refuse(path, "a zip64 field is too short", entry.name);
        *value = load_little_endian<std::uint64_t>(field);
        field = field.subspan(8);
      }
      return;
    }
    extra = extra.subspan(4 + length);
  }
  refuse(path, "a zip64 entry has no sizes", entry.name);
}

// The data begin after the local header, whose extra field may differ from the directory's (torch.save pads it to align
// the data).
void locate_data(const InputFile& file, ZipEntry& entry, std::uint64_t header_offset, std::uint64_t limit) {
  if (limit < kLocalBytes || header_offset > limit - kLocalBytes) {
    refuse(file.path(), "a zip entry does not lie inside its file",
           fmt::format("'{}' at byte {}", entry.name, header_offset));
  }
  std::array<std::byte, kLocalBytes> header{};
  file.read_at(header_offset, header);
  const auto name_bytes = load_little_endian<std::uint16_t>(header, 26);
  const auto extra_bytes = load_little_endian<std::uint16_t>(header, 28);
  entry.offset_bytes = header_offset + kLocalBytes + name_bytes + extra_bytes;
  if (load_little_endian<std::uint32_t>(header) != kLocalSignature || name_bytes != entry.name.size() ||
      entry.offset_bytes > limit) {
    refuse(file.path(), "a zip entry's own header disagrees with the directory", fmt::format("'{}'", entry.name));
  }
  std::string name(name_bytes, '\0');
  file.read_at(header_offset + kLocalBytes, std::as_writable_bytes(std::span(name.data(), name.size())));
  if (name != entry.name) {
    refuse(file.path(), "a zip entry has two names", fmt::format("'{}', '{}'", entry.name, name));
  }
  if (entry.stored_bytes > limit - entry.offset_bytes) {
    refuse(file.path(), "a zip entry reaches beyond its file",
           fmt::format("'{}', {} at {}", entry.name, counted(entry.stored_bytes, "byte"), entry.offset_bytes),
           fmt::format("an end at or before byte {}", limit));
  }
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path) : file_(path) {
  const Directory directory = find_directory(file_);
  std::vector<std::byte> bytes(directory.bytes);
  file_.read_at(directory.offset, bytes);
  std::span<const std::byte> rest(bytes);
  // The beginning and end of each entry in the file, used to check that none overlap.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kCentralBytes || load_little_endian<std::uint32_t>(rest) != kCentralSignature) {
      refuse(path, "a zip's directory is torn", fmt::format("at entry {}", i));
    }
    const auto flags = load_little_endian<std::uint16_t>(rest, 8);
    const auto method = load_little_endian<std::uint16_t>(rest, 10);
    const std::size_t name_bytes = load_little_endian<std::uint16_t>(rest, 28);
    const std::size_t extra_bytes = load_little_endian<std::uint16_t>(rest, 30);
    const std::size_t comment_bytes = load_little_endian<std::uint16_t>(rest, 32);
    if (name_bytes + extra_bytes + comment_bytes > rest.size() - kCentralBytes) {
      refuse(path, "a zip's directory is torn", fmt::format("at entry {}", i));
    }
    ZipEntry entry{.name = std::string(reinterpret_cast<const char*>(rest.data()) + kCentralBytes, name_bytes),
                   .deflated = method == Z_DEFLATED,
                   .stored_bytes = load_little_endian<std::uint32_t>(rest, 20),
                   .bytes = load_little_endian<std::uint32_t>(rest, 24),
                   .crc = load_little_endian<std::uint32_t>(rest, 16)};
    if ((flags & kEncryptedFlags) != 0 || (method != 0 && method != Z_DEFLATED)) {
      throw DataError({.what = "a zip entry is encrypted, or packed by a method unknown here",
                       .where = fmt::format("{}, entry '{}'", path.string(), entry.name),
                       .found = fmt::format("method {}, flags {:#x}", method, flags),
                       .allowed = "stored (0) or deflated (8), not encrypted",
                       .remedy = "save the file again with the program that made it"});
    }
    std::uint64_t header_offset = load_little_endian<std::uint32_t>(rest, 42);
    apply_zip64(rest.subspan(kCentralBytes + name_bytes, extra_bytes), entry, header_offset, path);
    if (!entry.deflated && entry.bytes != entry.stored_bytes) {
      refuse(path, "a stored zip entry has two sizes", fmt::format("'{}'", entry.name));
    }
    if (entry.deflated && entry.bytes / kMaxDeflateRatio > entry.stored_bytes) {
      refuse(path, "a zip entry claims more than it can unpack to",
             fmt::format("'{}', {} from {}", entry.name, counted(entry.bytes, "byte"), entry.stored_bytes));
    }
    locate_data(file_, entry, header_offset, directory.offset);
    extents.emplace_back(header_offset, entry.offset_bytes + entry.stored_bytes);
    entries_.push_back(std::move(entry));
    rest = rest.subspan(kCentralBytes + name_bytes + extra_bytes + comment_bytes);
  }
  if (!rest.empty()) refuse(path, "a zip's directory is longer than its entries");
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].first < extents[i - 1].second) {
      refuse(path, "two zip entries share bytes", fmt::format("at byte {}", extents[i].first));
    }
  }
  std::sort(entries_.begin(), entries_.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].name == entries_[i - 1].name) {
      refuse(path, "a zip entry's name comes twice", fmt::format("'{}'", entries_[i].name));
    }
  }
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const ZipEntry& entry, std::string_view key) { return entry.name < key; });
  return place == entries_.end() || place->name != name ? nullptr : &*place;
}

namespace {

std::uint32_t crc_of(std::uint32_t before, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Inflates an entry from its start, piece by piece.
class Inflater {
 public:
  Inflater(const InputFile& file, const ZipEntry& entry) : file_(file), entry_(entry) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) {  // negative: raw deflate, no zlib header
      throw EnvironmentError({.what = "zlib cannot start", .where = file_.path().string()});
    }
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Reads the next bytes of the content; returns false if the entry ends before `out` is full, or is damaged.
  bool read(std::span<std::byte> out) {
    while (!out.empty()) {
      if (stream_.avail_in == 0) {
        const auto count = std::min<std::uint64_t>(input_.size(), entry_.stored_bytes - offset_);
        if (count == 0) return false;
        file_.read_at(entry_.offset_bytes + offset_, std::span(input_).first(count));
        offset_ += count;
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(count);
      }
      const auto target = out.first(std::min<std::size_t>(out.size(), 1U << 30));
      stream_.next_out = reinterpret_cast<Bytef*>(target.data());
      stream_.avail_out = static_cast<uInt>(target.size());
      const int result = inflate(&stream_, Z_NO_FLUSH);
      out = out.subspan(target.size() - stream_.avail_out);
      const bool ended = result == Z_STREAM_END && !out.empty();
      if (ended || (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)) return false;
    }
    return true;
  }

 private:
  const InputFile& file_;
  const ZipEntry& entry_;
  z_stream stream_{};
  std::array<std::byte, 16384> input_{};
  std::uint64_t offset_ = 0;  // offset of the stored bytes
};

}  // namespace

void ZipReader::read(const ZipEntry& entry, std::uint64_t skip, std::span<std::byte> destination) const {
  const auto torn = [&] {
    refuse(file_.path(), "a zip entry is torn, or shorter than it should be",
           fmt::format("'{}', {}", entry.name, counted(entry.bytes, "byte")),
           fmt::format("{} from byte {}", counted(destination.size(), "byte"), skip));
  };
  if (skip > entry.bytes || destination.size() > entry.bytes - skip) torn();
  if (entry.deflated) {
    Inflater inflater(file_, entry);
    std::array<std::byte, 16384> skipped{};
    for (std::uint64_t left = skip; left > 0;) {
      const auto count = std::min<std::uint64_t>(left, skipped.size());
      if (!inflater.read(std::span(skipped).first(count))) torn();
      left -= count;
    }
    if (!inflater.read(destination)) torn();
  } else {
    file_.read_at(entry.offset_bytes + skip, destination);
  }
  if (skip == 0 && destination.size() == entry.bytes) compare_crc(entry, crc_of(0, destination));
}

void ZipReader::verify(const ZipEntry& entry) const {
  if (entry.crc == 0) return;
  std::optional<Inflater> inflater;
  if (entry.deflated) inflater.emplace(file_, entry);
  std::array<std::byte, 65536> piece{};
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < entry.bytes;) {
    const auto bytes = std::span(piece).first(std::min<std::uint64_t>(piece.size(), entry.bytes - done));
    if (!inflater) {
      file_.read_at(entry.offset_bytes + done, bytes);
    } else if (!inflater->read(bytes)) {
      refuse(file_.path(), "a zip entry is torn, or shorter than it should be", fmt::format("'{}'", entry.name),
             counted(entry.bytes, "byte"));
    }
    crc = crc_of(crc, bytes);
    done += bytes.size();
  }
  compare_crc(entry, crc);
}

void ZipReader::compare_crc(const ZipEntry& entry, std::uint32_t crc) const {
  if (entry.crc == 0 || entry.crc == crc) return;
  refuse(file_.path(), "a zip entry's bytes are not those that were written",
         fmt::format("'{}', CRC-32 {:08x}", entry.name, crc), fmt::format("CRC-32 {:08x}", entry.crc));
}

std::string ZipReader::read_all(const ZipEntry& entry, std::uint64_t limit_bytes) const {
  if (entry.bytes > limit_bytes) {
    refuse(file_.path(), "a zip entry is larger than any of its kind",
           fmt::format("'{}', {}", entry.name, format_bytes(entry.bytes)), format_bytes(limit_bytes));
  }
  std::string content(entry.bytes, '\0');
  read(entry, 0, std::as_writable_bytes(std::span(content.data(), content.size())));
  return content;
}

}  // namespace plimsoll
