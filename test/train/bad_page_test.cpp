// Tests pages that could be read when a run began, but cannot be read any more.
#include <csignal>
#include <map>

#include "base/error.h"
#include "support/log_capture.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class BadPage : public testing::Test {
 protected:
  static constexpr int kPages = 7;

  // Every page gets its own picture. With seven pages by four, six updates are three epochs.
  void set_up(SmallRun& run) {
    run.options.save_steps = 0;
    run.options.log_order = true;
    std::ifstream lines(run.data_folder() / "pages.jsonl");
    std::string text;
    int page = 0;
    for (std::string line; std::getline(lines, line); ++page) {
      nlohmann::json json = nlohmann::json::parse(line);
      fs::copy_file(json["image"].get<std::string>(), image_of(run, page));
      json["image"] = image_of(run, page).string();
      text += json.dump() + "\n";
    }
    ASSERT_EQ(page, kPages);
    lines.close();
    std::ofstream(run.data_folder() / "pages.jsonl") << text;
  }
  static fs::path image_of(const SmallRun& run, int page) {
    return run.data_folder() / ("image-" + std::to_string(page) + ".png");
  }
  static void spoil(const fs::path& image) { fs::resize_file(image, fs::file_size(image) / 2); }
  static void mend(const fs::path& image) {
    fs::copy_file(test_data_dir() / "images" / "rgb.png", image, fs::copy_options::overwrite_existing);
  }
  // Returns the pages of each update, from order.jsonl.
  static std::vector<std::vector<int>> order_of(const SmallRun& run) {
    std::vector<std::vector<int>> updates;
    std::ifstream file(run.options.output_dir / "order.jsonl");
    for (std::string line; std::getline(file, line);) {
      updates.emplace_back();
      const nlohmann::json json = nlohmann::json::parse(line);
      for (const auto& sample : json["examples"]) updates.back().push_back(sample[0]);
    }
    return updates;
  }
  // Returns the page that comes last in the fourth update, so that no loader reads it before the second has ended.
  int late_page() {
    SmallRun run(folder_.make("order"));
    set_up(run);
    run.train();
    return order_of(run)[3].back();
  }
  static std::string model_of(const SmallRun& run) { return file_bytes(run.options.output_dir / "model.safetensors"); }

  ScratchFolder folder_;
};

TEST_F(BadPage, IsLeftOutOfItsUpdateAndOfAllLaterOnes) {
  const int bad = late_page();
  for (const std::int64_t micro : {1, 2, 4}) {
    SmallRun run(folder_.make("run-" + std::to_string(micro)));
    set_up(run);
    run.micro_batch = micro;
    run.on_step = [&](const StepReport& report) {
      if (report.step == 2) spoil(image_of(run, bad));
    };
    const LogCapture log;
    const TrainSummary summary = run.train();
    EXPECT_EQ(summary.steps, 6);
    EXPECT_EQ(summary.skipped_updates, 0);
    ASSERT_EQ(summary.skipped_pages.size(), 1U);
    EXPECT_EQ(summary.skipped_pages[0].page, static_cast<std::uint32_t>(bad));
    EXPECT_NE(describe(summary.skipped_pages[0]).find("page '" + std::to_string(bad) + "'"), std::string::npos);
    EXPECT_TRUE(log.has("skipped from now on")) << log.text();
    const auto order = order_of(run);
    ASSERT_EQ(order.size(), 6U);
    for (std::size_t update = 3; update < 6; ++update) EXPECT_EQ(std::ranges::count(order[update], bad), 0) << update;
    EXPECT_EQ(order[3].size(), 2U) << "the epoch's last update had three pages";

    // The result equals that of a run that knew of the page when the fourth update began: loss divisor, dropout, all.
    SmallRun known(folder_.make("known-" + std::to_string(micro)));
    set_up(known);
    known.micro_batch = micro;
    EXPECT_THROW(known.train(std::nullopt, 3), InterruptedError);
    const fs::path saved = checkpoint_path(known.options.output_dir, 3);
    known.skipped = summary.skipped_pages;
    known.train(saved);
    EXPECT_TRUE(model_of(known) == model_of(run)) << "micro-batches of " << micro;
    EXPECT_EQ(order_of(known), order);
  }
}

