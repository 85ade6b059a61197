// Helpers for the tests of this folder: a temporary directory, files of given bytes, golden files, and checks on error
// messages.
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
#include "harness/paths.h"
#include "support/scratch_folder.h"

namespace plimsoll {

using test::ScratchFolder;

inline std::filesystem::path golden(std::string_view name) {
  return test_data_dir() / "formats" / name;
}

// Returns a number's bytes as stored in a file.
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

// Runs `action`, which must throw DataError, and returns the error's message; empty if it does not throw.
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
