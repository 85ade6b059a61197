// Pruned models of every family: both layouts compute what the whole model computes with zeros in the columns that
// went; and the gradients of masks are those of the weights that they stand for.
#include "compress/pruned_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "base/bytes.h"
#include "compress/fewer_layers.h"
#include "formats/safetensors.h"
#include "harness/paths.h"
#include "model/file_values.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"
#include "train/gradients.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using Values = std::vector<float>;

void read_parameter(const ParameterSpec& spec, const ParameterSource& source, std::int64_t first,
                    std::span<float> values) {
  std::vector<std::byte> staging(64 * kKiB);
  read_values(*source.weights, name_in_weights(source, spec.name).value(), spec, first, values, staging);
}

Values values_of(const SafetensorsReader& file, const std::string& name) {
  Values values(static_cast<std::size_t>(file.at(name).type.shape.elements()));
  file.read(name, std::as_writable_bytes(std::span(values)));
  return values;
}

class PrunedModels : public testing::TestWithParam<std::string> {
 protected:
  // The golden directories have no tokenizer.
  ModelBundle open(const fs::path& directory) const {
    ModelBundle bundle = open_weights_only(directory.string());
    bundle.tokenizer = std::make_shared<Tokenizer>(Tokenizer::embedded(bundle.facts().coordinates > 0));
    return bundle;
  }
  fs::path golden() const { return test_data_dir() / "model" / GetParam(); }
  fs::path compute(const ModelBundle& bundle, const std::string& name) {
    const fs::path output = folder_.path() / (name + ".safetensors");
    compute_gradients(bundle, golden() / "batch0.safetensors", output, backend_);
    return output;
  }
  Values logits(const ModelBundle& bundle, const std::string& name) {
    return values_of(SafetensorsReader(compute(bundle, name)), "logits");
  }
  ModelBundle saved(const PrunedModel& pruned, const ModelBundle& bundle, const std::string& name,
                    const PrunedModel::Read& read = {}) {
    const fs::path directory = folder_.path() / name;
    fs::create_directory(directory);
    pruned.save(
        directory, read ? read : [&](const ParameterSpec& spec, std::int64_t first, std::span<float> values) {
          read_parameter(spec, bundle.source(0), first, values);
        });
    return open(directory);
  }

  test::ScratchFolder folder_;
  CpuBackend backend_{1};
};

// Of every group about half goes, other units in each.
Masks some_masks(const std::vector<WeighedUnits>& groups) {
  Masks masks = all_units(groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].units.used) continue;
    for (std::size_t u = 0; u < masks[g].size(); ++u) masks[g][u] = (u * 7 + g) % 3 != 0 && (u + g) % 5 != 1;
    if (count_kept(masks[g]) == 0) masks[g].back() = true;
  }
  return masks;
}

void expect_near(const Values& found, const Values& expected, double bound) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], bound) << i;
}

