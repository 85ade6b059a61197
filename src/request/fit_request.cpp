#include "request/fit_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/offload_file.h"
#include "data/sampler.h"
#include "fit/phases.h"
#include "model/grad_cache.h"
#include "request/teacher.h"
#include "tasks/tasks.h"
#include "train/batch_shape.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "transform/optimizer.h"

namespace plimsoll {
namespace {

// Capacities in steps that suit the matrix kernels.
constexpr std::int64_t kRowStep = 16;

std::int64_t rounded_rows(std::int64_t rows) {
  return static_cast<std::int64_t>(round_up(static_cast<std::size_t>(std::max<std::int64_t>(rows, 1)), kRowStep));
}

// Returns the bytes of what is found on the largest page or document of an evaluation; 0 if they are few, which the
// reserve for libraries has room for.
std::size_t result_bytes(const ModelBundle& bundle, const Dataset& evaluation, const MemoryRequest& memory) {
  constexpr std::size_t kFew = kMiB;
  const Task& task = bundle.task();
  const PageSizes& sizes = evaluation.options().sizes;
  std::size_t bytes = task.scoring_bytes(sizes.page);
  if (memory.written) {
    const auto written = [&](const PageSize& size) {
      return task.prediction_bytes(size, bundle.config.task, *memory.written);
    };
    // A document has its fields twice.
    bytes += std::max(written(sizes.page), 2 * written(sizes.document));
  }
  if (memory.keeps_found) {
    // Those of two models. The lists of pages double as they grow, and each page's is an allocation of its own.
    constexpr std::size_t kPage = sizeof(std::vector<std::uint64_t>) + sizeof(Scores::Quotient), kAllocation = 32;
    bytes += 2 * (std::max({sizes.all.words, sizes.all.subjects, sizes.all.pairs}) * sizeof(std::uint64_t) +
                  evaluation.source().size() * (3 * kPage + kAllocation));
  }
  // Scorers that look at the page, and predictions, read it once more.
  if (memory.written || task.scoring_bytes(sizes.page) > 0) bytes += evaluation.reading_bytes();
  return bytes < kFew ? 0 : bytes;
}

// A loss that compares the examples of an update is computed for all of them at once.
void compare_whole_updates(const TrainOptions& options, const FitRequest& request) {
  const std::int64_t batch = request.train_batch_size;
  if (options.ranks > 1) {
    throw UsageError({.what = "a loss that compares the pairs of an update needs all of them in one process",
                      .where = "--task",
                      .found = fmt::format("{} processes", options.ranks),
                      .allowed = "one process",
                      .remedy = "train in one process, or with --task pair-classification"});
  }
  const bool caches = request.chunks && request.grad_cache != GradCache::kOff;
  if (!caches && request.micro_batch_size.value_or(batch) != batch) {
    throw UsageError({.what = "a loss that compares the pairs of an update needs all of them in one micro-batch",
                      .where = "--micro-batch-size",
                      .found = fmt::format("{}", *request.micro_batch_size),
                      .allowed = fmt::format("{}, the pairs of an update", batch),
                      .remedy = request.chunks ? "omit --grad-cache off, or --micro-batch-size"
                                               : "omit --micro-batch-size; fewer pairs an update need less memory"});
  }
}

// Adds the cutting of an update's pages into chunks, each computed twice: only in one process, if the encoder trains,
// and without a teacher.
void add_chunks(const TrainOptions& options, const Dataset& train, std::int64_t epochs, const LoaderOptions& loader,
                FitRequest& request) {
  const ModelDefinition& model = request.step.definition;
  const std::vector<ParameterSpec> specs = model.specs(request.step.model);
  const bool trains = std::ranges::any_of(specs, [](const auto& spec) { return spec.trains && !spec.is_head(); });
  if (!has_grad_cache(model) || !trains || options.ranks > 1 || options.teacher != nullptr) {
    if (request.grad_cache == GradCache::kOn) {
      throw UsageError({.what = "embeddings cannot be cached here",
                        .where = "--grad-cache on",
                        .found = !has_grad_cache(model)       ? "a task that reads more of a page than its first row"
                                 : !trains                    ? "an encoder that does not train"
                                 : options.teacher != nullptr ? "a teacher, --distil-from"
                                                              : fmt::format("{} processes", options.ranks),
                        .allowed = "the tasks for pairs, in one process, without a teacher",
                        .remedy = "omit --grad-cache"});
    }
    return;
  }
  std::int64_t longest = 0, tokens = 0;
  for (const Example& example : train.examples()) {
    tokens += example.tokens;
    longest = std::max({longest, std::int64_t{example.begin}, std::int64_t{example.tokens} - example.begin});
  }
  const double mean = static_cast<double>(tokens) / static_cast<double>(2 * train.examples().size());
  const std::int64_t update = model.samples({.samples = request.train_batch_size});
  const auto known = std::make_shared<std::map<std::int64_t, ChunkCut>>();
  request.chunks = [&train, model, order = sampler_options(options), epochs, loader, longest, mean, update,
                    known](std::int64_t samples) {
    const auto [found, inserted] = known->try_emplace(samples);
    ChunkCut& cut = found->second;
    if (!inserted) return cut;
    // A chunk of long pages has fewer pages.
    const auto usual = static_cast<std::int64_t>(std::ceil(mean * static_cast<double>(samples)));
    const ChunkLimits limits{.samples = samples, .text_rows = rounded_rows(std::max(longest, usual))};
    const Sampler sampler(train.examples(), order);
    std::vector<std::uint32_t> pairs(sampler.size()), begins;
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      sampler.epoch_order(static_cast<std::uint64_t>(epoch), pairs);
      for (std::int64_t u = 0; u < sampler.updates_per_epoch(); ++u) {
        begins.clear();
        const std::int64_t rows = cut_into_chunks(train.examples(), sampler.update(pairs, u), limits, begins);
        cut.text_rows = std::max(cut.text_rows, rounded_rows(rows));
        cut.most_chunks = std::max(cut.most_chunks, static_cast<std::int64_t>(begins.size()));
      }
    }
    const ModelCapacity capacity{.samples = samples, .text_rows = cut.text_rows};
    const BatchSequence sequence(sampler, ChunkLimits{.samples = samples, .text_rows = cut.text_rows},
                                 {.epoch = 0, .update = 0, .updates = 1});
    const BatchShape shape = batch_shape(embedding_part(model, EmbeddingPass::kPut, update), capacity);
    cut.loader_bytes = static_cast<std::size_t>(Loader::host_bytes(train, sequence, shape, loader));
    return cut;
  };
}

// Returns "the longest is train.jsonl:14, page 'a12' (1862 tokens);", and in a second line the length of most pages, if
// it is an outlier.
std::string longest_of(const Dataset& dataset) {
  constexpr std::size_t kFewest = 10;
  constexpr int kFactor = 2;
  const std::span<const Example> examples = dataset.examples();
  if (examples.size() < kFewest) return {};
  std::vector<int> tokens;
  for (const Example& example : examples) tokens.push_back(example.tokens);
  const auto ninth = tokens.begin() + std::ssize(tokens) * 9 / 10;
  std::ranges::nth_element(tokens, ninth);
  const Example& longest = *std::ranges::max_element(examples, {}, &Example::tokens);
  if (longest.tokens < kFactor * *ninth) return {};
  return fmt::format("the longest is {} ({});\n           nine of ten have at most {}",
                     place(dataset.source().read(longest.page)), counted(longest.tokens, "token"),
                     counted(*ninth, "token"));
}

}  // namespace

