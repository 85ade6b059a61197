#include "doctor/argument_news.h"

#include <string>

#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

constexpr std::string_view kToSft =
                               "trl has moved it from SFTTrainer to SFTConfig, and this trl no longer takes it here",
                           kToDpo =
                               "trl has moved it from the trainer to its config (DPOConfig, ORPOConfig, KTOConfig), "
                               "and this trl no longer takes it here",
                           kDropped = "transformers 5 has dropped it",
                           kAges =
                               "accelerate and transformers are of "
                               "different ages: the one passes what "
                               "the other does not take";

// The first row that fits counts.
constexpr ArgumentNews kNews[] = {
    {"evaluation_strategy", "",
     "evaluation_strategy is eval_strategy since transformers 4.41; 4.46 dropped the old name",
     "eval_strategy= in place of evaluation_strategy="},
    {"eval_strategy", "", "eval_strategy came with transformers 4.41; the installed one is older",
     "evaluation_strategy= in place of eval_strategy=, or pip install -U transformers"},
    {"tokenizer", "trainer",
     "tokenizer is processing_class since transformers 4.46 and trl 0.12; newer ones dropped the "
     "old name",
     "processing_class=tokenizer in place of tokenizer=tokenizer"},
    {"processing_class", "", "processing_class came with transformers 4.46 and trl 0.12; the installed one is older",
     "tokenizer= in place of processing_class=, or pip install -U transformers trl"},
    {"max_seq_length", "sfttrainer", kToSft,
     "args=SFTConfig(max_length=N) in newer trl, SFTConfig(max_seq_length=N) in older ones"},
    {"max_seq_length", "sftconfig", "max_seq_length is max_length in newer trl", "SFTConfig(max_length=N)"},
    {"max_length", "sftconfig", "max_length is max_seq_length in older trl, which is installed",
     "SFTConfig(max_seq_length=N), or pip install -U trl"},
    {"dataset_text_field", "sfttrainer", kToSft, "args=SFTConfig(dataset_text_field='text')"},
    {"packing", "sfttrainer", kToSft, "args=SFTConfig(packing=True)"},
    {"dataset_num_proc", "sfttrainer", kToSft, "args=SFTConfig(dataset_num_proc=N)"},
    {"dataset_kwargs", "sfttrainer", kToSft, "args=SFTConfig(dataset_kwargs={…})"},
    {"neftune_noise_alpha", "sfttrainer", kToSft, "args=SFTConfig(neftune_noise_alpha=N)"},
    {"model_init_kwargs", "sfttrainer", kToSft, "args=SFTConfig(model_init_kwargs={…})"},
    {"beta", "trainer", kToDpo, "args=DPOConfig(beta=N)"},
    {"max_prompt_length", "trainer", kToDpo, "args=DPOConfig(max_prompt_length=N)"},
    {"max_length", "trainer", kToDpo, "args=DPOConfig(max_length=N)"},
    {"loss_type", "trainer", kToDpo, "args=DPOConfig(loss_type='sigmoid')"},
    {"no_cuda", "", "no_cuda is use_cpu since transformers 4.34; newer ones dropped the old name",
     "use_cpu=True in place of no_cuda=True"},
    {"use_cpu", "", "use_cpu came with transformers 4.34; the installed one is older", "no_cuda=True"},
    {"num_items_in_batch", "compute_loss",
     "the Trainer passes num_items_in_batch to compute_loss since transformers "
     "4.46, and the method that overrides it does not take it",
     "def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None)"},
    {"overwrite_output_dir", "", kDropped,
     "leave overwrite_output_dir out; remove the directory where it is in the way"},
    {"logging_dir", "", kDropped, "leave logging_dir out, and set TENSORBOARD_LOGGING_DIR in the environment"},
    {"warmup_ratio", "", kDropped,
     "warmup_steps= in place of warmup_ratio= (a number below 1 is a share of all steps)"},
    {"group_by_length", "", kDropped, "train_sampling_strategy='group_by_length'"},
    {"save_safetensors", "", kDropped, "leave save_safetensors out: weights are always saved so"},
    {"push_to_hub_token", "", kDropped, "hub_token= in place of push_to_hub_token="},
    {"per_gpu_train_batch_size", "", kDropped, "per_device_train_batch_size= in place of per_gpu_train_batch_size="},
    {"dispatch_batches", "", kAges,
     "pip install -U transformers accelerate together; in code of your own "
     "DataLoaderConfiguration(dispatch_batches=…)"},
    {"split_batches", "", kAges,
     "pip install -U transformers accelerate together; in code of your own DataLoaderConfiguration(split_batches=…)"},
    {"even_batches", "", kAges, "pip install -U transformers accelerate together"},
    {"use_seedable_sampler", "", kAges, "pip install -U transformers accelerate together"},
    {"keep_torch_compile", "", kAges, "pip install -U transformers accelerate together"},
};

}  // namespace

const ArgumentNews* argument_news(std::string_view message) {
  constexpr std::string_view kWords = "got an unexpected keyword argument '";
  const std::string small = to_small_letters(message);
  const std::size_t at = small.find(kWords);
  if (at == std::string::npos) return nullptr;
  const std::string_view callee = std::string_view(small).substr(0, at);
  std::string_view argument = std::string_view(small).substr(at + kWords.size());
  argument = argument.substr(0, argument.find('\''));
  for (const ArgumentNews& news : kNews)
    if (argument == news.argument && callee.find(news.callee) != std::string_view::npos) return &news;
  return nullptr;
}

}  // namespace plimsoll::doctor
