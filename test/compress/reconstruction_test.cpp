// Weights are solved for as well with kept states of windows as without, and what is left comes closer to the whole
// model: by the maps that lost columns, and by the norm before a layer that went.
#include "compress/reconstruction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compress/fewer_layers.h"
#include "train/batch_binding.h"
#include "train/trainer_fixture.h"

namespace plimsoll {
namespace {

using Values = std::vector<float>;

class Reconstructions : public testing::Test {
 protected:
  Reconstructions() : bundle_(model()) {
    test::write_pages(folder_.path(), 9);
    data_ = open_dataset(bundle_, {.data = {folder_.path() / "pages.jsonl"}, .box_format = BoxFormat::k1000}, true);
    groups_ = weigh_units(*bundle_.config.encoder, 20);
    masks_ = all_units(groups_);
  }

  static ModelBundle model() {
    ModelBundle bundle = test::small_model();
    test::change_config(bundle, {{"num_hidden_layers", 3}});
    bundle.config.task.labels = {"O", "B-TOTAL", "I-TOTAL"};
    return bundle;
  }
  // In layer `layer`, the first head and every third column go.
  void thin(std::int64_t layer) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].units.layer != layer) continue;
      const bool heads = groups_[g].units.kind == PrunableUnits::Kind::kHeads;
      for (std::size_t u = 0; u < masks_[g].size(); ++u) masks_[g][u] = heads ? u > 0 : u % 3 != 0;
    }
  }

  Session session(const ModelBundle& bundle) {
    FitRequest request = fit_request(bundle, {}, nullptr, data_.get(), memory_);
    request.train_batch_size = 1;
    request.micro_batch_size = 1;
    return {fit(request, backend_), backend_};
  }
  WindowPass pass() const {
    return {.bundle = &bundle_, .dataset = data_.get(), .loader = loader_options(memory_), .most_windows = 8};
  }

  struct Result {
    std::map<std::string, Values> parameters;
    double before = 0, after = 0;  // mean squared differences of the logits to those of the whole model
  };
  Result reconstruct(const std::vector<std::int64_t>& layers, std::size_t kept_bytes) {
    const FewerLayers fewer = with_layers(bundle_, layers);
    std::vector<WeighedUnits> groups = weigh_units(*fewer.bundle.config.encoder, 20);
    Masks masks;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (std::ranges::count(layers, groups_[g].units.layer) > 0) masks.push_back(masks_[g]);
    }
    const Session whole = session(bundle_), pruned = session(fewer.bundle);
    load_model(bundle_, 0, [&](const std::string& name) { return whole.parameter(name); });
    for (const auto& [name, source] : fewer.sources) {
      Values values(static_cast<std::size_t>(whole.persistent(source).elements()));
      whole.parameter(source).read(0, values);
      // Fresh norms and biases would be ones and zeros, and a fresh layer changes little.
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.05F * static_cast<float>(i % 7);
      pruned.parameter(name).write(0, values);
      whole.parameter(source).write(0, values);
    }
    const std::int64_t rows = pruned.plan().programs.front().capacity.text_rows;
    Reconstruction reconstruction(groups, masks, *fewer.bundle.config.encoder,
                                  fewer.bundle.config.encoder->rows({.samples = 1, .text_rows = rows}), backend_, {});
    Result result;
    // Before: the columns that went are zeros.
    {
      std::map<std::string, Values> kept;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        for (const PrunableUnits::Stream& stream : groups[g].units.streams) {
          const std::string name = stream.consumer + ".weight";
          Values values(static_cast<std::size_t>(pruned.persistent(name).elements()));
          pruned.parameter(name).read(0, values);
          kept[name] = values;
          const auto columns = static_cast<std::size_t>(pruned.persistent(name).shape()[1]);
          for (std::size_t i = 0; i < values.size(); ++i) {
            if (!masks[g][i % columns / static_cast<std::size_t>(stream.width)]) values[i] = 0;
          }
          pruned.parameter(name).write(0, values);
        }
      }
      result.before = difference(whole, pruned);
      for (auto& [name, values] : kept) pruned.parameter(name).write(0, values);
    }
    reconstruction.run(whole, pruned, fewer.sources, pass(), kept_bytes);
    result.after = difference(whole, pruned);
    for (const auto& [name, source] : fewer.sources) {
      Values values(static_cast<std::size_t>(pruned.persistent(name).elements()));
      pruned.parameter(name).read(0, values);
      result.parameters[name] = std::move(values);
    }
    return result;
  }
  double difference(const Session& a, const Session& b) {
    double sum = 0;
    pass().run(a.planned(ProgramKind::kEvaluate).capacity.text_rows, [&](const Batch& batch) {
      Values logits[2];
      for (int i = 0; i < 2; ++i) {
        const Session& session = i == 0 ? a : b;
        const Program& program = session.program(ProgramKind::kEvaluate);
        const BatchBinding binding(program, batch, nullptr);
        binding.copy(batch);
        binding.set_loss_scale(1);
        binding.set_dropout_key({0, 0});
        program.run();
        const DeviceTensor tensor = program.tensor(session.planned(ProgramKind::kEvaluate).logits);
        logits[i].resize(static_cast<std::size_t>(tensor.elements()));
        tensor.read(std::as_writable_bytes(std::span(logits[i])));
        logits[i].resize(static_cast<std::size_t>(4 * tensor.shape()[1]));  // every page has four words or more
      }
      for (std::size_t i = 0; i < logits[0].size(); ++i) {
        sum += std::pow(double{logits[0][i]} - double{logits[1][i]}, 2);
      }
    });
    return sum;
  }

  test::ScratchFolder folder_;
  MemoryRequest memory_{.budget_bytes = std::size_t{1} << 30, .micro_batch_size = 1, .update = {}, .loader_workers = 1};
  ModelBundle bundle_;
  std::unique_ptr<Dataset> data_;
  CpuBackend backend_{1};
  std::vector<WeighedUnits> groups_;
  Masks masks_;
};

