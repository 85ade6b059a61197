#include "formats/safetensors.h"
#include "formats/weights.h"
#include "fuzz/targets.h"
#include "fuzz/tensors.h"
#include "support/scratch_folder.h"

// The input is model.safetensors.index.json beside one shard, which holds "a" and "b".
void plimsoll::fuzz::shard_index(std::string_view input) {
  static const test::ScratchFolder folder;
  static const bool written = [] {
    const TensorType type{DType::kF32, {2}};
    const std::array<float, 4> values{1, 2, 3, 4};
    SafetensorsWriter writer(folder / "one.safetensors", {{"a", type}, {"b", type}});
    writer.write(std::as_bytes(std::span(values)).first(type.bytes()));
    writer.write(std::as_bytes(std::span(values)).subspan(type.bytes()));
    writer.finish();
    return true;
  }();
  check(written, "the shard is there");
  folder.write("model.safetensors.index.json", input);
  may_refuse([&] { read_tensors(open_weights(folder.path())); });
}
