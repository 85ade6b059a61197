// Parts that several layouts share: sums, captions, logos, bar codes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "draw/layouts.h"
#include "draw/names.h"

namespace plimsoll::draw {
namespace {

std::string total_caption(const PageFacts& facts, PageRandom& random) {
  constexpr auto kCaptions =
      std::to_array<std::string_view>({"Total", "Total", "Total", "Grand total", "Total due", "Total amount"});
  if (random.chance(0.06)) return fmt::format("Total incl. {}", facts.tax_name);
  return pick(random, kCaptions);
}

std::string subtotal_caption(const PageFacts& facts, PageRandom& random) {
  constexpr auto kCaptions =
      std::to_array<std::string_view>({"Subtotal", "Sub total", "Sub-total", "Subtotal", "Sale amount", "Net"});
  if (!facts.tax_included && random.chance(0.08)) return fmt::format("Total excl. {}", facts.tax_name);
  return pick(random, kCaptions);
}

std::string tax_caption(const PageFacts& facts, PageRandom& random) {
  const std::string rate = format_rate(facts.tax_rate_hundredths);
  if (facts.tax_included) {
    return random.chance(0.5) ? fmt::format("Incl. {} {}", facts.tax_name, rate)
                              : fmt::format("{} {} included", facts.tax_name, rate);
  }
  switch (random.below(3)) {
    case 0:
      return fmt::format("{} {}", facts.tax_name, rate);
    case 1:
      return fmt::format("{} @ {}", facts.tax_name, rate);
    default:
      return fmt::format("Add {} {}", facts.tax_name, rate);
  }
}

}  // namespace

Runs amount_runs(Cents amount, const PageFacts& facts, bool with_currency, Field field) {
  const std::string number = format_amount(amount, facts.money);
  if (!with_currency) return {{number, field}};
  if (facts.money.currency_attached) return {{facts.money.currency + number, field}};
  if (facts.money.comma_decimal) return {{number, field}, {facts.money.currency, Field::kNone}};
  return {{facts.money.currency, Field::kNone}, {number, field}};
}

std::vector<TotalRow> total_rows(const PageFacts& facts, PageRandom& random) {
  const bool currency_everywhere = random.chance(0.2);
  const bool currency_at_total = currency_everywhere || random.chance(0.45);
  const auto plain = [&](std::string caption, Cents amount) {
    return TotalRow{std::move(caption), amount_runs(amount, facts, currency_everywhere, Field::kNone)};
  };
  std::vector<TotalRow> rows;
  if (random.chance(0.12)) {
    int pieces = 0;
    for (const SaleLine& line : facts.lines) pieces += line.quantity;
    rows.push_back({random.chance(0.5) ? "Total qty" : "Items", {{fmt::format("{}", pieces)}}});
  }
  const bool adjusted = facts.discount != 0 || facts.service != 0 || facts.rounding != 0 || !facts.tax_included;
  if (adjusted || random.chance(0.4)) rows.push_back(plain(subtotal_caption(facts, random), facts.subtotal));
  if (facts.discount != 0) {
    rows.push_back(plain(random.chance(0.5) ? "Discount" : "Less discount", -facts.discount));
  }
  if (facts.service != 0) {
    rows.push_back(plain(random.chance(0.5) ? "Service charge 10%" : "Svc chg 10%", facts.service));
  }
  const TotalRow tax = plain(tax_caption(facts, random), facts.tax);
  // A tax that is already included is often printed only after the total.
  const bool tax_after = facts.tax_included && random.chance(0.55);
  if (!tax_after) rows.push_back(tax);
  if (facts.rounding != 0 || (facts.region == Region::kMalaysia && random.chance(0.3))) {
    rows.push_back(plain(random.chance(0.5) ? "Rounding" : "Rounding adj", facts.rounding));
  }
  rows.push_back({total_caption(facts, random), amount_runs(facts.total, facts, currency_at_total, Field::kTotal),
                  TotalRowKind::kTotal});

  std::vector<TotalRow> after;
  if (tax_after) after.push_back(tax);
  const bool slip = facts.kind != PageKind::kInvoice && facts.kind != PageKind::kForm;
  if (slip && facts.pays_cash) {
    constexpr auto kCash = std::to_array<std::string_view>({"Cash", "Cash", "Cash tendered", "Tendered", "Paid cash"});
    after.push_back(plain(pick(random, kCash), facts.paid));
    after.push_back(plain(random.chance(0.7) ? "Change" : "Change due", facts.change));
    after.back().kind = after[after.size() - 2].kind = TotalRowKind::kPayment;
  } else if (slip && random.chance(0.7)) {
    constexpr auto kCards = std::to_array<std::string_view>({"Visa", "Mastercard", "Debit card", "Card", "Amex"});
    const std::string card = pick(random, kCards);
    after.push_back(plain(fmt::format("{} ***{:04}", card, random.between(0, 9999)), facts.total));
    after.back().kind = TotalRowKind::kPayment;
  }
  if (after.size() > 1 && tax_after && random.chance(0.5)) std::rotate(after.begin(), after.begin() + 1, after.end());
  rows.insert(rows.end(), after.begin(), after.end());
  return rows;
}

std::string CaptionTaste::plain(const std::string& caption) const { return upper ? to_upper(caption) : caption; }
std::string CaptionTaste::operator()(const std::string& caption) const { return plain(caption) + colon; }

CaptionTaste pick_caption_taste(const PageFacts& facts, PageRandom& random) {
  constexpr auto kColons = std::to_array<std::string_view>({"", "", ":", ":", " :"});
  return {.upper = facts.upper_case, .colon = pick(random, kColons)};
}

FontFamily pick_family(PageRandom& random, bool till) {
  const double choice = random.uniform();
  if (till) {
    if (choice < 0.35) return FontFamily::kLiberationMono;
    if (choice < 0.60) return FontFamily::kDejaVuSansMono;
    if (choice < 0.78) return FontFamily::kLiberationSans;
    if (choice < 0.94) return FontFamily::kDejaVuSans;
    return FontFamily::kLiberationSerif;
  }
  if (choice < 0.35) return FontFamily::kLiberationSans;
  if (choice < 0.55) return FontFamily::kLiberationSerif;
  if (choice < 0.80) return FontFamily::kDejaVuSans;
  if (choice < 0.95) return FontFamily::kDejaVuSerif;
  return FontFamily::kLiberationMono;
}

void draw_logo(Sheet& sheet, double x, double y, double size, PageRandom& random) {
  const double half = size / 2, ink = random.uniform(0.55, 1.0);
  switch (random.below(4)) {
    case 0:
      sheet.disc(x, y, half, ink);
      sheet.frame(x - half * 1.15, y - half * 1.15, x + half * 1.15, y + half * 1.15, 2);
      break;
    case 1:
      for (int i = 0; i < 4; ++i) {
        const double bottom = y + half, left = x - half + i * size / 4;
        sheet.fill(left, bottom - size * (0.35 + 0.2 * i), left + size / 5, bottom, ink);
      }
      break;
    case 2:
      sheet.disc(x - half * 0.5, y, half * 0.8, 0.45 * ink);
      sheet.disc(x + half * 0.5, y, half * 0.8, 0.8 * ink);
      break;
    default:
      sheet.fill(x - half, y - half * 0.6, x + half, y + half * 0.6, ink);
      sheet.curve({x - half, y + half, x - half * 0.3, y + half * 0.6, x + half * 0.3, y + half * 1.3, x + half,
                   y + half * 0.8},
                  2.5);
      break;
  }
}

void draw_barcode(Sheet& sheet, double x, double y, double width, double height, PageRandom& random) {
  for (double at = x; at < x + width;) {
    const double bar = random.between(1, 3);
    sheet.fill(at, y, std::min(at + bar, x + width), y + height);
    at += bar + random.between(1, 3);
  }
}

void draw_signature(Sheet& sheet, double x, double y, double width, PageRandom& random) {
  std::vector<double> points = {x, y};
  const int strokes = random.between(4, 7);
  const double step = width / strokes;
  for (int i = 0; i < strokes; ++i) {
    const double start = x + i * step;
    points.insert(points.end(), {start + random.uniform(-0.3, 0.9) * step, y - random.uniform(2, 22),
                                 start + random.uniform(0.1, 1.4) * step, y + random.uniform(0, 9), start + step,
                                 y + random.uniform(-5, 3)});
  }
  sheet.curve(std::move(points), random.uniform(1.1, 1.9));
}

Sheet lay_out(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
  switch (facts.kind) {
    case PageKind::kTill:
      return lay_out_till(fonts, facts, random);
    case PageKind::kRestaurant:
      return lay_out_restaurant(fonts, facts, random);
    case PageKind::kFuel:
      return lay_out_fuel(fonts, facts, random);
    case PageKind::kParking:
    case PageKind::kTaxi:
      return lay_out_ticket(fonts, facts, random);
    case PageKind::kInvoice:
      return lay_out_invoice(fonts, facts, random);
    case PageKind::kForm:
      return lay_out_form(fonts, facts, random);
  }
  return lay_out_till(fonts, facts, random);
}

}  // namespace plimsoll::draw