TEST_F(Reconstructions, KeptStatesChangeNoBit) {
  for (const std::int64_t layer : {0, 1, 2}) thin(layer);
  for (const std::vector<std::int64_t>& layers : {std::vector<std::int64_t>{0, 1, 2}, {0, 2}, {1, 2}}) {
    const Result none = reconstruct(layers, 0), some = reconstruct(layers, 200 << 10),
                 all = reconstruct(layers, std::size_t{1} << 30);
    for (const auto& [name, values] : none.parameters) {
      EXPECT_EQ(some.parameters.at(name), values) << name;
      EXPECT_EQ(all.parameters.at(name), values) << name;
    }
  }
}

TEST_F(Reconstructions, WhatIsLeftComesCloserToTheWholeModel) {
  for (const std::int64_t layer : {0, 1, 2}) thin(layer);
  for (const std::vector<std::int64_t>& layers : {std::vector<std::int64_t>{0, 1, 2}, {0, 2}}) {
    const Result result = reconstruct(layers, std::size_t{1} << 30);
    EXPECT_GT(result.before, 0);
    EXPECT_LT(result.after, 0.5 * result.before) << layers.size();
  }
}

// Where nothing but a layer goes, the norm before it and the maps behind it change, and those before it do not.
TEST_F(Reconstructions, TheNormBeforeALayerThatWentLearnsItsOutput) {
  const Result result = reconstruct({0, 2}, std::size_t{1} << 30), whole = reconstruct({0, 1, 2}, 0);
  EXPECT_LT(result.after, 0.5 * result.before);
  const std::string first = "layoutlmv3.encoder.layer.0.", second = "layoutlmv3.encoder.layer.1.";
  EXPECT_NE(result.parameters.at(first + "output.LayerNorm.weight"),
            whole.parameters.at(first + "output.LayerNorm.weight"));
  EXPECT_EQ(result.parameters.at(first + "output.dense.weight"), whole.parameters.at(first + "output.dense.weight"));
  EXPECT_NE(result.parameters.at(second + "output.dense.weight"),
            whole.parameters.at("layoutlmv3.encoder.layer.2.output.dense.weight"));
}

}  // namespace
}  // namespace plimsoll
