#include "train/step_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "base/file.h"
#include "formats/json.h"
#include "train/batch_file.h"
#include "train/batch_shape.h"
#include "train/predictor.h"

namespace plimsoll {
namespace {

constexpr const char* kStepFile = "step.json";

// JSON has no numbers for NaN and infinity.
nlohmann::json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_of(const nlohmann::json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

DType precision_of(const std::string& name) {
  return name == "bf16" ? DType::kBF16 : name == "fp16" ? DType::kF16 : DType::kF32;
}

UpdateMode update_mode_of(const std::string& name) {
  for (const UpdateMode mode : {UpdateMode::kInBackward, UpdateMode::kTwoPasses, UpdateMode::kHeadInParts}) {
    if (name == update_mode_name(mode)) return mode;
  }
  return UpdateMode::kAfterBackward;
}

DType weights_type_of(const std::string& name) {
  return name == dtype_name(DType::kQ8) ? DType::kQ8 : name == dtype_name(DType::kNF4) ? DType::kNF4 : DType::kF32;
}

bool same(const nlohmann::json& written, const std::optional<StepFault>& found) {
  return found ? written == to_json(*found) : written.is_null();
}

StepRecord record_of(const nlohmann::json& json, const std::string& where) {
  StepRecord record;
  StepScalars& s = record.scalars;
  s.step = json.at("step").get<std::int64_t>();
  s.optimizer_step = json.at("optimizer_step").get<std::int64_t>();
  s.seed = json.at("seed").get<std::uint64_t>();
  s.dropout_key = json.at("dropout_key").get<PhiloxKey>();
  s.learning_rate = number_of(json.at("learning_rate"));
  s.max_grad_norm = number_of(json.at("max_grad_norm"));
  s.scale = number_of(json.at("loss_scale"));
  s.labelled = json.at("labelled_tokens").get<double>();
  record.loss = number_of(json.at("loss"));
  record.gradient_norm = number_of(json.at("gradient_norm"));
  record.micro_batches_in_update = json.at("micro_batches_in_update").get<std::int64_t>();
  record.padded = json.at("padded").get<bool>();
  record.choices = parse_choices(json.value("choices", nlohmann::json()), where);
  for (const nlohmann::json& micro : json.at("micro_batches")) {
    record.micro_batches.push_back({.file = micro.at("file").get<std::string>(),
                                    .first_sample = micro.at("first_sample").get<std::int32_t>(),
                                    .pages = micro.at("pages").get<std::vector<std::string>>()});
  }
  return record;
}

// Returns the plan of the step, without settings that only move bytes.
RunPlan plan_of(const nlohmann::json& json, const ModelBundle& bundle, Backend& backend) {
  const nlohmann::json& plan = json.at("plan");
  FitRequest request;
  request.step.definition = bundle.definition();
  request.step.model = bundle.options;
  request.step.precision = precision_of(plan.at("precision").get<std::string>());
  request.step.optimizer.kind = parse_optimizer(plan.at("optim").get<std::string>());
  request.step.optimizer.clips = number_of(json.at("max_grad_norm")) > 0;
  request.step.optimizer.unscales = request.step.precision == DType::kF16;
  request.train_batch_size = plan.at("train_batch_size").get<std::int64_t>();
  request.text_rows = [rows = plan.at("text_rows").get<std::int64_t>()](std::int64_t) { return rows; };
  request.update_text_rows = plan.at("update_text_rows").get<std::int64_t>();
  Levers levers{.micro_batch_size = plan.at("micro_batch_size").get<std::int64_t>(),
                .update = update_mode_of(plan.at("update_mode").get<std::string>())};
  levers.recompute.push_back({.nodes = plan.at("recompute").get<std::vector<std::string>>()});
  return plan_run(request, levers, backend);
}

}  // namespace

ProgramKind step_program(const Session& session, bool last) {
  if (session.has(ProgramKind::kStep)) return ProgramKind::kStep;
  return last ? ProgramKind::kAccumulateAndStep : ProgramKind::kAccumulate;
}

void bind_scalars(const BatchBinding& binding, const StepScalars& scalars, bool first) {
  // An update without a single label has nothing to learn from them: their loss and its gradients are 0.
  const auto mean_over = [&scalars](double count) {
    return count > 0 ? static_cast<float>(scalars.scale / count) : 0.0F;
  };
  binding.set_loss_scale(mean_over(scalars.labelled));
  binding.set_label_loss_scale(mean_over(scalars.labels));
  binding.set_row_loss_scale(mean_over(scalars.rows));
  binding.set_dropout_key(scalars.dropout_key);
  binding.set_keep_gradients(!first);
  binding.set_update(scalars.learning_rate, scalars.optimizer_step, scalars.max_grad_norm, scalars.scale);
}

nlohmann::json to_json(const StepFault& fault) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const TensorSummary& input : fault.inputs) {
    inputs.push_back({{"tensor", input.name},
                      {"type", to_string(input.type)},
                      {"min", input.smallest},
                      {"max", input.largest},
                      {"not_finite", input.not_finite}});
  }
  const bool made = fault.kind == StepFault::Kind::kMade;
  return {{"op", fault.op},
          {"node", fault.node},
          {made ? "makes" : "reads", fault.tensor},
          {"type", to_string(fault.type)},
          {"index", fault.index},
          {"value", number_json(fault.value)},
          {"inputs", inputs}};
}

