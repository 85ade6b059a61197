// Models that are loaded: checkpoints whose tensors have other shapes, files that are missing or damaged.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> load_rules() {
  return {
      {.name = "head-size",
       .when = {"size mismatch for*classifier", "size mismatch for score.", "size mismatch for*.score.",
                "size mismatch for*qa_outputs", "size mismatch for*out_proj", "size mismatch for*classification_head",
                "size mismatch for fc.", "size mismatch for head.", "size mismatch for*class_labels_classifier",
                "classifier*mismatch*ckpt", "score.weight*mismatch*ckpt",
                "classifier.*found shape*in the checkpoint and"},
       .refines = {"size-mismatch", "state-dict"},
       .what = "the checkpoint's last layer has another number of outputs (labels, classes) than the model",
       .cause = "The checkpoint was fine-tuned with other labels than num_labels here (which is 2 unless set)\n"
                "The code and the released weights are of different versions: an update added or dropped a class\n"
                "The data has new labels, and the head is to be made anew",
       .confirm = "the first dimension of both shapes in the message: outputs there and here",
       .fix =
           "num_labels and id2label (or the script's number of classes) as in the checkpoint, to go on with its head\n"
           "for weights that a project releases its newest code (git pull), or the release that they belong to\n"
           "ignore_mismatched_sizes=True, to begin a new head on its encoder\n"
           "in a loop of your own drop the head's tensors from the state_dict, then load_state_dict(…, "
           "strict=False)",
       .command = "plimsoll train --labels …; it says which labels a checkpoint has"},
      {.name = "vocabulary-size",
       .when = {"size mismatch for*word_embeddings", "size mismatch for*shared.weight",
                "size mismatch for*embed_tokens", "size mismatch for*lm_head", "size mismatch for*wte.weight",
                "size mismatch for*predictions.", "size mismatch for*embed_out", "size mismatch for*embedding.weight",
                "size mismatch for*embed.weight", "size mismatch for*emb.weight", "size mismatch for*token_embedding",
                "size mismatch for*output_layer.", "size mismatch for*output_projection.",
                "size mismatch for*generator.", "size mismatch for*embed_in.weight", "size mismatch for*tok_embeddings",
                "lm_head*mismatch*ckpt", "embeddings.weight*mismatch*ckpt", "embed_tokens*mismatch*ckpt"},
       .refines = {"head-size", "size-mismatch", "state-dict"},
       .what = "the checkpoint's vocabulary has another size than the model's",
       .cause = "The vocabulary or tokenizer here is another one than the checkpoint's: built anew from other data, of "
                "another model or language\n"
                "Tokens were added and the embeddings resized when the checkpoint was made, and not here (or the "
                "reverse); T5's tokenizer has 32,100 tokens and its model 32,128 rows\n"
                "The model here is built from another config.json than the checkpoint's",
       .confirm = "the first number of both shapes against len(tokenizer) and config.vocab_size",
       .fix = "prepare the data with the checkpoint's own vocabulary and tokenizer\n"
              "model.resize_token_embeddings(N), with the checkpoint's number of rows, before its weights are loaded\n"
              "load model and tokenizer from the checkpoint's own directory; not ignore_mismatched_sizes=True, which "
              "throws the trained embeddings away",
       .command = "plimsoll train --model DIR takes sizes and tokenizer from one directory"},
      {.name = "position-size",
       .when = {"size mismatch for*position_embedding", "size mismatch for*pos_embed", "size mismatch for*wpe.weight",
                "size mismatch for*position_ids", "size mismatch for*relative_position",
                "size mismatch for*positional_embedding", "size mismatch for*patch_embed",
                "size mismatch for*position_embedding.weight", "size mismatch for*positional_embedding.weight",
                "size mismatch for*patch_embedding.weight", "size mismatch for*pos_embedding.weight",
                "size mismatch for*pos_embed.weight"},
       .refines = {"head-size", "size-mismatch", "state-dict"},
       .what = "the checkpoint's table of positions has another length than the model's",
       .cause = "The model here is built with another maximum length (max_position_embeddings, block_size) than the "
                "checkpoint\n"
                "Of an image model: another image or patch size",
       .confirm = "max_position_embeddings, image_size and patch_size in both config.json",
       .fix = "the checkpoint's own config.json, image_size and patch_size\n"
              "interpolate the table (timm does so itself; interpolate_pos_encoding=True), if the size is to change\n"
              "drop the buffer position_ids from the state_dict, if it is only that"},
      {.name = "model-size",
       .when = {"size mismatch for*layernorm", "size mismatch for*layer_norm", "size mismatch for*.ln_",
                "size mismatch for*attention", "size mismatch for*self_attn", "size mismatch for*intermediate.dense",
                "size mismatch for*mlp.", "size mismatch for*norm.weight", "layernorm*mismatch*ckpt"},
       .without = {"torch.size([0])", "lora_"},
       .refines = {"head-size", "vocabulary-size", "position-size", "size-mismatch", "state-dict"},
       .what = "the checkpoint is of another model, or of another size of it",
       .cause = "A checkpoint of another size of the model (large in base, or the reverse)\n"
                "A checkpoint of another architecture or task, or a config whose sizes were changed since\n"
                "The state_dict is of a part of the model, or another part's tensors bear the same names",
       .confirm = "hidden_size and num_hidden_layers in the config.json of both",
       .fix = "build the model from the checkpoint's own config.json: from_pretrained(CHECKPOINT)\n"
              "the same arguments (hidden size, layers, heads, channels) as when it was saved",
       .command = "plimsoll train --model DIR reads config.json and weights from one directory"},
      {.name = "adapter-size",
       .when = {"size mismatch for*lora_", "size mismatch for*modules_to_save",
                "size mismatch for*lora_*, 1]) from checkpoint", "size mismatch for*lora_*, 1, 1]) from checkpoint"},
       .refines = {"head-size", "vocabulary-size", "model-size", "size-mismatch", "state-dict"},
       .what = "the adapter was made with another rank, or for another base model",
       .cause = "Another r (network_dim in sd-scripts), or other layers, in this run's settings than when the adapter "
                "was saved\n"
                "A base model of another size, or whose vocabulary was resized since or not here\n"
                "The adapter was saved by another version of peft, or as another variant of LoRA (merged layers with "
                "enable_lora, convolutions): its tensors have another number of dimensions",
       .confirm = "r and base_model_name_or_path in adapter_config.json; the two shapes in the message",
       .fix = "the rank and the layers that the adapter was saved with: PeftModel.from_pretrained(base, ADAPTER) reads "
              "them from its own config\n"
              "the base model that adapter_config.json names\n"
              "model.resize_token_embeddings to the size it had in training, before the adapter is loaded\n"
              "the version of peft that saved it, or train the adapter anew with the one that is installed",
       .command = "plimsoll train --base-model DIR checks an adapter against its base",
       .tellings = {{.when = {"lora_*, 1, 1]) from checkpoint"}, .cause = "Another r"},
                    {.when = {"lora_*, *, 1]) from checkpoint"},
                     .what = "the adapter is of another version or variant of LoRA: its tensors have another number of "
                             "dimensions than this model's",
                     .cause = "The adapter was saved by another version",
                     .fix = "the version of peft that saved it"}}},
      {.name = "zero3-load",
       .when = {"the shape in current model is torch.size([0])", "shape torch.size([0]) from checkpoint",
                "shape in current model is torch.size([])", "trying to set a tensor of shape torch.size([0])"},
       .refines = {"head-size", "vocabulary-size", "position-size", "model-size", "adapter-size", "size-mismatch",
                   "state-dict"},
       .what = "ZeRO-3 had spread the weights when a checkpoint was loaded or saved: tensors are empty",
       .cause = "load_state_dict or torch.save was called on a model whose parameters ZeRO-3 has partitioned\n"
                "The file was saved from such a model without being gathered",
       .confirm = "which side of the message has torch.Size([0]): the checkpoint or the model",
       .fix = "load before deepspeed.initialize, or under deepspeed.zero.GatheredParameters\n"
              "to save: stage3_gather_16bit_weights_on_model_save, or zero_to_fp32.py on the checkpoint\n"
              "is_deepspeed_zero3_enabled's own path: from_pretrained after TrainingArguments or HfDeepSpeedConfig was "
              "made"},
      {.name = "size-mismatch",
       .when = {"size mismatch for*copying a param", "adding `ignore_mismatched_sizes",
                "trying to set a tensor of shape", "set `ignore_mismatched_sizes` to `false`"},
       .refines = {"state-dict"},
       .what = "a tensor in the checkpoint has another shape than in the model",
       .cause = "The model is built from another config than the checkpoint's: other sizes, labels or vocabulary\n"
                "The vocabulary was resized, or the head changed, on one side only\n"
                "The checkpoint was saved from a wrapped or quantised model, or by another version of the code",
       .confirm = "the tensor's name and both shapes in the message",
       .fix = "build the model from the checkpoint's own config.json\n"
              "resize_token_embeddings or num_labels as when it was saved, before the weights are loaded\n"
              "ignore_mismatched_sizes=True, where those tensors shall be trained anew\n"
              "load a quantised checkpoint with its quantisation",
       .command = "plimsoll train names the tensors that do not fit"},
      {.name = "state-dict",
       .when = {"error(s) in loading state_dict", "missing key(s) in state_dict", "unexpected key(s) in state_dict"},
       .what = "the checkpoint's tensors are not this model's",
       .cause = "Names with a prefix: \"module.\" of DDP, \"_orig_mod.\" of torch.compile, \"model.\" of a wrapper or "
                "Lightning\n"
                "The file holds more than the weights: they are under a key such as 'state_dict' or 'model'\n"
                "Another class or size of model, or the code has changed since\n"
                "Another version of transformers: buffers such as position_ids",
       .confirm = "compare list(state_dict)[:5] with list(model.state_dict())[:5]",
       .fix = "strip the prefix: {k.removeprefix('module.'): v for k, v in state.items()}; save with model.module or "
              "accelerator.unwrap_model\n"
              "load_state_dict(checkpoint['state_dict'])\n"
              "build the model as it was when it was saved (its own config.json)\n"
              "strict=False, if only buffers or a head that is new anyway differ\n"
              "load before the model is wrapped, or into model.module (model._orig_mod)",
       .command = "plimsoll train names the tensors that are missing or not expected",
       .tellings = {{.when = {"unexpected key(s)*: \"module.", "unexpected keys*'module.", "unexpected key 'module."},
                     .what = "the checkpoint was saved from DataParallel or DistributedDataParallel: its names begin "
                             "with \"module.\", the model's do not"},
                    {.when = {"missing key(s)*: \"module.", "missing keys*'module."},
                     .what = "the model is wrapped in DataParallel or DistributedDataParallel (\"module.\"), and the "
                             "checkpoint was saved from one that is not",
                     .fix = "load before the model is wrapped"},
                    {.when = {"unexpected key(s)*: \"_orig_mod.", "unexpected keys*'_orig_mod."},
                     .what =
                         "the checkpoint was saved from a model that torch.compile had wrapped: its names begin with "
                         "\"_orig_mod.\"",
                     .fix = "strip the prefix"},
                    {.when = {"missing key(s)*: \"_orig_mod.", "missing keys*'_orig_mod."},
                     .what =
                         "the model is wrapped by torch.compile (\"_orig_mod.\"), and the checkpoint was saved from "
                         "one that is not",
                     .fix = "load before the model is wrapped"}}},
      {.name = "pickled-class",
       .when = {"can't get attribute"},
       .with = {{"torch.load", "unpickler", "pickle", "serialization.py"}},
       .refines = {"worker-pickle", "pickle-failed"},
       .what = "a saved object needs a class that is not defined here",
       .cause = "torch.save(model) stores the name of its class, and the script that loads it has no such class",
       .confirm = "the class and module in the message",
       .fix = "import or define the class before torch.load; save model.state_dict() instead of the model"},
      {.name = "pickled-module",
       .when = {"modulenotfounderror: no module named"},
       .with = {{"torch.load(", "in load_checkpoint", "unpickler.load"}, {"unpickl", "pickle", "serialization.py"}},
       .refines = {"packages-ages", "module-missing"},
       .what = "a saved object needs a Python module that is not found here",
       .cause = "torch.save(model) stores the path of its class; the repository that defined it is not on sys.path, or "
                "a package (such as NumPy 2's numpy._core) is of another version",
       .confirm = "the module in the message: a package's, or a folder of some repository",
       .fix = "run from that repository, or add it to PYTHONPATH; the package version that saved the file; save "
              "state_dict() instead"},
      {.name = "weights-missing",
       .when = {"error no file named", "no file named pytorch_model.bin", "does not appear to have a file named",
                "no such file or directory*pytorch_model.bin", "no such file or directory*model.safetensors",
                "does not appear to have files named", ".entrynotfounderror", "remoteentrynotfounderror",
                "entry not found for url", "revisionnotfounderror", "is not a valid git identifier",
                "404 client error*/resolve/"},
       .refines = {"hub-unreachable", "file-missing", "load-name"},
       .what = "the model's directory lacks a file that is needed",
       .cause = "The directory is not a saved model: a training run's parent directory, a checkpoint of another format "
                "(ZeRO shards, Lightning's .ckpt, GGUF), adapters without their base\n"
                "The tokenizer's or processor's files were not saved with the model (preprocessor_config.json, "
                "tokenizer.json)\n"
                "The repository on the hub has no such file: other formats of the weights (.bin, safetensors, "
                "TensorFlow), another subfolder or revision\n"
                "The download or the save was cut short",
       .confirm = "ls the directory, or the files on https://huggingface.co/NAME: config.json, model.safetensors or "
                  "pytorch_model.bin, and the file in the message",
       .fix = "name the directory that has them (checkpoint-N); adapters: PeftModel.from_pretrained(base, DIR); ZeRO: "
              "zero_to_fp32.py\n"
              "processor.save_pretrained and tokenizer.save_pretrained into the model's directory, or load them from "
              "the base model\n"
              "use_safetensors=False, from_tf=True, subfolder=… or revision=… as the repository has it\n"
              "download it again",
       .command = "plimsoll train --model DIR says which file is missing"},
      {.name = "adapter-missing",
       .when = {"can't find 'adapter_config.json'", "adapter_config.json*not found",
                "unable to find adapter_config.json"},
       .refines = {"hub-unreachable", "hub-gated", "weights-missing", "load-name"},
       .what = "no adapter is found there",
       .cause = "The directory holds a whole model or a checkpoint of the Trainer without peft\n"
                "The path does not exist, or is the parent of checkpoint-N, and was taken for a name on the hub\n"
                "The save was cut short, or only one rank's disk has it",
       .confirm = "ls the directory: adapter_config.json and adapter_model.safetensors",
       .fix = "the directory that peft's save_pretrained wrote (often checkpoint-N inside the output directory)\n"
              "AutoModel….from_pretrained(DIR), if it is a whole model\n"
              "an absolute path"},
      {.name = "model-path",
       .when = {"repo id must be in the form", "repo id must use alphanumeric", "hfvalidationerror",
                "incorrect path_or_model_id"},
       .refines = {"hub-gated", "hub-unreachable", "load-name"},
       .what = "a path that does not exist was taken for a name on the hub",
       .cause = "The directory is misspelt, not mounted, or relative to another working directory\n"
                "The value is empty, None, or has a blank or a backslash in it: a variable that was not set\n"
                "The directory has not been written yet: training or saving failed before",
       .confirm = "ls the path in the message, on the machine and in the container where it runs",
       .fix = "an absolute path to the directory that holds config.json\n"
              "NAME or USER/NAME for models on the hub",
       .command = "plimsoll train --model DIR says that a directory is not found"},
      {.name = "config-damaged",
       .when = {"is not a valid json file"},
       .refines = {"bad-json"},
       .what = "the model's config.json is not JSON",
       .cause = "A save or download that was cut short, a Git LFS pointer, or the path names another file than "
                "config.json",
       .confirm = "head -c 200 on the file in the message",
       .fix = "download it again, or take it from the base model",
       .command = "plimsoll train --model DIR names file and position"},
  };
}

}  // namespace plimsoll::doctor
