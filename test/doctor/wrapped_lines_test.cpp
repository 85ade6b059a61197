// Lines that a terminal broke say what they said whole.
#include "doctor/wrapped_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "doctor/pattern.h"
#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

// Breaks lines as a terminal of so many columns does: at the last blank that fits, or, `anywhere`, after the last
// column.
std::string broken(const std::string& log, std::size_t columns, bool anywhere) {
  std::string out;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    while (line.size() > columns) {
      std::size_t end = columns;
      while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80) --end;
      const std::size_t blank = line.rfind(' ', columns);
      const bool at_blank = !anywhere && blank != std::string::npos && line.find_first_not_of(' ') < blank;
      out += line.substr(0, at_blank ? blank : end) + "\n";
      line = line.substr(at_blank ? blank + 1 : end);
    }
    out += line + "\n";
  }
  return out;
}

// Of a hundred logs so many may be told less exactly: a number or a path may be cut where nothing shows that it goes
// on.
constexpr std::size_t kPercentAtBlanks = 2, kPercentAnywhere = 3;

TEST(Wrapped, ALogSaysTheSameInANarrowTerminal) {
  for (const std::size_t columns : {80U, 100U, 120U}) {
    for (const bool anywhere : {false, true}) {
      std::size_t all = 0, different = 0;
      std::string list;
      for (const auto& entry : std::filesystem::directory_iterator(logs())) {
        const std::string log = text_of(entry.path()), told = name_of(diagnose(broken(log, columns, anywhere)));
        ++all;
        if (told == name_of(diagnose(log))) continue;
        ++different;
        list += entry.path().filename().string() + ": " + told + "\n";
      }
      EXPECT_LE(100 * different, all * (anywhere ? kPercentAnywhere : kPercentAtBlanks))
          << columns << " columns, " << (anywhere ? "anywhere" : "at blanks") << ": " << different << " of " << all
          << "\n"
          << list;
    }
  }
}

TEST(Wrapped, LinesGoOnWhereTheNextWordHadNoRoom) {
  struct Case {
    const char *first, *second;
    bool goes_on;
  };
  const std::string wide(90, 'x');
  for (const Case& c : std::initializer_list<Case>{
           {"RuntimeError: Expected all tensors to be on the same device, but found at least", "two devices", false},
           {"RuntimeError: Expected all tensors to be on the same device, but found at least two", "devices, cuda:0",
            true},
           {"        size mismatch for", "base_model.model.layers.17.self_attn.q_proj.lora_A.default.weight: copying",
            true},
           {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB. It has a capacity of",
            "23.69 GiB of which", true},
           {"the first message of a logger that sets the time before every line", "2024-05-01 10:00:00 second", false},
           {"ValueError: a message that ends here, however wide the terminal was, and", "KeyError: 'labels'", false},
           {"  File \"/opt/conda/lib/python3.10/site-packages/transformers/trainer.py\", line 1624, in train",
            "    return inner_training_loop(args, resume_from_checkpoint)", false},
           {"short", "short", false}}) {
    WrappedLines lines;
    // What stands around them shows how wide the terminal is.
    lines.add(1, wide);
    lines.add(2, "");
    lines.add(3, c.first);
    EXPECT_EQ(lines.add(4, c.second), c.goes_on) << c.first << " / " << c.second;
    if (!c.goes_on) continue;
    EXPECT_EQ(lines.first(), 3U);
    EXPECT_EQ(lines.whole().front(), std::string(trimmed(c.first)) + " " + c.second);
  }
}

// An exception's message that was broken is quoted whole, and what stands on both sides of the break explains it.
TEST(Wrapped, AMessageIsQuotedWhole) {
  const std::string trace =
      "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    step()\n";
  const Diagnosis odd = diagnose(trace +
                                 "ValueError: the share of the evaluation set must lie between 0 and 1, and it is\n"
                                 "set to 15 there\n");
  EXPECT_THAT(odd.ending.text, testing::HasSubstr("and it is set to 15 there"));
  const Diagnosis devices = diagnose(trace +
                                     "RuntimeError: In this model's forward it was Expected all tensors to be on the\n"
                                     "same device, but found at least two of them, cuda:0 and cpu!\n");
  EXPECT_EQ(name_of(devices), "device-mismatch");
  EXPECT_TRUE(is_sure(devices));
  ASSERT_FALSE(devices.evidence.empty());
  EXPECT_EQ(devices.evidence[0].line, 4U);
  EXPECT_THAT(devices.evidence[0].text, testing::HasSubstr("be on the same device, but found"));
}

// Lines that are as wide as each other and belong to a logger are not put together.
TEST(Wrapped, WhatBeginsAnewIsNoPartOfTheLineBefore) {
  const std::string line = "step 17 of the run: the worker was asked to be killed by signal number nine, and";
  EXPECT_NE(
      name_of(diagnose(line + "\n" + "[worker] step 18 of the run: nothing happened, and so it goes on and on\n")),
      "worker-killed");
}

}  // namespace
}  // namespace plimsoll::doctor
