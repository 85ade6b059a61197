// Tables of which memory has only some rows (ParameterSpec::rows), on their way from files and into them.
#pragma once

#include <span>

#include "formats/safetensors.h"
#include "model/file_values.h"
#include "model/parameter_place.h"
#include "model/parameter_spec.h"

namespace plimsoll {

// Fills the place from `table`, which gives the file's values, by elements of the file. All of them are asked for, so
// that it may refuse a row that memory has no need of.
void load_some_rows(const ParameterSpec& spec, const ParameterPlace& place, Factor factor, const ReadValues& table);

// Writes the whole table: rows of memory from `place`, the others from `table`, multiplied by each of `decays` in turn,
// as AdamW would have done in memory.
void write_some_rows(SafetensorsWriter& writer, const ParameterSpec& spec, const ParameterPlace& place,
                     const ReadValues& table, std::span<const float> decays);

}  // namespace plimsoll
