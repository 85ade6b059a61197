#include "model/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/counted.h"
#include "base/dropout.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/json.h"
#include "graph/relative_bucket.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Reads typed values with errors that name file and key.
class Reader {
 public:
  Reader(const json& object, const std::string& where) : object_(object), where_(where) {}

  [[noreturn]] void fail(std::string_view key, std::string_view what, std::string allowed) const {
    throw DataError({.what = fmt::format("config.json: {}", what),
                     .where = fmt::format("{}, key \"{}\"", where_, key),
                     .found = object_.contains(key) ? object_.at(std::string(key)).dump() : "nothing",
                     .allowed = std::move(allowed),
                     .remedy = "use a LayoutLMv3 model directory as `transformers` saves it"});
  }
  bool has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }
  void integer(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high) const {
    if (!has(key)) return;
    const json& found = object_.at(key);
    if (!found.is_number_integer() || found.get<std::int64_t>() < low || found.get<std::int64_t>() > high) {
      fail(key, "a value is not in its range", fmt::format("a whole number from {} to {}", low, high));
    }
    value = found.get<std::int64_t>();
  }
  void number(const char* key, double& value, double low, double high) const {
    if (!has(key)) return;
    const json& found = object_.at(key);
    if (!found.is_number() || !(found.get<double>() >= low) || !(found.get<double>() <= high)) {
      fail(key, "a value is not in its range", fmt::format("a number from {} to {}", low, high));
    }
    value = found.get<double>();
  }
  void boolean(const char* key, bool& value) const {
    if (!has(key)) return;
    if (!object_.at(key).is_boolean()) fail(key, "a value has the wrong type", "true or false");
    value = object_.at(key).get<bool>();
  }

 private:
  const json& object_;
  const std::string& where_;
};

std::vector<std::string> read_labels(const json& object, const Reader& reader) {
  std::vector<std::string> labels;
  if (reader.has("id2label")) {
    const json& names = object.at("id2label");
    if (!names.is_object() || names.empty()) reader.fail("id2label", "the label list is unusable", "{\"0\": \"O\", …}");
    labels.resize(names.size());
    for (const auto& [key, name] : names.items()) {
      const bool digits = !key.empty() && key.size() < 6 && key.find_first_not_of("0123456789") == std::string::npos;
      const std::size_t id = digits ? std::stoul(key) : labels.size();
      if (id >= labels.size() || !name.is_string() || name.get<std::string>().empty()) {
        reader.fail("id2label", "the label list is unusable", fmt::format("names for ids 0 to {}", labels.size() - 1));
      }
      labels[id] = name.get<std::string>();
    }
    if (std::find(labels.begin(), labels.end(), "") != labels.end()) {
      reader.fail("id2label", "a label id is missing", fmt::format("names for ids 0 to {}", labels.size() - 1));
    }
    return labels;
  }
  std::int64_t count = 2;  // PretrainedConfig's default
  reader.integer("num_labels", count, 1, 100000);
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

void read_patch_size(const json& object, const Reader& reader, LayoutLMv3Config& config) {
  if (reader.has("patch_size") && object.at("patch_size").is_array()) {
    const json& sizes = object.at("patch_size");
    const bool square = sizes.size() == 2 && sizes[0] == sizes[1] && sizes[0].is_number_integer();
    if (!square || sizes[0].get<std::int64_t>() < 1 || sizes[0].get<std::int64_t>() > 1024) {
      reader.fail("patch_size", "patches must be square", "one whole number from 1 to 1024, or two equal ones");
    }
    config.patch_size = sizes[0].get<std::int64_t>();
    return;
  }
  reader.integer("patch_size", config.patch_size, 1, 1024);
}

// Half of the bins are for each direction, half of those for exact distances, the others for logarithms beyond these.
void check_bins(const Reader& reader, const char* key, std::int64_t bins, const char* distance_key,
                std::int64_t distance) {
  if (bins % 4 != 0) reader.fail(key, "bins are halved twice", "a multiple of 4");
  if (distance <= bins / 4) {
    reader.fail(distance_key, "the largest distance lies within the exact bins", fmt::format("more than {}", bins / 4));
  }
}

LayoutLMv3Config shape(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t intermediate,
                       std::int64_t coordinate, std::int64_t shape_size) {
  LayoutLMv3Config config;
  config.hidden_size = hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.intermediate_size = intermediate;
  config.coordinate_size = coordinate;
  config.shape_size = shape_size;
  config.max_position_embeddings = 514;
  config.type_vocab_size = 1;
  config.labels = {"O"};
  return config;
}

}  // namespace

