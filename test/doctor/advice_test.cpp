// Advice depends on what the log says about the run: the model's family, the GPU, the batch.
#include "doctor/advice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// Forward of that model runs out of the memory of a GPU with that many GiB, which is all its own.
std::string oom_in(const std::string& model, double total) {
  return "Traceback (most recent call last):\n"
         "  File \"/opt/conda/lib/python3.10/site-packages/transformers/models/" +
         model + "/modeling_" + model +
         ".py\", line 655, in forward\n    layer_outputs = layer_module(\n"
         "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 70.00 MiB (GPU 0; " +
         fmt::format(
             "{:.2f} GiB total capacity; {:.2f} GiB already allocated; 40.56 MiB free; {:.2f} GiB reserved in "
             "total by PyTorch)\n",
             total, total - 0.6, total - 0.55);
}

TEST(Advice, IsWhatTheFamilyCanTake) {
  const Diagnosis layout = diagnose(oom_in("layoutlmv3", 14.75));
  ASSERT_EQ(name_of(layout), "oom-forward");
  const std::vector<std::string> fix = fixes(layout);
  EXPECT_THAT(fix, Each(Not(HasSubstr("gradient_checkpointing=True"))));
  EXPECT_THAT(fix, Each(Not(HasSubstr("attn_implementation"))));
  for (const char* part : {"adamw_8bit", "freeze", "LoraConfig(target_modules=['query', 'value']", "max_length=256"})
    EXPECT_THAT(fix, Contains(HasSubstr(part))) << part;
  EXPECT_THAT(fix.front(), HasSubstr("per_device_train_batch_size"));
  EXPECT_THAT(note(layout), HasSubstr("no gradient checkpointing, SDPA or flash attention for LayoutLMv3"));
  const Diagnosis bert = diagnose(oom_in("bert", 14.75));
  EXPECT_THAT(fixes(bert), Contains(HasSubstr("gradient_checkpointing=True")));
  // Plimsoll does not train BERT.
  EXPECT_EQ(command(bert), "");
  EXPECT_EQ(note(bert), "");
  const Diagnosis llama = diagnose(oom_in("llama", 23.65));
  EXPECT_THAT(fixes(llama), Contains(HasSubstr("q_proj")));
}

TEST(Advice, IsWhatTheGpuCanTake) {
  const auto has_bf16_advice = [](const std::string& log) {
    const std::vector<std::string> list = fixes(diagnose(log));
    return std::any_of(list.begin(), list.end(),
                       [](const std::string& line) { return line.find("bf16=True") != std::string::npos; });
  };
  // A T4, by its size alone; by its name; and a V100 by name.
  EXPECT_FALSE(has_bf16_advice(oom_in("layoutlmv3", 14.75)));
  EXPECT_FALSE(has_bf16_advice("GPU 0: Tesla T4\n" + oom_in("layoutlmv3", 15.00)));
  EXPECT_FALSE(has_bf16_advice("device: Tesla V100-SXM2-32GB\n" + oom_in("layoutlmv3", 32.00)));
  EXPECT_TRUE(has_bf16_advice("NVIDIA A100-SXM4-40GB\n" + oom_in("layoutlmv3", 39.39)));
  EXPECT_TRUE(has_bf16_advice("NVIDIA GeForce RTX 3090\n" + oom_in("layoutlmv3", 23.69)));
  // Who trains in it already is not told to.
  EXPECT_FALSE(has_bf16_advice("bf16=True,\nNVIDIA A100-SXM4-40GB\n" + oom_in("layoutlmv3", 39.39)));
}

TEST(Advice, NeverAsksForLessThanOnePage) {
  const std::string oom = oom_in("layoutlmv3", 7.79);
  EXPECT_THAT(fixes(diagnose("  Instantaneous batch size per device = 1\n" + oom)),
              Each(Not(HasSubstr("per_device_train_batch_size"))));
  EXPECT_THAT(fixes(diagnose("per_device_train_batch_size=1,\n" + oom)),
              Each(Not(HasSubstr("per_device_train_batch_size"))));
  EXPECT_THAT(fixes(diagnose("per_device_train_batch_size=8,\ngradient_accumulation_steps=2,\n" + oom)),
              Contains(HasSubstr("per_device_train_batch_size=4 with gradient_accumulation_steps=4")));
  EXPECT_THAT(fixes(diagnose("RuntimeError: No executable batch size found, reached zero.\n")),
              Each(Not(HasSubstr("per_device_train_batch_size"))));
}

