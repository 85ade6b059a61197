// Clusters and containers that do not let a run begin.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> cluster_rules() {
  return {
      {.name = "rank-twice",
       .when = {"ranks has already checked in", "rank*already checked in"},
       .refines = {"nccl-error"},
       .what = "two processes have the same rank",
       .cause =
           "Each node counts its ranks from 0: --node_rank, or what the launcher derives it from, is the same on all\n"
           "Processes were started twice: by Slurm's srun and by the program's own launcher, or by torchrun in "
           "every task of srun\n"
           "devices, num_nodes and --ntasks-per-node do not fit each other",
       .confirm = "print RANK, LOCAL_RANK, WORLD_SIZE and SLURM_PROCID in every process",
       .fix = "torchrun --node_rank=$SLURM_NODEID with one task a node (--ntasks-per-node=1)\n"
              "with Lightning: srun, --ntasks-per-node equal to devices, and --nodes equal to num_nodes\n"
              "end what is left of an earlier run"},
      {.name = "pod-pending",
       .when = {"insufficient nvidia.com/gpu", "insufficient memory*nodes are available",
                "insufficient cpu*nodes are available", "nodes are available: *insufficient",
                "nodes are available*node affinity", "nodes are available*untolerated taint",
                "unbound immediate persistentvolumeclaims"},
       .what = "Kubernetes finds no node that can take the pod, and it does not start",
       .cause = "All GPUs (or as much memory and as many cores as it asks for) are in use, or no node has so many\n"
                "The nodes with GPUs bear a taint that the pod does not tolerate, or the pod asks for other labels\n"
                "The device plugin does not run, so that no node offers nvidia.com/gpu\n"
                "A volume that it wants is not there yet",
       .confirm = "kubectl describe pod NAME: the counts behind \"nodes are available\"; kubectl describe nodes | grep "
                  "-A8 Allocatable",
       .fix = "ask for what one node has: resources.limits nvidia.com/gpu, memory, cpu\n"
              "tolerations and a nodeSelector for the GPU nodes\n"
              "wait, or end what holds them: kubectl get pods -A -o wide"},
      {.name = "image-pull",
       .when = {"imagepullbackoff", "errimagepull", "failed to pull image", "pull access denied for",
                "manifest unknown", "manifest for*not found", "toomanyrequests: you have reached your pull rate limit"},
       .refines = {"hub-server", "no-network"},
       .what = "the container's image cannot be fetched",
       .cause = "Its name or tag does not exist in that registry, or was mistyped\n"
                "The registry wants a login that the node or the pod does not have (imagePullSecrets)\n"
                "The node does not reach the registry, or has fetched too much of it (a limit of Docker Hub)",
       .confirm = "docker pull IMAGE on a machine with the same login",
       .fix = "the image's full name and a tag that exists\n"
              "docker login, or a secret that imagePullSecrets names\n"
              "a registry of your own or a mirror, where the limit was reached"},
      {.name = "locked-memory",
       .when = {"ibv_reg_mr*failed", "call to ibv_reg_mr", "ibv_create_cq*cannot allocate memory",
                "ibv_create_qp*cannot allocate memory", "memlock"},
       .with = {{"nccl", "ibv_", "rdma", "infiniband"}},
       .refines = {"host-alloc", "nccl-system", "nccl-error"},
       .what = "NCCL may not lock the memory that InfiniBand needs",
       .cause =
           "The limit of locked memory (ulimit -l) is too low in the container or job: adapters of InfiniBand read "
           "memory that must stay where it is\n"
           "The limit was raised for logins, and not for the batch system's or the container's daemon",
       .confirm = "ulimit -l in the same job or container: it should be unlimited",
       .fix =
           "docker run --ulimit memlock=-1:-1 --cap-add=IPC_LOCK (securityContext with IPC_LOCK in Kubernetes)\n"
           "* hard memlock unlimited and * soft memlock unlimited in /etc/security/limits.conf; LimitMEMLOCK=infinity "
           "for slurmd\n"
           "NCCL_IB_DISABLE=1, to go over TCP until then"},
      {.name = "preempted",
       .when = {"due to preemption",
                "due to job requeue",
                "this job is preempted",
                "job has been preempted",
                "job was preempted",
                "job*preempted",
                "received*preempt*signal",
                "instance was preempted",
                "instance is being preempted",
                "spot instance interruption",
                "spot interruption",
                "spot instance reclaimed",
                "instance*will be terminated*spot",
                "preemption notice",
                "preempted by*scheduler",
                "preempted by*higher priority",
                "vm has been preempted",
                "worker was preempted",
                "preempt_signal",
                "pod was preempted",
                "preempting"},
       // vLLM pre-empts requests, and a login's banner warns of possible events.
       .without = {"num_preemption", "preempting*request", "sequence group", "kv cache", "may be preempted",
                   "can be preempted", "could be preempted"},
       .from_outside = true,
       .passes = true,
       .refines = {"time-limit", "job-cancelled", "killed", "terminated", "child-failed"},
       .what = "the job was pre-empted: the cluster (or the cloud) took its machine back, and may start it again",
       .cause = "A job of higher priority, or another user of a spot machine, needs what it ran on: nothing in the "
                "program failed\n"
                "An administrator requeued it (scontrol requeue)",
       .confirm = "sacct -j JOB --duplicates --format=JobID,State,Start,End; the cloud's events of the machine",
       .fix = "save checkpoints often, and resume from the last one when it is queued again: --requeue, "
              "--signal=B:USR1@120 to save before the end\n"
              "a partition or QOS that is not pre-empted, or a machine that is not a spot one",
       .command = "plimsoll train saves a checkpoint when it is told to stop (SIGTERM), and --resume-from-checkpoint "
                  "goes on bit for bit"},
      {.name = "glibc-old",
       .when = {"version `glibc_*not found", "version 'glibc_*not found"},
       .refines = {"libstdcxx", "flash-attention", "extension-build", "undefined-symbol", "library-missing",
                   "lazy-import"},
       .what = "a compiled package wants a newer C library (glibc) than this system has",
       .cause =
           "The wheel was built on a newer distribution, and glibc is the system's: no pip or conda package brings "
           "another one",
       .confirm = "ldd --version; the file behind \"required by\"",
       .fix =
           "build that package here: pip install --no-binary :all: --no-build-isolation it, or an older wheel of it\n"
           "a container or machine with a newer distribution (Ubuntu 20.04 has glibc 2.31, 22.04 has 2.35)\n"
           "the path without it (attn_implementation='sdpa' where it is flash-attn)"},
      {.name = "tpu-missing",
       .when = {"unable to initialize backend 'tpu'", "failed to initialize tpu", "no tpu devices were found",
                "tpu backend initialization is taking more than", "libtpu.so already in use"},
       .what = "no TPU can be used",
       .cause = "The machine or notebook has none: its runtime is another one\n"
                "Another process holds it, as only one may: a notebook's kernel, a run that was not ended\n"
                "torch_xla (or jax) and libtpu are of versions that do not belong together",
       .confirm = "ls /dev/accel* /dev/vfio; pip list | grep -iE 'torch_xla|jax|libtpu'",
       .fix = "choose a runtime with a TPU, or PJRT_DEVICE=CPU (CUDA) to go without\n"
              "end the process that holds it; restart the kernel\n"
              "pip install torch~=X.Y 'torch_xla[tpu]~=X.Y' of one version"},
  };
}

}  // namespace plimsoll::doctor
