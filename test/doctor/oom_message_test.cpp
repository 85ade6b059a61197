#include "doctor/oom_message.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/bytes.h"

namespace plimsoll::doctor {
namespace {

std::uint64_t gib(double value) { return static_cast<std::uint64_t>(std::llround(value * 0x1.0p30)); }
std::uint64_t mib(double value) { return static_cast<std::uint64_t>(std::llround(value * 0x1.0p20)); }

TEST(OomMessage, ReadsTheWordingOfVersion1) {
  const OomNumbers n = read_oom_message(
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.07 GiB already "
      "allocated; 18.94 MiB free; 6.12 GiB reserved in total by PyTorch)");
  EXPECT_EQ(n.tried, mib(20));
  EXPECT_EQ(n.total, gib(7.79));
  EXPECT_EQ(n.allocated, gib(6.07));
  EXPECT_EQ(n.free, mib(18.94));
  EXPECT_EQ(n.reserved, gib(6.12));
  EXPECT_EQ(n.unallocated, gib(6.12) - gib(6.07));
  EXPECT_EQ(n.others, gib(7.79) - mib(18.94) - gib(6.12));
}

TEST(OomMessage, ReadsTheOldestWording) {
  const OomNumbers n = read_oom_message(
      "CUDA out of memory. Tried to allocate 1.12 GiB (GPU 3; 11.91 GiB total capacity; 10.12 GiB already allocated; 0 "
      "bytes free; 11.00 GiB cached)");
  EXPECT_EQ(n.tried, gib(1.12));
  EXPECT_EQ(n.free, 0U);
  EXPECT_EQ(n.reserved, gib(11));
}

// Up to PyTorch 1.3 the allocator's cache is told without the tensors, so that it can be smaller than they are.
TEST(OomMessage, ACacheBesideTheTensorsIsAddedToThem) {
  const OomNumbers n = read_oom_message(
      "CUDA out of memory. Tried to allocate 352.00 MiB (GPU 0; 7.92 GiB total capacity; 1.67 GiB already allocated; "
      "156.00 MiB free; 124.28 MiB cached)");
  EXPECT_EQ(n.unallocated, mib(124.28));
  EXPECT_EQ(n.reserved, gib(1.67) + mib(124.28));
  EXPECT_EQ(n.others, gib(7.92) - mib(156) - gib(1.67) - mib(124.28));
  EXPECT_TRUE(others_hold_much(n));
}

TEST(OomMessage, ReadsTheWordingOfVersion2WithItsMisspelling) {
  for (const char* capacity : {"capacty", "capacity"}) {
    const OomNumbers n = read_oom_message(
        std::string("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total ") +
        capacity +
        " of 23.65 GiB of which 1.66 GiB is free. Process 77 has 1.00 GiB memory in use. Process 78 has 512.00 MiB "
        "memory "
        "in use. Including non-PyTorch memory, this process has 20.81 GiB memory in use. Of the allocated memory 12.09 "
        "GiB "
        "is allocated by PyTorch, with 64.00 MiB allocated in private pools (e.g., CUDA Graphs), and 4.84 GiB is "
        "reserved "
        "by PyTorch but unallocated.");
    EXPECT_EQ(n.tried, gib(3));
    EXPECT_EQ(n.total, gib(23.65));
    EXPECT_EQ(n.free, gib(1.66));
    EXPECT_EQ(n.process, gib(20.81));
    EXPECT_EQ(n.allocated, gib(12.09));
    EXPECT_EQ(n.unallocated, gib(4.84));
    EXPECT_EQ(n.others, gib(1.5));
    EXPECT_TRUE(is_fragmented(n));
    EXPECT_FALSE(others_hold_much(n));
  }
}

// A container's processes have other numbers outside it: the message then calls none of them its own.
TEST(OomMessage, KnowsItsOwnProcessByWhatItReserved) {
  const std::string head =
                        "CUDA out of memory. Tried to allocate 3.17 GiB. GPU 0 has a total capacity of 23.65 GiB of ",
                    tail =
                        " Of the allocated memory 17.72 GiB is allocated by PyTorch, and 2.94 GiB is reserved by "
                        "PyTorch but unallocated.";
  const OomNumbers alone =
      read_oom_message(head + "which 2.52 GiB is free. Process 17949 has 21.11 GiB memory in use." + tail);
  EXPECT_EQ(alone.process, gib(21.11));
  EXPECT_TRUE(alone.holders.empty());
  EXPECT_LT(alone.others.value_or(0), mib(32));
  const OomNumbers two = read_oom_message(head +
                                          "which 20.00 MiB is free. Process 7 has 2.50 GiB memory in use. "
                                          "Process 9 has 21.11 GiB memory in use." +
                                          tail);
  EXPECT_EQ(two.process, gib(21.11));
  ASSERT_EQ(two.holders.size(), 1U);
  EXPECT_EQ(two.holders[0].process, 7U);
  EXPECT_EQ(two.others, gib(2.5));
}

TEST(OomMessage, LeavesOutNumbersThatMakeNoSense) {
  const OomNumbers n = read_oom_message(
      "CUDA out of memory. Tried to allocate 12.00 MiB. GPU 0 has a total capacity of 2.00 GiB of which 0 bytes is "
      "free. "
      "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 1.68 "
      "GiB "
      "is allocated by PyTorch, and 30.00 MiB is reserved by PyTorch but unallocated.");
  EXPECT_FALSE(n.process.has_value());
  EXPECT_EQ(n.allocated, gib(1.68));
  EXPECT_FALSE(is_fragmented(n));
}

TEST(OomMessage, ReadsOtherAllocators) {
  const OomNumbers async = read_oom_message(
      "Allocation on device 0 would exceed allowed memory. (out of memory) Currently allocated     : 5.54 GiB "
      "Requested    "
      "           : 900.00 MiB Device limit            : 6.00 GiB Free (according to CUDA): 0 bytes");
  EXPECT_EQ(async.tried, mib(900));
  EXPECT_EQ(async.total, gib(6));
  EXPECT_EQ(async.allocated, gib(5.54));
  EXPECT_EQ(async.free, 0U);
  const OomNumbers mps = read_oom_message(
      "MPS backend out of memory (MPS allocated: 8.91 GB, other allocations: 98.34 MB, max allowed: 9.07 GB). Tried to "
      "allocate 118.13 MB on private pool.");
  EXPECT_EQ(mps.tried, mib(118.13));
  EXPECT_EQ(mps.allocated, gib(8.91));
  EXPECT_EQ(mps.total, gib(9.07));
  const OomNumbers killer = read_oom_message("Killed process 9 (python) total-vm:61874360kB, anon-rss:30120544kB, x");
  EXPECT_EQ(killer.resident, 30120544 * kKiB);
  const OomNumbers host =
      read_oom_message("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1,024 bytes");
  EXPECT_EQ(host.tried, 1024U);
}

TEST(OomMessage, ReadsXlasWordings) {
  const OomNumbers compiled = read_oom_message(
      "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.50G of 15.48G hbm. Exceeded "
      "hbm capacity by 2.02G. Total hbm usage >= 18.02G:");
  EXPECT_EQ(compiled.program, gib(17.5));
  EXPECT_EQ(compiled.total, gib(15.48));
  EXPECT_FALSE(wants_more_than_all(compiled));
  EXPECT_NE(explain(compiled).back().find("2.02 GiB are missing"), std::string::npos);
  const OomNumbers reserve = read_oom_message(
      "RESOURCE_EXHAUSTED: Attempting to reserve 3.95G at the bottom of memory. That was not possible. There are 1.92G "
      "free, 0B reserved, and 1.92G reservable.; HBM capacity 8.00G:");
  EXPECT_EQ(reserve.tried, gib(3.95));
  EXPECT_EQ(reserve.free, gib(1.92));
  EXPECT_EQ(reserve.total, gib(8));
  EXPECT_EQ(read_oom_message("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.").tried,
            gib(2));
  EXPECT_EQ(read_oom_message("RESOURCE_EXHAUSTED: Out of memory allocating 1024 bytes.").tried, 1024U);
  EXPECT_EQ(read_oom_message("Failed to allocate request for 8.00GiB (8589934592B) on device ordinal 0").tried, gib(8));
}

TEST(OomMessage, HoldsWithoutNumbers) {
  for (const char* text :
       {"", "CUDA out of memory", "tried to allocate", "tried to allocate ,,, GiB", "total capacity of",
        "process 1 has", "tried to allocate 99999999999999999999999999999999999999999999 GiB"}) {
    const OomNumbers n = read_oom_message(text);
    EXPECT_TRUE(n.empty()) << text;
    EXPECT_TRUE(explain(n).empty()) << text;
    EXPECT_FALSE(is_fragmented(n) || others_hold_much(n) || wants_more_than_all(n));
  }
}

TEST(OomMessage, NumbersDecideWhatIsSaid) {
  OomNumbers n;
  n.tried = gib(1);
  n.total = gib(24);
  n.free = gib(0.25);
  n.allocated = gib(2);
  n.reserved = gib(2.5);
  n.unallocated = gib(0.5);
  n.others = gib(21.25);
  EXPECT_TRUE(others_hold_much(n));
  EXPECT_NE(explain(n).back().find("21.2 GiB"), std::string::npos) << explain(n).back();
  n.tried = gib(30);
  EXPECT_TRUE(wants_more_than_all(n));
  n.tried = gib(0.5);
  EXPECT_TRUE(is_fragmented(n));
  n.unallocated = gib(0.49);
  EXPECT_FALSE(is_fragmented(n));
}

}  // namespace
}  // namespace plimsoll::doctor
