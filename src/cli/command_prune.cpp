#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "bundle/model_place.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/page_bar.h"
#include "cli/rank_options.h"
#include "cli/run_options.h"
#include "cli/speeds.h"
#include "cli/train_run.h"
#include "cli/usage.h"
#include "compress/prune.h"
#include "fit/phases.h"
#include "formats/json.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "train/run_directory.h"

namespace plimsoll {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

struct PruneCommand {
  RunOptions run;         // the inputs, and how the pruned model trains
  RunOptions evaluation;  // only its batch: how the model would be evaluated
  double sparsity = 0, to_flops = 1, to_seconds = 0;
  std::string to_memory, layout = "transformers", output_dir;
  std::int64_t windows = PruneOptions().windows, reconstruction_windows = PruneOptions().reconstruction_windows;
  std::vector<std::string> training_options{};  // options that have no meaning without --epochs

  bool trains() const { return run.train.num_train_epochs > 0; }
};

// Returns the options of the part that does not train.
RunOptions pruning_options(const PruneCommand& typed) {
  RunOptions options;
  options.model = typed.run.model;
  options.data = typed.run.data;
  options.data.augment.reset();  // augmentation applies to training, not to the pages that importance is measured on
  options.data_files = typed.run.data_files;
  options.pages_files = typed.run.pages_files;
  options.box_format = typed.run.box_format;
  options.device = typed.run.device;
  options.budget = typed.run.budget;
  options.host_budget = typed.run.host_budget;
  options.memory.loader_workers = typed.run.memory.loader_workers;
  options.train.train_batch_size = typed.evaluation.train.train_batch_size;
  options.runs = true;
  options.resolve();
  return options;
}

PruneOptions prune_options(const Command& command, const PruneCommand& typed, const RunOptions& run) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (!given("--sparsity") && !given("--to-flops") && !given("--to-seconds") && !given("--to-memory")) {
    throw UsageError({.what = "nothing says how far to prune",
                      .where = "plimsoll prune",
                      .found = "none of --sparsity, --to-flops, --to-seconds and --to-memory",
                      .allowed = "one of them or several; the strictest counts",
                      .remedy = "pass --to-flops 0.5, for half of the layers' arithmetic"});
  }
  PruneOptions options{.flops_share = typed.to_flops,
                       .nonzero_share = 1 - typed.sparsity,
                       .layout = typed.layout == "plimsoll" ? PrunedLayout::kPlimsoll : PrunedLayout::kTransformers,
                       .windows = typed.windows,
                       .reconstruction_windows = typed.reconstruction_windows,
                       .seed = typed.run.train.seed,
                       .evaluation = run.train,
                       .memory = run.memory};
  if (given("--to-seconds")) options.seconds_per_page = typed.to_seconds;
  if (given("--to-memory")) options.peak_bytes = parse_bytes(typed.to_memory, "--to-memory");
  return options;
}

void refuse_what_cannot_be_pruned(const ModelBundle& bundle) {
  const ModelGraph model = bundle.definition().build({.samples = 1, .text_rows = 16}, false, bundle.options);
  const bool is_decoder = std::ranges::any_of(model.graph.nodes(), [](const Node& node) {
    return node.op == Op::kAttention && std::get<AttentionAttributes>(node.attributes).causal;
  });
  if (is_decoder) {
    throw UsageError({.what = "decoders cannot be pruned",
                      .where = "--model",
                      .found = fmt::format("{}, a {}", bundle.origin, bundle.config.encoder->model_type()),
                      .allowed = "an encoder: LayoutLMv3, LayoutLM, LiLT, BERT or RoBERTa",
                      .remedy =
                          "for less memory pass --load-in-8bit or --load-in-4bit to predict, eval or generate; for a "
                          "smaller vocabulary, plimsoll trim"});
  }
  if (bundle.task().reads_pairs()) {
    throw UsageError({.what = "models for pairs of pages cannot be pruned",
                      .where = "--model",
                      .found = fmt::format("{}, for {}", bundle.origin, bundle.task().name()),
                      .allowed = "a model that reads one page at a time",
                      .remedy = "prune the encoder with a head for another task, and train the result for pairs"});
  }
  if (bundle.options.lora.enabled()) {
    throw UsageError({.what = "an adapter has no heads and columns of its own",
                      .where = "--model",
                      .found = bundle.origin,
                      .allowed = "a model directory with all its weights",
                      .remedy = "merge the adapter first: plimsoll merge --adapter DIR --output-dir MERGED"});
  }
  if (bundle.quantized) {
    throw UsageError({.what = "the model's weights are quantized, and pruning changes weights",
                      .where = "--model",
                      .found = fmt::format("{}, weights in {} bits", bundle.origin,
                                           bundle.options.frozen_weights == DType::kQ8 ? 8 : 4),
                      .allowed = "weights of F32, F16 or BF16",
                      .remedy = "prune the model that this one was made of, then quantize what comes out"});
  }
}

