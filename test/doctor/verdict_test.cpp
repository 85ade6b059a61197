// What the doctor is sure of, and what it only supposes: the end of a log decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

using testing::HasSubstr;

const std::string kLosses =
    "{'loss': 0.8117, 'grad_norm': 4.01, 'learning_rate': 8.1e-06, 'epoch': 1.2}\n"
    "{'loss': 0.4920, 'grad_norm': 3.11, 'learning_rate': 5.3e-06, 'epoch': 2.4}\n"
    "{'loss': 0.3108, 'grad_norm': 2.66, 'learning_rate': 1.2e-06, 'epoch': 4.8}\n";
const std::string kRuntime = "{'train_runtime': 2913.4, 'train_loss': 0.7012, 'epoch': 5.0}\n";
const std::string kExit = "slurm: job 17 done, exit status 0\n";
const std::string kOdd =
    "Traceback (most recent call last):\n  File \"tool.py\", line 3, in <module>\n    run()\n"
    "odd.NoSuchThing: the moon is full\n";
const std::string kWarnedOom =
    "2024-05-02 11:07:55 | WARNING | ran out of memory with exception: CUDA out of memory. "
    "Tried to allocate 1.46 GiB, skipping batch\n";
const std::string kOom =
    "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    step()\n"
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n";
const std::string kNote = "WARNING:absl:No GPU/TPU found, falling back to CPU.\n";
const std::string kSchedule =
    "lr_scheduler.py:138: UserWarning: Detected call of `lr_scheduler.step()` before "
    "`optimizer.step()`. In PyTorch 1.1.0 and later, call them in the opposite order.\n";

std::vector<std::filesystem::path> all_logs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& folder : {logs(), unseen_logs()})
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".log") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string with_newline(std::string text) { return text.ends_with('\n') ? text : text + "\n"; }

TEST(Verdict, ARunThatWentOnDidNotFail) {
  const Diagnosis survived = diagnose(kWarnedOom + kLosses);
  EXPECT_EQ(name_of(survived), "no failure");
  ASSERT_EQ(survived.others.size(), 1U);
  EXPECT_EQ(survived.others[0].rule->name, "oom");
  EXPECT_EQ(name_of(diagnose(kWarnedOom + kRuntime)), "no failure");
  EXPECT_EQ(name_of(diagnose(kLosses + kRuntime)), "no failure");
  // Losses and no error: nothing says that it failed. One loss is too little to say so.
  EXPECT_EQ(name_of(diagnose(kLosses)), "no failure");
  EXPECT_EQ(name_of(diagnose("{'loss': 0.8117, 'epoch': 1.2}\n")), "not recognised");
  EXPECT_EQ(name_of(diagnose(kSchedule + kLosses)), "no failure");
  EXPECT_EQ(name_of(diagnose(kLosses + kSchedule)), "no failure");
  // A log that is cut inside a traceback ends in a failure.
  const Diagnosis cut = diagnose(kLosses + "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n");
  EXPECT_EQ(name_of(cut), "not recognised");
  ASSERT_FALSE(cut.errors.empty());
  EXPECT_EQ(cut.errors.back().text, "File \"t.py\", line 3, in f");
  // Below a traceback losses may be older than it, for a program's output is buffered.
  const Diagnosis late = diagnose(kOom + kLosses + kRuntime);
  EXPECT_EQ(name_of(late), "oom");
  EXPECT_THAT(std::string(late.doubt), HasSubstr("losses follow it"));
  EXPECT_EQ(name_of(diagnose(kOom + kLosses + kRuntime + kExit)), "no failure");
  // An error at the end is an error.
  EXPECT_EQ(name_of(diagnose(kWarnedOom + kLosses + kOdd)), "not recognised");
  EXPECT_EQ(name_of(diagnose(kWarnedOom + kLosses + kOom)), "oom");
  EXPECT_TRUE(is_sure(diagnose(kWarnedOom + kLosses + kOom)));
  EXPECT_EQ(name_of(diagnose(kSchedule + kOdd + kLosses)), "not recognised");
  EXPECT_EQ(name_of(diagnose(kSchedule + kLosses + "Segmentation fault (core dumped)\n")), "segfault");
}

// A notebook's table behind its progress bar, and results without a single loss; what a web server or an uploader calls
// an error is not the training's.
// What runs that work print, too, is no failure by itself, and explains none.
TEST(Verdict, TheUsualIsNoFailure) {
  const std::string usual = text_of(logs() / "head-is-new.log"), skips = text_of(logs() / "loss-scale-skips.log");
  EXPECT_EQ(name_of(diagnose(usual + skips)), "no failure");
  EXPECT_EQ(name_of(diagnose(usual + kNote)), "jax-without-gpu");
  EXPECT_EQ(name_of(diagnose(usual + kOdd)), "not recognised");
  EXPECT_EQ(name_of(diagnose(usual + "Error: no such thing\n")), "not recognised");
  EXPECT_EQ(name_of(diagnose(skips + kOom)), "oom");
}

