#include "formats/npy.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "fuzz/tensors.h"

void plimsoll::fuzz::npz(std::string_view input) {
  const MemoryFile file(input);
  may_refuse([&] { read_tensors(NpzReader(file.path())); });
}
