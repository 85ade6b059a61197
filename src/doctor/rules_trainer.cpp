// How a run is set up: the Trainer's and launchers' arguments, DeepSpeed's and FSDP's configuration.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> trainer_rules() {
  return {
      {.name = "step-without-loss",
       .when = {"returns a dict, the 'loss' key needs to be present", "training_step` must return",
                "'loss' key needs to be present"},
       .what = "Lightning's training_step returned a dictionary without 'loss'",
       .cause = "The key has another name: train_loss, total_loss, nll\n"
                "The loss is logged and not returned, or only on one branch",
       .confirm = "the return of training_step",
       .fix = "return loss, or {'loss': loss, …}\n"
              "return None to skip a batch; automatic_optimization = False, where the step itself calls backward"},
      {.name = "checkpoint-callback",
       .when = {"modelcheckpoint(*is not a valid configuration",
                "invalid value for save_last=", "is not a valid configuration. you can save the"},
       .what = "Lightning's ModelCheckpoint got arguments that do not go together",
       .cause = "save_last or save_top_k without a metric to monitor, in a version that does not allow it\n"
                "The script was written for another version of Lightning",
       .confirm = "the arguments in the message; pip show lightning pytorch-lightning",
       .fix = "monitor='val_loss' with save_top_k, or save_top_k=1 with monitor=None and no save_last\n"
              "the version of Lightning that the script was written for"},
      {.name = "schedule-empty",
       .when = {"expected positive integer total_steps, but got", "expected positive total_steps, but got",
                "expected positive integer steps_per_epoch, but got", "expected positive integer epochs, but got"},
       .what = "the learning rate's schedule was made for no steps",
       .cause =
           "The data loader is empty: no data, or fewer samples than a batch with drop_last\n"
           "Epochs or steps are 0, or a fraction that was rounded down (steps divided by accumulation or processes)",
       .confirm = "len(dataloader), epochs, accumulation steps",
       .fix = "see why the loader is empty; drop_last=False, or a smaller batch\n"
              "max(1, …) where steps are divided"},
      {.name = "decoder-inputs",
       .when = {"you have to specify either decoder_input_ids or decoder_inputs_embeds",
                "decoder_start_token_id` or `bos_token_id` has to be defined"},
       .what = "an encoder-decoder model has nothing to begin its output with",
       .cause =
           "labels are not in the batch, so that no decoder inputs are made of them: the collator or remove_columns "
           "dropped them, or they have another name\n"
           "decoder_start_token_id and pad_token_id of a VisionEncoderDecoder or EncoderDecoder model were never set",
       .confirm = "batch.keys(); model.config.decoder_start_token_id",
       .fix =
           "pass labels (or decoder_input_ids)\n"
           "model.config.decoder_start_token_id = tokenizer.cls_token_id (or bos), and pad_token_id, before training\n"
           "forward of the encoder alone, where only its states are wanted"},
      {.name = "schedule-ended",
       .when = {"tried to step*the specified number of total steps"},
       .what = "the learning rate's schedule was stepped more often than it has steps",
       .cause =
           "total_steps, or epochs times steps_per_epoch, was computed for another number of batches: another batch "
           "size, data set or number of processes, or a number written by hand\n"
           "The schedule is stepped for each batch and was made for epochs, or is stepped twice for each batch\n"
           "A run that was resumed or prolonged goes on with the schedule of the shorter one",
       .confirm = "scheduler.total_steps against epochs * len(dataloader) (divided by the accumulation steps)",
       .fix = "OneCycleLR(…, total_steps=epochs * len(dataloader)), made from the loader itself\n"
              "step it once for each update of the optimizer\n"
              "make a new schedule for the updates that are left",
       .command = "plimsoll train computes the updates before it begins, and the schedule ends with them"},
      {.name = "checkpointing-unsupported",
       .when = {"does not support gradient checkpointing", "doesn't support gradient checkpointing",
                "gradient checkpointing is not supported"},
       .what = "this model has no gradient checkpointing in transformers",
       .cause = "gradient_checkpointing=True, or model.gradient_checkpointing_enable(), on a class without support for "
                "it, as LayoutLMv2, LayoutXLM and LayoutLMv3 are and some models of others' code\n"
                "The class has it in a newer transformers only",
       .confirm = "model.supports_gradient_checkpointing",
       .fix = "gradient_checkpointing=False\n"
              "to save memory: a smaller per_device_train_batch_size with more gradient_accumulation_steps, mixed "
              "precision, optim='adamw_8bit', adapters, shorter sequences\n"
              "pip install -U transformers, if the newer class has it",
       .command = "plimsoll train --budget SIZE computes activations of LayoutLMv3 again in backward where the budget "
                  "needs it"},
      {.name = "attention-unsupported",
       .when = {"does not support an attention implementation through", "does not support flash attention 2",
                "does not support flash attention 2.0 yet", "does not support scaled_dot_product_attention",
                "does not support flexattention", "does not support sdpa"},
       .refines = {"flash-attention"},
       .what = "this model class has no such attention in transformers",
       .cause =
           "attn_implementation='sdpa' or 'flash_attention_2' was asked for, and the class has it not, as LayoutLM's "
           "family has eager attention only\n"
           "The installed transformers is older than the support, or the model's own code (trust_remote_code) lacks it",
       .confirm = "model._supports_sdpa, model._supports_flash_attn",
       .fix = "attn_implementation='eager' (or 'sdpa', where only flash attention is missing), or leave it out\n"
              "pip install -U transformers, which may have it by now",
       .command = "plimsoll train stores no attention scores for LayoutLMv3"},
      {.name = "early-stopping",
       .when = {"earlystoppingcallback requires", "early stopping requires"},
       .refines = {"best-metric"},
       .what = "early stopping is set up without what it needs",
       .cause = "EarlyStoppingCallback needs load_best_model_at_end=True, metric_for_best_model and an evaluation "
                "strategy other than 'no'",
       .confirm = "the arguments of TrainingArguments",
       .fix = "load_best_model_at_end=True, metric_for_best_model='eval_loss', eval_strategy = save_strategy = 'steps' "
              "or 'epoch'"},
      {.name = "no-head-labels",
       .when = {"forward() got an unexpected keyword argument 'labels'",
                "forward() got an unexpected keyword argument \"labels\""},
       .refines = {"unexpected-input", "unexpected-argument"},
       .what = "the model has no head and takes no labels",
       .cause = "AutoModel, BertModel and their like are encoders without a task\n"
                "A forward of one's own has no argument labels, and the Trainer or collator passes it",
       .confirm = "type(model)",
       .fix = "AutoModelForTokenClassification (or …ForSequenceClassification, …) with num_labels\n"
              "labels=None in the forward of your own model, and a loss there; or compute_loss of the Trainer that "
              "takes labels out",
       .command = "plimsoll train adds the head"},
      {.name = "columns-dropped",
       .when = {"you should supply an encoding or a list of encodings to this method that includes input_ids",
                "vars() argument must have __dict__ attribute"},
       .refines = {"worker-exception", "unused-columns"},
       .what = "the collator got samples without input_ids",
       .cause = "The data set was not tokenized, or the tokenized one was not passed to the Trainer\n"
                "The columns were dropped (remove_unused_columns), or the data set returns tuples instead of "
                "dictionaries",
       .confirm = "trainer.train_dataset[0]",
       .fix = "dataset.map(tokenize, batched=True), and pass what it returns to the Trainer\n"
              "remove_unused_columns=False with a collator of your own\n"
              "return a dictionary with input_ids from __getitem__, or data_collator=default_data_collator",
       .command = "plimsoll train tokenizes by itself"},
      {.name = "input-rank",
       .when = {"too many values to unpack (expected 2)", "not enough values to unpack (expected 2, got 1)",
                "wrong shape for input_ids", "too many indices for tensor", "expected 3d (unbatched) or 4d",
                "expected 4-dimensional input", "too many values to unpack (expected 4)",
                "not enough values to unpack (expected 4, got 3)"},
       .with = {{"input_shape", "batch_size, seq_length", "bbox[", "bbox.unsqueeze", "input_ids.size()",
                 "input_ids.shape", "attention_mask.shape", "pixel_values.shape", "in get_extended_attention_mask",
                 "wrong shape for input_ids", "calculate_visual_bbox", "num_channels, height, width", "in forward"}},
       .refines = {"broadcast"},
       .what = "the model's input has a dimension too many, or one too few",
       .cause = "A batch dimension too many: the processor was called for each sample with return_tensors='pt', which "
                "adds one, and the loader adds another\n"
                "A batch dimension too few: a single sample, or a list's element, was passed to the model\n"
                "The field is another one than the model takes: a grey image without channels, inputs and mask "
                "swapped, a flattened tensor",
       .confirm = "print {k: v.shape for k, v in batch.items()}: input_ids is batch x length, pixel_values batch x "
                  "channels x height x width, bbox batch x length x 4",
       .fix = "{k: v.squeeze(0) for k, v in encoding.items()} in the data set\n"
              "unsqueeze(0) for one sample\n"
              "convert('RGB'), or unsqueeze(1) for a missing channel",
       .command = "plimsoll train makes the batch by itself"},
      {.name = "iterable-length",
       .when = {"train_dataset does not implement __len__", "max_steps has to be specified",
                "args.max_steps must be set to a positive value", "has no length", "dataset' has no len()",
                "dataset' object has no len", "generator' has no len()", "loader' has no len()", "pipe' has no len()"},
       .with = {{"max_steps", "trainer", "dataloader", "iterabledataset", "__len__"}},
       .what = "a streamed data set has no length, and the Trainer does not know when to stop",
       .cause = "An IterableDataset (streaming=True, a generator) without max_steps\n"
                "A progress bar, sampler or scheduler asks for len(dataloader) of such a data set",
       .confirm = "type(trainer.train_dataset)",
       .fix = "max_steps=N (samples / effective batch x epochs)\n"
              "a __len__ in the data set, if the number is known\n"
              "streaming=False, if it fits the disk"},
      {.name = "zero-steps",
       .when = {"zerodivisionerror"},
       .with = {{"len(train_dataloader)", "len(dataloader)", "num_update_steps_per_epoch", "len(train_loader)",
                 "steps_in_epoch", "len(loader)", "num_batches", "nb_tr_steps", "len(eval_dataloader)",
                 "nb_eval_steps"}},
       .what = "an epoch has no steps: the division by their number fails",
       .cause = "Fewer samples than one batch (with drop_last), or fewer batches than gradient_accumulation_steps\n"
                "An empty data set: a wrong path, split or filter\n"
                "More ranks than batches",
       .confirm = "len(dataset), batch size and accumulation",
       .fix = "drop_last=False, a smaller batch or accumulation, or more data\n"
              "correct the path, split or filter\n"
              "fewer ranks; max(1, …) around the division",
       .command = "plimsoll check --model DIR --data pages.jsonl counts pages"},
      {.name = "generations-batch",
       .when = {"must be evenly divisible by the number of generations",
                "must be divisible by the number of generations", "divisible by num_generations",
                "must be divisible by num_generations"},
       .refines = {"trainer-refused", "arguments-refused"},
       .what = "GRPO's batch does not hold whole groups of answers",
       .cause =
           "The answers to one prompt (num_generations, 8 unless set) are compared with one another, and the batch "
           "over all processes is no multiple of it: per_device_train_batch_size times the number of processes "
           "(times gradient_accumulation_steps in newer trl)\n"
           "Evaluation has a batch of its own: per_device_eval_batch_size",
       .confirm = "the numbers in the message; how many processes were started",
       .fix = "num_generations=N, one of the values that the message lists\n"
              "per_device_train_batch_size (and per_device_eval_batch_size) a multiple of num_generations"},
      {.name = "half-and-bf16",
       .when = {"at most one of fp16 and bf16 can be true", "fp16 and bf16 cannot be set", "both fp16 and bf16",
                "fp16 and bfloat16 modes cannot be simultaneously enabled", "fp16 and bf16 modes cannot"},
       .what = "fp16 and bf16 are both switched on",
       .cause = "One comes from the script and the other from its configuration, accelerate's or DeepSpeed's",
       .confirm = "fp16 and bf16 in all of them",
       .fix = "one of the two: bf16 on an Ampere GPU or newer, fp16 on an older one"},
      {.name = "deepspeed-values",
       .when = {"please correct the following deepspeed config values",
                "ds train_micro_batch_size_per_gpu=", "deepspeed config values that mismatch"},
       .refines = {"deepspeed-batch"},
       .what = "DeepSpeed's configuration contradicts TrainingArguments",
       .cause = "Batch size, accumulation, learning rate or warm-up stand in both, with different values",
       .confirm = "the pairs in the message",
       .fix = "\"auto\" in the DeepSpeed file for all that the Trainer knows"},
      {.name = "deepspeed-config",
       .when = {"deepspeedconfigerror", "validation error for deepspeed", "validation errors for deepspeed",
                "expected a string path to an existing deepspeed config", "deepspeed config*is not a valid",
                "error parsing deepspeed config"},
       .what = "DeepSpeed does not accept its configuration",
       .cause = "A key that this version does not have, or a value of the wrong type\n"
                "\"auto\" outside the Trainer, or where it cannot fill it in (a model without hidden_size)\n"
                "The path to the file does not exist, or the file is no JSON",
       .confirm = "the key in the message; ds_report for the version",
       .fix = "numbers instead of \"auto\" where the Trainer does not fill them in\n"
              "an absolute path; python -m json.tool FILE\n"
              "the keys of the installed version's documentation, or another version of DeepSpeed"},
      {.name = "zero-offload-optimizer",
       .when = {"using zero-offload with a client provided optimizer", "zero_force_ds_cpu_optimizer"},
       .what = "ZeRO-Offload refuses an optimizer that is not DeepSpeed's",
       .cause = "offload_optimizer is on, and the optimizer is torch's AdamW",
       .confirm = "\"optimizer\" in the DeepSpeed file",
       .fix = "an \"optimizer\" section of type AdamW in the DeepSpeed file (DeepSpeedCPUAdam); or "
              "\"zero_force_ds_cpu_optimizer\": false"},
      {.name = "zero3-inflight",
       .when = {"zeroparamstatus", "ds_status", "'status': 'not_available'", "'status': 'inflight'",
                "the size of tensor a (0) must match", "still have inflight params", "tracing error at step"},
       .refines = {"broadcast", "sequence-too-long"},
       .what = "ZeRO-3's parameters are spread over the ranks where a module wants them whole",
       .cause = "A module or parameter is used outside the forward of the module that owns it, or layers run in "
                "another order from step to step (mixtures of experts, generation, gradient checkpointing)",
       .confirm = "it passes with ZeRO-2",
       .fix = "ZeRO-2 where the model fits\n"
              "deepspeed.utils.set_z3_leaf_modules on blocks of experts\n"
              "GatheredParameters around the use; a newer DeepSpeed"},
      {.name = "fsdp-wrap",
       .when = {"could not find the transformer layer class", "transformer layer class to wrap"},
       .what = "FSDP's layer class is not found in this model",
       .cause = "fsdp_transformer_layer_cls_to_wrap names another architecture's class, or is misspelt",
       .confirm = "{type(m).__name__ for m in model.modules()}",
       .fix = "the block's class of this model: the name that repeats in print(model), such as LlamaDecoderLayer or "
              "BertLayer\n"
              "leave it out, where the model names its blocks itself (_no_split_modules); or auto_wrap_policy: "
              "SIZE_BASED_WRAP"},
      {.name = "fsdp-requires-grad",
       .when = {"must flatten tensors with uniform `requires_grad`", "must flatten tensors with uniform requires_grad",
                "`flatparameter` requires uniform `requires_grad`"},
       .refines = {"fsdp-dtype"},
       .what = "FSDP found frozen and trained parameters in one unit",
       .cause = "Adapters or frozen layers with use_orig_params=False",
       .confirm = "{n: p.requires_grad for n, p in model.named_parameters()}",
       .fix = "fsdp_use_orig_params: true\n"
              "peft's fsdp_auto_wrap_policy, which wraps adapters by themselves"},
      {.name = "fsdp-quantized",
       .when = {"cannot flatten integer dtype tensors"},
       .refines = {"fsdp-dtype"},
       .what = "FSDP cannot wrap weights that are whole numbers",
       .cause = "A model in 8 or 4 bits, stored as integers",
       .confirm = "{p.dtype for p in model.parameters()}",
       .fix = "bnb_4bit_quant_storage equal to the other parameters' type (bfloat16); or no quantisation"},
      {.name = "accelerator-state",
       .when = {"has already been initialized and cannot be changed", "'acceleratorstate' object has no attribute",
                "'partialstate' object has no attribute", "acceleratorstate._reset_state"},
       .what = "accelerate was set up twice, or with versions that do not belong together",
       .cause = "A second Accelerator or Trainer with other settings in one Python process (a notebook)\n"
                "transformers and accelerate of different ages",
       .confirm = "it passes after the kernel is restarted; pip list | grep -iE 'transformers|accelerate'",
       .fix = "restart Python or the kernel, and make one Accelerator before anything else\n"
              "AcceleratorState._reset_state() between two trainers of one process\n"
              "pip install -U transformers accelerate"},
      {.name = "notebook-launcher",
       .when = {"to launch a multi-gpu training from your notebook", "to train on tpu in colab or kaggle",
                "the `accelerator` should only be initialized inside"},
       .refines = {"worker-cuda-fork"},
       .what = "CUDA or an Accelerator was used in a notebook before notebook_launcher",
       .cause = "The launcher forks, and a forked process cannot use its parent's CUDA",
       .confirm = "a cell before it that moves something to the GPU, or makes an Accelerator",
       .fix = "restart the kernel, and make model, data and Accelerator inside the launched function"},
      {.name = "local-rank",
       .when = {"error: unrecognized arguments: --local-rank", "error: unrecognized arguments: --local_rank"},
       .refines = {"script-arguments", "child-failed"},
       .what = "the script does not know the launcher's --local-rank",
       .cause = "torch.distributed.launch passes --local-rank (--local_rank before PyTorch 2.0), and torchrun passes "
                "none",
       .confirm = "parser.add_argument in the script",
       .fix = "torchrun, and int(os.environ['LOCAL_RANK']) in the script\n"
              "both spellings in the parser: add_argument('--local-rank', '--local_rank', type=int)"},
      {.name = "rate-is-text",
       .when = {"'<=' not supported between instances of 'float' and 'str'",
                "'<' not supported between instances of 'float' and 'str'",
                "'>=' not supported between instances of 'str' and 'float'",
                "'<=' not supported between instances of 'str' and 'float'",
                "'>' not supported between instances of 'str' and 'float'"},
       .with = {{"/optim/", "\\optim\\", "learning_rate", "optimizer", "lr="}},
       .what = "the learning rate, or another setting of the optimizer, is text and no number",
       .cause = "YAML reads 5e-5 and 1e-3 as text: it wants a point and a sign (5.0e-5)\n"
                "The value comes from the command line, an environment variable or JSON as text, and was not converted",
       .confirm = "print(repr(lr), type(lr)) before the optimizer is made",
       .fix = "5.0e-5 in the YAML file\n"
              "float(config['lr']); type=float in argparse"},
      {.name = "script-arguments",
       .when = {"error: unrecognized arguments", "error: the following arguments are required",
                "error: argument *: ", "are not used by the hfargumentparser", "error: ambiguous option"},
       .last_words = true,
       .refines = {"child-failed"},
       .what = "the script was called with arguments that it does not take, or without one that it needs",
       .cause = "A misspelt option, a value of the wrong type, an option of another version of the script, or a line "
                "break without a backslash in the shell",
       .confirm = "python SCRIPT --help",
       .fix = "correct the option that the message names: see python SCRIPT --help\n"
              "a backslash at the end of each line but the last, and none followed by a blank\n"
              "the version of the script or of transformers that the command was written for"},
      {.name = "nccl-not-built",
       .when = {"distributed package doesn't have nccl built in"},
       .refines = {"nccl-error"},
       .what = "this PyTorch has no NCCL",
       .cause = "Windows, macOS and CPU builds of PyTorch have none",
       .confirm = "torch.distributed.is_nccl_available()",
       .fix = "backend='gloo' (ddp_backend='gloo'); on Linux a CUDA build of PyTorch"},
      {.name = "nccl-consumer-gpu",
       .when = {"doesn't support faster communication broadband", "does not support faster communication broadband"},
       .refines = {"nccl-error"},
       .what = "accelerate refuses several RTX 4000 cards with peer-to-peer switched on",
       .cause = "These cards have no peer-to-peer, and NCCL would hang",
       .confirm = "nvidia-smi topo -p2p r",
       .fix = "NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1; accelerate launch sets both\n"
              "CUDA_VISIBLE_DEVICES=0 for one card"},
      {.name = "libuv",
       .when = {"use_libuv was requested but pytorch was built without libuv",
                "use_libuv was requested but pytorch was build without libuv"},
       .refines = {"rendezvous"},
       .what = "torchrun wants libuv, which this build of PyTorch lacks",
       .cause = "PyTorch 2.4 and newer use it for the ranks' meeting, and its Windows builds have none",
       .confirm = "torch.__version__",
       .fix = "USE_LIBUV=0 in the environment"},
      {.name = "replica-parameters",
       .when = {"stopiteration: caught stopiteration in replica"},
       .what = "the model asks a DataParallel replica for its parameters, which has none since PyTorch 1.5",
       .cause = "next(self.parameters()).dtype in an old transformers (before 3.1) under DataParallel",
       .confirm = "pip show transformers torch; several GPUs are visible",
       .fix = "CUDA_VISIBLE_DEVICES=0, torchrun instead of DataParallel, or a newer transformers"},
      {.name = "replica-exception",
       .level = Level::kEcho,
       .when = {"caught*in replica"},
       .what = "an exception in one of DataParallel's replicas",
       .cause = "The original traceback follows below it in the log: its last line is the failure",
       .confirm = "CUDA_VISIBLE_DEVICES=0 gives the same error with a plain traceback",
       .fix = "what that error needs"},
      {.name = "checkpoint-race",
       .when = {"tmp-checkpoint"},
       .with = {{"no such file or directory", "directory not empty", "file exists"}},
       .refines = {"file-missing"},
       .what = "several processes renamed the same checkpoint directory",
       .cause = "transformers 4.35 to 4.37 write tmp-checkpoint-N and rename it on every rank or node that shares the "
                "disk",
       .confirm = "pip show transformers; more than one rank or node",
       .fix = "a newer transformers; save_on_each_node=False on a shared disk"},
      {.name = "parent-directory",
       .when = {"parent directory*does not exist"},
       .refines = {"file-missing"},
       .what = "the directory to save into does not exist",
       .cause = "torch.save makes no directories",
       .confirm = "ls on the path in the message",
       .fix = "os.makedirs(path, exist_ok=True) before it"},
      {.name = "windows-path",
       .when = {"oserror: [errno 22] invalid argument", "(unicode error) 'unicodeescape'", "winerror 123",
                "winerror 206"},
       .what = "a path is not valid on Windows, or what is written there is refused",
       .cause =
           "A colon, question mark or backslash escape in it: a time in a directory's name, 'C:\\new' without r''\n"
           "The path is longer than 260 characters\n"
           "In multiprocessing's reduction.py: the data set that is sent to workers is too large, or cannot be pickled",
       .confirm = "print(repr(path)) and its length; num_workers=0",
       .fix = "r'…' or forward slashes; no ':' or '?' in names\n"
              "a shorter path, or long paths switched on in Windows\n"
              "num_workers=0, or a data set that opens its files in the worker"},
      {.name = "windows-symlink",
       .when = {"winerror 1314"},
       .refines = {"output-unwritable"},
       .what = "Windows does not let this user make symbolic links, which the hub's cache or a library wants",
       .cause = "Links need Windows' developer mode, or a shell of the administrator",
       .confirm = "the frame that calls os.symlink; Settings, For developers",
       .fix = "switch developer mode on, then restart the program\n"
              "run it once as administrator\n"
              "local_dir=… in snapshot_download, or a newer huggingface_hub, which copies instead"},
      {.name = "file-in-use",
       .when = {"winerror 32", "being used by another process", "winerror 5] access is denied"},
       .what = "Windows does not let a file be replaced that is open",
       .cause = "The same program holds it: a file that is not closed, a memory-mapped data set or a model file loaded "
                "from there\n"
                "Another process: a second run, a leftover worker, TensorBoard, an editor\n"
                "A virus scanner, backup or cloud folder (OneDrive) has it open for a moment",
       .confirm = "the path in the message; Resource Monitor shows who has it open",
       .fix = "close or delete the object that holds it (del dataset; with open(…)) before it is written again\n"
              "end the other process\n"
              "another output directory, outside OneDrive and of the virus scanner's reach"},
      {.name = "decode-negative",
       .when = {"out of range integral type conversion attempted",
                "overflowerror: can't convert negative int to unsigned",
                "typeerror: argument 'ids': 'list' object cannot be interpreted as an integer",
                "piece id is out of range"},
       .what = "the tokenizer was asked to decode ids that are no tokens",
       .cause = "-100, which stands for padding in labels (and since gathered in predictions), was passed to "
                "batch_decode; or logits instead of ids",
       .confirm = "the smallest id that is decoded",
       .fix = "np.where(ids != -100, ids, tokenizer.pad_token_id) for labels and predictions\n"
              "argmax(-1) of logits, or predict_with_generate=True\n"
              "ids as a flat list of int"},
      {.name = "overflow-integer",
       .when = {"overflowerror: int too big to convert", "overflowerror: python int too large to convert"},
       .refines = {"worker-exception"},
       .what = "a number is too large for an integer of the library that takes it",
       .cause =
           "Windows' long has 32 bits: sys.maxsize does not fit (csv.field_size_limit(sys.maxsize), as old torchtext "
           "calls it)\n"
           "A size, seed or limit that stands for \"no limit\" is passed on as a number",
       .confirm = "the value in the line that the traceback names last",
       .fix = "a smaller number: csv.field_size_limit(2**31 - 1); or a version of the package that does so"},
      {.name = "overflow-length",
       .when = {"overflowerror: int too big to convert", "overflowerror: python int too large to convert"},
       .with = {{"tokeniz", "truncation", "max_length", "encode_plus", "batch_encode"}},
       .refines = {"overflow-integer"},
       .what = "a length is too large for the tokenizer",
       .cause = "tokenizer.model_max_length is 10^30 where the tokenizer's files do not say it, and was used as "
                "max_length",
       .confirm = "tokenizer.model_max_length",
       .fix = "max_length=512, or the model's own maximum\n"
              "tokenizer.model_max_length = 512 once, where many calls use it"},
      {.name = "metric-tuple",
       .when = {"inhomogeneous shape", "inhomogeneous part", "setting an array element with a sequence",
                "'tuple' object has no attribute 'argmax'", "axis 2 is out of bounds for array of dimension",
                "index 2 is out of bounds for axis"},
       .with = {{"compute_metrics", "align_predictions", "in evaluation_loop", "p.predictions", "eval_pred",
                 "np.argmax("}},
       .refines = {"collate", "tensor-index"},
       .what = "compute_metrics took the predictions for one array, and they are several",
       .cause = "The model returns more than logits (hidden states, losses), so that predictions is a tuple\n"
                "Batches were padded to different lengths (NumPy 1.24 and newer refuse ragged arrays)",
       .confirm = "type(p.predictions), and the shape of each part",
       .fix = "preds = p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions\n"
              "preprocess_logits_for_metrics that returns argmax of the logits alone\n"
              "pad to one length (padding='max_length'), or dtype=object in np.array",
       .command = "plimsoll eval reports precision, recall and F1 by itself"},
      {.name = "slow-tokenizer",
       .when = {"is not available when using python based tokenizers",
                "is not available when using non-fast tokenizers", "is not available when using python tokenizers",
                "requires that this tokenizer*fast", "only works for models that have a fast tokenizer"},
       .refines = {"worker-exception"},
       .what = "the script needs a fast tokenizer, and got the slow one",
       .cause = "use_fast=False, tokenizers or sentencepiece is not installed, or the model has none",
       .confirm = "tokenizer.is_fast",
       .fix = "AutoTokenizer.from_pretrained(…, use_fast=True), or the class that ends with Fast\n"
              "pip install tokenizers sentencepiece, then restart\n"
              "a model that has a fast tokenizer, or a script that does without (no offset_mapping, word_ids)",
       .command = "plimsoll train reads tokenizer.json"},
      {.name = "decoder-start",
       .when = {"make sure to set the decoder_start_token_id",
                "self.model.config.decoder_start_token_id has to be defined",
                "make sure to set the pad_token_id attribute", "self.config.pad_token_id has to be defined"},
       .what = "a model with a decoder lacks its start or padding token",
       .cause = "VisionEncoderDecoderModel and its kin are put together without these two ids",
       .confirm = "model.config.decoder_start_token_id, model.config.pad_token_id",
       .fix = "model.config.decoder_start_token_id = tokenizer.cls_token_id (or bos), model.config.pad_token_id = "
              "tokenizer.pad_token_id\n"
              "the same in model.generation_config"},
      {.name = "initial-lr",
       .when = {"param 'initial_lr' is not specified"},
       .what = "a schedule is made for a step in mid-run, and the optimizer does not know its first rate",
       .cause = "The scheduler is made with last_epoch before the optimizer's state is loaded",
       .confirm = "the order of these lines in the script",
       .fix =
           "make the scheduler with last_epoch=-1 and then scheduler.load_state_dict(…); or set 'initial_lr' in every "
           "group"},
      {.name = "object-attribute",
       .when = {"processor' object has no attribute", "tokenizer' object has no attribute",
                "tokenizerfast' object has no attribute", "trainer' object has no attribute",
                "trainingarguments' object has no attribute", "config' object has no attribute",
                "accelerator' object has no attribute", "fortokenclassification' object has no attribute",
                "forsequenceclassification' object has no attribute",
                "forconditionalgeneration' object has no attribute", "forcausallm' object has no attribute",
                "collator' object has no attribute"},
       .what = "an object of transformers lacks a name that is asked for: packages of different ages, or another class",
       .cause = "The script was written for another version of transformers, accelerate, peft or trl, where the name "
                "exists\n"
                "The object is of another class than the script expects: a tokenizer for a processor, a wrapper for a "
                "model, a model for its config\n"
                "The attribute was to be set before: an entry of the config, a field of a dataclass of one's own",
       .confirm = "type(object); pip list | grep -iE 'transformers|accelerate|peft|trl'",
       .fix = "the name in the installed version (its documentation), or the version that the script was written for\n"
              "the part that has it: processor.tokenizer, model.base_model, trainer.args\n"
              "pip install -U transformers accelerate peft trl together"},
      {.name = "generate-arguments",
       .when = {"the following `model_kwargs` are not used by the model"},
       .what = "generate was given an argument that this model does not take",
       .cause = "The tokenizer or processor returns a field that the model has no use for (token_type_ids)\n"
                "An argument of generation is misspelt, or newer or older than the installed transformers\n"
                "The model's own class or code does not hand it on: images for a text model, a wrapper of one's own",
       .confirm = "the names in the message; inputs.keys(); pip show transformers",
       .fix = "inputs.pop('token_type_ids'), or return_token_type_ids=False in the tokenizer\n"
              "correct or leave out the argument\n"
              "the class for such inputs (…ForConditionalGeneration); or pip install -U transformers"},
      {.name = "length-assert",
       .when = {"^assertionerror", "assertionerror$", "assertionerror: "},
       .with = {{"assert*max_seq_len", "assert*max_len", "assert*seq_len", "assert*block_size", "assert*max_position",
                 "assert*seqlen", "cannot forward sequence of length", "assert*length*<=", "assert*sequence_length"}},
       .refines = {"sequence-warning"},
       .what = "an assertion about a sequence's length failed",
       .cause = "A text has more tokens than the model or the script allows, and was not cut\n"
                "The script's lists (tokens, boxes, masks, labels) have different lengths: a word without tokens, "
                "special tokens counted otherwise, another tokenizer\n"
                "The configuration's length is smaller than that of the checkpoint or the data",
       .confirm = "print both sides of the assertion at the traceback's last frame",
       .fix = "truncation=True and max_length as the script's; the tokenizer that the script was written for; leave "
              "out empty words",
       .command = "plimsoll train cuts long pages into windows with overlap"},
      {.name = "generate-length",
       .when = {"valueerror: input length of input_ids is"},
       .refines = {"length-assert-words"},
       .what = "the prompt is longer than what generation may return in all",
       .cause = "max_length counts the prompt too, is 20 unless set, and comes from generation_config or the Trainer "
                "(generation_max_length)",
       .confirm = "the two numbers in the message",
       .fix = "max_new_tokens=N instead of max_length (generation_max_length larger in Seq2SeqTrainingArguments)\n"
              "a shorter prompt: truncation=True, max_length=… in the tokenizer"},
      {.name = "length-assert-words",
       .when = {"cannot forward sequence of length", "sequence length*exceeds*maximum",
                "is longer than the maximum sequence length", "input length*exceeds*maximum",
                "exceeds the model's maximum", "exceeds the maximum sequence length",
                "sequence length is longer than the maximum allowed"},
       .refines = {"sequence-warning", "length-assert"},
       .what = "a sequence is longer than the model allows",
       .cause = "The text was not truncated, or max_length is larger than the model's table of positions",
       .confirm = "the two numbers in the message",
       .fix = "truncation=True with max_length as the model's, and stride so that nothing is lost\n"
              "a shorter prompt or a smaller max_new_tokens, in generation\n"
              "a larger max_model_len or max_seq_length, up to the model's own positions",
       .command = "plimsoll train cuts long pages into windows with overlap"},
      {.name = "grad-on-integers",
       .when = {"only tensors of floating point*can require gradients",
                "only tensors of floating point dtype can require gradients"},
       .what = "gradients were asked for of weights that are whole numbers",
       .cause = "A model in 8 or 4 bits is trained or prepared as if it were not\n"
                "A tensor of whole numbers (ids, masks, an index) is made with requires_grad=True or nn.Parameter",
       .confirm = "{p.dtype for p in model.parameters()}",
       .fix = "prepare_model_for_kbit_training and adapters (peft); or load without quantisation\n"
              "tensor.float() before requires_grad; register_buffer for what does not train",
       .command = "plimsoll train --load-in-4bit --lora-rank 8"},
      {.name = "unscale-bf16",
       .when = {"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'bfloat16'",
                "_amp_foreach_non_finite_check_and_unscale*not implemented for 'bfloat16'"},
       .refines = {"half-on-cpu", "kernel-missing"},
       .what = "GradScaler was given gradients in bfloat16",
       .cause = "The weights were loaded in bfloat16, and fp16=True (which scales the loss) is on",
       .confirm = "{p.dtype for p in model.parameters() if p.requires_grad}",
       .fix = "bf16=True instead of fp16=True\n"
              "load the weights in F32 (torch_dtype=torch.float32), and keep fp16=True on a GPU older than Ampere"},
      {.name = "sdpa-kernel",
       .when = {"no kernel found to launch", "no available kernel. aborting execution"},
       .what = "PyTorch's attention (scaled_dot_product_attention) has no kernel for this GPU, type or shape",
       .cause = "bfloat16 on a GPU older than Ampere (T4, V100), or F32 where only flash attention was allowed\n"
                "The kernels were restricted (sdp_kernel, sdpa_kernel), or the head's size or mask is one that they do "
                "not take\n"
                "This PyTorch was built for other GPUs",
       .confirm = "torch.cuda.get_device_capability(); q.dtype and q.shape; which backends are switched on",
       .fix = "float16 instead of bfloat16 on an older GPU\n"
              "attn_implementation='eager'; or torch.backends.cuda.enable_math_sdp(True) and "
              "enable_mem_efficient_sdp(False)\n"
              "a newer PyTorch"},
      {.name = "kernel-missing",
       .when = {"_cuda*not implemented for '", "cuda\" not implemented for '", "_cuda_template\" not implemented for"},
       .without = {"nll_loss", "not implemented for 'long'", "not implemented for 'int'", "cross_entropy"},
       .refines = {"half-on-cpu"},
       .what = "this PyTorch has no CUDA kernel of that operation for that type",
       .cause = "An older PyTorch: bfloat16 and float8 came to some operations late (triu and tril with 2.1)\n"
                "The operation is not made for that type at all: whole numbers, 8 bits, complex",
       .confirm = "torch.__version__; the operation and type in the message",
       .fix = "float32 around that operation, or fp16 instead of bfloat16\n"
              "a newer PyTorch"},
      {.name = "integer-operation",
       .when = {"not implemented for 'long'", "not implemented for 'int'", "not implemented for 'bool'",
                "not implemented for 'byte'", "not implemented for 'char'"},
       .without = {"nll_loss", "cross_entropy"},
       .what = "an operation for real numbers was given whole numbers",
       .cause = "ids or labels were passed where activations belong, or arguments are swapped (loss(labels, logits))\n"
                "Pixels, masks or counts were not converted to float\n"
                "mean, softmax or a norm of whole numbers",
       .confirm = "print the dtype of each argument at the traceback's last line of your own code",
       .fix = "x.float() where numbers are meant\n"
              "the right order of logits and labels; CrossEntropyLoss for class numbers\n"
              "the embedding before the layer, where ids are given"},
      {.name = "numpy-bf16",
       .when = {"got unsupported scalartype bfloat16", "got unsupported scalartype half"},
       .what = "a bfloat16 tensor was converted to NumPy, which has no such type",
       .cause = ".numpy() on outputs or weights of a model in bfloat16: in compute_metrics, a tracker, an embedding "
                "that is stored",
       .confirm = "tensor.dtype at that line",
       .fix = "tensor.float().numpy()"},
      {.name = "numpy-grad",
       .when = {"can't call numpy() on tensor that requires grad", "can't call numpy() on variable that requires grad"},
       .what = "a tensor that is part of a graph was converted to NumPy",
       .cause =
           "Outputs were used after training's forward without .detach(), or evaluation runs without torch.no_grad()",
       .confirm = "tensor.requires_grad at that line",
       .fix = "tensor.detach().cpu().numpy(); torch.no_grad() around evaluation"},
      {.name = "label-float",
       .when = {"found dtype long but expected float",
                "result type float can't be cast to the desired output type long",
                "result type float can't be cast to the desired output type*long"},
       .refines = {"dtype-mismatch", "label-dtype"},
       .what = "labels are whole numbers, and this loss wants real ones",
       .cause = "num_labels=1 means regression (MSE); problem_type='multi_label_classification' means BCE: both want "
                "float labels\n"
                "BCEWithLogitsLoss or MSELoss in a loop of one's own is given whole numbers\n"
                "A whole-number tensor is changed in place by a float (x += 0.5)",
       .confirm = "model.config.num_labels, model.config.problem_type, labels.dtype",
       .fix = "num_labels=2 or more for classes\n"
              "labels.float() for regression or several labels at once\n"
              "CrossEntropyLoss instead of MSELoss or BCEWithLogitsLoss, where labels are class numbers"},
      {.name = "context-set",
       .when = {"runtimeerror: context has already been set"},
       .what = "the start method of processes was set twice",
       .cause = "set_start_method is called at import, and again by a library",
       .confirm = "grep for set_start_method",
       .fix = "call it once below `if __name__ == '__main__':`, with force=True"},
  };
}

}  // namespace plimsoll::doctor
