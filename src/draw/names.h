// Names of vendors, streets, towns, people and goods, composed of parts so that two pages rarely share one: a model has
// to learn a name's position and surroundings, not the name.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "draw/facts.h"
#include "draw/random.h"

namespace plimsoll::draw {

std::string to_upper(std::string text);

// Joins the parts that are not empty with single spaces.
std::string words(std::initializer_list<std::string> parts);

// Returns a made-up proper name of two or three syllables ("Brandel", "Kovira").
std::string coined_name(PageRandom& random);
std::string surname(PageRandom& random);
std::string person_name(PageRandom& random);
// Returns one or two printed lines, e.g. {"Kovira & Sons Hardware", "SDN BHD"}.
std::vector<std::string> company_name(PageRandom& random, PageKind kind, Region region);
// Returns one to four printed lines in the order used in the region.
std::vector<std::string> street_address(PageRandom& random, Region region);
std::string phone_number(PageRandom& random, Region region);
// Returns a caption and number, e.g. "GST ID: 000849813504".
std::string registration_number(PageRandom& random, Region region);
// Returns something that a vendor of that kind sells, in two to four words.
std::string goods_name(PageRandom& random, PageKind kind);

}  // namespace plimsoll::draw
