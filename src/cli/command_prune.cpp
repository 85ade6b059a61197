#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/work_folder.h"
#include "bundle/model_place.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/page_bar.h"
#include "cli/run_options.h"
#include "cli/speeds.h"
#include "cli/usage.h"
#include "compress/prune.h"
#include "request/open_data.h"

namespace plimsoll {
namespace {

using nlohmann::json;

struct PruneCommand {
  RunOptions run;
  double sparsity = 0, to_flops = 1, to_seconds = 0;
  std::string to_memory, layout = "transformers", output_dir;
  std::int64_t windows = PruneOptions().windows, reconstruction_windows = PruneOptions().reconstruction_windows;
  std::uint64_t seed = PruneOptions().seed;
};

PruneOptions prune_options(const Command& command, const PruneCommand& typed) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (!given("--sparsity") && !given("--to-flops") && !given("--to-seconds") && !given("--to-memory")) {
    throw UsageError({.what = "nothing says how far to prune",
                      .where = "plimsoll prune",
                      .found = "none of --sparsity, --to-flops, --to-seconds and --to-memory",
                      .allowed = "one of them or several; the strictest counts",
                      .remedy = "pass --to-flops 0.5, for half of the layers' arithmetic"});
  }
  PruneOptions options{.flops_share = std::min(typed.to_flops, 1 - typed.sparsity),
                       .layout = typed.layout == "plimsoll" ? PrunedLayout::kPlimsoll : PrunedLayout::kTransformers,
                       .windows = typed.windows,
                       .reconstruction_windows = typed.reconstruction_windows,
                       .seed = typed.seed,
                       .evaluation = typed.run.train,
                       .memory = typed.run.memory};
  if (given("--to-seconds")) options.seconds_per_page = typed.to_seconds;
  if (given("--to-memory")) options.peak_bytes = parse_bytes(typed.to_memory, "--to-memory");
  return options;
}

void refuse_what_cannot_be_pruned(const ModelBundle& bundle) {
  if (bundle.options.lora.enabled()) {
    throw UsageError({.what = "an adapter has no heads and columns of its own",
                      .where = "--model",
                      .found = bundle.origin,
                      .allowed = "a model directory with all its weights",
                      .remedy = "merge the adapter first: plimsoll merge --adapter DIR --output-dir MERGED"});
  }
  if (bundle.config.source.contains("quantization_config")) {
    throw UsageError({.what = "the model's weights are quantized, and pruning changes weights",
                      .where = "--model",
                      .found = fmt::format("{}, config.json with \"quantization_config\"", bundle.origin),
                      .allowed = "weights of F32, F16 or BF16",
                      .remedy = "prune the model that this one was made of, then quantize what comes out"});
  }
}

// The number that stays of each group, by layer: [{"attention_heads": 4, "intermediate_size": 208}, …].
json layers_json(const Pruned& pruned) {
  json layers = json::array();
  for (std::size_t g = 0; g < pruned.groups.size(); ++g) {
    const PrunableUnits& units = pruned.groups[g].units;
    if (units.used) layers[static_cast<std::size_t>(units.layer)][units.key] = count_kept(pruned.masks[g]);
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
    text += fmt::format("{}{} of {} {}", heads ? "" : ", ", count_kept(pruned.masks[g]), units.units,
                        heads ? "heads" : (units.key == "intermediate_size" ? "columns" : "columns of layout"));
  }
  return text;
}

void run_prune(Invocation& invocation, const Command& command, PruneCommand& typed) {
  const auto begin = std::chrono::steady_clock::now();
  RunOptions& options = typed.run;
  options.runs = true;
  options.resolve();
  refuse_replacing({{"--output-dir", typed.output_dir}}, options.inputs());
  prune_options(command, typed);  // refuses what makes no sense before anything is read
  const Device device = open_run_device(invocation, options);
  const ModelBundle bundle = open_evaluated_model(options);
  refuse_what_cannot_be_pruned(bundle);
  verify_weights(bundle);
  const auto dataset = open_dataset(bundle, options.data, true);
  make_model_directory(typed.output_dir, "--output-dir");
  const DirectoryLock lock(typed.output_dir, "--output-dir");
  options.memory.speeds = machine_speeds(device, DType::kF32, options.memory.budget_bytes);
  PruneOptions pruning = prune_options(command, typed);
  std::optional<PageBar> bar;
  std::string shown;
  pruning.on_progress = [&](const std::string& what, std::int64_t done, std::int64_t all) {
    if (!bar || what != shown) bar.emplace(what, invocation.json);
    shown = what;
    bar->draw(static_cast<std::size_t>(done), static_cast<std::size_t>(all));
  };
  const Pruned pruned = prune(bundle, *dataset, pruning, *device.backend,
                              [&](const SaveModel& save) { write_model(typed.output_dir, save); });
  bar.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (invocation.json) {
    return print_json({{"windows", pruned.windows},
                       {"layout", typed.layout},
                       {"before", costs_json(pruned.before)},
                       {"after", costs_json(pruned.after)},
                       {"kept_share", pruned.kept_share},
                       {"layers", layers_json(pruned)},
                       {"seconds", seconds},
                       {"measured_peak_bytes", measured_peak_bytes(*device.backend)},
                       {"output_dir", typed.output_dir}});
  }
  print_line(costs_table(pruned) + layers_text(pruned));
  print_line(fmt::format(
      "{:.0f} % of the layers' arithmetic stays{}; weighed on {} in {:.0f} s, written to {}", 100 * pruned.kept_share,
      pruning.layout == PrunedLayout::kTransformers ? ", though heads that went are stored as zeros" : "",
      counted(pruned.windows, "window"), seconds, typed.output_dir));
  if (pruning.layout == PrunedLayout::kPlimsoll) {
    print_line("layers have widths of their own, which transformers cannot load; every command here does");
  }
}

}  // namespace

