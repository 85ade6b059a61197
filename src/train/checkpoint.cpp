#include "train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/work_folder.h"
#include "bundle/adapter.h"
#include "formats/checksums.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "train/moment_rows.h"
#include "transform/optimizer.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
constexpr const char* kStateFile = "trainer_state.json";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kPrefix = "checkpoint-";

nlohmann::json to_json(const AdaptedRate& adapted) {
  return {{"rate", adapted.rate},         {"best", adapted.best ? nlohmann::json(*adapted.best) : nlohmann::json()},
          {"bad", adapted.bad},           {"good", adapted.good},
          {"cooldown", adapted.cooldown}, {"warmup", adapted.warmup},
          {"at_least", adapted.at_least}, {"window", adapted.window}};
}

AdaptedRate parse_adapted_rate(const nlohmann::json& object) {
  AdaptedRate adapted{.rate = object.at("rate").get<double>()};
  if (!object.at("best").is_null()) adapted.best = object.at("best").get<double>();
  for (const auto& [name, count] : {std::pair("bad", &adapted.bad),
                                    {"good", &adapted.good},
                                    {"cooldown", &adapted.cooldown},
                                    {"warmup", &adapted.warmup},
                                    {"at_least", &adapted.at_least}}) {
    *count = object.at(name).get_ref<const std::int64_t&>();
  }
  adapted.window = object.at("window").get<std::vector<double>>();
  return adapted;
}

nlohmann::json to_json(const TrainerState& state) {
  return {{"global_step", state.step},
          {"max_steps", state.total_steps},
          {"seed", state.seed},
          {"train_batch_size", state.train_batch_size},
          {"micro_batch_size", state.micro_batch_size},
          {"chunk_samples", state.chunk_samples},
          {"ranks", state.ranks},
          {"gradient_sync", state.gradient_sync},
          {"examples", state.examples},
          {"max_length", state.max_length},
          {"device", state.device},
          {"threads", state.threads},
          {"optim", state.optimizer},
          {"data", state.data},
          {"data_tokens", state.tokens},
          {"data_labels", state.labels},
          {"data_images", state.images},
          {"base_weights", state.base},
          {"options", state.options},
          {"loss_scale", state.scaler.scale},
          {"loss_scale_since_change", state.scaler.since_change},
          {"skipped_updates", state.scaler.skipped},
          {"interval_loss", state.interval_loss},
          {"interval_steps", state.interval_steps},
          {"best_metric", state.best_metric ? nlohmann::json(*state.best_metric) : nlohmann::json()},
          {"best_global_step", state.best_step},
          {"judged_by", state.judged_by},
          {"greater_is_better", state.greater_is_better ? nlohmann::json(*state.greater_is_better) : nlohmann::json()},
          {"evaluations_without_gain", state.evaluations_without_gain},
          {"adapted_rate", state.adapted_rate ? to_json(*state.adapted_rate) : nlohmann::json()},
          {"evaluation_due", state.evaluation_due},
          {"only_model", state.only_model},
          {"skipped_pages", skipped_pages_json(state.skipped_pages)},
          {"choices", choices_json(state.choices)}};
}

// States are stored flat.
TensorType stored_type(const TensorType& state) { return {state.dtype, {state.shape.elements()}}; }

// Returns N for "checkpoint-N".
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || begin == end) return std::nullopt;
  return step;
}

// The checkpoint loses its name first, so that a run killed here leaves no half checkpoint under a checkpoint's name.
void remove_checkpoint(const fs::path& path) {
  const fs::path directory = path.parent_path();
  const std::string name = path.filename().string();
  const fs::path aside = make_work_directory(directory, name);
  std::error_code error;
  fs::rename(path, aside, error);  // over the empty directory
  if (error) {
    throw EnvironmentError({.what = "cannot remove a checkpoint",
                            .where = path.string(),
                            .found = error.message(),
                            .remedy = "check its permissions"});
  }
  remove_work_directory(directory, name);
}