// Returns how many units of each group remain, for each remaining layer: [{"attention_heads": 4, "intermediate_size":
// 208}, …].
json layers_json(const Pruned& pruned) {
  json layers = json::array();
  for (std::size_t g = 0; g < pruned.groups.size(); ++g) {
    const PrunableUnits& units = pruned.groups[g].units;
    const auto layer = std::ranges::find(pruned.layers, units.layer);
    if (!units.used || layer == pruned.layers.end()) continue;
    layers[static_cast<std::size_t>(layer - pruned.layers.begin())][units.key] = count_kept(pruned.masks[g]);
  }
  return layers;
}

json costs_json(const ModelCosts& costs) {
  return {{"parameters", costs.parameters},
          {"layer_products_per_row", costs.layer_products},
          {"seconds_per_page", costs.seconds_per_page},
          {"predicted_peak_bytes", costs.predicted_peak_bytes}};
}

std::string costs_table(const Pruned& pruned) {
  const ModelCosts &before = pruned.before, &after = pruned.after;
  std::string text = fmt::format("{:<32}{:>14}{:>14}{:>8}\n", "", "before", "after", "share");
  const auto row = [&](const char* name, const std::string& was, const std::string& is, double share) {
    text += fmt::format("{:<32}{:>14}{:>14}{:>8.2f}\n", name, was, is, share);
  };
  const auto as = [](auto value) { return static_cast<double>(value); };
  row("parameters", std::to_string(before.parameters), std::to_string(after.parameters),
      as(after.parameters) / as(before.parameters));
  row("layers' products a row, stored", fmt::format("{:.0f}", before.layer_products),
      fmt::format("{:.0f}", after.layer_products), after.layer_products / before.layer_products);
  row("seconds a page, predicted", fmt::format("{:.3g}", before.seconds_per_page),
      fmt::format("{:.3g}", after.seconds_per_page), after.seconds_per_page / before.seconds_per_page);
  row("memory of eval, predicted", format_bytes(before.predicted_peak_bytes), format_bytes(after.predicted_peak_bytes),
      as(after.predicted_peak_bytes) / as(before.predicted_peak_bytes));
  return text;
}

std::string layers_text(const Pruned& pruned) {
  std::string text;
  for (std::size_t g = 0; g < pruned.groups.size(); ++g) {
    const PrunableUnits& units = pruned.groups[g].units;
    if (!units.used) continue;
    const bool heads = units.kind == PrunableUnits::Kind::kHeads;
    if (heads) text += fmt::format("{}  layer {:>2}: ", text.empty() ? "" : "\n", units.layer);
    if (std::ranges::count(pruned.layers, units.layer) == 0) {
      if (heads) text += "removed";
      continue;
    }
    text += fmt::format("{}{} of {} {}", heads ? "" : ", ", count_kept(pruned.masks[g]), units.units,
                        heads ? "heads" : (units.key == "intermediate_size" ? "columns" : "columns of layout"));
  }
  return text;
}

