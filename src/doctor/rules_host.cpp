// The host: memory, shared memory, data loader workers, files, and how processes end.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> host_rules() {
  return {
      {.name = "host-oom-killer",
       .when = {"crashed after using all available ram", "tried to allocate more memory than is available",
                "out of memory: kill*process", "oom-kill:constraint", "invoked oom-killer",
                "oom_reaper: reaped process", "killed process*anon-rss", "killed process*total-vm",
                "systemd-oomd*killed"},
       .from_outside = true,
       .reads_numbers = true,
       .refines = {"killed"},
       .leads_to = {"worker-killed"},
       .what = "the kernel ended a process because the machine's memory ran out",
       .cause = "Each data loader worker, map() process or rank holds its own copy of the data set, its prefetched "
                "batches or the model\n"
                "The whole data set, or the logits of a whole evaluation, is held in memory\n"
                "Weights or optimizer state on the host: a checkpoint loaded twice, every rank loading the whole "
                "model, offload to the CPU\n"
                "A list, cache or log that grows over the run",
       .confirm = "dmesg -T | grep -i oom: the victim's anon-rss; watch RSS with top while it runs",
       .fix = "fewer or no DataLoader workers, a smaller prefetch_factor, a smaller num_proc\n"
              "data read lazily (memory-mapped, streamed); preprocess_logits_for_metrics that returns argmax\n"
              "low_cpu_mem_usage=True, torch.load(…, mmap=True), fewer ranks a machine\n"
              "a machine with more memory",
       .command = "plimsoll train --budget SIZE plans the host's memory and stays below it"},
      {.name = "cgroup-oom",
       .when = {"memory cgroup out of memory", "constraint=constraint_memcg", "oomkilled",
                "killed as a result of limit of", "memory limit reached of container"},
       .from_outside = true,
       .reads_numbers = true,
       .refines = {"host-oom-killer", "killed"},
       .leads_to = {"worker-killed"},
       .what = "a container's memory limit ended the process",
       .cause = "The limit (Docker, Kubernetes, systemd) is smaller than what the run takes on the host: model, data, "
                "workers' copies; the machine itself may have had memory to spare\n"
                "Files in /dev/shm count too, and so do those in a tmpfs\n"
                "Something grows over the run: a list of outputs, a cache, the logits of an evaluation",
       .confirm = "cat /sys/fs/cgroup/memory.max and memory.events (oom_kill); kubectl describe pod: OOMKilled",
       .fix = "raise the limit (docker run --memory, resources.limits.memory)\n"
              "fewer workers, a smaller prefetch_factor, data read lazily\n"
              "low_cpu_mem_usage=True, preprocess_logits_for_metrics",
       .command = "plimsoll train --budget SIZE below the limit; plimsoll reads the cgroup's limit by itself"},
      {.name = "slurm-oom",
       .when = {"slurmstepd*oom", "slurmstepd*memory limit", "srun*out of memory", "detected*oom*event",
                "slurmstepd*out of memory", "job*exceeded memory limit", "state=out_of_memory", "pbs: job killed: mem",
                "pbs: job killed: vmem", "term_memlimit", "exceeded job memory limit", "exceeded step memory limit"},
       .from_outside = true,
       .refines = {"host-oom-killer", "cgroup-oom", "killed"},
       .leads_to = {"worker-killed"},
       .what = "the batch system ended the job because it took more host memory than it had asked for",
       .cause = "--mem or --mem-per-cpu (or the partition's small default) is smaller than what the run takes: model, "
                "data, workers, pinned memory, /dev/shm\n"
                "Each data loader worker, map() process or rank holds its own copy of the data or of the weights while "
                "they are loaded\n"
                "Something grows over the run: a list of outputs, the logits of an evaluation",
       .confirm = "sacct -j JOB --format=JobID,MaxRSS,ReqMem,State",
       .fix = "sbatch --mem=… larger (--mem=0: all of the node's)\n"
              "fewer workers, a smaller num_proc, data read lazily\n"
              "low_cpu_mem_usage=True where weights are loaded; preprocess_logits_for_metrics",
       .command = "plimsoll train --budget SIZE with the same size as --mem"},
      {.name = "worker-killed",
       .when = {"dataloader worker*killed by signal: killed"},
       .from_outside = true,
       .refines = {"killed", "worker-exited"},
       .leads_to = {"host-oom-killer", "cgroup-oom", "slurm-oom"},
       .what = "the kernel killed a data loader worker: the host's memory ran out",
       .cause = "Each worker copies the data set's Python objects as it touches them, and holds prefetched batches; "
                "together they take more than the machine, container or job allows\n"
                "Samples are very large when decoded, or a file is read whole for each of them\n"
                "What the main process holds (data, weights on the host) leaves little",
       .confirm = "dmesg -T | grep -i oom; memory grows with num_workers",
       .fix = "num_workers smaller or 0, prefetch_factor=1\n"
              "data in arrays (numpy, Arrow) or memory-mapped files instead of lists of Python objects\n"
              "more memory for the job or container",
       .command = "plimsoll train: its loader's buffers are part of the plan; --dataloader-num-workers"},
      {.name = "shm-full",
       .when = {"bus error*shared memory", "unexpected bus error", "insufficient shared memory",
                "killed by signal: bus error", "unable to write to file </torch",
                "unable to open shared memory object </torch", "unable to mmap*</torch",
                "couldn't allocate shared memory segment", "unable to allocate shared memory",
                "error while creating shared memory segment", "/dev/shm*no space left",
                "no space left on device*/dev/shm", "no space left on device*/torch_", "failed to extend /dev/shm",
                "error while attaching to shared memory segment /dev/shm",
                "no space left on device*joblib will operate in serial mode"},
       .refines = {"host-alloc", "worker-exited", "disk-full", "sigbus", "nccl-error", "nccl-system", "killed"},
       .what = "/dev/shm is full: a data loader worker (or NCCL) found no shared memory",
       .cause = "Workers pass batches through /dev/shm, and containers get 64 MiB of it unless told otherwise\n"
                "Many workers with large batches, or what killed runs left there, fill a larger one",
       .confirm = "df -h /dev/shm inside the container, while it runs",
       .fix = "docker run --shm-size=8g (or --ipc=host); in Kubernetes an emptyDir with medium: Memory at /dev/shm\n"
              "num_workers=0, or fewer workers and a smaller prefetch_factor\n"
              "torch.multiprocessing.set_sharing_strategy('file_system')\n"
              "rm what dead runs have left in /dev/shm (torch_*, nccl-*)",
       .command = "plimsoll train uses no /dev/shm"},
      {.name = "too-many-files",
       .when = {"too many open files", "received 0 items of ancdata", "errno 24]"},
       .refines = {"shm-full", "worker-exited"},
       .what = "the process has too many open files",
       .cause =
           "Every tensor that a worker hands over is an open file: many workers, or lists that keep what they sent\n"
           "Files (images, HDF5, Arrow shards, logs) are opened and never closed\n"
           "The limit, ulimit -n, is low: 1024 or 256 by default",
       .confirm = "ulimit -n; ls /proc/PID/fd | wc -l while it runs",
       .fix = "ulimit -n 65535 in the shell or job that starts the run\n"
              "torch.multiprocessing.set_sharing_strategy('file_system')\n"
              "copy what you keep from a batch; close files (with Image.open(…) as …); fewer workers",
       .command = "plimsoll train opens one image at a time"},
      {.name = "worker-segfault",
       .when = {"killed by signal: segmentation fault", "segmentation fault encountered in worker",
                "killed by signal: aborted", "killed by signal: illegal instruction",
                "killed by signal: floating point exception"},
       .refines = {"worker-exited", "segfault"},
       .what = "a data loader worker crashed in native code",
       .cause =
           "A library inside the worker (OpenCV, PIL, a tokenizer, lmdb, h5py, a video decoder) does not survive fork\n"
           "A damaged file or an odd sample crashes the decoder\n"
           "Libraries that were built for other versions of one another",
       .confirm = "num_workers=0: does the main process crash at the same sample? Then it is that sample",
       .fix = "num_workers=0, or multiprocessing_context='spawn'\n"
              "cv2.setNumThreads(0), and open files in the worker, not before\n"
              "remove the sample; reinstall the library that python -X faulthandler names",
       .command =
           "plimsoll check --model DIR --data pages.jsonl --decode-images decodes every image, and names the bad one"},
      {.name = "worker-timeout",
       .when = {"dataloader timed out after"},
       .what = "a data loader worker hung",
       .cause = "A lock that was held when the worker was forked (OpenCV, a tokenizer, logging)\n"
                "A disk or network that does not answer, or a sample that takes minutes\n"
                "Too few processor cores for the workers, or a time-out that is short for the batch",
       .confirm = "py-spy dump --pid WORKER shows where it stands",
       .fix = "num_workers=0 once to find the sample; multiprocessing_context='spawn'\n"
              "data on a local disk; fewer workers\n"
              "a larger timeout, or timeout=0",
       .command = "plimsoll check --model DIR --data pages.jsonl --decode-images"},
      {.name = "worker-cuda-fork",
       .when = {"cannot re-initialize cuda in forked subprocess"},
       .refines = {"worker-exception"},
       .what = "a forked process used CUDA, which its parent had used before",
       .cause = "The data set or collator moves tensors to the GPU, or holds CUDA tensors, in data loader workers\n"
                "map(num_proc=…), a process pool or vLLM runs a model on the GPU in forked processes\n"
                "CUDA was used in a notebook, or at import, before a launcher forked",
       .confirm = "look for .cuda() or .to(device) in __getitem__, the collator or the mapped function, and before the "
                  "processes start",
       .fix = "return CPU tensors from the data set, and move the batch in the training loop\n"
              "num_workers=0 or num_proc=1 where the GPU must be used there\n"
              "start processes with spawn: multiprocessing.set_start_method('spawn'), multiprocessing_context='spawn', "
              "VLLM_WORKER_MULTIPROC_METHOD=spawn"},
      {.name = "worker-main-guard",
       .when = {"start a new process before the*current process has finished its bootstrapping phase",
                "current process has finished its bootstrapping phase", "if __name__ == '__main__':*freeze_support",
                "start a new process before"},
       .refines = {"worker-exited"},
       .what = "worker processes were started while the script was being imported",
       .cause = "On Windows and macOS workers import the main script; without `if __name__ == '__main__':` they start "
                "workers themselves",
       .confirm = "the script has its training call at top level",
       .fix = "put everything that runs below `if __name__ == '__main__':`\n"
              "num_workers=0 (num_proc=None)"},
      {.name = "worker-pickle",
       .when = {"can't pickle", "cannot pickle", "pickle.picklingerror", "^picklingerror", "can't get local object"},
       .with = {{"multiprocessing", "spawn", "dataloader", "num_workers"}},
       .what = "something cannot be sent to another process: it cannot be pickled",
       .cause = "With spawn (Windows, macOS, mp.spawn) data set, collator and transforms are pickled: a lambda, a "
                "local function or class in them cannot be\n"
                "An object among them holds an open file, a lock, a generator, a data base or a CUDA handle\n"
                "What map(num_proc=…) or a pool is given refers to such an object from outside",
       .confirm = "pickle.dumps(dataset), and of each of its parts, fails in the main process too",
       .fix = "replace lambdas and local functions by named ones at module level\n"
              "open files and connections in __getitem__ or in the worker\n"
              "num_workers=0, num_proc=None"},
      {.name = "worker-class",
       .when = {"can't get attribute"},
       .with = {{"spawn_main", "multiprocessing/spawn.py", "multiprocessing\\spawn.py", "forkserver"}},
       .refines = {"worker-pickle", "pickled-class", "pickle-failed", "worker-exited"},
       .what = "a worker process does not find the class or function that it was sent",
       .cause = "Workers that are spawned (Windows, macOS) import the script anew, and what a notebook's cell defines "
                "is not there\n"
                "It is defined below `if __name__ == '__main__':`, or inside a function",
       .confirm = "the name in the message: where is it defined?",
       .fix = "num_workers=0\n"
              "move the class or function into a .py file, and import it\n"
              "define it at the script's top level, above `if __name__ == '__main__':`"},
      {.name = "worker-exception",
       .level = Level::kEcho,
       .when = {"caught*in dataloader worker process", "caught*in pin memory thread"},
       .what = "an exception in the data set's own code, inside a data loader worker",
       .cause = "The original traceback follows below it in the log: its last line is the failure",
       .confirm =
           "num_workers=0 gives the same error with a plain traceback; catch it in __getitem__ and print the index",
       .fix = "what that error needs\n"
              "correct or leave out the sample, if it is one that cannot be read",
       .command = "plimsoll check --model DIR --data pages.jsonl reads the whole data set first, and names file, page "
                  "and word"},
      {.name = "worker-exited",
       .level = Level::kConsequence,
       .when = {"pin memory thread exited unexpectedly", "dataloader worker*exited unexpectedly",
                "dataloader worker*killed by signal: terminated", "dataloader worker*killed by signal: hangup",
                "dataloader worker*killed by signal: interrupt"},
       .what = "a data loader worker ended without an error message",
       .cause = "It was killed from outside: the host's memory or /dev/shm ran out\n"
                "It crashed in native code, or ended by sys.exit; the lines before it may say more\n"
                "On Windows and macOS: it failed while it imported the script or unpickled the data set",
       .confirm = "dmesg -T | tail; run with num_workers=0 to see the error itself",
       .fix = "num_workers=0 first: it works, or shows the error itself\n"
              "fewer workers, a smaller batch, a larger /dev/shm (docker --shm-size)\n"
              "`if __name__ == '__main__':` around what runs, on Windows and macOS",
       .command = "plimsoll check --model DIR --data pages.jsonl"},
      {.name = "host-alloc",
       .when = {"defaultcpuallocator", "enforce fail at alloc_cpu", "^memoryerror", "error: memoryerror",
                "std::bad_alloc", "arraymemoryerror", "unable to allocate*for an array", "oserror: [errno 12]",
                "cannot allocate memory", "realloc of size*failed"},
       .reads_numbers = true,
       .what = "the host could not allocate memory",
       .cause = "An array or tensor on the CPU is larger than what is left: a whole data set or evaluation in one, a "
                "batch or sequence too large, a shape that is not what was meant\n"
                "The model itself is loaded or trained on the CPU, and needs more than the machine has\n"
                "Other processes (workers, ranks, notebooks) hold the memory\n"
                "A limit (ulimit -v, a container, Slurm), or overcommit that is switched off, where fork or mmap fails",
       .confirm = "the bytes in the message against `free -h` and ulimit -v",
       .fix = "a smaller batch or maximum length, fewer workers, other programs closed\n"
              "process in pieces, memory-map arrays, preprocess_logits_for_metrics\n"
              "torch_dtype=torch.bfloat16 and low_cpu_mem_usage=True where a model is loaded\n"
              "a larger limit or machine",
       .command = "plimsoll train --budget SIZE; plimsoll eval keeps counts, not logits"},
      {.name = "host-evaluation",
       .when = {"defaultcpuallocator", "enforce fail at alloc_cpu", "^memoryerror", "arraymemoryerror",
                "exceptions.memoryerror", "std::bad_alloc", "unable to allocate*for an array",
                "cannot allocate memory"},
       .with = {{"evaluation_loop", "prediction_loop", "nested_concat", "numpy_pad_and_concatenate", "nested_numpify",
                 "in evaluate", "in predict", "eval_loop", "compute_metrics"}},
       .reads_numbers = true,
       .refines = {"host-alloc"},
       .what = "the host's memory ran out while an evaluation gathered its logits",
       .cause = "The Trainer keeps every logit of the evaluation (samples x length x classes x 4 bytes) and copies the "
                "whole at every concatenation: three times that for a moment\n"
                "compute_metrics makes further copies, or the model returns hidden states with the logits",
       .confirm = "it fails late in the evaluation; half the evaluation set passes",
       .fix = "preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1), or batch_eval_metrics=True\n"
              "a smaller evaluation set, or prediction_loss_only=True\n"
              "output_hidden_states=False",
       .command = "plimsoll eval keeps counts, not logits"},
      {.name = "page-file",
       .when = {"paging file is too small", "winerror 1455", "die auslagerungsdatei", "os error 1455"},
       .refines = {"host-alloc", "worker-exited", "library-missing", "dll-missing"},
       .what = "Windows ran out of page file",
       .cause = "Every worker loads CUDA's libraries (gigabytes of committed memory each), and Windows commits it all\n"
                "The model's weights are memory-mapped or loaded beside too small a page file",
       .confirm = "Task Manager, Performance, Memory: Committed near its limit",
       .fix = "num_workers=0 or 1, other programs closed\n"
              "a larger page file (System, Advanced, Virtual memory), then a restart"},
      {.name = "disk-full",
       .when = {"no space left on device", "errno 28]", "disk quota exceeded", "errno 122]",
                "pytorchstreamwriter failed", "enforce fail at inline_container", "not enough free disk space",
                "os error 28"},
       .leads_to = {"damaged-file"},
       .what = "the disk is full, or the quota used up",
       .cause = "Checkpoints: each is three times the weights (weights and AdamW's moments), and one is kept for every "
                "save\n"
                "The cache of models and data sets, or pip's, has filled the home directory\n"
                "The disk of /tmp, of the container or of a notebook's session is small\n"
                "A quota is used up, of bytes or of files, though df shows space",
       .confirm = "df -h and df -i on the path in the message, quota -s, du -sh ~/.cache/* OUTPUT",
       .fix = "save_total_limit=2 (Lightning: save_top_k=2), save_only_model=True, another output_dir\n"
              "HF_HOME on a larger disk; huggingface-cli delete-cache, pip cache purge\n"
              "TMPDIR on a larger disk, where the path in the message is below /tmp\n"
              "the last checkpoint may be cut short: go back one",
       .command = "plimsoll doctor --output-dir DIR; plimsoll train --save-total-limit 2 writes each checkpoint aside "
                  "and renames it only when whole"},

      {.name = "disk-full-cache",
       .when = {"no space left on device", "errno 28]", "disk quota exceeded", "errno 122]",
                "not enough free disk space", "os error 28"},
       .with = {{"huggingface_hub", "file_download.py", "datasets/arrow_writer", "datasets/builder.py",
                 "snapshot_download", "/.cache/huggingface", "/.cache/torch/hub", "load_dataset(", "xet_get"}},
       .without = {"torch.save(", "in save_pretrained", "_save_checkpoint"},
       .refines = {"disk-full", "download-cut", "worker-exception"},
       .what = "the disk that holds the cache of models and data sets is full, or its quota used up",
       .cause = "The cache lies in the home directory (~/.cache/huggingface) unless told otherwise, and models and "
                "data sets fill it\n"
                "map() and load_dataset write a copy of the data for every step, and old ones stay\n"
                "The container's or notebook's own disk is small",
       .confirm = "df -h and quota -s on ~/.cache/huggingface; du -sh ~/.cache/huggingface/*",
       .fix = "HF_HOME=… (or cache_dir=…) on a larger disk, set before Python starts\n"
              "huggingface-cli delete-cache; dataset.cleanup_cache_files(); rm *.incomplete files\n"
              "streaming=True, or keep_in_memory=True for small data"},
      {.name = "file-missing",
       .when = {"filenotfounderror: [errno 2]", "filenotfounderror: [winerror 3]", "filenotfounderror: [winerror 2]"},
       // A worker whose parent has ended does not find its socket; and a program that is not installed is not a data
       // file.
       .without = {"resource_sharer", "rebuild_storage_fd", "multiprocessing/connection.py", "subprocess.py"},
       .refines = {"worker-exception"},
       .what = "a file is not where the program looks for it",
       .cause = "A misspelt path, or one relative to another working directory than the run's\n"
                "The directory is not mounted in the container or not on this node, or the archive was never unpacked\n"
                "A list (CSV, JSON, annotations) names a file that was moved, renamed or never downloaded\n"
                "The directory to write into does not exist, or another process has moved or cleaned the file away",
       .confirm = "ls -l on the path in the message, on the machine and in the container where it runs",
       .fix = "correct the path (absolute ones do not depend on the working directory)\n"
              "mount, copy, unpack or download it where the run is\n"
              "leave out samples without a file\n"
              "os.makedirs(directory, exist_ok=True) before writing; one rank alone to move or delete files",
       .command = "plimsoll check --model DIR --data pages.jsonl names every image that is missing"},
      {.name = "script-missing",
       .when = {"can't open file*[errno 2]", "can't find '__main__' module",
                "error while finding module specification"},
       .refines = {"file-missing", "child-failed"},
       .what = "Python does not find the script or module that it shall run",
       .cause = "The path is misspelt or relative to another working directory (a batch job starts elsewhere), or the "
                "file was not copied to this machine or container",
       .confirm = "pwd and ls -l on the path in the message, in the job itself",
       .fix = "an absolute path, or cd to the script's directory first\n"
              "copy or mount the file there; its folder on PYTHONPATH for python -m"},
      {.name = "io-error",
       .when = {"input/output error", "blk_update_request: i/o error", "buffer i/o error on dev", "os error 5)",
                "transport endpoint is not connected"},
       .refines = {"worker-exception"},
       .what = "a disk or network disk failed to read or write",
       .cause =
           "A network disk or a mount of cloud storage that is full, over its quota or went away: such disks report "
           "it so\n"
           "Hardware that fails",
       .confirm = "df -h and quota -s on that path; dmesg -T | grep -iE 'i/o error|nfs|ata'; smartctl -a on the device",
       .fix = "make room, or another disk; copy what the run reads to a local one\n"
              "mount the network disk or cloud storage (Drive) anew, then resume\n"
              "if it comes on a local disk again: test it, and replace it",
       .command = "plimsoll train resumes from the last whole checkpoint"},
      {.name = "stale-file",
       .when = {"stale file handle", "errno 116]", "os error 116"},
       .refines = {"worker-exception"},
       .what = "a network disk has taken a file away while it was open",
       .cause = "Another node deleted or replaced it (a cleaned cache, a checkpoint rotated), or the NFS export was "
                "mounted anew",
       .confirm = "ls -l on the path in the message from this node; mount | grep nfs",
       .fix = "keep what a run reads unchanged while it runs, or copy it to a local disk first"},
      {.name = "peer-gone",
       .level = Level::kEcho,
       .when = {"connectionreseterror: [errno 104]", "connectionrefusederror: [errno 111]", "brokenpipeerror",
                "eoferror", "filenotfounderror: [errno 2]", "pickle data was truncated"},
       .with = {{"from_parent", "multiprocessing/connection.py", "multiprocessing/resource_sharer.py",
                 "multiprocessing/queues.py", "rebuild_storage_fd", "multiprocessing/reduction.py", "spawn_main"}},
       .what = "a process lost its connection to another one that had ended",
       .cause = "The other process, a data loader worker or the main program, ended first",
       .confirm = "its own last lines, earlier or elsewhere in the log; dmesg | grep -i oom",
       .fix = "what ended that process"},
      {.name = "output-unwritable",
       .when = {"permissionerror: [errno 13]", "read-only file system", "errno 30]"},
       .what = "a file or directory may not be written or read",
       .cause = "The path belongs to another user: a container running as root, or a colleague, made it\n"
                "It is mounted read-only (a notebook's input, a container's image), or the disk became read-only after "
                "an error\n"
                "A default path lies where this user may not write (/, /root, /home of another, /tmp of another user)\n"
                "On Windows: the path is a directory, or the file is open in another program",
       .confirm = "ls -ld on the path in the message and on its parent; mount | grep it; id",
       .fix = "give the option that the path comes from (output_dir, logging_dir, HF_HOME, TORCH_HOME, "
              "TRITON_CACHE_DIR, TMPDIR) a directory of your own\n"
              "chown or chmod it; docker run --user $(id -u):$(id -g)\n"
              "copy what is read-only to a disk that is not"},
      {.name = "cache-unwritable",
       .when = {"permissionerror: [errno 13]*huggingface", "permissionerror: [errno 13]*/.cache/",
                "permissionerror: [errno 13]*hf_cache", "permissionerror: [errno 13]*/hub/",
                "permissionerror: [errno 13]*.locks", "permissionerror: [errno 13]*torch_extensions",
                "permissionerror: [errno 13]*hf_datasets", "permissionerror: [errno 13]*models--",
                "permissionerror: [errno 13]*_builder.lock", "permissionerror: [errno 13]*.incomplete",
                "permissionerror: [errno 13]*/.triton", "permissionerror: [errno 13]*torchinductor",
                "read-only file system*/.cache", "read-only file system*huggingface",
                "there was a problem when trying to write in your cache folder"},
       .refines = {"output-unwritable"},
       .what = "the cache (of models, data sets or compiled kernels) may not be written or read",
       .cause =
           "HF_HOME, HF_HUB_CACHE or cache_dir is a directory of another user or of a group that this user is not in\n"
           "An earlier run as root (in a container) wrote into it\n"
           "The home directory is not there or read-only: a container with another user, a cluster's compute node\n"
           "A damaged entry of the cache: a directory where a file should be, or a file that another program has open "
           "(Windows)",
       .confirm = "ls -ld on the path in the message; env | grep -E 'HF_|XDG_CACHE|TORCH_'",
       .fix = "HF_HOME=… (or cache_dir=…; TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR for kernels) in a directory of "
              "your own\n"
              "sudo chown -R $(id -u) on the cache, if it is yours\n"
              "delete the entry that the message names, and run again\n"
              "for a shared cache write access for the group: chmod -R g+rwX, its .locks too"},
      {.name = "time-limit",
       .when = {"due to time limit", "cancelled at*time limit", "walltime*exceeded", "exceeded*walltime",
                "deadlineexceeded", "exceeded the maximum runtime", "exceeded maximum runtime",
                "maximum runtime of*hours"},
       .from_outside = true,
       .refines = {"killed", "terminated"},
       .what = "the scheduler ended the job: its time was up",
       .cause = "The run takes longer than the job may\n"
                "It hung before: the last lines of the program are much older than the end",
       .confirm = "sacct -j JOB --format=JobID,Elapsed,Timelimit,State",
       .fix = "ask for more time (--time), and save checkpoints more often, to resume from\n"
              "have it queued again: --requeue, --signal=B:USR1@120 to save before the end",
       .command = "plimsoll train saves a checkpoint when it is told to stop (SIGTERM), and --resume-from-checkpoint "
                  "goes on bit for bit"},
      {.name = "time-limit-after-end",
       .when = {"due to time limit", "cancelled at*time limit", "walltime*exceeded", "exceeded*walltime"},
       .anywhere = {{"train_runtime", "training completed", "training complete", "training finished",
                     "finished training", "stopped: `max_epochs=", "stopped: `max_steps=", "total training time",
                     "training took", "training done", "training has finished", "training wall time",
                     "training time:"}},
       .from_outside = true,
       .refines = {"time-limit", "killed", "terminated"},
       .what = "the scheduler ended the job at its time limit, and a training in it had come to its end before",
       .cause = "The program did not exit after its training: a process, a worker or a Spark or Ray session was not "
                "closed, or one rank waits for another\n"
                "What follows the training (an evaluation, the next training of the job) takes longer than the job may",
       .confirm = "the time of the last line of the program against the time of the cancellation; py-spy dump of the "
                  "processes that are left",
       .fix = "destroy_process_group(), spark.stop(), wandb.finish() at the end\n"
              "ask for more time, or a job for each training",
       .command = "plimsoll train ends when its model is saved"},
      {.name = "killed",
       .level = Level::kConsequence,
       .when = {"]killed$",
                "exited with code -9",
                "code=-9",
                "^killed$",
                "killed*python",
                "^/bin/*killed",
                ": line *killed",
                "exit code 137",
                "return code = -9",
                "return code -9",
                "return code: -9",
                "exit code: 137",
                "exitcode: -9",
                "exitcode : -9",
                "exitcode  : -9",
                "exit code -9",
                "exit code: -9",
                "(sigkill)",
                "signals.sigkill",
                "exit status 137",
                "status code 137",
                "code 137",
                "code: 137",
                "exited with 137",
                "exit_code=137",
                "exitcode=-9",
                "received sigkill",
                "signal 9",
                "signal: 9",
                "signal: killed",
                "srun: error: *task*: killed",
                "terminated with signal sigkill"},
       .from_outside = true,
       .refines = {"child-failed", "plimsoll-error"},
       .what = "the process was killed from outside (signal 9, exit code 137)",
       .cause = "The host's memory ran out: the kernel's OOM killer or a container's limit ended it (a full GPU raises "
                "an error instead)\n"
                "Another rank failed first, and the launcher killed the rest: its own log says why\n"
                "Somebody, a scheduler, a time limit or a preemption ended it with kill -9",
       .confirm = "dmesg -T | grep -iE 'oom|killed process'; in a container cat /sys/fs/cgroup/memory.events; `docker "
                  "inspect` says OOMKilled",
       .fix = "fewer data loader workers, data read lazily, low_cpu_mem_usage=True\n"
              "a larger limit (docker --memory, sbatch --mem) or machine\n"
              "what the rank that failed first needs",
       .command = "dmesg | plimsoll doctor -; then plimsoll train --budget SIZE, which plans the host's memory"},
      {.name = "notebook-disconnected",
       .level = Level::kConsequence,
       .when = {"runtime disconnected", "runtime has been disconnected", "cannot connect to gpu backend",
                "usage limits in colab", "session was terminated", "session timed out", "maximum session duration",
                "your session was interrupted", "exceeded the maximum*session", "notebook exceeded*time",
                "session*idle timeout", "idle timeout*session", "due to idle timeout"},
       .from_outside = true,
       .what = "the notebook's service ended the session",
       .cause =
           "Colab and Kaggle end sessions that are idle, run for too long (12 hours) or have used up their share of "
           "GPU time; what was not saved is lost",
       .confirm = "the service's own message; nothing in the log failed before it",
       .fix = "save checkpoints to Drive or /kaggle/working every few hundred steps, and resume from the last one; a "
              "paid runtime or a batch job for long runs",
       .command = "plimsoll train --resume-from-checkpoint goes on bit for bit"},
      {.name = "kernel-died",
       .level = Level::kConsequence,
       .when = {"kernel appears to have died", "kernel died", "kernel restarted", "the kernel crashed",
                "canceled future for execute_request", "deadkernelerror", "your session crashed for an unknown reason",
                "the kernel has died", "kernel has crashed"},
       .what = "a notebook's kernel died",
       .cause = "The host's memory ran out, more often than not\n"
                "Native code crashed: a library built for another version, a GPU driver, a damaged file",
       .confirm = "run the same as a script: python script.py 2>&1 | tee log; dmesg | grep -i oom",
       .fix = "less in memory at a time, a smaller batch, fewer workers; a runtime with more memory\n"
              "what the script's own log says; a fresh environment, if native code crashed",
       .command = "plimsoll doctor with that log"},
      {.name = "sigbus",
       .level = Level::kConsequence,
       .when = {"^bus error", "bus error (core dumped)", "exitcode: -7", "exitcode : -7", "exitcode  : -7",
                "exit code 135", "(sigbus)", "signals.sigbus", "signal 7", "signal: 7"},
       .refines = {"child-failed"},
       .what = "a bus error: a page of a mapped file could not be read",
       .cause = "/dev/shm is full, as in containers that have 64 MiB of it\n"
                "A mapped file (safetensors, Arrow) was cut short, replaced or deleted while it was read\n"
                "The disk fails, or a full or network disk does not give the page",
       .confirm = "df -h /dev/shm; compare the file's size and checksum with the source's; dmesg for I/O errors",
       .fix = "a larger /dev/shm (docker --shm-size=8g), or num_workers=0\n"
              "download the file again; leave files that a run reads unchanged\n"
              "copy the data to a local disk with space",
       .command = "plimsoll uses no /dev/shm and maps no file"},
      {.name = "segfault",
       .level = Level::kConsequence,
       .when = {"0xc0000005", "windows fatal exception: access violation", "segmentation fault",
                "exit status 3221225477", "exit code 139", "return code = -11", "return code -11", "exit code: 139",
                "exitcode: -11", "exitcode : -11", "exitcode  : -11", "(sigsegv)", "signals.sigsegv", "signal 11",
                "signal: 11", "exit code -11", "code 139", "status 139"},
       .refines = {"child-failed"},
       .what = "a crash in native code (segmentation fault)",
       .cause = "Libraries that were built for other versions of one another: PyTorch, CUDA extensions, torchvision, "
                "OpenCV, protobuf\n"
                "A bug or an unsupported case in the package where faulthandler's traceback ends\n"
                "A damaged file or an odd sample that a decoder does not survive\n"
                "A stack or address space that is too small; rarely the host's memory itself",
       .confirm = "python -X faulthandler train.py names the Python line; import the packages one by one",
       .fix = "a fresh environment with one PyTorch and extensions built for it\n"
              "another version of the package that faulthandler names last; num_workers=0 to see the line\n"
              "leave out the sample; ulimit -s unlimited"},
      {.name = "aborted",
       .level = Level::kConsequence,
       .when = {"(sigabrt)", "exitcode: -6", "exitcode : -6", "exitcode  : -6", "exit code -6", "return code = -6",
                "signals.sigabrt", "signal 6 ", "signal: 6", "exit code 134", "aborted (core dumped)",
                "fatal python error: aborted", "exitcode=-6"},
       .refines = {"child-failed", "segfault"},
       .what = "a process ended itself after an error in native code (SIGABRT)",
       .cause = "A C++ exception or assertion, whose words stand in that process's output above: \"terminate called\", "
                "\"what():\", a watchdog that timed out\n"
                "Libraries that do not belong together",
       .confirm = "that rank's own output, or python -X faulthandler",
       .fix = "what the error above it needs\n"
              "a fresh environment with one PyTorch and extensions built for it, if there is none"},
      {.name = "terminated",
       .level = Level::kEcho,
       .when = {"received sigterm", "*** sigterm (@", "`termination signal` is detected", "(sigterm)", "exit code 143",
                "exit code: 143", "exitcode: -15", "exitcode : -15", "exitcode  : -15", "signal 15", "signal: 15",
                "sending process*sigterm", "signals.sigterm", "received 15 death signal"},
       .what = "the process was asked to end (SIGTERM)",
       .cause = "A launcher ended it because another rank had failed\n"
                "A scheduler or a user stopped the job",
       .confirm = "which rank failed first: the earliest error in all ranks' logs",
       .fix = "look at that rank's log"},
      {.name = "map-died",
       .level = Level::kConsequence,
       .when = {"one of the subprocesses has abruptly died during map operation", "brokenprocesspool",
                "a process in the process pool was terminated abruptly"},
       .what = "a worker process of map() or of a process pool died",
       .cause = "The host's memory ran out: each of num_proc processes holds its own batches\n"
                "It crashed in native code (an image, a tokenizer, a GPU used after fork)",
       .confirm = "dmesg -T | grep -i oom; num_proc=1 shows the error itself",
       .fix = "a smaller num_proc, batch_size and writer_batch_size; images as paths\n"
              "num_proc=1 to see the error itself; leave out that sample\n"
              "more memory for the job or container",
       .command = "plimsoll reads images from their files"},
      {.name = "hangup",
       .level = Level::kConsequence,
       .when = {"received 1 death signal", "received sighup", "(sighup)", "signals.sighup", "signal 1$", "signal: 1$",
                "^client_loop: send disconnect", "^connection to * closed by remote host"},
       .from_outside = true,
       .what = "the terminal was closed, and its hang-up signal (SIGHUP) ended the run",
       .cause = "The SSH connection or the terminal's window was closed; torchrun ends at this signal even under nohup",
       .confirm = "when the connection ended: last | head",
       .fix = "tmux, screen or setsid for long runs, or a batch job; resume from the last checkpoint",
       .command = "plimsoll train saves a checkpoint at SIGHUP; --resume-from-checkpoint goes on"},
      {.name = "interrupted",
       .level = Level::kConsequence,
       .when = {"keyboardinterrupt", "received sigint", "(sigint)", "signals.sigint", "signal 2$", "signal: 2$",
                "received 2 death signal"},
       .what = "somebody interrupted the run (Ctrl-C)",
       .cause = "The keyboard, or a notebook's stop button",
       .confirm = "ask who did",
       .fix = "resume from the last checkpoint",
       .command = "plimsoll train saves a checkpoint at Ctrl-C; --resume-from-checkpoint goes on"},
  };
}

}  // namespace plimsoll::doctor