FileSum write_states(const fs::path& path, const std::vector<std::string>& names, const StateAccess& states) {
  std::vector<TensorDeclaration> tensors;
  tensors.reserve(names.size());
  for (const std::string& name : names) tensors.push_back({name, stored_type(states.type(name))});
  SafetensorsWriter writer(path, std::move(tensors));
  for (const std::string& name : names) {
    states.read(name, [&](std::span<const std::byte> bytes) { writer.write(bytes); });
  }
  return writer.finish();
}

void verify_whole(const fs::path& checkpoint) {
  if (verify_checkpoint(checkpoint)) return;
  log_warning(fmt::format("{} has no {}: it was written by an older version, and damage cannot be detected",
                          checkpoint.string(), kChecksumsFile));
}

}  // namespace

fs::path checkpoint_path(const fs::path& output_dir, std::int64_t step) {
  return output_dir / fmt::format("{}{}", kPrefix, step);
}

fs::path save_checkpoint(const fs::path& output_dir, const TrainerState& state, const ModelBundle& bundle,
                         const ParameterSource& original, const ParameterMemory& parameters,
                         const std::vector<std::string>& state_names, const StateAccess& states) {
  const fs::path final_path = checkpoint_path(output_dir, state.step);
  const std::string own_name = final_path.filename().string();
  const fs::path aside = make_work_directory(output_dir, own_name);
  try {
    FileSums sums = save_model(aside, bundle, original, parameters);
    if (states.begin) states.begin();
    if (!state.only_model) sums[kOptimizerFile] = write_states(aside / kOptimizerFile, state_names, states);
    sums[kStateFile] = write_text_file(aside / kStateFile, json_text(to_json(state), 2) + "\n");
    write_checksums(aside, sums);
    sync_directory(aside);
    // The same step may have been saved before, by a run that resumed an older checkpoint.
    replace_directory(aside, final_path);
  } catch (...) {
    discard_work_directory(output_dir, own_name);  // so that half a checkpoint does not keep a full disk full
    throw;
  }
  remove_work_directory(output_dir, own_name);
  return final_path;
}

std::vector<std::int64_t> list_checkpoints(const fs::path& output_dir) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(output_dir, error), end; !error && entry != end; entry.increment(error)) {
    const std::optional<std::int64_t> step = step_of(entry->path().filename().string());
    if (step && fs::exists(entry->path() / kStateFile)) steps.push_back(*step);
  }
  // A directory that cannot be read may still have checkpoints.
  if (error && error != std::errc::no_such_file_or_directory) {
    throw EnvironmentError({.what = "cannot read a directory",
                            .where = output_dir.string(),
                            .found = error.message(),
                            .remedy = "check the path, its permissions and the disk"});
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void rotate_checkpoints(const fs::path& output_dir, std::int64_t limit, std::int64_t keep_step) {
  if (limit <= 0) return;
  std::vector<std::int64_t> steps = list_checkpoints(output_dir);
  std::int64_t excess = static_cast<std::int64_t>(steps.size()) - limit;
  // The newest is the one to resume from: it stays even if the best one takes the limit's last place.
  for (std::size_t i = 0; excess > 0 && i + 1 < steps.size(); ++i) {
    if (steps[i] == keep_step) continue;
    remove_checkpoint(checkpoint_path(output_dir, steps[i]));
    --excess;
  }
}

void remove_torn_checkpoints(const fs::path& output_dir) {
  std::error_code error;
  std::vector<std::string> torn;
  for (const auto& entry : fs::directory_iterator(work_folder(output_dir), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) || name.starts_with("nonfinite-step-")) torn.push_back(name);
  }
  for (const std::string& name : torn) remove_work_directory(output_dir, name);
}

