#include "families/parts/config_reader.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll {

using nlohmann::json;

void ConfigReader::fail(std::string_view key, std::string_view what, std::string allowed, std::string remedy) const {
  throw DataError({.what = fmt::format("config.json: {}", what),
                   .where = fmt::format("{}, key \"{}\"", where_, key),
                   .found = object_.contains(key) ? object_.at(std::string(key)).dump() : "nothing",
                   .allowed = std::move(allowed),
                   .remedy = std::move(remedy)});
}

bool ConfigReader::has(std::string_view key) const { return object_.contains(key) && !object_.at(key).is_null(); }

void ConfigReader::integer(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high) const {
  if (!has(key)) return;
  const json& found = object_.at(key);
  if (!found.is_number_integer() || found.get<std::int64_t>() < low || found.get<std::int64_t>() > high) {
    fail(key, "a value is not in its range", fmt::format("a whole number from {} to {}", low, high));
  }
  value = found.get<std::int64_t>();
}

void ConfigReader::number(const char* key, double& value, double low, double high) const {
  if (!has(key)) return;
  const json& found = object_.at(key);
  if (!found.is_number() || !(found.get<double>() >= low) || !(found.get<double>() <= high)) {
    fail(key, "a value is not in its range", fmt::format("a number from {} to {}", low, high));
  }
  value = found.get<double>();
}

void ConfigReader::boolean(const char* key, bool& value) const {
  if (!has(key)) return;
  if (!object_.at(key).is_boolean()) fail(key, "a value has the wrong type", "true or false");
  value = object_.at(key).get<bool>();
}

void ConfigReader::require(const char* key, const json& value, std::string_view what) const {
  if (object_.contains(key) && object_.at(key) != value) fail(key, what, value.dump(), kChooseAnother);
}

}  // namespace plimsoll
