// GradCache: updates whose pages are embedded first and go backward chunk by chunk give the gradients of whole updates,
// with dropout on, for every task of pairs; and they fit where whole updates do not.
#include "model/grad_cache.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/bytes.h"
#include "base/dropout.h"
#include "request/labels.h"
#include "support/expect_error.h"
#include "train/run_memory.h"
#include "train/updates.h"
#include "trainer_fixture.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

constexpr int kPages = 9;
constexpr std::int64_t kPairsPerUpdate = 6;

// How updates are cut.
struct Way {
  GradCache grad_cache = GradCache::kOff;
  std::optional<std::int64_t> micro{};  // pairs
  std::int64_t chunk = 0;               // pages
};

struct AfterUpdates {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<float>> moments;  // AdamW's first ones: a tenth of the first update's gradients
  std::size_t arena_bytes = 0;
  std::vector<ProgramKind> programs;
};

class PairRun {
 public:
  explicit PairRun(std::string task, int pages_written = kPages, std::int64_t pairs = kPairsPerUpdate)
      : task_(std::move(task)), bundle_(small_model()) {
    write_pages(folder_.path(), pages_written);
    std::string lines;
    for (int i = 0; i < 2 * pages_written; ++i) {
      const int other = (i + 1 + i / pages_written) % pages_written;
      // Pages 2k and 2k + 1 belong together, so that there are negatives.
      const int label = task_ == "pair-similarity" ? (i < pages_written - 1 && i % 2 == 0 ? 1 : 0) : i % 2;
      lines +=
          json{{"a", std::to_string(i % pages_written)}, {"b", std::to_string(other)}, {"label", label}}.dump() + "\n";
    }
    data_ = {.data = {folder_.write("pairs.jsonl", lines)},
             .pages = {folder_.path() / "pages.jsonl"},
             .box_format = BoxFormat::k1000,
             .work = folder_.path()};
    const ModelRequest model{.model = "", .task = task_};
    set_task_and_labels(bundle_, model);
    const RunPages pages = open_run_pages(bundle_, model, data_, {});
    resolve_labels(bundle_, model, *pages.train);
    train_ = std::move(open_run_data(bundle_, data_, pages, {}).train);
    options.output_dir = folder_.make("run");
    options.train_batch_size = pairs;
    options.save_steps = 0;
  }

  FitRequest request(const Way& way, std::size_t budget = std::size_t{1} << 30) const {
    const MemoryRequest memory{.budget_bytes = budget,
                               .micro_batch_size = way.micro,
                               .grad_cache = way.grad_cache,
                               .update = {},
                               .loader_workers = 1};
    FitRequest request = fit_request(bundle_, options, train_.get(), nullptr, memory);
    if (way.chunk > 0) request.chunk_samples = way.chunk;
    return request;
  }

  AfterUpdates run(const Way& way, int updates = 1) const {
    CpuBackend backend(1);
    const Session session(fit(request(way), backend), backend);
    RunMemory memory(session, bundle_);
    memory.fill_fresh(7);
    const Sampler sampler(train_->examples(), sampler_options(options));
    const MemoryRequest loader{.micro_batch_size = {}, .update = {}, .loader_workers = 1};
    Updates all(session, bundle_, *train_, sampler, options, loader_options(loader), updates);
    AfterUpdates after;
    const Interrupt never;
    for (int step = 1; step <= updates; ++step) {
      all.open(step - 1);
      const UpdateResult result = all.run({.step = step,
                                           .optimizer_step = step,
                                           .dropout_key = dropout_key(42, static_cast<std::uint64_t>(step - 1)),
                                           .learning_rate = 1e-3},
                                          never);
      EXPECT_EQ(result.end, UpdateResult::End::kWhole);
      EXPECT_EQ(result.samples.size(), 2U * static_cast<std::size_t>(result.pages));
      after.losses.push_back(result.loss);
      after.norms.push_back(result.gradient_norm);
    }
    for (const auto& [name, entry] : session.plan().layout.entries()) {
      if (!name.ends_with(".exp_avg")) continue;
      std::vector<float>& values = after.moments[name];
      session.read_state(name, [&](std::span<const std::byte> bytes) {
        const std::size_t before = values.size();
        values.resize(before + bytes.size() / sizeof(float));
        std::memcpy(values.data() + before, bytes.data(), bytes.size());
      });
    }
    after.arena_bytes = session.plan().arena_bytes;
    for (const PlannedProgram& program : session.plan().programs) after.programs.push_back(program.kind);
    return after;
  }

  TrainOptions options;

 private:
  std::string task_;
  ScratchFolder folder_;
  ModelBundle bundle_;
  DataRequest data_;
  std::unique_ptr<Dataset> train_;
};

double length_of(const std::vector<float>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0, std::plus<>(),
                                      [](double a, double b) { return a * b; }));
}

// Sums over chunks end otherwise than sums over a whole update, in float's last bits.
void expect_same(const AfterUpdates& a, const AfterUpdates& b) {
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], 2e-6 * std::abs(b.losses[i]));
    EXPECT_NEAR(a.norms[i], b.norms[i], 2e-6 * b.norms[i]);
  }
  ASSERT_EQ(a.moments.size(), b.moments.size());
  double largest = 0;
  for (const auto& [name, values] : b.moments) largest = std::max(largest, length_of(values));
  ASSERT_GT(largest, 0);
  for (const auto& [name, values] : b.moments) {
    std::vector<float> difference = a.moments.at(name);
    ASSERT_EQ(difference.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    // Tensors with almost no gradient, such as the biases of keys, have its rounding errors alone.
    EXPECT_LE(length_of(difference), 2e-6 * length_of(values) + 1e-7 * largest) << name;
  }
}

class GradCaches : public testing::TestWithParam<const char*> {};

