// Converts bytes as a file of each of some formats, to every format that is written.
#pragma once

#include <initializer_list>
#include <string_view>

#include "convert/convert.h"
#include "convert/formats.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"

namespace plimsoll::fuzz {

inline void convert_as(std::string_view input, std::initializer_list<const char*> formats) {
  const MemoryFile file(input);
  may_refuse([&] { static_cast<void>(recognised(look_at(file.path()))); });
  for (const char* const from : formats) {
    for (const OutputFormat& to : output_formats()) {
      may_refuse([&] {
        convert({.inputs = {file.path()},
                 .output = "/dev/null",
                 .from = from,
                 .to = to.name,
                 .least_confidence = 0.3,
                 .segment_boxes = input.size() % 2 == 0});
      });
    }
  }
}

}  // namespace plimsoll::fuzz
