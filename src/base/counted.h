// Counts things in messages: "1 page", "0 pages", "3 boxes", never "1 pages".
//
//   counted(2, "page") == "2 pages"; counted(1, "box") == "1 box"; counted(3, "entry") == "3 entries";
//   counted(n, "page is", "pages are");     // if more than the noun's ending changes
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace plimsoll {

// Forms the plural from the ending: "es" after a sibilant (box, batch), "ies" for a "y" after a consonant (entry, not
// key).
std::string plural_of(std::string_view singular);

// Returns the noun alone, for a number that is formatted differently: "1,048,576" and noun_for(n, "byte").
template <std::integral Count>
std::string noun_for(Count count, std::string_view singular) {
  return count == 1 ? std::string(singular) : plural_of(singular);
}

template <std::integral Count>
std::string counted(Count count, std::string_view singular) {
  return std::to_string(count) + " " + noun_for(count, singular);
}

template <std::integral Count>
std::string counted(Count count, std::string_view singular, std::string_view plural) {
  return std::to_string(count).append(" ").append(count == 1 ? singular : plural);
}

}  // namespace plimsoll
