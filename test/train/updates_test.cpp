// Tests single updates and what is said to have come of them; trainer_test.cpp tests whole runs.
#include "train/updates.h"

#include <cmath>
#include <limits>

#include "base/dropout.h"
#include "train/run_memory.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;
using End = UpdateResult::End;

// Seven pages by four, two at a time; each page has its own picture.
class OneUpdate : public testing::Test {
 protected:
  OneUpdate() : bundle_(small_model()), backend_(1) {
    write_pages(folder_.path());
    std::ifstream lines(folder_.path() / "pages.jsonl");
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json json = nlohmann::json::parse(line);
      const fs::path image = image_of(std::stoul(json["id"].get<std::string>()));
      fs::copy_file(json["image"].get<std::string>(), image);
      json["image"] = image.string();
      text += json.dump() + "\n";
    }
    lines.close();
    std::ofstream(folder_.path() / "pages.jsonl") << text;
    options_.output_dir = folder_.make("run");
    options_.train_batch_size = 4;
    pages_ = open_dataset(bundle_, {.data = {folder_.path() / "pages.jsonl"}, .box_format = BoxFormat::k1000}, false);
    const MemoryRequest memory{
        .budget_bytes = std::size_t{1} << 30, .micro_batch_size = 2, .update = {}, .loader_workers = 1};
    session_.emplace(fit(fit_request(bundle_, options_, pages_.get(), nullptr, memory), backend_), backend_);
    sampler_.emplace(pages_->examples(), SamplerOptions{.seed = options_.seed, .train_batch_size = 4});
    updates_.emplace(*session_, bundle_, *pages_, *sampler_, options_, loader_options(memory), kSteps);
    memory_.emplace(*session_, bundle_);
    memory_->fill_fresh(0);
  }

  fs::path image_of(std::size_t page) const { return folder_.path() / ("image-" + std::to_string(page) + ".png"); }
  // The examples of the first update, in order.
  std::vector<std::uint32_t> first_examples() const {
    std::vector<std::uint32_t> order(sampler_->size());
    sampler_->epoch_order(0, order);
    const auto update = sampler_->update(order, 0);
    return {update.begin(), update.end()};
  }
  static StepScalars scalars(std::int64_t step) {
    return {.step = step, .dropout_key = dropout_key(42, static_cast<std::uint64_t>(step)), .learning_rate = 1e-3};
  }
  UpdateResult run(std::int64_t step) {
    updates_->open(step - 1);
    return updates_->run(scalars(step), interrupt_);
  }

  static constexpr std::int64_t kSteps = 6;
  ScratchFolder folder_;
  ModelBundle bundle_;
  CpuBackend backend_;
  TrainOptions options_;
  std::unique_ptr<Dataset> pages_;
  std::optional<Session> session_;
  std::optional<Sampler> sampler_;
  std::optional<Updates> updates_;
  std::optional<RunMemory> memory_;
  Interrupt interrupt_;
};

TEST_F(OneUpdate, IsWholeAndSaysItsPages) {
  const UpdateResult result = run(1);
  EXPECT_EQ(result.end, End::kWhole);
  EXPECT_GT(result.loss, 0);
  EXPECT_GT(result.gradient_norm, 0);
  std::vector<std::uint32_t> examples;
  for (const SampleReference& sample : result.samples) examples.push_back(sample.example);
  EXPECT_EQ(examples, first_examples());
  EXPECT_EQ(result.last_samples.size(), 2U);
  EXPECT_EQ(result.last_samples.data() + 2, result.samples.data() + 4);
  EXPECT_EQ(run(2).samples.size(), 3U);  // the rest of the epoch
}

TEST_F(OneUpdate, ThatIsDroppedBeginsAnewWithTheSameNumbers) {
  interrupt_.request_save();
  const UpdateResult dropped = run(1);
  EXPECT_EQ(dropped.end, End::kDropped);
  interrupt_.clear_save();
  const UpdateResult again = run(1);
  EXPECT_EQ(again.end, End::kWhole);
  const double loss = again.loss, norm = again.gradient_norm;
  memory_->fill_fresh(0);
  updates_->close();
  const UpdateResult whole = run(1);
  EXPECT_EQ(whole.loss, loss);
  EXPECT_EQ(whole.gradient_norm, norm);
}

TEST_F(OneUpdate, WithoutPagesHasNoNumbers) {
  for (const std::uint32_t example : first_examples()) sampler_->leave_out(pages_->examples()[example].page);
  const UpdateResult result = run(1);
  EXPECT_EQ(result.end, End::kWithoutPages);
  EXPECT_TRUE(std::isnan(result.loss) && std::isnan(result.gradient_norm));
  EXPECT_TRUE(result.samples.empty());
  EXPECT_EQ(run(2).end, End::kWhole);
}

TEST_F(OneUpdate, NamesAPageThatCannotBeReadAndRunsWithoutIt) {
  const std::uint32_t page = pages_->examples()[first_examples().back()].page;
  fs::resize_file(image_of(page), fs::file_size(image_of(page)) / 2);
  const UpdateResult bad = run(1);
  ASSERT_EQ(bad.end, End::kBadPage);
  EXPECT_EQ(bad.bad_page->page(), page);
  sampler_->leave_out(page);
  const UpdateResult result = run(1);
  EXPECT_EQ(result.end, End::kWhole);
  EXPECT_EQ(result.samples.size(), 3U);
}

TEST_F(OneUpdate, IsFaultyIfItsLossIsNotFinite) {
  const std::string name = bundle_.specs().back().name;
  std::vector<float> values(static_cast<std::size_t>(session_->persistent(name).elements()),
                            std::numeric_limits<float>::quiet_NaN());
  session_->persistent(name).write(std::as_bytes(std::span(values)));
  const UpdateResult result = run(1);
  EXPECT_EQ(result.end, End::kFaulty);
  EXPECT_TRUE(std::isnan(result.loss) && std::isnan(result.gradient_norm));
  EXPECT_TRUE(result.samples.empty());  // the first micro-batch was not finite
  std::int64_t micro_batches = 0;
  const std::optional<StepFault> found =
      updates_->find_fault(scalars(1), [&](const Batch& batch, const StepScalars& s) {
        ++micro_batches;
        EXPECT_EQ(s.labelled, batch.info().loss_weight_in_update);
      });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, StepFault::Kind::kHeld);
  EXPECT_EQ(found->tensor, name);
  EXPECT_EQ(micro_batches, 1);
}

}  // namespace
}  // namespace plimsoll
