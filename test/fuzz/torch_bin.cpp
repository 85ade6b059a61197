#include "formats/torch_pickle.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "fuzz/tensors.h"

void plimsoll::fuzz::torch_bin(std::string_view input) {
  const MemoryFile file(input);
  may_refuse([&] { read_tensors(TorchPickleReader(file.path())); });
}
