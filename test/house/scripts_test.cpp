// Scripts reject arguments that they do not understand, rather than build everything.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "harness/paths.h"

namespace {

const std::string kScripts = plimsoll::source_dir().string() + "/scripts/";

// Returns its output and exit status. "nowhere" is not a preset, so the script cannot build anything in any case.
int build(const std::string& arguments, std::string& text) {
  std::FILE* pipe = ::popen((kScripts + "build.sh " + arguments + " 2>&1").c_str(), "r");
  text.clear();
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  return WEXITSTATUS(::pclose(pipe));
}

TEST(Scripts, BuildRefusesWhatItDoesNotUnderstand) {
  std::string text;
  for (const char* arguments : {"nowhere plimsoll", "nowhere --targets plimsoll", "nowhere --target",
                                "--target plimsoll", "nowhere --target plimsoll --jobs"}) {
    EXPECT_EQ(build(arguments, text), 2) << arguments << ": " << text;
    EXPECT_NE(text.find("scripts/build.sh [PRESET [--target NAME...]]"), std::string::npos) << text;
  }
}

TEST(Scripts, TheDemoBuildsTheProgramAlone) {
  std::ifstream file(kScripts + "demo.sh");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("preset=${PLIMSOLL_PRESET:-program}\nscripts/build.sh \"$preset\"\n"), std::string::npos);
}

}  // namespace
