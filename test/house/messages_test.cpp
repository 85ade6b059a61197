// Messages count things with one function, base/counted.h, so that none says "1 pages".
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "harness/paths.h"

namespace {

namespace fs = std::filesystem;

TEST(House, MessagesCountByOneFunction) {
  // "{} pages" would print "1 pages". "{} x {} pixels" has no count, and neither has "{:.1f} pages/s".
  const std::regex by_hand(
      R"re("[^"]*\{\} (?:labelled |token |text |more |forward )?)re"
      R"re((?:adapter|block|box(?=es)|buffer|byte|checkpoint|element|entri(?=es)|epoch|error|file|gradient|image|key)re"
      R"re(|label|layer|level|line|map|merge|number|page|parameter|patch(?=es)|processor|sample|segment|step|tensor)re"
      R"re(|thread|time|token|update|version|warning|window|word)(?:e?s)\b(?!/s))re"
      R"re(|== 1 \? "" : "s"|\{\} [a-z ]+\((?:s|es)\))re");
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(plimsoll::source_dir() / "src")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    ++files;
    std::ifstream file(entry.path());
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.find_first_not_of(' ') != std::string::npos &&
          line.substr(line.find_first_not_of(' ')).starts_with("//"))
        continue;
      EXPECT_FALSE(std::regex_search(line, by_hand))
          << entry.path().string() << ":" << number << " counts by hand; use counted(n, \"page\"): " << line;
    }
  }
  EXPECT_GT(files, 100);
}

}  // namespace
