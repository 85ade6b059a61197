// Parameters in and out: from a model directory's weights, or fresh from a seed; back into model.safetensors. Tensors
// are copied between file and arena without another buffer of a tensor's size.
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

// The prefix of parameters' names in an adapter's file.
inline constexpr const char* kAdapterPrefix = "base_model.model.";

// Returns the place of a parameter by its name: `spec.shape.elements()` values.
using ParameterMemory = std::function<ParameterPlace(const std::string& name)>;

struct ParameterSource {
  const WeightsFile* weights = nullptr;  // nullptr: everything fresh
  std::string prefix{};                  // of the encoder's parameters; a bare encoder's file lacks it
  bool fresh_head = false;               // make the classifier new even if the file has one
  std::uint64_t seed = 42;
  // Adapters, and the head that was trained with them, under PEFT's names; nullptr: adapters are made new.
  const WeightsFile* adapter = nullptr;
  bool takes_any_number = false;  // allow NaN and infinities, which are otherwise refused
  // save_parameters multiplies the rows that memory lacks (ParameterSpec::rows) by each of these factors: AdamW's
  // weight decay is all that has happened to them since these values.
  std::span<const float> decays{};
  // save_parameters expects that hash_table still gives this; nothing: it does not look.
  std::optional<std::uint64_t> table_hash{};
};

struct ParameterReport {
  std::vector<std::string> fresh;   // made new although weights were given
  std::vector<std::string> unused;  // tensors in the file that the model does not have
};

// Returns a parameter's name in the source's weights: with the encoder's prefix, or, in a bare encoder's file, without.
std::optional<std::string> name_in_weights(const ParameterSource& source, const std::string& name);

// Fills every parameter, in the order of the specs. One whose place is in a file (ParameterPlace::stored) is compared
// with the source's, if that is another file. The weights' names may have the encoder's prefix or not. Throws DataError
// for a missing tensor outside the head, or one of another shape, naming it, the shape found and the shape allowed; and
// for one that differs from the content of its place.
ParameterReport load_parameters(const std::vector<ParameterSpec>& specs, const ParameterSource& source,
                                const ParameterMemory& memory);
// Makes the same checks without reading: reports what would be wrong or fresh, before anything is allocated.
ParameterReport check_parameters(const std::vector<ParameterSpec>& specs, const ParameterSource& source);

// Returns, by name, where the source's files have parameters in memory's form, except for their types: in one piece, of
// that shape and not transposed. It throws nothing, since the weights may be those of a larger model.
std::map<std::string, StoredTensor> stored_parameters(const std::vector<ParameterSpec>& specs,
                                                      const ParameterSource& source);

// Makes fresh values: normal(0, spec.normal_std) from Philox by (seed, name, element), zeros or ones, as in
// `transformers`. `values` are those of the elements from `first` on, a multiple of 4.
void initialise_parameter(const ParameterSpec& spec, std::uint64_t seed, std::span<float> values,
                          std::int64_t first = 0);

// Returns a hash of what the source's file has as the table of which memory has only some rows; nothing if memory has
// all, or no file has it.
std::optional<std::uint64_t> hash_table(const std::vector<ParameterSpec>& specs, const ParameterSource& source);

// Writes `path` (aside, synced, renamed) with each parameter in its file shape. `original` is the source of parameters
// that memory does not hold exactly (frozen ones in BF16), which have never changed, and of the rows that memory lacks.
// Names in the file begin with `prefix`. Returns the file's sum.
FileSum save_parameters(const std::filesystem::path& path, const std::vector<ParameterSpec>& specs,
                        const ParameterSource& original, const ParameterMemory& memory,
                        const SafetensorsMetadata& metadata = {{"format", "pt"}}, const std::string& prefix = "");

}  // namespace plimsoll
