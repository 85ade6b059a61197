// Native extensions that were built for another PyTorch, CUDA or GPU than the one in use.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> extension_rules() {
  return {
      {.name = "bitsandbytes",
       .when = {"cuda setup failed despite", "required library version not found: libbitsandbytes",
                "libbitsandbytes*cannot open", "no libcudart.so found", "libcudart.so not found",
                "could not find the bitsandbytes cuda binary", "'nonetype' object has no attribute 'cadam",
                "'nonetype' object has no attribute 'cquantize", "'nonetype' object has no attribute 'cget_managed",
                "'nonetype' object has no attribute 'cdequantize", "'str2optimizer8bit_blockwise' is not defined",
                "name 'str2optimizer", "libbitsandbytes*undefined symbol", "libcudart.so: cannot find",
                "named symbol not found at line", "cublas api failed with status",
                "bitsandbytes was compiled without gpu support", "bitsandbytes*8-bit quantization is not available",
                "libbitsandbytes_cpu.so: undefined symbol"},
       .refines = {"undefined-symbol", "library-missing"},
       .what = "bitsandbytes has no library for this CUDA",
       .cause = "Its version has no binary for the CUDA of this PyTorch, or for this GPU\n"
                "It found no CUDA: a CPU build of PyTorch, no visible GPU, or libcudart not on the library path\n"
                "Another CUDA's libraries come first (LD_LIBRARY_PATH, conda)",
       .confirm =
           "python -m bitsandbytes; python -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())'",
       .fix = "pip install -U bitsandbytes, then restart Python\n"
              "make torch.cuda.is_available() True first: a GPU in the job, a CUDA build of PyTorch\n"
              "unset LD_LIBRARY_PATH and BNB_CUDA_VERSION\n"
              "optim='adamw_torch' and no 4 or 8 bits, where it cannot be had",
       .command = "plimsoll train --optim adamw_8bit needs no such package"},
      {.name = "bitsandbytes-windows",
       .when = {"winerror 193", "cuda setup failed despite", "cuda setup: problem:", "libbitsandbytes_cpu.dll",
                "libbitsandbytes*.dll*(or one of its dependencies)", "cuda_setup: warning! libcudart.so not found"},
       .anywhere = {{"windowspath(", "\\bitsandbytes\\", "libbitsandbytes*.dll"}},
       .refines = {"bitsandbytes", "bitsandbytes-cudart", "library-missing", "page-file", "dll-missing"},
       .what = "this build of bitsandbytes has no library for Windows",
       .cause =
           "Versions before 0.43 bring Linux's .so files only, which Windows cannot load (WinError 193: not a valid "
           "Win32 application), and look for libcudart.so, which Windows does not have",
       .confirm = "pip show bitsandbytes; python -m bitsandbytes",
       .fix = "pip install -U bitsandbytes (0.43 and newer have wheels for Windows)\n"
              "a CUDA build of PyTorch, if torch.cuda.is_available() is False\n"
              "Linux or WSL 2; or optim='adamw_torch' and no 4 or 8 bits",
       .command = "plimsoll train --optim adamw_8bit needs no such package"},
      {.name = "flash-attention",
       .when = {"flashattention only support", "using it on a gpu requires flash attention",
                "flashattention is only supported on", "flash_attn is not installed", "the package flash_attn",
                "flashattention forward only supports", "flashattention backward", "no module named 'flash_attn.",
                "flash attention 2 is not available", "'fa2' attention", "flash_attn*undefined symbol",
                "flash attention 2.0 but", "flashattention2 has been toggled on",
                "package flash_attn seems to be not installed", "no module named 'flash_attn'", "flash_attn_2_cuda",
                "expected is_sm*to be true", "flash attention only supports"},
       .refines = {"undefined-symbol", "module-missing"},
       .what = "flash attention is not usable here",
       .cause = "The package flash-attn is not installed in this environment, or was built for another PyTorch, CUDA "
                "or Python\n"
                "The GPU is older than Ampere (T4, V100, P100, RTX 20)\n"
                "The model or its inputs are in F32: it takes half precision and bfloat16 only, on the GPU only\n"
                "The head's size, mask or option is one that it does not take",
       .confirm = "python -c 'import flash_attn'; torch.cuda.get_device_capability() >= (8, 0); {p.dtype for p in "
                  "model.parameters()}",
       .fix = "attn_implementation='sdpa' or 'eager'\n"
              "pip install flash-attn --no-build-isolation, or the wheel for the installed PyTorch, CUDA and Python\n"
              "torch_dtype=torch.bfloat16, model.to('cuda'), and bf16=True in training",
       .command = "plimsoll train keeps no attention scores on any hardware"},
      {.name = "bitsandbytes-cudart",
       .when = {"main cuda runtime library was not detected", "main cuda library was not detected",
                "no libcudart.so found", "libcudart.so not found", "libcudart.so: cannot find",
                "cuda setup: setup failed", "cuda setup: cuda detection failed",
                "bitsandbytes library load error: libcudart"},
       .without_anywhere = {"libbitsandbytes_cpu.so: undefined symbol", "windowspath(", "winerror"},
       .refines = {"bitsandbytes", "library-missing", "optional-module", "value-none"},
       .what = "bitsandbytes finds no CUDA runtime library (libcudart.so)",
       .cause =
           "libcudart.so is on no path that the loader searches: the toolkit or PyTorch's nvidia-cuda-runtime is not "
           "installed here, or its folder is missing in LD_LIBRARY_PATH (a batch job or container that loads no CUDA "
           "module)\n"
           "PyTorch is a CPU build, and brings no CUDA of its own\n"
           "An old bitsandbytes looks in the toolkit's folders only; since 0.43 it takes the libraries that PyTorch "
           "has "
           "loaded",
       .confirm = "python -m bitsandbytes; find / -name 'libcudart.so*' 2>/dev/null; python -c 'import torch; "
                  "print(torch.version.cuda, torch.cuda.is_available())'",
       .fix = "pip install -U bitsandbytes, then restart Python\n"
              "export LD_LIBRARY_PATH=DIR:$LD_LIBRARY_PATH, with the folder in which libcudart.so was found\n"
              "a CUDA build of PyTorch, or the toolkit of its version (module load cuda), where none is found\n"
              "optim='adamw_torch' and no 4 or 8 bits, where it cannot be had",
       .command = "plimsoll train --optim adamw_8bit needs no such package"},
      {.name = "flash-attention-dtype",
       .when = {"flashattention only support fp16 and bf16", "flashattention only supports fp16 and bf16",
                "flash attention 2.0 only supports torch.float16", "flash attention only supports fp16",
                "flash attention 2 only supports torch.float16", "flashattention only support fp16, bf16"},
       .refines = {"flash-attention", "tensor-type"},
       .what = "flash attention got F32: it takes half precision and bfloat16 only",
       .cause =
           "The model was loaded in F32, and forward runs without autocast: generation, evaluation or a loop of "
           "one's own\n"
           "Norms, embeddings or adapters were cast to F32 (prepare_model_for_kbit_training), and what they return "
           "reaches attention as F32\n"
           "torch_dtype was set on the config and not in from_pretrained",
       .confirm = "{p.dtype for p in model.parameters()}; q.dtype just before that line",
       .fix = "from_pretrained(…, torch_dtype=torch.bfloat16), or bf16=True (fp16=True) in training\n"
              "with torch.autocast('cuda', dtype=torch.bfloat16): around forward and generate\n"
              "attn_implementation='sdpa', which takes F32",
       .command = "plimsoll train keeps no attention scores on any hardware"},
      {.name = "flash-attention-gpu",
       .when = {"flashattention only supports ampere", "flashattention only supports*gpus or newer",
                "flashattention is only supported on ampere", "flash attention*ampere gpus or newer",
                "flashattention only supports*hopper"},
       .refines = {"flash-attention"},
       .what = "this GPU is too old for flash attention",
       .cause =
           "flash-attn 2 needs Ampere (compute capability 8.0: A100, RTX 30) or newer, flash-attn 3 Hopper; T4, V100, "
           "P100 and RTX 20 have neither",
       .confirm = "torch.cuda.get_device_capability() >= (8, 0)",
       .fix = "attn_implementation='sdpa', which has its own kernels for this GPU (or 'eager')\n"
              "pip uninstall flash-attn, where a model's own code takes it whenever it is installed\n"
              "a GPU that has it",
       .command = "plimsoll train keeps no attention scores on any hardware"},
      {.name = "flash-attention-missing",
       .when = {"package flash_attn seems to be not installed", "no module named 'flash_attn'",
                "flash_attn is not installed", "requires*packages that were not found*flash_attn",
                "flash attention 2 is not available", "flash_attn package is not installed",
                "requires the following packages that were not found in your environment: flash_attn"},
       .refines = {"flash-attention", "module-missing", "package-missing", "packages-ages", "lazy-import"},
       .what = "flash attention was asked for, and the package flash-attn is not installed",
       .cause = "The run asks for flash_attention_2 (an option, the model's config or its own code), and flash-attn is "
                "not in the environment that runs\n"
                "It was installed for another Python, or after this process (a notebook's kernel) had started",
       .confirm = "python -c 'import flash_attn; print(flash_attn.__version__)' with the same python",
       .fix = "attn_implementation='sdpa', which needs no package\n"
              "pip install flash-attn --no-build-isolation, or its wheel for the installed PyTorch, CUDA and Python "
              "(Ampere GPUs or newer)",
       .command = "plimsoll train keeps no attention scores on any hardware"},
      {.name = "build-isolation",
       .when = {"modulenotfounderror: no module named 'torch'", "modulenotfounderror: no module named 'packaging'",
                "modulenotfounderror: no module named 'numpy'", "modulenotfounderror: no module named 'wheel'",
                "modulenotfounderror: no module named 'cython'", "modulenotfounderror: no module named 'psutil'",
                "modulenotfounderror: no module named 'setuptools'"},
       .anywhere = {{"subprocess-exited-with-error", "getting requirements to build wheel", "failed-wheel-build",
                     "python setup.py egg_info did not run", "failed building wheel", "preparing metadata",
                     "prepare_metadata_for_build_wheel", "get_requires_for_build_wheel"}},
       .refines = {"module-missing", "wheel-build", "import-refused", "package-missing"},
       .what = "pip builds the package in an environment of its own, which lacks what its setup imports",
       .cause =
           "The package's setup.py imports PyTorch (or packaging, NumPy) and does not declare it, and pip builds in an "
           "isolated environment where the installed one is not seen\n"
           "It is installed in no environment yet: PyTorch comes after it in the list of requirements",
       .confirm = "python -c 'import torch' in the same environment; the module in the message",
       .fix = "pip install torch packaging ninja wheel setuptools first, then pip install --no-build-isolation the "
              "package\n"
              "a ready wheel for the installed PyTorch, CUDA and Python",
       .command = "plimsoll is one program without Python packages"},
      {.name = "extension-build",
       .when = {kExtensionSymbol},
       .refines = {"undefined-symbol", "flash-attention", "library-missing", "lazy-import", "torchvision-version",
                   "bitsandbytes", "xformers", "detectron2"},
       .what = "a package's compiled part was built for another PyTorch than the one that is installed",
       .cause =
           "NAME was compiled or its wheel made for another version of PyTorch (as after an upgrade of PyTorch), "
           "another C++ ABI, CUDA or Python; where a library imports it at its start, every import of that library "
           "fails, whatever options are set\n"
           "Two PyTorch are mixed: one of pip and one of conda, the user's (~/.local) and the environment's",
       .confirm =
           "python -c 'import torch; print(torch.__version__, torch.version.cuda)'; pip show -f NAME; pip list | "
           "grep -i torch",
       .fix =
           "pip uninstall -y NAME, then NAME for the installed PyTorch: its wheel for that PyTorch, CUDA, Python and "
           "ABI, or pip install --no-build-isolation --no-cache-dir NAME, which builds it here\n"
           "pip uninstall -y NAME and go on without it, where it is optional (attn_implementation='sdpa' then works; "
           "beside the broken package it does not)\n"
           "the PyTorch that NAME was built for\n"
           "a fresh environment with one PyTorch",
       .command = "plimsoll is compiled already"},
      {.name = "extension-kernels",
       .when = {kExtensionKernel},
       .without_anywhere = {"is not compatible with the current pytorch installation"},
       .refines = {"no-kernel-image"},
       .what = "a package's compiled part holds no kernels for this GPU",
       .cause = "NAME was built for other GPUs than this one: its wheel is older than the GPU, or it was compiled on a "
                "machine with another one; PyTorch itself may well have kernels for it\n"
                "The GPU is older than what NAME supports\n"
                "PyTorch has none either: then its own operations fail, too",
       .confirm = "torch.cuda.get_device_capability() against torch.cuda.get_arch_list(); the same run without NAME",
       .fix = "leave NAME out: attn_implementation='sdpa' (in other programs the option sdpa in place of xformers or "
              "flash-attn)\n"
              "pip install -U NAME, in a build whose notes name this GPU\n"
              "build it here: TORCH_CUDA_ARCH_LIST with this GPU's capability, then pip install --no-build-isolation "
              "--no-cache-dir NAME\n"
              "a newer PyTorch, if get_arch_list() lacks the GPU",
       .command = "plimsoll doctor compares the GPU with what its own binary holds"},
  };
}

}  // namespace plimsoll::doctor
