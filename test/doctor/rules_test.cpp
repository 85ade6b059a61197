// Every rule has a log in test/doctor/logs, named after it, and that log is what the rule says: no more general rule,
// none of its neighbours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "doctor/raised.h"
#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

namespace fs = std::filesystem;

TEST(Rules, AreWholeAndNamedOnce) {
  std::set<std::string_view> names;
  for (const Rule& rule : all_rules()) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
  for (const Kind& kind : all_kinds()) {
    const Rule& rule = kind.rule;
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.what.empty() || rule.cause.empty() || rule.confirm.empty() || rule.fix.empty()) << rule.name;
    for (const std::string_view pattern : rule.when) EXPECT_EQ(to_small_letters(pattern), pattern) << rule.name;
  }
  // The last kind fits every exception that says enough.
  EXPECT_TRUE(all_kinds().back().classes.empty() && all_kinds().back().layers.empty() &&
              all_kinds().back().rule.when.empty());
  EXPECT_GE(names.size(), 40U);
  for (const Rule& rule : all_rules()) {
    EXPECT_FALSE(rule.when.empty() || rule.what.empty() || rule.cause.empty() || rule.confirm.empty() ||
                 (rule.fix.empty() && !rule.saves_memory))
        << rule.name;
    for (const std::string_view refined : rule.refines) {
      EXPECT_TRUE(names.count(refined)) << rule.name << " refines '" << refined << "', which is no rule";
      EXPECT_NE(refined, rule.name);
      // Two rules that refine each other both give way, and nothing is left.
      const auto other =
          std::find_if(all_rules().begin(), all_rules().end(), [&](const Rule& r) { return r.name == refined; });
      if (other != all_rules().end()) {
        EXPECT_EQ(std::count(other->refines.begin(), other->refines.end(), rule.name), 0)
            << rule.name << " and '" << refined << "' refine each other";
      }
    }
    for (const std::string_view next : rule.leads_to) {
      EXPECT_TRUE(names.count(next)) << rule.name << " leads to '" << next << "', which is no rule";
      EXPECT_NE(next, rule.name);
    }
  }
}

// "rule.log", or "rule.2.log" and so on for other wordings of the same.
TEST(Rules, EachRecognisesItsOwnLogs) {
  std::set<std::string> tested;
  for (const auto& entry : fs::directory_iterator(logs())) {
    const std::string file = entry.path().filename().string(), expected = file.substr(0, file.find('.'));
    const Diagnosis diagnosis = diagnose(text_of(entry.path()));
    tested.insert(expected);
    if (diagnosis.no_failure) {  // the rule is of what runs that work print, too
      ASSERT_FALSE(diagnosis.others.empty()) << file;
      EXPECT_EQ(diagnosis.others[0].rule->name, expected) << file;
      EXPECT_TRUE(diagnosis.others[0].rule->usual) << file;
      continue;
    }
    EXPECT_EQ(name_of(diagnosis), expected) << file;
    // Sure of itself, save where all that there is may be harmless.
    if (diagnosis.rule == nullptr) continue;
    EXPECT_EQ(is_sure(diagnosis), diagnosis.rule->level > Level::kEcho) << file << ": " << diagnosis.doubt;
    ASSERT_FALSE(diagnosis.evidence.empty()) << file;
    for (const Evidence& evidence : diagnosis.evidence) {
      EXPECT_GE(evidence.line, 1U);
      EXPECT_LE(evidence.line, diagnosis.lines);
    }
  }
  for (const Rule& rule : all_rules()) EXPECT_TRUE(tested.count(std::string(rule.name))) << rule.name << " has no log";
  for (const Kind& kind : all_kinds())
    EXPECT_TRUE(tested.count(std::string(kind.rule.name))) << kind.rule.name << " has no log";
}