void write_step_record(const std::filesystem::path& directory, const StepRecord& record, const RunPlan& plan,
                       const ModelBundle& bundle) {
  const ModelOptions& options = bundle.options;
  const LossOptions& loss = bundle.config.task.loss;
  const StepScalars& s = record.scalars;
  nlohmann::json micro_batches = nlohmann::json::array();
  for (const MicroBatchRecord& micro : record.micro_batches) {
    micro_batches.push_back({{"file", micro.file}, {"first_sample", micro.first_sample}, {"pages", micro.pages}});
  }
  std::vector<std::string> recompute;
  for (const Recomputation& recomputation : plan.levers.recompute) {
    recompute.insert(recompute.end(), recomputation.nodes.begin(), recomputation.nodes.end());
  }
  const nlohmann::json json = {
      {"step", s.step},
      {"optimizer_step", s.optimizer_step},
      {"seed", s.seed},
      {"dropout_key", s.dropout_key},
      {"learning_rate", number_json(s.learning_rate)},
      {"max_grad_norm", number_json(s.max_grad_norm)},
      {"loss_scale", number_json(s.scale)},
      {"labelled_tokens", s.labelled},
      {"loss", number_json(record.loss)},
      {"gradient_norm", number_json(record.gradient_norm)},
      {"padded", record.padded},
      {"micro_batches_in_update", record.micro_batches_in_update},
      {"micro_batches", micro_batches},
      {"model",
       {{"freeze", options.freeze},
        {"word_rows", options.word_rows == nullptr ? nlohmann::json() : nlohmann::json(*options.word_rows)},
        {"frozen_weights", dtype_name(options.frozen_weights)},
        {"lora_dropout", options.lora.dropout},
        {"train_relative_position_tables", options.train_relative_position_tables}}},
      {"loss_options",
       {{"label_smoothing", loss.label_smoothing},
        {"focal_gamma", loss.focal_gamma},
        {"class_weights", loss.class_weights}}},
      {"plan",
       {{"precision", precision_name(plan.precision)},
        {"optim", optimizer_name(plan.optimizer)},
        {"train_batch_size", plan.train_batch_size},
        {"micro_batch_size", plan.levers.micro_batch_size},
        {"text_rows", plan.programs.front().capacity.text_rows},
        {"update_text_rows", plan.update_text_rows},
        {"update_mode", update_mode_name(plan.levers.update)},
        {"recompute", recompute}}},
      {"choices", choices_json(record.choices)},
      {"finding", record.fault ? to_json(*record.fault) : nlohmann::json()}};
  write_text_file(directory / kStepFile, json_text(json, 2) + "\n");
}