TEST_P(GradCaches, GiveTheGradientsOfWholeUpdates) {
  const PairRun run(GetParam());
  const AfterUpdates whole = run.run({.micro = kPairsPerUpdate});
  EXPECT_EQ(whole.programs, (std::vector{ProgramKind::kStep}));
  EXPECT_NE(whole.losses[0], 0);
  for (const std::int64_t pages : {1, 2, 3, 5, 12}) {
    SCOPED_TRACE(pages);
    const AfterUpdates cached = run.run({.grad_cache = GradCache::kOn, .chunk = pages});
    expect_same(cached, whole);
    EXPECT_EQ(cached.programs.front(), ProgramKind::kEmbed);
    const AfterUpdates again = run.run({.grad_cache = GradCache::kOn, .chunk = pages});
    EXPECT_EQ(again.losses, cached.losses);
    EXPECT_EQ(again.norms, cached.norms);
    EXPECT_EQ(again.moments, cached.moments);
  }
}

// Of several updates, the last of an epoch smaller, the dropout of each being its own.
TEST_P(GradCaches, GoOnLikeWholeUpdates) {
  const PairRun run(GetParam());
  const AfterUpdates whole = run.run({.micro = kPairsPerUpdate}, 5),
                     cached = run.run({.grad_cache = GradCache::kOn, .chunk = 3}, 5);
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(cached.losses[i], whole.losses[i], 1e-4 * std::abs(whole.losses[i]));
  }
  EXPECT_NE(whole.losses[0], whole.losses[1]);
}

INSTANTIATE_TEST_SUITE_P(Tasks, GradCaches, testing::Values("pair-classification", "pair-ranking", "pair-similarity"));

class GradCachePlans : public testing::Test {
 protected:
  GradCachePlans() : run_("pair-similarity", 24, 12), backend_(1) {}
  FitRequest request(GradCache grad_cache, std::size_t budget = std::size_t{1} << 30) const {
    FitRequest request = run_.request({.grad_cache = grad_cache}, budget);
    request.process_bytes = [] { return std::size_t{64} << 20; };  // which would vary
    // The loader's claimed memory outweighs what the small model needs.
    request.loader_bytes = [](const ModelCapacity& capacity) { return 2 * bytes_of_pages(capacity.samples); };
    request.chunks = [chunks = request.chunks](std::int64_t pages) {
      ChunkCut cut = chunks(pages);
      cut.loader_bytes = bytes_of_pages(pages);
      return cut;
    };
    return request;
  }
  static std::size_t bytes_of_pages(std::int64_t pages) { return static_cast<std::size_t>(pages) << 24; }
  std::size_t least_of(GradCache grad_cache) {
    return smallest_plan(request(grad_cache), backend_).predicted_peak_bytes;
  }

  PairRun run_;
  CpuBackend backend_;
};

// Whole updates are taken where they fit, chunks where they do not, and a refusal says that chunks would fit.
TEST_F(GradCachePlans, TakeChunksWhereAWholeUpdateDoesNotFit) {
  EXPECT_EQ(fit(request(GradCache::kAuto), backend_).levers.chunk_samples, 0);
  EXPECT_GT(fit(request(GradCache::kOn), backend_).levers.chunk_samples, 0);
  const std::size_t whole = least_of(GradCache::kOff), least = least_of(GradCache::kAuto);
  ASSERT_LT(least, whole);
  const std::size_t between = least + (whole - least) / 2;
  const RunPlan chosen = fit(request(GradCache::kAuto, between), backend_);
  EXPECT_GT(chosen.levers.chunk_samples, 0);
  EXPECT_LE(chosen.predicted_peak_bytes, between);
  try {
    fit(request(GradCache::kOff, between), backend_);
    FAIL() << "a whole update does not fit";
  } catch (const BudgetTooSmall& error) {
    EXPECT_NE(error.problem().remedy.find("--grad-cache auto"), std::string::npos) << error.problem().remedy;
  }
}

// More memory is never slower, and every budget above the least one is enough.
TEST_F(GradCachePlans, AreMonotoneInTheBudget) {
  const std::size_t least = least_of(GradCache::kAuto);
  // An estimate adds the code of its kernels to the process, which this one, of a fixed size, leaves out.
  const std::size_t most = fit(request(GradCache::kAuto, 0), backend_).predicted_peak_bytes + 8 * kMiB;
  double before = std::numeric_limits<double>::infinity();
  int chunks = 0;
  for (int i = 0; i <= 20; ++i) {
    const std::size_t budget = least + (most - least) * static_cast<std::size_t>(i) / 20;
    const std::optional<PlanSummary> plan = choose_plan(request(GradCache::kAuto, budget), backend_);
    ASSERT_TRUE(plan) << i;
    EXPECT_LE(plan->seconds_per_update, before * (1 + 1e-9)) << i;
    before = plan->seconds_per_update;
    chunks += plan->levers.chunk_samples > 0 ? 1 : 0;
  }
  EXPECT_GT(chunks, 0);
  EXPECT_LT(chunks, 21);
}

TEST(GradCachesOfOtherTasks, AreRefused) {
  const ScratchFolder folder;
  write_pages(folder.path());
  ModelBundle bundle = small_model();
  const auto pages =
      open_dataset(bundle, {.data = {folder.path() / "pages.jsonl"}, .box_format = BoxFormat::k1000}, false);
  const MemoryRequest memory{
      .budget_bytes = std::size_t{1} << 30, .micro_batch_size = {}, .grad_cache = GradCache::kOn, .update = {}};
  expect_error<UsageError>([&] { fit_request(bundle, {}, pages.get(), nullptr, memory); },
                           {"--grad-cache on", "the tasks for pairs"});
}

}  // namespace
}  // namespace plimsoll::test
