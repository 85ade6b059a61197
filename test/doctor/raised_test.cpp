// What an exception says by itself: its class, its message, its frames; and which of several ended a run.
#include "doctor/raised.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

using testing::HasSubstr;

std::string traceback(const std::string& last, const std::string& prefix = "") {
  return prefix + "Traceback (most recent call last):\n" + prefix + "  File \"train.py\", line 9, in <module>\n" +
         prefix + "    step()\n" + prefix + last + "\n";
}
const std::string kRefused = "ValueError: the number of words and tags of page 7 differ";
const std::string kOther = "ValueError: the share of the evaluation set must lie between 0 and 1";

TEST(Frame, IsReadInEveryForm) {
  struct Case {
    const char *text, *file, *function;
    std::uint64_t line;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"  File \"/opt/lib/python3.10/site-packages/transformers/trainer.py\", line 2052, in train", "trainer.py",
            "train", 2052},
           {"  File \"C:\\work\\train.py\", line 3, in <module>", "train.py", "<module>", 3},
           {"/usr/local/lib/python3.7/dist-packages/torch/nn/functional.py in embedding(input, weight)",
            "functional.py", "embedding", 0},
           {"File ~/env/lib/python3.8/site-packages/x/loop.py:310, in Loop._end(self, outputs)", "loop.py", "_end",
            310},
           {"<ipython-input-9-3435b262f1ae> in <module>", "a notebook's cell", "<module>", 0},
           {"File [c:\\env\\lib\\site-packages\\accelerate\\utils\\operations.py:158](file:///C:/x.py:158), in send(t)",
            "operations.py", "send", 158},
           {"2024-05-01T10:00:00.123Z   File \"/work/train.py\", line 8, in main", "train.py", "main", 8},
           {"Cell In[12], line 4", "a notebook's cell", "<module>", 4},
           {"│ /opt/lib/python3.10/site-packages/trl/sft.py:71 in train      │", "sft.py", "train", 71}}) {
    const std::optional<Frame> frame = read_frame(c.text);
    ASSERT_TRUE(frame.has_value()) << c.text;
    EXPECT_EQ(frame->file, c.file) << c.text;
    EXPECT_EQ(frame->function, c.function) << c.text;
    EXPECT_EQ(frame->line, c.line) << c.text;
  }
  for (const char* text :
       {"", "File \"", "loss 0.3 in step 4", "there is an error in train.py", "a.py", "File \"x\", lin"})
    EXPECT_FALSE(read_frame(text).has_value()) << text;
}

TEST(Frame, LayersAreTheInnermostThatTell) {
  const auto layer = [](std::initializer_list<const char*> lines) {
    std::vector<Frame> frames;
    for (const char* line : lines) frames.push_back(read_frame(line).value());
    return layer_of(frames);
  };
  EXPECT_EQ(layer({"File \"train.py\", line 1, in main", "File \"pages.py\", line 3, in __getitem__",
                   "File \"/x/lib/python3.10/json/decoder.py\", line 337, in decode"}),
            Layer::kDataSet);
  EXPECT_EQ(layer({"File \"train.py\", line 1, in compute_metrics", "File \"train.py\", line 3, in helper"}),
            Layer::kMetric);
  EXPECT_EQ(layer({"File \"train.py\", line 1, in main", "File \"train.py\", line 3, in helper"}), Layer::kOwnCode);
  EXPECT_EQ(layer({}), Layer::kUnknown);
}

// Python's own files are no user's, on Windows either.
TEST(Frame, KnowsPythonsOwnFiles) {
  for (const char* path : {"C:\\Users\\me\\AppData\\Local\\Programs\\Python\\Python310\\lib\\json\\decoder.py",
                           "C:\\Python311\\Lib\\threading.py", "/usr/lib/python3.11/json/decoder.py"}) {
    const std::optional<Frame> frame = read_frame(std::string("File \"") + path + "\", line 355, in raw_decode");
    ASSERT_TRUE(frame.has_value()) << path;
    EXPECT_TRUE(frame->library) << path;
  }
  EXPECT_FALSE(read_frame("File \"C:\\lib\\train.py\", line 3, in main")->library);
}

TEST(Raised, IsTakenApart) {
  const std::optional<Raised> raised = read_raised("[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory.", false);
  ASSERT_TRUE(raised.has_value());
  EXPECT_EQ(raised->type, "torch.cuda.OutOfMemoryError");
  EXPECT_EQ(raised->name(), "OutOfMemoryError");
  EXPECT_EQ(raised->message, "CUDA out of memory.");
  EXPECT_TRUE(raised->at_start);
  EXPECT_FALSE(read_raised("2024-05-02 ERROR root: OSError: no file", false)->at_start);
  EXPECT_FALSE(read_raised("mean absolute error: 0.1", false).has_value());
  EXPECT_EQ(read_raised("queue.Empty", true)->type, "queue.Empty");
}