LayoutLMv3Config parse_config(const json& object, const std::string& where) {
  const Reader reader(object, where);
  if (!object.is_object() || object.value("model_type", json()) != "layoutlmv3") {
    reader.fail("model_type", "not a LayoutLMv3 model", "\"layoutlmv3\"");
  }
  LayoutLMv3Config c;
  constexpr std::int64_t kMillion = 1000000;
  reader.integer("vocab_size", c.vocab_size, 2, 10 * kMillion);
  reader.integer("hidden_size", c.hidden_size, 1, kMillion);
  reader.integer("num_hidden_layers", c.num_hidden_layers, 1, 1000);
  reader.integer("num_attention_heads", c.num_attention_heads, 1, 10000);
  reader.integer("intermediate_size", c.intermediate_size, 1, kMillion);
  reader.number("hidden_dropout_prob", c.hidden_dropout_prob, 0, 0.999);
  reader.number("attention_probs_dropout_prob", c.attention_probs_dropout_prob, 0, 0.999);
  reader.number("classifier_dropout", c.classifier_dropout, 0, 0.999);
  reader.integer("max_position_embeddings", c.max_position_embeddings, 4, kVisualCoordinate);
  reader.integer("type_vocab_size", c.type_vocab_size, 1, 1000);
  reader.number("initializer_range", c.initializer_range, 0, 100);
  reader.number("layer_norm_eps", c.layer_norm_eps, 1e-20, 1);
  // It is a row of the position table, too, and tokens' positions begin behind it.
  reader.integer("pad_token_id", c.pad_token_id, 0, std::min(c.vocab_size - 1, c.max_position_embeddings - 2));
  reader.integer("max_2d_position_embeddings", c.max_2d_position_embeddings, 1001, kMillion);
  reader.integer("coordinate_size", c.coordinate_size, 1, kMillion);
  reader.integer("shape_size", c.shape_size, 1, kMillion);
  reader.boolean("has_relative_attention_bias", c.has_relative_attention_bias);
  reader.integer("rel_pos_bins", c.rel_pos_bins, 4, 10000);
  reader.integer("max_rel_pos", c.max_rel_pos, 1, kMostRelativeDistance);
  reader.boolean("has_spatial_attention_bias", c.has_spatial_attention_bias);
  reader.integer("rel_2d_pos_bins", c.rel_2d_pos_bins, 4, 10000);
  reader.integer("max_rel_2d_pos", c.max_rel_2d_pos, 1, kMostRelativeDistance);
  reader.integer("input_size", c.input_size, 1, 4096);
  reader.integer("num_channels", c.num_channels, 3, 3);
  read_patch_size(object, reader, c);
  if (object.value("hidden_act", json("gelu")) != "gelu") reader.fail("hidden_act", "unknown activation", "\"gelu\"");
  for (const char* key : {"text_embed", "visual_embed"}) {
    bool present = true;
    reader.boolean(key, present);
    if (!present) reader.fail(key, "text-only and image-only models are not supported", "true");
  }
  if (c.hidden_size % c.num_attention_heads != 0) {
    reader.fail("num_attention_heads", "heads do not divide the hidden size",
                fmt::format("a divisor of {}", c.hidden_size));
  }
  if (4 * c.coordinate_size + 2 * c.shape_size != c.hidden_size) {
    reader.fail("coordinate_size", "4 coordinate_size + 2 shape_size is not the hidden size",
                fmt::format("sizes that add up to {}", c.hidden_size));
  }
  if (c.input_size % c.patch_size != 0) {
    reader.fail("input_size", "patches do not tile the image", fmt::format("a multiple of {}", c.patch_size));
  }
  check_bins(reader, "rel_pos_bins", c.rel_pos_bins, "max_rel_pos", c.max_rel_pos);
  check_bins(reader, "rel_2d_pos_bins", c.rel_2d_pos_bins, "max_rel_2d_pos", c.max_rel_2d_pos);
  c.labels = read_labels(object, reader);
  c.source = object;
  return c;
}