// An exception of a thread that only reads a subprocess's output ends nothing.
TEST(Verdict, AThreadThatReadsOutputFailsNothing) {
  const std::string thread =
      "Exception in thread Thread-2 (_readerthread):\nTraceback (most recent call last):\n"
      "  File \"/usr/lib/python3.11/subprocess.py\", line 1599, in _readerthread\n    buffer.append(fh.read())\n"
      "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xad in position 7: invalid start byte\n";
  const std::string bars = "  3%|1 | 1/30 [00:21<10:19, 21.38s/it]\n  7%|2 | 2/30 [00:26<05:23, 11.57s/it]\n";
  EXPECT_EQ(name_of(diagnose(thread + bars)), "no failure");
  EXPECT_EQ(name_of(diagnose(bars + thread)), "no failure");
  EXPECT_EQ(name_of(diagnose(thread + kOom)), "oom");
}

// A tracker repeats what was measured; in a log without any error that is how a run went well.
TEST(Verdict, ATrackersResultsAreEnoughWhereNothingFailed) {
  const std::string results = "wandb: Run summary:\nwandb:      val_acc 0.86789\nwandb:     val_loss 44.93\n";
  EXPECT_EQ(name_of(diagnose(results)), "no failure");
  EXPECT_EQ(name_of(diagnose(results + kOdd)), "not recognised");
  EXPECT_EQ(name_of(diagnose(results + kOom)), "oom");
}

// A part of a loss may be 0, and not every program prints losses.
TEST(Verdict, TrainingThatPrintsNoLossWentWell) {
  const std::string part = "step:1 - actor/pg_loss:-0.023 - actor/kl_loss:0.0 - lr:1e-06\n";
  const std::string bars =
      " 10%|#         | 24/240 [10:09<90:00, 137.5s/it]\n100%|##########| 240/240 [99:09<00:00, 137.5s/it]\n";
  EXPECT_EQ(name_of(diagnose(part + bars)), "no failure");
  EXPECT_EQ(name_of(diagnose(bars + kOdd)), "not recognised");
  EXPECT_EQ(name_of(diagnose("{'loss': 0.0, 'epoch': 1.2}\n" + bars)), "not recognised");
}

TEST(Verdict, ResultsShowThatTrainingWentWell) {
  const std::string bar = "[ 80/120 03:24 Step\tTraining Loss\tValidation Loss\n",
                    rows = "20\t13.317\t6.280\n40\t8.634\t3.703\n60\t4.270\t1.996\n80\t2.897\t1.483\n",
                    shards = "Writing model shards: 100%|##########| 1/1 [00:00<00:00,  2.85it/s]\n";
  EXPECT_EQ(name_of(diagnose(bar + rows + shards)), "no failure");
  EXPECT_EQ(name_of(diagnose(bar + rows + shards + kOom)), "oom");
  EXPECT_EQ(name_of(diagnose("[ 2/120 03:24 Epoch\tTraining Loss\tValidation Loss\n1\tNo log\t31.66\n" + kOdd)),
            "not recognised");
  const std::string results = "Test results: {'eval_loss': 0.3119, 'eval_accuracy': 0.8668, 'eval_runtime': 71.2}\n",
                    server = "ERROR:    Error loading ASGI app. Could not import module \"serve\".\n";
  EXPECT_EQ(name_of(diagnose(results + server)), "no failure");
  EXPECT_EQ(name_of(diagnose(server + results)), "no failure");
  EXPECT_EQ(name_of(diagnose("TrainOutput(global_step=850, training_loss=1.93, metrics={'epoch': 3.0})\n")),
            "no failure");
  EXPECT_EQ(name_of(diagnose("epoch 3: test accuracy: 0.9120, f1: 0.88\n")), "no failure");
  // Without results the error is all there is; and a traceback, or a fatal end, is no logger's word.
  EXPECT_EQ(name_of(diagnose(server)), "not recognised");
  EXPECT_EQ(name_of(diagnose(results + kOdd)), "not recognised");
  EXPECT_EQ(name_of(diagnose(results + "fatal: the tool stopped\n")), "not recognised");
  EXPECT_EQ(name_of(diagnose(results + "Segmentation fault (core dumped)\n")), "segfault");
}

