// Releases of libraries that do not fit one another or the script: transformers with peft or trl, Keras 2 with Keras 3,
// arguments that were renamed, a package that was replaced while Python ran; and names that are looked up in the wrong
// library.
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

// Names that transformers has.
const AnyOf kOfTransformers = {"cannot import name 'trainingarguments' from",
                               "cannot import name 'seq2seqtrainingarguments' from",
                               "cannot import name 'trainer' from",
                               "cannot import name 'seq2seqtrainer' from",
                               "cannot import name 'trainercallback' from",
                               "cannot import name 'earlystoppingcallback' from",
                               "cannot import name 'autotokenizer' from",
                               "cannot import name 'autoprocessor' from",
                               "cannot import name 'autoconfig' from",
                               "cannot import name 'automodel' from",
                               "cannot import name 'automodelforcausallm' from",
                               "cannot import name 'automodelforseq2seqlm' from",
                               "cannot import name 'automodelforsequenceclassification' from",
                               "cannot import name 'automodelfortokenclassification' from",
                               "cannot import name 'bitsandbytesconfig' from",
                               "cannot import name 'generationconfig' from",
                               "cannot import name 'hfargumentparser' from",
                               "cannot import name 'textstreamer' from",
                               "cannot import name 'pipeline' from",
                               "cannot import name 'datacollatorwithpadding' from",
                               "cannot import name 'datacollatorforseq2seq' from",
                               "cannot import name 'datacollatorfortokenclassification' from"};

}  // namespace

