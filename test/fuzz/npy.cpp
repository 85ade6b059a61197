#include "formats/npy.h"

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"

void plimsoll::fuzz::npy(std::string_view input) {
  const MemoryFile file(input);
  may_refuse([&] {
    const NpyReader reader(file.path());
    check(reader.type().bytes() < input.size(), "an array lies in its file");
    std::vector<std::byte> bytes(reader.type().bytes());
    reader.read(bytes);
  });
}
