// What PyTorch, peft, trl and DeepSpeed refuse because of how a script uses them.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> usage_rules() {
  return {
      {.name = "unbound-variable",
       .when = {"referenced before assignment", "cannot access local variable", "cannot access free variable"},
       .refines = {"worker-exception"},
       .what = "code uses a variable that it never set on this path",
       .cause =
           "The branch or loop that sets it did not run: an empty loop (no batch, no file), a setting or option that "
           "has no branch of its own\n"
           "An exception before it was caught, and the code went on\n"
           "A fault in this version of the library, if the code is a library's",
       .confirm = "the condition around the variable's first assignment, and what it is in this run",
       .fix = "give it a value before the branch, or a branch for this case\n"
              "see that the data or option is one that the code provides for\n"
              "a newer version of the library, or the one that the script was written for"},
      {.name = "super-init",
       .when = {"has no attribute 'prepare_data_per_node'", "has no attribute '_log_hyperparams'",
                "has no attribute 'allow_zero_length_dataloader_with_multiple_devices'",
                "before module.__init__() call", "has no attribute '_backward_hooks'", "has no attribute '_modules'"},
       .refines = {"attribute-missing"},
       .what = "a module's or data module's own __init__ does not call that of its class",
       .cause = "super().__init__() is missing in __init__, or comes after the first attribute is set\n"
                "The class is derived from another package's class: lightning and pytorch_lightning are not the same",
       .confirm = "the __init__ of the class that the message names: its first line; which of lightning and "
                  "pytorch_lightning is imported where",
       .fix = "super().__init__() first in __init__\n"
              "import lightning.pytorch, or pytorch_lightning, in all files: not both"},
      {.name = "tensor-as-condition",
       .when = {"boolean value of tensor with more than one value is ambiguous",
                "boolean value of tensor with no values is ambiguous",
                "the truth value of an array with more than one element is ambiguous"},
       .what = "a tensor or array of several values stands where one yes or no is wanted",
       .cause = "if tensor:, tensor1 == tensor2 in a condition, `in` or `or` over a list of tensors\n"
                "A loss class was called as its constructor: CrossEntropyLoss(output, target) in place of "
                "CrossEntropyLoss()(output, target)",
       .confirm = "the condition in that line",
       .fix = "is not None, .any(), .all() or .item()\n"
              "criterion = CrossEntropyLoss(); criterion(output, target)"},
      {.name = "zero-ranks",
       .when = {"the checkpoint being loaded used a dp world size of", "changing tp and dp world size",
                "was saved with*ranks*loaded with", "zero checkpoint*different world size"},
       .refines = {"state-dict"},
       .what = "a ZeRO checkpoint is resumed by another number of ranks than it was saved by",
       .cause =
           "Its optimizer state is cut into as many pieces as there were ranks, and DeepSpeed does not cut it anew",
       .confirm = "the two numbers in the message; ls the checkpoint's directory: one file of optimizer states a rank",
       .fix = "resume with as many ranks as before\n"
              "DeepSpeed's universal checkpoints: ds_to_universal.py, then \"load_universal\": true\n"
              "zero_to_fp32.py makes one file of weights to start afresh from, without the optimizer's state",
       .command = "plimsoll train --resume-from-checkpoint takes any number of processes"},
      {.name = "pin-cuda",
       .when = {"cannot pin 'torch.cuda", "cannot pin 'cuda", "only dense cpu tensors can be pinned"},
       .what = "the data loader was to pin tensors that already lie on the GPU",
       .cause =
           "The data set or the collator moves samples to the GPU, and pin_memory=True pins what lies in the host's "
           "memory\n"
           "torch.set_default_device('cuda') (or set_default_tensor_type) makes every new tensor on the GPU",
       .confirm = "sample['input_ids'].device of dataset[0]",
       .fix = "leave samples on the CPU, and move the batch in the loop (the Trainer does)\n"
              "pin_memory=False (dataloader_pin_memory=False of TrainingArguments)"},
      {.name = "generator-device",
       .when = {"expected a 'cuda' device type for generator but found 'cpu'",
                "expected a 'cpu' device type for generator but found 'cuda'", "device type for generator but found",
                "expected a*generator*but found"},
       .refines = {"device-mismatch"},
       .what = "random numbers are drawn for one device with another device's generator",
       .cause =
           "torch.set_default_device('cuda') or set_default_tensor_type('torch.cuda.FloatTensor') is on: the data "
           "loader then shuffles on the GPU with a generator of the CPU\n"
           "A generator was made without device= and is given to a function on the GPU (diffusers: latents), or the "
           "other way round",
       .confirm = "torch.get_default_device(); generator.device",
       .fix = "take the default device or tensor type out, and .to(device) what should be there\n"
              "DataLoader(…, generator=torch.Generator(device='cuda')), or torch.Generator(device=device) where it is "
              "used"},
      {.name = "preference-columns",
       .when = {"keyerror: 'prompt'", "keyerror: 'chosen'", "keyerror: 'rejected'", "keyerror: 'completion'",
                "keyerror: 'prompt_input_ids'", "keyerror: 'chosen_input_ids'", "keyerror: 'input_ids_chosen'",
                "keyerror: 'rejected_input_ids'"},
       .with = {{"trl/trainer", "trl\\trainer", "dpotrainer", "rewardtrainer", "orpotrainer", "kto", "grpotrainer",
                 "reward_trainer", "dpo_trainer"}},
       .refines = {"column-missing", "field-missing", "key-missing", "label-name"},
       .what = "trl's trainer does not find the columns that it trains on (prompt, chosen, rejected, completion)",
       .cause =
           "The data set names them otherwise, or has another form: DPO, ORPO and reward models want prompt, chosen "
           "and rejected, KTO prompt, completion and label, GRPO prompt\n"
           "The columns were removed before: remove_unused_columns=True, or a map() with remove_columns\n"
           "trl and the script are of different ages: older versions wanted the columns tokenized by the script",
       .confirm = "print(dataset.column_names, dataset[0])",
       .fix = "dataset.rename_columns({…}) to the names that the trainer wants, in texts or in messages throughout\n"
              "remove_unused_columns=False in its config\n"
              "the form that the installed trl's documentation shows: pip show trl"},
      {.name = "adapter-twice",
       .when = {"adapter with name*already exists", "adapter*already exists. please use a different name",
                "tried to load*adapter*already"},
       .what = "an adapter of that name is already part of the model",
       .cause = "get_peft_model, add_adapter or load_adapter ran twice on one model: a notebook's cell that was run "
                "again, or a trainer that gets peft_config besides a model that has adapters",
       .confirm = "list(model.peft_config)",
       .fix = "load the base model anew before adapters are added\n"
              "peft_config to the trainer, or get_peft_model before it, not both\n"
              "another adapter_name, where several are meant"},
      {.name = "quantised-saved",
       .when = {"calling `save_pretrained` on a 4-bit", "calling `save_pretrained` to a 8-bit",
                "cannot merge lora layers when the model is loaded in 8-bit",
                "cannot merge lora layers when the model is loaded in 4-bit",
                "cannot merge lora layers when the model is gptq", "you are calling `save_pretrained` on*quantized",
                "is not serializable and cannot be saved"},
       .what = "weights that are quantised cannot be saved or merged as they are",
       .cause = "The model was loaded in 4 or 8 bits, and this version of bitsandbytes, transformers or peft does not "
                "write or merge such weights\n"
                "The whole model is saved where only its adapters need be",
       .confirm = "model.is_loaded_in_4bit, model.is_loaded_in_8bit; type(model)",
       .fix =
           "save the adapters alone: PeftModel.save_pretrained\n"
           "to merge, load the base model in bf16 or fp16, PeftModel.from_pretrained on it, then merge_and_unload()\n"
           "pip install -U transformers peft bitsandbytes"},
      {.name = "padding-side",
       .when = {"batched generation with padding_side='right'", "a decoder-only architecture is being used, but right-",
                "padding_side='right' this may lead to unexpected"},
       .what = "a decoder's batch is padded on the right, where it generates from the end",
       .cause = "The tokenizer pads on the right, its setting for training; with flash attention and a cache that is "
                "refused, else the answers are of poor quality",
       .confirm = "tokenizer.padding_side",
       .fix = "tokenizer.padding_side = 'left' for generation (evaluation with predict_with_generate)\n"
              "use_cache=False in training, where nothing is generated"},
      {.name = "samples-invalid",
       .when = {"cannot find valid samples", "no valid samples found", "there are no valid samples",
                "no valid data found", "found no valid samples"},
       .what = "no sample of the data set could be used",
       .cause =
           "The columns are not those that its description names (dataset_info.json: formatting, columns, tags), so "
           "that every sample is left out\n"
           "All samples are longer than the limit, or lack an answer",
       .confirm = "one sample beside the description; the tool's warnings above about samples that were dropped",
       .fix = "name the columns and the format (alpaca, sharegpt) as the data have them\n"
              "a larger cutoff_len or max_length"},
      {.name = "deepcopy-graph",
       .when = {"only tensors created explicitly by the user*support the deepcopy protocol"},
       .what = "a tensor that was computed with gradients is copied with deepcopy",
       .cause =
           "A module or a configuration keeps a result of forward as an attribute (a loss, hidden states), and the "
           "model is copied for EMA, a checkpoint or another process",
       .confirm = "[n for n, v in vars(module).items() if torch.is_tensor(v) and v.grad_fn is not None]",
       .fix = "keep .detach().clone() of it, or nothing, in the module\n"
              "copy the state_dict instead of the module"},
      {.name = "prefetch-workers",
       .when = {"prefetch_factor option could only be specified in multiprocessing",
                "persistent_workers option needs num_workers > 0", "timeout option should be*num_workers"},
       .what = "an option of worker processes was given to a data loader that has none",
       .cause = "num_workers is 0, and prefetch_factor, persistent_workers or timeout is set",
       .confirm = "dataloader_num_workers in the arguments",
       .fix = "num_workers=2 or more (dataloader_num_workers)\n"
              "or leave prefetch_factor and persistent_workers out"},
      {.name = "padding-index",
       .when = {"padding_idx must be within num_embeddings"},
       .what = "the padding token's id lies outside the embedding's table",
       .cause =
           "pad_token_id of the configuration is not below vocab_size: a padding token was added to the tokenizer, and "
           "the model is built before resize_token_embeddings\n"
           "vocab_size of the configuration was taken from another tokenizer",
       .confirm = "config.pad_token_id, config.vocab_size, len(tokenizer)",
       .fix = "config.vocab_size = len(tokenizer) where a model is built anew, and resize_token_embeddings for one "
              "that is "
              "loaded\n"
              "tokenizer.pad_token = tokenizer.eos_token instead of a new token, with config.pad_token_id the same"},
      {.name = "environment-inactive",
       .when = {"modulenotfounderror: no module named", "importerror: no module named"},
       .anywhere = {{"conda: command not found", "condaerror: run 'conda init'", "mamba: command not found",
                     "micromamba: command not found", "activate: no such file or directory",
                     "your shell has not been properly configured to use 'conda activate'",
                     "unable to locate a modulefile", "module: command not found", "couldn't find activate",
                     "environmentnamenotfound", "could not find conda environment", "source: not found"}},
       .refines = {"module-missing", "command-missing", "own-module"},
       .what = "the environment was not activated, and the Python that ran instead lacks the package",
       .cause =
           "The job's shell does not know conda or the module that it is told to load: it reads no .bashrc, or the "
           "path or the name is another one on this machine\n"
           "The environment was removed, or made by another user",
       .confirm = "the line quoted above the error; which python in the same script",
       .fix =
           "source PATH/etc/profile.d/conda.sh (or eval \"$(conda shell.bash hook)\") before conda activate NAME, and "
           "set -e, so that the job ends there\n"
           "or call the environment's Python by its path: PATH/envs/NAME/bin/python train.py\n"
           "#!/bin/bash -l at the script's head, where modules are loaded"},
      {.name = "checkpoint-frozen-output",
       .when = {"none of output has requires_grad=true, this checkpoint() is not necessary"},
       .refines = {"checkpoint-frozen-input"},
       .what =
           "reentrant gradient checkpointing wraps a block in which nothing trains, and backward has no graph there",
       .cause =
           "Everything in that block is frozen (a vision tower, the lower layers, a model without its adapters), or "
           "its input needs no gradients: with adapters the embeddings are frozen\n"
           "Forward of that block runs under no_grad, or detaches its output\n"
           "The adapters' target modules lie outside the blocks that are checkpointed",
       .confirm = "[n for n, p in model.named_parameters() if p.requires_grad]; which module calls checkpoint()",
       .fix = "gradient_checkpointing_kwargs={'use_reentrant': False}\n"
              "model.enable_input_require_grads() after the adapters are added\n"
              "gradient_checkpointing_disable() on the part that is frozen, or checkpointing off",
       .command = "plimsoll train --lora-rank 8 or --freeze PATTERN recomputes correctly"},
      {.name = "integers-in-layer",
       .when = {"same dtype, but got long and",
                "same dtype, but got int and",
                "same dtype, but got short and",
                "same dtype, but got byte and",
                "same dtype, but got bool and",
                "same dtype, but got char and",
                "same dtype, but got: long int !=",
                "same dtype, but got: long long !=",
                "same dtype, but got: __int64 !=",
                "same dtype, but got: int !=",
                "same dtype, but got: unsigned char !=",
                "same dtype, but got: bool !=",
                "input type (torch.cuda.longtensor) and",
                "input type (torch.longtensor) and",
                "input type (torch.cuda.inttensor) and",
                "input type (torch.inttensor) and",
                "input type (torch.cuda.bytetensor) and",
                "input type (torch.bytetensor) and",
                "input type (torch.cuda.booltensor) and",
                "input type (unsigned char) and",
                "input type (long int) and",
                "input type (long long) and",
                "input type (__int64) and",
                "input type (int) and",
                "input type (bool) and",
                "expected m1 and m2 to have the same dtype, but got: long"},
       .refines = {"dtype-mismatch", "label-dtype"},
       .what = "whole numbers were fed to a layer whose weights are floats",
       .cause = "Token ids (or class numbers) go straight into a linear layer or a convolution: the embedding in front "
                "of it is missing, or was skipped\n"
                "Images are still bytes (0 to 255), or a mask or features are whole numbers: nothing made them floats\n"
                "torch.tensor of a list of whole numbers, or torch.randint as an input for a test",
       .confirm = "print {k: v.dtype for k, v in batch.items()} beside what the first layer is",
       .fix = "ids through nn.Embedding (the model's own forward with input_ids), or F.one_hot(ids, n).float()\n"
              "images: ToTensor() or .float() / 255; features and masks: x.float(), or x.to(layer.weight.dtype)\n"
              "torch.tensor(values, dtype=torch.float32)",
       .tellings = {{.when = {"got byte and", "unsigned char", "bytetensor) and"},
                     .cause = "Images are still bytes",
                     .fix = "images: ToTensor()"},
                    {.when = {"got bool and", "(bool)", "bool !=", "booltensor) and"},
                     .cause = "Images are still bytes",
                     .fix = "images: ToTensor()"}}},
      {.name = "quantised-in-layer",
       .when = {"same dtype, but got float and byte", "same dtype, but got half and byte",
                "same dtype, but got bfloat16 and byte", "same dtype, but got float and char",
                "same dtype, but got half and char", "same dtype, but got bfloat16 and char", "and float8_e4m3fn",
                "and float8_e5m2", "and weight type (torch.cuda.chartensor)",
                "and weight type (torch.cuda.bytetensor)"},
       .with = {{"dtype", "same", "type"}},
       .refines = {"dtype-mismatch"},
       .what = "a layer's weights are codes of 4 or 8 bits, and it multiplies them as if they were numbers",
       .cause = "The weights are quantised (bitsandbytes, FP8), and the layer was replaced, wrapped or called past the "
                "kernel that decodes them: F.linear(x, layer.weight), a merge of adapters, a copy of the module\n"
                "peft, bitsandbytes or the program that loads the file does not know this kind of quantised layer",
       .confirm = "type(layer), layer.weight.dtype of the layer that the traceback names",
       .fix = "call the layer itself (layer(x)), and add adapters with get_peft_model after quantisation\n"
              "pip install -U bitsandbytes peft transformers\n"
              "load the weights in bf16 or fp16, or dequantize() the layer"},
      {.name = "heads-divide",
       .when = {"must be divisible by num_heads", "must be divisible by `num_heads`",
                "is not a multiple of the number of attention heads", "hidden_size must be divisible by",
                "embed_dim must be divisible by", "d_model*must be divisible by"},
       .refines = {"length-assert"},
       .what = "the hidden size does not divide into the attention heads",
       .cause = "hidden_size (d_model, embed_dim) or num_attention_heads was changed alone in the configuration\n"
                "A configuration of one model is read for another one",
       .confirm = "config.hidden_size % config.num_attention_heads",
       .fix = "heads that divide the hidden size: 768 into 12, 1,024 into 16\n"
              "the model's own configuration: from_pretrained"},
      {.name = "vllm-adapter-rank",
       .when = {"is greater than max_lora_rank"},
       .what = "the adapter's rank is larger than vLLM was started for",
       .cause = "vLLM keeps room for adapters of rank 16 unless told otherwise",
       .confirm = "r in the adapter's adapter_config.json, against max_lora_rank",
       .fix = "max_lora_rank=64 (--max-lora-rank 64) for an adapter of rank 64\n"
              "merge the adapter into its base, and serve that"},
  };
}

}  // namespace plimsoll::doctor