// Prunes the model into `directory`, says so, and returns what --json prints.
json prune_into(const fs::path& directory, const Invocation& invocation, const PruneCommand& typed,
                const ModelBundle& bundle, const Dataset& dataset, PruneOptions options, Backend& backend,
                const std::function<void()>& before_writing, Pruned& pruned) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<PageBar> bar;
  std::string shown;
  options.on_progress = [&](const std::string& what, std::int64_t done, std::int64_t all) {
    if (!bar || what != shown) bar.emplace(what, invocation.json);
    shown = what;
    bar->draw(static_cast<std::size_t>(done), static_cast<std::size_t>(all));
  };
  pruned = prune(bundle, dataset, options, backend, [&](const SaveModel& save) {
    if (before_writing) before_writing();
    write_model(directory, save);
  });
  bar.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  json told = {{"windows", pruned.windows},
               {"layout", typed.layout},
               {"before", costs_json(pruned.before)},
               {"after", costs_json(pruned.after)},
               {"kept_share", pruned.kept_share},
               {"nonzero_share", pruned.nonzero_share},
               {"kept_layers", pruned.layers},
               {"layers", layers_json(pruned)},
               {"seconds", seconds},
               {"measured_peak_bytes", measured_peak_bytes(backend)},
               {"output_dir", directory.string()}};
  if (invocation.json) return told;
  print_line(costs_table(pruned) + layers_text(pruned));
  const bool zeros = pruned.nonzero_share < pruned.kept_share * (1 - 1e-9);
  print_line(fmt::format(
      "{:.0f} % of the layers' arithmetic stays{}; measured on {} in {:.0f} s, written to {}", 100 * pruned.kept_share,
      zeros ? fmt::format(", {:.0f} % without heads that are stored as zeros", 100 * pruned.nonzero_share) : "",
      counted(pruned.windows, "window"), seconds, directory.string()));
  if (options.layout == PrunedLayout::kPlimsoll) {
    print_line("layers have widths of their own, which transformers cannot load; every command here does");
  }
  return told;
}

std::unique_ptr<Dataset> open_to_prune(const ModelBundle& bundle, const RunOptions& options) {
  refuse_what_cannot_be_pruned(bundle);
  verify_weights(bundle);
  return open_dataset(bundle, options.data, true);
}

// Returns the targets in the form of prune.json.
json targets_json(const PruneOptions& options, const PruneCommand& typed) {
  return {{"flops_share", options.flops_share},
          {"nonzero_share", options.nonzero_share},
          {"seconds_per_page", options.seconds_per_page ? json(*options.seconds_per_page) : json()},
          {"peak_bytes", options.peak_bytes ? json(*options.peak_bytes) : json()},
          {"layout", typed.layout}};
}

// Uses the model that the resumed run had pruned before it trained: it is not pruned again.
void take_pruned_model(RunOptions& training, const fs::path& run, const json& targets) {
  const fs::path record = run / kPruneFile;
  std::error_code error;
  if (!fs::exists(record, error)) {
    throw UsageError({.what = "the checkpoint is of a run that has pruned nothing",
                      .where = "--resume-from-checkpoint",
                      .found = fmt::format("{} without {}", run.string(), kPruneFile),
                      .allowed = "a checkpoint of plimsoll prune --epochs, with the other files of its run",
                      .remedy = "continue it with plimsoll train, or prune anew without --resume-from-checkpoint"});
  }
  const json told = parse_json(read_text_file(record, 1 << 26), record.string());
  if (told.value("targets", json()) != targets) {
    throw UsageError({.what = "the run has pruned its model to other targets",
                      .where = "--resume-from-checkpoint",
                      .found = fmt::format("{} then, {} now", told.value("targets", json()).dump(), targets.dump()),
                      .allowed = "the same targets",
                      .remedy = "pass those of then, or prune anew into another --output-dir"});
  }
  training.model = {.model = (run / kPrunedModel).string()};
}

