// Values of parameters on their way from files and into them. Memory has each matrix as products read it, [out, in]; a
// file may have it transposed (ParameterSpec::transposed). Transposing never needs a buffer of a whole tensor's size.
//
//   read_values(weights, "transformer.h.0.attn.c_attn.weight", spec, 0, values, staging);
//   write_values(writer, spec, [&](std::int64_t first, std::span<float> part) { place.read(first, part); });
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "formats/safetensors.h"
#include "formats/weights.h"
#include "model/parameter_spec.h"

namespace plimsoll {

// Gives values of a parameter, in the order of memory, from element `first` on.
using ReadValues = std::function<void(std::int64_t first, std::span<float> values)>;

// Returns how many values of a parameter are handled at a time: more for a transposed one, which is read in strips.
std::int64_t values_at_once(const ParameterSpec& spec);

// Returns the shape of a parameter's tensor in those weights: file_shape, except for a transposed one that bitsandbytes
// has transposed back and quantized.
const Shape& shape_in_file(const WeightsFile& weights, const std::string& tensor, const ParameterSpec& spec);

// Reads the elements of a parameter, counted in the order of memory, from `first` on out of the tensor of that name.
// `staging` is passed to WeightsFile::read_as_f32, whose errors this throws.
void read_values(const WeightsFile& weights, const std::string& tensor, const ParameterSpec& spec, std::int64_t first,
                 std::span<float> values, std::span<std::byte> staging);

// Throws DataError, naming the tensor and its element, if one of these values is NaN or infinite; `first` is the number
// of the first one.
void refuse_non_finite(const WeightsFile& weights, const std::string& tensor, std::int64_t first,
                       std::span<const float> values);

// Writes all values of a parameter in the order of the file, in the type that the writer has declared for it.
void write_values(SafetensorsWriter& writer, const ParameterSpec& spec, const ReadValues& read);
// Does the same for values that are all in memory.
void write_values(SafetensorsWriter& writer, const ParameterSpec& spec, std::span<const float> values);
// Does the same for values that another file has, and refuses those that are not finite.
void copy_values(SafetensorsWriter& writer, const WeightsFile& weights, const std::string& tensor,
                 const ParameterSpec& spec, std::span<std::byte> staging);

}  // namespace plimsoll
