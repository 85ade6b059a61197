// Replays the fuzzed parsers' corpora in the ordinary build, so that a fault once found cannot return unnoticed.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "formats/allocation_guard.h"
#include "fuzz/targets.h"
#include "harness/paths.h"

namespace plimsoll::fuzz {

static std::ostream& operator<<(std::ostream& stream, const Named& target) { return stream << target.name; }

namespace {

constexpr std::size_t kLargestAllocation = std::size_t{64} << 20;  // the same as libFuzzer's -malloc_limit_mb

class Corpus : public testing::TestWithParam<Named> {};

TEST_P(Corpus, IsReadOrRefused) {
  int inputs = 0;
  const auto folder = source_dir() / "test/fuzz/corpus" / GetParam().name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string input = read_text_file(entry.path());
    const AllocationGuard guard;
    EXPECT_NO_THROW(GetParam().target(input)) << entry.path();
    EXPECT_LE(guard.largest_bytes(), kLargestAllocation) << entry.path();
    ++inputs;
  }
  EXPECT_GT(inputs, 3) << "an empty corpus tests nothing";
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, testing::ValuesIn(kTargets),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(CorpusFolders, HaveATargetEach) {
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "test/fuzz/corpus")) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(std::ranges::any_of(kTargets, [&](const Named& target) { return target.name == name; })) << name;
  }
}

}  // namespace
}  // namespace plimsoll::fuzz
