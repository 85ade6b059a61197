// What a file shows of its format before it is read: the names of the members of its JSON, its XML's root, its first
// bytes.
//
//   const Evidence evidence = look_at("result.json");
//   if (evidence.has("Blocks") || evidence.has("[].Blocks")) use(evidence.file);
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace plimsoll {

struct Evidence {
  std::filesystem::path file{};
  std::string head{};               // the first bytes, up to a mebibyte
  std::string root{};               // of XML or HTML; empty: it is neither
  std::set<std::string> members{};  // of the first JSON value: "analyzeResult.pages", "[].data"

  bool has(const char* member) const { return members.contains(member); }
};

// Reads the first mebibyte; for JSON it reads the whole file, because the telling names may come after a long text.
Evidence look_at(const std::filesystem::path& path);

// Returns the members of the first JSON value in `text`, down to five levels; anything after it, or incomplete, is
// ignored.
std::set<std::string> json_members(std::string_view text);

// A file is read whole if it is no longer; a longer one is refused.
inline constexpr std::size_t kLongestFile = std::size_t{1} << 30;

}  // namespace plimsoll
