// Tests thousands of damaged copies of small valid files: each must read or be refused with a DataError, and none may
// make a reader ask for much memory. Damage is seeded, so that a failure repeats.
#include <functional>
#include <random>

#include "formats/allocation_guard.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/torch_archive.h"
#include "formats/torch_pickle.h"

namespace plimsoll {
namespace {

constexpr std::size_t kLargestAllocation = 256 * 1024;  // the zip's search for its end record takes 64 KiB

// Overwrites, inserts, removes, truncates, or doubles a range; bytes that matter to the formats are more likely.
std::string damaged(std::string content, std::mt19937& random) {
  const auto below = [&random](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const auto byte = [&] {
    constexpr std::string_view kTelling = "\xFF\x7F\x80\x01(.}{[]\",:09tRQcu\x85\x86";
    return below(2) == 0 ? kTelling[below(kTelling.size())] : static_cast<char>(below(256));
  };
  for (std::size_t change = 0; change <= below(3); ++change) {
    const std::size_t at = below(content.size());
    switch (below(6)) {
      case 0:
        content.insert(at, 1, byte());
        break;
      case 1:
        content.erase(at, 1 + below(8));
        break;
      case 2:
        content.resize(at);
        break;
      case 3:
        content.insert(at, content.substr(below(content.size()), below(64)));
        break;
      default:
        if (!content.empty()) content[at] = byte();
    }
  }
  return content;
}

void read_everything(const TensorSource& source) {
  std::vector<std::byte> bytes(64 * 1024);
  for (const TensorEntry& entry : source.entries()) {
    // A view of stride 0 may claim to be far larger than its file, so only as much as fits is read.
    const std::size_t width = dtype_bytes(entry.type.dtype);
    const std::size_t count = std::min(bytes.size() / width, static_cast<std::size_t>(entry.type.shape.elements()));
    source.read_elements(entry, 0, std::span(bytes).first(count * width));
  }
}

// Returns the number of damaged files that can still be read.
int survivors(const std::function<std::string(std::mt19937&)>& make, int count,
              const std::function<void(const std::filesystem::path&)>& read) {
  const ScratchFolder directory;
  std::mt19937 random(20240607);
  int read_well = 0;
  for (int i = 0; i < count; ++i) {
    const auto path = directory.write("damaged", make(random));
    const AllocationGuard guard;
    try {
      read(path);
      ++read_well;
    } catch (const DataError&) {
    }
    EXPECT_LE(guard.largest_bytes(), kLargestAllocation) << "damaged file " << i;
  }
  return read_well;
}

TEST(Mutation, Safetensors) {
  const std::string whole = read_text_file(golden("hugging_face.safetensors"));
  const int read_well = survivors([&](std::mt19937& random) { return damaged(whole, random); }, 4000,
                                  [](const std::filesystem::path& path) { read_everything(SafetensorsReader(path)); });
  EXPECT_GT(read_well, 0) << "damage to the data alone goes unnoticed";
  EXPECT_LT(read_well, 4000);
}

TEST(Mutation, TorchArchive) {
  const std::string whole = read_text_file(golden("state.bin"));
  const int read_well = survivors([&](std::mt19937& random) { return damaged(whole, random); }, 4000,
                                  [](const std::filesystem::path& path) { read_everything(TorchPickleReader(path)); });
  EXPECT_GT(read_well, 0);
  EXPECT_LT(read_well, 4000);
}

// The damage is inside the pickle of a valid archive, so that it reaches the interpreter.
TEST(Mutation, PickleInsideASoundArchive) {
  const std::string pickle = pickled_dict(
      {{"a", pickled(TensorRecord{})},
       {"b", pickled(TensorRecord{.offset = 1, .sizes = {2}, .strides = {2}})},
       {"c",
        pickled(TensorRecord{.storage_class = "LongStorage", .storage_elements = 3, .sizes = {3}, .strides = {1}})},
       {"d", "ctorch._utils\n_rebuild_parameter\n(" + pickled(TensorRecord{}) + "\x88" + "NtR"}});
  const int read_well = survivors([&](std::mt19937& random) { return torch_archive(damaged(pickle, random)); }, 8000,
                                  [](const std::filesystem::path& path) { read_everything(TorchPickleReader(path)); });
  EXPECT_GT(read_well, 0);
  EXPECT_LT(read_well, 8000);
}

TEST(Mutation, Npy) {
  const std::string whole = read_text_file(golden("version1.npy"));
  const int read_well = survivors([&](std::mt19937& random) { return damaged(whole, random); }, 4000,
                                  [](const std::filesystem::path& path) {
                                    const NpyReader reader(path);
                                    std::vector<std::byte> bytes(reader.type().bytes());
                                    reader.read(bytes);
                                  });
  EXPECT_GT(read_well, 0);
  EXPECT_LT(read_well, 4000);
}

TEST(Mutation, DeflatedNpz) {
  const std::string whole = read_text_file(golden("deflated.npz"));
  const int read_well = survivors([&](std::mt19937& random) { return damaged(whole, random); }, 4000,
                                  [](const std::filesystem::path& path) { read_everything(NpzReader(path)); });
  EXPECT_GT(read_well, 0);
  EXPECT_LT(read_well, 4000);
}

}  // namespace
}  // namespace plimsoll
