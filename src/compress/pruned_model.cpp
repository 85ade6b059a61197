#include "compress/pruned_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "formats/safetensors.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Floats that are copied at a time.
constexpr std::int64_t kPiece = 1 << 20;
constexpr const char* kLayersKey = "pruned_layers";

std::vector<std::int64_t> indices_of(const std::vector<bool>& kept) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) indices.push_back(static_cast<std::int64_t>(i));
  }
  return indices;
}

}  // namespace

PrunedModel::PrunedModel(const ModelBundle& bundle, const std::vector<WeighedUnits>& groups, const Masks& masks,
                         PrunedLayout layout)
    : original_(bundle), pruned_(bundle) {
  json config = config_json(bundle.config);
  const bool pruned_before = config.contains(kLayersKey);
  if (layout == PrunedLayout::kTransformers && pruned_before) {
    throw UsageError({.what = "the model's layers already have different widths, which transformers cannot load",
                      .where = "--layout",
                      .found = fmt::format("transformers, of {}", bundle.origin),
                      .allowed = "plimsoll for this model",
                      .remedy = "pass --layout plimsoll, or prune the model that this one was made of"});
  }
  const std::int64_t width = common_width(groups, masks);
  if (layout == PrunedLayout::kTransformers) {
    config["intermediate_size"] = width;
  } else if (!pruned_before) {
    config[kLayersKey] = json::array();
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const PrunableUnits& units = groups[g].units;
    select(units, masks[g], width, layout);
    if (layout == PrunedLayout::kTransformers) continue;
    const auto layer = static_cast<std::size_t>(units.layer);
    config[kLayersKey][layer][units.key] = count_kept(masks[g]);
  }
  if (layout == PrunedLayout::kPlimsoll && !pruned_before) {
    config["model_type"] = kPrunedPrefix + config["model_type"].get<std::string>();
  }
  pruned_.config = parse_config(config, bundle.origin);
  pruned_.config.task = bundle.config.task;
}

void PrunedModel::select(const PrunableUnits& units, const std::vector<bool>& kept, std::int64_t width,
                         PrunedLayout layout) {
  const bool heads = units.kind == PrunableUnits::Kind::kHeads;
  Selection indices = indices_of(kept);
  if (layout == PrunedLayout::kTransformers && heads) {  // removed heads are zeros in their places
    indices.clear();
    for (std::size_t i = 0; i < kept.size(); ++i) indices.push_back(kept[i] ? static_cast<std::int64_t>(i) : kNone);
  } else if (layout == PrunedLayout::kTransformers) {
    indices.resize(static_cast<std::size_t>(width / units.shrink), kNone);
  }
  for (const PrunableUnits::Stream& stream : units.streams) {
    Selection columns;
    for (const std::int64_t unit : indices) {
      for (std::int64_t c = 0; c < stream.width; ++c)
        columns.push_back(unit == kNone ? kNone : unit * stream.width + c);
    }
    for (const std::string& producer : stream.producers) {
      const std::string weight = producer + ".weight", bias = producer + ".bias";
      changes_[weight] = {.source = weight, .rows = columns};
      changes_[bias] = {.source = bias, .rows = columns};
    }
    const std::string weight = stream.consumer + ".weight";
    changes_[weight] = {.source = weight, .columns = std::move(columns)};
  }
  if (layout == PrunedLayout::kTransformers) return;
  for (const PrunableUnits::Table& table : units.tables)
    changes_[table.own] = {.source = table.shared, .rows = indices};
}

std::int64_t PrunedModel::parameters() const { return parameter_count(pruned_.specs()); }

FileSums PrunedModel::save(const std::filesystem::path& directory, const Read& read) const {
  FileSums sums = save_model_parts(directory, pruned_);
  std::map<std::string, ParameterSpec> before;
  for (ParameterSpec& spec : original_.specs()) before[spec.name] = std::move(spec);
  const std::vector<ParameterSpec> specs = pruned_.specs();
  std::vector<TensorDeclaration> declarations;
  for (const ParameterSpec& spec : specs) declarations.push_back({spec.name, {DType::kF32, spec.file_shape}});
  SafetensorsWriter writer(directory / "model.safetensors", std::move(declarations));
  std::vector<float> values, row;
  for (const ParameterSpec& spec : specs) {
    check(!spec.transposed, "a family whose files are transposed has no units that are pruned");
    const auto change = changes_.find(spec.name);
    const ParameterSpec& source = before.at(change == changes_.end() ? spec.name : change->second.source);
    if (change == changes_.end()) {
      check(source.shape == spec.shape, [&] { return fmt::format("'{}' keeps its shape", spec.name); });
      for (std::int64_t first = 0; first < spec.shape.elements(); first += kPiece) {
        values.resize(static_cast<std::size_t>(std::min(kPiece, spec.shape.elements() - first)));
        read(source, first, values);
        writer.write(std::as_bytes(std::span(values)));
      }
      continue;
    }
    const Selection &rows = change->second.rows, &columns = change->second.columns;
    const std::int64_t width = source.shape.rank() == 2 ? source.shape[1] : 1;
    const std::int64_t count = rows.empty() ? source.shape[0] : std::ssize(rows);
    check(count * (columns.empty() ? width : std::ssize(columns)) == spec.shape.elements(),
          [&] { return fmt::format("the selection of '{}' has its new shape", spec.name); });
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t from = rows.empty() ? r : rows[static_cast<std::size_t>(r)];
      values.assign(static_cast<std::size_t>(width), 0);
      if (from != kNone) read(source, from * width, values);
      if (!columns.empty()) {
        row.clear();
        for (const std::int64_t c : columns) row.push_back(c == kNone ? 0 : values[static_cast<std::size_t>(c)]);
        values.swap(row);
      }
      writer.write(std::as_bytes(std::span(values)));
    }
  }
  sums["model.safetensors"] = writer.finish();
  return sums;
}

}  // namespace plimsoll