// Advice about an error that may come is no error.
TEST(Verdict, WhatIsOnlySupposedIsNoFailure) {
  const std::string advice = "If you get `CUDA error: invalid device function` errors, the above may be the cause.\n",
                    tip = "Longer sequences may result in CUDA out of memory.\n";
  EXPECT_EQ(name_of(diagnose(advice)), "not recognised");
  EXPECT_EQ(name_of(diagnose(advice + tip + kLosses)), "no failure");
  EXPECT_EQ(name_of(diagnose(advice + kOdd)), "not recognised");
  EXPECT_EQ(name_of(diagnose("RuntimeError: CUDA error: invalid device function\n")), "no-kernel-image");
  EXPECT_EQ(name_of(diagnose("This may cause trouble. RuntimeError: CUDA error: invalid device function\n")),
            "no-kernel-image");
}

// An exception without a message ends what a known cause began, and a tracker that is closed follows from it; one that
// says what it is of a different kind leaves a doubt.
TEST(Verdict, WhatFollowsFromAKnownCauseLeavesNoDoubt) {
  const std::string frame = "Traceback (most recent call last):\n  File \"/opt/lib/python3.11/site-packages/",
                    bare = frame + "tool/run.py\", line 3, in run\n    raise RuntimeError\nRuntimeError\n",
                    tracker = frame +
                              "wandb/sdk/interface/router.py\", line 71, in loop\n    raise Closed\n"
                              "wandb.sdk.interface.router.MessageRouterClosedError\n";
  EXPECT_TRUE(is_sure(diagnose(kOom + bare)));
  EXPECT_TRUE(is_sure(diagnose(kOom + tracker)));
  EXPECT_EQ(name_of(diagnose(kOom + tracker)), "oom");
  EXPECT_FALSE(is_sure(diagnose(kOom + kOdd)));
  EXPECT_NE(name_of(diagnose(tracker + kLosses)), "oom");
}

// Bars go where errors go, unbuffered: a good end after a bar that went on shows that the error ended nothing.
TEST(Verdict, AProgressBarBelowAnErrorShowsThatTheRunWentOn) {
  const std::string caught =
                        "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    import seqeval\n"
                        "ModuleNotFoundError: No module named 'seqeval'\n",
                    bar = " 66%|######    | 20/30 [00:41<00:20,  2.05s/it]\n";
  EXPECT_EQ(name_of(diagnose(caught + bar + kLosses + kRuntime)), "no failure");
  EXPECT_NE(name_of(diagnose(bar + caught + kLosses + kRuntime)), "no failure");
  EXPECT_NE(name_of(diagnose(caught + bar)), "no failure");
  // A shell's complaint before the training, which went on without it.
  EXPECT_EQ(name_of(diagnose("CondaError: Run 'conda init' before 'conda deactivate'\n" + kLosses)), "no failure");
  // The table of an evaluation, and no error.
  EXPECT_EQ(name_of(diagnose("   micro avg       0.81      0.84      0.83      2007\n")), "no failure");
}

TEST(Verdict, NaNIsNotOutlivedByMoreOfIt) {
  const std::string nan = "{'loss': 0.0, 'grad_norm': nan, 'epoch': 1.0}\n";
  EXPECT_EQ(name_of(diagnose(nan + nan + nan + kRuntime)), "nan-at-start");
  EXPECT_EQ(name_of(diagnose(nan + kLosses + kRuntime)), "no failure");
  EXPECT_TRUE(is_sure(diagnose(kLosses + nan + nan)));
  // It is what broke first where a launcher only reports an exit.
  EXPECT_EQ(name_of(diagnose(kLosses + nan + "rank 1 exits with return code = 1\n")), "nan-loss");
}

// A gradient norm that is NaN once, as fp16's search for a scale makes it.
TEST(Verdict, NaNThatHealsIsNoFailure) {
  const std::string once = "{'loss': 0.7012, 'grad_norm': nan, 'learning_rate': 9e-06, 'epoch': 1.0}\n";
  for (const std::string& log : {kLosses + once + kLosses, once + kLosses, kLosses + once + kLosses + kRuntime}) {
    const Diagnosis diagnosis = diagnose(log);
    EXPECT_EQ(name_of(diagnosis), "no failure") << log;
  }
  EXPECT_NE(name_of(diagnose(kLosses + once + once)), "no failure");
}

// A loss that is NaN again and again is a failure, however many numbers stand between; Megatron's count of them is
// none.
TEST(Verdict, NaNThatComesBackIsAFailure) {
  std::string log;
  for (int i = 0; i < 4; ++i)
    log += "{'loss': 5." + std::to_string(i) + ", 'epoch': 0.09}\n{'loss': nan, 'epoch': 0.09}\n";
  log += kLosses;
  EXPECT_EQ(name_of(diagnose(log)), "nan-loss");
  std::string megatron;
  for (int i = 0; i < 4; ++i)
    megatron += " iteration " + std::to_string(i) + "/ 250000 | lm loss: 2." + std::to_string(i) +
                "E+00 | grad norm: 1.2 | number of skipped iterations:   0 | number of nan iterations:   0 |\n";
  EXPECT_EQ(name_of(diagnose(megatron)), "no failure");
}