void add_prune(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "prune", "Remove heads and columns that a model needs least");
  auto options = std::make_shared<PruneCommand>();
  add_model_options(command, options->run, false);
  add_data_options(command, options->run);
  add_memory_options(command, options->run);
  add_evaluation_size_option(command, options->run);
  command->heading("Pruning");
  number(command->add_option("--sparsity", options->sparsity, "Share of the layers' arithmetic that goes"), 0, 1);
  number(command->add_option("--to-flops", options->to_flops, "Share of the layers' arithmetic that stays at most"), 0,
         1);
  number(command->add_option("--to-seconds", options->to_seconds, "Most seconds a page, as predicted for this machine"),
         0, 1e300, true);
  command->add_option("--to-memory", options->to_memory, "Most memory of eval, as predicted, such as 200MiB")
      ->type_name("SIZE");
  one_of(command->add_option("--layout", options->layout,
                             "transformers: one width for all layers, and zeros for heads that went; plimsoll: each "
                             "layer's own width, for commands of Plimsoll alone"),
         {"transformers", "plimsoll"})
      ->capture_default_str();
  whole_number(command->add_option("--windows", options->windows, "Most windows that heads and columns are weighed on"),
               1, 1 << 20)
      ->capture_default_str();
  whole_number(command->add_option("--reconstruction-windows", options->reconstruction_windows,
                                   "Most windows that the weights that stay are solved for on"),
               1, 1 << 20)
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Draws these windows")->capture_default_str();
  command->heading("Output");
  command->add_option("--output-dir", options->output_dir, "Model directory to write")->type_name("DIR")->required();
  command->footer(
      "Needs no training: heads and columns are weighed by the loss on labelled pages, those that matter least\n"
      "go, and the weights that read the others are solved for so that each layer's output stays the same.\n"
      "Pass the pages that the model was trained on, and compare the two on others:\n"
      "\n"
      "  plimsoll prune --model run --data train.jsonl --to-flops 0.5 --layout plimsoll --output-dir smaller\n"
      "  plimsoll compare run smaller --data held-out.jsonl");
  command->callback([&invocation, command, options] {
    invocation.action = [&invocation, command, options] { run_prune(invocation, *command, *options); };
  });
}

}  // namespace plimsoll
