// ZipReader: reads the directory of a zip file defensively, and its entries' bytes.
//
// It reads what torch.save and numpy.savez write: stored and deflated entries, zip64. (Format: PKWARE APPNOTE.TXT
// 6.3.10, sections 4.3 and 4.5.3.) Invariant: every entry listed lies inside the file before the central directory,
// shares no byte with another, and has a unique name. An entry's CRC-32 is compared by read_all, by verify, and by a
// read of the whole entry. torch.save can omit checksums (set_crc32_options); it then writes 0, and nothing is
// compared.
//
//   ZipReader zip(path);
//   if (const ZipEntry* entry = zip.find("archive/version")) text = zip.read_all(*entry, 16);
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace plimsoll {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint64_t stored_bytes = 0;  // the size in the file
  std::uint64_t bytes = 0;         // after inflating; equal to stored_bytes if not deflated
  std::uint64_t offset_bytes = 0;  // of the entry's data, from the start of the file
  std::uint32_t crc = 0;           // CRC-32 of the inflated content; 0: the writer computed none
};

class ZipReader {
 public:
  // Throws DataError if the file is not a zip or its directory is inconsistent.
  explicit ZipReader(const std::filesystem::path& path);

  const InputFile& file() const { return file_; }
  // Returns the entries, sorted by name.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;

  // Fills `destination` from byte `skip` of the entry's inflated content. A deflated entry is inflated from its
  // start at every call. Throws DataError if it ends too early, or if the whole content was read and its CRC
  // differs.
  void read(const ZipEntry& entry, std::uint64_t skip, std::span<std::byte> destination) const;
  // Reads the whole content; throws DataError if it is longer than `limit_bytes`.
  std::string read_all(const ZipEntry& entry, std::uint64_t limit_bytes) const;
  // Reads the entry once, a small piece at a time, and throws DataError if its CRC differs.
  void verify(const ZipEntry& entry) const;

 private:
  // Throws DataError unless `crc` equals the entry's, or the entry has none.
  void compare_crc(const ZipEntry& entry, std::uint32_t crc) const;

  InputFile file_;
  std::vector<ZipEntry> entries_;
};

}  // namespace plimsoll
