// Models, checkpoints, compilation; and Plimsoll's own refusals.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> model_rules() {
  return {
      {.name = "shared-tensors",
       .when = {"some tensors share memory", "trying to save a non contiguous tensor",
                "were not properly saved*shared tensors", "contained shared tensors"},
       .what = "safetensors does not save tensors that share memory",
       .cause = "Tied weights (embedding and output) or views were passed as a plain dictionary to safetensors\n"
                "A class of your own does not name its tied weights (_tied_weights_keys), or the versions of "
                "transformers and accelerate do not belong together",
       .confirm = "the message names the tensors",
       .fix = "save_safetensors=False in TrainingArguments (safe_serialization=False in save_pretrained)\n"
              "model.save_pretrained, or safetensors.torch.save_model(model, path)\n"
              ".contiguous().clone() for views\n"
              "pip install -U transformers accelerate safetensors"},
      {.name = "resume-mismatch",
       .when = {"parameter group that doesn't match the size of optimizer's group",
                "different number of parameter groups", "the checkpoint's optimizer state does not fit",
                "the checkpoint holds the state of another optimizer"},
       .refines = {"plimsoll-error"},
       .what = "the checkpoint's optimizer state is of another set of parameters",
       .cause = "Layers were frozen, added or split into other groups since, or another optimizer is used",
       .confirm = "compare the count of trained parameters now and then",
       .fix = "the same layers frozen, adapters, groups and optimizer as the run that wrote it\n"
              "begin afresh from its weights, without the optimizer's state (no resume_from_checkpoint)",
       .command = "plimsoll train --resume-from-checkpoint checks this before the first step"},

      {.name = "lora-targets",
       .when = {"target modules*not found in the base model", "please specify `target_modules`",
                "please specify target_modules in", "target module*is not supported",
                "no modules were targeted for adaptation"},
       .what = "the adapters' target modules are not layers of this model",
       .cause =
           "Names of another architecture: q_proj and v_proj are Llama's and its kin's, c_attn GPT-2's, query, key and "
           "value LayoutLMv3's and BERT's\n"
           "Whole names (model.layers.0.self_attn.q_proj) of the same model in another class: AutoModel has no "
           "\"model.\" before them that AutoModelForCausalLM has, a multimodal class has more",
       .confirm = "[n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)] against the names in the "
                  "message or in adapter_config.json",
       .fix = "names that this model has, by their last part (['query', 'value']), or 'all-linear'\n"
              "for an adapter that exists, the class that it was trained on (AutoModelFor…) before "
              "PeftModel.from_pretrained",
       .command = "plimsoll train --lora-rank 8 knows the layers"},
      {.name = "lora-targets-empty",
       .when = {"target modules [] not found", "target modules set() not found", "target modules {} not found"},
       .refines = {"lora-targets"},
       .what = "the list of the adapters' target modules is empty",
       .cause =
           "The code that collects the names of linear layers found none: it looks for layers of another class "
           "(bitsandbytes' Linear4bit or Linear8bitLt) than the model has, which was not quantised, or was quantised "
           "otherwise",
       .confirm = "{type(m).__name__ for m in model.modules()}",
       .fix = "name the layers, LoraConfig(target_modules=['query', 'value']), or pass 'all-linear'; or load the model "
              "with the quantisation that the code expects",
       .command = "plimsoll train --lora-rank 8 knows the layers"},
      {.name = "prompt-embeds",
       .when = {"typeerror:*nonetype", "attributeerror: 'nonetype' object has no attribute",
                "valueerror: you have to specify input_ids"},
       .with = {{"base_model(inputs_embeds=inputs_embeds", "base_model( inputs_embeds=inputs_embeds"}},
       .refines = {"unexpected-input", "worker-exception"},
       .what = "prompt tuning gives the model embeddings in place of input_ids, and this model needs input_ids",
       .cause = "peft's prompt and p-tuning put learnt embeddings before the text's and call the model with "
                "inputs_embeds alone; a forward that makes something of input_ids (Longformer's global attention mask, "
                "positions, the last token of a classifier) then finds None",
       .confirm = "the last frame's line uses input_ids; type(peft_config)",
       .fix = "LoraConfig in place of PromptTuningConfig or PromptEncoderConfig\n"
              "pass what the model makes of input_ids yourself (global_attention_mask, position_ids), as long as the "
              "virtual tokens and the text together\n"
              "another model, or a newer transformers and peft"},
      {.name = "translation-language",
       .when = {"typeerror: ", "keyerror: ", "valueerror: translation requires a `src_lang`",
                "attributeerror: 'nonetype'"},
       .with = {{"set_tgt_lang_special_tokens", "set_src_lang_special_tokens", "_switch_to_target_mode",
                 "_switch_to_input_mode", "_build_translation_inputs", "lang_code_to_id[", "lang_code_to_token[",
                 "in get_lang_token", "in get_lang_id"}},
       .refines = {"column-missing", "worker-exception", "label-unknown", "tokenizer-input", "tokenizer-output"},
       .what = "the translation tokenizer's language is not set, or it does not know that language's code",
       .cause = "NLLB's, mBART's and M2M100's tokenizers put a token for the language before or after each text, and "
                "src_lang or tgt_lang is None: text_target needs tgt_lang\n"
                "The code is another family's: NLLB wants eng_Latn, mBART en_XX, M2M100 en",
       .confirm = "print(tokenizer.src_lang, tokenizer.tgt_lang); the codes in tokenizer.additional_special_tokens",
       .fix =
           "AutoTokenizer.from_pretrained(NAME, src_lang='eng_Latn', tgt_lang='spa_Latn'), or tokenizer.src_lang = … "
           "and tokenizer.tgt_lang = … before it is called\n"
           "the code as this tokenizer spells it; forced_bos_token_id of the target language in generate"},
      {.name = "best-metric",
       .when = {"the `metric_for_best_model` training argument is set to", "keyerror: 'eval_"},
       .what = "the metric that picks the best checkpoint is not among those that the evaluation returns",
       .cause = "compute_metrics returns it under another name: eval_f1 against eval_overall_f1\n"
                "There is no eval_loss, for the batches have no labels (or under another name)\n"
                "Several evaluation sets, whose metrics bear their names",
       .confirm = "the message, or the line that the last evaluation printed, lists the names",
       .fix = "metric_for_best_model as one of those names\n"
              "label_names=['labels'] if eval_loss is missing"},
      // When training itself fails, Lightning raises this while it handles that failure.
      {.name = "monitor-missing",
       .when = {"modelcheckpoint(monitor=*not found", "modelcheckpoint(monitor=*could not find the monitored key",
                "early stopping conditioned on metric", "reducelronplateau conditioned on metric"},
       .without_anywhere = {"during handling of the above exception"},
       .what = "the metric that Lightning's callback watches is not logged",
       .cause = "self.log gives it another name (val_loss, val/loss, valid_loss), or does not log it at all\n"
                "No validation loop runs (no val_dataloader, limit_val_batches=0), or not before the callback looks\n"
                "It is logged with on_step only, or under a suffix: NAME_epoch",
       .confirm = "the message lists the metrics that are logged",
       .fix = "monitor= as one of the names that the message lists\n"
              "self.log('val_loss', …) in validation_step\n"
              "check_val_every_n_epoch and the callback's every_n_epochs alike; "
              "EarlyStopping(check_on_train_epoch_end=False)"},
      {.name = "best-model-strategy",
       .when = {"load_best_model_at_end requires the sav"},
       .what = "load_best_model_at_end wants evaluations and checkpoints at the same steps",
       .cause = "eval_strategy and save_strategy differ, or save_steps is no multiple of eval_steps",
       .confirm = "the two values in the message",
       .fix = "eval_strategy = save_strategy: 'epoch', or 'steps' with save_steps a multiple of eval_steps\n"
              "load_best_model_at_end=False"},
      {.name = "no-eval-data",
       .when = {"evaluation requires an eval_dataset", "but you didn't pass an `eval_dataset`"},
       .what = "an evaluation was asked for without data for it",
       .cause = "eval_strategy is set, but eval_dataset is None",
       .confirm = "trainer.eval_dataset is None",
       .fix = "Trainer(eval_dataset=…)\n"
              "eval_strategy='no' (and no load_best_model_at_end, no early stopping)"},
      {.name = "output-not-empty",
       .when = {"output directory*already exists and is not empty"},
       .what = "the output directory already holds another run",
       .cause = "The script does not write over what it finds, and found no checkpoint to go on from",
       .confirm = "ls the directory in the message",
       .fix = "another output_dir; --overwrite_output_dir, if nothing there is needed; or resume from its checkpoint"},
      {.name = "json-type",
       .when = {"is not json serializable"},
       .what = "something that JSON cannot hold is saved as JSON",
       .cause = "A NumPy number (int64 in id2label, float32 among metrics), a tensor, a path or a type in a config",
       .confirm = "the message names the type; which dictionary was being written?",
       .fix = "int(x), float(x), x.tolist() or str(x) where it is made: label2id = {name: int(i) for …}\n"
              "json.dump(…, default=str), where it is your own file"},
      {.name = "tokenizer-borrowed",
       .when = {"runtimeerror: already borrowed"},
       .refines = {"worker-exception"},
       .what = "two threads used one fast tokenizer at once",
       .cause = "Truncation or padding is set anew by a call while another thread's call runs",
       .confirm = "it goes away with one thread",
       .fix = "a tokenizer of its own for each thread (copy.deepcopy), or processes instead of threads\n"
              "a lock around its calls; no padding or truncation that changes from call to call"},
      {.name = "no-checkpoint",
       .when = {"no such file or directory: '*trainer_state.json'", "can't find a valid checkpoint at",
                "len(self.ckpt_list)", "no valid checkpoint was found",
                "no valid checkpoint found in output directory"},
       .what = "there is no checkpoint to resume from",
       .cause = "The directory is another one than the last run's, or relative to another working directory\n"
                "No checkpoint was saved: save_strategy='no', or the run ended before save_steps\n"
                "The last one was cut short, or is of another format or number of ranks",
       .confirm = "ls -l OUTPUT/checkpoint-*",
       .fix = "resume_from_checkpoint='OUTPUT/checkpoint-N', with a path that exists\n"
              "start without resume_from_checkpoint\n"
              "a smaller save_steps; the checkpoint before, if the last one is cut short"},
      {.name = "no-parameters",
       .when = {"optimizer got an empty parameter list",
                "is not needed when a module doesn't have any parameters that require a gradient"},
       .what = "nothing is left to train: the model or the optimizer has no parameters that train",
       .cause =
           "Everything is frozen, or adapters were loaded without is_trainable=True\n"
           "Layers stand in a plain list or dictionary, not in nn.ModuleList, so that the model has no parameters\n"
           "A generator of parameters was used up before, or a filter by name matches nothing",
       .confirm = "sum(p.requires_grad for p in model.parameters()); len(list(model.parameters()))",
       .fix = "unfreeze a part, or PeftModel.from_pretrained(…, is_trainable=True)\n"
              "nn.ModuleList for layers; list(model.parameters())\n"
              "correct the filter of names",
       .command = "plimsoll train --freeze PATTERN says what is left to train"},
      {.name = "wrapped-model",
       .when = {"'dataparallel' object has no attribute", "'distributeddataparallel' object has no attribute",
                "'fullyshardeddataparallel' object has no attribute"},
       .what = "an attribute of the model is asked of its parallel wrapper",
       .cause =
           "DataParallel and its kin have forward only; the model itself is their .module. Several visible GPUs make "
           "the Trainer wrap without being asked",
       .confirm = "type(model)",
       .fix = "model.module.NAME, or accelerator.unwrap_model(model).NAME\n"
              "CUDA_VISIBLE_DEVICES=0 to use one GPU\n"
              "getattr(model, 'module', model) where it may be either"},
      {.name = "lightning-notebook-cuda",
       .when = {"lightning can't create new processes if cuda is already initialized"},
       .what = "CUDA was used in a notebook before Lightning forked its processes",
       .cause = "A model or tensor on the GPU, or torch.cuda.is_available() in some versions, in an earlier cell",
       .confirm = "it passes with devices=1, or after a restart without that cell",
       .fix = "restart the kernel and let the Trainer be the first to use the GPU; or devices=1; or a script"},
      {.name = "size-overflow",
       .when = {"storage size calculation overflowed", "trying to create tensor with negative dimension"},
       .what = "a tensor was asked for whose size is no possible one: negative, or too large to count",
       .cause =
           "A count that a kernel returned overflowed 32 bits: too many points, boxes, Gaussians, tokens or edges at "
           "once\n"
           "Values became NaN or huge before: the run diverged, and sizes are computed from them\n"
           "A length or number of classes is computed wrongly: a difference below zero, an empty input",
       .confirm = "the numbers in the message, and what they are computed from; are the values before it finite?",
       .fix = "fewer or smaller inputs at once\n"
              "a lower learning rate, or a limit on what grows (points, Gaussians)\n"
              "correct the arithmetic of the size"},
      {.name = "head-is-new",
       .level = Level::kNote,
       .when = {"were not initialized from the model checkpoint", "and are newly initialized",
                "were not used when initializing", "you should probably train this model on a down-stream task"},
       .usual = true,
       .what = "weights that the checkpoint does not hold were made afresh, as before every first fine-tuning",
       .cause = "The head for this task is not part of a pretrained model\n"
                "Where other layers than the head are named, the checkpoint is another architecture's",
       .confirm = "the names in the message: classifier, score and qa_outputs are heads",
       .fix = "nothing, before fine-tuning; to predict, load the fine-tuned model's directory"},
      {.name = "tokenizers-fork",
       .level = Level::kNote,
       .when = {"process just got forked, after parallelism has already been used"},
       .what = "the tokenizer was used before worker processes were forked",
       .cause = "Harmless by itself; the tokenizer goes on with one thread",
       .confirm = "the warning goes away with num_workers=0",
       .fix = "TOKENIZERS_PARALLELISM=false"},
  };
}

