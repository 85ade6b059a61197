#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "cli/cluster_options.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/explain_text.h"
#include "cli/first_lines.h"
#include "cli/gpu_model.h"
#include "cli/idle_options.h"
#include "cli/rank_options.h"
#include "cli/report.h"
#include "cli/resume.h"
#include "cli/run_options.h"
#include "cli/run_record.h"
#include "cli/speeds.h"
#include "cli/sweep_chart.h"
#include "cli/teacher_cache.h"
#include "cli/usage.h"
#include "cli/worst_pictures.h"
#include "fit/phases.h"
#include "fit/rank_fit.h"
#include "report/memory_viz.h"
#include "report/read_run.h"
#include "report/report_page.h"
#include "request/arena_json.h"
#include "request/check_data.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "request/plan_json.h"
#include "request/word_rows.h"
#include "train/evaluation.h"

namespace plimsoll {
namespace {

struct PlanOptions {
  bool explain = false;
  std::string device_memory, gpu;
  bool sweep = false;
  int points = 10;
  std::string svg;
  std::string html, memory_viz;
  ClusterOptions cluster;

  bool sweeps() const { return sweep || !svg.empty() || cluster.sweeps; }
  std::vector<NamedPath> outputs() const { return {{"--svg", svg}, {"--html", html}, {"--memory-viz", memory_viz}}; }
  bool draws() const { return !html.empty() || !memory_viz.empty(); }
  // Returns the rates of the GPU that --gpu names; nullptr without it.
  const cuda::GpuRates* rates() const { return gpu.empty() ? nullptr : cuda::find_gpu(gpu); }
};

// Refuses drawings with a sweep: a sweep has many plans, but a drawing shows one.
void check_plan_options(const PlanOptions& options) {
  if (options.cluster.sweeps && (options.sweep || !options.svg.empty())) {
    throw UsageError({.what = "two sweeps are requested",
                      .where = "--sweep-ranks",
                      .found = options.sweep ? "--sweep" : "--svg",
                      .allowed = "a sweep over budgets, or over numbers of processes",
                      .remedy = "run plan twice, once with each"});
  }
  if (!options.draws() || !options.sweeps()) return;
  throw UsageError({.what = "a sweep compares many plans and draws none of them",
                    .where = options.html.empty() ? "--memory-viz" : "--html",
                    .found = options.cluster.sweeps ? "--sweep-ranks"
                             : options.svg.empty()  ? "--sweep"
                                                    : "--svg",
                    .allowed = "a drawing of the plan, or a sweep",
                    .remedy = "run plan twice, once with each"});
}

// Draws the plan's arena before any part of the plan is freed.
void draw_plan(const PlanOptions& options, const Command& command, const RunPlan& plan, const OpSpeeds& speeds,
               const nlohmann::json& json, const Findings& findings) {
  std::string arena;
  write_arena(plan, speeds, [&arena](std::string_view text) { arena += text; });
  const report::RunFacts run =
      report::plan_as_run(json, arena, command.values(), nlohmann::json::parse(findings.to_json()));
  if (!options.html.empty()) write_text_file(options.html, report::report_page({run}));
  if (options.memory_viz.empty()) return;
  write_text_parts(options.memory_viz, [&](const TextSink& write) { report::write_memory_viz(*run.arena, write); });
}

// Returns what a machine with that much memory can give a run: all except an eighth, but at least 512 MiB, for the
// system.
std::size_t budget_of_machine(std::size_t memory_bytes) {
  const std::size_t system = std::max(memory_bytes / 8, 512 * kMiB);
  if (memory_bytes <= system) {
    throw UsageError({.what = "a machine of that size has too little memory for training",
                      .where = "--device-memory",
                      .found = format_bytes(memory_bytes),
                      .allowed = "more than 512 MiB, which are reserved for its system",
                      .remedy = "pass the machine's memory, such as 8GiB"});
  }
  return memory_bytes - system;
}
// Open MPI takes this much in each process; version 4.1 took 8.3 MiB.
constexpr std::size_t kMpiBytes = 9 * kMiB;

// Returns the memory of a machine whose runs may have that much.
std::size_t machine_of_budget(std::size_t budget_bytes) {
  return std::max(budget_bytes + (budget_bytes + 6) / 7, budget_bytes + 512 * kMiB);
}

// Returns the memory of a GPU with that usual budget.
std::size_t gpu_of_budget(std::size_t budget_bytes) { return budget_bytes / 19 * 20 + 20; }

void print_sweep(const Invocation& invocation, const PlanOptions& options, const FitRequest& request,
                 const Device& device) {
  const std::vector<PlanSummary> plans = sweep_budgets(request, options.points, *device.backend);
  if (!options.svg.empty()) write_text_file(options.svg, sweep_svg(plans, request.train_batch_size));
  if (!invocation.json) {
    if (device.absent) print_line(device.summary);
    return print_line(sweep_table(plans, request.train_batch_size));
  }
  nlohmann::json list = nlohmann::json::array();
  for (const PlanSummary& plan : plans) {
    list.push_back(plan_json(plan));
    list.back()["pages_per_second"] = pages_per_second(plan, request.train_batch_size);
  }
  nlohmann::json object = {{"sweep", std::move(list)}};
  if (device.absent) object["assumed"] = device.absent->json();
  print_json(object);
}

// Makes --device-memory the budget, and returns it; 0 if it is not given.
std::size_t take_device_memory(const std::string& text, RunOptions& options) {
  if (text.empty()) return 0;
  if (!options.budget.empty()) {
    throw UsageError({.what = "two options set the memory budget",
                      .where = "--device-memory",
                      .found = fmt::format("{} and --budget {}", text, options.budget),
                      .allowed = "only one of them",
                      .remedy = "omit one of them"});
  }
  const std::size_t memory = parse_bytes(text, "--device-memory");
  const bool of_gpu = options.device.device != "cpu";
  options.memory.other_machine = true;
  options.memory.budget_bytes = of_gpu ? usual_budget(0, memory) : budget_of_machine(memory);
  options.memory.budget_option = {.name = "--device-memory", .value = of_gpu ? gpu_of_budget : machine_of_budget};
  return memory;
}

void run_plan(const Invocation& invocation, RunOptions& options, const PlanOptions& plan_options) {
  plan_options.cluster.take(options);
  options.memory.plans_only = true;
  options.resolve();
  if (options.ranks.launch.rank > 0) return;  // the first of a launcher's processes plans for all
  recover_for_plan(options.train.output_dir);
  const auto resume = find_resume(options.resume_from_checkpoint, options.train.output_dir);
  check_plan_options(plan_options);
  refuse_replacing(plan_options.outputs(), options.inputs());
  const cuda::GpuRates* const gpu = plan_options.rates();
  if (gpu != nullptr) options.device.device = "cuda";
  const std::string typed = !plan_options.device_memory.empty() || gpu == nullptr || !options.budget.empty()
                                ? plan_options.device_memory
                                : fmt::format("{}", gpu->capacity);
  const std::size_t memory = take_device_memory(typed, options);
  const Device device = gpu != nullptr
                            ? assume_gpu(options.device, memory, fmt::format("--gpu {} was asked for", gpu->name),
                                         std::string(gpu->full_name))
                            : open_device_to_plan(invocation, options.device, memory, !options.budget.empty());
  Backend& backend = *device.backend;
  if (device.absent) options.memory.other_machine = true;
  resolve_device_memory(options.memory, backend);
  options.memory.speeds = gpu != nullptr ? gpu_speeds(*gpu)
                          : device.absent
                              ? typical_gpu_speeds()
                              : machine_speeds(device, options.train.precision,
                                               options.memory.other_machine ? 0 : options.memory.budget_bytes);
  ModelBundle bundle = open_model(options.model.model, options.model.tokenizer, options.model.base_model);
  options.resolve_padding(bundle.facts());
  set_task_and_labels(bundle, options.model);
  if (!options.train.metric_for_best_model.empty()) metric_name(bundle, options.train.metric_for_best_model);
  tell_idle_options(options, bundle, plan_options.cluster.sweeps || plan_options.cluster.ranks > 1);
  if (resume) refuse_other_family(bundle, *resume);
  choose_trained_parts(bundle, options.parts);
  const RunPages pages = open_run_pages(bundle, options.model, options.data, options.eval_data);
  const Findings said = resolve_labels(bundle, options.model, *pages.train);
  log_findings(said);
  check_weights(bundle);
  take_teacher(options, bundle);
  std::optional<TrainerState> saved;
  if (resume) saved = read_trainer_state(*resume);
  const auto [train, evaluation, findings] =
      open_run_data(bundle, options.data, pages,
                    {.skipped = saved ? saved->skipped_pages : std::vector<SkippedPage>(),
                     .class_weights = options.model.class_weights});
  if (saved) {
    keep_batch(options, *saved);
    keep_micro_batch(options, *saved);
  }
  refuse_replacing_images(plan_options.outputs(), train->source());
  keep_word_rows(bundle, options.train, train.get(), evaluation.get(), resume);
  const TeacherCache teacher(options, bundle, *train, backend);
  WorstPictures::plan(options, evaluation.get());
  const auto request_of = [&](std::int64_t ranks) {
    const ClusterOptions& cluster = plan_options.cluster;
    if (cluster.ranks > 0 || cluster.sweeps) {
      cluster.set_network(options.memory.speeds, ranks, options.device.device != "cpu");
      options.memory.local_ranks = static_cast<int>(std::min(ranks, cluster.per_node));
    }
    options.set_ranks(static_cast<int>(ranks));
    if (saved) keep_batch(options, *saved);
    FitRequest request = fit_request(bundle, options.train, train.get(), evaluation.get(), options.memory);
    const std::size_t more = (device.absent ? device.absent->assumed.host_bytes : 0) + (ranks > 1 ? kMpiBytes : 0);
    request.process_bytes = [more] { return resident_bytes() + more; };
    return request;
  };
  if (plan_options.cluster.sweeps) {
    teacher.check(backend);
    if (!invocation.json && !device.summary.empty()) print_line(device.summary);
    return print_rank_sweep(invocation, plan_options.cluster, options, static_cast<std::int64_t>(train->size()),
                            request_of, backend);
  }
  FitRequest request = request_of(options.train.ranks);
  const std::optional<KeptCut> kept = options.memory.kept_cut;
  if (plan_options.sweeps()) {
    teacher.check(backend);
    if (kept) keep_cut(request, *kept);
    return print_sweep(invocation, plan_options, request, device);
  }
  if (!invocation.json && !device.summary.empty()) print_line(device.summary);
  RunPlan plan;
  check_phases({[&] { teacher.check(backend); },
                [&] {  // which train may go over to
                  const std::optional<DType> fallback = options.fallback_precision();
                  if (!fallback) return;
                  const DType precision = std::exchange(options.train.precision, *fallback);
                  FitRequest other = request_of(options.train.ranks);
                  options.train.precision = precision;
                  plan_of(invocation, other, backend, kept);
                },
                [&] { plan = plan_of(invocation, request, backend, kept); }});
  const std::int64_t updates = updates_of(options.train, *train);
  nlohmann::json json = plan_json(plan, plan.programs);
  json["updates"] = updates;
  json["seconds"] = plan.seconds_per_update * static_cast<double>(updates);
  json["random_weights"] = bundle.weights == nullptr && !resume;  // a resumed run has the checkpoint's weights
  std::vector<std::size_t> peaks;
  if (plan.ranks > 1) {
    peaks = peaks_of_ranks(request, plan, backend);
    json["ranks"]["predicted_peak_bytes"] = peaks;
  }
  if (teacher.exists()) json["teacher_cache"] = teacher.json();
  if (device.absent) json["assumed"] = device.absent->json();
  if (plan_options.draws()) {
    Findings all = findings;
    all.merge(said);
    draw_plan(plan_options, *options.command, plan, request.speeds, json, all);
  }
  if (!plan_options.explain && invocation.json) return print_json(json);
  if (!invocation.json) {
    if (!plan_options.explain) print_line(run_line(bundle, *train, options.train));
    if (const std::string line = weights_line(bundle); !line.empty() && !resume) print_line(line);
    if (teacher.exists()) print_line(teacher.line());
  }
  if (!plan_options.explain) {
    print_line(plan_table(plan) + "\n" + duration_line(plan, updates));
    if (plan.ranks > 1) print_line(shares_line(plan, peaks));
    return;
  }
  std::optional<GpuModel> model;
  if (gpu != nullptr) model.emplace(plan, *gpu);
  const Explanation explanation = explain_run(request, plan, backend);
  if (model) json["gpu_model"] = model->json();
  json["explanation"] = explain_json(request, explanation);
  if (invocation.json) return print_json(json);
  const std::string speed = gpu != nullptr ? fmt::format("the rates of an {}", gpu->full_name) : std::string();
  print_line(explain_text(request, plan, explanation, speed) + "\n" + duration_line(plan, updates));
  if (const std::string line = word_rows_line(plan); !line.empty()) print_line(line);
  if (model) print_text(model->text());
}

}  // namespace

void add_plan(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "plan", "Print the memory plan of a training run, without training");
  auto options = std::make_shared<RunOptions>();
  add_train_options(command, *options);
  auto plan = std::make_shared<PlanOptions>();
  command->heading("Plan");
  command->add_flag("--explain", plan->explain,
                    "Explain the plan: every item in bytes, the tensors alive at the peak, time, the savings and costs "
                    "of each option, and the effect of other budgets");
  command
      ->add_option(
          "--device-memory", plan->device_memory,
          "Plan for another machine with this much memory, instead of --budget: an eighth of it, at least 512 "
          "MiB, is reserved for its operating system; times are this machine's. With --device cuda, plan for another "
          "GPU and reserve a twentieth of its memory; no GPU is needed here")
      ->type_name("SIZE");
  std::vector<std::string> gpus;
  for (const cuda::GpuRates& each : cuda::kGpuRates) gpus.emplace_back(each.name);
  one_of(command->add_option(
             "--gpu", plan->gpu,
             "Plan for this GPU, whether or not this machine has it, and reserve a twentieth of its memory; with "
             "--explain, list the kernels of an update with their arithmetic, bytes and modelled time"),
         gpus)
      ->type_name("NAME");
  add_output_file(command, "--html", plan->html,
                  "Draw the plan as an HTML file for a browser: a map of the arena, bytes over the step's time");
  add_output_file(command, "--memory-viz", plan->memory_viz,
                  "Write the plan as PyTorch's memory snapshot, which pytorch.org/memory_viz draws");
  command->heading("Sweep");
  command->add_flag(
      "--sweep", plan->sweep,
      "Print a table of budgets with their speeds, from the smallest that works to the largest that helps");
  whole_number(command->add_option("--points", plan->points, "Number of budgets in the sweep"), 2, 1000)
      ->capture_default_str();
  add_output_file(command, "--svg", plan->svg, "Draw the sweep as an SVG chart into this file");
  add_cluster_options(command, plan->cluster);
  command->footer(
      "Like train, reads the data (the page order determines the largest batch), builds the step's graphs\n"
      "and lays out the arena. Exit code 4, with the smallest budget that works and the cheapest changes to\n"
      "the run, if it does not fit.");
  command->callback([&invocation, options, plan] {
    invocation.action = [&invocation, options, plan] { run_plan(invocation, *options, *plan); };
  });
}

}  // namespace plimsoll
