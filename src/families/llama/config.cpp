#include <algorithm>
#include <cmath>
#include <numbers>

#include "families/llama/llama.h"

namespace plimsoll {

using nlohmann::json;

namespace {

constexpr std::int64_t kMillion = 1000000;

const char* name_of(RotaryForm::Type type) {
  switch (type) {
    case RotaryForm::Type::kDefault:
      return "default";
    case RotaryForm::Type::kLinear:
      return "linear";
    case RotaryForm::Type::kLlama3:
      return "llama3";
  }
  return "";
}

// Reads the object that says how positions are scaled. `transformers` writes `rope_parameters`; `rope_scaling`, of
// older files or added by hand, takes its place unless it is empty. `longest`: max_position_embeddings.
RotaryForm read_rotary(const ConfigReader& reader, std::int64_t longest) {
  RotaryForm form;
  reader.number("rope_theta", form.theta, 1, 1e12);
  const bool scales = reader.has("rope_scaling") && !reader.object().at("rope_scaling").empty();
  const char* const key = scales ? "rope_scaling" : "rope_parameters";
  if (!reader.has(key)) return form;
  const json& object = reader.object().at(key);
  if (!object.is_object()) reader.fail(key, "the form of rotary positions is not an object", "an object");
  const ConfigReader own(object, "config.json, " + std::string(key));
  own.number("rope_theta", form.theta, 1, 1e12);
  if (own.has("partial_rotary_factor")) {
    own.require("partial_rotary_factor", 1.0, "rotary positions on a part of a head are not supported");
  }
  const char* const type_key = own.has("rope_type") ? "rope_type" : "type";
  std::string type = "default";
  if (own.has(type_key)) {
    if (!object.at(type_key).is_string())
      own.fail(type_key, "a value has the wrong type", "\"default\", \"linear\" or \"llama3\"");
    type = object.at(type_key).get<std::string>();
  }
  using Type = RotaryForm::Type;
  const auto known = {Type::kDefault, Type::kLinear, Type::kLlama3};
  const auto* const found = std::ranges::find(known, type, [](Type each) { return std::string(name_of(each)); });
  if (found == known.end()) {
    own.fail(type_key, "this way of scaling rotary positions is not supported", "default, linear or llama3",
             "use a model without scaled positions");
  }
  form.type = *found;
  if (form.type == Type::kDefault) return form;
  const auto need = [&](const char* name) {
    if (!own.has(name)) own.fail(name, "a form of rotary positions lacks one of its numbers", "a number");
  };
  need("factor");
  own.number("factor", form.factor, 1, 1e6);
  if (form.type != Type::kLlama3) return form;
  need("low_freq_factor");
  need("high_freq_factor");
  own.number("low_freq_factor", form.low_freq_factor, 1e-3, 1e6);
  own.number("high_freq_factor", form.high_freq_factor, 1e-3, 1e6);
  form.original_max_position_embeddings = longest;
  // A number outside the object counts before the one in it, as in `transformers`.
  const bool outside = reader.has("original_max_position_embeddings");
  (outside ? reader : own)
      .integer("original_max_position_embeddings", form.original_max_position_embeddings, 1, 100 * kMillion);
  if (form.high_freq_factor <= form.low_freq_factor) {
    own.fail("high_freq_factor", "the factors of frequencies are the wrong way round", "more than low_freq_factor");
  }
  return form;
}

json rotary_json(const RotaryForm& form) {
  json object = {{"rope_type", name_of(form.type)}, {"rope_theta", form.theta}};
  if (form.type != RotaryForm::Type::kDefault) object["factor"] = form.factor;
  if (form.type == RotaryForm::Type::kLlama3) {
    object["low_freq_factor"] = form.low_freq_factor;
    object["high_freq_factor"] = form.high_freq_factor;
    object["original_max_position_embeddings"] = form.original_max_position_embeddings;
  }
  return object;
}

// Returns how many rows a row sees in the layers that have a window, or 0 if none has.
std::int64_t read_window(const ConfigReader& reader, const LlamaKind& kind, std::int64_t layers) {
  constexpr std::int64_t kUsual = 4096, kUsualFirstLayer = 28;  // of `transformers`
  std::int64_t window = kUsual, first_layer = kUsualFirstLayer;
  reader.integer("sliding_window", window, 1, 100 * kMillion);
  const json& object = reader.object();
  bool is_used =
      kind.window != LlamaKind::Window::kNone && (!object.contains("sliding_window") || reader.has("sliding_window"));
  if (kind.window == LlamaKind::Window::kIfUsed) {
    bool uses = false;
    reader.boolean("use_sliding_window", uses);
    reader.integer("max_window_layers", first_layer, 0, kMillion);
    is_used = is_used && uses && (first_layer < layers || reader.has("layer_types"));
  }
  if (!reader.has("layer_types")) return is_used ? window : 0;
  bool slides = false;
  for (const json& type : object.at("layer_types")) {
    const bool is_sliding = type == "sliding_attention";
    if (type != "full_attention" && !(is_sliding && is_used)) {
      reader.fail("layer_types", "a kind of attention is not supported",
                  is_used ? "full_attention or sliding_attention" : "full_attention in every layer", kChooseAnother);
    }
    slides = slides || is_sliding;
  }
  return is_used && (slides || kind.window == LlamaKind::Window::kAlways) ? window : 0;
}

}  // namespace

LlamaKind llama_kind() {
  return {.model_type = "llama",
          .class_name = "Llama",
          .vocab_size = 32000,
          .intermediate_size = 11008,
          .max_position_embeddings = 2048,
          .reads_attention_bias = true};
}

LlamaKind mistral_kind() {
  return {.model_type = "mistral",
          .class_name = "Mistral",
          .vocab_size = 32000,
          .intermediate_size = 14336,
          .max_position_embeddings = 131072,
          .num_key_value_heads = 8,
          .window = LlamaKind::Window::kAlways};
}

LlamaKind qwen2_kind() {
  return {.model_type = "qwen2",
          .class_name = "Qwen2",
          .vocab_size = 151936,
          .intermediate_size = 22016,
          .max_position_embeddings = 32768,
          .num_key_value_heads = 32,
          .has_bias_of_qkv = true,
          .window = LlamaKind::Window::kIfUsed};
}

LlamaKind qwen3_kind() {
  LlamaKind kind = qwen2_kind();
  kind.model_type = "qwen3";
  kind.class_name = "Qwen3";
  kind.head_dim = 128;
  kind.has_bias_of_qkv = false;
  kind.reads_attention_bias = true;
  kind.normalises_heads = true;
  return kind;
}

LlamaConfig read_llama(const ConfigReader& reader, const LlamaKind& kind) {
  LlamaConfig c;
  c.kind = kind;
  c.vocab_size = kind.vocab_size;
  c.intermediate_size = kind.intermediate_size;
  c.max_position_embeddings = kind.max_position_embeddings;
  reader.integer("vocab_size", c.vocab_size, 2, 10 * kMillion);
  reader.integer("hidden_size", c.hidden_size, 1, kMillion);
  reader.integer("intermediate_size", c.intermediate_size, 1, kMillion);
  reader.integer("num_hidden_layers", c.num_hidden_layers, 1, 1000);
  reader.integer("num_attention_heads", c.num_attention_heads, 1, 10000);
  // A file without the number of key heads has as many as query heads, or the kind's default; null means as many.
  const bool as_many = kind.num_key_value_heads == 0 || reader.object().contains("num_key_value_heads");
  c.num_key_value_heads = as_many ? c.num_attention_heads : kind.num_key_value_heads;
  reader.integer("num_key_value_heads", c.num_key_value_heads, 1, 10000);
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    reader.fail("num_key_value_heads", "heads cannot share keys evenly", "a divisor of num_attention_heads");
  }
  c.head_dim = kind.head_dim > 0 ? kind.head_dim : c.hidden_size / c.num_attention_heads;
  reader.integer("head_dim", c.head_dim, 2, 10000);
  if (c.head_dim % 2 != 0) {
    reader.fail("head_dim", "rotary positions turn pairs of a head's columns", "an even number");
  }
  reader.integer("max_position_embeddings", c.max_position_embeddings, 1, 100 * kMillion);
  reader.number("initializer_range", c.initializer_range, 0, 1);
  reader.number("rms_norm_eps", c.rms_norm_eps, 1e-12, 1);
  reader.number("attention_dropout", c.attention_dropout, 0, 0.999);
  reader.number("hidden_dropout", c.classifier_dropout, 0, 0.999);
  reader.number("classifier_dropout", c.classifier_dropout, 0, 0.999);
  if (kind.reads_attention_bias) reader.boolean("attention_bias", c.attention_bias);
  if (kind.model_type == "llama") reader.boolean("mlp_bias", c.mlp_bias);
  reader.boolean("tie_word_embeddings", c.tie_word_embeddings);
  reader.integer("pad_token_id", c.pad_token_id, -1, c.vocab_size - 1);
  // "swish" is its other name in `transformers`.
  if (!reader.has("hidden_act") || reader.object().at("hidden_act") != "swish") {
    reader.require("hidden_act", "silu", "another activation than SiLU is not supported");
  }
  if (reader.has("partial_rotary_factor")) {
    reader.require("partial_rotary_factor", 1.0, "rotary positions on a part of a head are not supported");
  }
  c.sliding_window = read_window(reader, kind, c.num_hidden_layers);
  c.rotary = read_rotary(reader, c.max_position_embeddings);
  return c;
}

