// ModelBuilder: the graph of a model while its encoder and its head append to it. Names follow the modules of
// `transformers`; parameters and inputs are found by name.
//
//   const ValueId hidden = builder.dense("encoder.pooler.dense", first, samples);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/definition.h"

namespace plimsoll {

// Append the parameters of a PyTorch module.
void add_spec(std::vector<ParameterSpec>& specs, std::string name, Shape shape, ParameterSpec::Init init,
              ParameterSpec::Part part = ParameterSpec::Part::kOther);
void add_layer_norm(std::vector<ParameterSpec>& specs, const std::string& name, std::int64_t width);
// `part` is the weight's; the bias is kHead if that is, else kOther.
void add_linear(std::vector<ParameterSpec>& specs, const std::string& name, std::int64_t out, std::int64_t in,
                ParameterSpec::Part part = ParameterSpec::Part::kOther);

class ModelBuilder {
 public:
  // Declares all parameters and inputs. Without `with_dropout` every rate is 0.
  ModelBuilder(const ModelDefinition& model, const ModelCapacity& capacity, bool with_dropout,
               const ModelOptions& options, DType dtype);

  Graph& graph() { return graph_; }
  std::vector<ValueId> take_trained() { return std::move(trained_); }
  // Throws InternalError for an unknown name.
  ValueId input(std::string_view name) const;
  ValueId parameter(std::string_view name) const;
  // Returns kNoValue if the map has no bias.
  ValueId bias_of(const std::string& map) const;
  // Return the type of the encoder's activations, and the type of values that stay F32 if those are a half.
  DType encoder_dtype() const { return encoder_dtype_; }
  DType wide_dtype() const { return wide_dtype_; }
  // Returns the given rate, or 0 without dropout.
  double rate(double p) const { return with_dropout_ ? p : 0; }
  // Returns the number of the next dropout site. Sites are numbered in the order of the model, whether or not dropout
  // is on, so that a mask never depends on the graph's form.
  std::uint32_t next_site() { return next_site_++; }

  // `rows` is the value that counts the used rows; kNoValue: all.
  ValueId norm(const std::string& name, ValueId x, double eps, ValueId rows);
  ValueId rms_norm(const std::string& name, ValueId x, double eps, ValueId rows);
  // Computes x W^T + b with the parameters `name`.weight and, if it exists, `name`.bias, and with the map's adapter and
  // mask, if any.
  ValueId dense(const std::string& name, ValueId x, ValueId rows);
  ValueId drop(const std::string& name, ValueId x, double p, ValueId keys, ValueId rows);
  ValueId lookup(const std::string& name, ValueId ids, EmbeddingAttributes attributes, ValueId rows);
  // Returns the text rows of the encoder's output, as F32, or as `to`.
  ValueId text_rows(const Encoded& encoded) { return text_rows(encoded, wide_dtype_); }
  ValueId text_rows(const Encoded& encoded, DType to);
  // Returns the row that represents each sample, as F32 [B, D], or as `to`: the first, or the last if the head declares
  // last_rows and last_row_of in place of first_rows and first_row_of. The head must declare samples, too.
  ValueId sample_rows(const Encoded& encoded) { return sample_rows(encoded, wide_dtype_); }
  ValueId sample_rows(const Encoded& encoded, DType to);

 private:
  ValueId add_low_rank(const std::string& name, ValueId x, ValueId y, ValueId rows);
  ValueId dora(const std::string& name, ValueId x, ValueId rows);
  ValueId drop_adapter_input(const std::string& name, ValueId x, ValueId rows);

  const LoraOptions& lora_;
  const std::set<std::string>& masked_maps_;
  const bool with_dropout_;
  const DType encoder_dtype_, wide_dtype_;
  Graph graph_;
  std::vector<ValueId> trained_;
  std::map<std::string, ValueId, std::less<>> parameters_, inputs_;
  std::map<ValueId, std::shared_ptr<const std::vector<std::int32_t>>> rows_of_;  // ParameterSpec::rows
  std::map<std::string, std::uint32_t> adapter_sites_;  // by module, with or without an adapter
  std::uint32_t next_site_ = 0;
};

}  // namespace plimsoll