// A log read byte by byte, with carriage returns or colours in it, says the same.
TEST(Rules, DoNotDependOnHowALogArrives) {
  for (const auto& entry : fs::directory_iterator(logs())) {
    const std::string log = text_of(entry.path());
    const std::string expected = name_of(diagnose(log));
    LogReader reader;
    for (const char c : log) reader.feed({&c, 1});
    EXPECT_EQ(name_of(reader.finish()), expected) << entry.path();
    std::string windows, coloured;
    for (const char c : log) {
      if (c == '\n') windows += '\r';
      windows += c;
      if (c == ':') coloured += "\x1b[0;31m";
      coloured += c;
      if (c == ':') coloured += "\x1b[0m";
    }
    EXPECT_EQ(name_of(diagnose(windows)), expected) << entry.path();
    EXPECT_EQ(name_of(diagnose(coloured)), expected) << entry.path();
  }
}

TEST(Rules, SayNotRecognisedRatherThanGuess) {
  for (const char* log :
       {"", "\n", "step 20/20  epoch 1.43  loss 2.1409\n",
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nValueError: no such "
        "thing\n",
        "the memory of the killed joke was too large to allocate\n", "{'loss': 0.5137, 'learning_rate': 1e-05}\n"}) {
    const Diagnosis diagnosis = diagnose(log);
    EXPECT_EQ(name_of(diagnosis), "not recognised") << log;
  }
  const Diagnosis diagnosis =
      diagnose("Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: odd\n");
  ASSERT_EQ(diagnosis.errors.size(), 1U);
  EXPECT_EQ(diagnosis.errors[0].line, 3U);
}

TEST(Rules, TheFirstInTimeIsTheRoot) {
  const std::string assertion =
      "/pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: "
      "[3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n";
  const std::string memory =
      "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    loss.backward()\n"
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity; "
      "6.9 "
      "GiB already allocated; 0 bytes free; 7.0 GiB reserved in total by PyTorch)\n";
  const std::string timeout =
      "[rank0]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
      "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n";
  const Diagnosis first = diagnose(memory + assertion);
  EXPECT_EQ(name_of(first), "oom-backward");
  ASSERT_EQ(first.others.size(), 1U);
  EXPECT_EQ(first.others[0].rule->name, "label-index");
  EXPECT_EQ(name_of(diagnose(assertion + memory)), "label-index");
  // What follows from something else does not win, even if its line is printed first.
  EXPECT_EQ(name_of(diagnose(timeout + memory)), "oom-backward");
  EXPECT_EQ(name_of(diagnose(timeout)), "nccl-timeout");
}

// "Out of memory, trying half the batch" and a loss after it did not end the run; what came later did.
TEST(Rules, WhatARunOutlivedIsNotTheRoot) {
  const std::string retried =
      "CUDA out of memory. Tried to allocate 1.16 GiB (GPU 0; 15.90 GiB total capacity; 13.87 "
      "GiB already allocated; 843.75 MiB free; 14.16 GiB reserved in total by PyTorch), again\n";
  const std::string losses = "{'loss': 1.2, 'epoch': 1.0}\n{'loss': 0.9, 'epoch': 2.0}\n";
  const std::string disk = "OSError: [Errno 28] No space left on device: 'out/optimizer.pt'\n";
  const Diagnosis outlived = diagnose(retried + losses + disk);
  EXPECT_EQ(name_of(outlived), "disk-full");
  ASSERT_EQ(outlived.others.size(), 1U);
  EXPECT_EQ(outlived.others[0].rule->name, "oom");
  EXPECT_EQ(name_of(diagnose(retried + disk)), "oom");
  EXPECT_EQ(name_of(diagnose(retried + losses)), "oom");
  // A waiting rank's one loss more, however often it is printed.
  EXPECT_EQ(name_of(diagnose(retried + "loss=0.9\nloss=0.9\nloss=0.9\n" + disk)), "oom");
  EXPECT_EQ(name_of(diagnose(retried + "loss: nan\nLoss.cu:245\nloss_fct(1\n" + disk)), "oom");
  // The later message's numbers.
  const std::string last =
      "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total "
      "capacity; 15.00 GiB already allocated; 100.00 MiB free; 15.20 GiB reserved in total by "
      "PyTorch)\n";
  EXPECT_EQ(diagnose(retried + losses + last).numbers.tried, std::uint64_t{2} << 30);
  EXPECT_EQ(diagnose(last + losses + "out of memory, again\n").numbers.tried, std::uint64_t{2} << 30);
  EXPECT_EQ(diagnose(last + retried).numbers.tried, std::uint64_t{2} << 30);
}