std::vector<Rule> own_rules() {
  return {
      {.name = "plimsoll-budget",
       .when = {"the run does not fit the memory budget", "the machine does not give the memory that the plan needs"},
       .refines = {"plimsoll-error"},
       .what = "Plimsoll refused the run: it does not fit the budget",
       .cause = "The smallest plan needs more than --budget allows; nothing was allocated",
       .confirm = "the itemised plan in the message",
       .fix = "what the message lists under \"to do\", cheapest first",
       .command = "plimsoll plan --sweep shows what more memory would bring"},
      {.name = "plimsoll-diverged",
       .when = {"the loss or the gradients are no longer finite"},
       .refines = {"plimsoll-error", "nan-loss", "nan-diverged", "nan-overflow", "nan-at-start"},
       .what = "Plimsoll stopped because the loss or the gradients are no longer finite",
       .cause = "The learning rate is too high, or half precision overflowed; the message names the first tensor, its "
                "layer and its pages",
       .confirm = "the same update in F32, or with a tenth of the learning rate",
       .fix = "--learning-rate smaller, --warmup-ratio 0.1, --bf16 instead of --fp16; the last checkpoint is finite",
       .command = "plimsoll train --resume-from-checkpoint DIR --learning-rate …"},
      {.name = "plimsoll-internal",
       .when = {"this is a bug in plimsoll"},
       .refines = {"plimsoll-error"},
       .what = "a bug in Plimsoll",
       .cause = "An invariant of the program does not hold",
       .confirm = "the same command fails again",
       .fix = "report it with the command and this log"},
      {.name = "plimsoll-error",
       .when = {"^to do:*"},
       .anywhere = {{"^error: "}},
       .what = "Plimsoll refused or stopped, and says why itself",
       .cause = "The line that begins with \"error:\" says what, the lines below it where, what was found and what is "
                "allowed",
       .confirm = "exit codes: 2 options, 3 data, 4 budget, 5 machine, 6 diverged",
       .fix = "what stands after \"to do:\""},
  };
}

}  // namespace plimsoll::doctor
