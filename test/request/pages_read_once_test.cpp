// A page's way from its file to the first update: its JSON is parsed once and its words are tokenised once, whatever
// reads it, and never where a cache has it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>

#include "request/labels.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

// What a page has of each task; long enough for two windows of 16 tokens.
fs::path write_task_pages(const fs::path& path, const std::string& task, int first, int count) {
  std::ofstream file(path);
  for (int page = first; page < first + count; ++page) {
    json object = {{"id", std::to_string(page)}, {"image", (test_data_dir() / "images" / "rgb.png").string()}};
    json labels = json::array();
    for (int word = 0; word < 20; ++word) {
      object["words"].push_back((word + page) % 3 == 0 ? "total" : "item" + std::to_string(page));
      object["boxes"].push_back({10 * word, 40 * page, 10 * word + 9, 40 * page + 30});
      labels.push_back((word + page) % 3 == 0 ? "B-TOTAL" : "O");
    }
    if (task == "token-classification") object["labels"] = labels;
    if (task == "sequence-classification") object["label"] = page % 2 == 0 ? "invoice" : "letter";
    if (task == "question-answering") {
      for (const char* text : {"how much?", "when?"}) {
        object["questions"].push_back(
            {{"question", text}, {"answers", {{{"start_word", page}, {"end_word", page + 2}}}}});
      }
    }
    if (task == "relation-extraction") {
      for (int word = 0; word < 3; ++word) {
        object["entities"].push_back({{"label", "item"}, {"start_word", word}, {"end_word", word + 1}});
      }
      object["links"] = {{0, 1}};
    }
    file << object.dump() << "\n";
  }
  return path;
}

// Trains one update and evaluates, as `plimsoll train` does it from the data on.
void train_first_update(const std::string& task, const DataRequest& data, const PagePaths& evaluation,
                        const fs::path& output_dir) {
  ModelBundle bundle = small_model();
  const ModelRequest model{.model = "", .task = task};
  set_task_and_labels(bundle, model);
  const RunPages pages = open_run_pages(bundle, model, data, evaluation);
  resolve_labels(bundle, model, *pages.train);
  const auto [train, held_out, findings] = open_run_data(bundle, data, pages, {.decode_images = true});
  ASSERT_GT(train->size(), train->source().size()) << "pages have several windows";
  TrainOptions options;
  options.output_dir = output_dir;
  options.train_batch_size = static_cast<std::int64_t>(train->size());  // every page is in the first update
  options.max_steps = 1;
  options.save_steps = 0;
  const MemoryRequest memory{
      .budget_bytes = std::size_t{1} << 30, .micro_batch_size = 2, .update = {}, .loader_workers = 2};
  CpuBackend backend(1);
  const Session session(fit(fit_request(bundle, options, train.get(), held_out.get(), memory), backend), backend);
  StopAfter observer;
  Trainer trainer(session, bundle, {.train = train.get(), .evaluation = held_out.get()}, options,
                  loader_options(memory), 1, observer);
  const TrainSummary summary = trainer.run(std::nullopt, observer.stop);
  EXPECT_EQ(summary.steps_here, 1);
  ASSERT_TRUE(summary.evaluation);
  EXPECT_EQ(summary.evaluation->pages, static_cast<std::int64_t>(held_out->source().size()));
}

class PagesReadOnce : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kTrained = 5, kEvaluated = 3;

  ScratchFolder folder_;
  PageCounts counts_;
  DataRequest data_{.data = {write_task_pages(folder_ / "train.jsonl", GetParam(), 0, kTrained)},
                    .box_format = BoxFormat::k1000,
                    .max_length = 32,
                    .stride = 4,
                    .work = folder_.path(),
                    .counts = &counts_};
  PagePaths evaluation_ = {write_task_pages(folder_ / "eval.jsonl", GetParam(), kTrained, kEvaluated)};
};