// A run that trains nothing has failed, though it goes on and comes to its end.
TEST(Verdict, ARunThatTrainsNothingHasFailed) {
  const auto skip = [](int scale, int next) {
    return "[INFO] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: " + std::to_string(scale) +
           ", reducing to " + std::to_string(next) + "\n";
  };
  std::string search, minimum;
  for (int scale = 1 << 16; scale > 1; scale /= 2) search += skip(scale, scale / 2);
  for (int i = 0; i < 4; ++i) minimum += skip(1, 1);
  EXPECT_EQ(name_of(diagnose(minimum)), "updates-skipped");
  EXPECT_TRUE(is_sure(diagnose(search + minimum)));
  EXPECT_EQ(name_of(diagnose(search + minimum + kRuntime)), "updates-skipped");
  // Updates that are skipped before the scale is found, or now and then, are usual.
  EXPECT_EQ(name_of(diagnose(search)), "no failure");
  EXPECT_EQ(name_of(diagnose(search + kLosses)), "no failure");
  EXPECT_EQ(name_of(diagnose(minimum + kLosses + kRuntime)), "no failure");
  EXPECT_EQ(name_of(diagnose(kLosses + skip(1, 1) + kLosses + skip(1, 1) + kLosses)), "no failure");
  // Of a progress bar's steps nearly all.
  const auto at = [](int step) { return " 10%|#  | " + std::to_string(step) + "/900 [00:07<06:41,  2.20it/s]"; };
  std::string all, few;
  for (int i = 0; i < 4; ++i) {
    all += at(90 + i) + skip(1, 1);
    few += at(90 + 10 * i) + skip(1, 1);
  }
  EXPECT_EQ(name_of(diagnose(all)), "updates-skipped");
  EXPECT_NE(name_of(diagnose(few)), "updates-skipped");

  const auto lines = [](const std::string& rest, std::initializer_list<const char*> losses) {
    std::string log;
    int step = 0;
    for (const char* loss : losses)
      log += "{'loss': " + std::string(loss) + ", " + rest + "'epoch': 0." + std::to_string(++step) + "}\n";
    return log;
  };
  const std::string rate = "'learning_rate': 0.0, ", norm = "'grad_norm': 0.0, 'learning_rate': 1e-05, ";
  EXPECT_EQ(name_of(diagnose(lines(rate, {"2.3", "2.2", "2.4"}) + kRuntime)), "rate-zero");
  EXPECT_EQ(name_of(diagnose(lines(norm, {"2.3", "2.2", "2.4"}) + kRuntime)), "gradients-zero");
  EXPECT_EQ(name_of(diagnose(lines("", {"2.3", "0.0", "0.0", "0.0"}) + kRuntime)), "loss-zero");
  EXPECT_EQ(name_of(diagnose(lines("", {"0.0", "0.0", "0.0"}) + kRuntime)), "loss-zero");
  // A warm-up's beginning, a schedule's end, a small number that is rounded, a loss that is learned, rewards.
  EXPECT_EQ(name_of(diagnose(lines(rate, {"2.3", "2.2", "2.4"}) + kLosses)), "no failure");
  EXPECT_EQ(name_of(diagnose(kLosses + lines(rate, {"0.3", "0.2", "0.4"}))), "no failure");
  EXPECT_EQ(name_of(diagnose(lines("'learning_rate': 0.0000, ", {"2.3", "2.2", "2.4"}))), "no failure");
  EXPECT_EQ(name_of(diagnose(lines("", {"0.3", "0.02", "0.0004", "0.0", "0.0", "0.0"}) + kRuntime)), "no failure");
  EXPECT_EQ(name_of(diagnose(lines("'grad_norm': 0.31, 'reward': 0.5, ", {"0.0", "0.0", "0.0"}) + kRuntime)),
            "no failure");
  // An error that ended the run is what ended it.
  EXPECT_EQ(name_of(diagnose(minimum + kOom)), "oom");
}

// Training that goes on with numbers does not heal a NaN in evaluation; a finite evaluation does.
TEST(Verdict, NaNInEvaluationIsNotHealedByTraining) {
  const std::string nan = "{'eval_loss': nan, 'eval_f1': 0.1, 'epoch': 1.0}\n",
                    number = "{'eval_loss': 0.41, 'eval_f1': 0.7, 'epoch': 2.0}\n";
  EXPECT_EQ(name_of(diagnose(kLosses + nan + kLosses)), "nan-evaluation");
  EXPECT_TRUE(is_sure(diagnose(kLosses + nan + kLosses)));
  EXPECT_EQ(name_of(diagnose(kLosses + nan + kLosses + number + kLosses)), "no failure");
  EXPECT_NE(name_of(diagnose(kLosses + nan + kRuntime)), "no failure");
}

