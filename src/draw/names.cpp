#include "draw/names.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace plimsoll::draw {
namespace {

using std::string_view;

constexpr auto kOnsets =
    std::to_array<string_view>({"b", "br", "c", "d", "dr", "f", "g",  "gr", "h", "j", "k",  "l",  "m", "n",
                                "p", "pr", "r", "s", "st", "t", "tr", "v",  "w", "z", "ch", "sh", "th"});
constexpr auto kVowels = std::to_array<string_view>({"a", "e", "i", "o", "u", "a", "e", "o", "ai", "ee", "ou"});
constexpr auto kCodas =
    std::to_array<string_view>({"", "", "n", "l", "r", "s", "nd", "rt", "x", "m", "lt", "ck", "ng", "th"});

constexpr auto kSurnames = std::to_array<string_view>(
    {"Abbott",  "Adler", "Baker",   "Barnes",   "Becker", "Bennett", "Carter",  "Chan",    "Chong",   "Clarke",
     "Cooper",  "Costa", "Dawson",  "Dietrich", "Dixon",  "Ellis",   "Farrell", "Fischer", "Foster",  "Garcia",
     "Gibson",  "Goh",   "Graham",  "Greene",   "Hansen", "Harper",  "Hassan",  "Hughes",  "Ibrahim", "Jansen",
     "Jenkins", "Kaur",  "Keller",  "Khan",     "Klein",  "Kumar",   "Lambert", "Larsen",  "Lee",     "Lim",
     "Lopez",   "Marsh", "Martin",  "Meyer",    "Miller", "Moore",   "Murphy",  "Nair",    "Newman",  "Nolan",
     "Norris",  "Olsen", "Osman",   "Owens",    "Palmer", "Parker",  "Patel",   "Perez",   "Porter",  "Quinn",
     "Rahman",  "Reed",  "Richter", "Rossi",    "Rowe",   "Santos",  "Schmidt", "Shaw",    "Singh",   "Stone",
     "Sutton",  "Tan",   "Taylor",  "Teo",      "Turner", "Vance",   "Wagner",  "Walsh",   "Weber",   "Wong",
     "Wright",  "Yap",   "Young",   "Zhang"});
constexpr auto kGivenNames = std::to_array<string_view>(
    {"Aaron",  "Alice", "Amir",  "Anna",   "Ben",  "Carla", "Chris", "Daniel", "Dina",  "Emma", "Farah", "George",
     "Hana",   "Ian",   "Irene", "Jack",   "Jane", "Kevin", "Laura", "Leon",   "Maria", "Mei",  "Nadia", "Noah",
     "Olivia", "Paul",  "Peter", "Rachel", "Ravi", "Sam",   "Sara",  "Siti",   "Tom",   "Vera", "Wei",   "Zoe"});
constexpr auto kAdjectives = std::to_array<string_view>(
    {"Golden",  "Silver",  "Happy", "Grand", "Royal", "Green", "Blue",   "Red",    "Lucky",    "Sunny",
     "Bright",  "Old",     "New",   "Fresh", "Prime", "Super", "Little", "Urban",  "Northern", "Eastern",
     "Western", "Pacific", "Smart", "Quick", "First", "Noble", "Family", "Modern", "Double",   "Crystal"});
constexpr auto kThings = std::to_array<string_view>(
    {"Dragon", "Lotus",   "Anchor",  "Bridge", "River", "Harbour", "Garden",   "Orchid",  "Lion",    "Falcon",
     "Maple",  "Oak",     "Star",    "Crown",  "Pearl", "Valley",  "Mountain", "Ocean",   "Sunrise", "Tiger",
     "Willow", "Phoenix", "Lantern", "Copper", "Palm",  "Coral",   "Bamboo",   "Horizon", "Fox",     "Cedar"});

constexpr auto kShopNouns = std::to_array<string_view>(
    {"Supermarket", "Mini Market", "Hardware",   "Pharmacy",          "Stationery",       "Bakery",    "Grocery",
     "Trading",     "Electronics", "Book Store", "Home Centre",       "Department Store", "Pet Shop",  "Sports",
     "Florist",     "Auto Parts",  "Cosmetics",  "Convenience Store", "Toys & Gifts",     "Enterprise"});
constexpr auto kFoodNouns = std::to_array<string_view>(
    {"Restaurant", "Cafe", "Bistro", "Kitchen", "Grill", "Noodle House", "Diner", "Pizzeria", "Steakhouse", "Coffee",
     "Tea House", "Bar & Grill", "Seafood", "Curry House", "Bakery Cafe", "Food Court", "Eatery", "Tavern"});
constexpr auto kFuelNouns = std::to_array<string_view>(
    {"Petroleum", "Fuel", "Service Station", "Petrol Station", "Gas & Go", "Oil", "Energy", "Filling Station"});
constexpr auto kParkingNouns = std::to_array<string_view>(
    {"Parking", "Car Park", "Valet Parking", "Park & Ride", "Parking Services", "Multi-Storey Car Park"});
constexpr auto kTaxiNouns = std::to_array<string_view>(
    {"Taxi Service", "Cabs", "Transport", "Shuttle", "Taxi", "Airport Transfer", "Minicabs", "Limousine"});
constexpr auto kOfficeNouns = std::to_array<string_view>(
    {"Consulting", "Engineering", "Logistics", "Printing", "Solutions", "Services", "Industries", "Design Studio",
     "Cleaning Services", "Office Supplies", "Construction", "Software", "Security Systems", "Media", "Machinery",
     "Packaging", "Air Conditioning", "Landscaping"});

constexpr auto kTreesAndSights = std::to_array<string_view>(
    {"Maple",   "Oak",    "Cedar",    "Pine",   "Elm",    "Park",  "Lake",  "Hill",   "Church",   "Station", "Market",
     "Mill",    "Bridge", "Victoria", "King",   "Queen",  "Main",  "High",  "Spring", "River",    "Garden",  "Harbour",
     "Orchard", "Castle", "Meadow",   "School", "Chapel", "North", "South", "Union",  "Commerce", "Liberty"});
constexpr auto kStreetKindsUs =
    std::to_array<string_view>({"St", "Street", "Ave", "Avenue", "Blvd", "Road", "Rd", "Drive", "Lane", "Pkwy"});
constexpr auto kStreetKindsUk =
    std::to_array<string_view>({"Street", "Road", "Lane", "Avenue", "Close", "Way", "Gardens", "Crescent", "Place"});
constexpr auto kTownStems =
    std::to_array<string_view>({"Ash",  "Brad", "Brook", "Clay",  "Crest", "East", "Fair", "Glen",  "Green", "Hart",
                                "Hay",  "Hill", "Lake",  "Long",  "Mar",   "Mill", "New",  "North", "Oak",   "Red",
                                "Rich", "Rock", "Sand",  "South", "Stan",  "Star", "Wake", "West",  "White", "Win"});
constexpr auto kTownEndings = std::to_array<string_view>(
    {"ton", "ville", "field", "burg", "ford", "ham", "dale", "wood", "mouth", "stead", "port", "bury"});
constexpr auto kStates = std::to_array<string_view>(
    {"CA", "TX", "NY", "FL", "IL", "OH", "WA", "GA", "NC", "MI", "NJ", "VA", "AZ", "MA", "TN", "IN", "MO", "CO"});
constexpr auto kMalayStreetParts = std::to_array<string_view>(
    {"Sagu",  "Dedap",   "Merdeka", "Bukit",   "Kenanga", "Melati", "Perdana", "Indah",  "Sultan",  "Raja",
     "Mawar", "Cempaka", "Teratai", "Bestari", "Permata", "Seri",   "Damai",   "Makmur", "Angsana", "Harmoni"});
constexpr auto kMalayTowns = std::to_array<string_view>(
    {"Johor Bahru", "Shah Alam", "Petaling Jaya", "Kuala Lumpur", "Subang Jaya", "Kajang", "Klang", "Ipoh", "Seremban",
     "Melaka", "Georgetown", "Kuantan", "Puchong", "Cheras", "Setapak", "Rawang"});
constexpr auto kMalayStates =
    std::to_array<string_view>({"Selangor", "Johor", "Perak", "Pahang", "Penang", "Melaka", "Kedah", "Sabah"});
constexpr auto kEuropeStreets =
    std::to_array<string_view>({"Rue Victor", "Rue de la Gare", "Rue du Moulin", "Avenue Foch", "Place Saint Paul",
                                "Quai du Port", "Via Roma", "Via Verdi", "Via Nuova", "Piazza Duomo"});
constexpr auto kEuropeTowns = std::to_array<string_view>(
    {"Lyon", "Lille", "Torino", "Verona", "Milano", "Bologna", "Reims", "Dijon", "Padova", "Namur", "Nantes", "Tours"});

constexpr auto kProductKinds = std::to_array<string_view>(
    {"Milk",       "Bread",    "Eggs",      "Rice",       "Coffee",   "Tea",       "Sugar",   "Butter",
     "Cheese",     "Apples",   "Bananas",   "Tomatoes",   "Chicken",  "Noodles",   "Shampoo", "Soap",
     "Toothpaste", "Tissue",   "Detergent", "Batteries",  "Notebook", "Pen",       "Stapler", "Paint",
     "Hammer",     "Screws",   "Tape",      "Light Bulb", "Cable",    "Vitamin C", "Juice",   "Water",
     "Chocolate",  "Biscuits", "Yogurt",    "Cereal",     "Onions",   "Olive Oil", "Napkins", "Glue"});
constexpr auto kProductWords =
    std::to_array<string_view>({"Fresh", "Organic", "Large", "Small", "Premium", "Classic", "Low Fat", "White", "Black",
                                "Mixed", "Daily", "Family", "Extra", "Mini", "Red", "Natural"});
constexpr auto kSizes =
    std::to_array<string_view>({"1L", "500ML", "250G", "1KG", "2PK", "6PK", "12S", "100G", "750ML", "10M", "A4", "XL"});
constexpr auto kDishes = std::to_array<string_view>(
    {"Burger",     "Pizza",      "Pasta",         "Salad",        "Soup",     "Steak",    "Noodles",
     "Fried Rice", "Curry",      "Sandwich",      "Fish & Chips", "Omelette", "Wings",    "Tacos",
     "Cheesecake", "Ice Cream",  "Latte",         "Espresso",     "Iced Tea", "Lemonade", "Cola",
     "Draft Beer", "House Wine", "Mineral Water", "Spring Rolls", "Satay",    "Ribs",     "Pancakes"});
constexpr auto kDishWords =
    std::to_array<string_view>({"Grilled", "Spicy", "House", "Chef", "Classic", "Garden", "Crispy", "Smoked", "BBQ",
                                "Garlic", "Double", "Veggie", "Chicken", "Beef", "Prawn", "Mushroom"});
constexpr auto kServices = std::to_array<string_view>(
    {"Consulting hours", "Site survey",     "Annual maintenance", "Printing brochures", "Delivery charge",
     "Software licence", "Network cabling", "Office chairs",      "Training course",    "Steel brackets",
     "Cleaning service", "Design work",     "Toner cartridge",    "Paper A4 box",       "Pump repair",
     "Spare parts kit",  "Labour",          "Project management", "Security audit",     "Packaging material",
     "Lamp fittings",    "Door handles",    "Cooling unit",       "Garden works"});

// Parts that are themselves drawn are passed in a braced list, which is evaluated in order; with a function's arguments
// two compilers could write two different pages from one seed.
std::string joined(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

std::string number(PageRandom& random, int low, int high) { return fmt::format("{}", random.between(low, high)); }

std::string digits(PageRandom& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>('0' + random.below(10));
  return text;
}

std::string letter(PageRandom& random) { return std::string(1, static_cast<char>('A' + random.below(26))); }

std::string vendor_noun(PageRandom& random, PageKind kind) {
  switch (kind) {
    case PageKind::kTill:
      return pick(random, kShopNouns);
    case PageKind::kRestaurant:
      return pick(random, kFoodNouns);
    case PageKind::kFuel:
      return pick(random, kFuelNouns);
    case PageKind::kParking:
      return pick(random, kParkingNouns);
    case PageKind::kTaxi:
      return pick(random, kTaxiNouns);
    case PageKind::kInvoice:
    case PageKind::kForm:
      return pick(random, kOfficeNouns);
  }
  return {};
}

std::string legal_form(PageRandom& random, Region region) {
  constexpr auto kUs = std::to_array<string_view>({"Inc", "Inc.", "LLC", "Corp", "Co."});
  constexpr auto kUk = std::to_array<string_view>({"Ltd", "Limited", "PLC", "LLP"});
  constexpr auto kMy = std::to_array<string_view>({"Sdn Bhd", "SDN. BHD.", "Sdn. Bhd.", "Enterprise"});
  constexpr auto kSg = std::to_array<string_view>({"Pte Ltd", "Pte. Ltd.", "Pte Limited"});
  constexpr auto kEu = std::to_array<string_view>({"GmbH", "B.V.", "S.A.", "S.r.l.", "AG"});
  switch (region) {
    case Region::kUnitedStates:
      return pick(random, kUs);
    case Region::kUnitedKingdom:
      return pick(random, kUk);
    case Region::kMalaysia:
      return pick(random, kMy);
    case Region::kSingapore:
      return pick(random, kSg);
    case Region::kEurope:
      return pick(random, kEu);
  }
  return {};
}

std::string town_name(PageRandom& random) {
  if (random.chance(0.03)) return coined_name(random);
  return joined({pick(random, kTownStems), pick(random, kTownEndings)});
}

std::string street_stem(PageRandom& random) {
  if (random.chance(0.12)) return surname(random);
  return pick(random, kTreesAndSights);
}

}  // namespace

std::string words(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty() && !part.empty()) text += ' ';
    text += part;
  }
  return text;
}

