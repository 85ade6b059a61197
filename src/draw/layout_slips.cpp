// Narrow slips of one column: till receipt, restaurant bill, fuel receipt, parking or taxi ticket.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "draw/layouts.h"
#include "draw/names.h"

namespace plimsoll::draw {
namespace {

// The style of one slip: its paper, type and separators.
struct SlipStyle {
  double width, margin;
  Style body;
  double leading;
  Align header;
  Separator separator;
  CaptionTaste caption;
};

SlipStyle pick_slip_style(const PageFacts& facts, PageRandom& random) {
  SlipStyle style{};
  style.width = random.between(0, 2) * 40.0 + 400;
  style.margin = random.between(2, 3) * 12.0;
  style.body.family = pick_family(random, true);
  const bool mono =
      style.body.family == FontFamily::kLiberationMono || style.body.family == FontFamily::kDejaVuSansMono;
  style.body.size = random.between(28, 34) * 0.5 * style.width / 430;
  style.body.stretch = mono ? random.uniform(0.82, 0.98) : random.uniform(0.9, 1.05);
  style.body.bold = random.chance(0.12);
  style.leading = random.between(0, 2) * 0.1 + 1.25;
  style.header = random.chance(0.8) ? Align::kCenter : Align::kLeft;
  constexpr std::array<Separator, 7> kSeparators = {Separator::kDashes, Separator::kDashes, Separator::kStars,
                                                    Separator::kEquals, Separator::kRule,   Separator::kDashedRule,
                                                    Separator::kGap};
  style.separator = random.pick(kSeparators);
  style.caption = pick_caption_taste(facts, random);
  return style;
}

Column make_column(Sheet& sheet, const SlipStyle& style) {
  return Column(sheet, {.left = style.margin,
                        .right = style.width - style.margin,
                        .y = 32,
                        .style = style.body,
                        .leading = style.leading});
}

void put_company(Column& column, const PageFacts& facts, const SlipStyle& style, PageRandom& random) {
  const Style name = style.body.with_bold(random.chance(0.7)).with_size(style.body.size * random.uniform(1.1, 1.6));
  for (const std::string& line : facts.company_lines) column.line({{line, Field::kCompany}}, style.header, name);
}

void put_address(Column& column, const PageFacts& facts, const SlipStyle& style) {
  for (const std::string& line : facts.address_lines) column.line({{line, Field::kAddress}}, style.header);
}

// Puts logo, company, registration, address and telephone, in the vendor's own order.
void put_header(Sheet& sheet, Column& column, const PageFacts& facts, const SlipStyle& style, PageRandom& random) {
  if (random.chance(0.15)) {
    const double size = random.uniform(30, 52);
    column.skip_pixels(size * 0.6);
    draw_logo(sheet, style.width / 2, column.y(), size, random);
    column.skip_pixels(size * 0.8);
  }
  constexpr auto kBanners = std::to_array<std::string_view>(
      {"Welcome to", "Customer copy", "Tax invoice", "*** Reprint ***", "Thank you for visiting"});
  if (random.chance(0.02)) column.line({{style.caption.plain(pick(random, kBanners))}}, style.header);
  put_company(column, facts, style, random);
  put_address(column, facts, style);
  constexpr auto kPhones = std::to_array<std::string_view>({"Tel", "Phone", "Tel No", "Ph"});
  column.line({{style.caption.plain(pick(random, kPhones)) + ":"}, {facts.phone}}, style.header);
  if (random.chance(0.5)) column.line({{facts.registration}}, style.header);
  if (!facts.branch.empty()) column.line({{facts.branch}}, style.header);
}

void put_title(Column& column, const SlipStyle& style, PageRandom& random) {
  constexpr auto kTitles = std::to_array<std::string_view>(
      {"Receipt", "Tax invoice", "Cash bill", "Simplified tax invoice", "Sales receipt", "Official receipt"});
  if (!random.chance(0.6)) return;
  column.skip(0.4);
  column.line({{style.caption.plain(pick(random, kTitles))}}, Align::kCenter, style.body.with_bold());
}

// Puts document number, date and time, and who served, in one of four arrangements.
void put_document_lines(Column& column, const PageFacts& facts, const SlipStyle& style, const std::string& who,
                        PageRandom& random) {
  constexpr auto kNumbers =
      std::to_array<std::string_view>({"Receipt no", "Bill no", "Invoice no", "Doc no", "Trans", "Ref"});
  const CaptionTaste& caption = style.caption;
  const std::string number = caption(pick(random, kNumbers));
  const Run date{facts.date, Field::kDate};
  // The last two leave the date without its caption.
  switch (random.below(8)) {
    case 0:
    case 1:
      column.line({{number}, {facts.document_number}});
      column.line({{caption("Date")}, date, {facts.time}});
      column.line({{caption(who)}, {facts.person}});
      break;
    case 2:
    case 3:
      column.pair({{caption("Date")}, date}, {{caption("Time")}, {facts.time}});
      column.pair({{number}, {facts.document_number}}, {{facts.person}});
      break;
    case 6:
      column.pair({date}, {{facts.time}});
      column.pair({{number}, {facts.document_number}}, {{caption(who)}, {facts.person}});
      break;
    case 4:
    case 5: {
      const double value_x = column.left() + 0.38 * (column.right() - column.left());
      const auto row = [&](const std::string& name, const Runs& value) {
        column.cells({{column.left(), Align::kLeft, {{caption.plain(name)}}}, {value_x, Align::kLeft, value}});
      };
      row("Date", {{":"}, date});
      row("Time", {{":"}, {facts.time}});
      row(who, {{":"}, {facts.person}});
      row("No", {{":"}, {facts.document_number}});
      break;
    }
    default:
      column.line({date, {facts.time}, {facts.document_number}}, style.header);
      column.line({{caption(who)}, {facts.person}}, style.header);
      break;
  }
}

enum class ItemForm { kTwoLines, kQuantityFirst, kTable, kNameAndAmount };

void put_items(Column& column, const PageFacts& facts, const SlipStyle& style, PageRandom& random) {
  const double width = column.right() - column.left();
  const Style& body = style.body;
  const auto form = static_cast<ItemForm>(random.below(4));
  const bool header = random.chance(0.45);
  const double quantity_x = column.left() + 0.62 * width, unit_x = column.left() + 0.80 * width;
  const auto money = [&](Cents amount) { return format_amount(amount, facts.money); };
  if (header) {
    const CaptionTaste& caption = style.caption;
    if (form == ItemForm::kTable) {
      column.cells({{column.left(), Align::kLeft, {{caption.plain("Item")}}},
                    {quantity_x, Align::kRight, {{caption.plain("Qty")}}},
                    {unit_x, Align::kRight, {{caption.plain("Price")}}},
                    {column.right(), Align::kRight, {{caption.plain("Amt")}}}});
    } else {
      column.pair({{caption.plain(form == ItemForm::kQuantityFirst ? "Qty Description" : "Description")}},
                  {{caption.plain("Amount")}});
    }
    column.separator(style.separator);
  }
  for (const SaleLine& line : facts.lines) {
    const std::string name = style.caption.plain(line.description);
    const std::string amount = money(line.amount);
    switch (form) {
      case ItemForm::kTwoLines: {
        column.line({{line.code}, {column.clip(name, 0.8 * width, body)}});
        const std::string detail =
            line.detail.empty() ? fmt::format("{} x {}", line.quantity, money(line.unit)) : line.detail;
        column.pair({{detail}}, {{amount}});
        break;
      }
      case ItemForm::kQuantityFirst:
        column.pair({{fmt::format("{}", line.quantity)}, {column.clip(name, 0.65 * width, body)}}, {{amount}});
        if (!line.detail.empty()) column.line({{line.detail}});
        break;
      case ItemForm::kTable:
        column.cells({{column.left(), Align::kLeft, {{column.clip(name, 0.5 * width, body)}}},
                      {quantity_x, Align::kRight, {{fmt::format("{}", line.quantity)}}},
                      {unit_x, Align::kRight, {{money(line.unit)}}},
                      {column.right(), Align::kRight, {{amount}}}});
        if (!line.detail.empty()) column.line({{line.detail}});
        break;
      case ItemForm::kNameAndAmount: {
        Runs left = {{column.clip(name, 0.6 * width, body)}};
        if (line.quantity > 1) left.push_back({fmt::format("x{}", line.quantity)});
        column.pair(left, {{amount}});
        if (!line.detail.empty()) column.line({{line.detail}});
        break;
      }
    }
  }
}

void put_totals(Column& column, const PageFacts& facts, const SlipStyle& style, PageRandom& random) {
  const Style total = style.body.with_bold(random.chance(0.8)).with_size(style.body.size * random.uniform(1.15, 1.45));
  const bool rule_before = random.chance(0.3), rule_after = random.chance(0.3), indented = random.chance(0.25);
  // On some slips the sums are in the right part.
  const double left = column.left() + (indented ? 0.25 * (column.right() - column.left()) : 0);
  for (const TotalRow& row : total_rows(facts, random)) {
    const bool is_total = row.kind == TotalRowKind::kTotal;
    if (is_total && rule_before) column.separator(style.separator);
    column.pair_from(left, {{style.caption(row.caption)}}, row.amount, is_total ? total : style.body);
    if (is_total && rule_after) column.separator(style.separator);
  }
}

void put_footer(Sheet& sheet, Column& column, const PageFacts& facts, const SlipStyle& style, PageRandom& random) {
  constexpr auto kThanks = std::to_array<std::string_view>(
      {"Thank you", "Thank you, please come again", "Have a nice day", "Thank you for your visit", "See you soon"});
  constexpr auto kPolicies = std::to_array<std::string_view>(
      {"Goods sold are not returnable", "Please keep this receipt", "Exchange within 7 days with receipt",
       "No refund on sale items", "Prices include all taxes"});
  column.separator(style.separator);
  if (random.chance(0.06)) column.line({{style.caption("Valid until")}, {facts.later_date}}, style.header);
  const bool ticket = facts.kind == PageKind::kParking || facts.kind == PageKind::kTaxi;
  if (!ticket && random.chance(0.4)) column.line({{style.caption.plain(pick(random, kPolicies))}}, Align::kCenter);
  if (random.chance(0.85)) column.line({{style.caption.plain(pick(random, kThanks))}}, Align::kCenter);
  if (random.chance(0.25)) {
    const double width = random.uniform(0.45, 0.75) * (column.right() - column.left()), height = random.uniform(28, 46);
    column.skip_pixels(8);
    draw_barcode(sheet, (style.width - width) / 2, column.y(), width, height, random);
    column.skip_pixels(height + 6);
  }
  // Scanned slips have one of a few paper lengths.
  const double used = column.y() + 24;
  sheet.set_height(used <= 600 ? 600 : used <= 800 ? 800 : std::max(used, 1000.0));
}

}  // namespace

Sheet lay_out_till(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
  const SlipStyle style = pick_slip_style(facts, random);
  Sheet sheet(fonts, style.width);
  Column column = make_column(sheet, style);
  put_header(sheet, column, facts, style, random);
  put_title(column, style, random);
  column.separator(style.separator);
  // Some tills print the date at the very end.
  const bool date_last = random.chance(0.03);
  if (!date_last) {
    put_document_lines(column, facts, style, "Cashier", random);
    column.separator(style.separator);
  }
  put_items(column, facts, style, random);
  column.separator(style.separator);
  put_totals(column, facts, style, random);
  if (date_last) {
    column.separator(style.separator);
    put_document_lines(column, facts, style, "Cashier", random);
  }
  put_footer(sheet, column, facts, style, random);
  return sheet;
}

Sheet lay_out_restaurant(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
  SlipStyle style = pick_slip_style(facts, random);
  if (random.chance(0.4)) style.body.family = pick_family(random, false);
  Sheet sheet(fonts, style.width);
  Column column = make_column(sheet, style);
  put_header(sheet, column, facts, style, random);
  constexpr auto kTitles =
      std::to_array<std::string_view>({"Guest check", "Dine in", "Take away", "Bill", "Table order"});
  if (random.chance(0.6)) {
    column.skip(0.4);
    column.line({{style.caption.plain(pick(random, kTitles))}}, Align::kCenter,
                style.body.with_bold().with_size(style.body.size * 1.15));
  }
  column.separator(style.separator);
  put_document_lines(column, facts, style, random.chance(0.5) ? "Server" : "Waiter", random);
  const Runs table = {{style.caption("Table")}, {fmt::format("{}", random.between(1, 48))}};
  const Runs guests = {{style.caption(random.chance(0.5) ? "Guests" : "Pax")},
                       {fmt::format("{}", random.between(1, 9))}};
  column.pair(table, guests);
  column.separator(style.separator);
  put_items(column, facts, style, random);
  column.separator(style.separator);
  put_totals(column, facts, style, random);
  if (random.chance(0.3)) {
    column.skip(0.6);
    const std::string tip = style.caption("Tip");
    const double line_y = column.y() + 0.95 * style.body.size;
    sheet.rule(column.left() + 0.4 * (column.right() - column.left()), line_y, column.right(), line_y, 1);
    column.line({{tip}});
  }
  put_footer(sheet, column, facts, style, random);
  return sheet;
}

Sheet lay_out_fuel(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
  const SlipStyle style = pick_slip_style(facts, random);
  Sheet sheet(fonts, style.width);
  Column column = make_column(sheet, style);
  put_header(sheet, column, facts, style, random);
  put_title(column, style, random);
  column.separator(style.separator);
  put_document_lines(column, facts, style, "Attendant", random);
  const Runs pump = {{style.caption("Pump")}, {fmt::format("{:02}", random.between(1, 16))}};
  const Runs terminal = {{style.caption("Terminal")}, {fmt::format("{}", random.between(1000, 9999))}};
  column.pair(pump, terminal);
  column.separator(style.separator);
  put_items(column, facts, style, random);
  column.separator(style.separator);
  put_totals(column, facts, style, random);
  if (!facts.pays_cash) {
    column.separator(style.separator);
    column.pair({{style.caption("Auth code")}, {fmt::format("{:06}", random.between(0, 999999))}},
                {{style.caption.plain("Approved")}});
    column.line({{style.caption("Merchant id")}, {fmt::format("{}", random.between(10000000, 99999999))}});
  }
  if (random.chance(0.5)) {
    column.line({{style.caption("Odometer")}, {fmt::format("{} km", random.between(2000, 240000))}});
  }
  put_footer(sheet, column, facts, style, random);
  return sheet;
}

Sheet lay_out_ticket(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
  SlipStyle style = pick_slip_style(facts, random);
  style.body.size *= 1.1;
  Sheet sheet(fonts, style.width);
  Column column = make_column(sheet, style);
  constexpr auto kParkingTitles =
      std::to_array<std::string_view>({"Parking ticket", "Exit ticket", "Parking receipt", "Payment ticket"});
  constexpr auto kTaxiTitles =
      std::to_array<std::string_view>({"Taxi receipt", "Fare receipt", "Travel receipt", "Passenger receipt"});
  const bool taxi = facts.kind == PageKind::kTaxi;
  const std::string title = style.caption.plain(taxi ? pick(random, kTaxiTitles) : pick(random, kParkingTitles));
  const bool title_first = random.chance(0.03), barred = random.chance(0.4);
  const auto put_ticket_title = [&] {
    Style bold = style.body.with_bold().with_size(style.body.size * 1.2);
    column.skip(0.3);
    if (barred) {
      sheet.fill(column.left(), column.y() - 3, column.right(), column.y() + 1.4 * bold.size, 1);
      bold = bold.with_inverted();
    }
    column.line({{title}}, Align::kCenter, bold);
    column.skip(0.4);
  };
  if (title_first) put_ticket_title();
  put_header(sheet, column, facts, style, random);
  if (!title_first) put_ticket_title();

  const CaptionTaste& caption = style.caption;
  const bool two_columns = random.chance(0.5);
  const auto field = [&](const std::string& name, const Runs& value) {
    if (two_columns) {
      column.pair({{caption(name)}}, value);
    } else {
      Runs runs = {{caption(name)}};
      runs.insert(runs.end(), value.begin(), value.end());
      column.line(runs);
    }
  };
  constexpr auto kLetters = std::to_array<std::string_view>({"AB", "WXY", "JKL", "BRT", "SGX", "PLT"});
  field("Ticket no", {{facts.document_number}});
  field("Date", {{facts.date, Field::kDate}});
  field(random.chance(0.5) ? "Exit" : "End", {{facts.time}});
  if (!taxi && random.chance(0.12)) {
    const int hour = random.between(0, 23), minute = random.between(0, 59);
    field("Entry", {{facts.earlier_date}, {fmt::format("{:02}:{:02}", hour, minute)}});
  }
  const std::string letters = pick(random, kLetters);
  field("Plate", {{letters}, {fmt::format("{}", random.between(100, 9999))}});
  if (taxi && random.chance(0.7)) field("Driver", {{facts.person}});
  if (taxi) {
    const int kilometres = random.between(1, 48), tenths = random.between(0, 9);
    field("Distance", {{fmt::format("{}.{} km", kilometres, tenths)}});
  } else {
    const int hours = random.between(0, 11), minutes = random.between(0, 59);
    field("Duration", {{fmt::format("{}h {:02}m", hours, minutes)}});
  }
  column.separator(style.separator);
  for (const SaleLine& line : facts.lines) {
    column.pair({{caption.plain(line.description)}}, amount_runs(line.amount, facts, false, Field::kNone));
  }
  put_totals(column, facts, style, random);
  put_footer(sheet, column, facts, style, random);
  return sheet;
}

}  // namespace plimsoll::draw
