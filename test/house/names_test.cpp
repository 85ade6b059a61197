// The floors below a family and a task name none of them: a family is a folder of src/families, a task one of
// src/tasks, and what they have in common is in src/model.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "harness/paths.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kFoldersThatNameNone[] = {"graph",   "autodiff", "transform", "plan", "backend",
                                                "runtime", "fit",      "train",     "model"};

// The folders of src/families or src/tasks, as a pattern: "token_classification" is also "token-classification" and
// "TokenClassification".
std::string names_in(const std::string& folder) {
  std::string names;
  for (const auto& entry : fs::directory_iterator(plimsoll::source_dir() / "src" / folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name == "parts") continue;
    if (!names.empty()) names += "|";
    for (const char c : name) names += c == '_' ? std::string("[-_ ]?") : std::string(1, c);
  }
  return names;
}

TEST(House, FloorsBelowNameNoFamilyAndNoTask) {
  // Names of models that share a family's folder.
  const std::string models = "roberta|xlm|deberta|distilbert";
  const std::regex named("\\b(for)?(" + names_in("families") + "|" + models + "|" + names_in("tasks") + ")",
                         std::regex::icase);
  ASSERT_TRUE(std::regex_search("LayoutLMv3ForTokenClassification", named));
  ASSERT_TRUE(std::regex_search("kind == \"question-answering\"", named));
  int files = 0;
  for (const char* folder : kFoldersThatNameNone) {
    for (const auto& entry : fs::recursive_directory_iterator(plimsoll::source_dir() / "src" / folder)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      std::ifstream file(entry.path());
      int number = 0;
      for (std::string line; std::getline(file, line);) {
        ++number;
        EXPECT_FALSE(std::regex_search(line, named))
            << entry.path().string() << ":" << number << " names a family or a task: " << line;
      }
    }
  }
  EXPECT_GT(files, 200);
}

}  // namespace