std::string to_upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string coined_name(PageRandom& random) {
  std::string name;
  const int syllables = random.between(2, 3);
  for (int i = 0; i < syllables; ++i) {
    name += pick(random, kOnsets);
    name += pick(random, kVowels);
    if (i + 1 == syllables || random.chance(0.25)) name += pick(random, kCodas);
  }
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

std::string surname(PageRandom& random) { return pick(random, kSurnames); }

std::string person_name(PageRandom& random) {
  const std::string given = pick(random, kGivenNames);
  if (random.chance(0.35)) return given;
  if (random.chance(0.3)) return fmt::format("{} {}.", given, letter(random));
  return words({given, surname(random)});
}

std::vector<std::string> company_name(PageRandom& random, PageKind kind, Region region) {
  const std::string noun = vendor_noun(random, kind);
  std::string name;
  switch (random.below(10)) {
    case 0:
    case 1:
      name = words({surname(random), "&", surname(random), noun});
      break;
    case 2:
      name = words({surname(random), "& Sons", noun});
      break;
    case 3:
      name = words({"The", pick(random, kAdjectives), pick(random, kThings), noun});
      break;
    case 4:
    case 5:
      name = words({pick(random, kAdjectives), pick(random, kThings), noun});
      break;
    case 6:
      name = fmt::format("{}'s {}", surname(random), noun);
      break;
    case 7:
    case 8:
      name = words({town_name(random), noun});
      break;
    default:
      name = words({coined_name(random), noun});
      break;
  }
  const bool business = kind == PageKind::kInvoice || kind == PageKind::kForm;
  if (!random.chance(business ? 0.85 : 0.5)) return {name};
  const std::string form = legal_form(random, region);
  if (!business && random.chance(0.12)) return {name, form};
  return {words({name, form})};
}

std::vector<std::string> street_address(PageRandom& random, Region region) {
  std::vector<std::string> lines;
  switch (region) {
    case Region::kUnitedStates: {
      constexpr auto kDirections = std::to_array<string_view>({"N", "S", "E", "W"});
      std::string street =
          words({number(random, 1, 299), random.chance(0.25) ? pick(random, kDirections) : std::string(),
                 street_stem(random), pick(random, kStreetKindsUs)});
      if (random.chance(0.2)) street += fmt::format(" Suite {}", random.between(100, 990));
      const std::string town = joined({town_name(random), ", ", pick(random, kStates), " ", digits(random, 5)});
      if (random.chance(0.15)) return {joined({street, ", ", town})};
      return {street, town};
    }
    case Region::kUnitedKingdom: {
      lines.push_back(words({number(random, 1, 299), street_stem(random), pick(random, kStreetKindsUk)}));
      if (random.chance(0.1)) lines.push_back(fmt::format("{} Trading Estate", surname(random)));
      const std::string town = town_name(random);
      const std::string code = joined({to_upper(town.substr(0, 1)), letter(random), number(random, 1, 29), " ",
                                       number(random, 1, 9), letter(random), letter(random)});
      if (random.chance(0.3)) {
        lines.push_back(town);
        lines.push_back(code);
      } else {
        lines.push_back(words({town, code}));
      }
      return lines;
    }
    case Region::kMalaysia: {
      constexpr auto kPremises = std::to_array<string_view>({"No.", "No", "Lot", "No."});
      std::string street =
          joined({pick(random, kPremises), " ", number(random, 1, 299), ", Jalan ", pick(random, kMalayStreetParts)});
      if (random.chance(0.4)) street = words({street, pick(random, kMalayStreetParts)});
      if (random.chance(0.5)) street = joined({street, " ", number(random, 1, 29), "/", number(random, 1, 19)});
      lines.push_back(street + ",");
      if (random.chance(0.6)) {
        lines.push_back(joined({"Taman ", pick(random, kMalayStreetParts), " ", pick(random, kMalayStreetParts), ","}));
      }
      std::string town = words({number(random, 10000, 98999), pick(random, kMalayTowns)});
      if (random.chance(0.7)) town = joined({town, ", ", pick(random, kMalayStates), random.chance(0.3) ? "." : ""});
      lines.push_back(town);
      return lines;
    }
    case Region::kSingapore: {
      std::string street = words(
          {random.chance(0.5) ? "Blk" : "", number(random, 1, 299), street_stem(random), pick(random, kStreetKindsUk)});
      if (random.chance(0.7)) {
        const int floor = random.between(1, 18), unit = random.between(1, 99);
        street += fmt::format(" #{:02}-{:02}", floor, unit);
      }
      return {street, fmt::format("Singapore {}", digits(random, 6))};
    }
    case Region::kEurope: {
      const std::string street = words({number(random, 1, 299), pick(random, kEuropeStreets)});
      const std::string town = words({number(random, 10000, 98999), pick(random, kEuropeTowns)});
      if (random.chance(0.2)) return {joined({street, ", ", town})};
      return {street, town};
    }
  }
  return lines;
}

std::string phone_number(PageRandom& random, Region region) {
  switch (region) {
    case Region::kUnitedStates: {
      const int area = random.between(201, 989), exchange = random.between(200, 999);
      return fmt::format("({}){}-{}", area, exchange, digits(random, 4));
    }
    case Region::kUnitedKingdom:
      return joined({"(0", number(random, 113, 199), ")", digits(random, 7)});
    case Region::kMalaysia:
      return joined({"+60-", number(random, 3, 9), "-", digits(random, 8)});
    case Region::kSingapore:
      return joined({"+65-6", digits(random, 7)});
    case Region::kEurope:
      return joined({"+", number(random, 30, 49), "-", number(random, 20, 99), "-", digits(random, 7)});
  }
  return {};
}

std::string registration_number(PageRandom& random, Region region) {
  switch (region) {
    case Region::kUnitedStates:
      return joined({"Store #", number(random, 1, 9999), " Reg #", number(random, 1, 12)});
    case Region::kUnitedKingdom:
      return fmt::format("VAT No: GB{}", digits(random, 9));
    case Region::kMalaysia:
      if (random.chance(0.5)) return fmt::format("GST ID: GST{}", digits(random, 9));
      return joined({"(", digits(random, 6), "-", letter(random), ")"});
    case Region::kSingapore:
      return joined({"Reg No: RC", digits(random, 8), letter(random)});
    case Region::kEurope:
      return fmt::format("VAT ID: EU{}", digits(random, 9));
  }
  return {};
}

std::string goods_name(PageRandom& random, PageKind kind) {
  if (kind == PageKind::kRestaurant) {
    const std::string dish = pick(random, kDishes);
    return random.chance(0.55) ? words({pick(random, kDishWords), dish}) : dish;
  }
  if (kind == PageKind::kInvoice || kind == PageKind::kForm) return pick(random, kServices);
  std::string name = pick(random, kProductKinds);
  if (random.chance(0.45)) name = words({pick(random, kProductWords), name});
  if (random.chance(0.05)) name = words({coined_name(random), name});
  if (random.chance(0.45)) name = words({name, pick(random, kSizes)});
  return name;
}

}  // namespace plimsoll::draw
