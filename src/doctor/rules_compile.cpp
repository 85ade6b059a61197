// torch.compile, Triton and captured graphs.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> compile_rules() {
  return {
      {.name = "compile-failed",
       // It quotes what failed inside: if a rule knows that, that is the cause.
       .level = Level::kConsequence,
       .when = {"backendcompilerfailed", "torch._dynamo.exc", "torch._inductor.exc", "inductorerror",
                "triton.compiler.errors"},
       .refines = {"module-missing"},
       .what = "torch.compile failed",
       .cause =
           "The model holds something that cannot be compiled: control flow that depends on data, shapes that change, "
           "custom operations\n"
           "A fault in this version of PyTorch, or an old cache of compiled kernels",
       .confirm = "it passes without torch.compile (torch_compile=False, TORCHDYNAMO_DISABLE=1); the line below \"from "
                  "user code\"",
       .fix = "leave torch.compile out: torch_compile=False, or TORCHDYNAMO_DISABLE=1\n"
              "dynamic=True, or @torch._dynamo.disable on the part that fails\n"
              "a newer PyTorch; rm -rf /tmp/torchinductor_$USER",
       .command = "plimsoll is compiled already"},
      {.name = "triton-version",
       .when = {"cannot import name '*' from 'triton", "module 'triton*' has no attribute",
                "no module named 'triton.compiler", "no module named 'triton.backends",
                "no module named 'triton.runtime", "no module named 'triton.common", "no module named 'triton.language",
                "no module named 'triton.tools", "no module named 'triton.testing"},
       .refines = {"packages-ages", "name-missing", "module-missing", "module-attribute", "lazy-import",
                   "compile-failed"},
       .what = "the installed Triton is of another version than PyTorch (or the package that imports it) wants",
       .cause =
           "Triton was upgraded, downgraded or installed by itself: each PyTorch wants the one that it was released "
           "with, and its pieces move from version to version\n"
           "PyTorch was replaced and an older or newer Triton stayed: another environment's or the user's (~/.local), "
           "triton-nightly, pytorch-triton or triton-windows besides\n"
           "A package that brings kernels of its own was made for another Triton",
       .confirm = "pip list | grep -iE '^(torch|triton|pytorch-triton)'; the path in the message: whose Triton is it?",
       .fix = "pip install 'triton==VERSION' that belongs to the PyTorch: 2.2.0 to 2.2, 2.3.1 to 2.3, 3.0.0 to 2.4, "
              "3.1.0 to 2.5, 3.2.0 to 2.6, 3.3.1 to 2.7, 3.4.0 to 2.8, 3.5.0 to 2.9; then restart Python\n"
              "or reinstall PyTorch, which brings its own: pip uninstall -y triton pytorch-triton torch; pip install "
              "torch\n"
              "until then without compilation: torch_compile=False, or TORCHDYNAMO_DISABLE=1",
       .command = "plimsoll is compiled already"},
      {.name = "triton-missing",
       .when = {"cannot find a working triton installation", "no module named 'triton'", "triton not installed",
                "triton is not installed"},
       .with = {{"_dynamo", "_inductor", "backendcompilerfailed", "inductorerror", "tritonmissing"}},
       .refines = {"module-missing", "compile-failed"},
       .what = "torch.compile needs Triton, and finds none that works",
       .cause =
           "The package is not installed: PyTorch for Windows comes without it, and so do some containers and builds\n"
           "It is of another version than PyTorch wants, or does not find its C compiler or the GPU's driver",
       .confirm = "python -c 'import triton; print(triton.__version__)'",
       .fix = "pip install triton (triton-windows on Windows) of the version that PyTorch wants\n"
              "or without compilation: torch_compile=False, or TORCHDYNAMO_DISABLE=1",
       .command = "plimsoll is compiled already"},
      {.name = "compile-python",
       .when = {"torch.compile with python*is not supported", "python 3.12+ not yet supported for torch.compile",
                "python 3.11+ not yet supported for torch.compile", "dynamo is not supported on python",
                "windows not yet supported for torch.compile"},
       .refines = {"compile-failed"},
       .what = "torch.compile does not work with this Python, or on this system",
       .cause = "The Python is newer than this PyTorch knows: 3.11 needs 2.1, 3.12 needs 2.4, 3.13 needs 2.6\n"
                "Windows needs 2.1 or newer, and a Triton of its own",
       .confirm = "python --version; pip show torch",
       .fix = "a newer PyTorch, or an older Python\n"
              "leave torch.compile out: torch_compile=False, or TORCHDYNAMO_DISABLE=1",
       .command = "plimsoll is compiled already"},
      {.name = "ldconfig-missing",
       .when = {"no such file or directory: 'ldconfig'", "no such file or directory: '/sbin/ldconfig'"},
       .refines = {"compile-failed", "file-missing"},
       .what = "Triton looks for the GPU's driver with ldconfig, which is not on the PATH",
       .cause = "/sbin is not on the PATH of this job or container",
       .confirm = "which ldconfig; ls /sbin/ldconfig",
       .fix = "export PATH=$PATH:/sbin:/usr/sbin\n"
              "TRITON_LIBCUDA_PATH=… (the directory of libcuda.so.1), where there is none\n"
              "leave torch.compile out: torch_compile=False, or TORCHDYNAMO_DISABLE=1",
       .command = "plimsoll is compiled already"},
      {.name = "compiler-missing",
       .when = {"failed to find c compiler", "invalidcxxcompiler", "no working c++ compiler found",
                "compiler: cl is not found", "compiler: cl was not found"},
       .refines = {"compile-failed"},
       .what = "torch.compile (or Triton) needs a C or C++ compiler, and finds none",
       .cause = "The machine or container has no gcc, g++ (or cl on Windows), or it is not on PATH\n"
                "The variables CC or CXX name one that is not there",
       .confirm = "gcc --version; echo $CC $CXX",
       .fix = "apt-get install gcc g++ python3-dev (conda: conda install -c conda-forge gxx); on Windows the Build "
              "Tools for "
              "Visual Studio, from its own command line\n"
              "or without compilation: torch_compile=False, or TORCHDYNAMO_DISABLE=1",
       .command = "plimsoll is compiled already"},
      {.name = "triton-old-gpu",
       .when = {"too old to be supported by the triton gpu compiler", "triton only supports devices of cuda capability",
                "gpu is too old to support triton"},
       .refines = {"compile-failed"},
       .what = "Triton, which torch.compile uses, does not serve this GPU",
       .cause = "It needs compute capability 7.0 (Volta) or newer: Pascal (GTX 10, P100) and older are below",
       .confirm = "torch.cuda.get_device_capability()",
       .fix = "torch_compile=False, TORCHDYNAMO_DISABLE=1, and no kernels written in Triton\n"
              "a newer GPU (a T4 or RTX 20 at least)"},
      {.name = "triton-resources",
       .when = {"out of resource: shared memory", "outofresources: out of resource"},
       .refines = {"compile-failed"},
       .what = "a Triton kernel wants more shared memory than this GPU has",
       .cause = "The kernel's block sizes were tuned for a larger GPU",
       .confirm = "Required and Hardware limit in the message",
       .fix = "smaller block sizes or num_stages; attn_implementation='sdpa' or 'eager' instead of that kernel"},
      {.name = "cuda-graph",
       .when = {"cudaerrorstreamcapture", "previous error during capture",
                "operation not permitted when stream is capturing", "during cuda graph capture",
                "offset increment outside graph capture"},
       .refines = {"illegal-access"},
       .what = "an operation is not allowed while a CUDA graph is captured",
       .cause = "Allocation, synchronisation (.item(), print) or random numbers inside the captured part",
       .confirm = "it passes without mode='reduce-overhead' or CUDA graphs",
       .fix = "no graph capture: torch.compile without mode='reduce-overhead', enforce_eager=True\n"
              "move that operation out of the captured part\n"
              "a newer PyTorch; no other thread (data loader with pin_memory) that uses CUDA during capture"},
      {.name = "triton-ops",
       .when = {"no module named 'triton.ops'", "no module named 'triton.ops."},
       .refines = {"module-missing", "packages-ages", "lazy-import", "import-refused"},
       .what = "bitsandbytes is older than the installed Triton",
       .cause = "Triton 3 has no triton.ops any more, and bitsandbytes before 0.45 imports it: PyTorch, which brings "
                "Triton, was upgraded alone",
       .confirm = "pip list | grep -iE 'bitsandbytes|triton|^torch '; the file of the last frame",
       .fix = "pip install -U bitsandbytes, then restart Python\n"
              "pip uninstall bitsandbytes, where nothing uses it",
       .command = "plimsoll train --load-in-4bit needs no package"},
      {.name = "header-missing",
       .when = {"fatal error: *.h: no such file", "fatal error: *.hpp: no such file",
                "fatal error: *.cuh: no such file", "fatal error: '*.h' file not found",
                "fatal error: '*.hpp' file not found", "fatal error: '*.cuh' file not found",
                "cannot open include file: '*.h'", "cannot open include file: '*.hpp'",
                "cannot open source file \"*.h\"", "fatal error: *: no such file or directory"},
       // The file to be compiled is missing.
       .without = {"cc1: fatal error", "cc1plus: fatal error", "gcc: fatal error", "g++: fatal error", "gcc: error",
                   "g++: error", "c1xx: fatal error"},
       .refines = {"compile-failed", "build-cuda-mismatch", "wheel-build", "child-failed", "extension-build",
                   "build-isolation"},
       .leads_to = {"extension-missing"},
       .what = "a compilation includes a header that is not installed",
       .cause = "The development files that bring it are not installed, or lie where the compiler does not look: the "
                "quoted line names the header\n"
                "The installation of the CUDA toolkit is a small one (conda, a runtime image of Docker), or CUDA_HOME "
                "names another one\n"
                "The source was written for another version of the library, in which that header existed",
       .confirm = "find / -name HEADER 2>/dev/null; apt-file search HEADER; echo $CUDA_HOME $CPATH",
       .fix = "NAME\n"
              "the package that brings the header (apt-file search names it), or CPATH=its directory\n"
              "a ready wheel, or a version of the package that was written for the installed library"},
  };
}

}  // namespace plimsoll::doctor
