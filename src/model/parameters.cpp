#include "model/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <set>
#include <string_view>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "model/file_values.h"
#include "model/some_rows.h"

namespace plimsoll {
namespace {

// "LayerNorm.weight" and "LayerNorm.bias" are "LayerNorm.gamma" and "LayerNorm.beta" in files of early code, which
// transformers renames as it loads them.
std::string early_name(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kNames = {
      {{"LayerNorm.weight", "gamma"}, {"LayerNorm.bias", "beta"}}};
  for (const auto& [now, then] : kNames) {
    if (name.ends_with(now)) return name.substr(0, name.rfind('.') + 1) + std::string(then);
  }
  return name;
}

// The FNV-1a hash of the name: gives each parameter its own stream of random numbers, whatever else the model holds.
std::uint32_t name_hash(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

// Two normal values from two words (Box and Muller 1958).
std::array<double, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(a) + 1.0) * 0x1.0p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(b) * 0x1.0p-32;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Calls body(first, part) for parts that cover all of a parameter's elements, one after the other, through one buffer.
template <typename Body>
void for_each_chunk(const ParameterSpec& spec, const ParameterPlace& place, std::vector<float>& buffer,
                    const Body& body) {
  // Fresh values come in fours, coded ones in rows.
  const std::int64_t unit = 4 * place.granularity();
  const std::int64_t elements = place.elements(), chunk = std::max<std::int64_t>(1, values_at_once(spec) / unit) * unit;
  buffer.resize(static_cast<std::size_t>(std::min(chunk, elements)));
  for (std::int64_t first = 0; first < elements; first += chunk) {
    body(first, std::span(buffer).first(static_cast<std::size_t>(std::min(chunk, elements - first))));
  }
}

// Writes the norms of a weight's rows.
void write_row_norms(const ParameterPlace& weight, const ParameterPlace& norms) {
  const std::int64_t rows = norms.elements();
  std::vector<float> row(static_cast<std::size_t>(weight.elements() / rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    weight.read(r * std::ssize(row), row);
    double squares = 0;
    for (const float value : row) squares += double{value} * double{value};
    const auto norm = static_cast<float>(std::sqrt(squares));
    norms.write(r, {&norm, 1});
  }
}

// Walks over the specs: calls `read` for those that the file has, `fresh` for the others; collects the report.
template <typename Read, typename Fresh>
ParameterReport visit(const std::vector<ParameterSpec>& specs, const ParameterSource& source, const Read& read,
                      const Fresh& fresh) {
  ParameterReport report;
  std::set<std::string> used;
  const auto read_checked = [&](const ParameterSpec& spec, const WeightsFile& weights, const std::string& name) {
    const TensorEntry& entry = weights.at(name);
    const Shape& shape = shape_in_file(weights, name, spec);
    if (entry.type.shape != shape) {
      const bool base = &weights == source.weights;
      throw DataError({.what = base ? "a tensor in the weights has another shape than config.json says"
                                    : "a tensor of the adapter has another shape than adapter_config.json and its base "
                                      "model say",
                       .where = fmt::format("{}, tensor '{}'", weights.path().string(), name),
                       .found = to_string(entry.type),
                       .allowed = to_string(shape),
                       .remedy = base ? "check that weights and config.json belong together"
                                      : "check that r in adapter_config.json and the base model are those that the "
                                        "adapter was trained with (--base-model names another base)"});
    }
    read(spec, weights, name);
  };
  const auto in_weights = [&](const ParameterSpec& spec) { return name_in_weights(source, spec.name); };
  // A head is made new as a whole or not at all: if only some of its tensors are missing, the file is damaged. The part
  // of it that is published with the encoder is checked separately.
  const bool has_head = std::ranges::any_of(specs, [&](const ParameterSpec& spec) {
    return spec.is_head() && !spec.in_base &&
           (in_weights(spec) ||
            (source.adapter != nullptr && source.adapter->find(kAdapterPrefix + spec.name) != nullptr));
  });
  for (const ParameterSpec& spec : specs) {
    const std::string adapter_name = kAdapterPrefix + spec.name;
    if (source.adapter != nullptr && source.adapter->find(adapter_name) != nullptr) {
      used.insert(in_weights(spec).value_or(""));
      read_checked(spec, *source.adapter, adapter_name);
      continue;
    }
    if ((spec.is_adapter() || spec.saved) && source.adapter != nullptr) {
      throw DataError({.what = "the adapter lacks a tensor",
                       .where = source.adapter->path().string(),
                       .found = fmt::format("{}, none named '{}'", counted(source.adapter->entries().size(), "tensor"),
                                            adapter_name),
                       .allowed = fmt::format("'{}' with shape {}", adapter_name, to_string(spec.file_shape)),
                       .remedy = "copy the adapter again, or train it again"});
    }
    if (source.weights == nullptr || spec.is_adapter() || spec.is_mask()) {
      fresh(spec);
      continue;
    }
    const std::optional<std::string> name = in_weights(spec);
    const bool is_fresh = spec.in_base ? !name : source.fresh_head || (!name && !has_head);
    if (spec.is_head() && is_fresh) {
      report.fresh.push_back(spec.name);
      if (name) used.insert(*name);
      fresh(spec);
      continue;
    }
    if (!name) {
      throw DataError(
          {.what = "the weights lack a tensor that the model needs",
           .where = source.weights->path().string(),
           .found = fmt::format("{}, none named '{}'", counted(source.weights->entries().size(), "tensor"), spec.name),
           .allowed = fmt::format("'{}' with shape {} (the prefix '{}.' may be missing)", spec.name,
                                  to_string(spec.file_shape), source.prefix),
           .remedy = "check that weights and config.json belong together, or copy them again"});
    }
    used.insert(*name);
    read_checked(spec, *source.weights, *name);
  }
  if (source.weights != nullptr) {
    for (const TensorEntry& entry : source.weights->entries()) {
      if (!used.count(entry.name)) report.unused.push_back(entry.name);
    }
  }
  return report;
}

// A tensor in which a source has a parameter.
struct Place {
  const WeightsFile* weights;
  std::string name;
};

// Returns where load_parameters takes the parameter from; nothing for one that is made new.
std::optional<Place> origin_of(const ParameterSource& source, const std::string& name) {
  if (source.adapter != nullptr && source.adapter->find(kAdapterPrefix + name) != nullptr) {
    return Place{source.adapter, kAdapterPrefix + name};
  }
  std::optional<std::string> in_weights = name_in_weights(source, name);
  if (!in_weights) return std::nullopt;
  return Place{source.weights, std::move(*in_weights)};
}

[[noreturn]] void refuse_changed(const Place& origin) {
  throw DataError({.what = "the model that the run goes on from has changed since",
                   .where = fmt::format("{}, tensor '{}'", origin.weights->path().string(), origin.name),
                   .found = "other numbers than when the run read or wrote it",
                   .allowed = "those of then: rows of tokens that the data does not have are saved from there",
                   .remedy = "restore the file"});
}

Factor factor_of(const WeightsFile& weights, const std::string& name) {
  return weights.coding(name) == Coding::kBytes ? Factor::kOfRow : Factor::kOfBlock;
}

// Makes fresh values from any element on.
void fresh_values(const ParameterSpec& spec, std::uint64_t seed, std::span<float> values, std::int64_t first) {
  const std::int64_t before = first % 4;
  if (before == 0) return initialise_parameter(spec, seed, values, first);
  std::vector<float> more(values.size() + static_cast<std::size_t>(before));
  initialise_parameter(spec, seed, more, first - before);
  std::ranges::copy(std::span(more).subspan(static_cast<std::size_t>(before)), values.begin());
}

}  // namespace

std::optional<std::string> name_in_weights(const ParameterSource& source, const std::string& name) {
  if (source.weights == nullptr) return std::nullopt;
  const WeightsFile& weights = *source.weights;
  const std::string prefix = source.prefix + ".";
  for (const std::string& full : {name, early_name(name)}) {
    if (weights.find(full) != nullptr) return full;
    if (!full.starts_with(prefix)) continue;
    std::string bare = full.substr(prefix.size());
    if (weights.find(bare) != nullptr) return bare;
  }
  return std::nullopt;
}

void initialise_parameter(const ParameterSpec& spec, std::uint64_t seed, std::span<float> values, std::int64_t first) {
  check(first % 4 == 0, "random numbers come in fours");
  check(spec.init != ParameterSpec::Init::kRowNorms, "row norms are those of a weight in memory");
  using Init = ParameterSpec::Init;
  if (spec.init == Init::kZeros || spec.init == Init::kOnes) {
    std::fill(values.begin(), values.end(), spec.init == Init::kOnes ? 1.0F : 0.0F);
    return;
  }
  const PhiloxKey key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const std::uint32_t stream = name_hash(spec.name);
  const double bound = spec.init == Init::kKaimingUniform ? 1 / std::sqrt(static_cast<double>(spec.shape[1])) : 0;
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const std::uint64_t block = (static_cast<std::uint64_t>(first) + i) / 4;
    const PhiloxOutput r =
        philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, 2}, key);
    if (spec.init == Init::kKaimingUniform) {  // He et al. 2015 with a = sqrt(5)
      for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
        values[i + j] = static_cast<float>(bound * ((static_cast<double>(r[j]) + 0.5) * 0x1.0p-31 - 1));
      }
      continue;
    }
    const std::array<double, 2> low = normal_pair(r[0], r[1]), high = normal_pair(r[2], r[3]);
    const std::array<double, 4> four = {low[0], low[1], high[0], high[1]};
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
      values[i + j] = static_cast<float>(four[j] * spec.normal_std);
    }
  }
  if (spec.init == Init::kNormalPaddingRow) {
    const std::int64_t row = spec.padding_row * spec.shape[1], end = first + static_cast<std::int64_t>(values.size());
    for (std::int64_t i = std::max(row, first); i < std::min(row + spec.shape[1], end); ++i) {
      values[static_cast<std::size_t>(i - first)] = 0;
    }
  }
}