std::int64_t updates_of(const TrainOptions& options, const Dataset& train) {
  return total_steps(options, Sampler(train.examples(), sampler_options(options)).updates_per_epoch());
}

std::shared_ptr<const std::map<std::string, StoredTensor>> unchanging_parameters(const ModelBundle& bundle,
                                                                                 const TrainOptions& options,
                                                                                 bool trains) {
  const auto stored = [](const ModelBundle& model) {
    return model.weights == nullptr ? std::map<std::string, StoredTensor>()
                                    : stored_parameters(model.specs(), model.source(0));
  };
  std::map<std::string, StoredTensor> all = stored(bundle);
  for (const ParameterSpec& spec : bundle.specs()) {
    if (trains && spec.trains) all.erase(spec.name);
  }
  if (trains && options.teacher != nullptr) {
    for (auto& [name, tensor] : stored(*options.teacher)) all.emplace(std::string(kTeacherPrefix) + name, tensor);
  }
  return std::make_shared<const std::map<std::string, StoredTensor>>(std::move(all));
}

OptimizerOptions optimizer_options(const ModelBundle& bundle, const TrainOptions& options) {
  OptimizerOptions optimizer;
  optimizer.kind = options.optim;
  optimizer.adamw = {.beta1 = options.adam_beta1,
                     .beta2 = options.adam_beta2,
                     .eps = options.adam_epsilon,
                     .weight_decay = options.weight_decay};
  optimizer.rate_factor =
      [factors = rate_factors(bundle.specs(), options.rates, options.learning_rate)](const std::string& name) {
        const auto found = factors.find(name);
        return found == factors.end() ? 1.0 : found->second;
      };
  // As in transformers' Trainer: excludes the names for biases and norms, and the scales of all norms.
  std::set<std::string> scales;
  for (const ParameterSpec& spec : bundle.specs()) {
    if (spec.init == ParameterSpec::Init::kOnes) scales.insert(spec.name);
  }
  optimizer.decays = [scales = std::move(scales)](const std::string& name) {
    return decays_by_default(name) && !scales.contains(name);
  };
  optimizer.clips = options.max_grad_norm > 0;
  optimizer.unscales = options.precision == DType::kF16;
  return optimizer;
}

