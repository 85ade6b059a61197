#include "bundle/model_bundle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest.h"
#include "bundle/adapter.h"
#include "bundle/adapter_config.h"
#include "bundle/model_place.h"
#include "data/check.h"
#include "data/file_kind.h"
#include "families/families.h"
#include "formats/json.h"
#include "model/trained_parts.h"
#include "tasks/tasks.h"
#include "tensor/numpy_name.h"

namespace plimsoll {
namespace {

constexpr const char *kChatFile = "chat_template.jinja", *kToolChatFile = "additional_chat_templates/tool_use.jinja";
constexpr std::array kCompanions = {"generation_config.json", kChatFile, "chat_template.json", kToolChatFile};
// The names that transformers looks for in a list of templates.
constexpr std::string_view kUsualTemplate = "default", kToolTemplate = "tool_use";
constexpr std::uint64_t kMaxCompanionBytes = 1 << 24;

void check_tokenizer(const ModelBundle& bundle, const std::string& where) {
  const Tokenizer& tokenizer = *bundle.tokenizer;
  Findings findings;
  const EncoderFacts facts = bundle.facts();
  check_tokenizer_size(tokenizer.vocab_size(), facts.vocab_size, where, findings);
  if (findings.count(Severity::kError) > 0) throw findings.to_error(where);
  for (const std::string& line : findings.to_lines(Severity::kWarning)) log_warning(line);
  // A decoder pads nothing here, and `transformers` goes by its config.json, too.
  const bool is_decoder = bundle.config.encoder->sequence_classifier().last_row;
  if (facts.token.pads && !is_decoder && tokenizer.special().pad != facts.token.pad_id) {
    throw DataError({.what = "the tokenizer does not match the model: their padding tokens differ",
                     .where = where,
                     .found = fmt::format("pad id {} in the tokenizer", tokenizer.special().pad),
                     .allowed = fmt::format("pad_token_id = {} as in config.json", facts.token.pad_id),
                     .remedy = "use the tokenizer that the model was trained with"});
  }
}

// Returns the template in tokenizer_config.json, or the one of that name if there is a list.
std::string template_in(const nlohmann::json& config, const std::string& where, std::string_view name) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return name == kUsualTemplate ? found->get<std::string>() : std::string();
  if (!found->is_array()) {
    throw DataError({.what = "a chat template is not text",
                     .where = where,
                     .found = found->dump().substr(0, 60),
                     .allowed = "a Jinja template, or a list of named ones",
                     .remedy = "copy the tokenizer's files again"});
  }
  for (const nlohmann::json& each : *found) {
    const auto text = [&](const char* key) {
      const nlohmann::json value = each.is_object() ? each.value(key, nlohmann::json()) : nlohmann::json();
      return value.is_string() ? value.get<std::string>() : std::string();
    };
    if (text("name") == name) return text("template");
  }
  return {};
}

// Looks for the templates beside the tokenizer like `transformers`: in their own files, else under a key of
// tokenizer_config.json, which also has its tokens. `own` and `for_tools` are those files; empty if there is none.
std::shared_ptr<const ChatForm> read_chat_form(const std::filesystem::path& tokenizer, const std::filesystem::path& own,
                                               const std::filesystem::path& for_tools) {
  const std::filesystem::path path = tokenizer / "tokenizer_config.json";
  nlohmann::json config = nlohmann::json::object();
  if (std::filesystem::exists(path)) config = parse_json(read_text_file(path, kMaxCompanionBytes), path.string());
  if (!config.is_object()) return nullptr;
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  const auto take = [&tokens](const std::string& key, const nlohmann::json& token) {
    if (token.is_string()) tokens[key] = token;
    if (token.is_object() && token.contains("content")) tokens[key] = token.at("content");
  };
  for (const char* const key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    if (config.contains(key)) take(key, config.at(key));
  }
  // Tokens to which a model gives names of its own: {"image_token": "<image>"}.
  if (const auto named = config.find("extra_special_tokens"); named != config.end() && named->is_object()) {
    for (const auto& [key, token] : named->items()) take(key, token);
  }
  const std::string key = path.string() + ", key \"chat_template\"";
  const std::string text =
      own.empty() ? template_in(config, key, kUsualTemplate) : read_text_file(own, kMaxCompanionBytes);
  if (text.empty() && own.empty()) return nullptr;
  auto form = std::make_shared<ChatForm>(text, own.empty() ? key : own.string(), std::move(tokens));
  const std::string tool_text = !for_tools.empty() ? read_text_file(for_tools, kMaxCompanionBytes)
                                : own.empty()      ? template_in(config, key, kToolTemplate)
                                                   : std::string();
  if (!tool_text.empty()) form->use_for_tools(tool_text, for_tools.empty() ? key : for_tools.string());
  return form;
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

ModelBundle open_preset(const std::string& name, const std::string& tokenizer) {
  ModelBundle bundle;
  bundle.origin = name;
  const bool reads_boxes = preset_config(name).encoder->facts().coordinates > 0;
  bundle.tokenizer = std::make_shared<Tokenizer>(tokenizer.empty() ? Tokenizer::embedded(reads_boxes)
                                                                   : Tokenizer::from_directory(tokenizer));
  const SpecialTokens& special = bundle.tokenizer->special();
  // A decoder's texts end with a special token.
  const std::int32_t eos = special.eos != kNoToken ? special.eos : special.end_of_text;
  bundle.config = preset_config(
      name, Vocabulary{.size = bundle.tokenizer->vocab_size(), .pad = special.pad, .bos = special.bos, .eos = eos});
  return bundle;
}

// Refuses weights in a form that is not read here, by the name that their config has for it.
void refuse_other_quantization(const ModelConfig& config, const std::string& where) {
  const nlohmann::json quantization = config.source.value("quantization_config", nlohmann::json());
  if (quantization.is_null()) return;
  if (!quantization.is_object()) {
    throw DataError({.what = "the form of the model's quantized weights is not an object",
                     .where = where,
                     .found = quantization.dump().substr(0, 60),
                     .allowed = "an object, as bitsandbytes writes it, or null",
                     .remedy = "copy the model directory again"});
  }
  const nlohmann::json method = quantization.value("quant_method", nlohmann::json("bitsandbytes"));
  if (method == "bitsandbytes") return;
  throw DataError(
      {.what = "the model is quantized in a form that is not supported",
       .where = where,
       .found = fmt::format("\"quant_method\": {}", method.dump()),
       .allowed = "weights in floats, or in 4 bits as bitsandbytes has them",
       .remedy = "take the model that this one was made from; --load-in-4bit holds its frozen weights in 4 bits"});
}

// Reads the config of a model directory. An unknown kind of head counts as no head: until set_task says otherwise, the
// model has the task of its family's presets.
ModelConfig read_own_config(const std::string& directory) {
  ModelConfig config = read_config(directory);
  refuse_other_quantization(config, directory + "/config.json, key \"quantization_config\"");
  if (find_task(config.task.architecture) == nullptr) {
    config.task.architecture = usual_head(*config.encoder);
    config.task.problem_type.clear();
  }
  return config;
}

// Holds frozen weights in the file's form: those in 4 or 8 bits stay coded, and those in floats stay floats.
void take_quantization(ModelBundle& bundle) {
  std::map<std::string, Coding> codings;
  std::map<Coding, std::size_t> matrices;
  for (const ParameterSpec& spec : bundle.specs()) {
    if (spec.part != ParameterSpec::Part::kEncoderMatrix) continue;
    const std::optional<std::string> name = name_in_weights(bundle.source(0), spec.name);
    const Coding coding = name ? bundle.weights->coding(*name) : Coding::kNone;
    codings.emplace(spec.name, coding);
    ++matrices[coding];
  }
  // Only one type of codes is held; bitsandbytes never writes a file with two.
  const Coding held = matrices.contains(Coding::kNormalFloat) ? Coding::kNormalFloat : Coding::kBytes;
  const std::size_t otherwise = matrices[Coding::kOther] + (held == Coding::kBytes ? 0 : matrices[Coding::kBytes]);
  if (otherwise > 0) {
    log_info(
        fmt::format("{}, because the file has another form of codes there than NF4 in blocks of 64; --load-in-8bit and "
                    "--load-in-4bit code frozen weights anew",
                    counted(otherwise, "weight matrix is read as floats", "weight matrices are read as floats")));
  }
  if (matrices[held] == 0) return;
  std::set<std::string> in_floats;
  for (const auto& [name, coding] : codings) {
    if (coding != held) in_floats.insert(name);
  }
  bundle.quantized = true;
  bundle.options.frozen_weights = held == Coding::kBytes ? DType::kQ8 : DType::kNF4;
  bundle.options.frozen_embedding = DType::kF32;
  bundle.options.kept_in_floats = std::move(in_floats);
}

// True if two tensors of the file have the same values, in whatever types.
bool are_equal(const WeightsFile& weights, const std::string& a, const std::string& b) {
  const Shape& shape = weights.at(a).type.shape;
  if (weights.at(b).type.shape != shape) return false;
  constexpr std::int64_t kAtOnce = 16384;
  std::vector<float> of_a(kAtOnce), of_b(kAtOnce);
  std::vector<std::byte> staging(64 * kKiB);
  for (std::int64_t done = 0; done < shape.elements(); done += kAtOnce) {
    const auto count = static_cast<std::size_t>(std::min(kAtOnce, shape.elements() - done));
    weights.read_as_f32(a, done, std::span(of_a).first(count), staging);
    weights.read_as_f32(b, done, std::span(of_b).first(count), staging);
    if (!std::equal(of_a.begin(), of_a.begin() + static_cast<std::ptrdiff_t>(count), of_b.begin())) return false;
  }
  return true;
}

// A language model whose config ties its head to the word embedding, but whose file has another head, has that one:
// `transformers` ties what is missing alone.
void take_stored_head(ModelBundle& bundle) {
  constexpr const char* kHead = "lm_head.weight";
  const std::string table = tied_table(bundle.definition());
  if (table.empty() || bundle.weights->find(kHead) == nullptr) return;
  const std::optional<std::string> stored = name_in_weights(bundle.source(0), table);
  if (!stored || are_equal(*bundle.weights, *stored, kHead)) return;
  nlohmann::json object = bundle.config.source;
  object["tie_word_embeddings"] = false;
  ModelConfig untied = parse_config(object, bundle.weights->path().parent_path().string() + "/config.json");
  untied.task = bundle.config.task;
  bundle.config = std::move(untied);
  log_info(fmt::format(
      "the head is {} of the weight file, which is not the word embedding, though config.json ties them", kHead));
}

// Calls `open` with the directory that has the model's files; again, if those were put in place meanwhile.
template <typename Open>
ModelBundle open_at_place(const std::string& model, const Open& open) {
  const std::filesystem::path place = model_place(model);
  ModelBundle bundle;
  try {
    bundle = open(place.string());
  } catch (const DataError&) {
    if (place == model || is_directory(place.string())) throw;
    bundle = open(model);
  }
  bundle.origin = model;
  return bundle;
}

// Opens an adapter and the base model that it names.
ModelBundle open_with_adapter(const std::string& model, const std::string& base) {
  ModelBundle bundle;
  bundle.origin = model;
  bundle.base = base.empty() ? adapter_base(model) : base;
  if (!is_directory(bundle.base)) {
    throw DataError({.what = "the adapter's base model is not found",
                     .where = base.empty() ? model + "/adapter_config.json, key \"base_model_name_or_path\""
                                           : std::string("--base-model"),
                     .found = bundle.base.empty() ? "nothing" : bundle.base,
                     .allowed = "the model directory that the adapter was trained on",
                     .remedy = "pass its directory with --base-model DIR, which plimsoll merge calls --model"});
  }
  if (is_adapter(bundle.base)) {
    throw DataError(
        {.what = "the adapter's base is itself an adapter",
         .where = model,
         .found = bundle.base,
         .allowed = "a directory with a whole model",
         .remedy = fmt::format("merge the base first: plimsoll merge --adapter {} --output-dir DIR; then pass "
                               "--base-model DIR",
                               bundle.base)});
  }
  const bool own_config = std::filesystem::exists(std::filesystem::path(model) / "config.json");
  const std::string base_place = model_place(bundle.base).string();
  verify_model_files(base_place, false);
  bundle.config = read_own_config(own_config ? model : base_place);
  // An adapter written by PEFT says its task, but has no config of its own.
  const std::string task_type = own_config ? std::string() : read_adapter_config(model).task_type;
  // Several tasks may share PEFT's name; the first of them is returned.
  const auto tasks = all_tasks();
  const auto named = std::ranges::find(tasks, task_type, [](const Task* task) { return task->adapter_type(); });
  if (named != tasks.end()) bundle.config.task.architecture = (*named)->architecture();
  bundle.weights = std::make_shared<WeightsFile>(open_weights(base_place));
  take_stored_head(bundle);
  Adapter adapter = open_adapter(model, bundle.definition());
  bundle.options.lora = std::move(adapter.lora);
  bundle.adapter = std::move(adapter.weights);
  bundle.base_fingerprint = fingerprint_of_base(bundle);
  if (!adapter.base_fingerprint.empty() && adapter.base_fingerprint != bundle.base_fingerprint) {
    log_warning(fmt::format(
        "{} has been trained on other weights than {} has now, so its results may be wrong; if the "
        "base has moved, pass --base-model DIR (plimsoll merge: --model), otherwise train the adapter again",
        model, bundle.base));
  }
  take_quantization(bundle);
  return bundle;
}

void refuse_directory_without_model(const std::string& directory) {
  if (std::filesystem::exists(std::filesystem::path(directory) / "config.json")) return;
  throw DataError({.what = "no model in this directory",
                   .where = directory,
                   .found = "no config.json",
                   .allowed = "a Hugging Face model directory (a folder with config.json and model.safetensors)",
                   .remedy = "pass the directory that holds config.json"});
}

ModelBundle open_weights_at(const std::string& model, const std::string& base) {
  verify_model_files(model, false);
  if (is_adapter(model)) return open_with_adapter(model, base);
  refuse_directory_without_model(model);
  if (!base.empty()) {
    throw UsageError({.what = "the model is not an adapter",
                      .where = "--base-model",
                      .found = fmt::format("{}, with --model {}", base, model),
                      .allowed = "--base-model with a --model that holds adapter_config.json",
                      .remedy = "omit --base-model, or pass the adapter's directory with --model"});
  }
  ModelBundle bundle;
  bundle.config = read_own_config(model);
  bundle.weights = std::make_shared<WeightsFile>(open_weights(model));
  take_stored_head(bundle);
  take_quantization(bundle);
  return bundle;
}

// `presets`: a preset's name would do.
[[noreturn]] void refuse_absent(const std::string& model, bool presets) {
  const bool is_path = model.find('/') != std::string::npos;
  const std::string meant = is_path || !presets ? std::string() : nearest(model, preset_names());
  // "organisation/name", a name on the hub, rather than a misspelt folder.
  const bool on_hub = std::count(model.begin(), model.end(), '/') == 1 && model.front() != '.' &&
                      !is_directory(std::filesystem::path(model).parent_path());
  const std::string or_preset = presets ? fmt::format(", or a preset: {}", fmt::join(preset_names(), ", ")) : "";
  throw UsageError(
      {.what = "no such model",
       .where = "--model",
       .found = model,
       .allowed =
           fmt::format("a Hugging Face model directory (a folder with config.json and model.safetensors){}", or_preset),
       .remedy =
           meant.empty()
               ? fmt::format("Plimsoll downloads nothing: run hf download {} --local-dir DIR, then pass --model DIR",
                             on_hub ? model : "ORGANISATION/NAME")
               : fmt::format("did you mean {}?", meant)});
}

ModelBundle open_model_at(const std::string& model, const std::string& tokenizer, const std::string& base) {
  ModelBundle bundle = open_weights_at(model, base);
  // An adapter written by PEFT has neither tokenizer nor image processor of its own.
  const auto with = [&](std::initializer_list<const char*> files) {
    const bool own = bundle.base.empty() || std::any_of(files.begin(), files.end(), [&](const char* file) {
                       return std::filesystem::exists(std::filesystem::path(model) / file);
                     });
    return own ? model : model_place(bundle.base).string();
  };
  const std::string words =
      tokenizer.empty() ? with({"tokenizer.json", "vocab.json", "vocab.txt", "sentencepiece.bpe.model"}) : tokenizer;
  bundle.tokenizer = std::make_shared<Tokenizer>(Tokenizer::from_directory(words));
  check_tokenizer(bundle, words);
  const std::filesystem::path beside =
      is_directory(words) ? std::filesystem::path(words) : std::filesystem::path(words).parent_path();
  std::filesystem::path chat, tool_chat;
  for (const char* const name : kCompanions) {
    const bool is_chat = name != std::string_view("generation_config.json");
    const bool is_beside = is_chat && std::filesystem::exists(beside / name);
    const std::filesystem::path path = (is_beside ? beside : std::filesystem::path(with({name}))) / name;
    if (!std::filesystem::exists(path)) continue;
    bundle.companions[name] = read_text_file(path, kMaxCompanionBytes);
    if (name == std::string_view(kChatFile)) chat = path;
    if (name == std::string_view(kToolChatFile)) tool_chat = path;
  }
  // A tokenizer given by an option brings its own template, whatever is beside the base of an adapter.
  bundle.chat = read_chat_form(beside, chat, tool_chat);
  const std::int64_t size = bundle.facts().image.size;
  if (size == 0) return bundle;
  bundle.image = ImageProcessorConfig::from_model(with({"preprocessor_config.json", "processor_config.json"}),
                                                  static_cast<int>(size));
  if (bundle.image.height != size || bundle.image.width != size) {
    throw DataError({.what = "the image processor does not match the model",
                     .where = model,
                     .found = fmt::format("images of {} x {} pixels", bundle.image.width, bundle.image.height),
                     .allowed = fmt::format("input_size = {} as in config.json", size),
                     .remedy = "use the processor files that the model was trained with"});
  }
  return bundle;
}

}  // namespace

const Task& ModelBundle::task() const { return task_of(config.task); }

ModelDefinition ModelBundle::definition() const { return task().model(config.encoder, config.task); }

WordEncoder ModelBundle::word_encoder() const {
  if (task().reads_text()) return text_encoder(tokenizer);
  WordEncoder encoder = plimsoll::word_encoder(tokenizer);
  // A decoder's last token represents a text, and in `transformers` a token of padding is none, wherever it is. What
  // follows the text changes nothing before it.
  const TokenForm& form = facts().token;
  const bool by_last = config.encoder->sequence_classifier().last_row;
  if (by_last && form.pads && encoder.eos_id == form.pad_id) encoder.eos_id = kNoToken;
  return encoder;
}

ModelBundle open_model(const std::string& model, const std::string& tokenizer, const std::string& base) {
  if (is_preset(model) && !is_directory(model)) return open_preset(model, tokenizer);
  if (const std::optional<FileKind> kind = recognise_file(model)) {
    throw UsageError({.what = "not a model directory",
                      .where = "--model",
                      .found = fmt::format("{}, {}", model, kind->name),
                      .allowed =
                          "a Hugging Face model directory (a folder with config.json and model.safetensors), or a "
                          "preset",
                      .remedy = model_remedy(*kind, model)});
  }
  std::error_code error;
  if (std::filesystem::is_regular_file(model, error)) {  // usually config.json
    throw UsageError({.what = "not a model directory",
                      .where = "--model",
                      .found = fmt::format("{}, a file", model),
                      .allowed =
                          "a Hugging Face model directory (a folder with config.json and model.safetensors), or a "
                          "preset",
                      .remedy = "pass the directory that holds config.json"});
  }
  if (!is_directory(model)) refuse_absent(model, true);
  return open_at_place(model, [&](const std::string& place) { return open_model_at(place, tokenizer, base); });
}

ModelBundle open_trained_model(const std::string& model, const std::string& tokenizer, const std::string& base) {
  if (is_preset(model) && !is_directory(model)) {
    throw UsageError({.what = "a preset has no trained weights",
                      .where = "--model",
                      .found = model,
                      .allowed = "a model directory: what train wrote into its --output-dir, or a Hugging Face model",
                      .remedy = "train it first: plimsoll train --model " + model + " --data FILE --output-dir DIR"});
  }
  std::error_code error;
  if (!std::filesystem::exists(model, error)) refuse_absent(model, false);
  ModelBundle bundle = open_model(model, tokenizer, base);
  // Training asks the data.
  bundle.task().infer(bundle.config.task);
  return bundle;
}

ModelBundle open_weights_only(const std::string& model, const std::string& base) {
  if (is_preset(model) && !is_directory(model)) return open_preset(model, "");
  ModelBundle bundle = open_at_place(model, [&](const std::string& place) { return open_weights_at(place, base); });
  bundle.task().infer(bundle.config.task);
  return bundle;
}

namespace {

// Returns whether the weights have a head, of whatever task the bundle is for.
bool has_head(const ModelBundle& bundle) {
  return std::ranges::any_of(bundle.specs(), [&](const ParameterSpec& spec) {
    return spec.is_head() && name_in_weights(bundle.source(0), spec.name).has_value();
  });
}

}  // namespace

void set_task(ModelBundle& bundle, const std::string& name, const std::string& problem_type) {
  TaskConfig& config = bundle.config.task;
  if (!name.empty()) {
    const Task& task = task_named(name);
    if (config.architecture != task.architecture()) {
      if (bundle.weights != nullptr) {
        const std::string replaced =
            has_head(bundle) ? fmt::format(": it replaces one for {}", bundle.task().name()) : "";
        log_info(fmt::format("new head for {}{}", task.name(), replaced));
      }
      config = {.architecture = std::string(task.architecture()), .labels = task.unnamed_labels()};
      bundle.fresh_head = true;
      bundle.fresh_task = true;
    }
  }
  if (problem_type.empty()) return;
  if (bundle.task().labels_words()) {
    throw UsageError({.what = "--problem-type is for classes of pages",
                      .where = "--problem-type",
                      .found = fmt::format("{}, with {}", problem_type, bundle.task().name()),
                      .allowed = "--problem-type with --task sequence-classification",
                      .remedy = "pass --task sequence-classification, or omit --problem-type"});
  }
  if (config.problem_type == problem_type) return;
  if (!config.problem_type.empty()) bundle.fresh_head = bundle.fresh_task = true;
  config.problem_type = problem_type;
}

void set_labels(ModelBundle& bundle, const LabelSet& labels) {
  if (bundle.config.task.labels == labels.names()) return;
  if (bundle.weights != nullptr && !bundle.fresh_task) {
    log_info(fmt::format("new classification head: {} ({}) replaces the model's {} ({})",
                         counted(labels.size(), "label"), labels.listed(), bundle.config.task.labels.size(),
                         LabelSet(bundle.config.task.labels, "the model's labels").listed()));
  }
  bundle.config.task.labels = labels.names();
  bundle.fresh_head = true;
}

void set_typed_labels(ModelBundle& bundle, const std::string& typed) {
  const LabelSet labels = LabelSet::parse(typed);
  if (bundle.task().reads_text()) {
    throw UsageError({.what = "the task has no labels",
                      .where = "--labels",
                      .found = labels.listed(),
                      .allowed = fmt::format("no --labels with --task {}", bundle.task().name()),
                      .remedy = "omit --labels, or pass --task sequence-classification"});
  }
  set_labels(bundle, labels);
}

void check_head(const ModelBundle& bundle) {
  if (std::optional<Problem> problem = bundle.task().refused_labels(bundle.config.task)) {
    throw UsageError(std::move(*problem));
  }
  check_loss(bundle);
}

void check_loss(const ModelBundle& bundle) {
  const LossOptions& loss = bundle.config.task.loss;
  if (loss.is_plain() || bundle.task().has_classes(bundle.config.task)) return;
  const std::string problem_type = bundle.config.task.problem_type;
  throw UsageError(
      {.what = "the loss is not over classes, one of which is right",
       .where = loss.focal_gamma > 0 ? "--focal-gamma" : "--label-smoothing-factor",
       .found = fmt::format("{}{}{}", bundle.task().name(), problem_type.empty() ? "" : ", ", problem_type),
       .remedy = "omit the option"});
}

void check_weights(const ModelBundle& bundle, MissingHead missing_head) {
  check_head(bundle);
  ParameterReport report = check_parameters(bundle.specs(), bundle.source(0));
  if (!report.fresh.empty() && missing_head == MissingHead::kRefused) {
    throw DataError(
        {.what = "the weights have no classification head, so results would be random",
         .where = bundle.weights->path().string(),
         .found = fmt::format("no '{}'", report.fresh.front()),
         .allowed = fmt::format("a model trained for token classification, with {}", fmt::join(report.fresh, ", ")),
         .remedy = fmt::format("train it first: plimsoll train --model {} --data FILE --output-dir DIR",
                               bundle.base.empty() ? bundle.origin : bundle.base)});
  }
  if (!report.fresh.empty() && !bundle.fresh_head) {
    log_info("new classification head: the weights have none");
  }
  // Published encoders have a pooler, which most heads do not use; `transformers` passes over it, too.
  std::erase_if(report.unused, [](const std::string& name) { return name.find("pooler.dense.") != std::string::npos; });
  if (!report.unused.empty()) {
    log_warning(fmt::format(
        "{}, '{}' among them",
        counted(report.unused.size(), "tensor in the weight file does not belong to this model and is ignored",
                "tensors in the weight file do not belong to this model and are ignored"),
        report.unused.front()));
  }
}

void verify_weights(const ModelBundle& bundle) {
  for (const auto& weights : {bundle.weights, bundle.adapter}) {
    if (weights == nullptr) continue;
    for (const std::filesystem::path& file : weights->files()) {
      // If another model has been put in its place meanwhile, this one is read through descriptors that are already
      // open.
      if (std::filesystem::exists(file)) verify_file(file);
    }
    weights->verify();
  }
}

void load_model(const ModelBundle& bundle, std::uint64_t seed, const ParameterMemory& memory) {
  verify_weights(bundle);
  load_parameters(bundle.specs(), bundle.source(seed), memory);
}

FileSums save_model_parts(const std::filesystem::path& directory, const ModelBundle& bundle, DType type) {
  const TokenizerUse use = bundle.task().reads_text() ? TokenizerUse::kTexts : TokenizerUse::kWords;
  FileSums sums = bundle.tokenizer->save(directory, use);
  nlohmann::json config = config_json(bundle.config);
  config["dtype"] = numpy_name(type);
  sums["config.json"] = write_text_file(directory / "config.json", config.dump(2) + "\n");
  for (const auto& [name, text] : bundle.companions) {
    std::filesystem::create_directories((directory / name).parent_path());
    sums[name] = write_text_file(directory / name, text);
  }
  if (bundle.facts().image.size > 0) {
    sums["preprocessor_config.json"] = write_text_file(directory / "preprocessor_config.json", bundle.image.to_json());
  }
  return sums;
}

FileSums save_model(const std::filesystem::path& directory, const ModelBundle& bundle, const ParameterSource& original,
                    const ParameterMemory& memory) {
  FileSums sums = save_model_parts(directory, bundle);
  if (bundle.options.lora.enabled()) {
    sums.merge(save_adapter(directory, bundle, original, memory));
  } else {
    sums["model.safetensors"] = save_parameters(directory / "model.safetensors", bundle.specs(), original, memory);
  }
  return sums;
}

}  // namespace plimsoll
