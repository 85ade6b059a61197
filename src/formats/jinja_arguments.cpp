#include "formats/jinja_arguments.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

const JinjaValue* JinjaArguments::find(std::size_t position, std::string_view name) const {
  if (position < values.size()) return &values[position];
  const auto found = std::ranges::find(named, name, &std::pair<std::string, JinjaValue>::first);
  return found == named.end() ? nullptr : &found->second;
}

const JinjaValue* JinjaArguments::find_value(std::size_t position, std::string_view name) const {
  const JinjaValue* const found = find(position, name);
  return found == nullptr || (found->json.is_null() && !found->members) ? nullptr : found;
}

bool JinjaArguments::asks(std::size_t position, std::string_view name) const {
  const JinjaValue* const found = find(position, name);
  return found != nullptr && is_true(*found);
}

void check_arguments(std::span<const JinjaSignature> signatures, const char* kind, const std::string& name,
                     const JinjaArguments& arguments) {
  const auto signature = std::ranges::find(signatures, name, &JinjaSignature::name);
  if (signature == signatures.end()) throw JinjaFault{fmt::format("a {} is not understood", kind), name};
  const std::string_view places = signature->places;
  const std::size_t most = places.empty() ? 0 : static_cast<std::size_t>(std::ranges::count(places, ' ')) + 1;
  if (arguments.values.size() > most) throw JinjaFault{"it is given more than is understood", name};
  const std::string all = fmt::format(" {} {} ", places, signature->names);
  for (const auto& [key, value] : arguments.named) {
    if (all.find(" " + key + " ") == std::string::npos)
      throw JinjaFault{"it is given what is not understood", name + ", " + key};
  }
}

}  // namespace plimsoll
