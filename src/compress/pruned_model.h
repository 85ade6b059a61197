// The directory of a pruned model: its config and its weights without the removed units.
//
//   const PrunedModel pruned(bundle, groups, masks, PrunedLayout::kPlimsoll);
//   write_model("smaller", [&](const std::filesystem::path& aside) { return pruned.save(aside, read); });
//
// In the layout of `transformers` all layers have one width, that of the widest, and removed heads are zeros, since its
// configs have neither pruned heads nor widths by layer. In ours, each layer has its own width (`pruned_layers` of
// config.json), under a name that `transformers` refuses. Both compute the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "compress/pruned_units.h"

namespace plimsoll {

class PrunedModel {
 public:
  // Reads elements of a parameter of the original model, from `first` on.
  using Read = std::function<void(const ParameterSpec& spec, std::int64_t first, std::span<float> values)>;

  // Each layer must keep some units (for others, see fewer_layers.h). Throws UsageError if `transformers` has no layout
  // for it, because heads were pruned before.
  PrunedModel(const ModelBundle& bundle, const std::vector<WeighedUnits>& groups, const Masks& masks,
              PrunedLayout layout);

  // Returns the bundle with the smaller config; its weights are still the larger ones.
  const ModelBundle& bundle() const { return pruned_; }
  std::int64_t parameters() const;

  // Writes config.json, model.safetensors, the tokenizer's files and preprocessor_config.json.
  FileSums save(const std::filesystem::path& directory, const Read& read) const;

 private:
  // Where the rows (or columns) of a smaller tensor come from: an index of the larger one, or kNone, which is a 0.
  static constexpr std::int64_t kNone = -1;
  using Selection = std::vector<std::int64_t>;
  struct Change {
    std::string source;  // the parameter of the original model
    Selection rows{}, columns{};
  };

  void select(const PrunableUnits& units, const std::vector<bool>& kept, std::int64_t width, PrunedLayout layout);

  ModelBundle original_;
  ModelBundle pruned_;
  std::map<std::string, Change> changes_;  // by the new parameter's name
};

}  // namespace plimsoll