ParameterReport load_parameters(const std::vector<ParameterSpec>& specs, const ParameterSource& source,
                                const ParameterMemory& memory) {
  std::vector<std::byte> staging(64 * kKiB);
  std::vector<float> buffer, in_place;
  const auto refuse_other = [](const WeightsFile& weights, const std::string& name, const StoredTensor& stored) {
    throw DataError({.what = "a frozen weight is not the one of the model that it is read in",
                     .where = fmt::format("{}, tensor '{}'", weights.path().string(), name),
                     .found = "other numbers",
                     .allowed = fmt::format("those in {}", stored.file.string()),
                     .remedy = "name the model that the run began with by --model"});
  };
  const auto refuse_bad = [&source](const WeightsFile& weights, const std::string& name, std::int64_t first,
                                    std::span<const float> values) {
    if (!source.takes_any_number) refuse_non_finite(weights, name, first, values);
  };
  return visit(
      specs, source,
      [&](const ParameterSpec& spec, const WeightsFile& weights, const std::string& name) {
        const ParameterPlace place = memory(spec.name);
        if (spec.rows != nullptr) {
          const auto table = [&](std::int64_t first, std::span<float> values) {
            read_values(weights, name, spec, first, values, staging);
            refuse_bad(weights, name, first, values);
          };
          return load_some_rows(spec, place, factor_of(weights, name), table);
        }
        const bool whole = place.elements() == spec.shape.elements();
        if (const std::span<float> values = place.floats(); whole && !values.empty()) {
          read_values(weights, name, spec, 0, values, staging);
          refuse_bad(weights, name, 0, values);
          return;
        }
        const Factor factor = factor_of(weights, name);
        const bool writes = !place.stored(), compares = !writes && weights.stored(name) != place.stored();
        for_each_chunk(spec, place, buffer, [&](std::int64_t first, std::span<float> values) {
          read_values(weights, name, spec, place.first() + first, values, staging);
          refuse_bad(weights, name, place.first() + first, values);
          if (writes) place.write(first, values, factor);
          if (!compares) return;
          in_place.resize(values.size());
          place.read(first, in_place);
          const bool same = std::memcmp(in_place.data(), values.data(), values.size_bytes()) == 0;
          if (!same) refuse_other(weights, name, *place.stored());
        });
      },
      [&](const ParameterSpec& spec) {
        const ParameterPlace place = memory(spec.name);
        if (spec.init == ParameterSpec::Init::kRowNorms) return write_row_norms(memory(spec.norms_of), place);
        if (spec.rows != nullptr) {
          return load_some_rows(spec, place, Factor::kOfBlock, [&](std::int64_t first, std::span<float> values) {
            fresh_values(spec, source.seed, values, first);
          });
        }
        for_each_chunk(spec, place, buffer, [&](std::int64_t first, std::span<float> values) {
          initialise_parameter(spec, source.seed, values, place.first() + first);
          place.write(first, values);
        });
      });
}

