#include <algorithm>
#include <array>
#include <string_view>

#include "families/gpt2/gpt2.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::int64_t kMillion = 1000000;
// The first two are the same function.
constexpr std::array<std::string_view, 3> kActivations = {"gelu_new", "gelu_pytorch_tanh", "gelu"};

}  // namespace

Gpt2Config read_gpt2(const ConfigReader& reader) {
  Gpt2Config c;
  reader.integer("vocab_size", c.vocab_size, 2, 10 * kMillion);
  reader.integer("n_positions", c.n_positions, 1, kMillion);
  reader.integer("n_embd", c.n_embd, 1, kMillion);
  reader.integer("n_layer", c.n_layer, 1, 1000);
  reader.integer("n_head", c.n_head, 1, 10000);
  if (c.n_embd % c.n_head != 0) {
    reader.fail("n_head", "heads cannot share the columns evenly", "a divisor of n_embd");
  }
  reader.integer("n_inner", c.n_inner, 1, kMillion);
  reader.number("resid_pdrop", c.resid_pdrop, 0, 0.999);
  reader.number("embd_pdrop", c.embd_pdrop, 0, 0.999);
  reader.number("attn_pdrop", c.attn_pdrop, 0, 0.999);
  reader.number("layer_norm_epsilon", c.layer_norm_epsilon, 1e-12, 1);
  reader.number("initializer_range", c.initializer_range, 0, 1);
  reader.number("hidden_dropout", c.classifier_dropout, 0, 0.999);
  reader.number("classifier_dropout", c.classifier_dropout, 0, 0.999);
  reader.boolean("tie_word_embeddings", c.tie_word_embeddings);
  reader.integer("pad_token_id", c.pad_token_id, -1, c.vocab_size - 1);
  if (reader.has("activation_function")) {
    const json& name = reader.object().at("activation_function");
    if (!name.is_string() || std::ranges::find(kActivations, name.get<std::string>()) == kActivations.end()) {
      reader.fail("activation_function", "another activation than GELU is not supported",
                  R"("gelu_new", "gelu_pytorch_tanh" or "gelu")", kChooseAnother);
    }
    c.activation_function = name.get<std::string>();
  }
  reader.require("scale_attn_weights", true, "attention without a scale is not supported");
  reader.require("scale_attn_by_inverse_layer_idx", false, "a scale of attention by layer is not supported");
  reader.require("add_cross_attention", false, "attention to another model's states is not supported");
  return c;
}

void write_gpt2(const Gpt2Config& c, json& object) {
  object["vocab_size"] = c.vocab_size;
  object["n_positions"] = c.n_positions;
  object["n_embd"] = c.n_embd;
  object["n_layer"] = c.n_layer;
  object["n_head"] = c.n_head;
  object["n_inner"] = c.n_inner > 0 ? json(c.n_inner) : json();
  object["activation_function"] = c.activation_function;
  object["resid_pdrop"] = c.resid_pdrop;
  object["embd_pdrop"] = c.embd_pdrop;
  object["attn_pdrop"] = c.attn_pdrop;
  object["layer_norm_epsilon"] = c.layer_norm_epsilon;
  object["initializer_range"] = c.initializer_range;
  object["classifier_dropout"] = c.classifier_dropout;
  object["tie_word_embeddings"] = c.tie_word_embeddings;
  object["pad_token_id"] = c.pad_token_id < 0 ? json() : json(c.pad_token_id);
}

}  // namespace plimsoll
