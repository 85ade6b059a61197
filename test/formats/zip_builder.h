// Builds a zip archive of stored entries in memory; every field may be set to a wrong value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/support.h"

namespace plimsoll {

class ZipBuilder {
 public:
  // Appends an entry and returns the offset of its local header.
  std::size_t add(const std::string& name, const std::string& content) {
    const std::size_t offset = bytes_.size();
    bytes_ += little_endian<std::uint32_t>(0x04034b50) + fields(name, content) + little_endian<std::uint16_t>(0) +
              name + content;
    directory_ += little_endian<std::uint32_t>(0x02014b50) + little_endian<std::uint16_t>(20) + fields(name, content) +
                  little_endian<std::uint16_t>(0) + std::string(10, '\0') +
                  little_endian(static_cast<std::uint32_t>(offset)) + name;
    ++entries_;
    return offset;
  }

  std::string finish(bool zip64 = false) const {
    const std::uint64_t offset = bytes_.size();
    std::string result = bytes_ + directory_;
    if (zip64) {
      const std::uint64_t end = result.size();
      result += little_endian<std::uint32_t>(0x06064b50) + little_endian<std::uint64_t>(44) + std::string(12, '\0') +
                little_endian<std::uint64_t>(entries_) + little_endian<std::uint64_t>(entries_) +
                little_endian<std::uint64_t>(directory_.size()) + little_endian(offset);
      result += little_endian<std::uint32_t>(0x07064b50) + std::string(4, '\0') + little_endian(end) +
                little_endian<std::uint32_t>(1);
    }
    const auto narrow = [zip64](std::uint64_t value) {
      return little_endian(zip64 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(value));
    };
    const auto count = little_endian(static_cast<std::uint16_t>(zip64 ? 0xFFFF : entries_));
    return result + little_endian<std::uint32_t>(0x06054b50) + std::string(4, '\0') + count + count +
           narrow(directory_.size()) + narrow(offset) + std::string(2, '\0');
  }

 private:
  // Returns the fields from "version needed" to the name's length, which are the same in both headers.
  static std::string fields(const std::string& name, const std::string& content) {
    const auto size = little_endian(static_cast<std::uint32_t>(content.size()));
    return little_endian<std::uint16_t>(20) + std::string(12, '\0') + size + size +
           little_endian(static_cast<std::uint16_t>(name.size()));
  }

  std::string bytes_, directory_;
  std::size_t entries_ = 0;
};

}  // namespace plimsoll