// A message that says nothing by itself explains nothing.
TEST(Raised, SaysEnoughOrNothing) {
  for (const char* last :
       {"AssertionError", "RuntimeError: failed", "ValueError: odd", "RuntimeError: CUDA error: unknown",
        "SystemError: <built-in function f> returned NULL without setting an exception",
        "RuntimeError: something went wrong in step 4", "SystemExit: 1", "odd.NoSuchThing: the moon is full",
        "RuntimeError: cuDNN error in step 4 of 7"}) {
    const Diagnosis diagnosis = diagnose(traceback(last));
    EXPECT_FALSE(is_sure(diagnosis)) << last << ": " << name_of(diagnosis);
  }
  for (const char* log : {"Segmentation fault (core dumped)\n", "process exited with exit code 1\n"})
    EXPECT_EQ(diagnose(log).ending.text, "") << log;
}

// The message stands in the answer whole, however many lines it takes, with the place where it was raised.
TEST(Raised, IsQuotedWithItsPlace) {
  const Diagnosis one = diagnose(traceback(kRefused));
  EXPECT_EQ(one.ending.text, kRefused);
  EXPECT_EQ(one.ending.where, "in the script's own code: train.py, line 9");
  EXPECT_TRUE(is_sure(one));
  const Diagnosis two = diagnose(traceback("ConfigurationError: these keys are not known:\n  warmup\n  decay") +
                                 "\nepoch 1 was never begun\n");
  EXPECT_EQ(two.ending.text, "ConfigurationError: these keys are not known: warmup decay");
  const Diagnosis asserted = diagnose(
      "Traceback (most recent call last):\n  File \"t.py\", line 3, in read\n"
      "    assert len(words) == len(tags)\nAssertionError\n");
  EXPECT_EQ(asserted.ending.text, "AssertionError: assert len(words) == len(tags)");
}

// Of one process the last uncaught exception ended the run; of several the first.
TEST(Raised, TheOneThatEndedTheRunIsTold) {
  EXPECT_EQ(diagnose(traceback(kOther) + "trying again\n" + traceback(kRefused)).ending.text, kRefused);
  const std::string ranks = traceback(kRefused, "[rank1]: ") + traceback(kOther, "[rank0]: ") +
                            traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ");
  EXPECT_EQ(diagnose(ranks).ending.text, kRefused);
  EXPECT_TRUE(is_sure(diagnose(ranks)));
  // What other processes say of its end explains nothing and casts no doubt.
  const std::string lost = traceback("torch.distributed.DistNetworkError: failed to recv, got 0 bytes");
  EXPECT_EQ(diagnose(traceback(kRefused) + lost).ending.text, kRefused);
  EXPECT_TRUE(is_sure(diagnose(traceback("torch.cuda.OutOfMemoryError: CUDA out of memory.") + lost)));
}

TEST(Raised, AChainIsToldByItsRoot) {
  const std::string direct = "\nThe above exception was the direct cause of the following exception:\n\n",
                    during = "\nDuring handling of the above exception, another exception occurred:\n\n";
  const std::string generated =
      traceback("datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset");
  EXPECT_EQ(diagnose(traceback(kRefused) + direct + traceback(kOther)).ending.text, kRefused);
  // A look-up that failed, and what the code has to say about it.
  EXPECT_EQ(diagnose(traceback("KeyError: 'layout'") + during + traceback(kRefused)).ending.text, kRefused);
  const Diagnosis worker = diagnose(
      traceback("ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call "
                "last):\n  File \"pages.py\", line 3, in __getitem__\n    read()\n" +
                kRefused));
  EXPECT_EQ(worker.ending.text, kRefused);
  EXPECT_THAT(worker.ending.where, HasSubstr("pages.py, line 3"));
  EXPECT_TRUE(is_sure(worker));
}

// Warnings, and messages that the program printed before it went on, are not why it ended.
TEST(Raised, OutranksWhatWasOnlyPrinted) {
  const std::string driver =
                        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version "
                        "11040).\n",
                    offline =
                        "Using the latest cached version of the dataset since pages couldn't be found on the "
                        "Hugging Face Hub (offline mode is enabled).\n",
                    detached = traceback(
                        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn");
  EXPECT_EQ(name_of(diagnose(driver + detached)), "no-gradient");
  EXPECT_TRUE(is_sure(diagnose(driver + detached)));
  EXPECT_EQ(diagnose(driver + traceback(kRefused)).ending.text, kRefused);
  EXPECT_EQ(name_of(diagnose(driver + traceback("KeyboardInterrupt"))), "interrupted");
  EXPECT_EQ(diagnose(offline + traceback(kRefused)).ending.text, kRefused);
  const std::string bus = "torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -7) local_rank: 1\n";
  EXPECT_EQ(name_of(diagnose(offline + "Sending process 7 closing signal SIGTERM\n" + bus)), "sigbus");
  EXPECT_TRUE(is_sure(diagnose(offline + "Sending process 7 closing signal SIGTERM\n" + bus)));
}

}  // namespace
}  // namespace plimsoll::doctor
