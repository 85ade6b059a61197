// A part of a file, mapped into memory for as long as the object lives; no other pages of the file become resident.
//
//   const MappedBytes entry(file, offset, bytes);
//   use(entry.bytes());
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"

namespace plimsoll {

class MappedBytes {
 public:
  // Throws DataError if the file is shorter or cannot be mapped. Truncating a file while it is mapped ends the process
  // (SIGBUS), so map only files that are replaced and never written in place.
  MappedBytes(const InputFile& file, std::uint64_t offset, std::size_t bytes);
  ~MappedBytes();
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  // The most bytes that a mapping of this size makes resident: it may begin and end within a page.
  static std::uint64_t resident_bytes(std::uint64_t bytes);

 private:
  void* address_ = nullptr;
  std::size_t length_ = 0;
  std::span<const std::byte> bytes_;
};

}  // namespace plimsoll