LayoutLMv3Config read_config(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "config.json";
  const std::string text = read_text_file(path, 1 << 24);
  const json object = parse_json(text, path.string());
  if (object.is_discarded()) {
    throw DataError({.what = "config.json is not valid JSON",
                     .where = path.string(),
                     .found = counted(text.size(), "byte") + " that end early or break off",
                     .allowed = "a JSON object as `transformers` saves it",
                     .remedy = "copy the model directory again"});
  }
  return parse_config(object, path.string());
}

json config_json(const LayoutLMv3Config& c) {
  json object = c.source;
  object["model_type"] = "layoutlmv3";
  object["architectures"] = {"LayoutLMv3ForTokenClassification"};
  object["vocab_size"] = c.vocab_size;
  object["hidden_size"] = c.hidden_size;
  object["num_hidden_layers"] = c.num_hidden_layers;
  object["num_attention_heads"] = c.num_attention_heads;
  object["intermediate_size"] = c.intermediate_size;
  object["hidden_act"] = "gelu";
  object["hidden_dropout_prob"] = c.hidden_dropout_prob;
  object["attention_probs_dropout_prob"] = c.attention_probs_dropout_prob;
  object["classifier_dropout"] = c.classifier_dropout < 0 ? json() : json(c.classifier_dropout);
  object["max_position_embeddings"] = c.max_position_embeddings;
  object["type_vocab_size"] = c.type_vocab_size;
  object["initializer_range"] = c.initializer_range;
  object["layer_norm_eps"] = c.layer_norm_eps;
  object["pad_token_id"] = c.pad_token_id;
  if (!object.contains("bos_token_id")) object["bos_token_id"] = 0;
  if (!object.contains("eos_token_id")) object["eos_token_id"] = 2;
  object["max_2d_position_embeddings"] = c.max_2d_position_embeddings;
  object["coordinate_size"] = c.coordinate_size;
  object["shape_size"] = c.shape_size;
  object["has_relative_attention_bias"] = c.has_relative_attention_bias;
  object["rel_pos_bins"] = c.rel_pos_bins;
  object["max_rel_pos"] = c.max_rel_pos;
  object["has_spatial_attention_bias"] = c.has_spatial_attention_bias;
  object["rel_2d_pos_bins"] = c.rel_2d_pos_bins;
  object["max_rel_2d_pos"] = c.max_rel_2d_pos;
  object["input_size"] = c.input_size;
  object["num_channels"] = c.num_channels;
  object["patch_size"] = c.patch_size;
  object["text_embed"] = true;
  object["visual_embed"] = true;
  json names = json::object(), ids = json::object();
  for (std::size_t i = 0; i < c.labels.size(); ++i) {
    names[std::to_string(i)] = c.labels[i];
    ids[c.labels[i]] = i;
  }
  object["id2label"] = names;
  object["label2id"] = ids;
  object.erase("num_labels");
  object.erase("torch_dtype");
  object["dtype"] = "float32";
  return object;
}

std::vector<std::string> preset_names() {
  return {"layoutlmv3-tiny", "layoutlmv3-small", "layoutlmv3-base", "layoutlmv3-large"};
}

bool is_preset(std::string_view name) {
  const std::vector<std::string> names = preset_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

LayoutLMv3Config preset_config(std::string_view name) {
  if (name == "layoutlmv3-tiny") {
    LayoutLMv3Config tiny = shape(96, 2, 3, 384, 16, 16);
    tiny.patch_size = 32;  // 49 patches in place of 196: text is what so small a model learns from
    return tiny;
  }
  if (name == "layoutlmv3-small") return shape(192, 6, 6, 768, 32, 32);
  if (name == "layoutlmv3-base") return shape(768, 12, 12, 3072, 128, 128);
  if (name == "layoutlmv3-large") return shape(1024, 24, 16, 4096, 171, 170);
  throw UsageError({.what = "no such model preset",
                    .where = "--model",
                    .found = std::string(name),
                    .allowed = fmt::format("a model directory, or one of {}", fmt::join(preset_names(), ", "))});
}

}  // namespace plimsoll
