// CUDA's and the system's libraries, and extensions that were built for others.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> library_rules() {
  return {
      {.name = "cublas-bf16",
       .when = {"cublas_status_not_supported*cuda_r_16bf", "cublas_status_execution_failed*cuda_r_16bf",
                "cublas_status_invalid_value*cuda_r_16bf"},
       .refines = {"cublas-failed", "gpu-newer-than-cuda"},
       .what = "cuBLAS has no product in bfloat16 for this GPU",
       .cause = "The GPU is older than Ampere (compute capability 8.0)\n"
                "The CUDA of this PyTorch is older than 11.0, or another CUDA's cuBLAS was loaded (LD_LIBRARY_PATH)",
       .confirm = "torch.cuda.get_device_capability(); torch.version.cuda; echo $LD_LIBRARY_PATH",
       .fix = "fp16=True instead of bf16=True, with F32 weights; unset LD_LIBRARY_PATH",
       .command = "plimsoll train --bf16 runs on any processor"},
      {.name = "cublas-invalid-value",
       .when = {"cublas_status_invalid_value"},
       .refines = {"cublas-failed"},
       .what = "cuBLAS refused a product's arguments",
       .cause = "Another CUDA's cuBLAS was loaded than PyTorch was built with: LD_LIBRARY_PATH, or pip's "
                "nvidia-cublas-cu11\n"
                "A tensor has no rows, or another shape than the layer expects",
       .confirm = "echo $LD_LIBRARY_PATH; pip list | grep nvidia-cublas; the same batch on the CPU",
       .fix = "unset LD_LIBRARY_PATH; pip uninstall nvidia-cublas-cu11, or reinstall PyTorch; print the shapes at that "
              "line",
       .command = "plimsoll doctor lists cuBLAS's versions on the path"},
      {.name = "cublas-old",
       .when = {"cublas runtime error"},
       .refines = {"cublas-failed"},
       .what = "a matrix product failed inside cuBLAS (an old PyTorch)",
       .cause = "The GPU is newer than the CUDA of that PyTorch: \"the GPU program failed to execute\" on an RTX 20 "
                "with CUDA 9, or on an RTX 30 with CUDA 10\n"
                "An earlier kernel's bad index (a token id beyond the vocabulary, a label not below num_labels)\n"
                "The GPU's memory is full: \"resource allocation failed\"",
       .confirm = "torch.version.cuda and torch.cuda.get_device_capability(); then the same batch on the CPU",
       .fix = "a PyTorch whose CUDA is as new as the GPU; else repair the index, or make the batch smaller",
       .command = "plimsoll doctor compares GPU and CUDA; plimsoll check --data pages.jsonl for indices"},
      {.name = "cublas-not-initialized",
       .when = {"cublas_status_not_initialized", "cublas*not initialized",
                "cublas_status_internal_error when calling `cublascreate", "cusolver_status_not_initialized",
                "hipblas_status_not_initialized"},
       .refines = {"cublas-failed"},
       .what = "cuBLAS could not be initialised",
       .cause =
           "The device has no memory left for its handle\n"
           "A kernel before it failed, which CUDA reports late: a label not below num_labels, a token id beyond the "
           "vocabulary, a box outside 0 to 1000\n"
           "Another CUDA's libcublas was loaded (LD_LIBRARY_PATH)",
       .confirm = "first the CPU, or CUDA_LAUNCH_BLOCKING=1: does an index error come? Then nvidia-smi: is the device "
                  "full? Then LD_LIBRARY_PATH: does it name another CUDA?",
       .fix = "repair the index; make the batch smaller; unset LD_LIBRARY_PATH, pip uninstall nvidia-cublas-cu11 where "
              "PyTorch is built for 12",
       .command = "plimsoll check --data pages.jsonl for indices; plimsoll doctor for duplicate libraries and memory"},
      {.name = "cublas-failed",
       .when = {"cublas_status_execution_failed", "cublas_status_internal_error", "cublas_status_not_supported",
                "cublas_status_arch_mismatch", "cuda error: cublas_status", "cusolver_status_internal",
                "cusparse_status"},
       .without = {"cublas_status_alloc_failed"},
       .what = "a matrix product failed inside cuBLAS",
       .cause =
           "An earlier kernel's bad index that shows only here: a token id beyond the vocabulary, a box outside 0 to "
           "1000, a label not below num_labels\n"
           "The GPU is newer than the CUDA of this PyTorch, or cannot do the product in that type (bfloat16)\n"
           "Two CUDAs are mixed: nvidia-cublas of pip and the system's, or LD_LIBRARY_PATH",
       .confirm = "the CPU, or CUDA_LAUNCH_BLOCKING=1: another error comes first? `plimsoll doctor`: two libcublas?",
       .fix = "repair that error; unset LD_LIBRARY_PATH; keep one CUDA's libraries; F32 instead of half precision on "
              "old GPUs",
       .command = "plimsoll doctor lists cuBLAS's versions on the path"},
      {.name = "cudnn-version",
       .when = {"cudnn version incompatibility", "could not load library libcudnn", "unable to load any of {libcudnn",
                "loaded runtime cudnn library", "invalid handle. cannot load symbol cudnn",
                "cudnn_status_version_mismatch", "cudnn_status_sublibrary", "libcudnn*cannot open shared object"},
       .refines = {"cudnn-failed", "library-missing"},
       .what = "the wrong cuDNN is loaded",
       .cause = "LD_LIBRARY_PATH or a system package offers another cuDNN than the one that PyTorch was built with",
       .confirm = "torch.backends.cudnn.version(); `plimsoll doctor` lists all that are found",
       .fix = "unset LD_LIBRARY_PATH (pip's PyTorch brings its own), or remove the system's cuDNN",
       .command = "plimsoll doctor"},
      {.name = "cudnn-failed",
       .when = {"cudnn frontend error", "cudnn_status_bad_param", "cudnn_status_not_initialized",
                "cudnn error: cudnn_status", "unable to find a valid cudnn algorithm",
                "unable to find an engine to execute this computation", "cudnn_status_alloc_failed",
                "cudnn_status_execution_failed", "cudnn_status_internal_error", "cudnn_status_mapping_error",
                "no valid execution plans built", "miopenstatus"},
       .what = "cuDNN could not start, or found no way to compute",
       .cause = "The device has no memory left for its workspace\n"
                "The GPU is newer than this cuDNN or PyTorch, or the driver older\n"
                "An earlier kernel's failure",
       .confirm =
           "half the batch passes? nvidia-smi shows the device full? torch.backends.cudnn.enabled = False works?",
       .fix = "a smaller batch or what holds the device ended; torch.backends.cudnn.benchmark = False; PyTorch and "
              "driver of one age",
       .command = "plimsoll plan --budget SIZE; plimsoll doctor"},
      {.name = "library-missing",
       .when = {"libcudart*cannot open shared object", "libcublas*cannot open shared object",
                "libnvrtc*cannot open shared object", "libcusparse*cannot open shared object",
                "libnccl*cannot open shared object", "libnvjitlink*cannot open shared object",
                "libcufft*cannot open shared object", "libcurand*cannot open shared object",
                "libcusolver*cannot open shared object", "libcupti*cannot open shared object",
                "libtorch*cannot open shared object", "libc10*cannot open shared object", "failed to load*dll",
                "error loading*.dll", "libcusparselt*cannot open shared object"},
       .what = "a CUDA library is missing",
       .cause = "A package was built for another CUDA generation (libcudart.so.11 asks for CUDA 11), or the nvidia-* "
                "packages of pip are incomplete",
       .confirm = "ldd on the file in the message; pip list | grep -i nvidia",
       .fix = "install the package's build for PyTorch's CUDA (torch.version.cuda), or reinstall PyTorch with its "
              "dependencies",
       .command = "plimsoll doctor lists what is on the library path"},
      {.name = "system-library",
       .when = {"libgl.so.1: cannot open shared object", "libgthread-2.0.so.0: cannot open shared object",
                "libsm.so.6: cannot open shared object", "libxext.so.6: cannot open shared object",
                "libxrender.so.1: cannot open shared object"},
       .what = "OpenCV needs a desktop library that is not installed",
       .cause = "opencv-python can open windows and needs their libraries; containers and servers lack them",
       .confirm = "python -c 'import cv2'",
       .fix =
           "pip uninstall opencv-python; pip install opencv-python-headless; or apt-get install libgl1 libglib2.0-0"},
      {.name = "undefined-symbol",
       .when = {"not defined in file lib", "undefined symbol:", "symbol not found in flat namespace",
                "procedure entry point*could not be located", "the specified procedure could not be found"},
       .refines = {"library-missing"},
       .what = "two libraries were not built for one another",
       .cause = "An extension (flash-attn, apex, detectron2, torchvision) was compiled for another PyTorch; or "
                "LD_LIBRARY_PATH offers another CUDA's library (nvJitLink, cuSPARSE, NCCL)",
       .confirm = "c++filt on the symbol: c10 or at means PyTorch, nv or nccl means CUDA's libraries",
       .fix = "rebuild or reinstall the extension for the PyTorch in use; unset LD_LIBRARY_PATH",
       .command = "plimsoll doctor shows duplicates on the library path"},
      {.name = "build-cuda-mismatch",
       .when = {"error building extension", "ninja: build stopped", "is not defined for option 'gpu-name'",
                "cuda*mismatches the version", "nvcc was not found", "no such file or directory: *nvcc",
                "ninja is required to load c++ extensions", "error: command*g++*failed", "error: command*gcc*failed",
                "the detected cuda version", "mismatches the version that was used to compile",
                "unsupported gpu architecture 'compute_", "cuda_home environment variable is not set",
                "cuda_home does not exist, unable to compile", "error: command*nvcc*failed", "nvcc fatal",
                "unsupported gnu version"},
       .what = "an extension cannot be compiled with this CUDA toolkit",
       .cause =
           "nvcc is missing, of another generation than PyTorch's CUDA, or too old for the GPU or too new a compiler",
       .confirm = "nvcc --version against torch.version.cuda; gcc --version",
       .fix = "install the toolkit that equals torch.version.cuda and set CUDA_HOME; or take a wheel that is built"},
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
       .cause =
           "Its binaries are named after CUDA versions, and there is none for the one that it found, or it found none",
       .confirm = "python -m bitsandbytes",
       .fix = "pip install -U bitsandbytes; see that torch.cuda.is_available()",
       .command = "plimsoll train --optim adamw_8bit needs no such package"},
      {.name = "bitsandbytes-windows",
       .when = {"winerror 193", "cuda setup failed despite", "cuda setup: problem:", "libbitsandbytes_cpu.dll",
                "libbitsandbytes*.dll*(or one of its dependencies)", "cuda_setup: warning! libcudart.so not found"},
       .anywhere = {{"windowspath(", "\\bitsandbytes\\", "libbitsandbytes*.dll"}},
       .refines = {"bitsandbytes", "library-missing", "page-file"},
       .what = "this build of bitsandbytes has no library for Windows",
       .cause =
           "Versions before 0.43 bring Linux's .so files only, which Windows cannot load (WinError 193: not a valid "
           "Win32 application), and look for libcudart.so, which Windows does not have",
       .confirm = "pip show bitsandbytes; python -m bitsandbytes",
       .fix = "pip install -U bitsandbytes (0.43 and newer have wheels for Windows), with a CUDA build of PyTorch\n"
              "Linux or WSL 2",
       .command = "plimsoll train --optim adamw_8bit needs no such package"},
      {.name = "flash-attention",
       .when = {"flashattention only support", "using it on a gpu requires flash attention",
                "flashattention is only supported on", "flash_attn is not installed", "the package flash_attn",
                "flashattention forward only supports", "flashattention backward", "no module named 'flash_attn",
                "flash attention 2 is not available", "'fa2' attention", "flash_attn*undefined symbol",
                "flash attention 2.0 but", "flashattention2 has been toggled on",
                "package flash_attn seems to be not installed", "no module named 'flash_attn'", "flash_attn_2_cuda",
                "expected is_sm*to be true", "flash attention only supports"},
       .refines = {"undefined-symbol", "module-missing"},
       .what = "flash attention is not usable here",
       .cause =
           "It needs an Ampere GPU or newer, half precision or bfloat16, and a package built for the PyTorch in use",
       .confirm = "torch.cuda.get_device_capability() >= (8, 0)",
       .fix = "attn_implementation='sdpa' or 'eager'",
       .command = "plimsoll train keeps no attention scores on any hardware"},
      {.name = "libstdcxx",
       .when = {"glibcxx_*not found", "cxxabi_*not found", "glibc_*not found"},
       .what = "the system's C or C++ library is older than a package needs",
       .cause = "A package was built on a newer system, or conda's libstdc++ is shadowed by the system's",
       .confirm = "strings $CONDA_PREFIX/lib/libstdc++.so.6 | grep GLIBCXX",
       .fix = "conda install -c conda-forge libstdcxx-ng; or a build for the older system"},
      {.name = "numpy-abi",
       .when = {"compiled using numpy 1.x cannot be run in", "numpy.dtype size changed", "numpy.ndarray size changed",
                "no module named 'numpy._core", "numpy.core.multiarray failed to import", "_array_api not found",
                "numpy is not available"},
       .refines = {"module-missing", "pickled-module"},
       .what = "a package was built for another generation of NumPy",
       .cause = "NumPy 2 with packages built for NumPy 1, or the reverse",
       .confirm = "pip list | grep -iE 'numpy|torch|opencv|pandas'",
       .fix = "pip install 'numpy<2', or newer builds of the packages"},
  };
}

}  // namespace plimsoll::doctor
