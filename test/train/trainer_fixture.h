// A run small enough for a test: seven pages of a few words, images of 32 x 32, one layer of 48, dropout on.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "fit/rank_fit.h"
#include "harness/paths.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "request/trained_parts.h"
#include "request/word_rows.h"
#include "support/far_backend.h"
#include "support/scratch_folder.h"
#include "train/trainer.h"

namespace plimsoll::test {

namespace fs = std::filesystem;

inline std::string file_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Writes pages of unequal length whose labels follow from their words, so there is something to learn.
inline fs::path write_pages(const fs::path& folder, int count = 7, const std::string& item = "item") {
  const fs::path image = test_data_dir() / "images" / "rgb.png";
  const fs::path path = folder / "pages.jsonl";
  std::ofstream file(path);
  for (int page = 0; page < count; ++page) {
    nlohmann::json words = nlohmann::json::array(), boxes = words, labels = words;
    for (int w = 0; w < 4 + page % 3; ++w) {
      const bool total = (page + w) % 3 == 0;
      words.push_back(total ? "total" : item + std::to_string(w));
      boxes.push_back({100 * w, 40 * page, 100 * w + 90, 40 * page + 30});
      labels.push_back(total ? "B-TOTAL" : "O");
    }
    file << nlohmann::json{{"id", std::to_string(page)},
                           {"image", image.string()},
                           {"words", words},
                           {"boxes", boxes},
                           {"labels", labels}}
                .dump()
         << "\n";
  }
  return path;
}

// Gives the model other values of config.json.
inline void change_config(ModelBundle& bundle, const nlohmann::json& keys) {
  nlohmann::json object = config_json(bundle.config);
  object.update(keys);
  bundle.config = parse_config(object, "config.json");
}

inline ModelBundle small_model() {
  ModelBundle bundle = open_model("layoutlmv3-tiny");
  change_config(bundle, {{"hidden_size", 48},
                         {"num_hidden_layers", 1},
                         {"num_attention_heads", 3},
                         {"intermediate_size", 96},
                         {"coordinate_size", 8},
                         {"shape_size", 8},
                         {"input_size", 32}});
  bundle.image.height = bundle.image.width = 32;
  bundle.config.task.labels = {"O", "B-TOTAL", "I-TOTAL"};
  return bundle;
}

// Sets `stop` after update `at`, as Ctrl-C would.
class StopAfter : public TrainObserver {
 public:
  explicit StopAfter(std::int64_t at = -1) : at_(at) {}
  void on_step(const StepReport& report) override {
    reports.push_back(report);
    if (report.step == at_) stop.request_end(SIGINT);
    if (then) then(report);
  }
  void on_checkpoint(const fs::path&) override {
    if (!limits_files) return;
    const rlimit small{256 << 10, 256 << 10};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  Interrupt stop;
  bool limits_files = false;  // from the first checkpoint on, to 256 KiB
  std::vector<StepReport> reports;
  std::function<void(const StepReport&)> then;  // after each update

 private:
  std::int64_t at_;
};

class SmallRun {
 public:
  explicit SmallRun(const fs::path& output_dir) : pages_(folder_.path()) {
    options.output_dir = output_dir;
    options.train_batch_size = 4;
    options.learning_rate = 2e-3;
    options.max_steps = 6;
    options.warmup_ratio = 0.2;
    options.logging_steps = 1;
    options.save_steps = 0;
    write_pages(pages_);
  }

  // Throws as Trainer::run does. `reports` holds the updates of the last call.
  TrainSummary train(const std::optional<fs::path>& resume = std::nullopt, std::int64_t stop_after = -1) {
    CpuBackend near(1);
    FarBackend far(near);
    const std::unique_ptr<Backend> other = make_backend ? make_backend() : nullptr;
    Backend& backend = other ? *other : far_memory ? static_cast<Backend&>(far) : near;
    ModelBundle bundle = model.empty() ? small_model() : open_model(model.string());
    if (!model_keys.empty()) change_config(bundle, model_keys);
    choose_trained_parts(bundle, parts);
    if (ranks != nullptr) {
      options.rank = ranks->rank();
      options.ranks = ranks->size();
    }
    bundle.config.task.loss = loss;
    const DataRequest reading{.data = {pages_ / "pages.jsonl"}, .box_format = BoxFormat::k1000};
    const RunPages pages = open_run_pages(bundle, {}, reading, evaluates ? reading.data : PagePaths());
    const auto [data, held_out, findings] =
        open_run_data(bundle, reading, pages, {.skipped = skipped, .class_weights = class_weights});
    // A device's budget includes its context.
    const MemoryRequest memory{.budget_bytes = std::size_t{make_backend ? 4U : 1U} << 30,
                               .micro_batch_size = micro_batch_here(),
                               .update = update,
                               .recompute = recompute,
                               .loader_workers = 1,
                               .zero_stage = zero_stage,
                               .sums_each_micro_batch = sums_each_micro_batch,
                               .bucket_bytes = std::size_t{20} << 10};
    if (knows_tokens) keep_word_rows(bundle, options, data.get(), held_out.get(), resume);
    FitRequest request = fit_request(bundle, options, data.get(), held_out.get(), memory);
    if (offload && !make_backend) request.step.stored = unchanging_parameters(bundle, options, true);
    const auto choose = [&](FitRequest& r) { return offload ? offloaded_plan(r, backend) : fit(r, backend); };
    const Session session(ranks == nullptr ? choose(request) : fit_on_ranks(request, backend, *ranks, choose), backend,
                          known_choices(resume, cache), ranks);
    choices = session.choices();
    offloaded_state_bytes = session.plan().offload.state_bytes();
    offloaded_activation_bytes = session.plan().offload.activation_bytes();
    offloaded_parameter_bytes = session.plan().offload.parameter_bytes();
    offloaded_in_place_bytes = session.plan().offload.in_place_bytes();
    StopAfter observer(stop_after);
    observer.limits_files = limit_files_after_checkpoint;
    observer.then = on_step;
    Trainer trainer(session, bundle, {.train = data.get(), .evaluation = held_out.get()}, options,
                    loader_options(memory), 1, observer);
    if (with_interrupt) with_interrupt(observer.stop);
    try {
      const TrainSummary summary = trainer.run(resume, observer.stop);
      reports = observer.reports;
      return summary;
    } catch (...) {
      reports = observer.reports;
      throw;
    }
  }

