#include "base/mapped_bytes.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {
namespace {

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

MappedBytes::MappedBytes(const InputFile& file, std::uint64_t offset, std::size_t bytes) {
  const auto fail = [&](std::string found) {
    throw DataError({.what = "a part of a file cannot be mapped",
                     .where = fmt::format("{}, {} from byte {}", file.path().string(), counted(bytes, "byte"), offset),
                     .found = std::move(found),
                     .remedy = "the file was truncated while it was in use: restore or rebuild it"});
  };
  struct stat now {};
  if (::fstat(file.descriptor(), &now) != 0) fail(std::strerror(errno));
  if (static_cast<std::uint64_t>(now.st_size) < offset + bytes) fail(counted(now.st_size, "byte") + " in all");
  const std::uint64_t before = offset % page_bytes();
  length_ = before + bytes;
  address_ = ::mmap(nullptr, length_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.descriptor(),
                    static_cast<off_t>(offset - before));
  if (address_ == MAP_FAILED) fail(std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(address_) + before, bytes};
}

MappedBytes::~MappedBytes() { ::munmap(address_, length_); }

std::uint64_t MappedBytes::resident_bytes(std::uint64_t bytes) { return bytes + 2 * page_bytes(); }

}  // namespace plimsoll
