// The facts of a drawn page, before anything is laid out: who sold what, where, when, and for how much.
//
// Invariants: every amount is a whole number of cents, and the amounts are consistent:
//   line.amount = line.quantity * line.unit            for every line
//   subtotal    = sum of line amounts
//   total       = subtotal - discount + service + (tax_included ? 0 : tax) + rounding
//   paid        = total + change
// so a model's output (or a test) can be checked against them.
//
//   const PageFacts facts = make_facts(seed, page_index);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draw/random.h"

namespace plimsoll::draw {

enum class PageKind { kTill, kRestaurant, kFuel, kParking, kTaxi, kInvoice, kForm };
enum class Region { kUnitedStates, kUnitedKingdom, kMalaysia, kSingapore, kEurope };

using Cents = std::int64_t;

// How a page writes amounts, "1,234.50", "1234.50" or "1.234,50", and how it writes its currency.
struct MoneyStyle {
  std::string currency{};          // "$", "RM", "GBP", ...
  bool currency_attached = false;  // "$12.40" rather than "RM 12.40"
  bool comma_decimal = false;
  bool group_thousands = true;
};

// Formats the bare number: "1,234.50", "-0.02".
std::string format_amount(Cents amount, const MoneyStyle& style);

struct SaleLine {
  std::string code{};  // article number; empty if the vendor has none
  std::string description{};
  std::string detail{};  // replaces "quantity x unit", e.g. "32.41 L @ 1.459"
  int quantity = 1;
  Cents unit = 0;
  Cents amount = 0;
};

struct PageFacts {
  PageKind kind = PageKind::kTill;
  Region region = Region::kUnitedStates;
  bool upper_case = false;                   // the printer has no lower-case letters
  std::vector<std::string> company_lines{};  // one or two printed lines, one entity
  std::vector<std::string> address_lines{};  // one to four printed lines, one entity
  std::string date{};                        // one to three words, one entity
  std::string time{};
  std::string phone{};
  std::string registration{};  // caption and number
  std::string branch{};        // may be empty
  std::string document_number{};
  std::string person{};  // cashier, server, driver, claimant
  // Distractors: a customer, and dates that are not the page's own.
  std::string customer{};
  std::vector<std::string> customer_address_lines{};
  std::string later_date{};
  std::string earlier_date{};

  MoneyStyle money{};
  std::string tax_name{};
  int tax_rate_hundredths = 0;  // in hundredths of a percent: 625 is 6.25 %
  bool tax_included = false;
  std::vector<SaleLine> lines{};
  Cents subtotal = 0, discount = 0, service = 0, tax = 0, rounding = 0, total = 0;
  bool pays_cash = false;
  Cents paid = 0, change = 0;
};

Region pick_region(PageRandom& random);

// Returns a day of 2012 to 2025, written in a form from 0 to kDateForms - 1.
inline constexpr int kDateForms = 10;
std::string date_text(PageRandom& random, Region region, int form, bool upper);

PageFacts make_facts(std::uint64_t seed, std::uint64_t page);

// Formats the shortest exact form: "6%", "6.25%".
std::string format_rate(int rate_hundredths);

}  // namespace plimsoll::draw