void prune_and_train(Invocation& invocation, const Command& command, PruneCommand& typed) {
  RunOptions& training = typed.run;
  training.command = &command;
  training.train.output_dir = typed.output_dir;
  training.teacher.model = training.model.model;
  run_training(invocation, training, [&](const Device& device, const std::optional<fs::path>& resume) -> json {
    RunOptions options = pruning_options(typed);
    resolve_on_device(options, *device.backend);
    options.memory.speeds = machine_speeds(device, DType::kF32, options.memory.budget_bytes);
    PruneOptions pruning = prune_options(command, typed, options);
    const json targets = targets_json(pruning, typed);
    if (resume) {
      take_pruned_model(training, run_of(*resume), targets);
      return {};
    }
    const ModelBundle bundle = open_evaluated_model(options);
    const auto dataset = open_to_prune(bundle, options);
    // As the training will read them.
    ModelBundle trained = bundle;
    const RunPages pages = open_run_pages(trained, training.model, training.data, training.eval_data);
    const RunData data = open_run_data(trained, training.data, pages);
    std::size_t held = 0;  // by the process, when training was planned first
    pruning.check = [&](const ModelBundle& smaller) {
      // Pruning leaves code and pieces of the heap behind, up to 6 MiB in the tests.
      constexpr std::size_t kLeftBehind = 8 * kMiB;
      if (held == 0) held = resident_bytes() + kLeftBehind;
      const auto plan_in = [&](DType precision) {
        RunOptions trial = training;
        trial.train.precision = precision;
        take_teacher(trial, smaller);
        FitRequest request = fit_request(smaller, trial.train, data.train.get(), data.evaluation.get(), trial.memory);
        request.has_option = [known = command.values()](const std::string& option) {
          std::string name = option.substr(2);
          std::ranges::replace(name, '-', '_');
          return known.contains(name);
        };
        // Kernels are prepared after `held` was measured.
        request.process_bytes = [held, before = resident_bytes()] {
          const std::size_t now = resident_bytes();
          return std::max(now, held + now - std::min(now, before));
        };
        fit(request, *device.backend);
      };
      check_phases({[&] { plan_in(training.train.precision); },
                    [&] {
                      if (const auto fallback = training.fallback_precision()) plan_in(*fallback);
                    }});
    };
    const fs::path directory = training.train.output_dir / kPrunedModel;
    std::optional<NewDirectory> made;  // none is left behind if nothing is written
    Pruned pruned;
    json told = prune_into(
        directory, invocation, typed, bundle, *dataset, pruning, *device.backend,
        [&] {
          make_room_for_run(training.train.output_dir, {});
          made.emplace(directory, "--output-dir");
        },
        pruned);
    told["targets"] = targets;
    write_text_file(training.train.output_dir / kPruneFile, json_text(told, 2) + "\n");
    training.model = {.model = directory.string()};
    // From here on, the training's peak is measured.
    release_free_heap();
    reset_peak_resident();
    return told;
  });
}

// Refuses training options if nothing trains.
void refuse_training_options(const Command& command, const PruneCommand& typed) {
  for (const std::string& option : typed.training_options) {
    if (command.count(option) == 0) continue;
    throw UsageError({.what = "nothing trains without --epochs",
                      .where = option,
                      .found = "no --epochs",
                      .allowed = fmt::format("{} with --epochs", option),
                      .remedy = fmt::format("pass --epochs 3 too, or omit {}", option)});
  }
}

void run_prune(Invocation& invocation, const Command& command, PruneCommand& typed) {
  if (typed.trains()) {
    refuse_ranks("a model is pruned by one process",
                 ", and without --epochs; then train what it has written, with --distil-from and --zero-stage 2, in "
                 "several");
  }
  prune_options(command, typed, typed.run);  // refuses invalid options before anything is read
  if (typed.trains()) return prune_and_train(invocation, command, typed);
  refuse_training_options(command, typed);
  RunOptions options = pruning_options(typed);
  refuse_replacing({{"--output-dir", typed.output_dir}}, options.inputs());
  const Device device = open_run_device(invocation, options);
  const ModelBundle bundle = open_evaluated_model(options);
  const auto dataset = open_to_prune(bundle, options);
  const ModelDirectory directory(typed.output_dir, "--output-dir");
  options.memory.speeds = machine_speeds(device, DType::kF32, options.memory.budget_bytes);
  Pruned pruned;
  const json told = prune_into(typed.output_dir, invocation, typed, bundle, *dataset,
                               prune_options(command, typed, options), *device.backend, {}, pruned);
  if (invocation.json) print_json(told);
}

}  // namespace

