// Words that identify a line of a log, whatever failed: where tracebacks begin and belong, what a finished run prints,
// what other programs and processes print.
#pragma once

#include <string_view>

namespace plimsoll::doctor {

inline constexpr std::string_view kTraceback = "traceback (most recent call last)";
// The next traceback belongs to the failure before it.
inline constexpr std::string_view kLinks[] = {"the above exception was the direct cause",
                                              "during handling of the above exception",
                                              "original traceback (most recent"};
// The next traceback ended no program; nor does it say anything about the failure if it belongs to a program that is
// being terminated, or to the thread that reads a subprocess's output.
inline constexpr std::string_view kThreads[] = {"^exception in thread"},
                                  kAfter[] = {"^exception ignored in", "^error in atexit",
                                              "^exception in thread*_readerthread"};
// Only a finished run prints these.
inline constexpr std::string_view kClosings[] = {"train_runtime",           "training completed",
                                                 "training complete",       "training finished",
                                                 "finished training",       "done training",
                                                 "^trained *updates in",    "stopped: `max_epochs=",
                                                 "stopped: `max_steps=",    "***** eval metrics *****",
                                                 "exits successfully",      "epochs completed in",
                                                 "overall training speed",  "| end of training",
                                                 "total training time",     "training took",
                                                 "training done",           "training has finished",
                                                 "trainoutput(global_step", "loading best model from",
                                                 "fine-tuning complete",    "finetuning complete",
                                                 "fine-tuning done",        "finetuning done",
                                                 "finetuning finished",     "signaling trainer to stop",
                                                 "training is complete",    "training ended"};
// A table that sums a run up: it says nothing about the last loss.
inline constexpr std::string_view kSummaries[] = {"^train_loss  *= "};
// An evaluation prints these at its end.
inline constexpr std::string_view kResults[] = {"eval_runtime",
                                                "test_runtime",
                                                "predict_runtime",
                                                "***** test metrics",
                                                "***** predict metrics",
                                                "macro avg*0.",
                                                "micro avg*0.",
                                                "weighted avg*0.",
                                                "eval_accuracy",
                                                "eval_f1",
                                                "test accuracy",
                                                "final accuracy",
                                                "accuracy: 0.",
                                                "accuracy = 0.",
                                                "accuracy: 9",
                                                "f1: 0.",
                                                "f1 score: 0.",
                                                "f1-score: 0.",
                                                "test results: {",
                                                "evaluation results: {",
                                                "best model saved",
                                                "model saved to",
                                                "model saved in",
                                                "ndcg@",
                                                "recall@",
                                                "mrr@"};
// These show that a run works, or did, if nothing in the log resembles an error: what libraries print about an
// evaluation, a saved model, and a good end.
inline constexpr std::string_view kSigns[] = {"evaluation results for",
                                              "evaluate*in*[*s]",
                                              "average precision*(ap)*] =",
                                              "average recall*(ar)*] =",
                                              "^dataloader*test results",
                                              "^dataloader*validate results",
                                              "***** train metrics",
                                              "results saved to",
                                              "saved pipeline to output",
                                              "weights saved in",
                                              "checkpoint of size*saved to",
                                              "saved checkpoint",
                                              "checkpoint saved",
                                              "saved model checkpoint",
                                              "saved best model",
                                              "saved the best model",
                                              "saved trained model",
                                              "model has been saved",
                                              "successfully saved",
                                              "found better validated model",
                                              "end of epoch*average epoch stats",
                                              "training summary epoch",
                                              "validation summary epoch",
                                              "^[*]*'s l1: ",
                                              "^[*]*'s l2: ",
                                              "optimizer stripped from",
                                              "training job completed",
                                              "job completed successfully",
                                              "finished successfully",
                                              "completed successfully"};
// A line with one of these may report some trouble.
inline constexpr std::string_view kTroubles[] = {
    " fail",     "failure",      "exception",  "traceback",    "fatal",         "killed",    "abort",        "cannot ",
    "can't ",    "could not",    "couldn't",   "unable to",    "denied",        "no such ",  "timed out",    "timeout",
    "terminat",  "interrupt",    "crash",      "core dump",    "out of memory", "not found", "panic",        "segfault",
    "cancelled", "evicted",      "oomkill",    "exit code",    "non-zero",      "invalid",   "disconnected", "refused",
    "no space",  "unrecognized", "mismatch",   " nan",         "=nan",          ":nan",      "(nan",         "'nan",
    "[nan",      "-nan",         "not enough", "insufficient", "usage:",        "error"};
// These prepare or fetch data before training, usually on one rank only.
inline constexpr std::string_view kPreparing[] = {
    "generating*split:", "examples/s]",    "^map:",          "map (num_proc", "running tokenizer", "tokenizing",
    "^filter:",          "downloading*%|", "grouping texts", "packing*%|",    "preprocessing*%|"};
inline constexpr std::string_view kTimeouts[] = {"collective operation timeout",
                                                 "some nccl operations have failed or timed out",
                                                 "watchdog*timed out",
                                                 "timed out*store based barrier",
                                                 "wait timeout after",
                                                 "collective*timed out after",
                                                 "store->get(*got error$",
                                                 "store->get(*got error: socket timeout",
                                                 "store->get(*got error: wait",
                                                 "socket timeout",
                                                 "timed out waiting*for recv",
                                                 "timed out after*waiting for clients",
                                                 "barrier timed out",
                                                 "application timeout caused pair closure",
                                                 "monitoredbarrier*rank*failed"};
// Functions in which the other ranks wait for the one that prepares data.
inline constexpr std::string_view kPreparingFunctions[] = {
    "main_process_first", "local_main_process_first", "torch_distributed_zero_first", "rank_zero_first", "zero_first"};
// Progress bars print these: "[02:14<05:01,  2.66it/s]".
inline constexpr std::string_view kBars[] = {"it/s]", "s/it]", "it/s, ", "s/it, ", "examples/s]", "batch/s]"};
inline constexpr std::string_view kExits[] = {"exit status 0$", "exit status: 0$", "exit code 0$", "exit code: 0$",
                                              "exited with code 0$"};
// Trackers repeat the last losses when a run ends, however it ends.
inline constexpr std::string_view kTrackers[] = {"^wandb:*", "^comet *", "run summary:", "run history:"};
// These repeat the results of an evaluation, or report that the program ended well.
inline constexpr std::string_view kTracked[] = {"^wandb:*acc*0.", "^wandb:*f1*0.",
                                                "^wandb:*process to finish... (success)"};
// How the rest of a program ends when it is ended from outside.
inline constexpr std::string_view kTeardown[] = {"signalexception", "keyboardinterrupt", "brokenpipeerror",
                                                 "connectionreseterror", "dataloader worker*exited unexpectedly"};
// Words after which the numbers of an out-of-memory message may follow.
inline constexpr std::string_view kOutOfMemory[] = {"anon-rss",
                                                    "out of memory",
                                                    "tried to allocate",
                                                    "outofmemory",
                                                    "would exceed allowed memory",
                                                    "unable to allocate",
                                                    "can't allocate memory",
                                                    "resource_exhausted",
                                                    "hbm capacity by",
                                                    "resource exhausted"};

// Several processes wrote the log.
inline constexpr std::string_view kRanks[] = {
    "childfailederror", "torch.distributed.elastic", "processraisedexception",        "exits with return code",
    "[rank*]:",         "srun: error:*task",         "torch/multiprocessing/spawn.py"};

// Harmless messages of other programs: TensorFlow, which transformers loads if it is installed, reports libraries that
// it does not find, and pip reports versions.
inline constexpr std::string_view kElsewhere[] = {"tensorflow/stream_executor/",
                                                  "tensorflow/core/",
                                                  "tensorflow/compiler/xla/stream",
                                                  "tensorflow/compiler/xla/service",
                                                  "tensorflow/compiler/jit",
                                                  "tensorflow/compiler/mlir",
                                                  "tensorflow/compiler/tf2",
                                                  "external/local_",
                                                  "cuda_driver.cc:",
                                                  "cuda_dnn.cc:",
                                                  "cuda_blas.cc:",
                                                  "cuda_fft.cc:",
                                                  "computation_placer.cc:",
                                                  "tf-trt warning",
                                                  "zip error: nothing to do",
                                                  "which is incompatible",
                                                  "which is not installed",
                                                  "pip's dependency resolver",
                                                  "using the latest cached version of the",
                                                  "found the latest cached dataset configuration",
                                                  "'messagefactory' object has no attribute 'getprototype'"};

}  // namespace plimsoll::doctor