TrainerState read_trainer_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kStateFile;
  verify_file(path, OtherLength::kRefuse);
  const std::string text = read_text_file(path, 1 << 26);
  const auto object = parse_json(text, path.string());
  try {
    if (!object.is_object()) {
      throw DataError({.what = "the checkpoint's state cannot be read",
                       .where = path.string(),
                       .found = counted(text.size(), "byte") + " that are not a JSON object",
                       .allowed = "a trainer_state.json written by Plimsoll",
                       .remedy = "resume from another checkpoint"});
    }
    // The number must be written as an integer: get would accept 1e300, too.
    const auto whole = [&object](const char* key) { return object.at(key).get_ref<const std::int64_t&>(); };
    TrainerState state;
    state.step = whole("global_step");
    state.total_steps = whole("max_steps");
    state.seed = static_cast<std::uint64_t>(whole("seed"));
    state.train_batch_size = whole("train_batch_size");
    state.micro_batch_size = whole("micro_batch_size");
    state.chunk_samples = object.value("chunk_samples", std::int64_t{0});
    state.ranks = object.value("ranks", 1);
    state.gradient_sync = object.value("gradient_sync", std::string());
    state.examples = whole("examples");
    state.max_length = whole("max_length");
    state.threads = static_cast<int>(whole("threads"));
    state.device = object.value("device", std::string());
    state.optimizer = object.value("optim", state.optimizer);
    state.data = object.value("data", std::string());
    state.tokens = object.value("data_tokens", std::string());
    state.labels = object.value("data_labels", std::string());
    state.images = object.value("data_images", std::string());
    state.base = object.value("base_weights", std::string());
    state.options = object.value("options", std::string());
    state.scaler.scale = object.value("loss_scale", GradScaler::kInitialScale);
    state.scaler.since_change = object.contains("loss_scale") ? whole("loss_scale_since_change") : 0;
    state.scaler.skipped = object.contains("loss_scale") ? whole("skipped_updates") : 0;
    state.interval_loss = object.at("interval_loss").get<double>();
    state.interval_steps = whole("interval_steps");
    if (!object.at("best_metric").is_null()) state.best_metric = object.at("best_metric").get<double>();
    state.best_step = whole("best_global_step");
    state.judged_by = object.value("judged_by", std::string());
    const nlohmann::json greater = object.value("greater_is_better", nlohmann::json());
    if (!greater.is_null()) state.greater_is_better = greater.get<bool>();
    if (object.contains("evaluations_without_gain")) {
      state.evaluations_without_gain = whole("evaluations_without_gain");
    }
    const nlohmann::json adapted = object.value("adapted_rate", nlohmann::json());
    if (!adapted.is_null()) state.adapted_rate = parse_adapted_rate(adapted);
    state.evaluation_due = object.value("evaluation_due", false);
    state.only_model = object.value("only_model", false);
    state.skipped_pages = parse_skipped_pages(object.value("skipped_pages", nlohmann::json::array()));
    state.choices = parse_choices(object.value("choices", nlohmann::json()), path.string() + ", \"choices\"");
    if (state.step < 0 || !(state.scaler.scale > 0) || state.scaler.skipped < 0 || state.micro_batch_size < 1 ||
        state.chunk_samples < 0 || state.train_batch_size < state.micro_batch_size) {
      throw DataError({.what = "the checkpoint's state is invalid",
                       .where = path.string(),
                       .found = fmt::format("global_step {}, train_batch_size {}, micro_batch_size {}", state.step,
                                            state.train_batch_size, state.micro_batch_size),
                       .allowed = "a trainer_state.json written by Plimsoll",
                       .remedy = "resume from another checkpoint"});
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw DataError({.what = "the checkpoint's state cannot be read",
                     .where = path.string(),
                     .found = json_fault(error),
                     .allowed = "a trainer_state.json written by Plimsoll",
                     .remedy = "resume from another checkpoint"});
  }
}

