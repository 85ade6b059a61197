// Python packages and files that do not fit together or are missing.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> install_rules() {
  return {
      {.name = "numpy-names",
       .when = {"module 'numpy' has no attribute", "`np.float_` was removed", "`np.float` was a deprecated alias",
                "`np.bool` was a deprecated alias", "`np.int` was a deprecated alias",
                "`np.object` was a deprecated alias", "` was removed in the numpy 2"},
       .refines = {"trainer-arguments", "module-attribute"},
       .what = "a package uses a name that NumPy has dropped",
       .cause = "np.float, np.int, np.bool and np.object went with NumPy 1.24, others with 2.0",
       .confirm = "pip show numpy; the traceback names the package",
       .fix = "a newer version of the package in the traceback\n"
              "in your own code float, int, bool, object (or np.float64, np.int64)\n"
              "pip install 'numpy<1.24' ('numpy<2' for what 2.0 dropped)"},
      {.name = "pillow-names",
       .when = {"module 'pil.image' has no attribute", "'freetypefont' object has no attribute 'getsize'",
                "'imagedraw' object has no attribute 'textsize'"},
       .refines = {"module-attribute"},
       .what = "a package uses a name that Pillow has dropped",
       .cause = "Pillow 10 took away Image.LINEAR, ANTIALIAS, CUBIC, getsize and textsize, and the package in the "
                "traceback (often detectron2 or an old script) uses them",
       .confirm = "pip show pillow",
       .fix = "a newer version of that package\n"
              "in your own code Image.BILINEAR, LANCZOS, BICUBIC, getbbox, textbbox\n"
              "pip install 'pillow<10'"},
      {.name = "mps-operation",
       .when = {"is not currently implemented for the mps device", "the mps framework doesn't support float64",
                "is not currently supported on the mps backend", "bfloat16 is not supported on mps",
                "mps device does not support", "mps does not support"},
       .what = "an operation or type does not exist on Apple's GPU (MPS)",
       .cause =
           "PyTorch's MPS backend lacks some operations and types, of which an older PyTorch or macOS has fewer\n"
           "float64 does not exist in the hardware: NumPy's floats and Python's, by way of torch.tensor, may bring it",
       .confirm = "the message names it",
       .fix = "float32 instead of float64 (array.astype('float32')), float16 or float32 instead of bfloat16\n"
              "PYTORCH_ENABLE_MPS_FALLBACK=1 before the start, which runs the operation on the CPU\n"
              "a newer PyTorch and macOS\n"
              "device='cpu'",
       .command = "plimsoll train runs on the processor"},
      {.name = "weights-only",
       .when = {"weights only load failed", "weightsunpickler error", "serious vulnerability issue in `torch.load`",
                "upgrade torch to at least v2.6"},
       .without_anywhere = {"invalid load key", "failed finding central directory"},
       .refines = {"damaged-file"},
       .what = "PyTorch refuses to load a pickle that could run code",
       .cause = "Since 2.6 torch.load reads tensors only, and the file holds other objects: a whole model, an "
                "optimizer's or NumPy's, a config of your own or of Lightning's\n"
                "transformers refuses .bin files under PyTorch before 2.6, whatever they hold",
       .confirm = "the message names the class",
       .fix = "take model.safetensors, or save state_dict() and read that\n"
              "if you trust the file: torch.load(path, weights_only=False), or "
              "torch.serialization.add_safe_globals([CLASS])\n"
              "pip install -U torch (2.6 or later), where the message asks for it\n"
              "newer versions of the package that calls torch.load",
       .command = "plimsoll reads pytorch_model.bin as data and runs nothing in it"},

      {.name = "resume-rng",
       .when = {"weights only load failed", "weightsunpickler error"},
       .with = {{"in _load_rng_state", "self._load_rng_state(", "torch.load(rng_file"}},
       .refines = {"weights-only", "damaged-file"},
       .what = "PyTorch refuses the checkpoint's rng_state.pth, so that the Trainer cannot resume",
       .cause =
           "Since 2.6 torch.load reads tensors only, and rng_state*.pth holds NumPy's state of random numbers: an "
           "older transformers does not allow its types, or the file was written under another generation of NumPy. "
           "The weights are not at fault",
       .confirm = "the traceback stands in _load_rng_state, and the message names a class of numpy",
       .fix =
           "move rng_state*.pth out of the checkpoint's directory: the Trainer goes on without (other random numbers "
           "from there, weights and optimizer as saved); or a newer transformers, or the NumPy that wrote it",
       .command = "plimsoll train --resume-from-checkpoint reads its state as data, without pickle"},
      {.name = "damaged-file",
       .when = {"pytorchstreamreader failed",
                "the file might be corrupted",
                "storage has wrong size",
                "tarfile.readerror",
                "badgzipfile",
                "zlib.error",
                "incorrect header check",
                "invalidheaderdeserialization",
                "headertoolarge",
                "headertoosmall",
                "error while deserializing header",
                "metadataincompletebuffer",
                "invalid load key",
                "unpicklingerror",
                "not a zip archive",
                "badzipfile",
                "incompletemetadata",
                "unable to load weights from pytorch checkpoint file",
                "file in archive is not in a subdirectory",
                "eoferror: ran out of input",
                "invalidheaderlength",
                "invalidheaderstart"},
       // Excludes a worker whose parent could not send it its work.
       .without = {"spawn_main", "load(from_parent)"},
       .what = "a file (weights, a checkpoint, an archive) is damaged or not what its name says",
       .cause =
           "A download or a save was cut short: the disk was full, the process was killed\n"
           "A Git LFS pointer of 130 bytes instead of the file, or a web page (an error, a log-in) saved as one\n"
           "The file is of another kind than the code reads: safetensors by torch.load, another pickle, not a zip\n"
           "Two processes wrote it at once, or one read it while another was still writing",
       .confirm = "ls -l and head -c 200 on the file: \"version https://git-lfs\" means a pointer, \"<html\" a web "
                  "page; compare its size with the source's",
       .fix = "delete it and download it again (force_download=True), with git lfs pull in a clone\n"
              "of checkpoints take the one before\n"
              "the loader of its kind: safetensors.torch.load_file, torch.load, pickle\n"
              "let one rank alone download and save, the others after a barrier",
       .command = "plimsoll train writes checkpoints aside and renames them when whole; it names the byte where a file "
                  "is torn"},
      {.name = "tokenizer-backend",
       .when = {"couldn't instantiate the backend tokenizer", "converting from sentencepiece and tiktoken failed",
                "converting from tiktoken failed"},
       .what = "the fast tokenizer cannot be made",
       .cause = "sentencepiece, tiktoken or protobuf, which convert the slow tokenizer, is not installed, or was after "
                "Python had started\n"
                "The directory has neither tokenizer.json nor the vocabulary's file: a checkpoint that was saved "
                "without its tokenizer, a download cut short\n"
                "transformers or tokenizers is older than the tokenizer's files",
       .confirm = "ls the model's directory; pip show sentencepiece tiktoken protobuf transformers",
       .fix = "pip install sentencepiece tiktoken protobuf, then restart Python\n"
              "load the tokenizer from the base model, or save it with the model (tokenizer.save_pretrained)\n"
              "pip install -U transformers tokenizers\n"
              "use_fast=False",
       .command = "plimsoll train reads tokenizer.json"},
      {.name = "model-registered",
       .when = {"is already used by a transformers config", "is already used by a transformers model"},
       .what = "a package registers a model that transformers has by now",
       .cause = "The code of a paper (unilm's layoutlmft) was written before transformers took the model in, and both "
                "claim its name",
       .confirm = "pip show transformers; the traceback ends in AutoConfig.register",
       .fix =
           "the transformers that the repository asks for, or register(…, exist_ok=True), or transformers' own class"},
      {.name = "ffmpeg-missing",
       .when = {"could not load libtorchcodec", "no such file or directory: 'ffmpeg'",
                "no such file or directory: 'ffprobe'", "ffmpeg was not found but is required",
                "couldn't find appropriate backend to handle uri", "audioread.exceptions.nobackenderror",
                "to support decoding audio data, please install", "to support decoding audio files, please install"},
       .refines = {"file-missing", "module-missing", "library-missing", "worker-exception"},
       .what = "sound or video cannot be decoded: FFmpeg, or the package that calls it, is missing",
       .cause = "FFmpeg is not installed on this machine or in this container, or is not on the path\n"
                "torchcodec (which datasets 4 uses), soundfile or librosa is not installed, or torchcodec is not of "
                "the installed PyTorch\n"
                "The file is of a format that the installed backend does not read, or is damaged",
       .confirm = "ffmpeg -version; pip list | grep -iE 'torch|soundfile|librosa|datasets'",
       .fix = "apt-get install ffmpeg, or conda install -c conda-forge ffmpeg\n"
              "pip install -U torchcodec soundfile librosa, torchcodec of the version that goes with PyTorch\n"
              "pip install 'datasets<4', which decodes with soundfile\n"
              "Audio(decode=False), and decode by a function of your own"},
      {.name = "poppler",
       .when = {"is poppler installed and in path", "pdfinfonotinstallederror", "no such file or directory: 'pdfinfo'",
                "no such file or directory: 'pdftoppm'"},
       .refines = {"file-missing"},
       .what = "poppler, which pdf2image calls to draw pages, is not installed",
       .cause = "pdf2image is only a wrapper around pdfinfo and pdftoppm",
       .confirm = "pdftoppm -v in the environment that runs",
       .fix = "apt-get install poppler-utils, or conda install -c conda-forge poppler; poppler_path=… on Windows"},
      {.name = "wandb-key",
       .when = {"api_key not configured (no-tty)", "wandb.errors.usageerror: api_key",
                "wandb.errors.usageerror: no api key", "wandb.errors.errors.authenticationerror",
                "wandb.errors.authenticationerror", "wandb.errors.errors.usageerror: no api key",
                "api key must be 40 characters"},
       .what = "Weights & Biases has no valid API key",
       .cause = "Nobody is logged in on this machine, and a batch job cannot ask; the Trainer reports to every tracker "
                "that is installed\n"
                "The key is of another account or server, was revoked or is cut short",
       .confirm = "echo $WANDB_API_KEY",
       .fix = "report_to='none' (or WANDB_MODE=disabled), if it is not wanted\n"
              "WANDB_API_KEY=… in the job's environment, or wandb login --relogin before\n"
              "WANDB_MODE=offline, and wandb sync later"},
      {.name = "tesseract-language",
       .when = {"error opening data file*traineddata", "failed loading language*tesseract",
                "tesseract couldn't load any languages"},
       .refines = {"tesseract"},
       .what = "Tesseract (OCR) does not find the data of a language",
       .cause = "The language that is asked for (tess_lang, lang=) is not installed\n"
                "TESSDATA_PREFIX names another folder than the one with the .traineddata files",
       .confirm = "tesseract --list-langs; echo $TESSDATA_PREFIX",
       .fix = "apt-get install tesseract-ocr-deu, for German, or copy NAME.traineddata into the folder that the message "
              "names\n"
              "unset TESSDATA_PREFIX, or set it to the folder with the .traineddata files",
       .command = "plimsoll ocr --language NAME says which languages are installed"},
      {.name = "tesseract",
       .when = {"tesseractnotfounderror", "tesseract is not installed or it's not in your path",
                "requires the pytesseract library", "no module named 'pytesseract'"},
       .refines = {"module-missing"},
       .what = "Tesseract (OCR) is not installed",
       .cause = "The processor reads words itself (apply_ocr=True) and needs the program and its Python package",
       .confirm = "tesseract --version; pip show pytesseract",
       .fix =
           "apt-get install tesseract-ocr; pip install pytesseract; or apply_ocr=False with your own words and boxes",
       .command = "plimsoll takes words and boxes as data and needs no OCR"},
      {.name = "accelerate-missing",
       .when = {"requires `accelerate", "requires accelerate", "name 'partialstate' is not defined",
                "no module named 'accelerate'", "`accelerate` is required"},
       .refines = {"module-missing"},
       .what = "the Trainer needs a (newer) accelerate",
       .cause = "accelerate is not installed in the Python that runs, or too old for the installed transformers\n"
                "It was installed after this Python (a notebook's kernel) had started",
       .confirm = "which python; python -m pip show accelerate; the version in the message",
       .fix = "pip install -U accelerate (or 'transformers[torch]'), then restart Python or the kernel"},
      {.name = "quantizer-packages",
       .when = {"quantization requires accelerate*bitsandbytes",
                "quantization requires*the latest version of bitsandbytes",
                "using `bitsandbytes` 4-bit quantization requires", "using `bitsandbytes` 8-bit quantization requires",
                "using `load_in_8bit=true` requires accelerate", "no package metadata was found for bitsandbytes",
                "no package metadata was found for accelerate"},
       .refines = {"accelerate-missing", "module-missing", "bitsandbytes"},
       .what = "quantised loading needs accelerate and a recent bitsandbytes, and one of them is not found",
       .cause = "bitsandbytes or accelerate is not installed in the Python that runs, or is too old\n"
                "They were installed after this Python (a notebook's kernel) had started\n"
                "No GPU is visible: bitsandbytes counts as absent where PyTorch finds no CUDA",
       .confirm = "python -m pip show accelerate bitsandbytes; python -m bitsandbytes; "
                  "python -c 'import torch; print(torch.cuda.is_available())'",
       .fix = "pip install -U accelerate bitsandbytes, then restart Python or the kernel\n"
              "on a GPU runtime, with a PyTorch built for CUDA",
       .command = "plimsoll train --load-in-4bit or --load-in-8bit needs no package"},
      {.name = "mixed-installation",
       .when = {kImportsFromItself},
       .without_anywhere = {"site-packages/transformers_modules"},
       .refines = {"module-missing", "name-missing", "torch-version", "transformers-names", "hub-version",
                   "lazy-import", "torchvision-version", "compile-failed"},
       .what =
           "an installed package does not fit itself: one of its files wants a name that another of its files lacks",
       .cause =
           "Its installation is broken or mixed: an upgrade that was interrupted or went over an older version, two "
           "copies (pip and conda, the user's and the environment's) on one path\n"
           "Another copy of a part of it is found first: PYTHONPATH, or files that were edited",
       .confirm = "both files in the traceback belong to one package; pip list, conda list and pip check show its "
                  "versions; python -c 'import PACKAGE; print(PACKAGE.__file__)'",
       .fix = "reinstall it clean: pip uninstall it until pip finds none, then pip install --no-cache-dir "
              "--force-reinstall the version that you want (PyTorch with its triton and torchvision)\n"
              "or a fresh environment"},
      {.name = "packages-ages",
       .when = {kImportsFromOther},
       .refines = {"module-missing", "name-missing"},
       .what = "two installed packages are of different ages: one wants a name that the other lacks",
       .cause = "The package whose file stands last in the traceback was made for another version of the one that the "
                "message names: the name was dropped or moved since, or is newer than what is installed",
       .confirm = "pip show both; pip check",
       .fix = "upgrade both together: pip install -U with both names, then restart Python\n"
              "or the older version of the second that the first was made for"},
      {.name = "name-missing",
       .when = {"importerror: cannot import name", "^cannot import name '*' from '"},
       .refines = {"module-missing", "lazy-import"},
       .what = "the installed version of a package lacks a name that is imported from it",
       .cause = "The name was dropped, renamed or moved since the script was written, or is newer than the installed "
                "version\n"
                "A file of your own bears the package's name and is imported instead",
       .confirm = "pip show the package; the path in brackets at the message's end: is it the package's?",
       .fix = "the version that the script was written for, or the name's new place\n"
              "pip install -U both the package and the one that imports from it, then restart Python\n"
              "rename the file that hides the package"},
      {.name = "compiled-part",
       .when = {"cannot import name '_c' from", "importerror*no module named*._c'",
                "modulenotfounderror*no module named*._c'", "modulenotfounderror*no module named*._ext'",
                "cannot import name '_ext' from", "no module named '*_cuda'", "cannot import name '_cuda' from"},
       .without = {"'torch._c'", "from 'torch'"},
       .refines = {"module-missing", "name-missing", "packages-ages"},
       .what = "a package's compiled part is missing",
       .cause =
           "The package was installed without building its C++ or CUDA extension: no compiler or nvcc was found, or "
           "the build failed without ending the installation\n"
           "Python runs in the package's own source folder, and finds it there, unbuilt, before the installed one",
       .confirm = "ls the package's directory for a .so file (.pyd on Windows); the working directory",
       .fix = "leave the source folder, or build it: pip install --no-build-isolation --force-reinstall it, with "
              "CUDA_HOME set and PyTorch installed before\n"
              "a ready wheel for the installed PyTorch and CUDA\n"
              "the package's path without it (attn_implementation='sdpa', another optimizer)",
       .command = "plimsoll is compiled already"},
      {.name = "torch-without-distributed",
       .when = {"no module named 'torch._c._distributed",
                "module 'torch.distributed' has no attribute 'init_process_group'",
                "module 'torch.distributed' has no attribute 'reduceop'"},
       .refines = {"module-missing", "torch-version", "module-attribute"},
       .what = "this build of PyTorch has no torch.distributed",
       .cause =
           "Builds for macOS, Windows on ARM, Jetson boards and some of conda's come without it, and a package uses "
           "it when it is imported",
       .confirm = "torch.distributed.is_available() is False",
       .fix = "a build of PyTorch that has it (PyTorch's own wheels for Linux and Windows)\n"
              "a version of the package in the traceback that does without"},
      {.name = "circular-import",
       .when = {"most likely due to a circular import"},
       .refines = {"module-missing", "name-missing", "module-attribute", "torchvision-version", "packages-ages"},
       .what = "a module is imported while it is itself being imported",
       .cause =
           "A file of your own bears the name of a package (datasets.py, torch.py, evaluate.py, tokenizers.py), and "
           "is imported instead of it\n"
           "Two modules import one another",
       .confirm = "the path in brackets at the message's end",
       .fix = "rename the file, and delete its __pycache__; import inside the function where two modules need one "
              "another"},
      {.name = "optional-module",
       .when = {kModuleIsNone},
       .what = "an optional package could not be imported when the program started, and its module is None now",
       .cause =
           "NAME is not installed, or was built for another PyTorch or CUDA and failed to import; the code went on "
           "without it until the line that failed",
       .confirm = "python -c 'import NAME' prints the reason; for xFormers python -m xformers.info",
       .fix = "install the build of NAME for the installed PyTorch and CUDA (pip install -U NAME; for unsloth by its "
              "own instructions), then restart Python\n"
              "or switch the feature off that needs it (attn_implementation='sdpa')"},
      {.name = "model-option",
       .when = {"__init__() got an unexpected keyword argument"},
       .with = {{"in from_pretrained", "from_pretrained(", "in from_config", "from_config("},
                {"cls(config", "model_kwargs", "modeling_utils", "auto_factory", "_from_config"}},
       .without = {"unexpected keyword argument 'gpus'", "_config.from_pretrained", "in from_peft_type"},
       .refines = {"unexpected-argument", "trainer-arguments", "lightning-version"},
       .what = "an option was given to from_pretrained that this model's class does not have",
       .cause =
           "from_pretrained hands what neither it nor the model's config knows to the class's __init__, which refuses "
           "it: an option of other models (use_cache in an encoder), a misspelt one, or an argument of the Trainer\n"
           "The option is newer or older than the installed transformers",
       .confirm = "the option that the message names, in the class's config: is it there?",
       .fix = "drop it from the call, or set it in the config if that has it\n"
              "pip install -U transformers, then restart Python"},
      {.name = "loading-option",
       .when = {"__init__() got an unexpected keyword argument 'dtype'",
                "__init__() got an unexpected keyword argument 'attn_implementation'",
                "__init__() got an unexpected keyword argument 'load_in_4bit'",
                "__init__() got an unexpected keyword argument 'load_in_8bit'",
                "__init__() got an unexpected keyword argument 'quantization_config'",
                "__init__() got an unexpected keyword argument 'use_flash_attention_2'",
                "__init__() got an unexpected keyword argument 'use_auth_token'",
                "__init__() got an unexpected keyword argument 'token'",
                "__init__() got an unexpected keyword argument 'device_map'",
                "__init__() got an unexpected keyword argument 'torch_dtype'",
                "__init__() got an unexpected keyword argument 'low_cpu_mem_usage'",
                "__init__() got an unexpected keyword argument 'offload_folder'"},
       .with = {{"from_pretrained", "forcausallm.__init__()", "forsequenceclassification.__init__()",
                 "fortokenclassification.__init__()", "forconditionalgeneration.__init__()", "lmheadmodel.__init__()",
                 "forquestionanswering.__init__()", "formaskedlm.__init__()"}},
       .refines = {"model-option", "unexpected-argument", "trainer-arguments"},
       .what = "an option of from_pretrained is not one of the installed transformers",
       .cause = "It is newer than the installed version (dtype came with 4.56, attn_implementation with 4.36, "
                "quantization_config and load_in_4bit with 4.30), or was dropped since (load_in_4bit, load_in_8bit, "
                "use_flash_attention_2 and use_auth_token): it then reaches the class's __init__, which refuses it",
       .confirm = "pip show transformers; the option in the message",
       .fix = "pip install -U transformers, then restart Python, for one that is newer\n"
              "today's name for one that was dropped: quantization_config=BitsAndBytesConfig(load_in_4bit=True), "
              "attn_implementation='flash_attention_2', token=…; torch_dtype instead of dtype before 4.56"},
      {.name = "version-pinned",
       .when = {"is required for a normal functioning of this module, but found"},
       .refines = {"tokenizers-too-old", "hub-version", "lazy-import", "module-missing"},
       .what = "transformers refuses to start: a package that it needs has another version than it takes",
       .cause =
           "That package was upgraded, or held back by another one, and transformers was not: the message names the "
           "versions that it takes and the one that it found\n"
           "Two environments or copies are mixed (pip and conda, the user's and the environment's)\n"
           "Both were upgraded while this Python (a notebook's kernel) ran",
       .confirm = "pip list | grep -iE 'transformers|tokenizers|huggingface|safetensors|numpy'; pip check",
       .fix = "pip install the version that the message asks for, in quotation marks, then restart Python\n"
              "or pip install -U transformers with it, so that both are of one age",
       .command = "plimsoll is one program without Python packages"},
      {.name = "tokenizer-class",
       .when = {"tokenizer class*does not exist or is not currently imported"},
       .without = {"layoutlmv3tokenizer does", "tokenizersbackend does"},
       .refines = {"transformers-too-old"},
       .what = "transformers does not have the tokenizer class that was asked for",
       .cause = "The model has a fast tokenizer only (GPT-NeoX and Pythia, Bloom, Falcon and others), and the slow one "
                "was asked for (use_fast=False): its class does not exist\n"
                "The class is newer than the installed transformers\n"
                "tokenizer_config.json names it wrongly (LLaMATokenizer instead of LlamaTokenizer)",
       .confirm = "use_fast in the call; tokenizer_class in tokenizer_config.json; pip show transformers",
       .fix = "AutoTokenizer.from_pretrained(…, use_fast=True)\n"
              "pip install -U transformers, then restart Python\n"
              "correct tokenizer_class, or load by the class's own name"},
      {.name = "tokenizer-newer",
       .when = {"tokenizer class tokenizersbackend does not exist"},
       .refines = {"transformers-too-old", "tokenizer-class"},
       .what = "the tokenizer was saved by transformers 5, and an older transformers reads it",
       .cause =
           "transformers 5 writes the class TokenizersBackend into tokenizer_config.json, which version 4 does not "
           "have",
       .confirm = "pip show transformers; tokenizer_class in tokenizer_config.json",
       .fix = "pip install -U transformers, then restart Python\n"
              "or set \"tokenizer_class\": \"PreTrainedTokenizerFast\" in tokenizer_config.json"},
      {.name = "remote-code",
       .when = {"attributeerror:*object has no attribute", "importerror: cannot import name",
                "typeerror:*got an unexpected keyword argument", "typeerror:*missing*required positional argument"},
       .with = {{"transformers_modules/", "transformers_modules\\"}},
       .refines = {"unexpected-argument", "module-missing", "name-missing", "unexpected-input", "packages-ages",
                   "transformers-names", "object-attribute", "model-option", "mixed-installation"},
       .what = "the model's own Python code (trust_remote_code) does not fit the installed transformers",
       .cause =
           "The code comes from the model's repository and was written for another version of transformers: a name, "
           "an argument or the form of the cache has changed since",
       .confirm = "pip show transformers; transformers_version in the model's config.json",
       .fix = "the version in config.json: pip install 'transformers==VERSION', then restart Python\n"
              "transformers' own class for the model, without trust_remote_code, where it has one by now (Florence-2 "
              "since 4.56); or a newer revision of the repository"},
      {.name = "donut-version",
       .when = {"prepare_inputs_for_inference() got an unexpected keyword argument"},
       .refines = {"unexpected-argument"},
       .what = "the package donut is older than the installed transformers",
       .cause = "Newer versions of transformers pass what its prepare_inputs_for_inference does not take "
                "(past_key_values, cache_position): it was written for 4.25 and earlier",
       .confirm = "pip show transformers donut-python",
       .fix = "pip install 'transformers==4.25.1' 'timm==0.5.4', as its authors had\n"
              "or transformers' own Donut: VisionEncoderDecoderModel and DonutProcessor, without that package"},
      {.name = "detectron-dataset",
       .when = {"keyerror: *dataset '*' is not registered", "keyerror: 'dataset \\'*is not registered",
                "assertionerror: dataset '*' is already registered", "you must register a function with"},
       .refines = {"column-missing"},
       .what = "detectron2 has no data set registered under that name, or has it twice",
       .cause =
           "A name of one letter: DATASETS.TRAIN = (\"name\") is a text, whose letters are taken for names; a tuple "
           "of one needs a comma\n"
           "register_coco_instances was not called in this process (workers and ranks are processes of their own), "
           "or under another name\n"
           "\"Already registered\": a notebook's cell ran twice",
       .confirm = "cfg.DATASETS.TRAIN and .TEST; the names that the message lists",
       .fix = "cfg.DATASETS.TRAIN = (\"name\",) with its comma\n"
              "register at the top of the script, in every process\n"
              "DatasetCatalog.remove(name) before registering again"},
      {.name = "sft-text",
       .when = {"you didn't pass a `dataset_text_field` or `formatting_func`",
                "you didn't pass a dataset_text_field or formatting_func",
                "`formatting_func` should return a list of processed strings"},
       .what = "trl's SFTTrainer does not know which text to train on",
       .cause = "Neither dataset_text_field nor formatting_func is given, and the data set has none of the forms that "
                "trl recognises (messages; prompt and completion)\n"
                "The argument moved from SFTTrainer to SFTConfig with trl 0.9 to 0.13\n"
                "formatting_func returns one text where this trl calls it with a batch and wants a list of them",
       .confirm = "print(dataset.column_names); pip show trl",
       .fix =
           "SFTConfig(dataset_text_field='text') with the column's name, passed as args=\n"
           "or formatting_func=… that returns the texts: a list for the batch that it gets, or one text for a sample "
           "in newer trl",
       .tellings = {{.when = {"should return a list"},
                     .what = "the formatting_func that SFTTrainer was given does not return a list of texts",
                     .cause = "formatting_func returns",
                     .fix = "or formatting_func="}}},
      {.name = "paddleocr-version",
       .when = {"unknown argument: show_log", "unknown argument: use_gpu", "unknown argument: use_angle_cls",
                "unknown argument: use_space_char", "unknown argument: enable_mkldnn"},
       .what = "the script was written for PaddleOCR 2, and version 3 is installed",
       .cause = "PaddleOCR 3 dropped show_log, use_gpu and other arguments, and calls OCR by predict()",
       .confirm = "pip show paddleocr paddlepaddle",
       .fix = "pip install 'paddleocr<3' 'paddlepaddle<3'\n"
              "the new names: PaddleOCR(device='gpu', use_textline_orientation=True).predict(image)"},
      {.name = "cache-form",
       .when = {"'dynamiccache' object has no attribute", "'dynamiccache' object is not subscriptable",
                "cache only has 0 layers", "object has no attribute '_supports_sdpa'",
                "object has no attribute '_supports_flash_attn", "object has no attribute 'forced_bos_token_id'"},
       .refines = {"remote-code", "object-attribute"},
       .what = "code of a model is older than the installed transformers",
       .cause = "transformers has changed what that code uses: the cache of keys and values (seen_tokens, "
                "get_usable_length and get_max_length went with 4.49 to 4.56), generation's entries in the config, the "
                "names of attentions",
       .confirm = "pip show transformers; transformers_version in the model's config.json",
       .fix = "the version in config.json: pip install 'transformers==VERSION', then restart Python\n"
              "transformers' own class for the model, without trust_remote_code; or a newer revision of its code"},
      {.name = "own-module",
       .when = {"no module named 'src'",     "no module named 'src.",     "no module named 'utils'",
                "no module named 'utils.",   "no module named 'models'",  "no module named 'models.",
                "no module named 'model'",   "no module named 'config'",  "no module named 'configs",
                "no module named 'data'",    "no module named 'dataset'", "no module named 'modules'",
                "no module named 'modules.", "no module named 'lib.",     "no module named 'common",
                "no module named 'core'",    "no module named 'core.",    "no module named 'losses",
                "no module named 'networks", "no module named 'helpers",  "no module named 'tools'",
                "no module named 'tools."},
       .without = {"torch.load(", "unpickl", "in load_checkpoint", "serialization.py"},
       .refines = {"module-missing"},
       .what = "Python does not find a module of the project's own",
       .cause = "The script was started from another directory, and the project's root is not on Python's path\n"
                "The file or folder is misspelt, was not copied or cloned (a submodule), or lacks __init__.py\n"
                "A package of the same name was found first, or an installation with pip install -e . is missing",
       .confirm = "ls the project's root; python -c 'import sys; print(sys.path)'",
       .fix = "start in the project's root: PYTHONPATH=. python train.py, or python -m package.train\n"
              "pip install -e . in the project; git submodule update --init\n"
              "rename what has the name of another package; do not install a package of that name with pip"},
      {.name = "module-missing",
       .when = {"requires the*library but it was not found", "modulenotfounderror: no module named",
                "requires the latest version of bitsandbytes", "requires bitsandbytes",
                "importerror: *requires the*library but it was not found",
                "requires the following packages that were not found", "you need to install the following dependencies",
                "please install apex", "at least one of tensorflow 2.0 or pytorch should be installed",
                "is not installed. please install", "please install it with `pip install",
                "please install `pip install", "to support decoding images, please install", "error: no module named",
                "importerror: please install", "importerror: using*requires", "no package metadata was found for"},
       .what = "a Python package is not installed in the environment that runs, or is too old",
       .cause = "It was never installed in the environment that runs, or is too old there\n"
                "It was installed for another Python, or after this process (a notebook's kernel) had started\n"
                "It is a module of a repository that is not on Python's path (PYTHONPATH)",
       .confirm = "which python; python -m pip show NAME",
       .fix = "python -m pip install -U NAME with the same python, then restart it\n"
              "activate the environment that has it in the job or kernel\n"
              "for a module of your own repository: run from its root, or PYTHONPATH=.",
       .command = "plimsoll is one program without Python packages"},
  };
}

}  // namespace plimsoll::doctor