TEST(Advice, NamesThePlanThatFitsTheCard) {
  EXPECT_THAT(command(diagnose("per_device_train_batch_size=4\n" + oom_in("layoutlmv3", 14.75))),
              AllOf(HasSubstr("plimsoll plan --model DIR --data pages.jsonl --device cuda --device-memory 14.7GiB"),
                    HasSubstr("--train-batch-size 4"), Not(HasSubstr("--lora-rank"))));
  EXPECT_THAT(command(diagnose("microsoft/layoutlmv3-large\n" + oom_in("layoutlmv3", 3.95))),
              HasSubstr("--lora-rank 8"));
}

TEST(Advice, UsesTheFactsInTheLog) {
  const Diagnosis held = diagnose(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15.77 "
      "GiB of which 12.12 MiB is free. Process 31337 has 14.85 GiB memory in use. Including non-PyTorch memory, this "
      "process has 912.00 MiB memory in use. Of the allocated memory 480.00 MiB is allocated by PyTorch, and 20.00 MiB "
      "is reserved by PyTorch but unallocated.\n");
  EXPECT_EQ(name_of(held), "oom-other-processes");
  EXPECT_THAT(fixes(held).front(), AllOf(HasSubstr("process 31337"), HasSubstr("14.8"), HasSubstr("kill 31337")));
  const Diagnosis driver = diagnose(
      "RuntimeError: The NVIDIA driver on your system is too old (found version 10010). Please update your GPU "
      "driver.\n");
  EXPECT_EQ(name_of(driver), "driver-too-old");
  EXPECT_THAT(meanings(driver), Contains(HasSubstr("CUDA 10.1")));
  const Diagnosis newer = diagnose(text_of(logs() / "gpu-newer-than-cuda.log"));
  EXPECT_EQ(name_of(newer), "gpu-newer-than-cuda");
}

// An example for other versions than the log's would contradict it.
TEST(Advice, FitsTheVersionsInTheLog) {
  const auto old_driver = [](const char* version) {
    return fixes(diagnose("AssertionError: The NVIDIA driver on your system is too old (found version " +
                          std::string(version) + "). Please update your GPU driver.\n"));
  };
  EXPECT_THAT(old_driver("12020"), Contains(HasSubstr("whl/cu126")));
  EXPECT_THAT(old_driver("11040"), AllOf(Contains(HasSubstr("whl/cu118")), Each(Not(HasSubstr("cu126")))));
  const std::vector<std::string> ancient = old_driver("9000");
  EXPECT_THAT(ancient, Each(Not(HasSubstr("/whl/"))));
  EXPECT_THAT(ancient.front(), HasSubstr("update the driver"));
  EXPECT_THAT(ancient, Contains(HasSubstr("1.1.0 is the last one for CUDA 9.0")));
  // nvidia-smi's table tells it, too.
  const std::string table = "| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |\n";
  EXPECT_THAT(fixes(diagnose(table + "AssertionError: Torch not compiled with CUDA enabled\n")),
              AllOf(Contains(HasSubstr("whl/cu118")), Each(Not(HasSubstr("cu126")))));
  // PyTorch's own version, where the driver's is not told.
  EXPECT_THAT(fixes(diagnose("torch 2.4.1+cu121\nRuntimeError: CUDA driver version is insufficient for CUDA runtime "
                             "version\n")),
              AllOf(Contains(HasSubstr("whl/cu118")), Each(Not(HasSubstr("cu126")))));
  const auto build = [](const char* installed, const char* wanted) {
    return fixes(diagnose("Exception: >- DeepSpeed Op Builder: Installed CUDA version " + std::string(installed) +
                          " does not match the version torch was compiled with " + wanted +
                          ", unable to compile cuda/cpp extensions without a matching cuda version.\n"));
  };
  EXPECT_THAT(build("10.2", "12.1"), AllOf(Contains(HasSubstr("cuda-toolkit=12.1")), Each(Not(HasSubstr("DS_SKIP"))),
                                           Each(Not(HasSubstr("built for the installed")))));
  EXPECT_THAT(build("12.4", "12.1"), AllOf(Contains(HasSubstr("cuda-toolkit=12.1")), Contains(HasSubstr("DS_SKIP"))));
  const std::vector<std::string> card =
      fixes(diagnose("NVIDIA GeForce RTX 5070, 12 GB\nRuntimeError: CUDA error: no kernel image is available for "
                     "execution on the device\n"));
  EXPECT_THAT(card, AllOf(Contains(HasSubstr("(RTX 5070: cu128 or later)")), Each(Not(HasSubstr("H100")))));
}