std::map<std::string, StoredTensor> stored_parameters(const std::vector<ParameterSpec>& specs,
                                                      const ParameterSource& source) {
  std::map<std::string, StoredTensor> all;
  for (const ParameterSpec& spec : specs) {
    const bool in_adapter = source.adapter != nullptr && source.adapter->find(kAdapterPrefix + spec.name) != nullptr;
    const bool fresh = spec.is_head() && !spec.in_base && source.fresh_head;
    if (spec.transposed || (!in_adapter && (fresh || spec.is_adapter() || spec.is_mask()))) continue;
    const std::optional<std::string> name =
        in_adapter ? kAdapterPrefix + spec.name : name_in_weights(source, spec.name);
    if (!name) continue;
    const WeightsFile& weights = in_adapter ? *source.adapter : *source.weights;
    if (spec.rows != nullptr || weights.at(*name).type.shape != spec.file_shape) continue;
    if (std::optional<StoredTensor> stored = weights.stored(*name)) all.emplace(spec.name, std::move(*stored));
  }
  return all;
}

ParameterReport check_parameters(const std::vector<ParameterSpec>& specs, const ParameterSource& source) {
  return visit(
      specs, source, [](const ParameterSpec&, const WeightsFile&, const std::string&) {}, [](const ParameterSpec&) {});
}