TEST_P(PagesReadOnce, WithoutACache) {
  train_first_update(GetParam(), data_, evaluation_, folder_.make("run"));
  EXPECT_EQ(counts_.parsed, kTrained + kEvaluated);
  EXPECT_EQ(counts_.tokenized, kTrained + kEvaluated);
}

TEST_P(PagesReadOnce, AndNeverAgainWithOne) {
  data_.cache = folder_ / "cache";
  train_first_update(GetParam(), data_, evaluation_, folder_.make("first"));
  EXPECT_EQ(counts_.parsed, kTrained + kEvaluated);
  EXPECT_EQ(counts_.tokenized, kTrained + kEvaluated);
  train_first_update(GetParam(), data_, evaluation_, folder_.make("second"));
  EXPECT_EQ(counts_.parsed, kTrained + kEvaluated);
  EXPECT_EQ(counts_.tokenized, kTrained + kEvaluated);
}

INSTANTIATE_TEST_SUITE_P(Tasks, PagesReadOnce,
                         testing::Values("token-classification", "sequence-classification", "question-answering",
                                         "relation-extraction"));

// Pages that pairs name by their ids are read once, however many pairs there are and whichever file has them.
TEST(PairsReadPagesOnce, OfTrainingAndEvaluation) {
  for (const char* task : {"pair-classification", "pair-ranking", "pair-similarity"}) {
    SCOPED_TRACE(task);
    const ScratchFolder folder;
    PageCounts counts;
    const auto write_pairs = [&](const char* name, int count) {
      std::string lines;
      for (int i = 0; i < count; ++i) {
        lines +=
            json({{"a", std::to_string(i % 5)}, {"b", std::to_string((i + 1) % 5)}, {"label", i % 5 == 1}}).dump() +
            "\n";
      }
      const std::string numbers = std::regex_replace(lines, std::regex("true"), "1");
      return folder.write(name, std::regex_replace(numbers, std::regex("false"), "0"));
    };
    const DataRequest data{.data = {write_pairs("train.jsonl", 20)},
                           .pages = {write_task_pages(folder / "pages.jsonl", task, 0, 5)},
                           .box_format = BoxFormat::k1000,
                           .max_length = 32,
                           .truncate = true,
                           .work = folder.path(),
                           .counts = &counts};
    ModelBundle bundle = small_model();
    const ModelRequest model{.model = "", .task = task};
    set_task_and_labels(bundle, model);
    const RunPages pages = open_run_pages(bundle, model, data, {write_pairs("eval.jsonl", 5)});
    resolve_labels(bundle, model, *pages.train);
    const auto [train, held_out, findings] = open_run_data(bundle, data, pages, {.decode_images = true});
    EXPECT_EQ(train->size(), bundle.task().name() == "pair-similarity" ? 4U : 20U);
    EXPECT_EQ(held_out->size(), 5U);
    TrainOptions options;
    options.output_dir = folder.make("run");
    options.train_batch_size = 4;
    options.max_steps = 3;
    options.save_steps = 0;
    const bool whole = bundle.definition().compares_examples();
    const MemoryRequest memory{
        .budget_bytes = std::size_t{1} << 30, .micro_batch_size = whole ? 4 : 2, .update = {}, .loader_workers = 2};
    CpuBackend backend(1);
    const Session session(fit(fit_request(bundle, options, train.get(), held_out.get(), memory), backend), backend);
    StopAfter observer;
    Trainer trainer(session, bundle, {.train = train.get(), .evaluation = held_out.get()}, options,
                    loader_options(memory), 1, observer);
    const TrainSummary summary = trainer.run(std::nullopt, observer.stop);
    EXPECT_EQ(summary.steps_here, 3);
    ASSERT_TRUE(summary.evaluation);
    EXPECT_EQ(summary.evaluation->pages, 5);
    EXPECT_EQ(counts.parsed, 5U);
    EXPECT_EQ(counts.tokenized, 5U);
  }
}

}  // namespace
}  // namespace plimsoll::test