// Of a rule's causes that comes first which the quoted lines tell, and its fix with it.
TEST(Advice, RanksTheCausesByTheFactsInTheLog) {
  const auto devices = [](const std::string& found) {
    return diagnose("RuntimeError: Expected all tensors to be on the same device, but found at least two devices, " +
                    found + "!\n");
  };
  for (const char* found : {"cuda:0 and cuda:1", "cuda:3 and cuda:0"}) {
    EXPECT_THAT(causes(devices(found)).front(), HasSubstr("Several GPUs")) << found;
    EXPECT_THAT(fixes(devices(found)).front(), HasSubstr("CUDA_VISIBLE_DEVICES=0")) << found;
  }
  for (const char* found : {"cpu and cuda:0", "cuda:0 and cpu", "cuda:1 and cpu"}) {
    EXPECT_THAT(causes(devices(found)).front(), HasSubstr("was not moved")) << found;
    EXPECT_THAT(fixes(devices(found)).front(), HasSubstr("model.to(device)")) << found;
  }
  // The Trainer adds the loss of a model that is spread to a sum on its first GPU.
  const Diagnosis spread = diagnose(
      "Traceback (most recent call last):\n  File \"/opt/env/lib/python3.9/site-packages/transformers/trainer.py\", "
      "line "
      "1901, in _inner_training_loop\n    tr_loss += tr_loss_step\nRuntimeError: Expected all tensors to be on the "
      "same "
      "device, but found at least two devices, cuda:1 and cuda:0!\n");
  EXPECT_EQ(name_of(spread), "device-map");
  EXPECT_THAT(causes(spread).front(), HasSubstr("spread by device_map='auto'"));
  EXPECT_THAT(fixes(spread).front(), HasSubstr("device_map={'': 0}"));
  const auto labels = [](const std::string& type) {
    return causes(diagnose("RuntimeError: \"nll_loss_out_frame\" not implemented for '" + type + "'\n")).front();
  };
  EXPECT_THAT(labels("Int"), HasSubstr("int32"));
  EXPECT_THAT(labels("Float"), HasSubstr("became floats"));
  const auto index = [](const std::string& numbers) {
    return causes(diagnose("RuntimeError: index out of range: Tried to access index " + numbers + "\n")).front();
  };
  EXPECT_THAT(index("512 out of table with 511"), HasSubstr("more tokens"));
  EXPECT_THAT(index("31117 out of table with 30521"), HasSubstr("resize_token_embeddings"));
}

// The gradients' norm is NaN: that the loss is 0.0 is what the Trainer prints in place of NaN.
TEST(Advice, TheHeadlineSaysWhatTheLogShows) {
  const std::string norm = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2e-05, 'epoch': 0.01}\n",
                    loss = "{'loss': nan, 'grad_norm': nan, 'learning_rate': 2e-05, 'epoch': 0.01}\n";
  EXPECT_THAT(headline(diagnose(norm + norm)), HasSubstr("norm of the gradients was NaN"));
  EXPECT_THAT(headline(diagnose(norm + norm)), HasSubstr("0.0"));
  EXPECT_THAT(headline(diagnose(loss + loss)), HasSubstr("the loss was NaN from the first line"));
}