// A word in a list of settings is no failure where a later exception is one that no rule knows.
TEST(Rules, DoubtWhatIsNoErrorsLine) {
  const std::string settings = "config: {'retry_on': ['CUDA out of memory']}\n", odd = "some.OddError: no such thing\n",
                    known = "torch.cuda.OutOfMemoryError: CUDA out of memory\n";
  const Diagnosis doubtful = diagnose(settings + odd);
  EXPECT_EQ(name_of(doubtful), "oom");
  ASSERT_TRUE(doubtful.unexplained.has_value());
  EXPECT_EQ(doubtful.unexplained->line, 2U);
  EXPECT_EQ(doubtful.unexplained->text, "some.OddError: no such thing");
  EXPECT_FALSE(diagnose(odd + settings).unexplained);
  EXPECT_FALSE(diagnose(known + odd).unexplained);
  EXPECT_FALSE(diagnose(settings + "mean absolute error: 0.1\n").unexplained);
  // Outlived, by what no rule knows.
  EXPECT_TRUE(diagnose(known + "loss: 0.9\nloss: 0.8\n" + odd).unexplained);
  EXPECT_EQ(name_of(diagnose(odd)), "not recognised");
  for (const auto& entry : fs::directory_iterator(logs()))
    EXPECT_FALSE(diagnose(text_of(entry.path())).unexplained) << entry.path();
}

// Of NaN, what came before it: quoted, and no more than eight lines of it.
TEST(Rules, NaNIsToldByItsRunUp) {
  const auto line = [](const std::string& loss, const std::string& norm) {
    return "{'loss': " + loss + ", 'grad_norm': " + norm + ", 'learning_rate': 0.0005, 'epoch': 0.25}\n";
  };
  const std::string nan = line("0.0", "nan"), fp16 = "fp16=True,\n";
  const std::string rise = line("2.4", "11.4") + line("2.7", "28.9") + line("3.1", "97.4") + line("4.9", "812.7");
  const Diagnosis diverged = diagnose(fp16 + rise + line("11.3", "inf") + nan + nan);
  EXPECT_EQ(name_of(diverged), "nan-diverged");
  ASSERT_EQ(diverged.evidence.size(), 6U);
  EXPECT_EQ(diverged.evidence[0].line, 2U);
  EXPECT_EQ(diverged.evidence[4].line, 6U);  // the first that is not finite
  EXPECT_THAT(diverged.evidence[4].text, testing::HasSubstr("inf"));
  // An infinite norm alone, or one that the run recovers from, is no failure.
  EXPECT_EQ(name_of(diagnose(rise + line("11.3", "inf"))), "not recognised");
  EXPECT_EQ(name_of(diagnose(rise + line("11.3", "inf") + line("4.0", "30.1"))), "no failure");
  EXPECT_EQ(name_of(diagnose("step 20/20  epoch 1.43  loss 2.1409\ntrained 20 updates in 6 s\n")), "no failure");
  std::string steady;
  for (int i = 0; i < 12; ++i) steady += line("0." + std::to_string(60 - i), i % 2 == 0 ? "2.1" : "4.3");
  const Diagnosis overflowed = diagnose(fp16 + line("0.9", "inf") + steady + nan + nan);
  EXPECT_EQ(name_of(overflowed), "nan-overflow");
  ASSERT_EQ(overflowed.evidence.size(), 10U);  // and the line that says fp16
  EXPECT_EQ(overflowed.evidence[1].line, 7U);
  EXPECT_EQ(name_of(diagnose(steady + nan)), "nan-loss");
  EXPECT_EQ(name_of(diagnose("fp16=False,\n" + steady + nan)), "nan-loss");
  // One line is no run-up; a jump in the last line is neither; an evaluation's losses are others.
  EXPECT_EQ(name_of(diagnose(fp16 + line("0.9", "2.0") + nan)), "nan-loss");
  EXPECT_EQ(name_of(diagnose(fp16 + steady + line("9.1", "80.5") + nan)), "nan-loss");
  EXPECT_EQ(name_of(diagnose(fp16 + steady + "{'eval_loss': 1.9}\n{'eval_loss': 4.5}\n{'eval_loss': 9.9}\n" + nan)),
            "nan-overflow");
  // What came before an earlier NaN that healed is long ago.
  EXPECT_EQ(name_of(diagnose(fp16 + rise + nan + steady + nan)), "nan-overflow");
  EXPECT_EQ(name_of(diagnose(nan + nan)), "nan-at-start");
  EXPECT_EQ(name_of(diagnose("Epoch 8/20: 41% loss=nan\n")), "nan-loss");
}

