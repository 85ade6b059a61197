// Wide sheets with blocks side by side: invoice and form.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "draw/layouts.h"
#include "draw/names.h"

namespace plimsoll::draw {
namespace {

// The page is A4, or longer if the text needs it.
constexpr double kSheetWidth = 640, kSheetHeight = 905;

struct TableStyle {
  Style body, head;
  CaptionTaste caption;
  bool grid, filled_head;
  double row_gap;
};

TableStyle pick_table_style(const Style& body, const CaptionTaste& caption, PageRandom& random) {
  TableStyle style{body, body.with_bold(), caption, random.chance(0.35), false, random.uniform(2, 9)};
  style.filled_head = random.chance(0.4);
  if (style.filled_head) style.head = style.head.with_inverted();
  return style;
}

// Puts the lines sold: description, quantity, unit price, amount. Returns the y below the table.
double put_table(Sheet& sheet, const PageFacts& facts, double left, double right, double y, const TableStyle& style,
                 PageRandom& random) {
  const double width = right - left, pad = 7;
  const std::array<double, 4> ends = {left + 0.52 * width, left + 0.64 * width, left + 0.82 * width, right};
  const double row_height = style.body.size * 1.35 + style.row_gap;
  const auto baseline = [&](double top) { return top + (row_height + 0.72 * style.body.size) / 2; };
  const auto row = [&](double top, const std::array<std::string, 4>& texts, const Style& text_style) {
    sheet.text(left + pad, baseline(top), {{texts[0]}}, text_style);
    for (std::size_t i = 1; i < 4; ++i)
      sheet.text(ends[i] - pad, baseline(top), {{texts[i]}}, text_style, Align::kRight);
  };
  constexpr auto kFirst = std::to_array<std::string_view>({"Description", "Item", "Particulars", "Service"});
  constexpr auto kUnit = std::to_array<std::string_view>({"Unit price", "Price", "Rate", "Each"});
  const double top = y;
  if (style.filled_head) {
    sheet.fill(left, y, right, y + row_height);
  } else {
    sheet.rule(left, y, right, y, 1.2);
    sheet.rule(left, y + row_height, right, y + row_height, 1.2);
  }
  row(y,
      {style.caption.plain(pick(random, kFirst)), style.caption.plain("Qty"), style.caption.plain(pick(random, kUnit)),
       style.caption.plain("Amount")},
      style.head);
  y += row_height;
  const Column clipper(sheet, {});
  for (const SaleLine& line : facts.lines) {
    row(y,
        {clipper.clip(line.description, 0.5 * width - 2 * pad, style.body), fmt::format("{}", line.quantity),
         format_amount(line.unit, facts.money), format_amount(line.amount, facts.money)},
        style.body);
    y += row_height;
    if (style.grid) sheet.rule(left, y, right, y, 0.8);
  }
  if (!style.grid) sheet.rule(left, y, right, y, 1.2);
  if (style.grid) {
    sheet.rule(left, top, left, y, 0.8);
    for (const double end : ends) sheet.rule(end, top, end, y, 0.8);
  }
  return y;
}

// Puts the sums, right-aligned below the table's amounts. Returns the y below them.
double put_sums(Sheet& sheet, const PageFacts& facts, double left, double right, double y, const Style& body,
                const CaptionTaste& caption, PageRandom& random) {
  const bool framed = random.chance(0.3);
  const Style bold = body.with_bold().with_size(body.size * random.uniform(1.2, 1.45));
  Column column(sheet, {.left = left, .right = right - 7, .y = y, .style = body, .leading = random.uniform(1.4, 1.7)});
  for (const TotalRow& row : total_rows(facts, random)) {
    const bool is_total = row.kind == TotalRowKind::kTotal;
    const double top = column.y();
    if (is_total && !framed) sheet.rule(left, top + 1, right, top + 1, 1.2);
    if (is_total) column.skip_pixels(5);
    column.pair({{caption(row.caption)}}, row.amount, is_total ? bold : body);
    if (is_total && framed) sheet.frame(left - 8, top + 1, right, column.y() - 1, 1.2);
    if (is_total) column.skip_pixels(3);
  }
  return column.y();
}

}  // namespace

Sheet lay_out_invoice(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
  const double width = kSheetWidth, margin = random.between(2, 3) * 18.0;
  const double left = margin, right = width - margin, middle = left + (right - left) * random.uniform(0.5, 0.56);
  Style body;
  body.family = pick_family(random, false);
  body.size = random.between(23, 26) * 0.5;
  const CaptionTaste caption = pick_caption_taste(facts, random);
  const double leading = random.uniform(1.28, 1.5);
  Sheet sheet(fonts, width);
  double y = 40;

  // The seller is at the left, at the right, or in the middle above everything.
  enum class SellerPlace { kLeft, kRight, kTop };
  const auto place = static_cast<SellerPlace>(random.below(4) % 3);
  constexpr auto kTitles =
      std::to_array<std::string_view>({"Invoice", "Tax invoice", "INVOICE", "Bill", "Sales invoice"});
  const std::string title = caption.plain(pick(random, kTitles));
  const Style title_style = body.with_bold().with_size(body.size * random.uniform(1.7, 2.3));
  const Style name_style = body.with_bold().with_size(body.size * random.uniform(1.2, 1.6));

  const auto put_seller = [&](Column& column, Align align) {
    for (const std::string& line : facts.company_lines) column.line({{line, Field::kCompany}}, align, name_style);
    for (const std::string& line : facts.address_lines) column.line({{line, Field::kAddress}}, align);
    column.line({{random.chance(0.5) ? "Tel:" : "Phone:"}, {facts.phone}}, align);
    if (random.chance(0.5)) column.line({{facts.registration}}, align);
  };
  constexpr auto kNumbers = std::to_array<std::string_view>({"Invoice no", "Invoice #", "Number", "Document no"});
  constexpr auto kDates = std::to_array<std::string_view>({"Invoice date", "Date", "Date"});
  constexpr auto kDues = std::to_array<std::string_view>({"Due date", "Payment due", "Due"});
  struct Detail {
    std::string name;
    Run value;
  };
  std::vector<Detail> details = {{pick(random, kNumbers), {facts.document_number}},
                                 {pick(random, kDates), {facts.date, Field::kDate}}};
  if (random.chance(0.2)) details.push_back({pick(random, kDues), {facts.later_date}});
  if (random.chance(0.06)) details.push_back({"Order date", {facts.earlier_date}});
  if (random.chance(0.4)) details.push_back({"Customer no", {fmt::format("{}", random.between(1000, 99999))}});
  if (random.chance(0.15)) std::swap(details[0], details[1]);
  const double name_share = random.uniform(0.42, 0.5);
  const auto put_details = [&](Column& column) {
    const double value_x = column.left() + name_share * (column.right() - column.left());
    for (const Detail& detail : details) {
      column.cells({{column.left(), Align::kLeft, {{caption(detail.name)}}}, {value_x, Align::kLeft, {detail.value}}});
    }
  };
  const auto block = [&](double x0, double x1) {
    return Column(sheet, {.left = x0, .right = x1, .y = y, .style = body, .leading = leading});
  };

  if (place == SellerPlace::kTop) {
    Column top = block(left, right);
    if (random.chance(0.3)) {
      draw_logo(sheet, width / 2, y + 18, 40, random);
      top.skip_pixels(50);
    }
    put_seller(top, Align::kCenter);
    top.skip(0.5);
    top.line({{title}}, random.chance(0.5) ? Align::kCenter : Align::kLeft, title_style);
    y = top.y() + 12;
  } else {
    Column seller = place == SellerPlace::kLeft ? block(left, middle - 14) : block(middle, right);
    Column other = place == SellerPlace::kLeft ? block(middle, right) : block(left, middle - 14);
    put_seller(seller, Align::kLeft);
    other.line({{title}}, place == SellerPlace::kLeft && random.chance(0.4) ? Align::kRight : Align::kLeft,
               title_style);
    other.skip(0.4);
    if (place == SellerPlace::kLeft) put_details(other);
    y = std::max(seller.y(), other.y()) + 16;
  }

  // The recipient of the invoice: a company and an address that are not the seller's.
  constexpr auto kCustomers = std::to_array<std::string_view>({"Bill to", "Sold to", "Customer", "Invoice to"});
  Column customer = block(left, middle - 14);
  customer.line({{caption(pick(random, kCustomers))}}, Align::kLeft, body.with_bold());
  if (random.chance(0.3)) customer.line({{"Attn:"}, {facts.person}});
  customer.line({{facts.customer}});
  for (const std::string& line : facts.customer_address_lines) customer.line({{line}});
  double below = customer.y();
  if (place != SellerPlace::kLeft) {
    Column beside = block(middle, right);
    put_details(beside);
    below = std::max(below, beside.y());
  }
  y = below + random.uniform(14, 26);

  const TableStyle table = pick_table_style(body, caption, random);
  const double sums_left = left + (right - left) * random.uniform(0.52, 0.6);
  y = put_table(sheet, facts, left, right, y, table, random) + random.uniform(8, 18);
  y = put_sums(sheet, facts, sums_left, right, y, body, caption, random) + 14;

  Column footer = block(left, right);
  if (random.chance(0.6)) {
    footer.line({{caption("Bank")}, {fmt::format("{} Bank", surname(random))}});
    Runs account = {{caption("Account")}};
    for (int i = 0; i < 3; ++i) account.push_back({fmt::format("{:04}", random.between(0, 9999))});
    footer.line(account);
  }
  constexpr auto kTerms = std::to_array<std::string_view>(
      {"Payment due within 30 days", "Please quote the invoice number", "Thank you for your business",
       "Goods remain our property until paid", "All amounts in local currency"});
  footer.skip(0.4);
  footer.line({{pick(random, kTerms)}});
  if (random.chance(0.25)) {
    footer.skip(2);
    draw_signature(sheet, right - 150, footer.y(), 110, random);
    sheet.rule(right - 170, footer.y() + 12, right, footer.y() + 12, 1);
    footer.skip(1);
    footer.line({{caption.plain("Authorised signature")}}, Align::kRight);
  }
  sheet.set_height(std::max(footer.y() + 30, kSheetHeight));
  return sheet;
}

Sheet lay_out_form(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
  const double width = kSheetWidth, margin = random.between(2, 3) * 18.0;
  const double left = margin, right = width - margin, middle = (left + right) / 2;
  Style body;
  body.family = pick_family(random, false);
  body.size = random.between(23, 26) * 0.5;
  const CaptionTaste caption = pick_caption_taste(facts, random);
  Sheet sheet(fonts, width);
  double y = 40;

  constexpr auto kTitles =
      std::to_array<std::string_view>({"Expense claim", "Payment voucher", "Purchase record", "Petty cash voucher",
                                       "Reimbursement form", "Payment request"});
  {
    Column head(sheet, {.left = left, .right = right, .y = y, .style = body, .leading = 1.4});
    const std::string title = caption.plain(pick(random, kTitles));
    const Align align = random.chance(0.5) ? Align::kCenter : Align::kLeft;
    head.line({{title}}, align, body.with_bold().with_size(body.size * random.uniform(1.5, 2.0)));
    if (random.chance(0.3))
      head.line({{"Please complete in block letters"}}, Align::kCenter, body.with_size(body.size * 0.9));
    y = head.y() + 10;
  }

  constexpr auto kCompanies = std::to_array<std::string_view>({"Vendor", "Vendor", "Supplier", "Paid to"});
  constexpr auto kClaimants = std::to_array<std::string_view>({"Claimant", "Employee", "Requested by", "Name"});
  constexpr auto kNumbers = std::to_array<std::string_view>({"Form no", "Voucher no", "Claim no", "Reference"});
  constexpr auto kDates = std::to_array<std::string_view>({"Receipt date", "Date", "Date", "Purchase date"});
  constexpr auto kDepartments =
      std::to_array<std::string_view>({"Sales", "Operations", "Finance", "Human Resources", "IT"});
  struct Entry {
    std::string name;
    std::vector<Run> lines;
  };
  const auto as_lines = [](const std::vector<std::string>& texts, Field field) {
    std::vector<Run> lines;
    for (const std::string& text : texts) lines.push_back({text, field});
    return lines;
  };
  const Entry company{pick(random, kCompanies), as_lines(facts.company_lines, Field::kCompany)};
  const Entry address{"Address", as_lines(facts.address_lines, Field::kAddress)};
  const Entry date{pick(random, kDates), {{facts.date, Field::kDate}}};
  const Entry claimant{pick(random, kClaimants), {{facts.person}}};
  const Entry number{pick(random, kNumbers), {{facts.document_number}}};
  const Entry department{"Department", {{pick(random, kDepartments)}}};
  const Entry submitted{random.chance(0.5) ? "Submitted on" : "Approval date", {{facts.later_date}}};
  const Entry phone{"Phone", {{facts.phone}}};
  const std::array<std::array<std::vector<Entry>, 2>, 3> arrangements = {
      {{{{company, address, date}, {number, claimant, department}}},
       {{{company, address, phone}, {date, number, claimant, submitted}}},
       {{{company, address}, {number, date, department, claimant}}}}};
  const std::array<std::vector<Entry>, 2>& arrangement = random.pick(arrangements);

  // Two columns of fields: caption above a ruled value, or caption and value side by side, or framed cells.
  enum class FieldForm { kAbove, kBeside, kFramed };
  const auto form = static_cast<FieldForm>(random.below(3));
  const Style small = body.with_size(body.size * 0.86);
  const double line_height = body.size * 1.4;
  double bottom = y;
  for (std::size_t side = 0; side < 2; ++side) {
    const double x0 = side == 0 ? left : middle + 8, x1 = side == 0 ? middle - 8 : right;
    double top = y;
    for (const Entry& entry : arrangement[side]) {
      const double inset = form == FieldForm::kFramed ? 7 : 0;
      Column cell(
          sheet,
          {.left = x0 + inset, .right = x1 - inset, .y = top + (inset > 0 ? 4 : 0), .style = body, .leading = 1.4});
      if (form == FieldForm::kBeside) {
        const double value_x = x0 + 0.36 * (x1 - x0);
        Column names(sheet, {.left = x0, .right = value_x - 6, .y = top, .style = body, .leading = 1.4});
        names.line({{caption(entry.name)}});
        Column values(sheet, {.left = value_x, .right = x1, .y = top, .style = body, .leading = 1.4});
        for (const Run& line : entry.lines) values.line({line});
        sheet.rule(value_x, values.y() + 1, x1, values.y() + 1, 0.8, true);
        top = std::max(names.y(), values.y()) + 8;
        continue;
      }
      cell.line({{caption(entry.name)}}, Align::kLeft, small);
      for (const Run& line : entry.lines) cell.line({line});
      if (form == FieldForm::kFramed) {
        sheet.frame(x0, top, x1, cell.y() + 3, 1);
        top = cell.y() + 3;
      } else {
        sheet.rule(x0, cell.y() + 1, x1, cell.y() + 1, 0.9);
        top = cell.y() + 9;
      }
    }
    bottom = std::max(bottom, top);
  }
  y = bottom + random.uniform(10, 20);

  const TableStyle table = pick_table_style(body, caption, random);
  y = put_table(sheet, facts, left, right, y, table, random) + 10;
  y = put_sums(sheet, facts, left + 0.54 * (right - left), right, y, body, caption, random) + 10;

  if (random.chance(0.5)) {
    constexpr auto kMethods = std::to_array<std::string_view>({"Cash", "Card", "Transfer", "Cheque"});
    const std::uint32_t ticked = random.below(kMethods.size());
    double x = left;
    for (std::size_t i = 0; i < kMethods.size(); ++i) {
      const double box = body.size * 0.8;
      sheet.frame(x, y, x + box, y + box, 1);
      if (i == ticked) sheet.fill(x + 3, y + 3, x + box - 3, y + box - 3);
      x = sheet.text(x + box + 7, y + box, {{std::string(kMethods[i])}}, body) + 18;
    }
    y += 2 * line_height;
  }
  y += 34;
  const double signature_width = 0.36 * (right - left);
  for (const double x : {left, right - signature_width}) {
    if (random.chance(0.7)) draw_signature(sheet, x + 15, y - 6, signature_width * 0.7, random);
    sheet.rule(x, y + 6, x + signature_width, y + 6, 1);
    sheet.text(x, y + 6 + 1.5 * small.size, {{caption.plain(x == left ? "Claimant signature" : "Approved by")}}, small);
  }
  y += 6 + 2 * small.size;
  sheet.set_height(std::max(y + 30, kSheetHeight));
  return sheet;
}

}  // namespace plimsoll::draw