TEST(Advice, TellingsNameCausesAndFixesThatTheRuleHas) {
  for (const Rule& rule : all_rules()) {
    for (const Telling& telling : rule.tellings) {
      EXPECT_FALSE(telling.when.empty()) << rule.name;
      EXPECT_FALSE(telling.what.empty() && telling.cause.empty() && telling.fix.empty()) << rule.name;
      Diagnosis diagnosis;
      diagnosis.rule = &rule;
      EXPECT_TRUE(telling.cause.empty() ||
                  testing::Matches(Contains(testing::StartsWith(std::string(telling.cause))))(causes(diagnosis)))
          << rule.name << ": " << telling.cause;
      EXPECT_TRUE(telling.fix.empty() ||
                  testing::Matches(Contains(testing::StartsWith(std::string(telling.fix))))(fixes(diagnosis)))
          << rule.name << ": " << telling.fix;
    }
  }
}

// A message that names an argument is answered about that one.
TEST(Advice, TellsWhatBecameOfTheArgument) {
  const auto refused = [](const std::string& function, const std::string& argument) {
    return diagnose(
        "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    main()\n"
        "TypeError: " +
        function + "() got an unexpected keyword argument '" + argument + "'\n");
  };
  const Diagnosis moved = refused("SFTTrainer.__init__", "max_seq_length");
  EXPECT_THAT(causes(moved), AllOf(Contains(HasSubstr("max_seq_length: trl has moved it")),
                                   Each(Not(HasSubstr("evaluation_strategy")))));
  EXPECT_THAT(fixes(moved).front(), HasSubstr("SFTConfig(max_length=N)"));
  const Diagnosis renamed = refused("TrainingArguments.__init__", "evaluation_strategy");
  EXPECT_THAT(causes(renamed).front(), HasSubstr("eval_strategy since transformers 4.41"));
  EXPECT_THAT(causes(renamed), Each(Not(HasSubstr("no_cuda"))));
  EXPECT_THAT(causes(refused("TrainingArguments.__init__", "no_such_thing")),
              Contains(HasSubstr("renamed or dropped")));
}

// The answer names the package whose native code fails.
TEST(Advice, NamesTheExtension) {
  for (const auto& [file, package] : {std::pair{"extension-build.log", "pip uninstall -y flash-attn"},
                                      {"extension-build.2.log", "pip uninstall -y mamba-ssm"},
                                      {"extension-kernels.log", "pip install -U xformers"},
                                      {"extension-kernels.2.log", "pip install -U bitsandbytes"}})
    EXPECT_THAT(fixes(diagnose(text_of(logs() / file))), Contains(HasSubstr(package))) << file;
}

TEST(Advice, CausesAreRankedOneALine) {
  for (const Rule& rule : all_rules()) {
    Diagnosis diagnosis;
    diagnosis.rule = &rule;
    EXPECT_FALSE(causes(diagnosis).empty()) << rule.name;
    EXPECT_FALSE(fixes(diagnosis).empty()) << rule.name;
    for (const std::string& cause : causes(diagnosis)) EXPECT_FALSE(cause.empty()) << rule.name;
  }
  EXPECT_GE(causes(diagnose(text_of(logs() / "oom-cublas.log"))).size(), 2U);
}

TEST(LogFacts, MemoryThatGrows) {
  const auto trend = [](const std::vector<double>& values) {
    std::string log;
    for (std::size_t i = 0; i < values.size(); ++i)
      log += "epoch " + std::to_string(i) + " loss 0.5 max mem: " + std::to_string(values[i]) + " MB\n";
    return diagnose(log).facts.trend;
  };
  EXPECT_TRUE(trend({4000, 5000, 6000, 7000, 8000, 9000}).grows);
  EXPECT_FALSE(trend({4000, 9000, 9000, 9000, 9000, 9000}).grows) << "a peak that stays is no leak";
  EXPECT_FALSE(trend({9000, 9000, 8000, 9000, 9010, 9000}).grows);
  EXPECT_FALSE(trend({4000, 9000, 4000, 9000, 4000, 9000}).grows);
  EXPECT_FALSE(trend({4000, 9000}).grows);
  std::vector<double> many;
  for (int i = 0; i < 1000; ++i) many.push_back(4000 + 5 * i);
  EXPECT_TRUE(trend(many).grows);
}