TEST(Rules, AWarningOfALongPagePicksTheTable) {
  const std::string warning = text_of(logs() / "sequence-warning.log");
  const Diagnosis page = diagnose(warning + "\n" + text_of(logs() / "embedding-index.log"));
  EXPECT_EQ(name_of(page), "embedding-long-page");
  EXPECT_EQ(page.evidence.at(0).line, 1U);
  EXPECT_TRUE(is_sure(page));
  // A table that is named says more.
  for (const char* name : {"bbox-range", "bbox-index", "word-index", "token-type-index", "label-index"})
    EXPECT_EQ(name_of(diagnose(warning + "\n" + text_of(logs() / (std::string(name) + ".log")))), name);
}

TEST(Rules, PassOverWhatOtherProgramsSay) {
  for (const char* line :
       {"2021-06-02 10:11:12.013: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load "
        "dynamic "
        "library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or "
        "directory\n",
        "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:274] failed call to cuInit: "
        "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n",
        "peft 0.9.0 requires accelerate>=0.21.0, but you have accelerate 0.20.3 which is incompatible.\n",
        "Training/evaluation parameters TrainingArguments(\nddp_find_unused_parameters=True,\nfp16=True,\n"
        "auto_find_batch_size=True,\nresume_from_checkpoint=None,\n)\nModelArguments(ignore_mismatched_sizes=False)\n"})
    EXPECT_EQ(name_of(diagnose(line)), "not recognised") << line;
}

TEST(Rules, WarningsGiveWayToErrors) {
  const std::string warning =
                        "data.py:3: UserWarning: Using a target size (torch.Size([8])) that is different to the "
                        "input size (torch.Size([8, 1])).\n",
                    driver = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old\n",
                    error = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n";
  EXPECT_EQ(name_of(diagnose(warning)), "loss-shapes");
  EXPECT_EQ(name_of(diagnose(warning + error)), "oom");
  EXPECT_EQ(name_of(diagnose(driver + error)), "driver-too-old");
  // What follows from it in a traceback does not take its place; what has nothing to do with it does.
  const std::string trace =
      "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\n";
  EXPECT_EQ(name_of(diagnose(driver + trace +
                             "ValueError: FP16 Mixed precision training with AMP or APEX "
                             "(`--fp16`) and FP16 half precision evaluation can only be used on CUDA "
                             "devices.\n")),
            "driver-too-old");
}

TEST(Rules, TheRootIsSeenOnce) {
  // PyTorch's advice about "device-side assertions" is no assertion; source lines that a notebook shows around the one
  // that failed did not fail.
  for (const char* file : {"illegal-access.2.log", "oom-no-numbers.log", "bbox-index.3.log", "oom-backward.3.log",
                           "oom-evaluation.2.log", "dtype-mismatch.3.log"}) {
    const Diagnosis diagnosis = diagnose(text_of(logs() / file));
    EXPECT_TRUE(diagnosis.others.empty()) << file << ": " << diagnosis.others[0].rule->name;
  }
}

