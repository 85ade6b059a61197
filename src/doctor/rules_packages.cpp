// Python packages that do not fit together, and calls that show it; the shell and the scheduler around the program.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> package_rules() {
  return {
      {.name = "deepspeed-cuda",
       .when = {"does not match the version torch was compiled with*unable to compile", "cudamismatchexception",
                "without a matching cuda version"},
       .refines = {"build-cuda-mismatch", "module-missing", "child-failed"},
       .what = "DeepSpeed does not compile its kernels: the CUDA toolkit is not the one that PyTorch was built with",
       .cause = "nvcc on the path (CUDA_HOME) is of another generation than torch.version.cuda",
       .confirm = "nvcc --version against torch.version.cuda; ds_report",
       .fix = "install the toolkit of PyTorch's version and set CUDA_HOME to it\n"
              "a PyTorch built for the installed toolkit\n"
              "DS_SKIP_CUDA_CHECK=1, where both are of one generation"},
      {.name = "linker-libcuda",
       .when = {"cannot find -lcuda"},
       .refines = {"compile-failed", "build-cuda-mismatch", "child-failed", "linker-library"},
       .what = "the linker does not find libcuda.so: Triton or an extension cannot be built",
       .cause = "The driver's library is installed as libcuda.so.1 only, or lies where the linker does not look (WSL: "
                "/usr/lib/wsl/lib); containers and login nodes may have none",
       .confirm = "ldconfig -p | grep libcuda; ls /usr/local/cuda/lib64/stubs",
       .fix = "LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LIBRARY_PATH, or TRITON_LIBCUDA_PATH with the directory of "
              "libcuda.so\n"
              "sudo ldconfig, after a link libcuda.so to libcuda.so.1 beside it",
       .command = "plimsoll is compiled already"},
      {.name = "linker-library",
       // DeepSpeed looks for -laio when it starts, and continues without it.
       .when = {"cannot find -lcudart", "cannot find -lcublas", "cannot find -lcurand", "cannot find -lcusparse",
                "cannot find -lcusolver", "cannot find -lcufft", "cannot find -lnvrtc", "cannot find -lpython",
                "cannot find -lstdc++", "cannot find -lc10", "cannot find -ltorch"},
       .refines = {"compile-failed", "build-cuda-mismatch", "child-failed"},
       .what = "the linker does not find a library that an extension needs",
       .cause = "The CUDA toolkit's or the system's development files are not installed, or not on LIBRARY_PATH",
       .confirm = "the name after -l in the message",
       .fix = "install it (-lcudart, -lcublas, -lcurand: the CUDA toolkit; -lpython: python3-dev), and add its "
              "directory to "
              "LIBRARY_PATH"},
      {.name = "python-headers",
       .when = {"fatal error: python.h", "python.h: no such file"},
       .refines = {"compile-failed", "build-cuda-mismatch", "child-failed", "header-missing", "wheel-build"},
       .what = "Python's headers are not installed, so that nothing can be compiled against it",
       .cause = "The system's Python comes without Python.h unless its development package is installed",
       .confirm = "ls $(python -c 'import sysconfig; print(sysconfig.get_path(\"include\"))')/Python.h",
       .fix = "apt-get install python3-dev (python3.X-dev of the same version), or a Python of conda or uv"},
      {.name = "extension-missing",
       .when = {"torch_extensions*cannot open shared object file", "ds_opt_adam", "unable to jit load the"},
       .refines = {"library-missing", "build-cuda-mismatch"},
       .what = "a kernel that DeepSpeed compiles at run time was not built",
       .cause = "The build failed earlier in the log: no nvcc, another CUDA than PyTorch's, no compiler\n"
                "An interrupted build left its lock or half its files in ~/.cache/torch_extensions",
       .confirm = "the first compiler error in the log; ls ~/.cache/torch_extensions",
       .fix = "rm -rf ~/.cache/torch_extensions and start again, then repair the compiler error that shows\n"
              "install the CUDA toolkit of torch.version.cuda and a compiler; DS_BUILD_OPS=0\n"
              "no offload (torch's own AdamW) where the kernel cannot be built"},
      {.name = "async-io",
       .when = {"unable to jit load the async_io op"},
       .refines = {"extension-missing"},
       .what = "DeepSpeed's async_io, which offloads to a disk, cannot be built: libaio is not installed",
       .cause = "libaio's header and library are not where the compiler looks for them",
       .confirm = "ds_report, its line async_io; ls /usr/include/libaio.h",
       .fix = "apt-get install libaio-dev, or conda install -c conda-forge libaio\n"
              "CFLAGS=-I$CONDA_PREFIX/include LDFLAGS=-L$CONDA_PREFIX/lib, where it is installed elsewhere\n"
              "offload to the CPU (\"device\": \"cpu\"), which does not need it",
       .command = "plimsoll train --offload DIR needs no such library"},
      {.name = "torchvision-version",
       .when = {"operator torchvision::nms does not exist", "couldn't load custom c++ ops",
                "partially initialized module 'torchvision'", "module 'torchvision' has no attribute 'extension'"},
       .refines = {"name-missing", "packages-ages", "module-missing", "undefined-symbol", "lazy-import"},
       .what = "torchvision was built for another PyTorch",
       .cause = "torch or torchvision was upgraded or reinstalled alone (by another package's requirements, too)\n"
                "One of the two is a CPU build, or of another CUDA, or of conda while the other is pip's",
       .confirm = "pip list | grep -i torch: 2.6 goes with 0.21, 2.5 with 0.20, 2.4 with 0.19, 2.1 with 0.16",
       .fix = "install both at once: pip install -U torch torchvision --index-url "
              "https://download.pytorch.org/whl/cu126, torchaudio too if it is there\n"
              "pip uninstall torchvision, if nothing uses it\n"
              "a fresh environment of pip or of conda alone"},
      {.name = "torch-version",
       .when = {"disabling pytorch because pytorch", "module 'torch*' has no attribute",
                "module 'torch' has no attribute", "name 'nn' is not defined",
                "name 'init_empty_weights' is not defined", "requires torch>=", "no module named 'torch._six'",
                "no module named 'torch.", "cannot import name*from 'torch"},
       .refines = {"name-missing", "packages-ages", "module-missing", "module-attribute", "torchvision-version"},
       .what = "a package and PyTorch are of different versions",
       .cause =
           "The package (transformers, accelerate, peft, deepspeed) is newer than PyTorch, and uses names that it does "
           "not have yet\n"
           "The package is older, and uses names that PyTorch has dropped (torch._six went with 2.0)",
       .confirm = "pip show torch transformers; the name in the message",
       .fix = "a newer PyTorch (with its torchvision), then restart Python\n"
              "the older version of that package which was made for this PyTorch\n"
              "a newer version of the package, if it uses a name that PyTorch has dropped"},
      {.name = "hub-version",
       .when = {"cannot import name*from 'huggingface_hub", "huggingface-hub>=*is required",
                "huggingface_hub>=*is required", "huggingface-hub*<1.0 is required"},
       .refines = {"name-missing", "packages-ages", "module-missing"},
       .what = "huggingface_hub is of another version than the package that uses it",
       .cause = "Names were dropped (cached_download with 0.26, others with 1.0), and transformers, datasets or "
                "diffusers is older\n"
                "They are newer than the installed huggingface_hub",
       .confirm = "pip list | grep -iE 'huggingface|transformers|datasets|diffusers'",
       .fix = "pip install -U transformers datasets diffusers huggingface_hub, then restart Python\n"
              "pip install 'huggingface_hub<0.26' for an old package; 'huggingface_hub<1.0' where the message asks for "
              "it"},
      {.name = "transformers-names",
       .when = {"cannot import name*from 'transformers", "module transformers has no attribute",
                "module transformers.*has no attribute", "no module named 'transformers.",
                "module 'transformers*' has no attribute"},
       .refines = {"name-missing", "packages-ages", "module-missing", "module-attribute"},
       .what = "the script wants a name that the installed transformers does not have",
       .cause = "The name is newer than the installed version\n"
                "It was dropped or moved since the script or package was written: AdamW in 4.49, HfFolder, names of "
                "transformers 5\n"
                "The old version is still loaded: the package was upgraded while this Python (a notebook's kernel) ran",
       .confirm = "pip show transformers; the name in the message",
       .fix = "pip install -U transformers (and peft, trl, accelerate with it), then restart Python or the kernel\n"
              "the new name: torch.optim.AdamW for AdamW\n"
              "the version that the script was written for: pip install 'transformers==VERSION'"},
      {.name = "load-metric",
       .when = {"cannot import name 'load_metric' from 'datasets'", "module 'datasets' has no attribute 'load_metric'"},
       .refines = {"name-missing", "packages-ages", "module-missing", "module-attribute"},
       .what = "datasets has no load_metric any more",
       .cause = "Metrics moved to the package evaluate, and datasets 3.0 dropped them",
       .confirm = "pip show datasets",
       .fix = "pip install evaluate seqeval; evaluate.load('seqeval') instead of load_metric('seqeval')",
       .command = "plimsoll eval reports precision, recall and F1 by itself"},
      {.name = "detectron2",
       .when = {"requires the detectron2 library", "no module named 'detectron2'", "requires detectron2",
                "no module named 'layoutlmft'"},
       .refines = {"module-missing"},
       .what = "detectron2, which LayoutLMv2 and LayoutXLM need for their image branch, is not installed",
       .cause = "It is on no package index: it is built from source against the installed PyTorch",
       .confirm = "python -c 'import detectron2'",
       .fix = "pip install 'git+https://github.com/facebookresearch/detectron2.git' with PyTorch installed before\n"
              "LayoutLMv3, which does without it",
       .command = "plimsoll trains LayoutLMv3, without Python packages"},
      {.name = "protobuf",
       .when = {"descriptors cannot be created directly", "descriptors cannot not be created directly",
                "downgrade the protobuf package to 3.20", "cannot import name 'builder' from 'google.protobuf",
                "requires the protobuf library but it was not found"},
       .refines = {"name-missing", "packages-ages", "module-missing", "worker-exception"},
       .what = "protobuf is of another version than the packages that use it",
       .cause = "Files generated for protobuf 3 do not load in version 4 and newer, and the reverse\n"
                "It is not installed, and the tokenizer is converted with it",
       .confirm = "pip show protobuf",
       .fix = "pip install 'protobuf==3.20.*', then restart Python\n"
              "newer versions of tensorboard, onnx, wandb and whatever is in the traceback\n"
              "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python for a moment; pip install protobuf, where it is missing"},
      {.name = "tokenizers-too-old",
       .when = {"did not match any variant of untagged enum", "tokenizers>=*is required", "expected `,` or `}` at line",
                "unknown variant*expected one of"},
       .refines = {"name-missing", "packages-ages", "module-missing"},
       .what = "tokenizer.json cannot be read: a newer version of tokenizers wrote it, or it is damaged",
       .cause = "tokenizer.json was written by newer tokenizers: its form changed with 0.19 and 0.20, which come with "
                "transformers 4.40 and 4.45\n"
                "tokenizer.json is cut short, edited by hand or a Git LFS pointer",
       .confirm = "pip show tokenizers transformers; python -m json.tool tokenizer.json",
       .fix = "pip install -U transformers tokenizers, then restart Python\n"
              "download tokenizer.json again, or take the base model's tokenizer\n"
              "use_fast=False, where the slow tokenizer's files are there"},
      {.name = "sentencepiece-file",
       .when = {"typeerror: not a string", "could not parse modelproto", "[model_proto->parsefromarray",
                "sentencepiece_processor.cc"},
       .refines = {"damaged-file", "tokenizer-backend"},
       .what = "SentencePiece's model file is missing or damaged",
       .cause = "The directory has no sentencepiece.bpe.model, spiece.model or tokenizer.model, so that its path is "
                "None\n"
                "The file is a Git LFS pointer, or was cut short",
       .confirm = "ls -l the model's directory: such a file has some hundred KiB or more",
       .fix = "download it again, or take the tokenizer from the base model\n"
              "load it from the directory or name that has the file; legacy=False; use_fast=True, where tokenizer.json "
              "is there"},
      {.name = "keras-3",
       .when = {"currently installed version of keras is keras 3"},
       .refines = {"name-missing", "packages-ages", "module-missing", "lazy-import"},
       .what = "transformers found Keras 3, which its TensorFlow part cannot use",
       .cause = "TensorFlow 2.16 and newer bring Keras 3",
       .confirm = "pip show keras tf-keras",
       .fix = "pip install tf-keras; or USE_TF=0, if TensorFlow is not needed"},
      {.name = "tensorflow-broken",
       .when = {"_pywrap_tensorflow_internal", "failed to load the native tensorflow runtime"},
       .refines = {"name-missing", "packages-ages", "module-missing", "lazy-import", "library-missing", "dll-missing"},
       .what = "TensorFlow is installed and cannot be loaded, and transformers imports it",
       .cause = "Its installation is broken, Windows lacks the Visual C++ runtime, or the processor lacks AVX",
       .confirm = "python -c 'import tensorflow'",
       .fix = "USE_TF=0, or pip uninstall tensorflow, if only PyTorch is used\n"
              "install the Visual C++ redistributable, then pip install --force-reinstall tensorflow\n"
              "an older TensorFlow for a processor without AVX"},
      {.name = "rust-missing",
       .when = {"can't find rust compiler", "error: can't find rust",
                "cargo, the rust package manager, is not installed", "failed building wheel for tokenizers",
                "failed to build tokenizers"},
       .refines = {"wheel-build"},
       .what = "tokenizers (or safetensors) is compiled from source, and that needs Rust",
       .cause = "There is no ready wheel of that old version for this Python or processor",
       .confirm = "python --version; pip --version",
       .fix = "a newer transformers, or the Python version that it was made for; pip install -U pip; or install Rust"},
      {.name = "wheel-build",
       .level = Level::kConsequence,
       .when = {"failed building wheel for", "could not build wheels for", "metadata-generation-failed",
                "subprocess-exited-with-error", "failed to build installable wheels"},
       .without_anywhere = {"without a matching cuda version"},
       .refines = {"module-missing"},
       .what = "pip could not build a package from source",
       .cause = "There is no ready wheel for this Python and system: Python is too new or the package old\n"
                "A compiler, headers or libraries are missing\n"
                "The build needs PyTorch, NumPy or CUDA, which pip's isolated build hides",
       .confirm = "the first error above that line; python --version",
       .fix = "a Python version that has wheels (3.10 to 3.12 for most), or a newer version of the package\n"
              "apt-get install build-essential python3-dev, and what the first error names\n"
              "pip install --no-build-isolation, with torch installed before (flash-attn and its like)\n"
              "conda's package of it"},
      {.name = "pip-version",
       .level = Level::kConsequence,
       .when = {"no matching distribution found for", "could not find a version that satisfies the requirement",
                "requires a different python", "requires-python"},
       .what = "pip finds no version of a package for this Python",
       .cause = "The package has none for this Python version or system: Python is too new or too old\n"
                "The name is misspelt, or on another index (PyTorch's wheels: --index-url)\n"
                "The index is not reached: no network, a proxy, a mirror without it",
       .confirm = "python --version; the list of versions in the message",
       .fix = "the Python version that the package supports, or another version of the package\n"
              "--index-url https://download.pytorch.org/whl/… for PyTorch's wheels; the right name\n"
              "https_proxy, or a machine with network; pip install -U pip"},
      {.name = "msvc-missing",
       .when = {"microsoft visual c++ 14.0 or greater is required", "unable to find vcvarsall.bat",
                "error checking compiler version for cl"},
       .refines = {"wheel-build", "build-cuda-mismatch", "compile-failed"},
       .what = "Windows has no C++ compiler for an extension",
       .cause = "The Visual Studio build tools are not installed, or not on the path of this shell",
       .confirm = "where cl",
       .fix = "install \"Desktop development with C++\" of the build tools; start from their x64 prompt; or a ready "
              "wheel"},
      {.name = "python-too-old",
       .when = {"'type' object is not subscriptable", "unsupported operand type(s) for |: 'type'", "requires python 3",
                "cannot import name 'literal' from 'typing'", "unsupported operand type(s) for |: '_genericalias'",
                "unsupported operand type(s) for |: 'nonetype' and 'type'",
                "unsupported operand type(s) for |: '_specialform'",
                "unsupported operand type(s) for |: 'builtin_function_or_method'"},
       .what = "this Python is older than the code needs",
       .cause =
           "list[int] needs Python 3.9, int | None needs 3.10, and the code or a package in the traceback uses them",
       .confirm = "python --version",
       .fix = "a newer Python\n"
              "from __future__ import annotations, typing.List and Optional, in your own code\n"
              "an older version of that package"},
      {.name = "python-too-new",
       .when = {"mutable default*for field*is not allowed", "module 'collections' has no attribute",
                "cannot import name*from 'collections'", "module 'inspect' has no attribute 'getargspec'",
                "no module named 'distutils'", "no module named 'imp'",
                "module 'pkgutil' has no attribute 'impimporter'", "no module named 'lib2to3'"},
       .refines = {"name-missing", "packages-ages", "module-missing", "module-attribute", "wheel-build"},
       .what = "this Python is newer than a package allows",
       .cause = "Names were dropped from Python: collections.Mapping with 3.10, getargspec and shared defaults of "
                "dataclasses with 3.11, distutils and imp with 3.12",
       .confirm = "python --version; the package in the traceback",
       .fix = "a newer version of that package, or the Python that it was written for (3.8 to 3.10 for old ones); pip "
              "install setuptools for distutils"},
      {.name = "setuptools-version",
       .when = {"module 'distutils' has no attribute 'version'", "no module named 'pkg_resources'",
                "cannot import name 'packaging' from 'pkg_resources'"},
       .refines = {"name-missing", "packages-ages", "module-missing", "module-attribute"},
       .what = "setuptools is of another version than a package needs",
       .cause =
           "distutils.version went with setuptools 59.6, pkg_resources with later ones; old PyTorch, tensorboard and "
           "build scripts use them",
       .confirm = "pip show setuptools",
       .fix = "pip install 'setuptools<70' (59.5.0 for distutils.version)\n"
              "a newer version of the package in the traceback\n"
              "python -m ensurepip; pip install setuptools, where it is missing (Python 3.12 and venvs)"},
      {.name = "openmp-twice",
       .when = {"omp: error #15", "libiomp5md.dll, but found", "initializing libiomp5"},
       .what = "two copies of the OpenMP library are loaded",
       .cause = "PyTorch of pip beside NumPy or OpenCV of conda, each with its own",
       .confirm = "which packages come from conda and which from pip: conda list",
       .fix = "install all from one of the two, in a fresh environment\n"
              "remove the second libiomp5md.dll (conda's Library\\bin), or import torch first\n"
              "KMP_DUPLICATE_LIB_OK=TRUE hides it, and may give wrong results"},
      {.name = "container-runtime",
       .when = {"unknown or invalid runtime name: nvidia", "unknown runtime specified nvidia",
                "could not select device driver", "nvidia-container-cli: initialization error",
                "nvidia-container-cli: *", "failed to create shim task: oci runtime"},
       .without = {"unsatisfied condition"},
       .refines = {"no-driver"},
       .what = "Docker cannot give the container a GPU",
       .cause = "NVIDIA's container toolkit is not installed or not set up in Docker\n"
                "The host has no working driver, or none that serves the image's CUDA\n"
                "Docker Desktop runs without WSL 2, or the service was not restarted",
       .confirm = "nvidia-smi on the host; docker info | grep -i runtime",
       .fix = "install nvidia-container-toolkit; sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl "
              "restart docker\n"
              "repair the host's driver: nvidia-smi there\n"
              "the WSL 2 backend in Docker Desktop, and NVIDIA's driver for Windows"},
      {.name = "driver-stub",
       .when = {"cuda driver is a stub library", "cudaerrorstublibrary", "error 34"},
       .refines = {"no-device", "cuda-unknown", "no-driver"},
       .what = "the CUDA toolkit's stub was loaded instead of the driver's libcuda.so.1",
       .cause = "LD_LIBRARY_PATH names /usr/local/cuda/lib64/stubs",
       .confirm = "ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH",
       .fix = "take the stubs out of LD_LIBRARY_PATH (they are for linking only)"},
      {.name = "peer-access",
       .when = {"peer access is not supported between these two devices", "peer mapping resources exhausted",
                "cudaerrorpeeraccess", "cudaerrortoomanypeers"},
       .refines = {"nccl-error"},
       .what = "one GPU cannot reach another one's memory",
       .cause = "The GPUs or the board have no peer-to-peer (consumer cards, IOMMU, virtual machines)",
       .confirm = "nvidia-smi topo -p2p r",
       .fix = "NCCL_P2P_DISABLE=1; or one GPU"},
      {.name = "xformers",
       .when = {"no operator found for `memory_efficient_attention", "no operator found for this attention",
                "xformers can't load c++/cuda extensions", "xformers wasn't build with cuda support",
                "no module named 'xformers'"},
       .refines = {"module-missing"},
       .what = "xFormers is not usable with this PyTorch or this GPU",
       .cause = "Its wheel was built for another PyTorch or CUDA\n"
                "The inputs are of a type or shape, or on a device, that no kernel takes: F32 or the CPU, a head that "
                "is too large, an old or very new GPU\n"
                "It is not installed",
       .confirm = "python -m xformers.info",
       .fix =
           "pip install -U xformers for the installed PyTorch, or leave it out: attn_implementation='sdpa' needs none\n"
           "half precision on the GPU\n"
           "no enable_xformers_memory_efficient_attention()"},
      {.name = "wandb-network",
       .when = {"wandb: network error", "failed to resolve*wandb.io", "host='api.wandb.ai'",
                "wandb.io', port=", "wandb.errors.commerror", "run initialization has timed out",
                "host='api.wandb.ai'*max retries exceeded", "wandb.errors.errors.commerror"},
       .outage = true,
       .refines = {"wandb-key", "hub-unreachable", "load-name"},
       .what = "Weights & Biases could not be reached, or refused the run",
       .cause =
           "No network on this node, a proxy or firewall, or their service was down\n"
           "The entity or project does not exist, or the key has no right to it: the message then says so (403, 404)\n"
           "wandb is too old, or its service process did not start (a full disk, a small time-out)",
       .confirm = "curl -I https://api.wandb.ai",
       .fix = "WANDB_MODE=offline, and wandb sync later; report_to='none'\n"
              "the right entity= and project=, and a key that may write there\n"
              "pip install -U wandb; WANDB_INIT_TIMEOUT=300"},
      {.name = "mlflow-limit",
       .when = {"mlflow.exceptions.mlflowexception", "mlflow.exceptions.restexception"},
       .outage = true,
       .what = "MLflow refused what the Trainer reported",
       .cause = "The server or tracking directory is not reached, or refuses the log-in\n"
                "A parameter is longer than it allows (250, 500 or 6000 characters), or was logged before with another "
                "value\n"
                "The experiment was deleted, or a name or metric has characters that it does not take",
       .confirm = "the text behind MlflowException",
       .fix = "MLFLOW_TRACKING_URI and its log-in as the server wants them\n"
              "a new run for each training; MLFLOW_FLATTEN_PARAMS=TRUE; a newer server\n"
              "report_to without 'mlflow'"},
      {.name = "command-missing",
       .level = Level::kConsequence,
       .when = {": command not found", "execve(): *no such file or directory", "sh: *: not found$",
                "is not recognized as an internal or external command", "condaerror: run 'conda init'",
                "your shell has not been properly configured to use 'conda activate'", "unable to locate a modulefile",
                "lmod has detected the following error", "executable not found in $path"},
       .passes = true,
       .refines = {"no-driver", "child-failed"},
       .what = "the shell does not find a program",
       .cause = "The environment is not active in this shell or batch job, the module is not loaded, or the program is "
                "not installed",
       .confirm = "which NAME; echo $PATH, in the job itself",
       .fix = "source ~/miniconda3/etc/profile.d/conda.sh before conda activate; module load …\n"
              "the program's full path, or python -m NAME\n"
              "install it in the environment or image that runs the job"},
      {.name = "program-not-started",
       .when = {"permissionerror*", "[winerror 5]", "[winerror 193]", "oserror: [errno 8] exec format error"},
       .with = {{"_execute_child", "posix_spawn(", "createprocess("}},
       .refines = {"output-unwritable", "file-in-use"},
       .what = "the system does not start another program",
       .cause = "The path that is called is a directory, or a file without the right to be executed (a setting like "
                "tesseract_cmd wants the program itself)\n"
                "The program is for another kind of machine, or a security setting forbids it",
       .confirm = "call the program by the same path in a shell; ls -l on it",
       .fix = "the full path of the program (…\\Tesseract-OCR\\tesseract.exe); chmod +x"},
      {.name = "drive-mount",
       .when = {"credential propagation was unsuccessful", "valueerror: mount failed",
                "mountpoint must not already contain", "mountpoint must not contain a space"},
       .what = "Google Drive could not be mounted in the notebook",
       .cause = "The question for access was closed, or answered with another account or without all the rights\n"
                "The browser blocks the question's window or its cookies\n"
                "The directory to mount at exists and is not empty",
       .confirm = "run the cell with drive.mount alone, and see whether the window of the question opens",
       .fix = "run the cell again, and allow everything with the notebook's own account\n"
              "drive.mount('/content/drive', force_remount=True); restart the runtime\n"
              "without Drive: upload the files, or take them from the hub"},
      {.name = "argument-twice",
       .when = {"got multiple values for keyword argument", "got multiple values for argument"},
       .what = "a function gets one of its arguments twice",
       .cause =
           "A keyword is passed that the caller passes too: a processor or a Trainer fills it itself (header_text, "
           "return_tensors, text), or **kwargs holds it\n"
           "More positional arguments than the function has before that one: self forgotten, or an older order of "
           "parameters",
       .confirm = "inspect.signature(FUNCTION), and the line of your own code that the traceback names",
       .fix = "leave the argument that the message names out of the call, or out of **kwargs\n"
              "pass arguments by name"},
      {.name = "pip-resolver",
       .when = {"resolutionimpossible", "resolutiontoodeep",
                "because these package versions have conflicting dependencies"},
       .what = "pip finds no set of versions that fits all requirements",
       .cause = "Two requirements ask for versions of one package that exclude each other\n"
                "So many versions are allowed that pip tries one after the other until it gives up",
       .confirm = "the lines above: which package is tried in version after version, and who asks for it",
       .fix = "state versions: pip install 'NAME==VERSION' of the package that is tried again and again\n"
              "a fresh environment, and only the requirements that are needed; a newer pip, or uv pip install"},
      {.name = "yaml-loader",
       .when = {"load() missing 1 required positional argument: 'loader'"},
       .what = "PyYAML 6 or later wants a Loader, and the code that calls yaml.load is older",
       .cause = "PyYAML was updated beside a package (dask, an old repository) that calls yaml.load(file)",
       .confirm = "pip show pyyaml; the line that the traceback names last is whose call it is",
       .fix = "update the package that calls it; in own code yaml.safe_load(file); else pip install 'pyyaml<6'"},
      {.name = "gguf-export",
       .when = {"llama-quantize*does not exist", "unsloth: quantization failed", "failed compiling llama.cpp",
                "llama.cpp*does not exist", "convert_hf_to_gguf.py*no such file"},
       .what = "the export to GGUF failed: llama.cpp is not built here",
       .cause =
           "Unsloth builds llama.cpp when a model is exported, and could not (no cmake or compiler, no network, no "
           "rights); the training before it is not concerned",
       .confirm = "ls llama.cpp: no llama-quantize",
       .fix = "git clone llama.cpp, build it with cmake, and export again\n"
              "save_pretrained_merged without GGUF, and convert it on another machine"},
      {.name = "slurm-submit",
       .when = {"batch job submission failed", "requested node configuration is not available",
                "invalid generic resource (gres)", "unable to allocate resources", "qosmax", "assocmax",
                "invalid account or account/partition", "unable to create step for job"},
       .what = "Slurm did not accept the job or its step",
       .cause = "GPUs, memory, time or account in the request are not available in that partition",
       .confirm = "sinfo -o '%P %G %m %l'; sacctmgr show assoc user=$USER",
       .fix = "ask for what the partition has: --gres, --mem, --time\n"
              "an account and partition that you may use: --account, --partition\n"
              "fewer jobs at once, where a limit (QOS, association) is named"},
      {.name = "node-failure",
       .when = {"due to node failure", "node_fail", "node failure on"},
       .from_outside = true,
       .refines = {"killed", "terminated", "time-limit"},
       .what = "a node of the cluster failed",
       .cause = "Hardware, network or power of that node",
       .confirm = "sacct -j JOB --format=JobID,State,NodeList; scontrol show node NAME",
       .fix = "resume from the last checkpoint elsewhere (--exclude=NODE); tell the administrators",
       .command = "plimsoll train --resume-from-checkpoint goes on bit for bit"},
      {.name = "job-cancelled",
       .level = Level::kConsequence,
       .when = {"slurmstepd*cancelled at", "job*cancelled by", "scancel"},
       .from_outside = true,
       .refines = {"terminated"},
       .what = "somebody or something cancelled the job",
       .cause = "scancel by its user or an administrator, a dependency, or a limit that the log does not name",
       .confirm = "sacct -j JOB --format=JobID,State,Elapsed,Timelimit,MaxRSS",
       .fix = "what sacct says; resume from the last checkpoint"},
      {.name = "pod-evicted",
       .when = {"the node was low on resource", "reason: evicted", "pod was evicted", "status: evicted",
                "ephemeral local storage usage exceeds"},
       .from_outside = true,
       .refines = {"killed", "terminated"},
       .what = "Kubernetes evicted the pod",
       .cause = "The node ran low on memory or disk, or the pod used more temporary storage than its limit: "
                "checkpoints and caches count",
       .confirm = "kubectl describe pod NAME: the resource in the message",
       .fix = "larger requests for memory and ephemeral-storage\n"
              "checkpoints and HF_HOME on a volume; save_total_limit"},
      {.name = "ray-memory",
       .when = {"killed due to the node running low on memory", "ray.exceptions.outofmemoryerror"},
       .from_outside = true,
       .refines = {"host-oom-killer", "killed"},
       .what = "Ray ended a task because the node's memory ran low",
       .cause = "The workers of one node together take more than 95 % of its memory",
       .confirm = "the list of processes and their memory in the message",
       .fix = "fewer workers a node, more memory for each (memory= in their resources), smaller data in memory"},
      {.name = "threads-limit",
       .when = {"can't start new thread", "thread creation failed: resource temporarily unavailable",
                "pthread_create failed", "blockingioerror: [errno 11]", "fork: retry: resource temporarily unavailable",
                "errno 11] resource temporarily unavailable"},
       .what = "no further process or thread may be started",
       .cause = "The limit on a user's processes (ulimit -u) or the container's on pids: many workers, each with a "
                "thread for every core",
       .confirm = "ulimit -u; cat /sys/fs/cgroup/pids.max",
       .fix = "OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1, fewer workers\n"
              "end what is left of earlier runs: ps -u $USER\n"
              "docker run --pids-limit=-1; ulimit -u larger"},
      {.name = "nfs-lock",
       .when = {"errno 37] no locks available", "the file lock*could not be acquired"},
       .what = "a file cannot be locked",
       .cause = "The disk (NFS, Lustre) has no locks, or a process that died left a .lock file in the cache",
       .confirm = "the path in the message; mount | grep the disk",
       .fix = "delete the .lock file, when no other run uses it\n"
              "HF_HOME (and HF_DATASETS_CACHE) on a local disk\n"
              "let one rank alone download and prepare, the others after it"},
      {.name = "illegal-instruction",
       .when = {"^illegal instruction", "illegal instruction (core dumped)", "exitcode: -4", "exitcode : -4",
                "exitcode  : -4", "signals.sigill", "(sigill)", "signal 4 "},
       .refines = {"segfault"},
       .what = "a program uses instructions that this processor does not have",
       .cause = "A package was built for processors with AVX, AVX2 or AVX-512, and this one (or the virtual machine) "
                "lacks them",
       .confirm = "lscpu | grep -o 'avx[^ ]*' | sort -u",
       .fix = "a build for the older processor; in a virtual machine the host's CPU model"},
      {.name = "heap-corruption",
       .when = {"free(): invalid", "double free or corruption", "corrupted size vs. prev_size", "malloc(): ",
                "munmap_chunk(): invalid", "0xc0000374", "0xc0000409", "free(): double free", "free(): corrupted"},
       .refines = {"segfault"},
       .what = "native code damaged its memory",
       .cause = "Libraries that were built against different versions of one another (PyTorch, OpenCV, protobuf, a "
                "custom CUDA extension), loaded into one process",
       .confirm = "python -X faulthandler train.py names the Python line; import the packages one by one",
       .fix = "a fresh environment with one PyTorch and extensions built for it; import torch first (or last)"},
      {.name = "recursion",
       .when = {"recursionerror: maximum recursion depth exceeded",
                "fatal python error: cannot recover from stack overflow"},
       .refines = {"worker-exception"},
       .what = "a function called itself without end",
       .cause = "A tokenizer whose unknown token is not in its vocabulary (old LLaMA conversions)\n"
                "__getattr__ of a wrapper that asks itself: where the object is copied or unpickled above all\n"
                "A model that holds itself, or a structure nested deeper than Python allows",
       .confirm = "the frames that repeat in the traceback",
       .fix = "the model's current tokenizer files and transformers, or use_fast=False\n"
              "correct the wrapper's __getattr__ (raise AttributeError for names with __)\n"
              "do not keep the parent inside the child (self.__dict__ or a list instead)"},
      {.name = "pickle-failed",
       .when = {"can't pickle", "cannot pickle", "pickle.picklingerror", "^picklingerror", "can't get local object"},
       .without = {"num_workers", "dataloader"},
       .what = "an object cannot be pickled",
       .cause = "A lambda, a local function, a lock, a generator or an open file is part of what is saved or sent to "
                "another process",
       .confirm = "the type in the message; pickle.dumps of the parts, one by one",
       .fix = "named functions at module level; save state_dict() instead of the object"},
      {.name = "lazy-import",
       .level = Level::kEcho,
       .when = {"failed to import transformers", "because of the following error (look up to see its traceback)"},
       .what = "a part of transformers could not be imported",
       .cause = "The line below it says which package failed, and its traceback stands before",
       .confirm = "python -c 'import NAME' with the package that it names",
       .fix =
           "repair or reinstall that package\n"
           "USE_TF=0 if it is TensorFlow or Keras; pip uninstall what is not needed (torchvision, flash-attn, apex)"},
      {.name = "module-attribute",
       .when = {"attributeerror: module*has no attribute", "attributeerror: partially initialized module"},
       .what = "a module lacks a name that is asked for: packages of different ages, or a file that hides a package",
       .cause = "The package is older or newer than the code that uses it\n"
                "A file of your own bears the package's name (torch.py, datasets.py) and is imported instead\n"
                "The submodule was never imported, or the installation is incomplete",
       .confirm = "python -c 'import NAME; print(NAME.__file__, NAME.__version__)'",
       .fix = "the version that the code was written for\n"
              "rename the file that hides the package, and delete its __pycache__\n"
              "import the submodule itself (import a.b); pip install --force-reinstall the package"},
      {.name = "unexpected-argument",
       .when = {"() got an unexpected keyword argument"},
       .refines = {"worker-exception"},
       .what = "a function was called with an argument that it does not take",
       .cause = "The packages are of different ages: the argument was renamed or dropped, or is newer than what is "
                "installed\n"
                "The name is misspelt, or belongs to another function or class\n"
                "A method or class of one's own that a library calls lacks the argument",
       .confirm = "help(FUNCTION) in the installed version; pip list",
       .fix = "the argument's name in the installed version, or leave it out\n"
              "upgrade both packages together, or install the version that the script was written for\n"
              "**kwargs in your own method"},
      {.name = "peft-version",
       .when = {"loraconfig.__init__() got an unexpected keyword",
                "config.__init__() got an unexpected keyword argument", "peftmodel*got an unexpected keyword argument"},
       .with = {{"peft"}},
       .refines = {"unexpected-argument", "trainer-arguments"},
       .what = "the adapter was saved by a newer peft than is installed",
       .cause = "adapter_config.json has keys that the installed LoraConfig does not know",
       .confirm = "pip show peft; the key in the message",
       .fix = "pip install -U peft; or delete that key from adapter_config.json, if it is empty or its default"},
  };
}

}  // namespace plimsoll::doctor
