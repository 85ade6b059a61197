// A plan as PyTorch's snapshot: the reader of such snapshots finds the plan's own numbers in it.
#include "report/memory_viz.h"

#include <gtest/gtest.h>

#include <string>

#include "doctor/snapshot.h"
#include "report/read_run.h"
#include "run_files.h"

namespace plimsoll::report {
namespace {

TEST(MemoryViz, HasThePlansNumbers) {
  const test::ScratchFolder folder;
  std::string bytes;
  write_memory_viz(read_arena(test::kArena, "test"), [&bytes](std::string_view piece) { bytes += piece; });
  const doctor::Snapshot snapshot = doctor::read_snapshot(folder.write("plan.pickle", bytes));
  ASSERT_EQ(snapshot.devices.size(), 1U);
  const doctor::SnapshotDevice& device = snapshot.devices[0];
  EXPECT_EQ(device.reserved_bytes, 3072U);
  EXPECT_EQ(device.live_bytes, 1024U) << "what is always there";
  EXPECT_EQ(device.live_blocks, 2U);
  EXPECT_EQ(device.peak_bytes, 1024U + 1024 + 512 + 512) << "at the node of the scratch";
  // Two persistent tensors, and four of the step, which are allocated and released.
  EXPECT_EQ(device.events, 2U + 4 * 2);
  ASSERT_FALSE(device.peak_largest.empty());
  EXPECT_NE(device.peak_largest[0].frames[0].find("pixels"), std::string::npos);
}

TEST(MemoryViz, ReleasesBeforeItAllocates) {
  // The two share their bytes: one dies before node 1, at which the other begins.
  const std::string arena = R"({"arena_bytes":64,"programs":[{"kind":"step","peak_node":0,
    "nodes":[["a","linear","forward",0],["b","linear","forward",0]],
    "tensors":[["b","activation","brief",0,64,1,2],["a","activation","brief",0,64,0,1]]}]})";
  const test::ScratchFolder folder;
  std::string bytes;
  write_memory_viz(read_arena(arena, "test"), [&bytes](std::string_view piece) { bytes += piece; });
  const doctor::Snapshot snapshot = doctor::read_snapshot(folder.write("plan.pickle", bytes));
  EXPECT_EQ(snapshot.devices.at(0).peak_bytes, 64U);
  EXPECT_EQ(snapshot.devices.at(0).live_bytes, 0U);
}

}  // namespace
}  // namespace plimsoll::report
