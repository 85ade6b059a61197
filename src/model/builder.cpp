#include "model/builder.h"

#include "base/error.h"
#include "graph/build.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;

// The number of the first dropout site of an adapter, beyond the base model's, whose masks are the same with adapters
// and without; below the limit of base/dropout.h.
constexpr std::uint32_t kFirstAdapterSite = 32768;

ValueId find(const std::map<std::string, ValueId, std::less<>>& values, std::string_view name) {
  const auto found = values.find(name);
  check(found != values.end(), "the model declares what its graph reads");
  return found->second;
}

}  // namespace

void add_spec(std::vector<ParameterSpec>& specs, std::string name, Shape shape, Init init, Part part) {
  specs.push_back({.name = std::move(name), .shape = shape, .file_shape = shape, .init = init, .part = part});
}

void add_layer_norm(std::vector<ParameterSpec>& specs, const std::string& name, std::int64_t width) {
  add_spec(specs, name + ".weight", {width}, Init::kOnes);
  add_spec(specs, name + ".bias", {width}, Init::kZeros);
}

void add_linear(std::vector<ParameterSpec>& specs, const std::string& name, std::int64_t out, std::int64_t in,
                Part part) {
  add_spec(specs, name + ".weight", {out, in}, Init::kNormal, part);
  add_spec(specs, name + ".bias", {out}, Init::kZeros, part == Part::kHead ? part : Part::kOther);
}

ModelBuilder::ModelBuilder(const ModelDefinition& model, const ModelCapacity& capacity, bool with_dropout,
                           const ModelOptions& options, DType dtype)
    : lora_(options.lora),
      masked_maps_(options.masked_maps),
      with_dropout_(with_dropout),
      encoder_dtype_(dtype),
      wide_dtype_(wide(dtype)) {
  for (const ParameterSpec& spec : model.specs(options)) {
    const ValueId value = graph_.add_parameter(spec.name, {parameter_type(spec, dtype, options), spec.shape});
    parameters_[spec.name] = value;
    if (spec.rows != nullptr) rows_of_[value] = spec.rows;
    if (spec.trains) trained_.push_back(value);
  }
  std::uint32_t site = kFirstAdapterSite;
  for (const LinearMap& map : model.encoder().linear_maps()) adapter_sites_[map.name] = site++;
  const auto add = [&](std::string_view name, const TensorType& type) {
    inputs_[std::string(name)] = graph_.add_input(std::string(name), type);
  };
  for (const InputSpec& input : model.inputs(capacity, dtype)) add(input.name, input.type);
  add(input::kDropoutKey, {DType::kI32, {2}});
  add(input::kLossScale, {wide_dtype_, {1}});
}

ValueId ModelBuilder::input(std::string_view name) const { return find(inputs_, name); }
ValueId ModelBuilder::parameter(std::string_view name) const { return find(parameters_, name); }

ValueId ModelBuilder::norm(const std::string& name, ValueId x, double eps, ValueId rows) {
  return layer_norm(graph_, name, x, parameter(name + ".weight"), parameter(name + ".bias"), eps, rows).y;
}

ValueId ModelBuilder::rms_norm(const std::string& name, ValueId x, double eps, ValueId rows) {
  return plimsoll::rms_norm(graph_, name, x, parameter(name + ".weight"), eps, rows);
}

ValueId ModelBuilder::bias_of(const std::string& map) const {
  const auto found = parameters_.find(map + ".bias");
  return found == parameters_.end() ? kNoValue : found->second;
}

ValueId ModelBuilder::dense(const std::string& name, ValueId x, ValueId rows) {
  if (masked_maps_.contains(name)) {
    x = affine(graph_, mask_name(name), x, parameter(mask_name(name)), kNoValue, rows);
  }
  const bool adapts = lora_.enabled() && lora_.modules.contains(name);
  if (adapts && lora_.dora) return dora(name, x, rows);
  const ValueId y = linear(graph_, name, x, parameter(name + ".weight"), bias_of(name), rows);
  return adapts ? add_low_rank(name, drop_adapter_input(name, x, rows), y, rows) : y;
}