// Several rules read one exception's line, or the lines of one chain: they are one failure, told once, without doubt.
TEST(Verdict, RulesOfOneLineDoNotCompete) {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    main()\n";
  const Diagnosis metric = diagnose(
      trace + "ImportError: cannot import name 'load_metric' from 'datasets' (/opt/conda/datasets/__init__.py)\n");
  EXPECT_EQ(name_of(metric), "load-metric");
  EXPECT_TRUE(is_sure(metric));
  EXPECT_TRUE(metric.others.empty());
  const Diagnosis chain = diagnose(
      trace + "KeyError: 'eval_f1'\n\nDuring handling of the above exception, another exception occurred:\n\n" + trace +
      "OSError: [Errno 28] No space left on device: 'out/trainer_state.json'\n");
  EXPECT_EQ(name_of(chain), "best-metric");
  EXPECT_TRUE(is_sure(chain)) << chain.doubt;
}

// Compilers, workers, pools and launchers quote the exception that they caught: where a rule knows that one, it is the
// cause, and not that something was caught.
TEST(Verdict, AWrapperQuotesTheCause) {
  const std::string trace =
      "Traceback (most recent call last):\n  File \"/opt/env/lib/python3.10/site-packages/torch/x.py\", line 3, in f\n"
      "    run()\n";
  for (const char* wrapper : {"torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n",
                              "torch._inductor.exc.InductorError: ", "torch._dynamo.exc.InternalTorchDynamoError: ",
                              "RuntimeError: Caught RuntimeError in DataLoader worker process 2.\nOriginal Traceback "
                              "(most recent call last):\n"
                              "  File \"pages.py\", line 3, in item\n    read()\n",
                              "RuntimeError: Failed to import transformers.models.bert.modeling_bert because of the "
                              "following error (look up to "
                              "see its traceback):\n",
                              "ray.exceptions.RayTaskError(RuntimeError): ray::train() (pid=7, ip=10.0.0.3)\n",
                              "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with "
                              "the following error:\n"}) {
    for (const auto& [message, name] : {std::pair{"OSError: [Errno 28] No space left on device: '/tmp/k'", "disk-full"},
                                        {"OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "oom"},
                                        {"RuntimeError: Failed to find C compiler. Please specify via CC environment "
                                         "variable.",
                                         "compiler-missing"},
                                        {"ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' "
                                         "(/opt/env/lib/python3.10/site-packages/triton/compiler/compiler.py)",
                                         "triton-version"},
                                        {"RuntimeError: CUDA error: no kernel image is available for execution on the "
                                         "device",
                                         "no-kernel-image"}}) {
      const Diagnosis diagnosis = diagnose(trace + wrapper + message + "\n");
      EXPECT_EQ(name_of(diagnosis), name) << wrapper;
      EXPECT_TRUE(is_sure(diagnosis)) << wrapper << message << diagnosis.doubt;
    }
  }
}

TEST(Verdict, AWarningIsNoExplanation) {
  const Diagnosis odd = diagnose(kSchedule + kOdd);
  EXPECT_EQ(name_of(odd), "not recognised");
  ASSERT_FALSE(odd.errors.empty());
  EXPECT_EQ(odd.errors[0].text, "odd.NoSuchThing: the moon is full");
  ASSERT_EQ(odd.others.size(), 1U);
  EXPECT_EQ(odd.others[0].rule->name, "scheduler-order");
  EXPECT_FALSE(is_sure(diagnose(kNote)));
  EXPECT_EQ(name_of(diagnose(kNote)), "jax-without-gpu");
  // Where the log breaks off in the traceback right below it, nothing else tells of the failure.
  const std::string shared =
      "_multiprocessing_helpers.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate in serial "
      "mode\n  warnings.warn(message)\n";
  EXPECT_FALSE(is_sure(diagnose(shared)));
  const Diagnosis cut = diagnose(shared + "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n");
  EXPECT_EQ(name_of(cut), "shm-full");
  EXPECT_TRUE(is_sure(cut)) << cut.doubt;
  // A warning of a cause ranks below a consequence that is an error.
  EXPECT_EQ(name_of(diagnose("[WARNING] rendezvous: the client socket has timed out, retrying\n"
                             "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317\n")),
            "nccl-error");
}

TEST(Verdict, AnExceptionWithoutARuleIsNotExplainedByAnother) {
  EXPECT_FALSE(is_sure(diagnose(kOom + kOdd)));
  EXPECT_TRUE(is_sure(diagnose(kOdd + kOom)));
  // Of one failure, as Python says.
  EXPECT_TRUE(
      is_sure(diagnose(kOom + "\nDuring handling of the above exception, another exception occurred:\n\n" + kOdd)));
  EXPECT_TRUE(
      is_sure(diagnose(kOdd + "\nThe above exception was the direct cause of the following exception:\n\n" + kOom)));
  // At a program's end, and in threads, much fails that ends nothing.
  EXPECT_TRUE(is_sure(diagnose(kOom + "Exception ignored in: <function Pool.__del__ at 0x7f>\n" + kOdd)));
  EXPECT_TRUE(is_sure(diagnose(kOom + "Exception in thread Thread-4:\n" + kOdd)));
  EXPECT_EQ(diagnose(kOom + kOdd).unexplained->text, "odd.NoSuchThing: the moon is full");
  // A consequence is named when what broke first left no trace.
  const std::string shell = "train.sh: line 3: 4411 Killed    python train.py\n";
  EXPECT_TRUE(is_sure(diagnose(shell)));
  const Diagnosis killed = diagnose(kOdd + shell);
  EXPECT_EQ(name_of(killed), "not recognised");
  ASSERT_FALSE(killed.errors.empty());
  EXPECT_EQ(killed.errors[0].text, "odd.NoSuchThing: the moon is full");
  EXPECT_EQ(killed.others.at(0).rule->name, "killed");
  EXPECT_FALSE(is_sure(diagnose(kOdd + kLosses + shell)));
  const Diagnosis nan = diagnose("{'loss': nan, 'epoch': 1.0}\n" + kOdd);
  EXPECT_EQ(name_of(nan), "nan-at-start");
  EXPECT_FALSE(is_sure(nan));
  // A launcher's prefix.
  const std::string rank =
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 3\n[rank1]: queue.Empty\n";
  EXPECT_FALSE(is_sure(diagnose(kOom + rank)));
}

TEST(Verdict, TwoCausesDisagree) {
  const std::string disk =
      "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    save()\n"
      "OSError: [Errno 28] No space left on device: 'out/optimizer.pt'\n";
  const Diagnosis both = diagnose(kOom + disk);
  EXPECT_EQ(name_of(both), "oom");
  EXPECT_THAT(std::string(both.doubt), HasSubstr("another failure"));
  EXPECT_TRUE(is_sure(diagnose(kOom + kOom)));
  EXPECT_TRUE(is_sure(diagnose(kOom + kLosses + disk)));
  const std::string worker = "RuntimeError: DataLoader worker (pid 27) is killed by signal: Killed.\n";
  EXPECT_TRUE(is_sure(diagnose(worker + "[ 1.2] Memory cgroup out of memory: Killed process 27\n")));
}

// Who is ended from outside may say so; whoever fails by himself may not.
TEST(Verdict, AnEndFromOutsideTearsDown) {
  const std::string trace =
      "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    step()\n";
  const std::string limit =
                        "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2024-09-03T19:30:12 DUE TO TIME LIMIT ***\n",
                    slurm = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n",
                    kernel = "Out of memory: Killed process 27 (python) total-vm:9kB, anon-rss:9kB\n";
  for (const char* last :
       {"torch.distributed.elastic.multiprocessing.api.SignalException: Process 70790 got signal: 12",
        "KeyboardInterrupt", "BrokenPipeError: [Errno 32] Broken pipe",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "RuntimeError: DataLoader worker (pid(s) 4121) exited unexpectedly"}) {
    const std::string teardown = trace + last + "\n";
    for (const auto& [end, name] :
         {std::pair{limit, "time-limit"}, {slurm, "slurm-oom"}, {kernel, "host-oom-killer"}}) {
      for (const std::string& log : {end + teardown, teardown + end}) {
        EXPECT_EQ(name_of(diagnose(log)), name) << last;
        EXPECT_TRUE(is_sure(diagnose(log))) << name << " and " << last;
      }
      EXPECT_FALSE(is_sure(diagnose(end + teardown + kOdd))) << name;
    }
  }
  const std::string pipe = trace + "BrokenPipeError: [Errno 32] Broken pipe\n";
  EXPECT_FALSE(is_sure(diagnose(kOom + pipe)));
  // An end that only a warning tells, or that the run outlived, tears nothing down.
  EXPECT_FALSE(is_sure(diagnose("[WARNING] oom_reaper: reaped process 27\n" + pipe)));
}

// Notebooks on the web end a program whose memory runs out with "^C".
TEST(Verdict, ALogMayEndInAnAllocationOrAnInterrupt) {
  const std::string alloc =
      "tcmalloc: large alloc 9034212864 bytes == 0x7e2c0000 @  0x7f1d2c9a 0x7f1d2a0b\n0x51ae13 0x5b41c5\n";
  for (const std::string& end : {alloc, alloc + "^C\n", alloc + alloc + "\n^C\n", kLosses + alloc + "^C\n"}) {
    EXPECT_EQ(name_of(diagnose("Loading data\n" + end)), "host-large-allocation") << end;
    EXPECT_TRUE(is_sure(diagnose("Loading data\n" + end))) << end;
  }
  EXPECT_EQ(name_of(diagnose("Loading weights from a.ckpt\n^C\n")), "ended-silently");
  // A run that went on, and one that fails later, had the memory.
  EXPECT_EQ(name_of(diagnose(alloc + kLosses)), "no failure");
  EXPECT_EQ(name_of(diagnose(kLosses + alloc)), "no failure");
  EXPECT_EQ(name_of(diagnose(kLosses + "^C\n")), "no failure");
  EXPECT_EQ(name_of(diagnose(alloc + kOom)), "oom");
  EXPECT_EQ(name_of(diagnose(alloc + "^C\n" + kOom)), "oom");
  EXPECT_EQ(name_of(diagnose("Loading weights\n^C\nKeyboardInterrupt\n")), "interrupted");
  EXPECT_EQ(name_of(diagnose(alloc + "Loading data\n")), "not recognised");
}

TEST(Verdict, ATrackersSummaryIsNoProgress) {
  const std::string summary =
      "wandb: Run summary:\nwandb:   eval/loss 0.39\nwandb:  train/loss 0.31\nwandb: loss 0.2\n";
  EXPECT_TRUE(is_sure(diagnose(kOom + summary)));
  EXPECT_EQ(name_of(diagnose(kWarnedOom + summary)), "oom");
}

// Whatever failed before: where a run's good end follows, no failure is told with confidence.
TEST(Verdict, AGoodEndTakesConfidenceAway) {
  for (const auto& path : all_logs()) {
    const std::string log = with_newline(text_of(path));
    EXPECT_FALSE(is_sure(diagnose(log + kLosses + kRuntime))) << path;
    EXPECT_EQ(name_of(diagnose(log + kLosses + kRuntime + kExit)), "no failure") << path;
  }
}

// Whatever a log says: another program's unknown exception at its end takes confidence away.
TEST(Verdict, AnUnknownEndTakesConfidenceAway) {
  for (const auto& path : all_logs()) EXPECT_FALSE(is_sure(diagnose(with_newline(text_of(path)) + kOdd))) << path;
}

// Harmless words before and after change neither the root nor whether it is sure.
TEST(Verdict, NoiseChangesNothing) {
  std::string notes = kLosses;
  for (const Rule& rule : all_rules())
    if (rule.level == Level::kNote) notes += with_newline(text_of(logs() / (std::string(rule.name) + ".log")));
  const std::string before =
      notes +
      "Some weights of LayoutLMv3ForTokenClassification were not initialized from the model checkpoint\n"
      "node1:21:60 [0] NCCL INFO Failed to open libibverbs.so[.1]\n"
      "node1:21:60 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"
      "NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n"
      "UserWarning: Was asked to gather along dimension 0, but all input tensors were scalars\n";
  const std::string after =
      " 33%|███▎      | 10308/30924 [2:46:31<5:33:03,  1.03it/s]\n"
      "[W CUDAGuardImpl.h:124] Warning: CUDA warning: driver shutting down (function destroyEvent)\n"
      "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f51>\n"
      "Traceback (most recent call last):\n  File \"dataloader.py\", line 1478, in __del__\n"
      "AssertionError: can only test a child process\n"
      "wandb: Run summary:\nwandb:  eval/loss 0.39\nwandb: train/loss 0.31\nwandb: loss 0.2\n"
      "(layoutlm) kai@iabeng32:~$ echo done\ndone\n";
  // What a tokenizer warned of picks among an embedding's tables, losses say that NaN was not the first, and training
  // before says that not every line shows none.
  const auto reads_what_is_before = [](const Diagnosis& d, const std::string& log) {
    // A tracker's outage fails no run that trained.
    const bool outage = d.rule != nullptr && d.rule->outage && log.find("Traceback") == std::string::npos;
    return outage || (d.rule != nullptr && (d.rule->name == "embedding-index" || d.rule->name == "device-assert" ||
                                            d.rule->run_up == RunUp::kNone || d.rule->lasting));
  };
  // What a log ends with is its last line, and counts only where nothing was trained.
  const auto reads_the_end = [](const Diagnosis& d) {
    return d.rule != nullptr && (d.rule->when == AnyOf{kEndsInAllocation} || d.rule->when == AnyOf{kEndsInInterrupt});
  };
  for (const auto& path : all_logs()) {
    const std::string log = with_newline(text_of(path));
    const Diagnosis alone = diagnose(log);
    if (alone.rule != nullptr && (alone.rule->level == Level::kNote || reads_the_end(alone))) continue;
    for (const std::string& noisy : {log + after, before + log, before + log + after}) {
      if (noisy.starts_with(before) && reads_what_is_before(alone, log)) continue;
      const Diagnosis diagnosis = diagnose(noisy);
      // Before: notes of another log may stand beside what is not recognised, and change nothing.
      EXPECT_EQ(name_of(diagnosis), name_of(alone)) << path;
      EXPECT_EQ(is_sure(diagnosis), is_sure(alone)) << path << ": " << diagnosis.doubt << alone.doubt;
    }
  }
}

// A tracker or the hub that is not reached for a while fails no run that trained.
TEST(Verdict, AnOutageBesideTrainingIsNoFailure) {
  const std::string retry = "wandb: Network error (ConnectionError), entering retry loop.\n",
                    refused =
                        "HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries exceeded with url: "
                        "/graphql (Caused by NewConnectionError('Network is unreachable'))\n",
                    head =
                        "'HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)' "
                        "thrown while requesting HEAD https://huggingface.co/m/resolve/main/config.json\n"
                        "Retrying in 1s [Retry 1/5].\n",
                    traceback =
                        "Traceback (most recent call last):\n  File \"/x/wandb/sdk/retry.py\", line 1, in call\n"
                        "    call()\nrequests.exceptions.ConnectionError: " +
                        refused;
  for (const std::string& log :
       {kLosses + retry + kLosses + kRuntime, kLosses + kRuntime + retry + "wandb: ERROR " + refused, kLosses + retry,
        head + kLosses + kRuntime, kLosses + traceback + retry + traceback + retry + kLosses + kRuntime,
        kLosses + kRuntime + "HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/a\n",
        "epoch 1 loss 0.4\nepoch 2 loss 0.3\n" + retry + "Finished. Model saved to runs/best.pt\n"})
    EXPECT_EQ(name_of(diagnose(log)), "no failure") << log;
  // But it is one where nothing was trained, or where it ended the run.
  EXPECT_EQ(name_of(diagnose(retry)), "wandb-network");
  EXPECT_EQ(name_of(diagnose(kLosses + traceback)), "wandb-network");
  EXPECT_EQ(name_of(diagnose(kLosses + kRuntime + traceback)), "wandb-network");
  EXPECT_EQ(name_of(diagnose(kLosses + "requests.exceptions.ConnectionError: " + refused)), "wandb-network");
}

// An image that Pillow warns of is not why another error ended the run, whatever the warning's rule refines.
TEST(Verdict, AWarningRefinesNoError) {
  const std::string warning =
      "PIL/Image.py:3186: DecompressionBombWarning: Image size (123456789 pixels) exceeds limit of 89478485 pixels, "
      "could be decompression bomb DOS attack.\n  warnings.warn(\n";
  EXPECT_EQ(name_of(diagnose(warning + kLosses + kRuntime)), "no failure");
  EXPECT_EQ(name_of(diagnose(warning + kLosses + kOom)), "oom");
  for (const char* log :
       {"worker-killed.log", "worker-exception.log", "bad-image.log", "loss-shapes.log", "segfault.log"})
    EXPECT_EQ(name_of(diagnose(warning + text_of(logs() / log))), name_of(diagnose(text_of(logs() / log)))) << log;
  EXPECT_TRUE(
      is_sure(diagnose("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    load()\n"
                       "PIL.Image.DecompressionBombWarning: Image size (123456789 pixels) exceeds limit\n")));
}

// Two failures in one log: the doctor is sure of one only if the other is known to follow from it, or says the same in
// other words.
TEST(Verdict, OfTwoFailuresOneMustExplainTheOther) {
  const auto is_cause = [](const Diagnosis& d) { return is_sure(d) && d.rule->level == Level::kCause; };
  const auto has = [](const std::vector<std::string_view>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> causes;
  for (const auto& path : all_logs()) {
    const std::string log = with_newline(text_of(path));
    // Where losses are printed the first failure is outlived.
    if (is_cause(diagnose(log)) && log.find("loss") == std::string::npos) causes.push_back(log);
  }
  ASSERT_GT(causes.size(), 100U);
  int sure = 0, doubtful = 0;
  for (std::size_t i = 0; i < causes.size(); ++i) {
    for (std::size_t step = 1; step < 8; ++step) {
      const std::string log = causes[i] + causes[(i + 3 * step * step) % causes.size()];
      const Diagnosis both = diagnose(log);
      ++(is_sure(both) ? sure : doubtful);
      if (!is_sure(both)) continue;
      for (const Finding& other : both.others) {
        if (other.rule->level != Level::kCause) continue;
        // What was printed and not raised gives way to the error that ended the run.
        if (!other.told) continue;
        const auto& refines = other.rule->refines;
        EXPECT_TRUE(has(both.rule->leads_to, other.rule->name) ||
                    std::any_of(refines.begin(), refines.end(),
                                [&](std::string_view name) { return has(both.rule->refines, name); }))
            << name_of(both) << ", also " << other.rule->name << "\n"
            << log;
      }
    }
  }
  EXPECT_GT(sure, 0);
  EXPECT_GT(doubtful, sure);
}

}  // namespace
}  // namespace plimsoll::doctor
