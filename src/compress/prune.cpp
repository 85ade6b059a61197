#include "compress/prune.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"
#include "compress/mask_gradients.h"
#include "compress/mask_search.h"
#include "compress/reconstruction.h"
#include "fit/session.h"
#include "request/fit_request.h"

namespace plimsoll {
namespace {

// The choices of one run of prune().
class Pruning {
 public:
  Pruning(const ModelBundle& bundle, const Dataset& dataset, const PruneOptions& options, Backend& backend)
      : bundle_(bundle), dataset_(dataset), options_(options), backend_(backend) {}

  Pruned run(const std::function<void(const SaveModel& save)>& write) {
    keys_per_row_ = pass("", 0).keys_per_row();
    result_.groups = weigh_units(*bundle_.config.encoder, keys_per_row_);
    weigh();
    result_.before = costs_of(bundle_);
    const double share = choose_share();
    result_.masks = search(share);
    rearrange_masks(result_.groups, result_.masks);
    result_.kept_share = kept_share(result_.groups, result_.masks);
    const PrunedModel pruned = pruned_by(result_.masks);
    result_.after = costs_of(pruned.bundle());
    reconstruct(pruned, write);
    return std::move(result_);
  }

 private:
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

  // A run of the model on windows, one at a time.
  FitRequest request_of(const ModelBundle& bundle) const {
    FitRequest request = fit_request(bundle, options_.evaluation, nullptr, &dataset_, options_.memory);
    request.train_batch_size = 1;
    request.micro_batch_size = 1;
    return request;
  }

  void load(const Session& session, const ModelBundle& bundle) const {
    load_model(bundle, 0, [&](const std::string& name) { return session.parameter(name); });
  }

  void weigh() {
    ModelBundle masked = bundle_;
    masked.options.masked_maps = masked_maps(*bundle_.config.encoder);
    FitRequest request = request_of(masked);
    request.differentiates = true;
    const Session session(fit(request, backend_), backend_);
    load(session, masked);
    result_.windows = measure_mask_gradients(session, pass("weighing windows", options_.windows), result_.groups);
    if (result_.windows > 0) return;
    throw UsageError({.what = "no page has a label, so nothing says what heads and columns are worth",
                      .where = "--data",
                      .found = "windows without a label",
                      .allowed = "pages with labels, such as those that the model was trained on",
                      .remedy = "pass the training data with --data"});
  }

  Masks search(double share) const {
    return search_masks(result_.groups, share, {.uniform_columns = options_.layout == PrunedLayout::kTransformers});
  }
  PrunedModel pruned_by(const Masks& masks) const { return {bundle_, result_.groups, masks, options_.layout}; }
  ModelCosts costs_of(const ModelBundle& bundle) const {
    return model_costs(bundle, dataset_, options_.evaluation, options_.memory, keys_per_row_, held_bytes_, backend_);
  }

  // The largest share of the arithmetic that keeps to all targets.
  double choose_share() const {
    const double least = kept_share(result_.groups, search(0));
    if (options_.flops_share < least) {
      refuse("--to-flops", fmt::format("{:.3g}", options_.flops_share), fmt::format("{:.3g} or more", least));
    }
    if (!options_.seconds_per_page && !options_.peak_bytes) return options_.flops_share;
    const auto reaches = [&](const ModelCosts& costs) {
      return costs.seconds_per_page <= options_.seconds_per_page.value_or(costs.seconds_per_page) &&
             costs.predicted_peak_bytes <= options_.peak_bytes.value_or(costs.predicted_peak_bytes);
    };
    const auto costs_at = [&](double share) { return costs_of(pruned_by(search(share)).bundle()); };
    if (reaches(costs_at(options_.flops_share))) return options_.flops_share;
    const ModelCosts smallest = costs_at(least);
    if (options_.seconds_per_page && smallest.seconds_per_page > *options_.seconds_per_page) {
      refuse("--to-seconds", fmt::format("{:.3g}", *options_.seconds_per_page),
             fmt::format("{:.3g} or more", smallest.seconds_per_page));
    }
    if (options_.peak_bytes && smallest.predicted_peak_bytes > *options_.peak_bytes) {
      refuse("--to-memory", format_bytes(*options_.peak_bytes),
             fmt::format("{} MiB or more", smallest.predicted_peak_bytes / kMiB + 1));
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
    throw UsageError({.what = "the model cannot be pruned so far: each layer keeps a head and a block of columns",
                      .where = option,
                      .found = std::move(found),
                      .allowed = std::move(allowed),
                      .remedy = "ask for less, or train a smaller model"});
  }

  void reconstruct(const PrunedModel& pruned, const std::function<void(const SaveModel& save)>& write) {
    FitRequest request = request_of(bundle_);
    const std::int64_t rows =
        bundle_.config.encoder->rows({.samples = 1, .text_rows = request.evaluation_text_rows(1)});
    // Each plan counts what the process holds already, so that together they stay within the budget.
    Reconstruction reconstruction(result_.groups, result_.masks, *bundle_.config.encoder, rows, backend_, {});
    const Session whole(fit(request, backend_), backend_);
    load(whole, bundle_);
    const Session smaller(fit(request, backend_), backend_);
    load(smaller, bundle_);
    reconstruction.run(whole, smaller, pass("solving for weights, windows", options_.reconstruction_windows));
    write([&](const std::filesystem::path& directory) {
      return pruned.save(directory, [&](const ParameterSpec& spec, std::int64_t first, std::span<float> values) {
        smaller.parameter(spec.name).read(first, values);
      });
    });
  }

  const ModelBundle& bundle_;
  const Dataset& dataset_;
  const PruneOptions& options_;
  Backend& backend_;
  double keys_per_row_ = 0;
  std::size_t held_bytes_ = resident_bytes();  // before anything is planned
  Pruned result_;
};

}  // namespace

Pruned prune(const ModelBundle& bundle, const Dataset& dataset, const PruneOptions& options, Backend& backend,
             const std::function<void(const SaveModel& save)>& write) {
  return Pruning(bundle, dataset, options, backend).run(write);
}

}  // namespace plimsoll