// With g = magnitude / norm: W x + b + (g - 1) W x' + g scale B A x', where x' is x after the adapter's dropout, as
// in PEFT; that is g (W + scale B A) x' + W (x - x') + b. Without dropout x' is x.
ValueId ModelBuilder::dora(const std::string& name, ValueId x, ValueId rows) {
  const ValueId weight = parameter(name + ".weight"), bias = bias_of(name);
  const ValueId norms = inverse_row_norms(graph_, name + ".dora_norms", weight, parameter(lora_a_name(name)),
                                          parameter(lora_b_name(name)), lora_.scale_of(name));
  const ValueId factors = multiply(graph_, name + ".dora_factors", parameter(magnitude_name(name)), norms, kNoValue);
  const ValueId dropped = drop_adapter_input(name, x, rows);
  const ValueId base = linear(graph_, name + ".dora_base", dropped, weight, kNoValue, rows);
  const ValueId y = add_low_rank(name, dropped, base, rows);
  if (dropped == x) return affine(graph_, name, y, factors, bias, rows);
  const ValueId minus = scale(graph_, name + ".dora_minus", dropped, -1, rows);
  const ValueId lost = add(graph_, name + ".dora_lost", x, minus, rows);  // of x, by dropout
  const ValueId rest = linear(graph_, name + ".dora_rest", lost, weight, bias, rows);
  return add(graph_, name, affine(graph_, name + ".dora_scaled", y, factors, kNoValue, rows), rest, rows);
}

ValueId ModelBuilder::drop_adapter_input(const std::string& name, ValueId x, ValueId rows) {
  const DropoutAttributes attributes{.p = rate(lora_.dropout), .site = adapter_sites_.at(name)};
  return dropout(graph_, name + ".lora_dropout", x, input(input::kRowKeys), input(input::kDropoutKey), attributes,
                 rows);
}

// Returns y + scale B A x, for a map of the encoder.
ValueId ModelBuilder::add_low_rank(const std::string& name, ValueId x, ValueId y, ValueId rows) {
  ValueId low = linear(graph_, name + ".lora_A", x, parameter(lora_a_name(name)), kNoValue, rows);
  low = scale(graph_, name + ".lora_scale", low, lora_.scale_of(name), rows);
  return linear_add(graph_, name + ".lora_B", low, parameter(lora_b_name(name)), y, rows);
}

ValueId ModelBuilder::drop(const std::string& name, ValueId x, double p, ValueId keys, ValueId rows) {
  const std::uint32_t site = next_site();
  return dropout(graph_, name, x, keys, input(input::kDropoutKey), {.p = rate(p), .site = site}, rows);
}

ValueId ModelBuilder::lookup(const std::string& name, ValueId ids, EmbeddingAttributes attributes, ValueId rows) {
  const ValueId table = parameter(name + ".weight");
  if (const auto kept = rows_of_.find(table); kept != rows_of_.end()) {
    attributes.padding_idx = word_row(*kept->second, static_cast<std::int32_t>(attributes.padding_idx)).value_or(-1);
  }
  return embedding(graph_, name, table, ids, attributes, rows);
}

ValueId ModelBuilder::text_rows(const Encoded& encoded, DType to) {
  ValueId text = encoded.hidden;
  if (encoded.text_row_index != kNoValue) {
    text = add_single(graph_, {.op = Op::kGatherRows,
                               .name = "text_rows",
                               .inputs = {text, encoded.text_row_index, encoded.row_source},
                               .row_count = encoded.text_rows});
  }
  return cast(graph_, "text_rows.cast", text, to, encoded.text_rows);
}

ValueId ModelBuilder::sample_rows(const Encoded& encoded, DType to) {
  if (encoded.sample_rows != kNoValue) return encoded.sample_rows;
  const ValueId samples = input(input::kSamples);
  const bool last = inputs_.contains(input::kLastRows);
  const std::string name(last ? input::kLastRows : input::kFirstRows);
  const ValueId rows =
      add_single(graph_, {.op = Op::kGatherRows,
                          .name = name,
                          .inputs = {encoded.hidden, input(name), input(last ? input::kLastRowOf : input::kFirstRowOf)},
                          .row_count = samples});
  return cast(graph_, name + ".cast", rows, to, samples);
}

}  // namespace plimsoll
