// Tests language models whose file has a head that config.json ties to the word embedding.
#include <nlohmann/json.hpp>

#include "bundle/model_bundle.h"
#include "formats/safetensors.h"
#include "harness/paths.h"
#include "model/trained_parts.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

namespace fs = std::filesystem;

// Writes the tied model with a head of its own: the word embedding plus `more`, in its first element.
ModelBundle with_head(const fs::path& directory, float more) {
  const fs::path tied = test_data_dir() / "model/gpt2-causal-lm-tied";
  fs::create_directories(directory);
  fs::copy_file(tied / "config.json", directory / "config.json");
  const SafetensorsReader file(tied / "model.safetensors");
  std::vector<TensorDeclaration> tensors;
  std::string table;
  for (const TensorEntry& entry : file.entries()) {
    tensors.push_back({entry.name, entry.type});
    if (entry.name.ends_with("wte.weight")) table = entry.name;
  }
  tensors.push_back({"lm_head.weight", file.at(table).type});
  SafetensorsWriter writer(directory / "model.safetensors", tensors);
  const auto bytes_of = [&](const std::string& name) {
    std::vector<std::byte> bytes(file.at(name).type.bytes());
    file.read(name, bytes);
    return bytes;
  };
  for (const TensorEntry& entry : file.entries()) writer.write(bytes_of(entry.name));
  std::vector<std::byte> head = bytes_of(table);
  float first = 0;
  std::memcpy(&first, head.data(), sizeof first);
  first += more;
  std::memcpy(head.data(), &first, sizeof first);
  writer.write(head);
  writer.finish();
  return open_weights_only(directory.string());
}

// As in transformers 5, which ties a head only if the file lacks it.
TEST(StoredHead, IsUsedIfItIsNotTheWordEmbedding) {
  const ScratchFolder folder;
  const ModelBundle same = with_head(folder / "same", 0);
  EXPECT_EQ(tied_table(same.definition()), "transformer.wte.weight");
  const ModelBundle other = with_head(folder / "other", 1);
  EXPECT_EQ(tied_table(other.definition()), "");
  EXPECT_TRUE(
      std::ranges::any_of(other.specs(), [](const ParameterSpec& spec) { return spec.name == "lm_head.weight"; }));
  check_weights(other, MissingHead::kRefused);
  EXPECT_EQ(config_json(other.config).at("tie_word_embeddings"), false);
}

}  // namespace
}  // namespace plimsoll::test
