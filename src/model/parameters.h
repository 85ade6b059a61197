// Parameters in and out: from a model directory's weights, or fresh from a seed; back into model.safetensors. Tensors
// go between file and arena; nothing of a tensor's size is held beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "formats/weights.h"
#include "model/parameter_place.h"
#include "model/parameter_spec.h"

namespace plimsoll {

// The name of a parameter in an adapter's file is that behind this.
inline constexpr const char* kAdapterPrefix = "base_model.model.";

// The place of a parameter by its name: `spec.shape.elements()` values.
using ParameterMemory = std::function<ParameterPlace(const std::string& name)>;

struct ParameterSource {
  const WeightsFile* weights = nullptr;  // nullptr: everything fresh
  std::string prefix{};                  // of the encoder's parameters, which a bare encoder's file lacks
  bool fresh_head = false;               // the classifier is made new even if the file has one
  std::uint64_t seed = 42;
  // Adapters, and the head that was trained with them, under PEFT's names; nullptr: adapters begin afresh.
  const WeightsFile* adapter = nullptr;
  bool takes_any_number = false;  // NaN and infinities too, which are refused otherwise
};

struct ParameterReport {
  std::vector<std::string> fresh;   // made new although weights were given
  std::vector<std::string> unused;  // tensors in the file that the model has no place for
};

// The name under which the source's weights have a parameter: with the encoder's prefix, or, in a bare encoder's file,
// without.
std::optional<std::string> name_in_weights(const ParameterSource& source, const std::string& name);

// Fills every parameter, in the order of the specs. One whose place is in a file (ParameterPlace::stored) is compared
// with the source's, where that is another file. The weights' names may have the encoder's prefix or not. Throws
// DataError for a missing tensor outside the head, or one of another shape, naming it, the shape found and the shape
// allowed; and for one that differs from what lies in its place.
ParameterReport load_parameters(const std::vector<ParameterSpec>& specs, const ParameterSource& source,
                                const ParameterMemory& memory);
// The same checks without reading: what would be wrong or fresh, before anything is allocated.
ParameterReport check_parameters(const std::vector<ParameterSpec>& specs, const ParameterSource& source);

// Says by name where the source's files have parameters as memory has them, but for their types: in one piece, of that
// shape and not transposed. It throws nothing, since the weights may be those of a larger model.
std::map<std::string, StoredTensor> stored_parameters(const std::vector<ParameterSpec>& specs,
                                                      const ParameterSource& source);

// Reads a parameter's elements from `first` on; one that the source has (check_parameters).
void read_parameter(const ParameterSpec& spec, const ParameterSource& source, std::int64_t first,
                    std::span<float> values);

// Writes a parameter that the source has, as it has it.
void copy_parameter(SafetensorsWriter& writer, const ParameterSpec& spec, const ParameterSource& source);

// Fresh values: normal(0, spec.normal_std) from Philox by (seed, name, element), zeros or ones, as `transformers`
// starts. `values` are those of the elements from `first` on, a multiple of 4.
void initialise_parameter(const ParameterSpec& spec, std::uint64_t seed, std::span<float> values,
                          std::int64_t first = 0);

// Writes `path` (aside, synced, renamed) with each parameter in its file shape. `original`: where those come from that
// memory does not hold exactly (frozen ones in BF16), which have never changed.
// Returns the file's sum.
FileSum save_parameters(const std::filesystem::path& path, const std::vector<ParameterSpec>& specs,
                        const ParameterSource& original, const ParameterMemory& memory);

}  // namespace plimsoll
