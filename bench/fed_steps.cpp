// Measures if the loader makes a step wait: runs the same updates of a small model, once on batches that were all made
// before, once while the loader makes them; both take turns, and the figure is the median of the rounds' ratios.
//
//   plimsoll_fed_steps --data receipts.jsonl [--tokenizer DIR] [--model layoutlmv3-tiny] [--cache
//   DIR]
//                      [--updates 50] [--rounds 7] [--threads 2]
//
// It uses wall time, which a loader on the same cores prolongs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/dropout.h"
#include "base/error.h"
#include "data/loader.h"
#include "fit/session.h"
#include "request/fit_request.h"
#include "request/labels.h"
#include "request/open_data.h"
#include "train/batch_binding.h"
#include "train/batch_shape.h"
#include "train/predictor.h"
#include "train/step_record.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

struct Settings {
  ModelRequest model{.model = "layoutlmv3-tiny"};
  DataRequest data;
  TrainOptions train;
  MemoryRequest memory;
  std::int64_t updates = 50;
  int rounds = 7, threads = 2;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class FedSteps {
 public:
  FedSteps(const Settings& settings, const ModelBundle& bundle, const Dataset& dataset, Backend& backend)
      : settings_(settings),
        bundle_(bundle),
        dataset_(dataset),
        session_(fit(fit_request(bundle, settings.train, &dataset, nullptr, settings.memory), backend), backend),
        sampler_(dataset.examples(),
                 {.seed = settings.train.seed, .train_batch_size = settings.train.train_batch_size}) {
    load_model(bundle, 1, [&](const std::string& name) { return session_.parameter(name); });
    for (const auto& [name, entry] : session_.plan().layout.entries()) {
      if (entry.role == Role::kState) session_.persistent(name).fill_zeros();
    }
  }

  // Returns the seconds of all updates. The loader may hold `slots` batches; if that is all of them, they are made
  // before the first update.
  double run(int slots) const {
    const std::int64_t micro = session_.plan().levers.micro_batch_size;
    BatchSequence sequence(sampler_, micro, {.updates = settings_.updates});
    LoaderOptions options = loader_options(settings_.memory);
    options.slots = slots;
    Loader loader(dataset_, sequence, batch_shape(bundle_.definition(), session_.plan().programs.front().capacity), 0,
                  options);
    // This is long enough to fill every slot, so that only later work is measured.
    if (slots > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    std::vector<std::unique_ptr<BatchBinding>> bindings(static_cast<std::size_t>(ProgramKind::kGradients) + 1);
    std::int64_t step = 0;
    const auto begin = Clock::now();
    while (const Batch* batch = loader.next()) {
      const bool last = batch->info().micro_batch + 1 == batch->info().micro_batches;
      const ProgramKind kind = step_program(session_, last);
      const Program& program = session_.program(kind);
      std::unique_ptr<BatchBinding>& binding = bindings[static_cast<std::size_t>(kind)];
      if (binding == nullptr) binding = std::make_unique<BatchBinding>(program, *batch, session_.plan().word_rows);
      binding->copy(*batch);
      StepScalars scalars;
      scalars.step = scalars.optimizer_step = step + 1;
      scalars.dropout_key = dropout_key(1, static_cast<std::uint64_t>(step));
      scalars.learning_rate = 1e-5;
      scalars.max_grad_norm = 1;
      scalars.labelled = batch->info().loss_weight_in_update;
      bind_scalars(*binding, scalars, batch->info().micro_batch == 0);
      program.run();
      step += last ? 1 : 0;
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  int all_slots() const {
    const std::int64_t micro = session_.plan().levers.micro_batch_size;
    BatchSequence sequence(sampler_, micro, {.updates = settings_.updates});
    return static_cast<int>(sequence.size()) + 1;
  }

 private:
  const Settings& settings_;
  const ModelBundle& bundle_;
  const Dataset& dataset_;
  Session session_;
  Sampler sampler_;
};

int run(int argc, char** argv) {
  CLI::App app("Times updates with and without the loader beside them");
  Settings settings;
  std::string data;
  app.add_option("--data", data, "pages")->required();
  app.add_option("--model", settings.model.model, "model")->capture_default_str();
  app.add_option("--tokenizer", settings.model.tokenizer, "tokenizer directory");
  app.add_option("--cache", settings.data.cache, "directory for the cache");
  app.add_option("--updates", settings.updates, "updates of a run")->capture_default_str();
  app.add_option("--rounds", settings.rounds, "runs of each kind")->capture_default_str();
  app.add_option("--threads", settings.threads, "compute threads")->capture_default_str();
  app.add_option("--dataloader-num-workers", settings.memory.loader_workers, "threads that read pages");
  CLI11_PARSE(app, argc, argv);

  CpuBackend backend(settings.threads);
  ModelBundle bundle = open_model(settings.model.model, settings.model.tokenizer, "");
  settings.data.data = {data};
  set_task_and_labels(bundle, settings.model);
  const RunPages run_pages = open_run_pages(bundle, settings.model, settings.data, {});
  resolve_labels(bundle, settings.model, *run_pages.train);
  const std::unique_ptr<Dataset> dataset = open_run_data(bundle, settings.data, run_pages).train;
  settings.memory.budget_bytes = std::size_t{4} << 30;
  settings.train.max_steps = settings.updates;
  const FedSteps steps(settings, bundle, *dataset, backend);
  const int all = steps.all_slots();
  steps.run(all);  // warms up
  std::vector<double> made, meanwhile, ratios;
  for (int round = 0; round < settings.rounds; ++round) {
    made.push_back(steps.run(all));
    meanwhile.push_back(steps.run(0));
    ratios.push_back(made.back() / meanwhile.back());
  }
  const double pages = static_cast<double>(settings.updates * settings.train.train_batch_size);
  constexpr double kBar = 0.97;
  const double ratio = median(ratios);
  fmt::print("batches made before: {:.1f} pages/s; with the loader: {:.1f} pages/s; ratio {:.3f}, bar {}: {}\n",
             pages / median(made), pages / median(meanwhile), ratio, kBar, ratio >= kBar ? "met" : "MISSED");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
