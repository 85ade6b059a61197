// Tests whole runs on a small model: stopping and resuming, accumulation, pages without labels, the logs.
#include "train/trainer.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "formats/safetensors.h"
#include "support/expect_error.h"
#include "support/log_capture.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

std::vector<nlohmann::json> read_lines(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// With seven pages by four, the last update of an epoch has three pages, its last micro-batch one. The stops are
// inside, at the end of and past the first epoch; order, dropout, schedule and moments must all continue correctly.
TEST(Trainer, StoppedAndResumedEndsWithTheSameBits) {
  const ScratchFolder folder;
  SmallRun whole(folder.make("whole"));
  whole.options.save_steps = 6;
  whole.options.log_order = true;
  whole.train();

  for (const std::int64_t stop_after : {1, 2, 3}) {
    SmallRun cut(folder.make("cut" + std::to_string(stop_after)));
    cut.options.save_steps = 6;
    cut.options.log_order = true;
    EXPECT_THROW(cut.train(std::nullopt, stop_after), InterruptedError);
    const fs::path saved = checkpoint_path(cut.options.output_dir, stop_after);
    ASSERT_EQ(list_checkpoints(cut.options.output_dir), std::vector<std::int64_t>{stop_after});
    EXPECT_EQ(read_trainer_state(saved).step, stop_after);
    const TrainSummary summary = cut.train(saved);
    EXPECT_EQ(summary.steps, 6);
    EXPECT_EQ(summary.steps_here, 6 - stop_after);
    for (const char* name :
         {"model.safetensors", "checkpoint-6/model.safetensors", "checkpoint-6/optimizer.safetensors", "order.jsonl"}) {
      EXPECT_TRUE(file_bytes(cut.options.output_dir / name) == file_bytes(whole.options.output_dir / name))
          << name << " after a stop at update " << stop_after;
    }
  }
}

// If dropout's keys or the order did not depend on the seed, the test above would prove less.
TEST(Trainer, SeedChangesTheRun) {
  const ScratchFolder folder;
  SmallRun one(folder.make("one")), other(folder.make("other"));
  other.options.seed = 43;
  one.train();
  other.train();
  EXPECT_NE(file_bytes(one.options.output_dir / "model.safetensors"),
            file_bytes(other.options.output_dir / "model.safetensors"));
}

TEST(Trainer, MicroBatchesAddUpToTheirBatch) {
  const ScratchFolder folder;
  std::map<std::int64_t, std::vector<StepReport>> reports;
  for (const std::int64_t micro : {1, 2, 3, 4}) {
    SmallRun run(folder.make("micro" + std::to_string(micro)));
    run.micro_batch = micro;
    run.options.learning_rate = 5e-4;
    run.train();
    reports[micro] = run.reports;
  }
  ASSERT_EQ(reports[4].size(), 6U);
  for (const std::int64_t micro : {1, 2, 3}) {
    ASSERT_EQ(reports[micro].size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) {
      const StepReport &whole = reports[4][i], &parts = reports[micro][i];
      EXPECT_NEAR(parts.loss, whole.loss, 1e-5 * whole.loss) << "update " << i << " in micro-batches of " << micro;
      EXPECT_NEAR(parts.gradient_norm, whole.gradient_norm, 1e-4 * whole.gradient_norm) << i << ", " << micro;
    }
  }
}

TEST(Trainer, PagesWithoutLabelsTeachNothingAndBreakNothing) {
  const ScratchFolder folder;
  const ModelBundle bundle = small_model();
  SmallRun run(folder.make("run"));
  CpuBackend backend(1);
  DatasetOptions options{.box_format = BoxFormat::k1000, .windows = window_options({}, bundle)};
  const DataRequest reading{.data = {run.data_folder() / "pages.jsonl"}};
  const auto pages = open_tokenized(bundle, reading, reading.data, {.ignore_labels = true});
  const Dataset data(pages, ImageProcessor(bundle.image), options);  // every label is -100
  run.options.max_grad_norm = 1.0;
  for (const std::int64_t micro : {2, 4}) {
    MemoryRequest memory;
    memory.budget_bytes = std::size_t{1} << 30;
    memory.micro_batch_size = micro;
    memory.loader_workers = 1;
    const Session session(fit(fit_request(bundle, run.options, &data, nullptr, memory), backend), backend);
    StopAfter observer;
    Trainer trainer(session, bundle, {.train = &data}, run.options, loader_options(memory), 1, observer);
    trainer.run(std::nullopt, observer.stop);
    ASSERT_EQ(observer.reports.size(), 6U);
    for (const StepReport& report : observer.reports) {
      EXPECT_EQ(report.loss, 0.0);
      EXPECT_EQ(report.gradient_norm, 0.0);
    }
    for (const ParameterSpec& spec : bundle.specs()) {
      for (const float value : session.persistent(spec.name).view().span<float>())
        ASSERT_TRUE(std::isfinite(value)) << spec.name;
    }
  }
}

TEST(Trainer, AScheduleThatGoesByEvaluationsResumesWhereItWas) {
  const ScratchFolder folder;
  const auto prepare = [](SmallRun& run) {
    run.evaluates = true;
    run.options.eval_steps = 1;
    run.options.save_steps = 6;
    // Nothing is ever that much better, so that the rate halves after the second evaluation and each one after it.
    run.options.schedule =
        parse_schedule("reduce_lr_on_plateau", R"({"patience": 0, "factor": 0.5, "threshold": 1000, "mode": "max"})");
  };
  SmallRun whole(folder.make("whole")), cut(folder.make("cut"));
  prepare(whole);
  prepare(cut);
  whole.train();
  const double peak = whole.options.learning_rate;
  std::vector<double> rates;
  for (const StepReport& report : whole.reports) rates.push_back(report.learning_rate / peak);
  EXPECT_EQ(rates, (std::vector<double>{1, 1, 0.5, 0.25, 0.125, 0.0625}));
  EXPECT_THROW(cut.train(std::nullopt, 4), InterruptedError);
  cut.train(checkpoint_path(cut.options.output_dir, 4));
  EXPECT_TRUE(file_bytes(cut.options.output_dir / "model.safetensors") ==
              file_bytes(whole.options.output_dir / "model.safetensors"));
}

TEST(Trainer, MetricsHaveEachUpdateOnceAfterAResume) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.save_steps = 2;
  run.evaluates = true;  // after updates 2, 4, 6
  run.train();
  const fs::path metrics = run.options.output_dir / "metrics.jsonl";
  const std::vector<nlohmann::json> before = read_lines(metrics);
  // Resumes from an older checkpoint, as after a kill between two of them: updates 5 and 6 are repeated.
  run.train(checkpoint_path(run.options.output_dir, 4));
  std::vector<std::int64_t> trained, evaluated;
  const std::vector<nlohmann::json> after = read_lines(metrics);
  for (const nlohmann::json& line : after) {
    (line.contains("eval_f1") ? evaluated : trained).push_back(line.at("step").get<std::int64_t>());
  }
  EXPECT_EQ(trained, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{2, 4, 6}));
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    for (const char* key : {"step", "loss", "grad_norm", "learning_rate", "eval_loss", "eval_f1"}) {
      EXPECT_EQ(after[i].contains(key) ? after[i][key] : nlohmann::json(),
                before[i].contains(key) ? before[i][key] : nlohmann::json())
          << key << " of line " << i;
    }
  }
}