std::optional<std::uint64_t> hash_table(const std::vector<ParameterSpec>& specs, const ParameterSource& source) {
  const auto table = std::ranges::find_if(specs, [](const ParameterSpec& spec) { return spec.rows != nullptr; });
  if (table == specs.end()) return std::nullopt;
  const std::optional<Place> origin = origin_of(source, table->name);
  if (!origin) return std::nullopt;
  std::vector<std::byte> staging(64 * kKiB);
  std::vector<float> values(static_cast<std::size_t>(values_at_once(*table)));
  Hasher hasher;
  const std::int64_t elements = table->file_shape.elements();
  for (std::int64_t first = 0; first < elements; first += std::ssize(values)) {
    values.resize(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(values), elements - first)));
    read_values(*origin->weights, origin->name, *table, first, values, staging);
    hasher.add(std::as_bytes(std::span(values)));
  }
  return hasher.digest();
}

FileSum save_parameters(const std::filesystem::path& path, const std::vector<ParameterSpec>& specs,
                        const ParameterSource& original, const ParameterMemory& memory,
                        const SafetensorsMetadata& metadata, const std::string& prefix) {
  std::vector<TensorDeclaration> declarations;
  declarations.reserve(specs.size());
  for (const ParameterSpec& spec : specs) declarations.push_back({prefix + spec.name, {DType::kF32, spec.file_shape}});
  SafetensorsWriter writer(path, std::move(declarations), metadata);
  std::vector<std::byte> staging(64 * kKiB);
  for (const ParameterSpec& spec : specs) {
    const ParameterPlace place = memory(spec.name);
    const std::optional<Place> origin = origin_of(original, spec.name);
    if (spec.rows != nullptr && place.is_exact()) {
      Hasher hasher;
      const auto table = [&](std::int64_t first, std::span<float> values) {
        if (!origin) return fresh_values(spec, original.seed, values, first);
        read_values(*origin->weights, origin->name, spec, first, values, staging);
        hasher.add(std::as_bytes(values));
      };
      write_some_rows(writer, spec, place, table, spec.trains ? original.decays : std::span<const float>());
      if (origin && original.table_hash && hasher.digest() != *original.table_hash) refuse_changed(*origin);
      continue;
    }
    if (const std::span<float> values = place.floats(); !values.empty()) {
      write_values(writer, spec, values);
      continue;
    }
    if (place.is_exact()) {
      write_values(writer, spec, [&](std::int64_t first, std::span<float> values) { place.read(first, values); });
    } else if (origin) {
      copy_values(writer, *origin->weights, origin->name, spec, staging);
    } else {
      write_values(writer, spec, [&](std::int64_t first, std::span<float> values) {
        fresh_values(spec, original.seed, values, first);
      });
    }
  }
  return writer.finish();
}

}  // namespace plimsoll
