#include "compress/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"
#include "compress/fewer_layers.h"
#include "compress/mask_gradients.h"
#include "compress/mask_search.h"
#include "compress/reconstruction.h"
#include "fit/phases.h"
#include "fit/session.h"
#include "request/fit_request.h"

namespace plimsoll {
namespace {

// Returns x in three digits, not less than it: a limit that a message names must be accepted.
double rounded_up(double x) {
  if (x == 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(x))) - 2);
  return std::ceil(x / unit) * unit;
}

// The choices of one run of prune().
class Pruning {
 public:
  Pruning(const ModelBundle& bundle, const Dataset& dataset, const PruneOptions& options, Backend& backend)
      : bundle_(bundle), dataset_(dataset), options_(options), backend_(backend) {}

  Pruned run(const std::function<void(const SaveModel& save)>& write) {
    keys_per_row_ = pass("", 0).keys_per_row();
    result_.groups = weigh_units(*bundle_.config.encoder, keys_per_row_);
    // The training, which needs the most, is planned first: what other plans leave in the process varies.
    check_phases({[&] {
                    if (options_.check) options_.check(Smaller(*this, expected_masks()).model.bundle());
                  },
                  [&] { weighing_held_bytes_ = held_bytes(fit(weighing_request(masked_model()), backend_)); },
                  [&] { plan_reconstruction(); }});
    weigh();
    result_.before = costs_of(bundle_);
    const double share = choose_share();
    result_.masks = search(share);
    rearrange_masks(result_.groups, result_.masks);
    result_.layers = kept_layers(result_.groups, result_.masks);
    result_.kept_share = stored_share(result_.masks);
    result_.nonzero_share = kept_share(result_.groups, result_.masks);
    const Smaller smaller(*this, result_.masks);
    if (options_.check) options_.check(smaller.model.bundle());
    result_.after = costs_of(smaller.model.bundle());
    reconstruct(smaller, write);
    return std::move(result_);
  }

 private:
  // The model that the masks leave: without entire layers, then without the other removed units.
  struct Smaller {
    Smaller(const Pruning& pruning, const Masks& all)
        : layers(with_layers(pruning.bundle_, kept_layers(pruning.result_.groups, all))),
          groups(weigh_units(*layers.bundle.config.encoder, pruning.keys_per_row_)),
          masks(masks_of(pruning.result_.groups, all)),
          model(layers.bundle, groups, masks, pruning.options_.layout) {}

    static Masks masks_of(const std::vector<WeighedUnits>& groups, const Masks& all) {
      const std::vector<std::int64_t> stay = kept_layers(groups, all);
      Masks kept;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (std::ranges::binary_search(stay, groups[g].units.layer)) kept.push_back(all[g]);
      }
      return kept;
    }

