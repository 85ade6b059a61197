#include <memory>

#include "formats/quantized_source.h"
#include "formats/safetensors.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "fuzz/tensors.h"

void plimsoll::fuzz::quantized(std::string_view input) {
  const MemoryFile file(input);
  may_refuse([&] { read_tensors(QuantizedSource(std::make_unique<SafetensorsReader>(file.path()))); });
}
