// Lower folders must not include higher ones. The table in docs/architecture.md defines what each may include.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "harness/paths.h"

namespace {

namespace fs = std::filesystem;
using Table = std::map<std::string, std::set<std::string>>;

Table read_table() {
  Table table;
  std::ifstream file(plimsoll::source_dir() / "docs" / "architecture.md");
  const std::regex row(R"(^\| `([a-z/]+)` \|.*\| ?([a-z/, ]*) ?\|$)");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    std::stringstream names(match[2].str());
    std::set<std::string>& allowed = table[match[1].str()];
    for (std::string name; std::getline(names, name, ',');) {
      name.erase(0, name.find_first_not_of(' '));
      name.erase(name.find_last_not_of(' ') + 1);
      if (!name.empty()) allowed.insert(name);
    }
  }
  return table;
}

// Adds everything that `folder` may include: itself and the folders that its row leads to.
void reach(const Table& table, const std::string& folder, std::set<std::string>& reached) {
  if (!reached.insert(folder).second) return;
  for (const std::string& next : table.at(folder)) reach(table, next, reached);
}

// Returns the longest folder of the table that contains `path`: backend/cpu before backend.
std::string folder_of(const Table& table, const std::string& path) {
  std::string best;
  for (const auto& [folder, allowed] : table) {
    if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

TEST(House, EveryIncludeFollowsTheTable) {
  const Table table = read_table();
  ASSERT_GE(table.size(), 15U) << "docs/architecture.md has lost its table";
  const fs::path root = plimsoll::source_dir() / "src";
  const std::regex include(R"re(^\s*#include "([^"]+)")re");
  int checked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    const std::string path = fs::relative(entry.path(), root).string();
    const std::string folder = folder_of(table, path);
    EXPECT_FALSE(folder.empty()) << path << " lies in a folder that the table does not know";
    if (folder.empty()) continue;
    std::set<std::string> allowed;
    reach(table, folder, allowed);
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      if (!fs::exists(root / match[1].str())) continue;  // a system header
      const std::string target = folder_of(table, match[1].str());
      EXPECT_TRUE(allowed.count(target)) << path << " includes " << match[1].str() << ", which '" << folder
                                         << "' may not";
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

}  // namespace
