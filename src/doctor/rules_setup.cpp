// What tools for training, serving and export refuse when they start, because of their input.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> setup_rules() {
  return {
      {.name = "program-missing",
       .when = {"no such file or directory: 'java'",
                "no such file or directory: 'ffmpeg'",
                "no such file or directory: 'ffprobe'",
                "no such file or directory: 'git'",
                "no such file or directory: 'nvcc'",
                "no such file or directory: 'gcc'",
                "no such file or directory: 'g++'",
                "no such file or directory: 'nvidia-smi'",
                "no such file or directory: 'cmake'",
                "no such file or directory: 'make'",
                "no such file or directory: 'perl'",
                "no such file or directory: 'wget'",
                "no such file or directory: 'curl'",
                "no such file or directory: 'unzip'",
                "no such file or directory: 'espeak'",
                "no such file or directory: 'sox'",

                "no such file or directory: 'srun'",
                "no such file or directory: 'squeue'",
                "no such file or directory: 'dot'",
                "java: not found",
                "java: command not found",
                "ffmpeg: command not found",
                "nvcc: command not found",
                "unable to find java",
                "is java installed"},
       .refines = {"file-missing", "worker-exception"},
       .what = "a program that the script starts is not installed, or not on the PATH",
       .cause =
           "It is no Python package: pip does not bring it (METEOR and SPICE want Java, audio and video want ffmpeg)\n"
           "It is installed, and the PATH of this job, container or notebook does not have its directory\n"
           "The cluster has it in a module that was not loaded",
       .confirm = "which NAME in the job itself",
       .fix = "install it: apt-get install default-jre, ffmpeg, espeak; or with conda\n"
              "module load NAME, or its directory on PATH\n"
              "leave out what needs it (another metric, another reader)"},
      {.name = "reference-and-adapters",
       .when = {"passed both a ref_model and a peft_config", "passed both `ref_model` and `peft_config`",
                "passed both a `ref_model` and a `peft_config`"},
       .refines = {"trainer-refused"},
       .what = "trl's trainer got a reference model besides adapters, of which it needs only one",
       .cause = "With adapters the base model itself is the reference: the trainer switches the adapters off for it",
       .confirm = "ref_model and peft_config in the call",
       .fix = "ref_model=None where peft_config is given\n"
              "force_use_ref_model=True, where another reference is meant"},
      {.name = "ray-worker-died",
       .level = Level::kConsequence,
       .when = {"the actor died unexpectedly before finishing", "worker unexpectedly exits with a connection error",
                "a worker died or was killed while executing", "the actor is dead because its worker process has died",
                "workercrashederror", "actorunavailableerror", "rpcerror: rpc error: socket closed"},
       .what = "a worker process of Ray died, and Ray only saw that it was gone",
       .cause = "The kernel ended it because the node's memory was used up\n"
                "It crashed in native code (a segmentation fault), or the node went away\n"
                "Somebody ended it: ray stop, the batch system, a spot machine",
       .confirm = "dmesg | grep -i oom on that node; the worker's own files in /tmp/ray/session_latest/logs",
       .fix = "fewer workers a node, more memory for each (memory= in their resources), smaller data in memory\n"
              "the error in the worker's log, where it crashed"},
      {.name = "network-interface",
       .when = {"ifa != nullptr. unable to find address for", "no socket interface found", "bootstrap : no ip address",
                "unable to find interface*for", "nccl_socket_ifname*not found"},
       .refines = {"nccl-error", "nccl-system", "nccl-connect", "distributed-refused"},
       .what = "the network interface over which the ranks shall talk does not exist on this machine",
       .cause =
           "NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME names an interface of another machine (ib0, eth0), or one that "
           "the container does not have\n"
           "The machine's name has no address: /etc/hosts",
       .confirm = "ip addr; env | grep SOCKET_IFNAME; getent hosts $(hostname)",
       .fix = "unset both variables, or set them to an interface that `ip addr` lists (lo on a single machine)\n"
              "docker run --network host\n"
              "a line for the machine's name in /etc/hosts"},
      {.name = "data-columns-differ",
       .when = {"all the data files must have the same columns"},
       .refines = {"bad-json", "dataset-failed", "arrow-type"},
       .what = "the files of a data set have different columns, and datasets reads them as one table",
       .cause = "Files of several kinds lie in one directory or repository: training data beside metadata or results\n"
                "Some rows have a field that others lack, or another form of it",
       .confirm = "the columns and the file that the message names",
       .fix = "data_files= with the files that belong together; several configurations in the repository's README\n"
              "the same fields in every row (null where there is no value), or features= with all of them"},
      {.name = "data-undescribed",
       .when = {"undefined dataset*in dataset_info.json", "undefined dataset*dataset_info"},
       .what = "the data set is not described in LLaMA-Factory's dataset_info.json",
       .cause = "Its entry is missing there, or has another name than the one in the arguments\n"
                "dataset_dir names another directory: the program reads the dataset_info.json in it",
       .confirm = "grep the name in dataset_dir/dataset_info.json",
       .fix = "an entry with file_name and, for other columns, columns and formatting\n"
              "dataset_dir: the directory that holds dataset_info.json and the data"},
      {.name = "engine-core",
       .level = Level::kEcho,
       .when = {"engine core initialization failed", "engine process failed to start"},
       .what = "vLLM's engine, a process of its own, failed to start, and only that is reported here",
       .cause = "The engine's own error stands above in the log: memory, a model that is not supported, a driver",
       .confirm = "the first traceback above, of EngineCore or of a worker",
       .fix = "pass the whole log, with the lines of the engine's process"},
      {.name = "ranks-divide",
       .when = {"must be divisible by tensor parallel size", "must be divisible by tensor_parallel_size",
                "is not divisible by tensor_model_parallel_size", "world_size (*) is not divisible by",
                "world size (*) is not divisible by", "is not divisible by the tensor parallel size",
                "must be divisible by the tensor parallel size", "not divisible by tp size",
                "must be divisible by tp_size", "not divisible by pipeline parallel size"},
       .refines = {"heads-divide", "length-assert", "distributed-refused", "model-refused"},
       .what = "the model or the number of processes does not divide into the parallel ranks that were asked for",
       .cause =
           "The tensor-parallel size must divide the attention heads (and those of keys and values), the vocabulary "
           "and the hidden size\n"
           "The number of processes must be a multiple of tensor x pipeline x context parallel size",
       .confirm = "num_attention_heads and num_key_value_heads in config.json; WORLD_SIZE",
       .fix = "a tensor-parallel size that divides them: 28 heads into 1, 2, 4, 7 or 14 ranks\n"
              "as many GPUs as the product of the sizes, or a multiple; the rest by pipeline or data parallelism"},
      {.name = "sampling-rate",
       .when = {"was trained using a sampling rate of", "sampling rate of*please make sure that the provided"},
       .what = "sound has another sampling rate than the model was trained with",
       .cause = "The files are of 44.1 or 48 kHz (8 kHz on the telephone), and the feature extractor takes 16 kHz as a "
                "rule",
       .confirm = "sample['audio']['sampling_rate']",
       .fix = "dataset.cast_column('audio', Audio(sampling_rate=16000)), which resamples when a sample is read\n"
              "librosa.load(path, sr=16000), or torchaudio.functional.resample"},
      {.name = "nan-picture",
       .when = {"a tensor with all nans was produced", "nansexception"},
       .what = "the model of pictures computed NaN: half precision is too narrow for a part of it",
       .cause =
           "The VAE (that of SDXL above all) or the U-Net overflows in fp16\n"
           "The GPU computes fp16 wrongly (GTX 16), or the checkpoint holds NaN: a merge or training that diverged",
       .confirm = "it passes in fp32 (--no-half --no-half-vae)",
       .fix = "--no-half-vae, or a VAE that was made for fp16 (sdxl-vae-fp16-fix); bf16 on an Ampere GPU or newer\n"
              "--upcast-sampling or --no-half on a GTX 16\n"
              "another checkpoint, where that one holds NaN"},
      {.name = "jax-without-gpu",
       .level = Level::kNote,
       .when = {"a cuda-enabled jaxlib is not installed", "no gpu/tpu found, falling back to cpu"},
       .what = "JAX computes on the CPU, because the installed jaxlib has no CUDA",
       .cause = "pip install jax brings the CPU's build only",
       .confirm = "python -c 'import jax; print(jax.devices())'",
       .fix = "pip install -U 'jax[cuda12]'"},
      {.name = "matrix-singular",
       .when = {"linalg.cholesky", "input is not positive-definite", "linalg.svd:", "linalg.eigh:", "linalg.inv:",
                "linalg.solve:", "linalgerror: singular matrix", "linalgerror: svd did not converge",
                "the inversion could not be completed because the input matrix is singular"},
       .with = {{"not positive-definite", "failed to converge", "is singular", "singular matrix", "did not converge",
                 "ill-conditioned"}},
       .what = "a matrix cannot be factorised: it is singular, not positive definite, or holds NaN",
       .cause =
           "The data or the model gave a degenerate matrix: columns that are alike or constant, fewer samples than "
           "columns, a covariance that training has collapsed\n"
           "It holds NaN or infinity: the losses before show whether the run had diverged\n"
           "Half or single precision is not enough for it",
       .confirm = "torch.isfinite(A).all(), torch.linalg.cond(A) just before that line",
       .fix = "A + 1e-6 * torch.eye(n), a larger damping (GPTQ: damp_percent), more samples\n"
              "a smaller learning rate, where it holds NaN\n"
              "A.double() for the factorisation"},
      {.name = "onnx-opset",
       .when = {"exporting the operator*to onnx opset", "unsupportedoperatorerror: exporting"},
       .refines = {"kernel-missing"},
       .what = "the export to ONNX has no form for one of the model's operators",
       .cause = "The opset asked for is older than the operator: the message says in which it was added\n"
                "No opset has it: an operator of PyTorch or of an extension that ONNX does not know",
       .confirm = "the operator and the two versions in the message",
       .fix = "opset_version= the version that the message names, or newer\n"
              "attn_implementation='eager' for the export; a newer PyTorch; torch.onnx.export(…, dynamo=True)"},
      {.name = "engine-version",
       .when = {"engine plan file is not compatible with this version", "version tag does not match",
                "serialization assertion*failed", "engine plan file is generated on an incompatible device"},
       .what = "a TensorRT engine was built by another version of TensorRT, or for another GPU",
       .cause = "Engines are for one version of TensorRT and one kind of GPU, and this file comes from another",
       .confirm = "python -c 'import tensorrt; print(tensorrt.__version__)' where it was built and here",
       .fix = "build the engine again on this machine (trtexec, or the program's own export)"},
      {.name = "gguf-reader-old",
       .when = {"unknown model architecture:", "unknown (magic, version) combination", "invalid magic*gguf",
                "unknown pre-tokenizer type", "tensor*has wrong shape*expected"},
       .with = {{"llama", "gguf"}},
       .what = "the installed llama.cpp does not read this GGUF file",
       .cause = "llama.cpp (or what holds it: llama-cpp-python, Ollama, LM Studio) is older than the model\n"
                "The file is of GGML's old form, cut short, or was converted by an older script",
       .confirm = "the date of the installed version against the model's",
       .fix = "a newer llama.cpp, pip install -U llama-cpp-python, a newer Ollama\n"
              "download the file again, or convert it with the script of the same version"},
      {.name = "mm-versions",
       .when = {"mmcv==*is used but incompatible", "mmengine==*is used but incompatible",
                "mmdet==*is used but incompatible", "mmsegmentation==*is used but incompatible"},
       .refines = {"package-missing", "length-assert", "import-refused"},
       .what = "MMCV and the OpenMMLab package that uses it are of different ages",
       .cause = "The message names the versions that this package takes, and another is installed",
       .confirm = "pip list | grep -iE 'mm(cv|engine|det|seg)'",
       .fix = "mim install a version of mmcv within the range that the message names\n"
              "a newer version of the package that refuses it"},
      {.name = "registry-type",
       .when = {"must contain the key \"type\"", "must contain the key 'type'"},
       .refines = {"key-missing"},
       .what = "a part of the configuration has no \"type\", so nobody knows what to build of it",
       .cause =
           "The configuration was written for another version of mmcv, mmengine or the package: since then the part "
           "wants type= (runner = dict(type='EpochBasedRunner', max_epochs=12))\n"
           "An inherited part was replaced whole, where only one key was meant (_delete_), or on the command line",
       .confirm = "the value that the message prints: which part of the configuration is it? print(cfg.pretty_text)",
       .fix = "add type='…' to that part, as the package's own configurations have it\n"
              "the versions of mmcv and the package that the configuration was written for"},
      {.name = "registry-missing",
       .when = {"is not in the*registry", "is not in the models regis", "is not in the dataset regis",
                "no object named*found in*registry"},
       .refines = {"key-missing", "package-missing"},
       .what = "the configuration names a class that was never registered",
       .cause = "The module that defines it was not imported: custom_imports, __init__.py, another package's scope "
                "(mmdet.… in mmengine)\n"
                "Another copy of the package is imported than the repository's own: the one in site-packages, which "
                "lacks that class\n"
                "The name was mistyped, or belongs to another version of the package",
       .confirm = "grep -rn 'register_module\\|@.*register' for that name",
       .fix = "custom_imports = dict(imports=['my.module'], allow_failed_imports=False), or an import of it in the "
              "package's __init__.py\n"
              "pip install -e . again, where the code lies in the repository and an older copy is installed"},
      {.name = "labels-not-found",
       .level = Level::kNote,
       .when = {"warning*no labels found in", "warning*no labels in", "all labels empty in"},
       .what = "YOLO finds no labels beside the images, and there is nothing to learn from",
       .cause = "The labels are not where it looks: for .../images/a.jpg it reads .../labels/a.txt\n"
                "The files are of another form (COCO's JSON, VOC's XML), or empty\n"
                "A cache (labels.cache) of an earlier state is read",
       .confirm = "ls of the labels directory beside images; head of one file: class x y w h, all between 0 and 1",
       .fix = "directories images and labels side by side, with the same names in both\n"
              "convert them to YOLO's form\n"
              "delete *.cache"},
  };
}

}  // namespace plimsoll::doctor
