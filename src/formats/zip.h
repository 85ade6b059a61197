// ZipReader: the directory of a zip file, read defensively, and its entries' bytes.
//
// Reads what torch.save and numpy.savez write: stored and deflated entries, zip64. (Format: PKWARE
// APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.) Invariant: every entry listed lies inside the file
// before the central directory, shares no byte with another, and has a name of its own.
// Checksums are not compared: torch.save may be told to leave them out.
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
  // inflated from its start at every call. Throws DataError if it ends before.
  void read(const ZipEntry& entry, std::uint64_t skip, std::span<std::byte> destination) const;
  // The whole content; throws DataError if it is longer than `limit_bytes`.
  std::string read_all(const ZipEntry& entry, std::uint64_t limit_bytes) const;

 private:
  InputFile file_;
  std::vector<ZipEntry> entries_;
};

}  // namespace plimsoll
