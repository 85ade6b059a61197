// The paths of a test's files. They are compiled into one file of this library, so that the objects of a test do not
// depend on the checkout's location and a compiler cache can share them between checkouts.
//
//   const std::filesystem::path golden = test_data_dir() / "model" / "linear";
#pragma once

#include <filesystem>

namespace plimsoll {

std::filesystem::path source_dir();     // the checkout
std::filesystem::path test_data_dir();  // test/data: golden files
std::filesystem::path shared_dir();     // optional data beside the checkout; tests that use it skip without it
std::filesystem::path program_path();   // this build's plimsoll

}  // namespace plimsoll
