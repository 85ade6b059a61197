// The NVIDIA driver, the GPU and the CUDA of the program do not belong together.
#include "doctor/rule.h"

namespace plimsoll::doctor {

namespace {

// Returns the rules whose failures follow if CUDA has found no device, except `rule` itself.
std::vector<std::string_view> without_device(std::string_view rule) {
  std::vector<std::string_view> rules = {"fp16-without-gpu", "bf16-unsupported",     "flash-attention", "map-location",
                                         "bitsandbytes",     "bitsandbytes-windows", "half-on-cpu",     "cuda-unknown",
                                         "cpu-only-torch",   "no-kernel-image",      "no-device",       "no-driver"};
  std::erase(rules, rule);
  return rules;
}

bool is_newer_than_build(const OomNumbers&, const LogFacts& facts) { return facts.gpu_newer_than_build(); }

}  // namespace

std::vector<Rule> driver_rules() {
  return {
      {.name = "no-kernel-image",
       .when = {"device kernel image is invalid", "invalid value for --gpu-architecture", "nvrtc: error: invalid value",
                "no kernel image is available", "cudaerrornokernelimagefordevice",
                "not compatible with the current pytorch installation", "cuda_error_no_binary_for_gpu",
                "invalid device function"},
       .what = "the program holds no kernels for this GPU",
       .cause = "The GPU is newer than this PyTorch: its build has no code for that compute capability\n"
                "The GPU is so old that builds have dropped it (Kepler, Maxwell, Pascal, later Volta)\n"
                "An extension (flash-attn, bitsandbytes, xFormers, apex, detectron2, torchvision) was built for other "
                "compute capabilities than PyTorch",
       .confirm = "torch.cuda.get_device_capability() against torch.cuda.get_arch_list()",
       .fix = "newer GPU: a newer PyTorch with a newer CUDA (RTX 40 and H100: cu118 or later; RTX 50 and B200: cu128 "
              "or later)\n"
              "old GPU: an older PyTorch whose list still has it\n"
              "extensions: rebuild with TORCH_CUDA_ARCH_LIST set to this GPU's capability",
       .command = "plimsoll doctor compares the GPU with what its own binary holds"},
      {.name = "no-kernel-amd",
       .when = {"hip error: no kernel image is available", "hip error: invalid device function",
                "hiperrornobinaryforgpu", "illegal seek for gpu arch", "tensilelibrary*cannot",
                "cannot read*tensilelibrary"},
       .refines = {"no-kernel-image"},
       .what = "the program holds no kernels for this AMD GPU",
       .cause =
           "This build of PyTorch for ROCm, or of RCCL, has no code for this GPU (its gfx name): it is newer than the "
           "build, or one that ROCm does not list\n"
           "An extension (flash-attn, bitsandbytes, xFormers) was built for other AMD GPUs",
       .confirm = "torch.cuda.get_arch_list() against rocminfo | grep gfx",
       .fix = "a build of PyTorch whose ROCm lists the GPU\n"
              "HSA_OVERRIDE_GFX_VERSION=10.3.0 (RDNA 2) or 11.0.0 (RDNA 3), if a near relative is listed\n"
              "extensions: rebuild with PYTORCH_ROCM_ARCH set to the GPU's gfx name"},
      {.name = "no-device-amd",
       .when = {"no hip gpus are available", "hiperrornodevice", "hip error: no rocm-capable device"},
       .refines = {"no-device"},
       .what = "no AMD GPU can be used: HIP finds none",
       .cause = "The user is in neither of the groups render and video, and may not open /dev/kfd and /dev/dri\n"
                "The container was started without these devices\n"
                "HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES is empty or names GPUs that are not "
                "there, or the job was given none\n"
                "The amdgpu driver is not loaded, or is older than this ROCm needs; or ROCm does not list the GPU",
       .confirm = "rocminfo | grep gfx; ls -l /dev/kfd /dev/dri; groups; printenv | grep VISIBLE_DEVICES",
       .fix = "sudo usermod -aG render,video $USER, and log in again\n"
              "docker run --device=/dev/kfd --device=/dev/dri --group-add video --group-add render …\n"
              "unset the variables; Slurm: --gpus=1\n"
              "the amdgpu driver of this ROCm, or a PyTorch for the ROCm that is installed"},
      {.name = "driver-too-old",
       .when = {"cuda driver version is insufficient", "driver on your system is too old",
                "cudaerrorinsufficientdriver", "please update your gpu driver", "requires nvidia driver",
                "unsatisfied condition: cuda"},
       .refines = {"no-driver", "no-device"},
       .leads_to = without_device("driver-too-old"),
       .what = "the NVIDIA driver is older than the CUDA runtime needs",
       .cause = "PyTorch brings its own CUDA runtime, and that one needs a newer driver: CUDA 11 needs 450.80, CUDA 12 "
                "needs 525.60, CUDA 13 needs 580.65\n"
                "No driver is visible at all: a container that was started without the GPU, or a machine without one",
       .confirm = "nvidia-smi's driver version (on the host and in the container) against torch.version.cuda",
       .fix = "install PyTorch built for a CUDA that the driver serves, which nvidia-smi names (pip install torch "
              "--index-url https://download.pytorch.org/whl/cu126 for 12, cu118 for 11)\n"
              "update the driver and reboot\n"
              "docker run --gpus all, if nvidia-smi works on the host only",
       .command = "plimsoll doctor: found, needed, what to install"},
      {.name = "forward-compatibility",
       .when = {"forward compatibility was attempted on non supported hw", "error 804",
                "cudaerrorcompatnotsupportedondevice"},
       .refines = {"cuda-unknown", "driver-too-old", "no-device"},
       .leads_to = without_device("forward-compatibility"),
       .what = "CUDA's forward-compatibility libraries were found on a GPU that does not support them",
       .cause = "A container brings cuda-compat (libcuda.so of a newer driver), which works on data-centre GPUs only; "
                "or the driver was updated without a reboot",
       .confirm = "ldconfig -p | grep libcuda.so; is there one under /usr/local/cuda*/compat?",
       .fix = "remove the compat folder from LD_LIBRARY_PATH or the image, and update the host's driver; or reboot",
       .command = "plimsoll doctor"},
      {.name = "ptx-toolchain",
       .when = {"unsupported toolchain", "unsupported ptx version", "cudaerrorunsupportedptxversion",
                "cuda_error_unsupported_ptx_version", "cudaerrorinvalidptx", "cuda_error_invalid_ptx",
                "a ptx jit compilation failed", "jit compiler not found"},
       .what = "the driver cannot compile this program's intermediate code (PTX)",
       .cause = "The code was made by a CUDA toolkit newer than the driver (an extension, Numba, Triton, a nightly "
                "build); kernels for the GPU itself are not in the binary, so the driver would have to compile them\n"
                "The driver's own compiler (libnvidia-ptxjitcompiler) is missing in the container",
       .confirm = "nvidia-smi's CUDA version against the toolkit's (nvcc --version)",
       .fix = "update the driver\n"
              "the package's build for the CUDA that nvidia-smi shows\n"
              "build for the GPU's own architecture (TORCH_CUDA_ARCH_LIST, -gencode …,code=sm_XX)",
       .command = "plimsoll doctor"},
      {.name = "driver-mismatch",
       .when = {"driver/library version mismatch", "api mismatch: the client", "error 803",
                "unsupported display driver / cuda driver combination", "cudaerrorsystemdrivermismatch",
                "nvml: driver/library"},
       .refines = {"no-driver", "cuda-unknown", "no-device"},
       .leads_to = without_device("driver-mismatch"),
       .what = "the driver's kernel module and its libraries are of different versions",
       .cause = "The driver was updated (often unattended) while the old module stays loaded; or a container image "
                "brings its own driver libraries",
       .confirm = "cat /proc/driver/nvidia/version against nvidia-smi's message, dmesg | tail",
       .fix = "reboot; or stop everything on the GPU, then rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && "
              "modprobe nvidia",
       .command = "plimsoll doctor shows both versions"},
      {.name = "fabric-manager",
       .when = {"system not yet initialized", "error 802", "cudaerrorsystemnotready"},
       .refines = {"cuda-unknown", "no-device"},
       .leads_to = without_device("fabric-manager"),
       .what = "the machine's NVSwitch fabric is not running",
       .cause = "nvidia-fabricmanager does not run, or is of another version than the driver",
       .confirm = "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A2 Fabric",
       .fix = "install the version that equals the driver's and start it: sudo systemctl enable --now "
              "nvidia-fabricmanager"},
      {.name = "nvml-unknown",
       .when = {"failed to initialize nvml: unknown error", "failed to initialize nvml: insufficient permissions",
                "nvml: unknown error"},
       .refines = {"no-driver", "no-device"},
       .what = "a running container has lost its GPU",
       .cause = "systemd reloaded its units on the host and took the container's right to the device files away; or "
                "the device files are not permitted",
       .confirm = "a fresh container sees the GPU (docker run --rm --gpus all … nvidia-smi), the old one does not",
       .fix = "restart the container; for good: name the devices (--device /dev/nvidia0 --device /dev/nvidiactl "
              "--device /dev/nvidia-uvm), or \"exec-opts\": [\"native.cgroupdriver=cgroupfs\"] in Docker's daemon.json",
       .command = "plimsoll doctor"},
      {.name = "no-driver",
       .when = {"found no nvidia driver", "libcuda.so.1: cannot open shared object",
                "couldn't communicate with the nvidia driver", "libnvidia-ml.so.1: cannot open",
                "could not find libcuda", "failed to initialize nvml", "nvidia-smi: command not found",
                "nvml shared library not found"},
       .what = "no NVIDIA driver found",
       .cause = "None is installed\n"
                "A kernel update left it behind\n"
                "A container was started without the GPU",
       .confirm = "nvidia-smi on the host and in the container; ls /dev/nvidia*",
       .fix = "containers: NVIDIA's container toolkit on the host and docker run --gpus all\n"
              "install the driver (or build its module for the new kernel: dkms) and reboot\n"
              "on a cluster, run on a node with a GPU; on the CPU, device='cpu'",
       .command = "plimsoll doctor; plimsoll train needs no GPU"},
      {.name = "no-device",
       .when = {"cuda driver initialization failed", "no cuda-capable device is detected", "cudaerrornodevice",
                "no cuda gpus are available", "no gpu found. a gpu is needed", "no supported gpu backend found",
                "gpuaccelerator can not run on your system", "cudaaccelerator can not run on your system",
                "no gpus found!", "error: cuda is not available", "need at least one gpu",
                "gpu is required to quantize", "no gpu or xpu found", "no gpu found!",
                "runtimeerror: cuda is not available", "cannot find any torch accelerator",
                "unsloth currently only works on nvidia gpus", "none of the available devices `available_devices"},
       .refines = {"no-driver"},
       .what = "CUDA finds no GPU",
       .cause =
           "The job, notebook, container or worker was given none: Slurm without --gres, docker without --gpus, a CPU "
           "runtime, a Ray task without num_gpus\n"
           "CUDA_VISIBLE_DEVICES hides it (set to nothing, -1 or a number that does not exist)\n"
           "PyTorch is a CPU build, or the driver does not work or is too old: nvidia-smi and torch.version.cuda tell\n"
           "The machine has no NVIDIA GPU at all (a Mac, AMD or Intel graphics)",
       .confirm = "nvidia-smi; echo $CUDA_VISIBLE_DEVICES; python -c 'import torch; print(torch.version.cuda, "
                  "torch.cuda.is_available())'",
       .fix = "Slurm: --gres=gpu:1; Docker: --gpus all; a notebook: choose a runtime with a GPU\n"
              "unset CUDA_VISIBLE_DEVICES\n"
              "reinstall PyTorch for CUDA, or repair the driver\n"
              "device='cpu', where there is none",
       .command = "plimsoll doctor"},
      {.name = "lightning-no-gpu",
       .when = {"you requested gpu"},
       .with = {{"your machine only has: []"}},
       .refines = {"invalid-device"},
       .what = "Lightning was asked for a GPU, and no CUDA GPU is visible",
       .cause =
           "The machine has none (a Mac, AMD or Intel graphics, a CPU node), and the script's default asks for one\n"
           "The job, container or notebook was given none, or CUDA_VISIBLE_DEVICES hides it\n"
           "PyTorch is a CPU build, or the driver does not work",
       .confirm = "nvidia-smi; python -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())'",
       .fix = "accelerator='cpu' (gpus=None or 0 in Lightning 1), or accelerator='mps' on a Mac\n"
              "Slurm: --gres=gpu:1; Docker: --gpus all; a notebook: a runtime with a GPU\n"
              "reinstall PyTorch for CUDA, or repair the driver",
       .command = "plimsoll doctor; plimsoll train needs no GPU"},
      {.name = "unsloth-old-gpu",
       .when = {"too old to be supported by the triton gpu compiler", "triton only supports devices of cuda capability",
                "gpu is too old to support triton", "gputoooldfortriton"},
       .anywhere = {{"unsloth"}},
       .refines = {"triton-old-gpu", "compile-failed"},
       .what = "the GPU is too old for Triton, which Unsloth's kernels and torch.compile need",
       .cause = "Triton needs compute capability 7.0 (Volta, T4, RTX 20) or newer; Pascal (GTX 10, P100) has 6.x",
       .confirm = "torch.cuda.get_device_capability()",
       .fix = "a newer GPU (a T4 or RTX 20 at least)\n"
              "plain transformers and peft in place of Unsloth, without torch.compile\n"
              "TORCHDYNAMO_DISABLE=1 and UNSLOTH_COMPILE_DISABLE=1 before Unsloth is imported: they help where only "
              "compiled functions, and none of Unsloth's own kernels, are used",
       .command = "plimsoll doctor"},
      {.name = "cpu-only-torch",
       .when = {"torch not compiled with cuda enabled", "pytorch is not linked with support for cuda",
                "not compiled with cuda support", "no module named 'torch._c._cudart'"},
       .what = "this PyTorch was built without CUDA",
       .cause = "pip or conda chose the CPU build: the default on Windows, of conda-forge without a driver, or pulled "
                "in by another package\n"
                "This machine has no NVIDIA GPU (a Mac, AMD graphics), and the script asks for cuda\n"
                "Another Python than the one with the CUDA build runs the script",
       .confirm = "torch.version.cuda is None; pip show torch says +cpu",
       .fix = "pip uninstall torch torchvision; pip install torch torchvision --index-url "
              "https://download.pytorch.org/whl/cu126 (a CUDA that the driver serves)\n"
              "device = 'cuda' if torch.cuda.is_available() else 'cpu' ('mps' on a Mac)\n"
              "run with the environment's own python",
       .command = "plimsoll doctor says which CUDA the driver serves; plimsoll train runs on the processor"},
      {.name = "map-location",
       .when = {"attempting to deserialize object on a cuda device but",
                "attempting to deserialize object on cuda device", "torch.load with map_location"},
       .what = "a file saved on a GPU is loaded where that GPU is not",
       .cause = "torch.load puts tensors back on the device that they were saved from, and this machine has no GPU (or "
                "PyTorch sees none)\n"
                "It was saved from a GPU with a higher number (cuda:3) than there are here",
       .confirm = "torch.cuda.is_available() and torch.cuda.device_count() here",
       .fix = "torch.load(path, map_location='cpu')\n"
              "if there is a GPU: repair why torch.cuda.is_available() is False\n"
              "save model.state_dict() from the CPU",
       .command = "plimsoll reads pytorch_model.bin as data, whatever device it was saved on"},
      {.name = "cuda-unknown",
       .when = {"cuda unknown error - this may be due to an incorrectly set up environment",
                "cuda error: unknown error", "cuda driver error: unknown error", "cuda internal error",
                "cuda runtime error (30)", "error 999", "cuda_error_system_not_ready", "cudaerrorunknown",
                "cuda_error_unknown", "initialization error*cuda", "cuda error: initialization error",
                "cudaerrorinitializationerror"},
       .leads_to = without_device("cuda-unknown"),
       .what = "CUDA could not be initialised",
       .cause = "The nvidia_uvm module is stuck (after suspend), or device files are missing or not permitted\n"
                "CUDA was used before fork, or CUDA_VISIBLE_DEVICES changed after the start\n"
                "The driver was updated without a reboot",
       .confirm = "nvidia-smi works, but python -c 'import torch; torch.zeros(1).cuda()' in a fresh shell does not",
       .fix = "sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm; else reboot\n"
              "restart the container; start worker processes with spawn\n"
              "set CUDA_VISIBLE_DEVICES before Python starts",
       .command = "plimsoll doctor"},
      {.name = "gpu-newer-than-build",
       .when = {"cublas_status_execution_failed", "cublas_status_not_supported", "cublas_status_arch_mismatch",
                "cublas_status_internal_error", "cublas_status_invalid_value", "cublas runtime error",
                "cublas_status_not_initialized", "cublas_status_alloc_failed", "cudnn_status_execution_failed",
                "cudnn_status_mapping_error", "cudnn_status_not_initialized", "cudnn_status_internal_error",
                "no kernel image is available", "unspecified launch failure", "misaligned address",
                "illegal memory access", "invalid device function", "cudnn_status_arch_mismatch",
                "unable to find an engine to execute"},
       .anywhere = {{"is not compatible with the current pytorch installation"}},
       .refines = {"cublas-failed", "cublas-not-initialized", "cublas-old", "oom-cublas", "cudnn-failed",
                   "no-kernel-image", "launch-failure", "illegal-access", "gpu-newer-than-cuda"},
       .what = "this GPU is newer (or older) than every kernel in the installed PyTorch",
       .cause =
           "PyTorch warned of it when it started: its build has no code for this compute capability, and the first "
           "library call fails",
       .confirm = "torch.cuda.get_device_capability() against torch.cuda.get_arch_list()",
       .fix = "a PyTorch build whose list has it: for a newer GPU a newer PyTorch with a newer CUDA (RTX 30: cu111 or "
              "later; RTX 40 and H100: cu118 or later; RTX 50 and B200: cu128 or later)",
       .command = "plimsoll doctor compares the GPU with what its own binary holds"},
      {.name = "gpu-newer-than-cuda",
       .when = {"cublas_status_execution_failed", "cublas_status_not_supported", "cublas_status_arch_mismatch",
                "cublas_status_internal_error", "cublas runtime error", "cublas_status_not_initialized",
                "cudnn_status_execution_failed", "cudnn_status_mapping_error", "cudnn_status_not_initialized",
                "no kernel image is available"},
       .holds = is_newer_than_build,
       .refines = {"cublas-failed", "cublas-not-initialized", "cublas-old", "cudnn-failed", "no-kernel-image"},
       .what = "this GPU is newer than the CUDA that the installed PyTorch was built with",
       .cause = "Its kernels and cuBLAS know no such compute capability; PyTorch's own warning is not in the log, its "
                "version and the GPU's name are",
       .confirm = "torch.cuda.get_device_capability() against torch.cuda.get_arch_list()",
       .fix = "a newer PyTorch with a newer CUDA (RTX 30 and A100: cu111 or later; RTX 40 and H100: cu118 or later; "
              "RTX 50 and B200: cu128 or later)",
       .command = "plimsoll doctor compares the GPU with what its own binary holds"},
  };
}

}  // namespace plimsoll::doctor