TEST(LogFacts, TellTheRun) {
  const LogFacts f = diagnose(
                         "***** Running training *****\n  Instantaneous batch size per device = 2\n"
                         "  Gradient Accumulation steps = 4\nfp16=False,\nbf16=True,\n"
                         "torch 2.0.1+cu117\nNVIDIA GeForce RTX 4090\n")
                         .facts;
  EXPECT_EQ(f.micro_batch, 2);
  EXPECT_EQ(f.accumulation, 4);
  EXPECT_FALSE(f.fp16);
  EXPECT_TRUE(f.bf16);
  EXPECT_EQ(f.torch_cuda, 11070);
  ASSERT_NE(f.card, nullptr);
  EXPECT_EQ(f.card->capability, 89);
  EXPECT_FALSE(f.gpu_newer_than_build()) << "kernels for 8.6 run on 8.9";
  EXPECT_TRUE(diagnose("1.7.1+cu101\nGeForce RTX 3090\n").facts.gpu_newer_than_build());
  EXPECT_EQ(diagnose("the hash is 0xa100f\n").facts.card, nullptr);
  EXPECT_EQ(diagnose("from transformers.models.layoutlmv3 import x, roberta\n").facts.family->name, "LayoutLMv3");
}

// Which of the two has which type tells what to change.
TEST(Advice, TypesInAMessageTellTheCause) {
  const auto of = [](const std::string& message) { return diagnose("RuntimeError: " + message + "\n"); };
  const std::string same = "mat1 and mat2 must have the same dtype, but got ";
  EXPECT_THAT(headline(of(same + "Half and Float")), testing::HasSubstr("input in half precision"));
  EXPECT_THAT(causes(of(same + "Half and Float")).at(0), testing::HasSubstr("kept another type"));
  EXPECT_THAT(headline(of(same + "Float and BFloat16")), testing::HasSubstr("weights in half precision"));
  EXPECT_THAT(fixes(of(same + "Float and BFloat16")).at(0), testing::HasSubstr("x.to(model.dtype)"));
  for (const char* types : {"Long and Float", "Int and Half", "Byte and Float", "Bool and BFloat16"})
    EXPECT_EQ(name_of(of(same + types)), "integers-in-layer") << types;
  for (const char* types : {"Double and Float", "Float and Double"})
    EXPECT_EQ(name_of(of(same + types)), "dtype-double") << types;
  EXPECT_EQ(name_of(of(same + "Half and Byte")), "quantised-in-layer");
  EXPECT_EQ(name_of(of("expected m1 and m2 to have the same dtype, but got: long long != float")), "integers-in-layer");
  EXPECT_THAT(causes(of("Input type (unsigned char) and bias type (float) should be the same")).at(0),
              testing::HasSubstr("bytes"));
}

TEST(Advice, AMessageTellsWhichSideDiffers) {
  const auto keys = [](const std::string& missing, const std::string& unexpected) {
    return diagnose("RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: \"" +
                    missing + "\". \n\tUnexpected key(s) in state_dict: \"" + unexpected + "\". \n");
  };
  EXPECT_THAT(headline(keys("fc.bias", "module.fc.bias")),
              testing::HasSubstr("checkpoint was saved from DataParallel"));
  EXPECT_THAT(headline(keys("module.fc.bias", "fc.bias")), testing::HasSubstr("model is wrapped in DataParallel"));
  EXPECT_THAT(headline(keys("fc.bias", "_orig_mod.fc.bias")), testing::HasSubstr("torch.compile"));
  EXPECT_THAT(headline(keys("fc.bias", "head.bias")), testing::HasSubstr("not this model's"));
  EXPECT_THAT(headline(diagnose(text_of(logs() / "adapter-size.15.log"))), testing::HasSubstr("number of dimensions"));
  EXPECT_THAT(causes(diagnose(text_of(logs() / "bce-shapes.15.log"))).at(0), testing::HasSubstr("squeeze()"));
}

// A learning rate that the log prints, at which few models train, comes first among the causes of a NaN.
TEST(Advice, AHighLearningRateExplainsANaN) {
  const auto nan = [](const std::string& rate) {
    return diagnose("| epoch   1 |   100/ 1200 batches | lr " + rate +
                    " | ms/batch 11.40 | loss   nan | ppl      nan\n" + "| epoch   1 |   200/ 1200 batches | lr " +
                    rate + " | ms/batch 11.40 | loss   nan | ppl      nan\n");
  };
  EXPECT_THAT(causes(nan("20.00")).at(0), testing::HasSubstr("learning rate"));
  EXPECT_THAT(meanings(nan("20.00")).at(0), testing::HasSubstr("the learning rate in the log is 20;"));
  EXPECT_THAT(causes(nan("0.0001")).at(0), testing::Not(testing::HasSubstr("learning rate")));
  EXPECT_TRUE(meanings(nan("0.0001")).empty());
}

