#include "formats/torch_pickle.h"

#include "formats/torch_archive.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "fuzz/tensors.h"

// Changes to an archive usually make it invalid; here the fuzzer changes only the pickle.
void plimsoll::fuzz::torch_pickle(std::string_view input) {
  const MemoryFile file(torch_archive(std::string(input)));
  may_refuse([&] { read_tensors(TorchPickleReader(file.path())); });
}