    FewerLayers layers;
    std::vector<WeighedUnits> groups;
    Masks masks;
    PrunedModel model;
  };

  WindowPass pass(const std::string& what, std::int64_t windows) const {
    WindowPass pass{.bundle = &bundle_,
                    .dataset = &dataset_,
                    .loader = loader_options(options_.memory),
                    .most_windows = windows,
                    .seed = options_.seed};
    if (options_.on_progress) {
      pass.on_progress = [this, what](std::int64_t done, std::int64_t all) { options_.on_progress(what, done, all); };
    }
    return pass;
  }

  // Returns the request to run the model on windows, one at a time.
  FitRequest request_of(const ModelBundle& bundle) const {
    FitRequest request = fit_request(bundle, options_.evaluation, nullptr, &dataset_, options_.memory);
    request.train_batch_size = 1;
    request.micro_batch_size = 1;
    request.result_bytes = 0;  // nothing is scored
    return request;
  }

  ModelBundle masked_model() const {
    ModelBundle masked = bundle_;
    masked.options.masked_maps = masked_maps(*bundle_.config.encoder);
    return masked;
  }
  FitRequest weighing_request(const ModelBundle& masked) {
    FitRequest request = request_of(masked);
    request.differentiates = true;
    if (weighing_held_bytes_ > 0) hold_at_most(request, weighing_held_bytes_);
    return request;
  }

  // Plans it as if nothing were removed. On a device with its own memory, what the whole model takes there is not known
  // before it is there.
  void plan_reconstruction() {
    FitRequest request = request_of(bundle_);
    const PlanSummary whole = smallest_plan(request, backend_);
    if (whole.on_device) return;
    const Reconstruction::Bytes own =
        Reconstruction::most_bytes(result_.groups, *bundle_.config.encoder, rows_of(request), backend_);
    request.process_bytes = [&] { return resident_bytes() + whole.arena_bytes + own.host + own.device; };
    reconstruction_held_bytes_ = held_bytes(fit(request, backend_));
  }
  std::int64_t rows_of(const FitRequest& request) const {
    return bundle_.config.encoder->rows({.samples = 1, .text_rows = request.evaluation_text_rows(1)});
  }

  void weigh() {
    const ModelBundle masked = masked_model();
    const Session session(fit(weighing_request(masked), backend_), backend_);
    load_model(masked, 0, [&](const std::string& name) { return session.parameter(name); });
    result_.windows = measure_mask_gradients(session, pass("weighing windows", options_.windows), result_.groups);
    if (result_.windows > 0) return;
    throw UsageError({.what = "no page has a label, so nothing says what heads and columns are worth",
                      .where = "--data",
                      .found = "windows without a label",
                      .allowed = "pages with labels, such as those that the model was trained on",
                      .remedy = "pass the training data with --data"});
  }

  // Returns masks of the size that is asked for, before it is known which units are worth keeping: as if each were
  // worth what it costs. With other targets than a share, only the smallest size is known.
  Masks expected_masks() const {
    if (options_.seconds_per_page || options_.peak_bytes) return search(0);
    std::vector<WeighedUnits> groups = result_.groups;
    for (WeighedUnits& group : groups) {
      group.gradients.assign(static_cast<std::size_t>(group.units.units), static_cast<float>(std::sqrt(group.cost)));
    }
    return search_masks(groups, options_.flops_share,
                        {.layout = options_.layout, .nonzero_share = options_.nonzero_share});
  }
  Masks search(double share) const { return search(share, options_.nonzero_share); }
  Masks search(double share, double nonzero_share) const {
    return search_masks(result_.groups, share, {.layout = options_.layout, .nonzero_share = nonzero_share});
  }
  double stored_share(const Masks& masks) const {
    return kept_share(result_.groups, stored_masks(result_.groups, masks, options_.layout));
  }
  ModelCosts costs_of(const ModelBundle& bundle) const {
    return model_costs(bundle, dataset_, options_.evaluation, options_.memory, keys_per_row_, held_bytes_, backend_);
  }

  // Returns the largest share of the arithmetic that meets all targets.
  double choose_share() const {
    const double least = stored_share(search(0));
    if (options_.flops_share < least) {
      refuse("--to-flops", fmt::format("{:.3g}", options_.flops_share),
             fmt::format("{:.3g} or more", rounded_up(least)));
    }
    const double least_nonzero = kept_share(result_.groups, search(1, 0));
    if (options_.nonzero_share < least_nonzero) {
      refuse("--sparsity", fmt::format("{:.3g}", 1 - options_.nonzero_share),
             fmt::format("{:.3g} or less", -rounded_up(least_nonzero - 1)));
    }
    if (!options_.seconds_per_page && !options_.peak_bytes) return options_.flops_share;
    const auto reaches = [&](const ModelCosts& costs) {
      return costs.seconds_per_page <= options_.seconds_per_page.value_or(costs.seconds_per_page) &&
             costs.predicted_peak_bytes <= options_.peak_bytes.value_or(costs.predicted_peak_bytes);
    };
    const auto costs_at = [&](double share) { return costs_of(Smaller(*this, search(share)).model.bundle()); };
    if (reaches(costs_at(options_.flops_share))) return options_.flops_share;
    const ModelCosts smallest = costs_at(least);
    if (options_.seconds_per_page && smallest.seconds_per_page > *options_.seconds_per_page) {
      refuse("--to-seconds", fmt::format("{:.3g}", *options_.seconds_per_page),
             fmt::format("{:.3g} or more", rounded_up(smallest.seconds_per_page)));
    }
    if (options_.peak_bytes && smallest.predicted_peak_bytes > *options_.peak_bytes) {
      refuse("--to-memory", format_bytes(*options_.peak_bytes),
             fmt::format("{} MiB or more", (smallest.predicted_peak_bytes + kVariationBytes) / kMiB + 1));
    }
    constexpr int kHalvings = 10;
    double low = least, high = options_.flops_share;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (reaches(costs_at(middle)) ? low : high) = middle;
    }
    return low;
  }

  [[noreturn]] void refuse(const char* option, std::string found, std::string allowed) const {
    const bool all_heads = options_.layout == PrunedLayout::kTransformers && std::string_view(option) != "--sparsity";
    throw UsageError({.what = fmt::format("the model cannot be pruned so far: its last layer keeps {} and a block of "
                                          "columns",
                                          all_heads ? "all heads" : "a head"),
                      .where = option,
                      .found = std::move(found),
                      .allowed = std::move(allowed),
                      .remedy = "ask for less, or train a smaller model"});
  }

  void reconstruct(const Smaller& smaller, const std::function<void(const SaveModel& save)>& write) {
    const ModelBundle& bundle = smaller.layers.bundle;
    const std::map<std::string, std::string>& sources = smaller.layers.sources;
    FitRequest of_whole = request_of(bundle_);
    // Each plan counts what the process already holds, so that together they stay within the budget.
    std::optional<Reconstruction> reconstruction;
    reconstruction.emplace(smaller.groups, smaller.masks, *bundle.config.encoder, rows_of(of_whole), backend_,
                           Reconstruction::Options());
    const PlanSummary smallest = smallest_plan(request_of(bundle), backend_);
    if (!smallest.on_device) {  // the pruned one needs its own share
      of_whole.process_bytes = [&] { return resident_bytes() + smallest.arena_bytes; };
    }
    const Session whole(fit(of_whole, backend_), backend_);
    load_model(bundle_, 0, [&](const std::string& name) { return whole.parameter(name); });
    FitRequest of_pruned = request_of(bundle);
    if (reconstruction_held_bytes_ > 0) hold_at_most(of_pruned, reconstruction_held_bytes_);
    RunPlan planned = fit(of_pruned, backend_);
    const std::size_t held = held_bytes(planned), now = resident_bytes(), grown = now - std::min(now, held);
    const Session pruned(std::move(planned), backend_);
    std::map<std::string, std::string> named;
    for (const auto& [name, source] : sources) named[source] = name;
    std::vector<ParameterSpec> specs = bundle_.specs();
    std::erase_if(specs, [&](const ParameterSpec& spec) { return !named.contains(spec.name); });
    load_parameters(specs, bundle_.source(0),
                    [&](const std::string& name) { return pruned.parameter(named.at(name)); });
    // The last plan knows how much all of this takes; the rest of the budget is for windows' states.
    const RunPlan& plan = pruned.plan();
    const std::size_t needed = plan.predicted_peak_bytes + grown + kVariationBytes;
    const std::size_t free = plan.on_device || needed > plan.budget_bytes ? 0 : plan.budget_bytes - needed;
    reconstruction->run(whole, pruned, sources, pass("solving for weights, windows", options_.reconstruction_windows),
                        free);
    // Its memory is enough for writing.
    reconstruction.reset();
    backend_.release_unused();
    release_free_heap();
    write([&](const std::filesystem::path& directory) {
      return smaller.model.save(directory, [&](const ParameterSpec& spec, std::int64_t first, std::span<float> values) {
        pruned.parameter(spec.name).read(first, values);
      });
    });
  }

  const ModelBundle& bundle_;
  const Dataset& dataset_;
  const PruneOptions& options_;
  Backend& backend_;
  double keys_per_row_ = 0;
  std::size_t held_bytes_ = resident_bytes();  // before anything is planned
  // When these were planned first, with the whole model in memory.
  std::size_t weighing_held_bytes_ = 0, reconstruction_held_bytes_ = 0;
  Pruned result_;
};

}  // namespace

Pruned prune(const ModelBundle& bundle, const Dataset& dataset, const PruneOptions& options, Backend& backend,
             const std::function<void(const SaveModel& save)>& write) {
  return Pruning(bundle, dataset, options, backend).run(write);
}

}  // namespace plimsoll
