#include "formats/safetensors.h"

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "fuzz/tensors.h"

void plimsoll::fuzz::safetensors(std::string_view input) {
  const MemoryFile file(input);
  may_refuse([&] {
    const SafetensorsReader reader(file.path());
    // The tensors lie end to end, without holes or overlap, so together they fill the file.
    std::uint64_t bytes = 0;
    for (const TensorEntry& entry : reader.entries()) {
      bytes += entry.type.bytes();
      check(entry.offset_bytes + entry.type.bytes() <= input.size(), "a tensor lies in its file");
    }
    check(bytes <= input.size(), "tensors share no bytes");
    read_tensors(reader);
  });
}
