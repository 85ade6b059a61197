// The code in the headers' comments is compiled: cmake/ExtractExample.cmake extracts it, test/examples includes it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "harness/paths.h"

namespace {

namespace fs = std::filesystem;

// The headers whose extracted example some file of test/examples includes, each with that file.
std::map<std::string, std::string> compiled_examples() {
  std::map<std::string, std::string> compiled;
  const std::regex include(R"re(^#include "([^"]+\.h)\.inc"$)re");
  for (const auto& entry : fs::directory_iterator(plimsoll::source_dir() / "test" / "examples")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_match(line, match, include)) compiled[match[1].str()] = entry.path().filename().string();
    }
  }
  return compiled;
}

// The headers whose comments hold code.
std::set<std::string> headers_with_examples() {
  std::set<std::string> headers;
  const fs::path root = plimsoll::source_dir() / "src";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".h") continue;
    const std::string header = fs::relative(entry.path(), root).string();
    const fs::path extracted = fs::path(PLIMSOLL_EXAMPLES_DIR) / (header + ".inc");
    EXPECT_TRUE(fs::exists(extracted)) << "the example of " << header << " has not been extracted: build again";
    if (fs::exists(extracted) && fs::file_size(extracted) > 0) headers.insert(header);
  }
  return headers;
}

TEST(House, EveryExampleIsCompiled) {
  const std::map<std::string, std::string> compiled = compiled_examples();
  const std::set<std::string> headers = headers_with_examples();
  EXPECT_GT(headers.size(), 80U) << "the examples have not been recognised as code";
  for (const std::string& header : headers) {
    EXPECT_TRUE(compiled.count(header)) << "src/" << header << " has an example that nothing compiles: let a file of "
                                        << "test/examples include \"" << header << ".inc\"";
  }
  for (const auto& [header, file] : compiled) {
    EXPECT_TRUE(headers.count(header)) << "test/examples/" << file << " compiles the example of src/" << header
                                       << ", which has none";
  }
}

}  // namespace