std::vector<Rule> release_rules() {
  return {
      {.name = "transformers-too-old",
       .when = {"keyerror: 'layoutlmv3'",
                "does not recognize this architecture",
                "cannot import name 'layoutlmv3",
                "tokenizer class layoutlmv3tokenizer does not exist",
                "`rope_scaling` must be a dictionary",
                "unrecognized model in",
                "tokenizer class*does not exist or is not currently imported",
                "unrecognized image processor in",
                "unrecognized feature extractor in",
                "unrecognized processing class in",
                "keyerror: 'qwen",
                "keyerror: 'llama",
                "keyerror: 'mistral",
                "keyerror: 'gemma",
                "keyerror: 'phi",
                "keyerror: 'lilt'",
                "keyerror: 'udop'",
                "keyerror: 'deberta",
                "keyerror: 'smollm",
                "keyerror: 'internlm",
                "keyerror: 'olmo",
                "keyerror: 'granite",
                "keyerror: 'modernbert'",
                "keyerror: 'mixtral'",
                "keyerror: 'cohere"},
       .refines = {"module-missing", "label-name", "column-missing", "transformers-names"},
       .what = "this transformers does not know the model",
       .cause = "The model is newer than the installed transformers\n"
                "config.json lacks its model_type: the directory holds an adapter, another library's model (timm, "
                "GGUF, a bare state_dict) or one's own class\n"
                "The model needs its repository's code (trust_remote_code=True)",
       .confirm = "pip show transformers; model_type and transformers_version in config.json",
       .fix = "pip install -U transformers, then restart Python\n"
              "PeftModel or the base model's directory for adapters; the model's own library otherwise\n"
              "trust_remote_code=True, after reading that code",
       .command = "plimsoll train --model DIR reads LayoutLMv3 directories without transformers"},
      {.name = "auto-class",
       .when = {"unrecognized configuration class*for this kind of", "unrecognized configuration class"},
       .refines = {"transformers-too-old"},
       .what = "this AutoModel class does not exist for a model of that kind",
       .cause = "The class is for another task or kind of model: AutoModelForCausalLM for an encoder (BERT, LayoutLM), "
                "AutoTokenizer for a model without one, AutoModel… for an adapter or a vision model\n"
                "The installed transformers does not have this task for the model yet",
       .confirm = "the list \"Model type should be one of\" in the message against model_type in config.json",
       .fix = "the class of the task: AutoModelForTokenClassification, …ForSequenceClassification, …ForVision2Seq\n"
              "pip install -U transformers, if the model's documentation has the class",
       .command = "plimsoll train --model DIR reads LayoutLMv3 directories without transformers"},
      {.name = "example-version",
       .when = {"this example requires a source install from", "this example requires a minimum version of"},
       .what = "an example script is of another version than the installed transformers",
       .cause = "The script is from the main branch, which wants a version that is not released yet; or from a newer "
                "release than the installed one",
       .confirm = "pip show transformers; check_min_version(…) at the head of the script",
       .fix = "the script of the installed version: the same file under the tag vVERSION of the repository\n"
              "pip install -U transformers, or git+https://github.com/huggingface/transformers for the main branch\n"
              "drop the line check_min_version, if nothing newer is used"},
      {.name = "lightning-version",
       .when = {"__init__() got an unexpected keyword argument", "has been removed in v", "was removed in v",
                "no longer supported in*lightning", "unexpected keyword argument 'gpus'"},
       .with = {{"pytorch_lightning", "lightning/pytorch", "lightning.pytorch", "pl.trainer(", "lightningmodule"}},
       .refines = {"trainer-arguments", "unexpected-argument", "unexpected-input"},
       .what = "the script was written for another version of Lightning",
       .cause = "The message names the argument or hook: Lightning 2.0 dropped gpus=, tpu_cores=, auto_select_gpus=, "
                "resume_from_checkpoint= and the hooks …_epoch_end",
       .confirm = "pip show pytorch-lightning lightning",
       .fix = "accelerator='gpu', devices=1 instead of gpus=1; trainer.fit(…, ckpt_path=…); on_validation_epoch_end "
              "instead of validation_epoch_end\n"
              "pip install 'pytorch-lightning<2' for a script of before"},
      {.name = "trainer-arguments",
       .when = {"__init__() got an unexpected keyword argument 'evaluation_strategy'",
                "unexpected keyword argument 'evaluation_strategy'",
                "unexpected keyword argument 'eval_strategy'",
                "unexpected keyword argument 'tokenizer'",
                "unexpected keyword argument 'processing_class'",
                "unexpected keyword argument 'num_items_in_batch'",
                "unexpected keyword argument 'dispatch_batches'",
                "unexpected keyword argument 'no_cuda'",
                "unexpected keyword argument 'warmup_ratio'",
                "compute_loss() got an unexpected keyword argument",
                "unexpected keyword argument 'dtype'",
                "trainingarguments.__init__() got an unexpected keyword argument",
                "trainer.__init__() got an unexpected keyword argument",
                "sftconfig.__init__() got an unexpected keyword argument",
                "accelerator.__init__() got an unexpected keyword argument",
                "__init__() got an unexpected keyword argument 'logging_dir'",
                "__init__() got an unexpected keyword argument 'use_seedable_sampler'",
                "unwrap_model() got an unexpected keyword argument",
                "training_step() takes*positional arguments",
                "compute_loss() takes*positional arguments",
                "prediction_step() takes*positional arguments",
                "evaluate() takes*positional arguments",
                "'adamw' object has no attribute 'train'",
                "'adamw' object has no attribute 'eval'",
                "__init__() got an unexpected keyword argument 'max_seq_length'",
                "__init__() got an unexpected keyword argument 'dataset_text_field'"},
       .refines = {"unexpected-argument"},
       .what = "the script was written for another version of transformers (or of accelerate or trl)",
       .cause = "Arguments were renamed or dropped: evaluation_strategy is eval_strategy since 4.41 (4.46 dropped the "
                "old name), tokenizer is processing_class, no_cuda is use_cpu; compute_loss takes num_items_in_batch\n"
                "accelerate is of another age than transformers (dispatch_batches, use_seedable_sampler), or trl has "
                "moved the argument to its config (SFTConfig)",
       .confirm = "pip list | grep -iE 'transformers|accelerate|trl'; help(FUNCTION) of the one in the message",
       .fix = "rename the argument, or move it to the config; add **kwargs to a method that overrides the Trainer's\n"
              "pip install -U transformers accelerate trl together\n"
              "the versions that the script was written for",
       .command = "plimsoll train takes the arguments' usual names"},
      {.name = "argument-of-library",
       .when = {"trainer.__init__() got an unexpected keyword argument",
                "trainingarguments.__init__() got an unexpected keyword argument",
                "accelerator.__init__() got an unexpected keyword argument",
                "__init__() got an unexpected keyword argument 'tokenizer'",
                "__init__() got an unexpected keyword argument 'processing_class'",
                "compute_loss() got an unexpected keyword argument", "training_step() takes*positional arguments",
                "compute_loss() takes*positional arguments", "_save_checkpoint() takes*positional arguments",
                "log() takes*positional arguments", "get_train_sampler() takes*positional arguments"},
       .with = {{"site-packages/trl/",
                 "site-packages/sentence_transformers/",
                 "site-packages/setfit/",
                 "site-packages/simpletransformers/",
                 "site-packages/unsloth",
                 "site-packages/autotrain/",
                 "site-packages/flagembedding/",
                 "site-packages/span_marker/",
                 "site-packages/adapters/",
                 "site-packages/optimum/",
                 "site-packages/llamafactory/",
                 "site-packages/axolotl/",
                 "dist-packages/trl/",
                 "dist-packages/sentence_transformers/",
                 "dist-packages/setfit/",
                 "dist-packages/simpletransformers/",
                 "dist-packages/unsloth",
                 "dist-packages/autotrain/",
                 "dist-packages/flagembedding/",
                 "dist-packages/span_marker/",
                 "dist-packages/adapters/",
                 "dist-packages/optimum/",
                 "dist-packages/llamafactory/",
                 "dist-packages/axolotl/",
                 "llama-factory/src/",
                 "llmtuner/",
                 "axolotl/src/"}},
       .refines = {"trainer-arguments", "unexpected-argument"},
       .what = "an installed library and transformers are of different ages: the library passes on an argument that "
               "transformers no longer takes, or does not take yet",
       .cause = "The library whose file stands last in the traceback (trl, sentence-transformers, …) is older than the "
                "installed transformers, which renamed or dropped the argument (tokenizer is processing_class since "
                "4.46, gone in 5)\n"
                "It is newer than the installed transformers or accelerate",
       .confirm = "pip list | grep -iE 'transformers|accelerate|trl|peft|sentence'; the last file of the traceback",
       .fix = "pip install -U that library, transformers and accelerate together, then restart Python\n"
              "or pin transformers to the version that the library names in its requirements: pip show LIBRARY",
       .command = "plimsoll is one program without Python packages"},
      {.name = "name-of-transformers",
       .when = kOfTransformers,
       .with = {{"' from 'trl", "' from 'peft", "' from 'datasets", "' from 'accelerate", "' from 'evaluate",
                 "' from 'unsloth", "' from 'torch", "' from 'sentence_transformers"}},
       .refines = {"name-missing", "packages-ages", "torch-version"},
       .what = "a name of transformers is imported from another package",
       .cause = "The class belongs to transformers, and the import's line names another package: two lists of imports "
                "were mixed up\n"
                "That package (trl above all) imported it for its own use, and an older version handed it on",
       .confirm = "python -c 'from transformers import NAME'",
       .fix = "from transformers import NAME; leave the other package's own names where they are\n"
              "trl's own counterpart, where it is meant: SFTConfig for TrainingArguments"},
      {.name = "name-of-other",
       .when =
           {"cannot import name 'loraconfig' from 'transformers", "cannot import name 'loraconfig' from 'trl",
            "cannot import name 'get_peft_model' from 'transformers", "cannot import name 'get_peft_model' from 'trl",
            "cannot import name 'peftmodel' from 'transformers",
            "cannot import name 'prepare_model_for_kbit_training' from 'transformers",
            "cannot import name 'prepare_model_for_kbit_training' from 'trl",
            "cannot import name 'tasktype' from 'transformers", "cannot import name 'sfttrainer' from 'transformers",
            "cannot import name 'sftconfig' from 'transformers", "cannot import name 'dpotrainer' from 'transformers",
            "cannot import name 'grpotrainer' from 'transformers", "cannot import name 'sfttrainer' from 'peft",
            "cannot import name 'load_dataset' from 'transformers", "cannot import name 'dataset' from 'transformers",
            "cannot import name 'datasetdict' from 'transformers",
            "cannot import name 'accelerator' from 'transformers"},
       .refines = {"name-missing", "packages-ages", "transformers-names"},
       .what = "a name of another library is imported from transformers or one of its neighbours",
       .cause = "LoraConfig, get_peft_model and TaskType are peft's; SFTTrainer, DPOTrainer and GRPOTrainer trl's; "
                "load_dataset, Dataset and DatasetDict datasets'; Accelerator accelerate's",
       .confirm = "the name and the package in the message",
       .fix = "import it from the package that has it (from peft import LoraConfig, from trl import SFTTrainer, from "
              "datasets import load_dataset), and pip install that package, if it is missing"},
      {.name = "stale-package",
       .when = {kStaleSource, "is not registered in the auto doc"},
       .refines = {"mixed-installation", "module-missing", "name-missing", "transformers-names", "packages-ages",
                   "lazy-import", "module-attribute"},
       .what = "a package was replaced while this Python ran: what is loaded and what is on the disk are two versions",
       .cause =
           "pip upgraded or reinstalled it after it had been imported (a notebook's kernel): modules of the old "
           "version are in memory, and those imported now are the new one's\n"
           "The installation itself is mixed (one version was written over another), or its files were edited since",
       .confirm = "the traceback's source lines do not fit: comments and brackets stand where a call should; the "
                  "package's __version__ in this Python against pip show",
       .fix = "restart the kernel or runtime, and run the cells again without installing anything\n"
              "if it stays: pip uninstall the package, pip install --no-cache-dir --force-reinstall it, and restart",
       .command = "plimsoll needs no Python packages"},
      {.name = "peft-cache",
       .when = {"cache only has 0 layers", "'dynamiccache' object is not subscriptable",
                "'encoderdecodercache' object is not subscriptable", "'nonetype' object is not subscriptable"},
       .with = {{"peft/peft_model.py", "peft\\peft_model.py"},
                {"past_key_values[0]", "past_key_values\"][0]", "past_key_values'][0]"}},
       .refines = {"cache-form", "object-attribute", "remote-code"},
       .what = "peft and transformers are of different ages: they disagree on the form of the cache of keys and values",
       .cause =
           "peft's code for prompt and prefix tuning indexes past_key_values as tuples, and the newer transformers "
           "hands it a Cache object, which is empty at the first token (or the reverse); the adapters and their "
           "training are not at fault",
       .confirm = "pip list | grep -iE '^(peft|transformers) '; it passes with use_cache=False",
       .fix = "pip install -U peft transformers, then restart Python\n"
              "model.generate(…, use_cache=False), which is slower\n"
              "pip install the older transformers that this peft was made for"},
      {.name = "items-in-batch",
       .when = {"unexpected arguments: {'num_items_in_batch'", "unexpected arguments*num_items_in_batch",
                "forward() got an unexpected keyword argument 'num_items_in_batch'"},
       .refines = {"trainer-arguments", "argument-of-library", "unexpected-argument", "unexpected-input"},
       .what = "the Trainer passes num_items_in_batch to a model that does not take it",
       .cause = "transformers 4.46 and its like hand it to every forward that has **kwargs, as peft's wrapper and many "
                "models have; an inner forward (BLOOM's, GPT-like older classes, one of your own) refuses what it does "
                "not know\n"
                "A forward of your own, or a patched one (Unsloth), is older than the installed transformers",
       .confirm = "pip list | grep -iE '^(transformers|peft|accelerate|unsloth) '; the last frame is a forward",
       .fix = "pip install -U transformers peft accelerate together, then restart Python\n"
              "trainer.model_accepts_loss_kwargs = False before trainer.train()\n"
              "pip install 'transformers<4.46'; **kwargs that are ignored in a forward of your own"},
      {.name = "keras-mixed",
       .when = {"a kerastensor is symbolic", "a kerastensor cannot be used as input", "exception encountered when",
                "kerastensor'> is not allowed", "instances of `keras.layer` can be added",
                "could not interpret optimizer identifier: <keras.src", "unrecognized data type*kerastensor"},
       .with = {{"kerastensor", "instances of `keras.layer` can be added", "could not interpret optimizer"},
                {"tf_keras", "tensorflow_hub", "hub.keraslayer", "modeling_tf_", "tf_utils.py"}},
       .refines = {"keras-symbolic"},
       .what = "Keras 3 and Keras 2 meet: layers or models of tf_keras get tensors or parts of the other",
       .cause = "TensorFlow 2.16 and newer bring Keras 3 as tf.keras and keras, while tensorflow_hub's KerasLayer and "
                "transformers' TF… models are built on tf_keras (Keras 2)",
       .confirm = "the traceback has frames of both tf_keras and keras; pip list | grep -iE 'keras|tensorflow'",
       .fix = "pip install tf-keras, and os.environ['TF_USE_LEGACY_KERAS'] = '1' before tensorflow is imported "
              "(restart the kernel)\n"
              "import tf_keras as keras throughout, in place of tf.keras and keras\n"
              "wrap the layer in a Keras 3 layer of your own whose call() calls it; or TensorFlow 2.15"},
      {.name = "keras-symbolic",
       .when = {"a kerastensor is symbolic", "a kerastensor cannot be used as input to a tensorflow function"},
       .what = "a symbolic Keras tensor is used as if it had values",
       .cause = "While a functional model is built, its inputs have a shape and no values: a function of TensorFlow or "
                "NumPy, len() or a condition was applied to one\n"
                "A layer of another Keras (tf_keras, tensorflow_hub) was called with it",
       .confirm = "the line of your own code that the traceback names last",
       .fix = "keras.ops in place of tf and numpy functions, or the step in a Lambda layer or a layer of your own\n"
              "one Keras throughout: TF_USE_LEGACY_KERAS=1 with tf-keras, where a library needs Keras 2"},
  };
}

}  // namespace plimsoll::doctor