// What the log states comes first among the causes.
TEST(Advice, ACauseThatTheLogStatesComesFirst) {
  const std::string warning =
      "torch/utils/checkpoint.py:90: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n";
  const std::string error =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    loss.backward()\n"
      "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n";
  EXPECT_THAT(causes(diagnose(error)).at(0), testing::HasSubstr("All parameters are frozen"));
  EXPECT_THAT(causes(diagnose(warning + error)).at(0), testing::HasSubstr("Gradient checkpointing"));
  std::string zeros;
  for (int i = 1; i < 6; ++i)
    zeros += "{'loss': 1.79, 'grad_norm': 0.0, 'learning_rate': 1e-05, 'epoch': 0." + std::to_string(i) + "}\n";
  EXPECT_THAT(causes(diagnose(zeros)).at(0), testing::HasSubstr("No label counts"));
  EXPECT_THAT(headline(diagnose(warning + zeros)), testing::HasSubstr("gradient checkpointing"));
  for (const char* line : {"trainable params: 0 || all params: 125,922,311 || trainable%: 0.0\n",
                           ">>   Number of trainable parameters = 0\n", "0         Trainable params\n"})
    EXPECT_EQ(name_of(diagnose(line + zeros)), "gradients-frozen") << line;
  EXPECT_EQ(name_of(diagnose("trainable params: 294,912 || all params: 125,922,311 || trainable%: 0.2342\n" + zeros)),
            "gradients-zero");
}

// ROCm has other tools and variables than CUDA.
TEST(Advice, IsAMDsForTheirGpus) {
  const auto all = [](const Diagnosis& d) {
    std::string text = headline(d) + confirmation(d) + command(d);
    for (const auto& list : {causes(d), fixes(d), meanings(d)})
      for (const std::string& line : list) text += line + "\n";
    return text;
  };
  const std::string forward = "Traceback (most recent call last):\n  File \"a.py\", line 1, in forward\n    y = f(x)\n";
  const std::string numbers =
      " out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 23.98 GiB of which 1.00 GiB is free. "
      "Of the allocated memory 12.00 GiB is allocated by PyTorch, and 10.10 GiB is reserved by PyTorch but "
      "unallocated.\n";
  for (const std::string& message :
       {"torch.OutOfMemoryError: HIP" + numbers, std::string("RuntimeError: HIP error: an illegal memory access\n"),
        std::string("RuntimeError: HIP error: unspecified launch failure\n"),
        std::string("RuntimeError: HIP error: hipErrorOutOfMemory: out of memory\n")}) {
    const Diagnosis diagnosis = diagnose(forward + message);
    ASSERT_NE(diagnosis.rule, nullptr) << message;
    const std::string text = all(diagnosis);
    for (const char* name : {"CUDA", "nvidia", "xid", "compute-sanitizer", "Ampere", "--device cuda"})
      EXPECT_THAT(text, testing::Not(testing::HasSubstr(name))) << message;
  }
  EXPECT_THAT(all(diagnose(forward + "RuntimeError: HIP error: an illegal memory access\n")),
              testing::HasSubstr("AMD_SERIALIZE_KERNEL=3"));
  EXPECT_THAT(all(diagnose(forward + "torch.OutOfMemoryError: HIP" + numbers)),
              testing::HasSubstr("PYTORCH_HIP_ALLOC_CONF=max_split_size_mb"));
  // A GPU of NVIDIA beside an AMD processor, or a report that names ROCm as absent.
  const std::string nvidia = "CPU: AMD EPYC 7763\nROCM used to build PyTorch: N/A\n" + forward;
  EXPECT_THAT(all(diagnose(nvidia + "RuntimeError: CUDA error: an illegal memory access was encountered\n")),
              testing::HasSubstr("CUDA_LAUNCH_BLOCKING=1"));
}

}  // namespace
}  // namespace plimsoll::doctor
