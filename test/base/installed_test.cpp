#include "base/installed.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

TEST(Installed, FindsLibrariesOfPythonsPackages) {
  const test::ScratchFolder scratch;
  const std::filesystem::path packages = scratch.path() / "lib" / "python3.12" / "site-packages" / "nvidia";
  for (const char* const package : {"cublas", "cu13", "nccl"}) create_directories(packages / package / "lib");
  const std::string file = "libplimsoll_of_a_test.so.13";
  for (const char* const package : {"cublas", "cu13"}) std::ofstream(packages / package / "lib" / file) << "x";
  EXPECT_TRUE(in_nvidia_packages(file).empty());
  ASSERT_EQ(setenv("VIRTUAL_ENV", scratch.path().c_str(), 1), 0);
  const std::vector<std::filesystem::path> found = in_nvidia_packages(file);
  ASSERT_EQ(unsetenv("VIRTUAL_ENV"), 0);
  EXPECT_EQ(found,
            (std::vector<std::filesystem::path>{packages / "cu13" / "lib" / file, packages / "cublas" / "lib" / file}));
}

}  // namespace
}  // namespace plimsoll