TEST(Trainer, TheScreenSaysTheMeanThatMetricsSay) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.logging_steps = 3;
  run.train();
  const std::vector<nlohmann::json> lines = read_lines(run.options.output_dir / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t last = 3 * i + 2;
    EXPECT_FLOAT_EQ(run.reports[last].mean_loss, lines[i].at("loss").get<double>());
    EXPECT_DOUBLE_EQ(run.reports[last].mean_loss,
                     (run.reports[last - 2].loss + run.reports[last - 1].loss + run.reports[last].loss) / 3);
  }
}

TEST(Trainer, ARunThatGoesOnElsewhereSaysWhere) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.save_steps = 2;
  run.train();
  const fs::path state = checkpoint_path(run.options.output_dir, 4) / "trainer_state.json";
  nlohmann::json json = nlohmann::json::parse(file_bytes(state));
  EXPECT_EQ(json.at("device"), "cpu");
  json["device"] = "cuda";
  json["threads"] = 7;  // changes nothing
  std::ofstream(state) << json.dump();
  fs::remove(state.parent_path() / "checksums.json");  // changed on purpose
  const LogCapture log;
  run.train(checkpoint_path(run.options.output_dir, 4));
  EXPECT_TRUE(log.has("device: cuda then, cpu now")) << log.text();
  EXPECT_FALSE(log.has("threads")) << log.text();
}