namespace {

void load_verified_parameters(const fs::path& checkpoint, const ModelBundle& bundle,
                              const ParameterMemory& parameters) {
  const bool adapts = bundle.options.lora.enabled();
  if (is_adapter(checkpoint) != adapts) {
    throw DataError(
        {.what = adapts ? "the checkpoint holds a whole model, not an adapter"
                        : "the checkpoint holds an adapter, not a whole model",
         .where = checkpoint.string(),
         .found = adapts ? "no adapter_config.json" : "adapter_config.json",
         .allowed = adapts ? "a checkpoint of a run with adapters" : "a checkpoint of a run without adapters",
         .remedy = "resume with the --lora-rank that the run was started with, or without it if it had none"});
  }
  if (adapts) {
    // The base is not in the checkpoint; adapters and head come from it.
    const Adapter adapter = open_adapter(checkpoint, bundle.definition());
    ParameterSource source = bundle.source(0);
    source.adapter = adapter.weights.get();
    load_parameters(bundle.specs(), source, parameters);
    return;
  }
  const WeightsFile weights = open_weights(checkpoint);
  const ParameterReport report = load_parameters(bundle.specs(), {.weights = &weights}, parameters);
  if (!report.fresh.empty()) {
    throw DataError({.what = "the checkpoint has no classification head",
                     .where = checkpoint.string(),
                     .found = fmt::format("no '{}'", report.fresh.front()),
                     .remedy = "resume from another checkpoint"});
  }
}

// Returns the slots of a table's moments in a checkpoint; none if all rows have them.
std::vector<std::int32_t> read_slots(const SafetensorsReader& file, const std::string& table) {
  const TensorEntry* const entry = file.find(table + std::string(kSlotsSuffix));
  if (entry == nullptr) return {};
  const auto refuse = [&](std::string found, std::string allowed) {
    throw DataError({.what = "the checkpoint's optimizer state is damaged",
                     .where = fmt::format("{}, tensor '{}'", file.path().string(), entry->name),
                     .found = std::move(found),
                     .allowed = std::move(allowed),
                     .remedy = "resume from another checkpoint"});
  };
  if (entry->type.dtype != DType::kI32) refuse(to_string(entry->type), "integers of 32 bits");
  std::vector<std::int32_t> slots(static_cast<std::size_t>(entry->type.shape.elements()));
  file.read_elements(*entry, 0, std::as_writable_bytes(std::span(slots)));
  std::vector<bool> taken(slots.size());
  std::size_t count = 0;
  for (const std::int32_t slot : slots) {
    if (slot == -1) continue;
    const auto at = static_cast<std::size_t>(slot);
    if (slot < 0 || at >= taken.size() || taken[at]) refuse(fmt::format("the place {}", slot), "-1, or each place once");
    taken[at] = true;
    ++count;
  }
  const bool has_gap = std::find(taken.begin(), taken.end(), false) - taken.begin() < static_cast<std::ptrdiff_t>(count);
  if (count == 0 || has_gap) refuse(counted(count, "place"), "places from 0 on, without a gap");
  const TensorEntry& moments = file.at(table + ".exp_avg");
  if (moments.type.shape.elements() % static_cast<std::int64_t>(count) != 0) {
    refuse(fmt::format("{} for {}", counted(count, "place"), counted(moments.type.shape.elements(), "moment")),
           "a place for each row of the moments");
  }
  return slots;
}

// Marks the rows of a tensor that have an element other than 0.
void mark_rows(const SafetensorsReader& file, const TensorEntry& entry, std::vector<bool>& rows) {
  constexpr std::size_t kPiece = kMiB;
  const std::size_t element = dtype_bytes(entry.type.dtype);
  const auto elements = static_cast<std::uint64_t>(entry.type.shape.elements());
  const std::uint64_t width = elements / rows.size();
  std::vector<std::byte> piece(kPiece);
  for (std::uint64_t first = 0; first < elements; first += kPiece / element) {
    const std::uint64_t count = std::min<std::uint64_t>(kPiece / element, elements - first);
    const std::span<std::byte> bytes = std::span(piece).first(count * element);
    file.read_elements(entry, first, bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != std::byte{0}) rows[(first + i / element) / width] = true;
    }
  }
}

// Returns where the rows of a moment come from, if they do not lie in the checkpoint as in memory.
std::optional<MomentRows> moved_rows(const SafetensorsReader& file, const std::string& name,
                                     const StateAccess& states) {
  const std::size_t suffix = name.find(".exp_avg");
  if (suffix == std::string::npos) return std::nullopt;
  const std::string table = name.substr(0, suffix);
  const std::vector<std::int32_t> there = read_slots(file, table);
  const std::vector<std::int32_t> here = states.slots ? states.slots(table) : std::vector<std::int32_t>();
  if (there == here) return std::nullopt;
  if (!there.empty() && !here.empty() && there.size() != here.size()) {
    throw DataError({.what = "the checkpoint's optimizer state does not fit the model",
                     .where = fmt::format("{}, '{}{}'", file.path().string(), table, kSlotsSuffix),
                     .found = counted(there.size(), "token"),
                     .allowed = counted(here.size(), "token"),
                     .remedy = "resume with the run's original model, or from another checkpoint"});
  }
  return MomentRows(there, here);
}

}  // namespace

