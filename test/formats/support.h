// What the tests of this folder share: a directory that goes away, files of given bytes, golden
// files, and checks on what an error says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "formats/tensor_source.h"

namespace plimsoll {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plimsoll-XXXXXX").string();
    check(::mkdtemp(pattern.data()) != nullptr, "a temporary directory can be made");
    path_ = pattern;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::remove(path);  // ext4 syncs a file that is emptied and written anew: slow
    std::ofstream stream(path, std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    return path;
  }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path golden(std::string_view name) {
  return std::filesystem::path(PLIMSOLL_TEST_DATA_DIR) / "formats" / name;
}

// A number's bytes as they lie in a file.
template <typename T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <typename T>
std::vector<T> read_tensor(const TensorSource& source, std::string_view name) {
  const TensorEntry& entry = source.at(name);
  check(sizeof(T) == dtype_bytes(entry.type.dtype), "the test asks for the right element");
  std::vector<T> values(static_cast<std::size_t>(entry.type.shape.elements()));
  source.read(name, std::as_writable_bytes(std::span(values)));
  return values;
}

// Runs `action`, which must throw DataError, and returns its message; empty if it does not.
template <typename Action>
std::string data_error(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    EXPECT_FALSE(error.problem().where.empty()) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no DataError";
  return {};
}

}  // namespace plimsoll
