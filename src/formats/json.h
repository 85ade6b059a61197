// JSON from files that nobody vouches for. Reading a deep value costs the parser nothing, but copying, comparing and
// printing one call themselves for each level: some ten thousand brackets would end the stack. So depth has a limit,
// and every JSON text passes it before it becomes values.
//
//   const nlohmann::json config = parse_json(read_text_file(path, kLimit), path.string());
//   if (!config.is_object()) …refuse…
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace plimsoll {

// Files that are read here nest 4 to 10 levels.
inline constexpr int kMaxJsonDepth = 100;

// Whether lists and objects lie in one another deeper than kMaxJsonDepth. One pass; of a text that is no JSON it may
// say either.
bool nests_too_deep(std::string_view text);

// `is_discarded()` if the text is no JSON. Throws DataError at `where` if it nests too deep.
nlohmann::json parse_json(std::string_view text, const std::string& where);

}  // namespace plimsoll