std::optional<std::vector<std::int32_t>> rows_with_moments(const fs::path& checkpoint, const std::string& table,
                                                           std::int64_t rows) {
  std::vector<bool> marked(static_cast<std::size_t>(rows));
  try {
    const SafetensorsReader file(checkpoint / kOptimizerFile);
    if (const std::vector<std::int32_t> slots = read_slots(file, table); !slots.empty()) {
      for (std::size_t row = 0; row < std::min(slots.size(), marked.size()); ++row) marked[row] = slots[row] >= 0;
    } else {
      // Codes of a block whose largest magnitude is 0 mean 0, whatever they are.
      for (const std::string moment : {".exp_avg", ".exp_avg_sq"}) {
        const TensorEntry* entry = file.find(table + moment + ".absmax");
        if (entry == nullptr) entry = file.find(table + moment);
        if (entry == nullptr || entry->type.shape.elements() % rows != 0) return std::nullopt;
        mark_rows(file, *entry, marked);
      }
    }
  } catch (const DataError&) {
    return std::nullopt;
  }
  std::vector<std::int32_t> found;
  for (std::size_t row = 0; row < marked.size(); ++row) {
    if (marked[row]) found.push_back(static_cast<std::int32_t>(row));
  }
  return found;
}

void load_checkpoint_parameters(const fs::path& checkpoint, const ModelBundle& bundle,
                                const ParameterMemory& parameters) {
  verify_whole(checkpoint);
  load_verified_parameters(checkpoint, bundle, parameters);
}

void load_checkpoint(const fs::path& checkpoint, const ModelBundle& bundle, const ParameterMemory& parameters,
                     const std::vector<std::string>& state_names, const StateAccess& states) {
  verify_whole(checkpoint);
  // The same number of labels with other names would fit the head and mean something else.
  const ModelConfig config = read_config(checkpoint);
  if (config.task.labels != bundle.config.task.labels) {
    throw DataError({.what = "the checkpoint has other labels than this run",
                     .where = (checkpoint / "config.json").string(),
                     .found = fmt::format("{}", fmt::join(config.task.labels, ", ")),
                     .allowed = fmt::format("{}", fmt::join(bundle.config.task.labels, ", ")),
                     .remedy = "resume with the run's original data and --labels; to train other labels from these "
                               "weights, start a run with --model " +
                               checkpoint.string()});
  }
  load_verified_parameters(checkpoint, bundle, parameters);
  const SafetensorsReader file(checkpoint / kOptimizerFile);
  for (const std::string& name : state_names) {
    TensorType expected = stored_type(states.type(name));
    const std::optional<MomentRows> rows = moved_rows(file, name, states);
    if (rows) {
      expected.shape = {expected.shape.elements() / rows->rows_in_memory() * rows->rows_in_file()};
    }
    if (!(file.at(name).type == expected)) {
      throw DataError({.what = "the checkpoint's optimizer state does not fit the model",
                       .where = fmt::format("{}, tensor '{}'", file.path().string(), name),
                       .found = to_string(file.at(name).type),
                       .allowed = to_string(expected),
                       .remedy = "resume with the run's original model and options; if an earlier version wrote the "
                                 "checkpoint, start a new run from its weights: --model " +
                                 checkpoint.string()});
    }
    const TensorEntry& entry = file.at(name);
    std::uint64_t first = states.first ? states.first(name) : 0;  // element of the next piece
    states.fill(name, [&](std::span<std::byte> bytes) {
      if (rows) {
        rows->read(file, entry, first, bytes);
      } else {
        file.read_elements(entry, first, bytes);
      }
      first += bytes.size() / dtype_bytes(expected.dtype);
    });
  }
}

}  // namespace plimsoll
