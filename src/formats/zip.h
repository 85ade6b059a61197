// ZipReader: the directory of a zip file, read defensively, and its entries' bytes.
//
// Reads what torch.save and numpy.savez write: stored and deflated entries, zip64. (Format: PKWARE
// APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.) Invariant: every entry listed lies inside the file
// before the central directory, shares no byte with another, and has a name of its own.
// An entry's CRC-32 is compared by read_all, by verify, and by a read of the whole entry. torch.save
// may be told to leave checksums out (set_crc32_options); it writes 0 then, and nothing is compared.
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
  std::uint64_t stored_bytes = 0;  // as they lie in the file
  std::uint64_t bytes = 0;         // after inflating; equal to stored_bytes if not deflated
  std::uint64_t offset_bytes = 0;  // of the entry's data, from the start of the file
  std::uint32_t crc = 0;           // CRC-32 of the inflated content; 0: the writer computed none
};

class ZipReader {
 public:
  // Throws DataError if the file is no zip or its directory does not hold together.
  explicit ZipReader(const std::filesystem::path& path);

  const InputFile& file() const { return file_; }
  // Sorted by name.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;

  // Fills `destination` from byte `skip` of the entry's inflated content. A deflated entry is
  // inflated from its start at every call. Throws DataError if it ends before, or if the whole
  // content was asked for and has another CRC.
  void read(const ZipEntry& entry, std::uint64_t skip, std::span<std::byte> destination) const;
  // The whole content; throws DataError if it is longer than `limit_bytes`.
  std::string read_all(const ZipEntry& entry, std::uint64_t limit_bytes) const;
  // Reads the entry once, a small piece at a time, and throws DataError if its CRC is another.
  void verify(const ZipEntry& entry) const;

 private:
  // Throws DataError unless `crc` is the entry's, or it has none.
  void compare_crc(const ZipEntry& entry, std::uint32_t crc) const;

  InputFile file_;
  std::vector<ZipEntry> entries_;
};

}  // namespace plimsoll