TEST_P(PrunedModels, BothLayoutsComputeWhatZerosCompute) {
  const ModelBundle bundle = open(golden());
  const std::vector<WeighedUnits> groups = weigh_units(*bundle.config.encoder, 40);
  const Masks masks = some_masks(groups);
  // The whole model, with zeros where what went is read.
  const PrunedModel whole(bundle, groups, all_units(groups), PrunedLayout::kTransformers);
  const ModelBundle zeroed =
      saved(whole, bundle, "zeroed", [&](const ParameterSpec& spec, std::int64_t first, std::span<float> values) {
        read_parameter(spec, bundle.source(0), first, values);
        for (std::size_t g = 0; g < groups.size(); ++g) {
          for (const PrunableUnits::Stream& stream : groups[g].units.streams) {
            if (spec.name != stream.consumer + ".weight") continue;
            for (std::size_t i = 0; i < values.size(); ++i) {
              const std::int64_t column = (first + static_cast<std::int64_t>(i)) % spec.shape[1];
              if (!masks[g][static_cast<std::size_t>(column / stream.width)]) values[i] = 0;
            }
          }
        }
      });
  const Values expected = logits(zeroed, "zeroed"), before = logits(bundle, "before");
  double moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    moved = std::max(moved, std::abs(double{before[i]} - double{expected[i]}));
  }
  EXPECT_GT(moved, 1e-3);
  const PrunedModel ours(bundle, groups, masks, PrunedLayout::kPlimsoll),
      theirs(bundle, groups, masks, PrunedLayout::kTransformers);
  const ModelBundle narrow = saved(ours, bundle, "ours"), padded = saved(theirs, bundle, "theirs");
  expect_near(logits(narrow, "ours"), expected, 5e-6);
  expect_near(logits(padded, "theirs"), expected, 5e-6);
  EXPECT_LT(ours.parameters(), parameter_count(bundle.specs()));
  EXPECT_EQ(ours.parameters(), parameter_count(narrow.specs()));

  // transformers must not take one for its own, and the other must be its own.
  const std::string family(bundle.config.encoder->model_type());
  EXPECT_EQ(narrow.config.source.at("model_type"), kPrunedPrefix + family);
  EXPECT_EQ(padded.config.source.at("model_type"), family);
  EXPECT_FALSE(padded.config.source.contains("pruned_layers"));

  // Its last layer alone keeps its own widths.
  const FewerLayers last = with_layers(narrow, {layer_count(narrow) - 1});
  const std::vector<ParameterSpec> specs = narrow.specs();
  EXPECT_EQ(last.bundle.config.source.at("pruned_layers").at(0), narrow.config.source.at("pruned_layers").back());
  EXPECT_EQ(layer_count(last.bundle), 1);
  for (const ParameterSpec& spec : last.bundle.specs()) {
    EXPECT_EQ(spec.shape, std::ranges::find(specs, last.sources.at(spec.name), &ParameterSpec::name)->shape);
  }

  // A pruned model can be pruned again, but not for transformers.
  const std::vector<WeighedUnits> left = weigh_units(*narrow.config.encoder, 40);
  const PrunedModel again(narrow, left, all_units(left), PrunedLayout::kPlimsoll);
  EXPECT_EQ(logits(saved(again, narrow, "again"), "again"), logits(narrow, "ours"));
  expect_error<UsageError>([&] { PrunedModel(narrow, left, all_units(left), PrunedLayout::kTransformers); },
                           {"--layout", "plimsoll"});
}

// The loss depends on a mask m of a map's input as on W diag(m): dL/dm_c is the sum over o of W[o, c] dL/dW[o, c].
TEST_P(PrunedModels, MaskGradientsAreThoseOfTheWeights) {
  ModelBundle bundle = open(golden());
  const SafetensorsReader of_weights(compute(bundle, "weights"));
  bundle.options.masked_maps = masked_maps(*bundle.config.encoder);
  ASSERT_FALSE(bundle.options.masked_maps.empty());
  const SafetensorsReader of_masks(compute(bundle, "masks"));
  EXPECT_EQ(of_masks.entries().size(), bundle.options.masked_maps.size() + 2);
  EXPECT_EQ(values_of(of_masks, "logits"), values_of(of_weights, "logits"));
  for (const std::string& map : bundle.options.masked_maps) {
    const std::string weight = map + ".weight";
    const Values gradient = values_of(of_weights, weight), found = values_of(of_masks, mask_name(map));
    const std::vector<ParameterSpec> specs = bundle.specs();
    Values weights(gradient.size());
    read_parameter(*std::ranges::find(specs, weight, &ParameterSpec::name), bundle.source(0), 0, weights);
    std::vector<double> expected(found.size());
    double scale = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      expected[i % found.size()] += double{weights[i]} * double{gradient[i]};
    }
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    for (std::size_t c = 0; c < found.size(); ++c) EXPECT_NEAR(found[c], expected[c], 1e-5 * scale) << map << ' ' << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PrunedModels,
                         testing::Values("linear", "layoutlmv3-single-label", "layoutlmv3-question-answering",
                                         "lilt-token-classification", "bert", "layoutlm-token-classification",
                                         "roberta", "xlm-roberta-token-classification"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plimsoll