// As EarlyStoppingCallback: the run ends after `patience` evaluations that are no better than the best by `threshold`,
// and one that was interrupted ends where the other does.
TEST(Trainer, StopsEarlyAndResumesToTheSamePoint) {
  const ScratchFolder folder;
  const auto prepare = [](SmallRun& run) {
    run.evaluates = true;
    run.options.eval_steps = 1;
    run.options.save_steps = 1;
    run.options.metric_for_best_model = "loss";
    run.options.early_stopping_patience = 3;
    run.options.early_stopping_threshold = 1000;  // nothing is ever that much better
  };
  SmallRun whole(folder.make("whole")), cut(folder.make("cut"));
  prepare(whole);
  prepare(cut);
  const TrainSummary summary = whole.train();
  EXPECT_EQ(summary.steps, 4);  // the first evaluation is the best so far
  EXPECT_TRUE(summary.stopped_early);
  EXPECT_THROW(cut.train(std::nullopt, 3), InterruptedError);
  EXPECT_EQ(cut.train(checkpoint_path(cut.options.output_dir, 3)).steps, 4);
  EXPECT_TRUE(file_bytes(cut.options.output_dir / "model.safetensors") ==
              file_bytes(whole.options.output_dir / "model.safetensors"));
  const LogCapture log;
  EXPECT_EQ(cut.train(checkpoint_path(cut.options.output_dir, 4)).steps_here, 0);
  EXPECT_TRUE(log.has("where the run stopped early")) << log.text();
  cut.options.early_stopping_patience = 4;
  EXPECT_EQ(cut.train(checkpoint_path(cut.options.output_dir, 4)).steps, 5);
}

TEST(Trainer, EvaluatesBeforeTheFirstUpdateWithoutCountingIt) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.evaluates = true;
  run.options.eval_on_start = true;
  run.options.eval_strategy = IntervalStrategy::kSteps;
  run.options.eval_steps = 3;
  run.options.metric_for_best_model = "loss";
  run.options.greater_is_better = true;  // so that the first evaluation would be the best
  const TrainSummary summary = run.train();
  std::vector<std::int64_t> evaluated;
  double worst = -1;
  for (const nlohmann::json& line : read_lines(run.options.output_dir / "metrics.jsonl")) {
    if (!line.contains("eval_loss")) continue;
    evaluated.push_back(line.at("step").get<std::int64_t>());
    if (evaluated.back() > 0) worst = std::max(worst, line.at("eval_loss").get<double>());
  }
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{0, 3, 6}));
  EXPECT_EQ(*summary.best_metric, worst);
  EXPECT_GT(summary.best_step, 0);
}

TEST(Trainer, CheckpointsMayHoldTheModelAlone) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.save_steps = 2;
  run.options.save_only_model = true;
  EXPECT_THROW(run.train(std::nullopt, 3), InterruptedError);
  EXPECT_FALSE(fs::exists(checkpoint_path(run.options.output_dir, 2) / "optimizer.safetensors"));
  EXPECT_TRUE(fs::exists(checkpoint_path(run.options.output_dir, 2) / "model.safetensors"));
  expect_error<UsageError>([&] { run.train(checkpoint_path(run.options.output_dir, 2)); },
                           {"without the optimizer's state", "checkpoint-2", "--model"});
  // The one that a signal asked for is complete.
  EXPECT_EQ(run.train(checkpoint_path(run.options.output_dir, 3)).steps_here, 3);
  EXPECT_FALSE(fs::exists(checkpoint_path(run.options.output_dir, 6) / "optimizer.safetensors"));
}

