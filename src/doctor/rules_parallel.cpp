// Several processes or devices: NCCL, launchers, device maps.
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

// Ports that only services of the machine may open.
constexpr int kSystemPorts = 1024;
bool uses_system_port(const OomNumbers&, const LogFacts& facts) { return facts.port && *facts.port < kSystemPorts; }

// Both devices that a message names are GPUs.
const AnyOf kTwoGpus = {"devices, cuda:* and cuda:", "on cuda:*on cuda:", "different gpus"};

}  // namespace

std::vector<Rule> parallel_rules() {
  return {
      {.name = "nccl-timeout",
       .level = Level::kConsequence,
       .when = {"caught collective operation timeout", "collective operation timeout",
                "some nccl operations have failed or timed out", "watchdog*timed out", "monitoredbarrier*rank*failed",
                "application timeout caused pair closure", "timed out waiting*ms for recv operation",
                "timed out waiting*ms for send operation", "timed out waiting*milliseconds for recv operation",
                "collective*timed out after", "watchdog got stuck", "heartbeat monitor timed out",
                "retrieving nccluniqueid from*got error$", "barrier timed out"},
       .refines = {"nccl-error"},
       .what = "a collective timed out: one rank waited, and another did not arrive",
       .cause = "Another rank failed: its own log says why\n"
                "Another rank is somewhere else: evaluating, saving, downloading or tokenizing alone, out of "
                "batches one step earlier, or stuck in its data loader\n"
                "The links between the GPUs or nodes do not work",
       .confirm = "the ranks' last lines: who did not arrive at this SeqNum? TORCH_DISTRIBUTED_DEBUG=DETAIL, "
                  "TORCH_NCCL_TRACE_BUFFER_SIZE=2000, py-spy dump on the silent rank",
       .fix = "repair the rank that failed first, or stopped: its log says why\n"
              "the same number of batches and the same branches on every rank (drop_last, join); work of rank 0 alone "
              "between barriers\n"
              "a longer ddp_timeout (timeout= of init_process_group), where one rank only takes long\n"
              "NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1 and NCCL_DEBUG=INFO to test the links"},
      {.name = "preparing-timeout",
       .when = {kTimedOutPreparing},
       .refines = {"nccl-timeout", "nccl-error", "rendezvous"},
       .what = "the other ranks waited for the one that prepares the data, and their time ran out",
       .cause = "Data were being generated, tokenized, packed or downloaded when the collective timed out: one rank "
                "does this alone, and takes longer than the process group's time-out (10 or 30 minutes)",
       .confirm = "the progress line just before the time-out; the second run, with a filled cache, passes",
       .fix = "prepare the data in a run of its own before (one process), so that all ranks read the cache\n"
              "ddp_timeout=7200 in TrainingArguments, or init_process_group(timeout=timedelta(hours=2)); more "
              "processes: num_proc",
       .command = "plimsoll train tokenizes by itself"},
      {.name = "nccl-duplicate-gpu",
       .when = {"duplicate gpu detected"},
       .refines = {"nccl-error"},
       .what = "two ranks use the same GPU",
       .cause =
           "torch.cuda.set_device(local_rank) is missing, or the model is moved to cuda:0 in every rank\n"
           "More processes were started than there are visible GPUs, or CUDA_VISIBLE_DEVICES gives each the same one",
       .confirm = "print local_rank and torch.cuda.current_device() in every rank",
       .fix = "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before anything else\n"
              "--nproc_per_node equal to the number of visible GPUs"},
      {.name = "fsdp-meta",
       .when = {"must flatten tensors on the same device*meta", "got both cuda*and meta", "got both meta and"},
       .what = "FSDP got a model of which some parameters are on the meta device: they hold no values yet",
       .cause = "The model was made with init_empty_weights or torch.device('meta'), and a part was not loaded or "
                "initialised before FSDP wrapped it\n"
                "The rank loads low_cpu_mem_usage weights on rank 0 only, and sync_module_states is off\n"
                "A layer of one's own has no reset_parameters, or is made after the weights were loaded",
       .confirm = "[n for n, p in model.named_parameters() if p.device.type == 'meta'] before FSDP",
       .fix = "param_init_fn, or module.to_empty(device=…) and reset_parameters(), for what is on meta\n"
              "sync_module_states=True with the weights on rank 0\n"
              "make the model on the CPU on every rank, where memory allows"},
      {.name = "zero3-order",
       .when = {"disagreement between rank0 and rank"},
       .what = "under ZeRO-3 the ranks went through the model's parts in different order",
       .cause =
           "A branch, expert or adapter is used on one rank and not on another: a batch without an image, an empty "
           "expert, a condition on the data\n"
           "A rank has other parameters, or began a step that another did not",
       .confirm = "the two lists of numbers in the message: where do they part?",
       .fix = "run every part on every rank, with a dummy input where there is none\n"
              "set_z3_leaf_modules for a mixture of experts\n"
              "ZeRO-2, where the model differs from batch to batch"},
      {.name = "zero3-device-map",
       .when = {"zero-3 is incompatible with `low_cpu_mem_usage",
                "deepspeed zero-3 is not compatible with `low_cpu_mem_usage",
                "zero-3 is incompatible with passing a `device_map"},
       .what = "a model was loaded with device_map or low_cpu_mem_usage, and ZeRO-3 divides it itself",
       .cause = "device_map (or quantization, which sets it) is passed to from_pretrained under ZeRO-3",
       .confirm = "the arguments of from_pretrained; zero_optimization.stage",
       .fix = "leave device_map and low_cpu_mem_usage out under ZeRO-3\n"
              "ZeRO-2 with a model that is loaded whole on each rank"},
      {.name = "accelerator-deepspeed",
       .when = {"can't use the same `accelerator()` instance with multiple models when using deepspeed"},
       .what = "one Accelerator was given two models under DeepSpeed",
       .cause = "prepare() was called for each model (a teacher, a GAN, an EMA model), and DeepSpeed takes one",
       .confirm = "the calls of accelerator.prepare",
       .fix = "prepare only the model that trains, and move the others with .to(accelerator.device)\n"
              "newer accelerate: one DeepSpeedPlugin for each model\n"
              "no DeepSpeed: DDP or FSDP"},
      {.name = "nccl-version",
       .when = {"nccl version mismatch", "mismatched nccl version", "undefined symbol: nccl",
                "nccl*version*is too old"},
       .refines = {"nccl-error", "undefined-symbol"},
       .what = "ranks or libraries use different versions of NCCL",
       .cause = "LD_LIBRARY_PATH offers another NCCL than PyTorch's, or the nodes' environments differ",
       .confirm = "torch.cuda.nccl.version() on each node; `plimsoll doctor` lists libnccl",
       .fix = "the same environment on every node; unset LD_LIBRARY_PATH",
       .command = "plimsoll doctor"},
      {.name = "nccl-error",
       .level = Level::kConsequence,
       .when = {"nccl error", "ncclunhandledcudaerror", "ncclsystemerror", "ncclinternalerror", "ncclremoteerror",
                "ncclinvalidusage", "disterror", "distbackenderror", "nccl warn cuda failure",
                "nccl warn*proxy call to rank", "nccl warn*failed to execute operation", "gloo/transport",
                "nccl communicator was aborted", "connection closed by remote peer", "call to ibv_",
                "call to connect returned"},
       .what = "communication between the ranks failed",
       .cause = "Another rank has ended: its own log says why\n"
                "The network interface is the wrong one, or a firewall stands between the nodes\n"
                "Peer access between the GPUs, or InfiniBand, does not work\n"
                "/dev/shm is too small; or driver, NCCL and PyTorch do not belong together",
       .confirm = "NCCL_DEBUG=INFO; look for the first error in every rank's log",
       .fix = "what the first rank that failed needs\n"
              "NCCL_SOCKET_IFNAME=NAME with the interface between the nodes\n"
              "NCCL_P2P_DISABLE=1 or NCCL_IB_DISABLE=1 to find the broken path\n"
              "docker --shm-size=8g, or --ipc=host"},

      {.name = "nccl-system",
       .level = Level::kConsequence,
       .when = {"unhandled system error", "ncclsystemerror"},
       .refines = {"nccl-error"},
       .what = "a system call of NCCL failed: the ranks could not talk to one another",
       .cause = "The network interface that NCCL chose leads to no other rank: a container without --network=host, a "
                "bridge, a firewall\n"
                "/dev/shm is too small or shared memory is not permitted, for ranks on one machine\n"
                "Another rank has ended: its own log says why",
       .confirm = "NCCL_DEBUG=INFO: the first NCCL WARN line names the call and its address or file",
       .fix = "NCCL_SOCKET_IFNAME=NAME with the interface between the nodes; docker run --network=host --ipc=host (or "
              "--shm-size=8g)"},
      {.name = "nccl-cuda",
       .level = Level::kConsequence,
       .when = {"unhandled cuda error", "ncclunhandledcudaerror"},
       .refines = {"nccl-error"},
       .what = "a CUDA call of NCCL failed",
       .cause = "A rank's GPU is full, or two ranks use the same one (torch.cuda.set_device is missing)\n"
                "NCCL was built for a newer CUDA than the driver serves, or knows no such GPU\n"
                "An earlier kernel failed on that rank",
       .confirm = "NCCL_DEBUG=INFO: \"NCCL WARN Cuda failure\" names the error; nvidia-smi; torch.cuda.nccl.version()",
       .fix = "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); end what else holds the GPUs\n"
              "a newer driver, or PyTorch built for an older CUDA (for a new GPU a newer PyTorch)\n"
              "NCCL_P2P_DISABLE=1 to rule out peer access"},
      {.name = "nccl-remote",
       .level = Level::kEcho,
       .when = {"remote process exited or there was a network error", "ncclremoteerror"},
       .refines = {"nccl-error"},
       .what = "another rank ended, or the connection to it broke",
       .cause = "The other rank failed: its own log says why\n"
                "The network between the nodes broke (InfiniBand, a switch)",
       .confirm = "the first error in every rank's log; dmesg and ibstat on the nodes",
       .fix = "what the rank that failed first needs; NCCL_IB_DISABLE=1 to rule out InfiniBand"},
      {.name = "nccl-connect",
       .when = {"socketstartconnect: connect to*failed", "socketpollconnect: connect to*returned",
                "nccl warn*connect to*failed", "warn call to connect failed", "nccl warn*no route to host",
                "nccl warn*no socket interface found", "nccl warn*socket creation failed"},
       .refines = {"nccl-error", "rendezvous-lost"},
       .what = "NCCL cannot reach another rank over the network interface that it chose",
       .cause =
           "The interface leads to no other node, or a firewall closes the ports between them, which are any above "
           "1024; at \"Connection refused\" the other rank may have ended before: its own log says why",
       .confirm = "NCCL_DEBUG=INFO prints \"NET/Socket : Using …\": is that address one that the other node can ping?",
       .fix = "NCCL_SOCKET_IFNAME=NAME with the interface between the nodes (ip -br addr), the same for "
              "GLOO_SOCKET_IFNAME; open the firewall between them"},
      {.name = "nccl-bridge",
       .when = {"socketstartconnect: connect to*failed", "socketpollconnect: connect to*returned",
                "nccl warn*connect to*failed", "warn call to connect failed", "nccl warn*no route to host"},
       .anywhere = {{"nccl info*using*docker0", "nccl info*using*virbr", "nccl info*using*lo:127",
                     "nccl info*using*br-", "nccl info*using*veth", "nccl info*using*lxdbr"}},
       .refines = {"nccl-connect", "nccl-error", "rendezvous-lost"},
       .what =
           "NCCL chose a network interface that leads to no other node: a bridge of containers or virtual machines, "
           "or lo",
       .cause = "docker0, virbr0 and their like have an address, often the same on every node, and end on the machine; "
                "NCCL takes the first interface that looks usable",
       .confirm = "ip -br addr: which interface has the address that the other node can ping?",
       .fix = "NCCL_SOCKET_IFNAME=NAME with that interface (or ^docker0,virbr0,lo to leave those out), the same for "
              "GLOO_SOCKET_IFNAME; if it goes on, the firewall between the nodes"},
      {.name = "address-in-use",
       .when = {"address already in use", "server socket has failed to listen", "eaddrinuse", "errno: 98", "errno 98]",
                "server socket has failed to bind", "tried to launch distributed communication on port"},
       .leads_to = {"process-group-missing", "nccl-connect", "nccl-bridge", "nccl-duplicate-gpu", "rendezvous",
                    "rendezvous-endpoint"},
       .what = "the port for the ranks' meeting is taken",
       .cause = "An earlier run has not ended, and its leftover processes hold the port\n"
                "Another job on the machine uses the same port (29500 for ranks, unless the message has another one)\n"
                "Two runs, or a notebook's launcher and its last try, were started at once",
       .confirm = "ss -ltnp, and look for the port; ps aux | grep python",
       .fix =
           "end the leftover processes\n"
           "another port: --master_port=29501, --main_process_port 0, MASTER_PORT=…; torchrun --standalone picks one"},
      {.name = "system-port",
       .when = {"server socket has failed to bind", "server socket has failed to listen", "address already in use",
                "eaddrinuse", "errno: 98", "errno: 13", "eacces", "permission denied"},
       .with = {{"bind", "listen", "socket", "tcpstore"}},
       .holds = uses_system_port,
       .refines = {"address-in-use", "output-unwritable", "path-permission"},
       .leads_to = {"process-group-missing", "nccl-connect", "nccl-bridge", "nccl-duplicate-gpu", "rendezvous",
                    "rendezvous-endpoint"},
       .what = "the port for the ranks' meeting is one of the system's",
       .cause =
           "Ports below 1024 belong to services of the machine (22 is SSH's, 80 the web's): one of them holds this "
           "one, and who is not root may not open it\n"
           "The number was meant for something else (the port of ssh or of a proxy), or came from a variable that "
           "other programs set (PORT, MASTER_PORT)",
       .confirm = "the port at the end of the address in the message; sudo ss -ltnp; echo $PORT $MASTER_PORT",
       .fix = "a port from 1024 on that is free: --master_port=29501, --main_process_port 0, MASTER_PORT=29501 "
              "(PORT=29501 for scripts that read that one)\n"
              "torchrun --standalone, which picks one; do not end the service that holds it"},
      {.name = "rendezvous",
       .when = {"rendezvoustimeouterror", "rendezvousconnectionerror: the connection to the c10d store",
                "the client socket has timed out", "the client socket has failed to connect", "waiting for clients",
                "socket timeout", "tcpstore*timed out", "timed out*store based barrier"},
       .without = {"num_nodes_waiting", "in _keep_alive", "in shutdown", "in _exit_barrier"},
       .refines = {"rendezvous-lost"},
       .what = "the ranks did not find one another",
       .cause = "MASTER_ADDR or MASTER_PORT is wrong, resolves to another address, or is behind a firewall\n"
                "A node or rank did not start, ended early, or came later than the time-out\n"
                "--nnodes, --nproc_per_node, node ranks or rendezvous ids differ between the nodes",
       .confirm = "every node: nc -vz MASTER_ADDR MASTER_PORT; how many ranks started?",
       .fix = "torchrun or accelerate launch with the same --nnodes, port and an address that all nodes reach\n"
              "open the firewall between them; an IP address instead of a name\n"
              "look at the node that did not come: its log says why; a longer time-out"},

      {.name = "process-group-missing",
       .when = {"default process group has not been initialized", "please make sure to call init_process_group"},
       .refines = {"rendezvous", "rank-unset"},
       .what = "torch.distributed is used, and no process group was made",
       .cause = "The script was started as one process without a launcher, and code in it calls a collective, "
                "get_rank, a DistributedSampler or SyncBatchNorm anyway\n"
                "init_process_group, the Accelerator or the Trainer comes later than the call, or the group was "
                "destroyed before it\n"
                "The call is made in a data loader worker or another process that is in no group",
       .confirm = "torch.distributed.is_initialized() just before that line; how the script was started",
       .fix = "start it with torchrun --nproc_per_node=N (1 for one GPU), accelerate launch or deepspeed\n"
              "torch.distributed.init_process_group before the call\n"
              "if torch.distributed.is_initialized(): around it; BatchNorm instead of SyncBatchNorm on one GPU"},
      {.name = "rank-unset",
       .when = {"keyerror: 'rank'", "keyerror: 'local_rank'", "keyerror: 'world_size'", "keyerror: 'master_addr'",
                "keyerror: 'master_port'", "keyerror: 'slurm_procid'", "keyerror: 'slurm_localid'",
                "environment variable rank expected", "environment variable world_size expected",
                "environment variable master_addr expected", "environment variable master_port expected"},
       .refines = {"variable-unset", "column-missing", "rendezvous"},
       .what = "the script wants its rank or address from the environment, and no launcher has set it",
       .cause =
           "It was started with plain python: RANK, LOCAL_RANK, WORLD_SIZE and MASTER_ADDR come from the launcher\n"
           "It was started by srun or mpirun, which set variables of other names\n"
           "The job's environment is not passed on to the processes (ssh, docker, sudo)",
       .confirm = "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR",
       .fix =
           "torchrun --nproc_per_node=N train.py, accelerate launch, or deepspeed\n"
           "for one process RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500 python train.py\n"
           "under srun export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS in each task"},
      {.name = "variable-unset",
       .when = {"keyerror: '"},
       .with = {{"os.environ[", "environ["}},
       .refines = {"column-missing"},
       .what = "an environment variable that the script reads is not set",
       .cause = "The message is its name: it is set in another shell, a profile that batch jobs do not read, or by a "
                "launcher that was not used",
       .confirm = "printenv NAME in the job itself",
       .fix = "export it where the run is started (sbatch --export, docker run -e), or read it with os.environ.get"},
      {.name = "rendezvous-lost",
       .level = Level::kEcho,
       .when = {"failed to send a keep-alive heartbeat", "failed to shutdown the rendezvous",
                "rendezvousconnectionerror", "rendezvousclosederror", "rendezvousgracefulexiterror"},
       .what = "a node lost its connection to the others' meeting place",
       .cause = "They had met, and the node that keeps the meeting (rank 0's) has ended since: the failure is there",
       .confirm = "that node's log: what was its last error?",
       .fix = "repair what ended it"},
      {.name = "deepspeed-mpi",
       .when = {"no module named 'mpi4py'", "deepspeed*attempting to discover mpi environment"},
       .with = {{"no module named 'mpi4py'", "mpi_discovery"}},
       .refines = {"module-missing", "import-refused", "package-missing"},
       .what = "DeepSpeed was started without a launcher, and looks for MPI",
       .cause = "The script was started with plain python or from a notebook: RANK and LOCAL_RANK are not set, and "
                "DeepSpeed takes the run for one of MPI, whose package is not installed\n"
                "It was started by mpirun, and mpi4py is missing",
       .confirm = "echo $RANK $LOCAL_RANK $WORLD_SIZE; how the script was started",
       .fix = "deepspeed train.py, torchrun --nproc_per_node=N train.py or accelerate launch train.py\n"
              "in a notebook: os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='localhost', "
              "MASTER_PORT='29500') before DeepSpeed is used\n"
              "pip install mpi4py, under mpirun"},
      {.name = "deepspeed-no-loader",
       .when = {"requires you to pass at least one of training or evaluation dataloaders"},
       .what = "accelerate cannot tell DeepSpeed the batch size: prepare() got no data loader",
       .cause =
           "Model and optimizer were prepared without the training loader, or in a call before it\n"
           "The loader has no batch_size of its own: a batch_sampler, an IterableDataset that makes batches itself",
       .confirm = "what is passed to accelerator.prepare, and loader.batch_size",
       .fix =
           "model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler), in one "
           "call\n"
           "accelerator.state.deepspeed_plugin.deepspeed_config['train_micro_batch_size_per_gpu'] = N before prepare"},
      {.name = "deepspeed-batch",
       .when = {"check batch related parameters. train_batch_size is not equal"},
       .what = "DeepSpeed's batch sizes do not multiply",
       .cause =
           "train_batch_size in the config is not micro batch x accumulation steps x number of processes; where the "
           "last factor is 1 on several GPUs, DeepSpeed came up without its launcher",
       .confirm = "the numbers in the message: total != micro * accumulation * processes",
       .fix = "\"auto\" for all three in the config, or numbers that multiply\n"
              "start with deepspeed, torchrun or accelerate launch, and the number of processes that the config was "
              "written for"},
      {.name = "deepspeed-no-sync",
       .when = {"no_sync context manager is incompatible with gradient partitioning"},
       .what = "gradient accumulation calls no_sync, which DeepSpeed's ZeRO 2 and 3 refuse",
       .cause = "DeepSpeed asserts it since 0.16; transformers and accelerate of before do not know",
       .confirm =
           "pip list | grep -iE 'deepspeed|accelerate|transformers'; it passes with gradient_accumulation_steps=1",
       .fix = "pip install -U transformers accelerate\n"
              "pip install 'deepspeed<0.16'\n"
              "in your own loop no accelerator.no_sync; let DeepSpeed accumulate (model.backward, model.step)"},
      {.name = "collective-mismatch",
       .when = {"detected mismatch between collectives on ranks"},
       .refines = {"nccl-timeout", "nccl-error"},
       .what = "the ranks called different collectives at the same place",
       .cause =
           "A branch that only some ranks take: rank 0 saves or evaluates, a batch without labels, a loss that is "
           "skipped\n"
           "Tensors of another shape or number on one of them: a last batch, uneven data, another number of samples",
       .confirm = "the message names both calls and their ranks",
       .fix = "the same calls in the same order on every rank; rank 0's own work without collectives\n"
              "pad to one shape before gather (accelerator.pad_across_processes), drop_last=True"},
      {.name = "zero3-partitioned",
       .when = {"'weight' must be 2-d", "out of bounds for storage of size 0",
                "weight should have at least three dimensions", "got weight of shape [0]"},
       .what = "a layer was called while its weights are spread over the ranks",
       .cause = "FSDP and ZeRO-3 leave an empty tensor on each rank between a wrapped module's calls: validation, "
                "sampling or saving on one rank only (if is_main_process) uses the model without gathering them\n"
                "A submodule is called by itself, or its weight is used directly, outside the whole model's forward\n"
                "A model was never passed to prepare() or initialize(): a second, reference or teacher model, "
                "generation",
       .confirm = "the weight in the last frame has shape [0] or storage of size 0; distributed_type in the "
                  "accelerate config: FSDP or DEEPSPEED",
       .fix = "run that part on every rank, through the prepared model's own forward; prepare every model that runs\n"
              "FSDP.summon_full_params, deepspeed.zero.GatheredParameters or accelerator.get_state_dict(model) on all "
              "ranks, and a copy that is not wrapped for rank 0's own work\n"
              "DDP (accelerate's MULTI_GPU) or ZeRO-2, where the model fits one GPU"},
      {.name = "fsdp-dtype",
       .when = {"must flatten tensors with uniform dtype", "`flatparameter` requires uniform dtype"},
       .refines = {"dtype-mismatch"},
       .what = "FSDP found parameters of different types in one unit",
       .cause = "A model in half precision with parts in F32: adapters, a new head, norms that were cast",
       .confirm = "{p.dtype for p in model.parameters()}",
       .fix = "cast all to one type before wrapping: model.to(torch.bfloat16), or load in F32 and let mixed precision "
              "cast\n"
              "bnb_4bit_quant_storage equal to the other parameters' type, for 4 bits"},
      {.name = "ddp-unused-parameters",
       .when = {"expected to have finished reduction in the prior iteration",
                "parameters that were not used in producing loss", "argument `find_unused_parameters=true`",
                "has parameters that were not used in producing the loss"},
       .without = {"but did not find any unused parameters"},
       .what = "DistributedDataParallel waits for gradients that never come",
       .cause = "Parameters take no part in the loss: a head that is not used, a frozen or replaced branch, a second "
                "encoder\n"
                "Branches that only some batches or ranks take: an optional input (LayoutLMv3's image part without "
                "pixels), experts, dropout of layers\n"
                "Part of what forward returns is not in the loss, or forward of the inner model is called past the "
                "wrapper (model.module)",
       .confirm = "TORCH_DISTRIBUTED_DEBUG=DETAIL names them",
       .fix = "ddp_find_unused_parameters=True (find_unused_parameters=True; Lightning: "
              "strategy='ddp_find_unused_parameters_true')\n"
              "freeze them (requires_grad_(False)) before wrapping\n"
              "add 0 * output.sum() of the unused part to the loss; call the wrapped model itself"},
      {.name = "ddp-marked-twice",
       .when = {"mark a variable ready only once", "marked as ready twice", "has been marked as ready twice"},
       .what = "DistributedDataParallel saw a gradient twice",
       .cause = "Reentrant gradient checkpointing together with find_unused_parameters, or around a module that is "
                "used twice\n"
                "Parameters are shared between several forward passes before one backward",
       .confirm = "it passes without gradient checkpointing",
       .fix = "gradient_checkpointing_kwargs={'use_reentrant': False}\n"
              "ddp_find_unused_parameters=False\n"
              "model._set_static_graph(), or one forward for each backward"},
      {.name = "child-failed",
       .level = Level::kEcho,
       .when = {"childfailederror", "processraisedexception", "processexitedexception",
                "torch.distributed.elastic.multiprocessing.errors", "exits with return code",
                "calledprocesserror: command*returned non-zero exit status"},
       .what = "a launcher reports that one of its processes failed",
       .cause = "The failure itself stands earlier in the log, or in that rank's own log",
       .confirm = "torchrun --log-dir logs --redirects 3 keeps every rank's output; @record on main() brings its "
                  "traceback here",
       .fix = "pass that log to plimsoll doctor"},
      {.name = "collective-device",
       .when = {"no backend type associated with device type cpu", "tensors must be cuda and dense"},
       .refines = {"device-mismatch", "nccl-error"},
       .what = "a collective was given tensors on the CPU, and NCCL takes those of GPUs only",
       .cause = "The model, a buffer or the values that are gathered are on the CPU: not moved before DDP or FSDP "
                "wrapped the model, or moved back (offload)\n"
                "A number, metric or loss is reduced as a CPU tensor\n"
                "A checkpoint's state dict on the CPU is gathered or broadcast",
       .confirm = "the tensor's .device in the line that the traceback names; {p.device for p in model.parameters()}",
       .fix = "model.to(local_rank) before it is wrapped; tensor.to(device) before all_reduce or gather\n"
              "init_process_group('cpu:gloo,cuda:nccl'), where both kinds are sent\n"
              "no CPU offload, or a newer PyTorch, where FSDP itself does it"},
      {.name = "device-map",
       .when = {"expected all tensors to be on the same device", "tensors to be on the same device",
                "is on cpu, but expected", "found at least two devices"},
       // The Trainer's sum of losses is on its first GPU, but the loss of a distributed model is on its last one.
       .with = {{"hf_device_map", "device_map", "accelerate/hooks", "dispatch_model", "accelerate\\hooks",
                 "tr_loss += tr_loss_step", "tr_loss = tr_loss + tr_loss_step"}},
       .refines = {"device-mismatch"},
       .what = "a device_map has put parts of a model on different devices, and something crosses between them",
       .cause = "Inputs or labels are on another device than the layer that takes them: the first, or the one that "
                "makes the loss\n"
                "A block is split between devices (no _no_split_modules), or your own code uses a submodule past "
                "accelerate's hooks\n"
                "A model spread by device_map='auto' is trained by a Trainer that sees several GPUs",
       .confirm = "print(model.hf_device_map); which two layers does the traceback stand between?",
       .fix = "move inputs to model.device, labels to logits.device\n"
              "device_map={'': 0} where the model fits one GPU, or CUDA_VISIBLE_DEVICES=0\n"
              "newer transformers, accelerate and peft\n"
              "FSDP or ZeRO-3 instead of device_map to train over several GPUs",
       .tellings = {{.when = {"tr_loss"},
                     .cause = "A model spread by device_map='auto' is trained",
                     .fix = "device_map={'': 0}"}}},
      {.name = "device-data-parallel",
       .when = {"expected all tensors to be on the same device", "tensors to be on the same device",
                "found at least two devices", "arguments are located on different gpus",
                "module must have its parameters and buffers on device cuda:"},
       .with = {{"data_parallel.py", "parallel_apply", "in replica 0 on device", "in replica 1 on device"}},
       .refines = {"device-mismatch", "device-map", "worker-exception"},
       .what = "the Trainer copied the model to several GPUs (DataParallel), and a part of it stayed on another one",
       .cause = "One process sees several GPUs, and DataParallel does not copy everything: adapters, quantised layers, "
                "layers in plain lists, tensors made on cuda:0\n"
                "The model was spread by device_map='auto' besides",
       .confirm = "the traceback has parallel_apply and 'replica'; echo $CUDA_VISIBLE_DEVICES; "
                  "torch.cuda.device_count()",
       .fix = "CUDA_VISIBLE_DEVICES=0 before Python starts: one GPU\n"
              "one process a GPU: torchrun --nproc_per_node N, or accelerate launch\n"
              "model.is_parallelizable = model.model_parallel = True, where device_map='auto' is meant"},
      {.name = "numpy-cuda",
       .when = {"can't convert cuda*to numpy", "can't convert mps*to numpy", "can't convert cuda tensor to numpy"},
       .refines = {"device-mismatch", "numpy-grad"},
       .what = "a tensor on the GPU was converted to NumPy, which reads the host's memory only",
       .cause = "Outputs, losses or labels are handed to NumPy, scikit-learn, pandas or matplotlib without .cpu(): in "
                "a metric, a log, a plot\n"
                "A list of GPU tensors is turned into an array",
       .confirm = "tensor.device in the line that the traceback names last",
       .fix = "tensor.detach().cpu().numpy(); loss.item() for one number\n"
              "[t.detach().cpu() for t in tensors] for a list"},
      {.name = "device-mismatch",
       .when = {"expected all tensors to be on the same device",
                "tensors to be on the same device",
                "found at least two devices",
                "found two different devices",
                "input tensor is not an xla tensor",
                "check failed: xtensor",
                "input type (torch.floattensor) and weight type (torch.cuda.",
                "input type (torch.halftensor) and weight type (torch.cuda.",
                "input type (torch.bfloat16tensor) and weight type (torch.cuda.",
                "input type (torch.doubletensor) and weight type (torch.cuda.",
                "input type (torch.cuda.*and weight type (torch.floattensor)",
                "input type (torch.cuda.*and weight type (torch.halftensor)",
                "input type (torch.cuda.*and weight type (torch.bfloat16tensor)",
                "input type (torch.cuda.*and weight type (torch.doubletensor)",

                "indices should be either on cpu or on the same device",
                "is on cpu, but expected",
                "expected object of device type cuda but got device type cpu",
                "expected object of backend cuda but got backend cpu",
                "expected object of backend cpu but got backend cuda",
                "pointer argument cannot be accessed from triton",
                "must be on the same device",
                "is not on the same device",
                "are not at the same device",
                "tensors are on different devices",
                "should be on the same device",
                "placeholder storage has not been allocated on mps device",
                "is on cpu but expected on",
                "must be on the current device"},
       .refines = {"dtype-mismatch"},
       .what = "tensors of one operation lie on different devices",
       .cause =
           "The batch, or one of its parts, was not moved to the model's device, or the model was not moved at all\n"
           "A tensor or layer made in forward or the loss stays on the CPU: torch.zeros without device=, class "
           "weights, layers in a plain list, a buffer that is not registered\n"
           "Several GPUs: parts of the model on different ones (device_map='auto'), ranks that do not set theirs, or "
           "cuda:0 written into the code\n"
           "The model was moved after the optimizer was made or its state was loaded",
       .confirm = "print {k: v.device for k, v in batch.items()} and next(model.parameters()).device",
       .fix = "model.to(device), and batch = {k: v.to(device) for k, v in batch.items()}\n"
              "make new tensors with device=x.device; register_buffer for constants, nn.ModuleList for layers\n"
              "CUDA_VISIBLE_DEVICES=0 to use one GPU, or device_map={'': 0}; torch.device('cuda', local_rank) instead "
              "of 'cuda:0'\n"
              "make the optimizer after the model was moved",
       .tellings = {{.when = kTwoGpus, .cause = "Several GPUs", .fix = "CUDA_VISIBLE_DEVICES=0"}}},
      {.name = "rendezvous-endpoint",
       .when = {"port number of the rendezvous endpoint"},
       .what = "the launcher was not told where the processes meet",
       .cause =
           "Address or port of the first machine are not set: main_process_ip and main_process_port of accelerate's "
           "config, or MASTER_ADDR and MASTER_PORT, are empty for a run on several machines",
       .confirm = "accelerate env, or the launcher's command line; echo $MASTER_ADDR $MASTER_PORT",
       .fix = "accelerate launch --main_process_ip HOST --main_process_port 29500, or --rdzv_endpoint=HOST:29500 of "
              "torchrun\n"
              "one machine needs neither: num_machines 1, or --standalone"},
      {.name = "quantised-plain",
       .when = {"cannot perform fine-tuning on purely quantized models",
                "cannot fine-tune a quantized model with `torch.compile()`",
                "do not support training with*please attach trainable adapters",
                "the model you are trying to fine-tune is quantized with"},
       .refines = {"device-map-training", "trainer-refused"},
       .what = "a quantised model was to be trained without adapters",
       .cause =
           "Weights of 4 or 8 bits do not train themselves, and no adapter is attached: get_peft_model was not "
           "called, or the model without it was passed to the Trainer\n"
           "The Trainer got no peft_config (trl), or an older peft whose model transformers does not know as one\n"
           "The kind of quantisation (GPTQ, AWQ, HQQ and others) or the installed version cannot be trained at all",
       .confirm = "type(model) is a PeftModel; model.print_trainable_parameters()",
       .fix = "model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(…)), and that model to the "
              "Trainer; with trl peft_config=LoraConfig(…)\n"
              "pip install -U peft transformers bitsandbytes\n"
              "load without quantisation, to train all weights",
       .command = "plimsoll train --load-in-4bit --lora-rank 8"},
      {.name = "device-map-training",
       .when = {"you can't train a model that has been loaded", "with `device_map='auto'` in any distributed mode",
                "trainer cannot handle*device_map", "you can't move a model that has some modules offloaded",
                "you shouldn't move a model that is dispatched", "training with*device_map*is not supported",
                "zero-3 is not compatible with*device_map"},
       .what = "a model that was loaded with device_map or quantised is trained or moved as if it were not",
       .cause = "device_map='auto' spreads layers over devices and the host for inference, and each rank of a "
                "distributed run needs a whole model or its own shard\n"
                "Quantised weights do not train without adapters\n"
                "A model that accelerate has placed is moved again: model.to(), .cuda(), or the Trainer's own",
       .confirm = "print(model.hf_device_map)",
       .fix = "load without device_map, or {'': local_rank}, to train\n"
              "add adapters (peft: prepare_model_for_kbit_training, get_peft_model) to a quantised model\n"
              "leave .to() out; one process instead of torchrun where layers are to be spread",
       .command = "plimsoll train --load-in-4bit --lora-rank 8 --budget SIZE"},
      {.name = "quantised-moved",
       .when = {"`.to` is not supported for `4-bit`", "not supported for `4-bit` or `8-bit`",
                "calling `to()` is not supported for", "calling `cuda()` is not supported for",
                "`.to` is not supported for `8-bit`"},
       .what = "a quantised model is moved or converted, which bitsandbytes does not allow",
       .cause =
           "model.to(device), .cuda(), .half() or a trainer that does the same, after load_in_4bit or load_in_8bit "
           "has placed the weights",
       .confirm = "the line of your own code that the traceback names",
       .fix = "leave the .to() out; from_pretrained(…, device_map={'': 0}) places the model\n"
              "a newer transformers, accelerate and bitsandbytes, where the trainer itself does it",
       .command = "plimsoll train --load-in-4bit --lora-rank 8 --budget SIZE"},
      {.name = "device-map-offload",
       .when = {"please provide an `offload_folder`", "weights offloaded to the disk",
                "some modules are dispatched on the cpu or the disk", "doesn't have any device set",
                "does not give any device for the following parameters", "device_map keys"},
       .what = "a device_map does not cover the model, or sends parts to the host or the disk",
       .cause = "The GPUs' free memory is too small for the model, so that parts go to the host or the disk\n"
                "Another process, or an earlier model in this notebook, holds the memory\n"
                "The map's names are not this model's, or it leaves modules out",
       .confirm =
           "nvidia-smi before the start; print(model.hf_device_map), or infer_auto_device_map(model) with max_memory",
       .fix = "free the GPU (restart the notebook), then device_map={'': 0} where the model fits\n"
              "4 bits, a smaller type (torch_dtype) or a smaller model\n"
              "offload_folder='offload' for inference; llm_int8_enable_fp32_cpu_offload=True in 8 bits\n"
              "a map that names every module of this model",
       .command = "plimsoll train --offload DIR --budget SIZE trains with the optimizer's state in a file"},

      {.name = "device-map-unsupported",
       .when = {"does not support `device_map", "does not support 'device_map", "does not support device_map",
                "implement the `_no_split_modules`"},
       .refines = {"device-map-offload"},
       .what = "this model class cannot be spread over devices: it does not support device_map='auto'",
       .cause = "The class, in the installed transformers, does not say which of its blocks must stay whole "
                "(_no_split_modules), so that nothing can place them; 8 and 4 bits do not need it",
       .confirm = "type(model)._no_split_modules is None; pip show transformers",
       .fix =
           "leave device_map out and call model.to('cuda'), or device_map={'': 0}, which puts all on one GPU (also for "
           "8 and 4 bits); or a newer transformers, if its class has it",
       .command = "plimsoll train --load-in-8bit or --load-in-4bit needs no map"},
      {.name = "meta-tensor",
       .when = {"cannot copy out of meta tensor", "on device meta", "expected device meta", "meta tensor*no data"},
       .refines = {"device-mismatch", "device-map"},
       .what = "parameters were never given their values (they lie on the meta device)",
       .cause = "Weights are missing in the checkpoint, so that parameters made under device_map, low_cpu_mem_usage or "
                "init_empty_weights never got values\n"
                "The model was moved with .to() before they were loaded, or parts of it are offloaded\n"
                "Versions of transformers, accelerate and PyTorch that do not belong together",
       .confirm = "[n for n, p in model.named_parameters() if p.is_meta]",
       .fix = "load without device_map and low_cpu_mem_usage\n"
              "see that the checkpoint has every tensor, under this class's names; model.to_empty(device=…) only "
              "before load_state_dict\n"
              "pip install -U transformers accelerate",
       .command = "plimsoll train names the tensors that a checkpoint lacks"},
      {.name = "meta-offloaded",
       .when = {"cannot copy out of meta tensor"},
       .anywhere = {{"_move_model_to_device", "in prepare_model", "accelerator.prepare",
                     "some parameters are on the meta device", "offloaded to the cpu", "offloaded to the disk",
                     "hf_device_map", "in dispatch_model"}},
       .without = {"in _load_pretrained_model", "in load_state_dict"},
       .refines = {"meta-tensor", "device-mismatch", "device-map"},
       .what = "the whole model is moved to the GPU, and parts of it have no values there: they lie on the meta device",
       .cause =
           "device_map (or the package that loads the model) left out parts that did not fit the GPU's free memory "
           "and offloaded them to the host or the disk; then the Trainer, or model.to(device), moves the model\n"
           "Weights that the checkpoint lacks never got values\n"
           "Versions of transformers, accelerate (and Unsloth) that do not belong together",
       .confirm =
           "print(model.hf_device_map): cpu or disk in it; nvidia-smi before the model is loaded; [n for n, p in "
           "model.named_parameters() if p.is_meta]",
       .fix = "free the GPU: restart the notebook's kernel, end what else holds it\n"
              "a smaller model, or in 4 bits (load_in_4bit=True), whole on one GPU: device_map={'': 0}\n"
              "no .to() on a model that device_map has placed\n"
              "pip install -U transformers accelerate (and unsloth) together",
       .command = "plimsoll train --load-in-4bit --lora-rank 8 --budget SIZE says before the first step what fits"},
  };
}

}  // namespace plimsoll::doctor