void write_llama(const LlamaConfig& c, json& object) {
  object["vocab_size"] = c.vocab_size;
  object["hidden_size"] = c.hidden_size;
  object["intermediate_size"] = c.intermediate_size;
  object["num_hidden_layers"] = c.num_hidden_layers;
  object["num_attention_heads"] = c.num_attention_heads;
  object["num_key_value_heads"] = c.num_key_value_heads;
  object["head_dim"] = c.head_dim;
  object["max_position_embeddings"] = c.max_position_embeddings;
  object["initializer_range"] = c.initializer_range;
  object["rms_norm_eps"] = c.rms_norm_eps;
  object["attention_dropout"] = c.attention_dropout;
  object["classifier_dropout"] = c.classifier_dropout;
  if (c.kind.reads_attention_bias) object["attention_bias"] = c.attention_bias;
  if (c.kind.model_type == "llama") object["mlp_bias"] = c.mlp_bias;
  object["hidden_act"] = "silu";
  object["tie_word_embeddings"] = c.tie_word_embeddings;
  object["pad_token_id"] = c.pad_token_id < 0 ? json() : json(c.pad_token_id);
  // A file that says each layer's kind has as many as there are layers, or `transformers` refuses it.
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (const auto types = object.find("layer_types");
      types != object.end() && types->is_array() && types->size() != layers) {
    *types = std::vector<std::string>(layers, "full_attention");
  }
  object["rope_parameters"] = rotary_json(c.rotary);
  object.erase("rope_scaling");
  object.erase("rope_theta");
}

std::vector<float> rotary_frequencies(const RotaryForm& form, std::int64_t head_dim) {
  std::vector<float> frequencies;
  for (std::int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(head_dim);
    float frequency = 1.0F / static_cast<float>(std::pow(form.theta, double{exponent}));
    if (form.type == RotaryForm::Type::kLinear) frequency /= static_cast<float>(form.factor);
    if (form.type == RotaryForm::Type::kLlama3) {
      const auto original = static_cast<double>(form.original_max_position_embeddings);
      const double wavelength = 2 * std::numbers::pi / double{frequency};
      if (wavelength > original / form.low_freq_factor) {
        frequency = static_cast<float>(double{frequency} / form.factor);
      } else if (wavelength >= original / form.high_freq_factor) {
        const double kept =
            (original / wavelength - form.low_freq_factor) / (form.high_freq_factor - form.low_freq_factor);
        frequency = static_cast<float>((1 - kept) * double{frequency} / form.factor + kept * double{frequency});
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace plimsoll
