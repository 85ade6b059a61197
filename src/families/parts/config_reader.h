// ConfigReader: typed values of a model's config.json, with errors that name file and key.
//
//   ConfigReader reader(object, "model/config.json");
//   std::int64_t hidden_size = 768;
//   reader.integer("hidden_size", hidden_size, 1, 1000000);   // keeps 768 where the key is absent or null
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace plimsoll {

// The remedy for a model that computes what no family here does.
inline constexpr const char* kChooseAnother =
    "use a model without it: its weights are made for this, so another value in config.json gives other results";

class ConfigReader {
 public:
  // `object` must outlive the reader; `where` is the file.
  ConfigReader(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[noreturn]] void fail(std::string_view key, std::string_view what, std::string allowed,
                         std::string remedy = "use a model directory as `transformers` saves it") const;
  const nlohmann::json& object() const { return object_; }
  bool has(std::string_view key) const;
  // Each throws DataError for a value of another type or out of its range.
  void integer(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high) const;
  void number(const char* key, double& value, double low, double high) const;
  void boolean(const char* key, bool& value) const;
  // Throws unless the key is absent or has this value, the only one that is computed here.
  void require(const char* key, const nlohmann::json& value, std::string_view what) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace plimsoll
