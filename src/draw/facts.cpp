#include "draw/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "draw/names.h"
#include "draw/random.h"

namespace plimsoll::draw {
namespace {

struct CalendarDay {
  int year, month, day;
};

constexpr auto kMonths =
    std::to_array<std::string_view>({"January", "February", "March", "April", "May", "June", "July", "August",
                                     "September", "October", "November", "December"});

bool leap_year(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

int days_in_month(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && leap_year(year) ? 29 : kDays[static_cast<std::size_t>(month - 1)];
}

// Every month has the days from which this picks.
CalendarDay some_day(PageRandom& random) {
  return {random.between(2012, 2025), random.between(1, 12), random.between(1, 28)};
}

CalendarDay add_days(CalendarDay day, int days) {
  for (; days > 0; --days) {
    if (++day.day <= days_in_month(day.year, day.month)) continue;
    day.day = 1;
    if (++day.month > 12) day.month = 1, ++day.year;
  }
  for (; days < 0; ++days) {
    if (--day.day >= 1) continue;
    if (--day.month < 1) day.month = 12, --day.year;
    day.day = days_in_month(day.year, day.month);
  }
  return day;
}

// Writes a day in one of eight forms, the American ones with the month first.
std::string format_date(const CalendarDay& date, int form, Region region, bool upper) {
  const auto [y, m, d] = date;
  const std::string_view month = kMonths[static_cast<std::size_t>(m - 1)];
  const std::string_view abbreviation = month.substr(0, 3);
  const bool month_first = region == Region::kUnitedStates;
  const int first = month_first ? m : d, second = month_first ? d : m;
  std::string text;
  switch (form) {
    case 0:
    case 1:
      text = fmt::format("{:02}/{:02}/{}", first, second, y);
      break;
    case 2:
      text = fmt::format("{}/{}/{}", first, second, y);
      break;
    case 3:
      text = fmt::format("{:02}-{:02}-{}", first, second, y);
      break;
    case 4:
    case 8:
      text = fmt::format("{}-{:02}-{:02}", y, m, d);
      break;
    case 5:
      text = fmt::format("{:02}-{}-{}", d, abbreviation, y);
      break;
    case 6:
    case 7:
      text = fmt::format("{:02}.{:02}.{}", first, second, y);
      break;
    default:
      text = month_first ? fmt::format("{} {}, {}", month, d, y) : fmt::format("{} {} {}", d, abbreviation, y);
      break;
  }
  return upper ? to_upper(text) : text;
}

PageKind pick_kind(PageRandom& random) {
  const double kind = random.uniform();
  if (kind < 0.30) return PageKind::kTill;
  if (kind < 0.48) return PageKind::kRestaurant;
  if (kind < 0.58) return PageKind::kFuel;
  if (kind < 0.64) return PageKind::kParking;
  if (kind < 0.70) return PageKind::kTaxi;
  if (kind < 0.90) return PageKind::kInvoice;
  return PageKind::kForm;
}

void set_region_money(PageFacts& facts, PageRandom& random) {
  constexpr std::array<int, 5> kUsRates = {600, 625, 700, 825, 887};
  constexpr std::array<int, 4> kEuropeRates = {1900, 2000, 2100, 1000};
  const bool group = random.chance(0.8);
  switch (facts.region) {
    case Region::kUnitedStates:
      facts.money = {.currency = std::string("$"), .currency_attached = true, .group_thousands = group};
      facts.tax_name = std::string(random.chance(0.5) ? "Sales Tax" : "Tax");
      facts.tax_rate_hundredths = random.pick(kUsRates);
      break;
    case Region::kUnitedKingdom:
      facts.money = {.currency = std::string("GBP"), .group_thousands = group};
      facts.tax_name = std::string("VAT");
      facts.tax_rate_hundredths = 2000;
      facts.tax_included = random.chance(0.6);
      break;
    case Region::kMalaysia:
      facts.money = {.currency = std::string("RM"), .currency_attached = random.chance(0.3), .group_thousands = group};
      facts.tax_name = std::string(random.chance(0.7) ? "GST" : "SST");
      facts.tax_rate_hundredths = 600;
      facts.tax_included = random.chance(0.5);
      break;
    case Region::kSingapore: {
      const bool sign = random.chance(0.5);
      facts.money = {.currency = std::string(sign ? "S$" : "SGD"), .currency_attached = sign, .group_thousands = group};
      facts.tax_name = std::string("GST");
      facts.tax_rate_hundredths = random.chance(0.5) ? 700 : 800;
      facts.tax_included = random.chance(0.3);
      break;
    }
    case Region::kEurope:
      facts.money = {.currency = std::string("EUR"), .comma_decimal = random.chance(0.4), .group_thousands = group};
      facts.tax_name = std::string("VAT");
      facts.tax_rate_hundredths = random.pick(kEuropeRates);
      facts.tax_included = random.chance(0.7);
      break;
  }
}

Cents price(PageRandom& random, int low_units, int high_units) {
  constexpr std::array<int, 8> kEndings = {0, 50, 99, 90, 95, 25, 49, 75};
  const Cents cents = random.chance(0.75) ? random.pick(kEndings) : random.between(1, 99);
  const Cents units = random.between(low_units, high_units);
  // Every price is positive.
  return std::max<Cents>(units * 100 + cents, 5);
}

void add_line(PageFacts& facts, SaleLine line) {
  line.amount = line.quantity * line.unit;
  facts.subtotal += line.amount;
  facts.lines.push_back(std::move(line));
}

void add_lines(PageFacts& facts, PageRandom& random) {
  switch (facts.kind) {
    case PageKind::kTill: {
      const bool codes = random.chance(0.15);
      const int count = random.between(2, 6);
      for (int i = 0; i < count; ++i) {
        add_line(facts, {.code = codes ? fmt::format("{}", random.between(100000, 99999999)) : "",
                         .description = goods_name(random, facts.kind),
                         .quantity = random.chance(0.65) ? 1 : random.between(2, 6),
                         .unit = price(random, 0, 39)});
      }
      break;
    }
    case PageKind::kRestaurant: {
      const int count = random.between(2, 6);
      for (int i = 0; i < count; ++i) {
        add_line(facts, {.description = goods_name(random, facts.kind),
                         .quantity = random.chance(0.6) ? 1 : random.between(2, 4),
                         .unit = price(random, 2, 38)});
      }
      break;
    }
    case PageKind::kFuel: {
      constexpr auto kGrades = std::to_array<std::string_view>(
          {"Unleaded 95", "Unleaded 98", "Diesel", "Premium Diesel", "Super Unleaded", "Regular", "RON 95", "RON 97"});
      const int millilitres = random.between(800, 6400) * 10;
      const int mills = random.between(1050, 2899);  // thousandths of the currency per litre
      const Cents cents = (Cents{millilitres} * mills + 5000) / 10000;
      add_line(facts, {.description = std::string(random.pick(kGrades)),
                       .detail = fmt::format("{}.{:02} L @ {}.{:03}", millilitres / 1000, millilitres % 1000 / 10,
                                             mills / 1000, mills % 1000),
                       .unit = cents});
      if (random.chance(0.35)) {
        add_line(facts, {.description = goods_name(random, PageKind::kTill), .unit = price(random, 1, 14)});
      }
      break;
    }
    case PageKind::kParking: {
      constexpr auto kExtras =
          std::to_array<std::string_view>({"Lost ticket fee", "Overnight charge", "Car wash", "Charging point"});
      constexpr auto kBases =
          std::to_array<std::string_view>({"Parking fee", "Hourly rate", "Day rate", "Basic charge"});
      add_line(facts, {.description = std::string(random.pick(kBases)), .unit = price(random, 2, 48)});
      if (random.chance(0.4)) {
        add_line(facts, {.description = std::string(random.pick(kExtras)), .unit = price(random, 1, 19)});
      }
      break;
    }
    case PageKind::kTaxi: {
      constexpr auto kExtras = std::to_array<std::string_view>(
          {"Waiting time", "Toll charge", "Airport fee", "Night surcharge", "Luggage", "Booking fee"});
      constexpr auto kBases =
          std::to_array<std::string_view>({"Base fare", "Meter fare", "Standard fare", "Basic charge", "Fixed fare"});
      add_line(facts, {.description = std::string(random.pick(kBases)), .unit = price(random, 2, 48)});
      const int extras = random.between(0, 2);
      for (int i = 0; i < extras; ++i) {
        add_line(facts, {.description = std::string(random.pick(kExtras)), .unit = price(random, 0, 9)});
      }
      break;
    }
    case PageKind::kInvoice:
    case PageKind::kForm: {
      const int count = random.between(2, facts.kind == PageKind::kInvoice ? 6 : 4);
      for (int i = 0; i < count; ++i) {
        add_line(facts, {.description = goods_name(random, facts.kind),
                         .quantity = random.chance(0.4) ? 1 : random.between(2, 24),
                         .unit = price(random, 5, facts.kind == PageKind::kInvoice ? 480 : 120)});
      }
      break;
    }
  }
}

Cents percent_of(Cents amount, int rate_hundredths) { return (amount * rate_hundredths + 5000) / 10000; }

void settle(PageFacts& facts, PageRandom& random) {
  if (facts.kind == PageKind::kRestaurant && random.chance(0.5)) facts.service = percent_of(facts.subtotal, 1000);
  const bool ticket = facts.kind == PageKind::kParking || facts.kind == PageKind::kTaxi;
  if (!ticket && random.chance(0.18)) {
    constexpr std::array<int, 3> kDiscounts = {500, 1000, 1500};
    facts.discount = percent_of(facts.subtotal, random.pick(kDiscounts));
  }
  const Cents taxed = facts.subtotal - facts.discount + facts.service;
  if (facts.tax_included) {
    facts.tax = taxed - (taxed * 10000 + (10000 + facts.tax_rate_hundredths) / 2) / (10000 + facts.tax_rate_hundredths);
  } else {
    facts.tax = percent_of(taxed, facts.tax_rate_hundredths);
  }
  const Cents exact = taxed + (facts.tax_included ? 0 : facts.tax);
  // Malaysian tills round to five sen.
  const bool rounds = facts.region == Region::kMalaysia && facts.kind != PageKind::kInvoice;
  facts.total = rounds ? (exact + 2) / 5 * 5 : exact;
  facts.rounding = facts.total - exact;

  facts.pays_cash = random.chance(0.55);
  facts.paid = facts.total;
  if (facts.pays_cash) {
    constexpr std::array<Cents, 5> kNotes = {500, 1000, 2000, 5000, 10000};
    const Cents note = facts.total < 10000 ? random.pick(kNotes) : 5000;
    facts.paid = (facts.total + note - 1) / note * note;
  }
  facts.change = facts.paid - facts.total;
}

}  // namespace

Region pick_region(PageRandom& random) {
  const double where = random.uniform();
  if (where < 0.30) return Region::kUnitedStates;
  if (where < 0.53) return Region::kUnitedKingdom;
  if (where < 0.80) return Region::kMalaysia;
  if (where < 0.93) return Region::kSingapore;
  return Region::kEurope;
}

std::string date_text(PageRandom& random, Region region, int form, bool upper) {
  return format_date(some_day(random), form, region, upper);
}

std::string format_amount(Cents amount, const MoneyStyle& style) {
  const Cents magnitude = amount < 0 ? -amount : amount;
  std::string units = fmt::format("{}", magnitude / 100);
  if (style.group_thousands) {
    for (std::size_t i = units.size(); i > 3;) {
      i -= 3;
      units.insert(i, 1, style.comma_decimal ? '.' : ',');
    }
  }
  return fmt::format("{}{}{}{:02}", amount < 0 ? "-" : "", units, style.comma_decimal ? ',' : '.', magnitude % 100);
}

std::string format_rate(int rate_hundredths) {
  if (rate_hundredths % 100 == 0) return fmt::format("{}%", rate_hundredths / 100);
  return fmt::format("{}.{:02}%", rate_hundredths / 100, rate_hundredths % 100);
}

PageFacts make_facts(std::uint64_t seed, std::uint64_t page) {
  PageRandom random(seed, page, RandomPurpose::kFacts);
  PageFacts facts;
  facts.kind = pick_kind(random);
  facts.region = pick_region(random);
  facts.company_lines = company_name(random, facts.kind, facts.region);
  facts.address_lines = street_address(random, facts.region);
  facts.upper_case = random.chance(0.22);
  if (facts.upper_case || random.chance(0.2)) {
    for (std::string& line : facts.company_lines) line = to_upper(line);
  }
  if (facts.upper_case) {
    for (std::string& line : facts.address_lines) line = to_upper(line);
  }

  const CalendarDay day = some_day(random);
  const int form = random.between(0, kDateForms - 1);
  facts.date = format_date(day, form, facts.region, facts.upper_case);
  facts.later_date = format_date(add_days(day, random.between(7, 60)), form, facts.region, facts.upper_case);
  facts.earlier_date = format_date(add_days(day, -random.between(1, 30)), form, facts.region, facts.upper_case);
  const int hour = random.between(7, 22), minute = random.between(0, 59);
  if (random.chance(0.3)) {
    facts.time = fmt::format("{}:{:02} {}", (hour + 11) % 12 + 1, minute, hour < 12 ? "AM" : "PM");
  } else {
    facts.time = fmt::format("{:02}:{:02}", hour, minute);
  }

  facts.phone = phone_number(random, facts.region);
  facts.registration = registration_number(random, facts.region);
  if (random.chance(0.15)) facts.branch = fmt::format("{} Branch", surname(random));
  constexpr auto kPrefixes = std::to_array<std::string_view>({"INV-", "CS", "R", "A", "TD0", "#", "#", "No."});
  const std::string_view prefix = random.pick(kPrefixes);
  facts.document_number = fmt::format("{}{}", prefix, random.between(10000, 9999999));
  facts.person = person_name(random);
  facts.customer = company_name(random, PageKind::kInvoice, facts.region).front();
  facts.customer_address_lines = street_address(random, facts.region);

  set_region_money(facts, random);
  add_lines(facts, random);
  settle(facts, random);
  return facts;
}

}  // namespace plimsoll::draw
