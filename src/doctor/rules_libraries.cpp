// CUDA's and the system's libraries.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> library_rules() {
  return {
      {.name = "cublas-bf16",
       .when = {"cublas_status_not_supported*cuda_r_16bf", "cublas_status_invalid_value*cuda_r_16bf"},
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
                "A tensor has no rows, or another shape than the layer expects, which older versions do not check on "
                "the GPU\n"
                "An earlier kernel's bad index, which CUDA reports late: a token id beyond the vocabulary, a label not "
                "below num_labels",
       .confirm = "echo $LD_LIBRARY_PATH; pip list | grep nvidia-cublas; the same batch on the CPU",
       .fix = "run the batch on the CPU: a shape or index error there is the cause\n"
              "unset LD_LIBRARY_PATH; pip uninstall nvidia-cublas-cu11, or reinstall PyTorch\n"
              "print the shapes at that line, and leave out empty batches",
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
       .fix = "a PyTorch whose CUDA is as new as the GPU\n"
              "repair the index that the CPU names\n"
              "a smaller batch",
       .command = "plimsoll doctor compares GPU and CUDA; plimsoll check --model DIR --data pages.jsonl for indices"},
      {.name = "cublas-not-initialized",
       .when = {"cublas_status_not_initialized", "cublas*not initialized",
                "cublas_status_internal_error when calling `cublascreate", "cusolver_status_not_initialized",
                "hipblas_status_not_initialized"},
       .refines = {"cublas-failed"},
       .what = "cuBLAS could not be initialised",
       .cause = "The device has no memory left for its handle\n"
                "A kernel before it failed, which CUDA reports late: a label not below num_labels, a token id beyond "
                "the vocabulary, a text longer than the model's positions\n"
                "Another CUDA's libcublas was loaded (LD_LIBRARY_PATH), or this PyTorch is too old for the GPU",
       .confirm = "first the CPU, or CUDA_LAUNCH_BLOCKING=1: does an index error come? Then nvidia-smi: is the device "
                  "full? Then LD_LIBRARY_PATH: does it name another CUDA?",
       .fix = "a smaller batch, or end what else holds the device\n"
              "repair the index that the CPU names: num_labels, resize_token_embeddings, truncation=True\n"
              "unset LD_LIBRARY_PATH; pip uninstall nvidia-cublas-cu11 where PyTorch is built for 12; a PyTorch for "
              "this GPU",
       .command = "plimsoll check --model DIR --data pages.jsonl for indices; plimsoll doctor for duplicate libraries "
                  "and memory"},
      {.name = "cublas-failed",
       .when = {"cublas_status_execution_failed", "cublas_status_internal_error", "cublas_status_not_supported",
                "cublas_status_arch_mismatch", "cuda error: cublas_status", "cusolver_status_internal",
                "cuda error: hipblas_status", "hipblas_status_execution_failed", "hipblas_status_internal_error",
                "cusparse_status"},
       .without = {"cublas_status_alloc_failed", "hipblas_status_alloc_failed"},
       .what = "a matrix product failed inside cuBLAS",
       .cause = "An earlier kernel's bad index that shows only here: a token id beyond the vocabulary, a label not "
                "below num_labels, a text longer than the model's positions\n"
                "The GPU is newer than the CUDA of this PyTorch, or cannot do the product in that type (bfloat16)\n"
                "Two CUDAs are mixed: nvidia-cublas of pip and the system's, or LD_LIBRARY_PATH\n"
                "The device's memory is full, or the GPU itself fails",
       .confirm = "the CPU, or CUDA_LAUNCH_BLOCKING=1: another error comes first? half the batch passes? `plimsoll "
                  "doctor`: two libcublas?",
       .fix = "repair the error that the CPU shows\n"
              "a PyTorch built for this GPU; F32 or fp16 instead of bfloat16 on old GPUs\n"
              "unset LD_LIBRARY_PATH; keep one CUDA's libraries\n"
              "a smaller batch",
       .command = "plimsoll doctor lists cuBLAS's versions on the path"},
      {.name = "cudnn-version",
       .when = {"cudnn version incompatibility", "could not load library libcudnn", "unable to load any of {libcudnn",
                "loaded runtime cudnn library", "invalid handle. cannot load symbol cudnn",
                "cudnn_status_version_mismatch", "cudnn_status_sublibrary", "libcudnn*cannot open shared object"},
       .refines = {"cudnn-failed", "library-missing"},
       .what = "the wrong cuDNN is loaded",
       .cause = "LD_LIBRARY_PATH or a system package offers another cuDNN than the one that PyTorch was built with\n"
                "Another package (TensorFlow, ONNX Runtime, Paddle, faster-whisper) installed its own nvidia-cudnn, or "
                "needs the version that is not there\n"
                "The nvidia-cudnn package of pip is incomplete or was uninstalled",
       .confirm = "torch.backends.cudnn.version(); `plimsoll doctor` lists all that are found",
       .fix = "unset LD_LIBRARY_PATH (pip's PyTorch brings its own), or remove the system's cuDNN\n"
              "pip install --force-reinstall torch, or the nvidia-cudnn-cu12 version that `pip show torch` requires\n"
              "an environment of its own for each framework",
       .command = "plimsoll doctor"},
      {.name = "cudnn-failed",
       .when = {"cudnn frontend error", "cudnn_status_bad_param", "cudnn_status_not_initialized",
                "cudnn error: cudnn_status", "unable to find a valid cudnn algorithm",
                "unable to find an engine to execute this computation", "cudnn_status_alloc_failed",
                "cudnn_status_execution_failed", "cudnn_status_internal_error", "cudnn_status_mapping_error",
                "no valid execution plans built", "miopenstatus"},
       .what = "cuDNN could not start, or found no way to compute",
       .cause = "The device has no memory left for its workspace\n"
                "The GPU is newer than this cuDNN or PyTorch, or the driver older; or two cuDNNs are mixed\n"
                "The input is one that it does not take: empty, not contiguous, of an odd type or far too large\n"
                "An earlier kernel's failure, which CUDA reports late",
       .confirm =
           "half the batch passes? nvidia-smi shows the device full? torch.backends.cudnn.enabled = False works?",
       .fix = "a smaller batch, or end what holds the device\n"
              "PyTorch and driver of one age; unset LD_LIBRARY_PATH\n"
              "x.contiguous(); print the input's shape and type at that line; the same batch on the CPU\n"
              "torch.backends.cudnn.benchmark = False, or torch.backends.cudnn.enabled = False to go on",
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
       .cause = "A package was built for another CUDA generation than is installed (libcudart.so.11 asks for CUDA 11)\n"
                "The nvidia-* packages of pip are incomplete, or the toolkit's directory is not on LD_LIBRARY_PATH\n"
                "libtorch or libc10: an extension was imported before torch, or was built for another PyTorch",
       .confirm = "ldd on the file in the message; pip list | grep -i nvidia",
       .fix = "install the package's build for PyTorch's CUDA (torch.version.cuda)\n"
              "reinstall PyTorch with its dependencies: pip install --force-reinstall torch\n"
              "import torch first; or LD_LIBRARY_PATH with the directory that has the file",
       .command = "plimsoll doctor lists what is on the library path"},
      {.name = "dll-missing",
       .when = {"dll load failed", "[winerror 126]", "[winerror 127]", "[winerror 1114]", "error loading*.dll",
                "failed to load*dll"},
       .refines = {"library-missing", "module-missing"},
       .what = "Windows cannot load a DLL of a package, or one that it needs",
       .cause =
           "The Visual C++ runtime is missing or old (or libomp140.x86_64.dll, which fbgemm.dll of PyTorch 2.4 needs)\n"
           "The package was built for another version of Python, NumPy, PyTorch or CUDA than is installed\n"
           "DLLs of another installation (conda, CUDA, OpenCV) come first on PATH, or pip and conda packages are "
           "mixed\n"
           "The installation is incomplete, or a security program holds the file back",
       .confirm = "python -c 'import torch', then the package that the message names; where NAME.dll",
       .fix = "install the Visual C++ redistributable (vc_redist.x64.exe), then restart\n"
              "pip install --force-reinstall the package, in the build for the installed PyTorch and Python\n"
              "a fresh environment, of pip or of conda alone"},
      {.name = "system-library",
       .when = {"libgl.so.1: cannot open shared object", "libgthread-2.0.so.0: cannot open shared object",
                "libsm.so.6: cannot open shared object", "libxext.so.6: cannot open shared object",
                "libxrender.so.1: cannot open shared object", "libglib-2.0.so.0: cannot open shared object",
                "libegl.so.1: cannot open shared object", "libxcb.so.1: cannot open shared object"},
       .what = "OpenCV needs a desktop library that is not installed",
       .cause = "opencv-python can open windows and needs their libraries; containers and servers lack them",
       .confirm = "python -c 'import cv2'",
       .fix = "pip uninstall opencv-python; pip install opencv-python-headless\n"
              "apt-get install libgl1 libglib2.0-0 (libsm6 libxext6 libxrender1)"},
      {.name = "undefined-symbol",
       .when = {"not defined in file lib", "undefined symbol:", "symbol not found in flat namespace",
                "procedure entry point*could not be located", "the specified procedure could not be found"},
       .refines = {"library-missing", "dll-missing"},
       .what = "two libraries were not built for one another",
       .cause = "An extension (flash-attn, apex, detectron2, torchvision, torchaudio) was compiled for another "
                "PyTorch, as after an upgrade\n"
                "LD_LIBRARY_PATH or conda offers another CUDA's library than PyTorch's (nvJitLink, cuSPARSE, NCCL)\n"
                "The extension is of another CUDA generation, C++ ABI or Python",
       .confirm = "c++filt on the symbol: c10 or at means PyTorch, nv or nccl means CUDA's libraries",
       .fix = "reinstall the extension for the PyTorch in use (torchvision and torchaudio together with torch), or "
              "rebuild it without pip's cache\n"
              "unset LD_LIBRARY_PATH\n"
              "a fresh environment with one PyTorch",
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
       .cause = "nvcc is missing, or CUDA_HOME is not set: PyTorch's wheels bring no compiler\n"
                "The toolkit is of another generation than PyTorch's CUDA, or too old for the GPU\n"
                "The C++ compiler is missing, too new for that nvcc or too old for PyTorch; Python's headers or ninja "
                "are missing\n"
                "The source does not fit the installed PyTorch, or the compiler ran out of memory",
       .confirm = "nvcc --version against torch.version.cuda; gcc --version; the first line with error: above",
       .fix = "take a wheel that is built for the installed PyTorch, CUDA and Python\n"
              "install the toolkit that equals torch.version.cuda and set CUDA_HOME\n"
              "apt-get install build-essential python3-dev; pip install ninja; CC and CXX with a compiler that nvcc "
              "takes\n"
              "MAX_JOBS=4; a version of the extension that was written for this PyTorch"},
      {.name = "libstdcxx",
       .when = {"glibcxx_*not found", "cxxabi_*not found", "glibc_*not found"},
       .what = "the system's C or C++ library is older than a package needs",
       .cause = "A package was built on a newer system than this one\n"
                "conda's newer libstdc++ is shadowed by the system's, or by another on LD_LIBRARY_PATH",
       .confirm = "strings $CONDA_PREFIX/lib/libstdc++.so.6 | grep GLIBCXX",
       .fix = "conda install -c conda-forge libstdcxx-ng, and LD_LIBRARY_PATH=$CONDA_PREFIX/lib\n"
              "an older version of the package, or a build for this system (manylinux)\n"
              "a newer system or container image"},
      {.name = "numpy-abi",
       .when = {"compiled using numpy 1.x cannot be run in", "numpy.dtype size changed", "numpy.ndarray size changed",
                "no module named 'numpy._core", "numpy.core.multiarray failed to import", "_array_api not found",
                "numpy is not available"},
       .refines = {"module-missing", "pickled-module"},
       .what = "a package was built for another generation of NumPy",
       .cause = "NumPy 2 with packages that were built for NumPy 1\n"
                "A file or package made under NumPy 2 (numpy._core), read under NumPy 1",
       .confirm = "pip list | grep -iE 'numpy|torch|opencv|pandas'",
       .fix = "pip install 'numpy<2', then restart Python\n"
              "newer builds of the packages in the traceback (torch, opencv, pandas, scikit-learn)\n"
              "pip install 'numpy>=2' for what was made under it"},
  };
}

}  // namespace plimsoll::doctor