TEST(Trainer, SavesAfterTheBestEvaluations) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.evaluates = true;
  run.options.eval_steps = 1;
  run.options.learning_rate = 0.3;  // far too high: the loss goes up and down
  run.options.save_strategy = IntervalStrategy::kBest;
  run.options.metric_for_best_model = "loss";
  run.train();
  std::vector<std::int64_t> best;
  double least = INFINITY;
  for (const nlohmann::json& line : read_lines(run.options.output_dir / "metrics.jsonl")) {
    if (!line.contains("eval_loss") || line["eval_loss"].get<double>() >= least) continue;
    least = line["eval_loss"].get<double>();
    best.push_back(line["step"].get<std::int64_t>());
  }
  EXPECT_EQ(list_checkpoints(run.options.output_dir), best);
}

TEST(Trainer, TheDataHasASeedOfItsOwn) {
  const ScratchFolder folder;
  const auto order = [&](const char* name, std::optional<std::uint64_t> data_seed, SampleOrder sampling) {
    SmallRun run(folder.make(name));
    run.options.log_order = true;
    run.options.max_steps = 2;
    run.options.data_seed = data_seed;
    run.options.sampling = sampling;
    run.train();
    return read_lines(run.options.output_dir / "order.jsonl").at(0).at("examples");
  };
  EXPECT_EQ(order("same", 42, SampleOrder::kRandom), order("default", std::nullopt, SampleOrder::kRandom));
  EXPECT_NE(order("other", 7, SampleOrder::kRandom), order("default", std::nullopt, SampleOrder::kRandom));
  EXPECT_EQ(order("in_order", std::nullopt, SampleOrder::kSequential),
            nlohmann::json::parse("[[0, 0], [1, 0], [2, 0], [3, 0]]"));
}

TEST(Trainer, BestModelIsTheOneSaved) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.evaluates = true;
  run.options.eval_steps = 1;
  run.options.learning_rate = 0.3;  // far too high: the loss goes up and down
  run.options.load_best_model_at_end = true;
  run.options.metric_for_best_model = "loss";
  run.options.save_steps = 1;
  run.options.save_total_limit = 1;
  const TrainSummary summary = run.train();
  double best = INFINITY;
  std::int64_t best_step = 0;
  for (const nlohmann::json& line : read_lines(run.options.output_dir / "metrics.jsonl")) {
    if (!line.contains("eval_loss") || line["eval_loss"].get<double>() >= best) continue;
    best = line["eval_loss"].get<double>();
    best_step = line["step"].get<std::int64_t>();
  }
  EXPECT_EQ(summary.best_step, best_step);
  ASSERT_TRUE(summary.evaluation);
  EXPECT_EQ(summary.evaluation->loss, best);
  EXPECT_EQ(file_bytes(run.options.output_dir / "model.safetensors"),
            file_bytes(checkpoint_path(run.options.output_dir, best_step) / "model.safetensors"));
}

// Its checkpoint may have been removed since; then the run ends with a model all the same.
TEST(Trainer, ABestModelThatIsGoneIsForgotten) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.evaluates = true;
  run.options.eval_steps = run.options.save_steps = 1;
  run.options.load_best_model_at_end = true;
  run.options.metric_for_best_model = "loss";
  run.options.greater_is_better = true;
  run.options.learning_rate = 0.01;  // the loss falls, so that the first evaluation is taken for the best
  EXPECT_THROW(run.train(std::nullopt, 2), InterruptedError);
  fs::remove_all(checkpoint_path(run.options.output_dir, 1));
  const LogCapture log;
  const TrainSummary summary = run.train(checkpoint_path(run.options.output_dir, 2));
  EXPECT_TRUE(log.has("the best model so far, of update 1, is not in")) << log.text();
  EXPECT_GE(summary.best_step, 2);
  EXPECT_TRUE(fs::exists(run.options.output_dir / "model.safetensors"));
}

}  // namespace
}  // namespace plimsoll