void add_prune(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "prune", "Remove the heads, columns and layers that a model needs least");
  auto options = std::make_shared<PruneCommand>();
  RunOptions& run = options->run;
  add_model_options(command, run, false);
  add_data_options(command, run);
  add_memory_options(command, run);
  add_evaluation_size_option(command, options->evaluation);
  command->heading("Pruning");
  number(command->add_option("--sparsity", options->sparsity,
                             "Share of the layers' arithmetic to remove; heads stored as zeros count as removed"),
         0, 1);
  number(command->add_option("--to-flops", options->to_flops,
                             "Maximum share of the layers' arithmetic to keep; heads stored as zeros count as kept"),
         0, 1);
  number(command->add_option("--to-seconds", options->to_seconds,
                             "Maximum seconds per page, as predicted for this machine"),
         0, 1e300, true);
  command->add_option("--to-memory", options->to_memory, "Maximum memory of eval, as predicted, such as 200MiB")
      ->type_name("SIZE");
  one_of(command->add_option("--layout", options->layout,
                             "transformers: one width for all layers, and zeros in place of removed heads; plimsoll: a "
                             "width of its own for each layer, which only Plimsoll opens"),
         {"transformers", "plimsoll"})
      ->capture_default_str();
  whole_number(
      command->add_option("--windows", options->windows,
                          "Maximum number of windows on which the importance of heads and columns is measured"),
      1, 1 << 20)
      ->capture_default_str();
  whole_number(command->add_option("--reconstruction-windows", options->reconstruction_windows,
                                   "Maximum number of windows to which the remaining weights are refitted"),
               1, 1 << 20)
      ->capture_default_str();
  whole_number(
      command->add_option("--seed", run.train.seed, "Random seed of the choice of windows and of the training"), 0)
      ->capture_default_str();
  run.train.num_train_epochs = 0;
  number(command->add_option("--epochs", run.train.num_train_epochs,
                             "Then train the pruned model for this many passes over the data, with the original model "
                             "as its teacher (0: no training). --output-dir becomes a run's directory, as with train"),
         0, 1e6)
      ->capture_default_str();
  command->heading("Output");
  command
      ->add_option("--output-dir", options->output_dir,
                   "Model directory to write; with --epochs the trained model, checkpoints and the other files of a "
                   "run, and in pruned/ the model before the training")
      ->type_name("DIR")
      ->required();
  const json known = command->values();
  command->add_flag("--overwrite-output-dir", run.overwrite_output_dir,
                    "With --epochs: if --output-dir holds a finished run, move it to earlier-N in it");
  add_batch_options(command, run);
  add_offload_option(command, run);
  command->heading("Training");
  add_evaluation_data_option(command, run, "Pages for evaluation during training, in the format of --data");
  add_learning_options(command, run);
  // Weights that were reconstructed train to a better result if states and relations need not match the teacher's
  // (docs/smaller_models.md).
  run.train.distillation.hidden = run.train.distillation.relations = 0;
  add_distillation_loss_options(command, run);
  add_log_options(command, run);
  const json all = command->values();
  for (const auto& [name, value] : all.items()) {
    std::string option = "--" + name;
    std::ranges::replace(option, '_', '-');
    if (!known.contains(name)) options->training_options.push_back(option);
  }
  command->footer(
      "Needs no training: the importance of heads and columns is measured by the loss on labelled pages, the\n"
      "least important are removed, and the weights that read the remaining ones are refitted, so that each\n"
      "layer's output stays close to what it was.\n"
      "Pass the pages that the model was trained on, and compare the two on others:\n"
      "\n"
      "  plimsoll prune --model run --data train.jsonl --to-flops 0.5 --layout plimsoll --output-dir smaller\n"
      "  plimsoll compare run smaller --data held-out.jsonl\n"
      "\n"
      "With --epochs the pruned model is then trained, by train's options, with the original as its teacher. Ctrl-C\n"
      "writes a checkpoint; the same command with --resume-from-checkpoint latest continues the training.");
  command->callback([&invocation, command, options] {
    invocation.action = [&invocation, command, options] { run_prune(invocation, *command, *options); };
  });
}

}  // namespace plimsoll
