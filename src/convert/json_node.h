// A value of a JSON file that knows its place, so that a message can say which member of which element is wrong.
//
//   const std::string file = "result.json";
//   const JsonNode root(json, file);
//   const JsonNode blocks = root.at("Blocks");
//   for (std::size_t i = 0; i < blocks.size(); ++i) use(blocks.item(i).at("BlockType").text());
//
// A member that is missing, or has another type, is refused with a DataError that names the place: "result.json,
// Blocks[12].Geometry". The JSON must outlive its nodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

class JsonNode {
 public:
  // `file` must outlive the node, too.
  JsonNode(const nlohmann::json& value, const std::string& file) : value_(&value), file_(&file) {}
  JsonNode(const nlohmann::json& value, std::string&& file) = delete;

  const nlohmann::json& value() const { return *value_; }
  std::string where() const;

  // Returns the member with this name; nullopt if it is missing or null. Several names are spellings of one member.
  std::optional<JsonNode> find(std::initializer_list<const char*> names) const;
  std::optional<JsonNode> find(const char* name) const { return find({name}); }
  JsonNode at(std::initializer_list<const char*> names) const;
  JsonNode at(const char* name) const { return at({name}); }

  bool is_list() const { return value_->is_array(); }
  bool is_text() const { return value_->is_string(); }
  // Returns the size of a list.
  std::size_t size() const;
  JsonNode item(std::size_t index) const;

  double number() const;       // finite
  std::int64_t whole() const;  // an integer, or one written as text
  const std::string& text() const;

  // Throws DataError: `what` is wrong, this value was found, `allowed` would have been right.
  [[noreturn]] void refuse(std::string what, std::string allowed, std::string remedy = {}) const;

 private:
  struct Step {
    const char* name = nullptr;  // nullptr: an item of a list
    std::size_t index = 0;
  };
  JsonNode step(const nlohmann::json& value, Step step) const;

  const nlohmann::json* value_;
  const std::string* file_;
  std::array<Step, 14> steps_{};
  std::size_t depth_ = 0;
};

// Parses a whole file. Throws DataError that names line and column if it is not JSON, or nests too deep.
nlohmann::json parse_json_file(std::string_view text, const std::string& file);

// An item of a list at the top of a file: its text and the line where it begins. Items are parsed one after the other,
// so that only one item's values are in memory at a time.
struct JsonItem {
  std::string_view text;
  std::size_t line = 1;
};
// Returns the items of `text`, or the value itself if that is not a list. Each is only a range with matching brackets:
// parsing it says whether it is JSON.
std::vector<JsonItem> list_items(std::string_view text);

}  // namespace plimsoll
