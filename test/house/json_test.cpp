// JSON from outside is parsed by parse_json() (formats/json.h), which limits its depth: printing a value that nests
// some ten thousand levels deep overflows the stack.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "harness/paths.h"

namespace {

namespace fs = std::filesystem;

TEST(House, JsonFromOutsideIsParsedByOneFunction) {
  const std::regex tolerant(
      "\\b[Jj]son::parse\\([^;]*nullptr,\\s*false\\)");  // whoever tolerates errors did not write it
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(plimsoll::source_dir() / "src")) {
    if (entry.path().extension() != ".cpp" || entry.path().filename() == "json.cpp") continue;
    ++files;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(std::regex_search(text, tolerant)) << entry.path().string() << " parses JSON of any depth";
  }
  EXPECT_GT(files, 100);
}

}  // namespace
