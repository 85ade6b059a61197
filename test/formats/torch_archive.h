// Makes torch.save archives by hand: a pickle written instruction by instruction, and its storages.
#pragma once

#include <map>
#include <string>

#include "formats/zip_builder.h"

namespace plimsoll {

// The record of one tensor; any part of it may be wrong.
struct TensorRecord {
  std::string storage_class = "FloatStorage";
  std::string key = "0";
  std::int32_t storage_elements = 6;
  std::int32_t offset = 0;
  std::vector<std::int32_t> sizes{2, 3};
  std::vector<std::int32_t> strides{3, 1};
};

inline std::string pickled(std::int32_t value) { return "J" + little_endian(value); }
inline std::string pickled(const std::string& text) {
  return "X" + little_endian(static_cast<std::uint32_t>(text.size())) + text;
}
inline std::string pickled(const std::vector<std::int32_t>& values) {
  std::string bytes = "(";
  for (const std::int32_t value : values) bytes += pickled(value);
  return bytes + "t";
}
inline std::string pickled(const TensorRecord& tensor) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled("storage") + "ctorch\n" + tensor.storage_class + "\n" +
         pickled(tensor.key) + pickled("cpu") + pickled(tensor.storage_elements) + "tQ" + pickled(tensor.offset) +
         pickled(tensor.sizes) + pickled(tensor.strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
}

// Returns {"name": value, …} as a complete pickle; the values are already pickled.
inline std::string pickled_dict(const std::map<std::string, std::string>& items) {
  std::string bytes = "\x80\x02}(";
  for (const auto& [name, value] : items) bytes += pickled(name) + value;
  return bytes + "u.";
}

// Returns the archive of a pickle and one storage "0" of 24 bytes: the floats 0 to 5.
inline std::string torch_archive(const std::string& pickle) {
  std::string storage;
  for (int i = 0; i < 6; ++i) storage += little_endian(static_cast<float>(i));
  ZipBuilder zip;
  zip.add("model/data.pkl", pickle);
  zip.add("model/byteorder", "little");
  zip.add("model/data/0", storage);
  zip.add("model/version", "3\n");
  return zip.finish();
}

}  // namespace plimsoll
