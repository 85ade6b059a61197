// Tests made-up memory series: real growth, and series that only resemble it.
#include "train/growth_watch.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/bytes.h"

namespace plimsoll {
namespace {

constexpr GrowthWatch::Options kOptions{.budget_bytes = 2 * kGiB, .total_steps = 10000};

// 1 GiB resident, 4 GiB free, some KiB of noise, one second per update; `change` does the rest.
std::optional<Growth> watch(const std::function<void(std::int64_t, ProcessMemory&)>& change, std::int64_t steps = 2000,
                            std::int64_t* reported_at = nullptr) {
  GrowthWatch watch(kOptions);
  std::optional<Growth> found;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const std::size_t noise = static_cast<std::size_t>(step * 7919 % 101) * kKiB;
    ProcessMemory memory{.resident = kGiB + noise,
                         .anonymous = 900 * kMiB + noise,
                         .file_backed = 124 * kMiB,
                         .machine_free = 4 * kGiB - noise};
    change(step, memory);
    const auto growth = watch.add(step, static_cast<double>(step), memory);
    EXPECT_FALSE(found && growth) << "reported twice";
    if (growth && reported_at != nullptr) *reported_at = step;
    if (growth) found = growth;
  }
  return found;
}

std::size_t mib(double value) { return static_cast<std::size_t>(value * static_cast<double>(kMiB)); }

TEST(GrowthWatch, NamesTheHeap) {
  std::int64_t at = 0;
  const auto growth = watch(
      [](std::int64_t step, ProcessMemory& m) {
        m.resident += mib(0.5 * static_cast<double>(step));
        m.anonymous += mib(0.5 * static_cast<double>(step));
        m.machine_free -= mib(0.5 * static_cast<double>(step));
      },
      2000, &at);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->suspect, Growth::Suspect::kHeap);
  EXPECT_NEAR(growth->bytes_per_step, 0.5 * static_cast<double>(kMiB), 0.05 * static_cast<double>(kMiB));
  EXPECT_NEAR(static_cast<double>(growth->crosses_at), 2048, 100);
  EXPECT_LT(at, 400) << "early";
}

TEST(GrowthWatch, NamesFilePages) {
  const auto growth = watch([](std::int64_t step, ProcessMemory& m) {
    m.resident += mib(0.5 * static_cast<double>(step));
    m.file_backed += mib(0.5 * static_cast<double>(step));
  });
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->suspect, Growth::Suspect::kFilePages);
}

TEST(GrowthWatch, NamesOtherProcesses) {
  const auto growth =
      watch([](std::int64_t step, ProcessMemory& m) { m.machine_free -= mib(1.0 * static_cast<double>(step)); });
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->suspect, Growth::Suspect::kOtherProcesses);
}

TEST(GrowthWatch, KeepsSilent) {
  using Change = std::function<void(std::int64_t, ProcessMemory&)>;
  const std::pair<const char*, Change> cases[] = {
      {"nothing happens", [](std::int64_t, ProcessMemory&) {}},
      {"a jump", [](std::int64_t step, ProcessMemory& m) { m.resident += step > 700 ? mib(200) : 0; }},
      {"an outlier now and then",
       [](std::int64_t step, ProcessMemory& m) { m.resident += step % 50 == 0 ? mib(300) : 0; }},
      {"warm-up",
       [](std::int64_t step, ProcessMemory& m) {
         m.resident += mib(6.0 * static_cast<double>(std::min<std::int64_t>(step, 50)));
       }},
      {"too slow to matter",
       [](std::int64_t step, ProcessMemory& m) { m.resident += mib(0.05 * static_cast<double>(step)); }},
  };
  for (const auto& [name, change] : cases) EXPECT_FALSE(watch(change)) << name;
}

TEST(GrowthWatch, SaysNothingOfAShortRun) {
  EXPECT_FALSE(watch([](std::int64_t step, ProcessMemory& m) { m.resident += mib(static_cast<double>(step)); }, 240));
}

TEST(ProcessMemory, IsThisProcesss) {
  const ProcessMemory memory = process_memory(MemoryGroups());
  EXPECT_GT(memory.resident, kMiB);
  EXPECT_GT(memory.anonymous, 0U);
  EXPECT_LE(memory.anonymous, memory.resident);
  EXPECT_GT(memory.machine_free, 0U);
}

}  // namespace
}  // namespace plimsoll
