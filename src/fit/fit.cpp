#include "fit/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/bytes.h"
#include "base/error.h"
#include "base/offload_file.h"
#include "base/process.h"
#include "graph/attention_form.h"
#include "graph/update_form.h"
#include "model/grad_cache.h"
#include "model/trained_parts.h"
#include "transform/key_value_cache.h"

namespace plimsoll {
namespace {

// The reserve covers memory that we do not plan: heap pages that libraries touch for a moment, thread stacks, the
// allocator's own overhead. Runs use up to about 1 MiB of it (bench/predicted_against_measured.py), and where oneDNN's
// general products run 3.4 MiB more (CpuBackend::library_bytes adds what more threads take).
constexpr std::size_t kReserveBytes = 4 * kMiB + kMiB / 2;

// The reserve covers what a GPU's driver takes while kernels run: stacks of kernels that spill, and CUDA graphs. It is
// an estimate, because the driver does not report it beforehand: an H100 took 1 to 21 MiB (driver 580), an H200 more
// than 41 in a run of four micro-batches.
constexpr std::size_t kDriverReserveBytes = 48 * kMiB;
constexpr const char *kContextItem = "context and libraries", *kDriverReserveItem = "reserve for the driver";
// The memory that NCCL took when it connected the ranks, measured.
constexpr const char* kConnectionItem = "connections between GPUs (NCCL)";

// The thread needs the block that passes between arena and file, and some pages of its stack.
constexpr std::size_t kOffloadThreadBytes = kOffloadBlockBytes + 64 * kKiB;

// Rows of prompts that are read at once: products are as fast as they get, and their activations small.
constexpr std::int64_t kPrefillRows = 128;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

StepOptions step_options(const FitRequest& request, const Levers& levers, const Backend& backend) {
  StepOptions options = request.step;
  const bool rounds =
      options.model.rounds_activations || (options.teacher && options.teacher->model.rounds_activations);
  options.int8_products = rounds && backend.multiplies_int8();
  options.adds_to_products = backend.adds_to_products(options.precision);
  options.batches_products = backend.batches_products();
  options.rounds_parameters = backend.rounds_parameters();
  options.fewest_loss_rows = backend.fewest_loss_rows();
  options.keeps_attention_biases = levers.keeps_biases;
  options.update = levers.update;
  options.recompute_cheap = options.recompute_cheap && !levers.keeps_cheap;
  if (!options.recompute_cheap) {
    options.partial_sums = [&backend](const Graph& of, const Node& node) { return backend.parts_of_sums(of, node); };
  }
  const ModelCapacity update{.samples = request.train_batch_size};
  if (levers.chunk_samples > 0) options.cached_samples = request.step.definition.samples(update);
  for (const Recomputation& recomputation : levers.recompute) {
    options.recompute.insert(recomputation.nodes.begin(), recomputation.nodes.end());
  }
  for (const Offloading& offloading : levers.offload) options.offload.insert(offloading.name);
  options.speeds = request.speeds;
  options.ranks.zero_stage = levers.zero_stage;
  options.ranks.sums_each_micro_batch = request.sums_each_micro_batch.value_or(levers.zero_stage >= 2);
  return options;
}

// Builds a program without its kernels, which are prepared later.
PlannedProgram build_program(ProgramKind kind, const FitRequest& request, const Levers& levers,
                             const ModelCapacity& capacity, const Backend& backend, OffloadLayout& layout,
                             Shards& shards) {
  StepGraph step =
      build_step_graph(kind, step_options(request, levers, backend), capacity, request.update_text_rows, &layout);
  if (step.shards.ranks() > 1) shards = step.shards;
  return {.kind = kind,
          .capacity = capacity,
          .loss = step.loss,
          .logits = step.logits,
          .gradient_norm = step.gradient_norm,
          .gradients = std::move(step.gradients),
          .prepared = {.graph = std::move(step.graph), .kernels = {}, .recorder = nullptr},
          .plan = {}};
}

// A kernel's memory grows with the rows that it is made for, so the kernels of a plan that cannot fit, or that has no
// budget, could make the planner itself outgrow the budget. Without them the plan lacks their scratch.
constexpr std::int64_t kRowsWithoutQuestion = 16'384;
// Returns whether the program runs chunk by chunk, so that the samples of its capacity are single pages.
bool runs_chunks(const Levers& levers, ProgramKind kind) {
  return levers.chunk_samples > 0 && kind != ProgramKind::kEvaluate && kind != ProgramKind::kCompare;
}

std::int64_t program_rows(const FitRequest& request, const Levers& levers, const PlannedProgram& program) {
  const ModelDefinition& model = request.step.definition;
  if (program.kind == ProgramKind::kCompare) return model.samples(program.capacity);
  return runs_chunks(levers, program.kind) ? model.encoder().rows(program.capacity) : model.rows(program.capacity);
}
bool needs_kernels(const RunPlan& run, const FitRequest& request, std::size_t loader_bytes) {
  const auto has_few_rows = [&](const PlannedProgram& program) {
    return program_rows(request, run.levers, program) <= kRowsWithoutQuestion;
  };
  if (std::ranges::all_of(run.programs, has_few_rows)) return true;
  std::size_t arena = 0;
  for (const PlannedProgram& program : run.programs) {
    const Graph& graph = program.prepared.graph;
    const std::vector<std::size_t> no_scratch(graph.nodes().size(), 0);
    arena = std::max(arena, estimate_memory(graph, no_scratch, run.layout).arena_bytes());
  }
  return arena + loader_bytes <= request.budget_bytes;
}

// Groups persistent bytes by purpose, using the names that transform/optimizer.h gives.
std::vector<MemoryItem> persistent_items(const PersistentLayout& layout, const StepOptions& step) {
  std::set<std::string> frozen_names;
  if (!step.model.trains_all()) {
    for (const ParameterSpec& spec : step.definition.specs(step.model)) {
      if (!spec.trains) frozen_names.insert(spec.name);
    }
  }
  const OptimizerKind optimizer = step.optimizer.kind;
  std::size_t frozen = 0, parameters = 0, gradients = 0, moments = 0, whole_moments = 0, teacher = 0, embeddings = 0,
              caches = 0;
  for (const auto& [name, entry] : layout.entries()) {
    const std::size_t bytes = round_up(entry.type.bytes(), kAlignmentBytes);
    if (name.starts_with(kTeacherPrefix)) {
      teacher += bytes;
    } else if (frozen_names.contains(name)) {
      frozen += bytes;
    } else if (entry.role == Role::kParameter || name.ends_with(kLowHalfSuffix)) {
      parameters += bytes;
    } else if (name.find(".gradient") != std::string::npos) {
      gradients += bytes;
    } else if (name.ends_with(kKeyCacheSuffix) || name.ends_with(kValueCacheSuffix)) {
      caches += bytes;
    } else if (name == kEmbeddingTable) {
      embeddings += bytes;
    } else if (optimizer == OptimizerKind::kAdamW8bit && !is_coded_state(name, entry.type)) {
      whole_moments += bytes;
    } else {
      moments += bytes;
    }
  }
  const bool usual = optimizer == OptimizerKind::kAdamW;
  const DType code = step.model.frozen_weights;
  return {
      {is_coded(code) ? fmt::format("frozen parameters ({} bits)", code == DType::kQ8 ? 8 : 4) : "frozen parameters",
       frozen},
      {"parameters", parameters},
      {"the teacher's parameters", teacher},
      {usual ? "optimizer state" : fmt::format("optimizer state ({})", optimizer_name(optimizer)), moments},
      {"optimizer state in 32 bits (embeddings, small)", whole_moments},
      {"accumulated gradients", gradients},
      {"the embeddings of an update", embeddings},
      {"keys and values of the texts", caches}};
}

// Every micro-batch has room for the largest; together they have the rows of an update.
double real_row_share(const FitRequest& request, const RunPlan& run, const PlannedProgram& program) {
  const ModelDefinition& model = request.step.definition;
  const ModelCapacity& capacity = program.capacity;
  if (program.kind == ProgramKind::kCompare) return 1;
  const std::int64_t rows = model.rows({.samples = request.train_batch_size, .text_rows = request.update_text_rows});
  const std::int64_t runs = runs_chunks(run.levers, program.kind)
                                ? run.accumulation_steps
                                : divide_up(request.train_batch_size, capacity.samples);
  const std::int64_t room = runs * program_rows(request, run.levers, program);
  return std::min(1.0, static_cast<double>(rows) / static_cast<double>(room));
}

}  // namespace

bool is_of_update(ProgramKind kind) {
  return kind != ProgramKind::kEvaluate && kind != ProgramKind::kPrefill && kind != ProgramKind::kDecode;
}

std::int64_t runs_per_update(const PlanSummary& plan, ProgramKind kind) {
  if (!is_of_update(kind)) return 0;
  if (kind == ProgramKind::kEmbed) return plan.accumulation_steps;
  return kind == ProgramKind::kAccumulate ? plan.accumulation_steps - 1 : 1;
}

bool may_keep_biases(const FitRequest& request, const Backend& backend) {
  if (!backend.keeps_attention_biases()) return false;
  const StepOptions& step = request.step;
  const ModelGraph model = step.definition.build({.samples = step.definition.samples_per_example(), .text_rows = 16},
                                                 /*dropout=*/false, step.model, step.precision);
  const std::deque<Node>& nodes = model.graph.nodes();
  const auto is_biased = [](const Node& node) {
    return node.op == Op::kAttention && attention_form(node).tables() > 0;
  };
  return std::ranges::count_if(nodes, is_biased) >= (request.trains ? 1 : 2);
}

std::size_t recomputed_bytes(const Levers& levers) {
  std::size_t bytes = 0;
  for (const Recomputation& recomputation : levers.recompute) bytes += recomputation.bytes;
  return bytes;
}

double recomputed_seconds(const Levers& levers) {
  double seconds = 0;
  for (const Recomputation& recomputation : levers.recompute) seconds += recomputation.seconds;
  return seconds;
}

std::size_t usual_budget(std::size_t held_bytes, std::size_t free_bytes) { return free_bytes / 20 * 19 + held_bytes; }

void settle(RunPlan& run, Backend& backend) {
  if (!backend.device_use()) return;
  const auto item = [&run](std::string_view name) -> std::size_t& {
    return std::ranges::find(run.items, name, &MemoryItem::name)->bytes;
  };
  std::size_t &context = item(kContextItem), &reserve = item(kDriverReserveItem);
  const std::size_t reserved = backend.reserved_bytes();
  const std::size_t now = reserved - std::min(reserved, backend.connection_bytes());
  reserve -= std::min(reserve, now - std::min(now, context));
  context = now;
  run.predicted_peak_bytes = 0;
  for (const MemoryItem& each : run.items) run.predicted_peak_bytes += each.bytes;
  if (run.fits_device()) return;
  const std::size_t mebibytes = run.predicted_peak_bytes / kMiB + 1;
  throw BudgetError(
      {.what = "the GPU's libraries use more memory than planned",
       .where = "--budget",
       .found = fmt::format("{}; with {} for context and libraries the run needs {}", format_bytes(run.budget_bytes),
                            format_bytes(now), format_bytes(run.predicted_peak_bytes)),
       .allowed = fmt::format("{} MiB or more", mebibytes),
       .remedy = fmt::format("pass --budget {}MiB", mebibytes)});
}

std::size_t measured_peak_bytes(Backend& backend) {
  const std::optional<DeviceUse> use = backend.device_use();
  return use ? use->held_bytes : peak_resident_bytes();
}

namespace {

// The longest time between two checks for an interrupt: the longest node, or everything from the first update on.
double longest_seconds(const PreparedGraph& prepared, const OpSpeeds& speeds, double row_share) {
  const Graph& graph = prepared.graph;
  const double whole = estimate_seconds(graph, speeds, row_share);
  if (prepared.recorder != nullptr) return whole;
  double longest = 0, before = 0;
  bool updates = false;
  for (const Node& node : graph.nodes()) {
    const double seconds = speeds.seconds(graph, node, row_share);
    updates = updates || is_parameter_update(node.op);
    if (!updates) before += seconds;
    longest = std::max(longest, seconds);
  }
  return updates ? std::max(longest, whole - before) : longest;
}

}  // namespace

namespace {

// Returns what ranks hold besides the arena: the predictions of a round of an evaluation, and pieces of states and
// parameters while they save (train/predictor.cpp, train/run_memory.cpp).
std::size_t rank_buffer_bytes(const RunPlan& run) {
  constexpr std::size_t kPieces = 2 * kMiB;
  if (run.ranks == 1) return 0;
  std::size_t logits = 0;
  for (const PlannedProgram& program : run.programs) {
    if (program.kind != ProgramKind::kEvaluate) continue;
    logits = program.prepared.graph.type(program.logits).bytes();
  }
  return kPieces + static_cast<std::size_t>(run.ranks) * logits;
}

// Returns what the host holds of the next tokens' scores: those of all texts, and a draw's (train/generator.h,
// train/sampling.h).
std::size_t score_bytes(const RunPlan& run) {
  std::size_t bytes = 0;
  for (const PlannedProgram& program : run.programs) {
    if (program.kind != ProgramKind::kDecode) continue;
    const TensorType& logits = program.prepared.graph.type(program.logits);
    constexpr std::size_t kDrawn = sizeof(std::pair<float, std::int32_t>) + 1;
    bytes = logits.bytes() + static_cast<std::size_t>(logits.shape[1]) * kDrawn;
  }
  return bytes;
}

// Returns what the host keeps of an update's batches until all pages are compared (train/update_comparison.h).
std::size_t collected_bytes(const Graph& comparison) {
  std::size_t bytes = 0;
  for (const Value& value : comparison.values()) {
    if (value.role == Role::kInput && value.producer == kNoNode) bytes += value.type.bytes();
  }
  return bytes;
}

}  // namespace

namespace {

// Says which rows of the word embedding are in memory, and how the others change meanwhile.
void add_word_rows(const FitRequest& request, const std::vector<ParameterSpec>& specs, RunPlan& run) {
  const auto table = std::ranges::find_if(specs, [](const ParameterSpec& spec) { return spec.rows != nullptr; });
  if (table == specs.end()) return;
  run.word_rows = table->rows;
  run.word_table = table->name;
  run.vocabulary = table->file_shape[0];
  if (!request.trains || !table->trains) return;
  run.word_decay = weight_decay_of(request.step.optimizer, table->name);
  run.word_rate_factor = rate_factor_of(request.step.optimizer, table->name);
  if (run.word_decay != 0) run.noted_bytes = static_cast<std::size_t>(request.updates) * sizeof(float);
}

// Adds what the process has held before beyond all that it will hold.
void add_startup(std::size_t startup_bytes, std::vector<MemoryItem>& items) {
  std::size_t sum = 0;
  for (const MemoryItem& item : items) sum += item.bytes;
  if (startup_bytes > sum) items.push_back({"held before, to read tokenizer and data", startup_bytes - sum});
}

}  // namespace

RunPlan plan_run(const FitRequest& request, const Levers& levers, Backend& backend, PlanDepth depth) {
  RunPlan run;
  run.levers = levers;
  run.rank = request.step.ranks.rank;
  run.ranks = request.step.ranks.ranks;
  run.sums_each_micro_batch = step_options(request, levers, backend).ranks.sums_each_micro_batch;
  run.optimizer = request.step.optimizer.kind;
  run.precision = request.step.precision;
  const std::vector<ParameterSpec> specs = request.step.definition.specs(request.step.model);
  run.parameters = parameter_count(specs);
  run.trained_parameters = trained_parameter_count(specs);
  add_word_rows(request, specs, run);
  run.trained_parts = trained_parts_text(request.step.definition, request.step.model);
  run.offload_target = request.offload;
  run.offload_directory = request.offload_directory;
  const std::int64_t micro = levers.micro_batch_size;
  run.accumulation_steps = request.trains ? divide_up(request.train_batch_size, micro) : 0;
  run.train_batch_size = request.train_batch_size;
  run.update_text_rows = request.update_text_rows;
  run.budget_bytes = request.budget_bytes;
  run.host_budget_bytes = request.host_budget_bytes;
  std::size_t loader = 0;
  std::size_t collected = 0;
  const auto add = [&](ProgramKind kind, const ModelCapacity& capacity) {
    run.programs.push_back(build_program(kind, request, levers, capacity, backend, run.offload, run.shards));
  };
  if (request.trains && levers.chunk_samples > 0) {
    const ChunkCut cut = request.chunks(levers.chunk_samples);
    const ModelCapacity capacity{.samples = levers.chunk_samples, .text_rows = cut.text_rows};
    loader = cut.loader_bytes;
    run.accumulation_steps = cut.most_chunks;
    add(ProgramKind::kEmbed, capacity);
    add(ProgramKind::kCompare, {.samples = request.train_batch_size});
    if (cut.most_chunks > 1) add(ProgramKind::kAccumulate, capacity);
    add(ProgramKind::kAccumulateAndStep, capacity);
    collected = collected_bytes(run.programs[1].prepared.graph);
  } else if (request.trains) {
    const ModelCapacity capacity{.samples = micro, .text_rows = request.text_rows(micro)};
    loader = request.loader_bytes ? request.loader_bytes(capacity) : 0;
    if (run.accumulation_steps == 1) {
      add(ProgramKind::kStep, capacity);
    } else {
      add(ProgramKind::kAccumulate, capacity);
      add(ProgramKind::kAccumulateAndStep, capacity);
    }
  }
  if (request.evaluates) {
    const ModelCapacity capacity{.samples = micro, .text_rows = request.evaluation_text_rows(micro)};
    if (request.loader_bytes) loader = std::max(loader, request.loader_bytes(capacity));
    add(request.differentiates ? ProgramKind::kGradients : ProgramKind::kEvaluate, capacity);
  }
  if (request.generates) {
    add(ProgramKind::kPrefill,
        {.samples = micro, .text_rows = std::min(kPrefillRows, micro * request.step.cached_tokens)});
    add(ProgramKind::kDecode, {.samples = micro, .text_rows = micro});
  }
  for (const PlannedProgram& program : run.programs) run.layout.add(program.prepared.graph);
  const bool prepares = depth == PlanDepth::kComplete || needs_kernels(run, request, loader);
  const PlannedProgram* largest = nullptr;
  for (PlannedProgram& program : run.programs) {
    if (prepares) program.prepared = prepare(std::move(program.prepared.graph), backend);
    const Graph& graph = program.prepared.graph;
    std::vector<std::size_t> scratch = program.prepared.scratch_bytes();
    scratch.resize(graph.nodes().size(), 0);
    program.plan = depth == PlanDepth::kComplete ? plan_memory(graph, scratch, run.layout, levers.forks)
                                                 : estimate_memory(graph, scratch, run.layout, levers.forks);
    run.seconds_to_save = std::max(
        run.seconds_to_save, longest_seconds(program.prepared, request.speeds, real_row_share(request, run, program)));
    if (is_of_update(program.kind)) {
      const std::int64_t runs = runs_per_update(run, program.kind);
      const TransferSize transfers = transfer_size(graph);
      run.transfers.read_bytes += static_cast<double>(runs) * transfers.read_bytes;
      run.transfers.written_bytes += static_cast<double>(runs) * transfers.written_bytes;
      const ExchangeSize exchange = exchange_size(graph);
      run.exchange.messages += runs * exchange.messages;
      run.exchange.sent_bytes += static_cast<double>(runs) * exchange.sent_bytes;
      run.exchange.received_bytes += static_cast<double>(runs) * exchange.received_bytes;
      run.exchange.row_messages += runs * exchange.row_messages;
      run.exchange.row_bytes += static_cast<double>(runs) * exchange.row_bytes;
      run.exchange_seconds += static_cast<double>(runs) * exchange_seconds(exchange, request.speeds);
      const double row_share = real_row_share(request, run, program);
      const double seconds = estimate_seconds(graph, request.speeds, row_share);
      run.seconds_per_update += static_cast<double>(runs) * seconds;
      if (run.ranks > 1) {
        OpSpeeds without = request.speeds;
        without.network_seconds_per_message = without.network_seconds_per_byte = 0;
        run.exchange_wait_seconds +=
            static_cast<double>(runs) * (seconds - estimate_seconds(graph, without, row_share));
      }
    }
    run.arena_bytes = std::max(run.arena_bytes, program.plan.arena_bytes());
    if (largest == nullptr || program.plan.arena_bytes() > largest->plan.arena_bytes()) largest = &program;
  }
  // Estimates with and without a network overlap other work, so their difference may exceed the exchange itself.
  run.exchange_wait_seconds = std::min(run.exchange_wait_seconds, run.exchange_seconds);
  run.transfer_seconds = transfer_seconds(run.transfers, request.speeds);
  run.items = persistent_items(run.layout, request.step);
  for (MemoryItem& item : explain_peak(largest->plan)) {
    run.items.push_back({fmt::format("{} ({})", item.name, program_kind_name(largest->kind)), item.bytes});
  }
  // Measured last, so that kernels, plans and graphs are included and memory that planning has freed is not.
  if (depth == PlanDepth::kComplete) {
    backend.release_unused();
    backend.make_code();
  }
  release_free_heap();
  const bool to_file = !run.offload.empty() && run.offload_target == OffloadTarget::kFile;
  const std::vector<MemoryItem> host = {{"process, libraries, data index", request.process_bytes() + run.noted_bytes},
                                        {"loader buffers", loader},
                                        {"labels of an update's pages", collected},
                                        {"scores of the next tokens", score_bytes(run)},
                                        {"drawing of pictures", request.drawing_bytes},
                                        {"results of a page or document", request.result_bytes},
                                        {"offload thread and its buffer", to_file ? kOffloadThreadBytes : 0},
                                        {"messages between processes", rank_buffer_bytes(run)},
                                        {"reserve for libraries", kReserveBytes + backend.library_bytes()}};
  run.on_device = backend.device_use().has_value();
  if (run.on_device) {
    const std::size_t reserved = backend.reserved_bytes(), connections = backend.connection_bytes();
    run.items.insert(run.items.begin(), {kContextItem, reserved - std::min(reserved, connections)});
    if (connections > 0) run.items.insert(run.items.begin() + 1, {kConnectionItem, connections});
    const BufferBytes buffers = backend.buffer_bytes(run.arena_bytes);
    run.items.push_back({"buffers for copies from the host", buffers.device});
    run.items.push_back({kDriverReserveItem, kDriverReserveBytes});
    run.host_items = host;
    run.host_items.push_back({"pinned transfer buffers", buffers.host});
    run.host_items.push_back({"offloaded tensors", run.offload.bytes()});
    add_startup(request.startup_bytes, run.host_items);
    for (const MemoryItem& item : run.host_items) run.host_peak_bytes += item.bytes;
  } else {
    run.items.insert(run.items.begin(), host.front());
    run.items.insert(run.items.end(), host.begin() + 1, host.end());
    add_startup(request.startup_bytes, run.items);
  }
  for (const MemoryItem& item : run.items) run.predicted_peak_bytes += item.bytes;
  return run;
}

}  // namespace plimsoll
