// The snapshot is tools/make_snapshot.py's: its peak, gaps and leak are known.
#include "doctor/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "harness/paths.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll::doctor {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path snapshot_path() { return source_dir() / "test" / "doctor" / "snapshot.pickle"; }

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::uint64_t of(const std::uint64_t (&kinds)[kMemoryKinds], MemoryKind kind) { return kinds[static_cast<int>(kind)]; }

TEST(Snapshot, TellsThePeakByWhatAllocatedIt) {
  const Snapshot snapshot = read_snapshot(snapshot_path());
  ASSERT_EQ(snapshot.devices.size(), 1U);
  const SnapshotDevice& d = snapshot.devices[0];
  // From step 2 on: weights, optimizer, activations, gradients, and a loss of 2 MiB from each step so far.
  EXPECT_EQ(d.peak_bytes, (64 + 128 + 300 + 64 + 12) * kMiB);
  EXPECT_EQ(of(d.peak_kinds, MemoryKind::kWeights), 64 * kMiB);
  EXPECT_EQ(of(d.peak_kinds, MemoryKind::kOptimizer), 128 * kMiB);
  EXPECT_EQ(of(d.peak_kinds, MemoryKind::kActivations), 300 * kMiB);
  EXPECT_EQ(of(d.peak_kinds, MemoryKind::kNoFrames), 64 * kMiB);
  EXPECT_EQ(of(d.peak_kinds, MemoryKind::kOther), 12 * kMiB);
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : d.peak_kinds) sum += bytes;
  EXPECT_EQ(sum, d.peak_bytes);
  ASSERT_FALSE(d.peak_largest.empty());
  EXPECT_EQ(d.peak_largest[0].bytes, 128 * kMiB);
  EXPECT_THAT(d.peak_largest[0].frames, ElementsAre("torch/optim/adamw.py:152 _init_group",
                                                    "torch/optim/adamw.py:209 step", "/work/train.py:90 <module>"));
  EXPECT_EQ(d.refused_bytes, 500 * kMiB);
  EXPECT_EQ(d.steps, 6U);
}

TEST(Snapshot, TellsWhatIsAliveAndWhatLiesBetween) {
  const SnapshotDevice d = read_snapshot(snapshot_path()).devices.at(0);
  EXPECT_EQ(d.live_blocks, 8U);
  EXPECT_EQ(d.live_bytes, (64 + 128 + 12) * kMiB + 6 * 512);
  EXPECT_EQ(d.rounding_bytes, 6 * 512U);
  EXPECT_EQ(d.between_bytes, 30 * kMiB);
  EXPECT_EQ(d.spare_bytes, 20 * kMiB);
  EXPECT_EQ(d.largest_gap_bytes, 30 * kMiB);
  EXPECT_EQ(d.reserved_bytes, d.live_bytes + d.between_bytes + d.spare_bytes);
  EXPECT_EQ(d.largest.back().count, 6U) << "six blocks of one line, shown once";
}

TEST(Snapshot, FindsTheLineWhoseBlocksPileUp) {
  const SnapshotDevice d = read_snapshot(snapshot_path()).devices.at(0);
  ASSERT_EQ(d.growing.size(), 1U) << "the optimizer's state grows once and is no leak";
  EXPECT_EQ(d.growing[0].blocks, 6U);
  EXPECT_EQ(d.growing[0].last_bytes, 12 * kMiB);
  EXPECT_THAT(d.growing[0].block.frames.at(0), HasSubstr("train.py:71 train_one_epoch"));
}

TEST(Snapshot, RefusesWhatIsNone) {
  const test::ScratchFolder folder;
  const auto refuse = [&](const std::string& bytes, std::initializer_list<std::string_view> parts) {
    std::ofstream(folder / "x.pickle", std::ios::binary) << bytes;
    test::expect_error<DataError>([&] { read_snapshot(folder / "x.pickle"); }, parts);
  };
  using namespace std::string_literals;
  refuse("", {"ends too early"});
  refuse("\x80\x02K\x01."s, {"no memory snapshot", "_dump_snapshot"});
  refuse("\x80\x02}U\x08segments]}as."s, {"has no blocks"});
  // {'segments': [{'blocks': [], 'total_size': -1}]}
  refuse(
      "\x80\x02}U\x08segments]}(U\x06"
      "blocks]U\x0atotal_sizeJ\xff\xff\xff\xffuas."s,
      {"negative"});
  refuse(
      "\x80\x02"
      "cos\nsystem\nU\x04true\x85R."s,
      {"would run code", "os.system"});
}

// Torn or changed anywhere it is read or refused, never more.
// A few kilobytes that would be walked through for hours: one event recalled for each of a list's, the list recalled
// for each device's, and each look into a dictionary of thousands of keys.
TEST(Snapshot, RefusesWhatMultipliesItself) {
  const test::ScratchFolder folder;
  const auto text = [](const std::string& s) { return "X" + std::string{static_cast<char>(s.size()), 0, 0, 0} + s; };
  const auto repeated = [](std::string_view piece, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += piece;
    return all;
  };
  const std::string begin = "\x80\x02}(" + text("segments") + "]" + text("device_traces") + "](";
  const std::string event =
      "}(" + text("action") + text("alloc") + text("addr") + "K\x07" + "u" + std::string("q\0", 2);
  const auto read = [&](const std::string& traces) {
    return read_snapshot(folder.write("small.pickle", begin + traces + "eu."));
  };
  EXPECT_EQ(read("](" + event + event + "e").devices.at(0).events, 2U);
  const std::string recalled(repeated(std::string_view("h\0", 2), 100));
  test::expect_error<DataError>([&] { read("](" + event + recalled + "e"); }, {"repeats itself"});
  test::expect_error<DataError>([&] { read("](" + event + repeated(event, 9) + "eq\x01" + repeated("h\x01", 99)); },
                                {"repeats itself"});
  const std::string wide = "}(" + repeated("K\x05N", 1000) + "u";
  test::expect_error<DataError>([&] { read("](" + wide + "e"); }, {"wider", "64 keys"});
}

TEST(Snapshot, SurvivesDamage) {
  const std::string whole = bytes_of(snapshot_path());
  const test::ScratchFolder folder;
  std::uint32_t state = 7;
  for (int round = 0; round < 600; ++round) {
    std::string bytes = whole;
    state = state * 1664525 + 1013904223;
    const std::size_t place = (state >> 8) % bytes.size();
    if (round % 3 == 0) {
      bytes.resize(place);
    } else {
      bytes[place] = static_cast<char>(state >> 24);
    }
    std::ofstream(folder / "x.pickle", std::ios::binary) << bytes;
    try {
      read_snapshot(folder / "x.pickle");
    } catch (const DataError&) {
    }
  }
}

}  // namespace
}  // namespace plimsoll::doctor