FitRequest fit_request(const ModelBundle& bundle, const TrainOptions& options, const Dataset* train,
                       const Dataset* evaluation, const MemoryRequest& memory) {
  FitRequest request;
  request.step.definition = bundle.definition();
  if (options.pad_to > 0 && request.step.definition.samples_per_example() > 1) {
    throw UsageError({.what = "pairs of pages are never padded",
                      .where = "--pad-to-max-length",
                      .found = std::string(bundle.task().name()),
                      .remedy = "omit --pad-to-max-length"});
  }
  request.step.model = bundle.options;
  request.step.optimizer = optimizer_options(bundle, options);
  request.step.precision = options.precision;
  // Ranks divide an update; in an evaluation, each takes whole micro-batches.
  const std::int64_t ranks = train == nullptr ? 1 : options.ranks;
  request.train_batch_size = (options.train_batch_size + ranks - 1) / ranks;
  request.step.ranks.rank = options.rank;
  request.step.ranks.ranks = options.ranks;
  request.step.ranks.bucket_bytes = memory.bucket_bytes;
  request.zero_stage = memory.zero_stage;
  request.sums_each_micro_batch = memory.sums_each_micro_batch;
  request.micro_batch_size = memory.micro_batch_size;
  request.grad_cache = memory.grad_cache;
  request.update = memory.update;
  request.recompute = memory.recompute;
  request.speeds = memory.speeds;
  if (memory.offload != OffloadTarget::kNone) {
    const TransferSpeed speed =
        memory.offload == OffloadTarget::kFile ? measure_disk(memory.offload_directory) : memory.host_speed;
    request.offload = memory.offload;
    request.offload_directory = memory.offload_directory;
    request.speeds.offload_read_seconds_per_byte = 1 / speed.read_bytes_per_second;
    request.speeds.offload_write_seconds_per_byte = 1 / speed.write_bytes_per_second;
    request.speeds.offload_both_ways = speed.both_ways;
    if (memory.offload == OffloadTarget::kFile)
      request.step.stored = unchanging_parameters(bundle, options, train != nullptr);
  }
  if (train != nullptr && options.teacher != nullptr) {
    request.step.teacher = teacher_options(options);
  }
  request.trains = train != nullptr;
  request.pretrained = bundle.weights != nullptr;
  for (const auto& [name, config] : smaller_presets(bundle.config)) {
    request.smaller_models.push_back({name, task_of(config.task).model(config.encoder, config.task)});
  }
  request.evaluates = evaluation != nullptr;
  if (options.load_best_model_at_end || options.early_stopping_patience > 0 ||
      options.save_strategy == IntervalStrategy::kBest) {
    request.evaluation_options = {};
  } else if (options.eval_steps > 0) {
    request.evaluation_options = "--eval-data and --eval-steps";
  }
  request.resumes = memory.resumes;
  request.may_quantize = memory.may_quantize;
  request.least_window = memory.least_window;
  if (memory.held_bytes) hold_at_most(request, *memory.held_bytes);
  request.drawing_bytes = memory.drawing_bytes;
  if (evaluation != nullptr) request.result_bytes = result_bytes(bundle, *evaluation, memory);
  request.budget_bytes = resolve_budget(memory);
  request.budget_option = memory.budget_option;
  request.host_budget_bytes = memory.host_budget_bytes;
  if (train != nullptr) {
    const SamplerOptions order = sampler_options(options);
    const Sampler sampler(train->examples(), order);
    const std::int64_t per_epoch = sampler.updates_per_epoch();
    request.updates = total_steps(options, per_epoch);
    const std::int64_t epochs = (request.updates + per_epoch - 1) / per_epoch;
    // The order of pages is known, so the most rows of any micro-batch of the run are known, not guessed.
    const auto most_rows = [train, order, epochs](std::int64_t micro) {
      return Sampler(train->examples(), order).largest_text_rows(0, static_cast<std::uint64_t>(epochs), micro);
    };
    request.text_rows = [most_rows](std::int64_t micro) { return rounded_rows(most_rows(micro)); };
    request.update_text_rows = rounded_rows(most_rows(request.train_batch_size));
    add_chunks(options, *train, epochs, loader_options(memory), request);
    if (request.step.definition.compares_examples()) {
      if (options.train_batch_size < 2) {
        throw UsageError({.what = "the loss compares each pair with the others of its update, and there are none",
                          .where = "--train-batch-size",
                          .found = "1 pair an update",
                          .allowed = "2 or more; more pairs give a better model",
                          .remedy = "pass --train-batch-size 16"});
      }
      compare_whole_updates(options, request);
    }
  }
  request.outlier = [train, evaluation] {
    std::string text;
    for (const Dataset* const dataset : {train, evaluation}) {
      if (text.empty() && dataset != nullptr) text = longest_of(*dataset);
    }
    return text;
  };
  if (evaluation != nullptr) {
    request.evaluation_text_rows = [evaluation](std::int64_t micro) {
      const Sampler sampler(evaluation->examples(),
                            {.seed = 0, .train_batch_size = micro, .order = SampleOrder::kSequential});
      return rounded_rows(sampler.largest_text_rows(0, 1, micro));
    };
  }
  const LoaderOptions loader = loader_options(memory);
  request.loader_bytes = [model = bundle.definition(), train, evaluation, loader,
                          held = options.ranks](const ModelCapacity& capacity) {
    const BatchShape shape = batch_shape(model, capacity);
    std::size_t most = 0;
    for (const Dataset* dataset : {train, evaluation}) {
      if (dataset == nullptr) continue;
      const Sampler sampler(dataset->examples(), {.seed = 0, .train_batch_size = capacity.samples});
      const BatchSequence sequence(sampler, capacity.samples, {.epoch = 0, .update = 0, .updates = 1});
      LoaderOptions its = loader;
      if (dataset == evaluation) its.held = held;  // train/predictor.h
      most = std::max(most, static_cast<std::size_t>(Loader::host_bytes(*dataset, sequence, shape, its)));
    }
    return most;
  };
  return request;
}

FitRequest generation_request(const ModelBundle& bundle, const TrainOptions& options, std::int64_t tokens,
                              const MemoryRequest& memory) {
  std::optional<ModelDefinition> model = bundle.task().next_token_model(bundle.config.encoder);
  if (!model) {
    throw UsageError({.what = "the model writes no texts",
                      .where = "--model",
                      .found = fmt::format("{}, a model for {}", bundle.origin, bundle.task().name()),
                      .allowed = "a causal language model",
                      .remedy = "plimsoll predict says what this model finds"});
  }
  FitRequest request = fit_request(bundle, options, nullptr, nullptr, memory);
  request.step.definition = std::move(*model);
  request.step.cached_tokens = tokens;
  request.generates = true;
  return request;
}

KnownChoices known_choices(const std::optional<std::filesystem::path>& resume, const std::filesystem::path& cache) {
  if (!resume) return {.recorded = {}, .recorded_in = {}, .cache = cache};
  return {.recorded = read_trainer_state(*resume).choices, .recorded_in = resume->string(), .cache = cache};
}

}  // namespace plimsoll