Replay replay_step(const std::filesystem::path& directory, Backend& backend) {
  const std::filesystem::path path = directory / kStepFile;
  const nlohmann::json json = parse_json(read_text_file(path, 1 << 26), path.string());
  const auto refuse = [&](std::string found) {
    throw DataError({.what = "the record of a step cannot be read",
                     .where = path.string(),
                     .found = std::move(found),
                     .allowed = "a step.json written by plimsoll train",
                     .remedy = "pass a nonfinite-step-N directory"});
  };
  if (!json.is_object()) refuse("not a JSON object");
  Replay replay;
  try {
    replay.record = record_of(json, path.string());
    ModelBundle bundle = open_weights_only((directory / kRecordedModel).string());
    check_weights(bundle, MissingHead::kRefused);
    const nlohmann::json& model = json.at("model");
    bundle.options.freeze = model.at("freeze").get<std::vector<std::string>>();
    bundle.options.frozen_weights = weights_type_of(model.at("frozen_weights").get<std::string>());
    bundle.options.lora.dropout = model.at("lora_dropout").get<double>();
    bundle.options.train_relative_position_tables = model.at("train_relative_position_tables").get<bool>();
    // Earlier versions had all rows in memory.
    if (const nlohmann::json rows = model.value("word_rows", nlohmann::json()); !rows.is_null()) {
      auto word_rows = rows.get<std::vector<std::int32_t>>();
      const bool ascending = std::ranges::adjacent_find(word_rows, std::ranges::greater_equal()) == word_rows.end();
      if (word_rows.empty() || !ascending || word_rows.front() < 0 || word_rows.back() >= bundle.facts().vocab_size) {
        refuse("word_rows that are not tokens in ascending order");
      }
      bundle.options.word_rows = std::make_shared<const std::vector<std::int32_t>>(std::move(word_rows));
    }
    if (json.contains("loss_options")) {  // earlier versions replayed a plain loss
      const nlohmann::json& loss = json.at("loss_options");
      bundle.config.task.loss = {.label_smoothing = loss.at("label_smoothing").get<double>(),
                                 .focal_gamma = loss.at("focal_gamma").get<double>(),
                                 .class_weights = loss.at("class_weights").get<std::vector<float>>()};
    }
    const KnownChoices known{.recorded = replay.record.choices, .recorded_in = path.string(), .cache = {}};
    const Session session(plan_of(json, bundle, backend), backend, known);
    // Values that are not finite may be the fault to reproduce.
    ParameterSource source = bundle.source(replay.record.scalars.seed);
    source.takes_any_number = true;
    load_parameters(bundle.specs(), source, [&](const std::string& name) { return session.parameter(name); });
    Batch batch(batch_shape(bundle.definition(), session.plan().programs.front().capacity));
    for (std::size_t m = 0; m < replay.record.micro_batches.size() && !replay.fault; ++m) {
      const MicroBatchRecord& micro = replay.record.micro_batches[m];
      read_batch_file(directory / micro.file, bundle, {.all = replay.record.padded, .first_key = micro.first_sample},
                      batch);
      const Program& program = session.program(
          step_program(session, static_cast<std::int64_t>(m) + 1 == replay.record.micro_batches_in_update));
      const BatchBinding binding(program, batch, session.plan().word_rows);
      binding.copy(batch);
      bind_scalars(binding, replay.record.scalars, m == 0);
      replay.fault = session.as_in_files(CheckedRun(program).run());
    }
  } catch (const nlohmann::json::exception& error) {
    refuse(json_fault(error));
  }
  replay.same = same(json.at("finding"), replay.fault);
  return replay;
}

}  // namespace plimsoll