  // Evaluates a model on the run's pages, as `evaluates` does.
  Evaluation evaluate(const ModelBundle& bundle) const {
    CpuBackend backend(1);
    const auto data = open_dataset(bundle, {.data = {pages_ / "pages.jsonl"}, .box_format = BoxFormat::k1000}, true);
    const MemoryRequest memory{
        .budget_bytes = std::size_t{1} << 30, .micro_batch_size = micro_batch, .update = {}, .loader_workers = 1};
    const Session session(fit(fit_request(bundle, options, nullptr, data.get(), memory), backend), backend);
    load_model(bundle, 0, [&](const std::string& name) { return session.parameter(name); });
    return plimsoll::evaluate(session, bundle, *data, loader_options(memory));
  }

  // Plans with everything possible in the file, whatever the budget.
  RunPlan offloaded_plan(FitRequest request, Backend& backend) const {
    request.offload = backend.offload_speed() ? OffloadTarget::kHost : OffloadTarget::kFile;
    request.offload_directory = folder_.path();
    request.speeds.offload_read_seconds_per_byte = request.speeds.offload_write_seconds_per_byte = 1e-9;
    const ModelCapacity capacity{.samples = micro_batch, .text_rows = request.text_rows(micro_batch)};
    const bool whole = micro_batch == options.train_batch_size;
    const auto all = rank_step_offloads(whole ? ProgramKind::kStep : ProgramKind::kAccumulateAndStep, request.step,
                                        capacity, request.update_text_rows);
    return plan_run(
        request,
        {.micro_batch_size = micro_batch, .update = update.value_or(UpdateMode::kAfterBackward), .offload = all},
        backend);
  }

  // A rank has at most its share of an update.
  std::int64_t micro_batch_here() const {
    return std::min<std::int64_t>(micro_batch, (options.train_batch_size + options.ranks - 1) / options.ranks);
  }

  const fs::path& data_folder() const { return pages_; }
  // Gives the pages' words, except those that count, other names.
  void rename_words(const std::string& item) const { write_pages(pages_, 7, item); }

  TrainOptions options;
  fs::path model;             // empty: small_model()
  nlohmann::json model_keys;  // values of its config.json; null: as it is
  bool knows_tokens = true;   // memory has only the rows of the data's tokens
  PartsRequest parts;
  ClassWeightRequest class_weights;
  LossOptions loss;
  std::int64_t micro_batch = 2;
  Communicator* ranks = nullptr;  // of several that train together
  int zero_stage = 0;
  std::optional<bool> sums_each_micro_batch;
  std::optional<UpdateMode> update;
  RecomputeMode recompute = RecomputeMode::kAuto;
  bool evaluates = false;
  std::vector<SkippedPage> skipped;  // pages that the resumed run leaves out
  std::function<void(const StepReport&)> on_step;
  std::function<void(Interrupt&)> with_interrupt;            // called before the run begins
  bool far_memory = false;                                   // uses a FarBackend
  std::function<std::unique_ptr<Backend>()> make_backend{};  // makes another backend; empty: the CPU's
  fs::path cache;                                            // directory of choices; empty: none
  Choices choices;                                           // those of the last call of train
  bool offload = false, limit_files_after_checkpoint = false;
  // Those of the last call of train.
  std::uint64_t offloaded_state_bytes = 0, offloaded_activation_bytes = 0, offloaded_parameter_bytes = 0;
  std::uint64_t offloaded_in_place_bytes = 0;
  std::vector<StepReport> reports;

 private:
  ScratchFolder folder_;
  fs::path pages_;
};

}  // namespace plimsoll::test