// Whether the page was repaired or not, a resumed run does what the original would have done.
TEST_F(BadPage, StaysLeftOutAfterAResume) {
  const int bad = late_page();
  SmallRun whole(folder_.make("whole")), cut(folder_.make("cut"));
  for (SmallRun* run : {&whole, &cut}) {
    set_up(*run);
    run->on_step = [run, bad](const StepReport& report) {
      if (report.step == 2) spoil(image_of(*run, bad));
    };
  }
  whole.train();
  EXPECT_THROW(cut.train(std::nullopt, 5), InterruptedError);
  for (const bool mended : {false, true}) {
    if (mended) mend(image_of(cut, bad));
    const fs::path saved = checkpoint_path(cut.options.output_dir, 5);
    cut.skipped = read_trainer_state(saved).skipped_pages;
    ASSERT_EQ(cut.skipped.size(), 1U);
    EXPECT_EQ(cut.train(saved).skipped_pages.size(), 1U);
    EXPECT_TRUE(model_of(cut) == model_of(whole)) << "mended: " << mended;
  }
}

TEST_F(BadPage, StopsTheRunWhereThatIsAskedFor) {
  const int bad = late_page();
  SmallRun whole(folder_.make("whole")), run(folder_.make("run"));
  set_up(whole);
  whole.train();
  set_up(run);
  run.options.stop_on_bad_page = true;
  run.on_step = [&](const StepReport& report) {
    if (report.step == 2) spoil(image_of(run, bad));
  };
  try {
    run.train();
    FAIL() << "the run went on";
  } catch (const DataError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kData);
    EXPECT_NE(error.problem().where.find("page '" + std::to_string(bad) + "'"), std::string::npos);
    EXPECT_NE(error.problem().remedy.find("--resume-from-checkpoint latest, from update 3"), std::string::npos);
  }
  mend(image_of(run, bad));
  run.on_step = {};
  run.train(checkpoint_path(run.options.output_dir, 3));
  EXPECT_TRUE(model_of(run) == model_of(whole)) << "nothing was lost";
}

// An update whose pages are all bad changes nothing and counts as skipped.
TEST_F(BadPage, AnUpdateThatLosesAllItsPagesIsSkipped) {
  SmallRun run(folder_.make("run"));
  set_up(run);
  run.micro_batch = run.options.train_batch_size = 1;
  run.options.max_steps = 14;
  run.on_step = [&](const StepReport& report) {
    if (report.step == 7) spoil(image_of(run, 3));
  };
  const TrainSummary summary = run.train();
  EXPECT_EQ(summary.steps, 14);
  ASSERT_LE(summary.skipped_pages.size(), 1U);
  // The loader may have read the page for the second epoch before it was damaged.
  EXPECT_EQ(summary.skipped_updates, static_cast<std::int64_t>(summary.skipped_pages.size()));
}

TEST_F(BadPage, AFolderThatIsGoneEndsTheRunAndIsTriedAgain) {
  SmallRun whole(folder_.make("whole")), run(folder_.make("run"));
  set_up(whole);
  whole.train();
  set_up(run);
  const fs::path away = folder_.make("away");
  run.on_step = [&](const StepReport& report) {
    for (int page = 0; report.step == 2 && page < kPages; ++page) {
      fs::rename(image_of(run, page), away / std::to_string(page));
    }
  };
  try {
    run.train();
    FAIL() << "the run went on without pages";
  } catch (const DataError& error) {
    EXPECT_NE(error.problem().what.find("no readable page is left"), std::string::npos) << error.problem().what;
  }
  const std::int64_t saved = list_checkpoints(run.options.output_dir).back();
  EXPECT_TRUE(read_trainer_state(checkpoint_path(run.options.output_dir, saved)).skipped_pages.empty());
}

TEST_F(BadPage, IsLeftOutOfEvaluationsAndNamed) {
  SmallRun run(folder_.make("run"));
  set_up(run);
  run.evaluates = true;
  run.options.train_batch_size = 7;
  run.micro_batch = 7;
  run.options.max_steps = 2;
  run.on_step = [&](const StepReport& report) {
    if (report.step == 1) spoil(image_of(run, 3));
  };
  const TrainSummary summary = run.train();
  ASSERT_TRUE(summary.evaluation);
  EXPECT_EQ(summary.evaluation->pages, 6);
  EXPECT_TRUE(std::ranges::any_of(summary.skipped_pages, &SkippedPage::evaluation));
}

}  // namespace
}  // namespace plimsoll
