// Names of vendors, streets, towns, people and goods, put together from parts so that two pages rarely share one: a
// model has to learn where a name stands and what surrounds it, not the name.
#pragma once

#include <string>
#include <vector>

#include "draw/facts.h"
#include "draw/random.h"

namespace plimsoll::draw {

std::string to_upper(std::string text);

// A made-up proper name of two or three syllables ("Brandel", "Kovira").
std::string coined_name(PageRandom& random);
std::string surname(PageRandom& random);
std::string person_name(PageRandom& random);
// One or two printed lines, e.g. {"Kovira & Sons Hardware", "SDN BHD"}.
std::vector<std::string> company_name(PageRandom& random, PageKind kind, Region region);
// One to four printed lines in the order that the region writes them.
std::vector<std::string> street_address(PageRandom& random, Region region);
std::string phone_number(PageRandom& random, Region region);
// Caption and number, e.g. "GST ID: 000849813504".
std::string registration_number(PageRandom& random, Region region);
// What a vendor of that kind sells, two to four words.
std::string goods_name(PageRandom& random, PageKind kind);

}  // namespace plimsoll::draw