// A cell that failed, and the cell that was run after it: the table of losses below the traceback is read.
TEST(Rules, ReadATableBelowANotebooksTraceback) {
  const std::string failed =
      "ValueError                                Traceback (most recent call last)\n<ipython-input-8> in <module>\n"
      "      1 trainer = 3\n----> 2 trainer.train()\n      3 print(x)\n\nValueError: not yet\n";
  const std::string table = "Step\tTraining Loss\n500\t0.8123\n1000\t0.0000\n1500\tnan\n2000\tnan\n";
  EXPECT_EQ(name_of(diagnose(table)), "nan-loss");
  const Diagnosis both = diagnose(failed + table);
  EXPECT_EQ(name_of(both), "nan-loss");
}

TEST(Rules, QuoteWhatWasPrinted) {
  const Diagnosis box = diagnose(text_of(logs() / "bbox-range.log"));
  ASSERT_EQ(box.evidence.size(), 1U);
  EXPECT_EQ(box.evidence[0].text, "IndexError: The `bbox` coordinate values should be within 0-1000 range.");
  const Diagnosis killer = diagnose(text_of(logs() / "host-oom-killer.log"));
  ASSERT_GE(killer.evidence.size(), 2U);
  EXPECT_THAT(killer.evidence[0].text, testing::HasSubstr("invoked oom-killer"));
  EXPECT_THAT(killer.evidence[2].text, testing::HasSubstr("anon-rss:30120544kB"));
}

// What a long line is quoted for stands in the quotation, wherever it is in the line.
TEST(Rules, QuoteALongLineAroundTheMatch) {
  const std::string words = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB";
  for (const std::size_t before : {0, 300, 2000}) {
    for (const std::size_t after : {0, 300, 2000}) {
      const std::string log = std::string(before, 'a') + " " + words + " " + std::string(after, 'b') + "\n";
      const Diagnosis diagnosis = diagnose(log);
      ASSERT_EQ(name_of(diagnosis), "oom");
      ASSERT_EQ(diagnosis.evidence.size(), 1U);
      EXPECT_THAT(diagnosis.evidence[0].text, testing::HasSubstr("CUDA out of memory")) << before << ' ' << after;
      EXPECT_LE(diagnosis.evidence[0].text.size(), kMaxQuoteBytes + 8);
    }
  }
  EXPECT_EQ(printable_around("short", {0, 5}), "short");
  const std::string wide = std::string(500, 'x') + "\u2026\u2026\u2026 needle " + std::string(90, 'y');
  EXPECT_THAT(printable_around(wide, {510, 516}),
              testing::AllOf(testing::HasSubstr("needle"), testing::Not(testing::HasSubstr("?"))));
}

TEST(Rules, HostileBytesDoNoHarm) {
  std::string noise;
  std::uint32_t state = 1;
  for (int i = 0; i < 300'000; ++i) {
    state = state * 1664525 + 1013904223;
    noise += static_cast<char>(state >> 24);
  }
  const std::string log =
      noise + "\nRuntimeError: index out of range in self\x1b]0;title\x07\x01\xff\xc2\x9b\n" + noise;
  const Diagnosis diagnosis = diagnose(log);
  EXPECT_EQ(name_of(diagnosis), "embedding-index");
  for (const Evidence& evidence : diagnosis.evidence) {
    EXPECT_LE(evidence.text.size(), kMaxQuoteBytes + 8);
    for (const char c : evidence.text) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7F);
  }
  // One line of many megabytes, and one whose end is what counts.
  EXPECT_EQ(
      name_of(diagnose(std::string(20 << 20, 'x') + " CUDA driver version is insufficient for CUDA runtime version")),
      "driver-too-old");
}

TEST(Printable, KeepsTextAndDropsWhatATerminalObeys) {
  EXPECT_EQ(printable("  naïve – 日本 😀"), "naïve – 日本 😀");
  EXPECT_EQ(printable("a\x1b[31mb\x07"), "a?[31mb?");
  EXPECT_EQ(printable("\xC0\xAF\xED\xA0\x80\xC2\x9B\xF5"), "????????");
  EXPECT_EQ(printable("abcdef", 3), "abc…");
}

}  // namespace
}  // namespace plimsoll::doctor
