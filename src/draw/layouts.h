// The layouts: they place the facts of a page on its sheet.
//
//   const Sheet sheet = lay_out(fonts, facts, random);
#pragma once

#include <string>
#include <vector>

#include "draw/column.h"
#include "draw/facts.h"
#include "draw/fonts.h"
#include "draw/form_sheet.h"
#include "draw/random.h"
#include "draw/sheet.h"

namespace plimsoll::draw {

// Returns a finished sheet (its height is set). Every kind of page has its layout, and every layout its variants.
Sheet lay_out(const FontSet& fonts, const PageFacts& facts, PageRandom& random);

// Lay out narrow slips of one column.
Sheet lay_out_till(const FontSet& fonts, const PageFacts& facts, PageRandom& random);
Sheet lay_out_restaurant(const FontSet& fonts, const PageFacts& facts, PageRandom& random);
Sheet lay_out_fuel(const FontSet& fonts, const PageFacts& facts, PageRandom& random);
Sheet lay_out_ticket(const FontSet& fonts, const PageFacts& facts, PageRandom& random);
// Lay out wide sheets with blocks side by side.
Sheet lay_out_invoice(const FontSet& fonts, const PageFacts& facts, PageRandom& random);
Sheet lay_out_form(const FontSet& fonts, const PageFacts& facts, PageRandom& random);

// Lays out a form with its entities and links. It draws its own text from `text`.
FilledForm lay_out_filled_form(const FontSet& fonts, PageRandom& text, PageRandom& random);

// Parts that layouts share.

enum class TotalRowKind { kPlain, kTotal, kPayment };

// One line of the block of sums, as "caption ... amount".
struct TotalRow {
  std::string caption{};
  Runs amount{};
  TotalRowKind kind = TotalRowKind::kPlain;
};

// Returns subtotal, discount, service, tax, rounding, total and payment, with the page's own captions and order.
std::vector<TotalRow> total_rows(const PageFacts& facts, PageRandom& random);

// Returns "RM 12.40", "$12.40" or "12.40"; the field covers the number (and a currency attached to it).
Runs amount_runs(Cents amount, const PageFacts& facts, bool with_currency, Field field);

// How a page writes all lower-case captions: unchanged, in upper case, with a colon.
struct CaptionTaste {
  bool upper = false;
  std::string colon{};  // "", ":" or " :"
  std::string operator()(const std::string& caption) const;
  std::string plain(const std::string& caption) const;  // without the colon
};
CaptionTaste pick_caption_taste(const PageFacts& facts, PageRandom& random);

FontFamily pick_family(PageRandom& random, bool till);
void draw_logo(Sheet& sheet, double x, double y, double size, PageRandom& random);
void draw_barcode(Sheet& sheet, double x, double y, double width, double height, PageRandom& random);
void draw_signature(Sheet& sheet, double x, double y, double width, PageRandom& random);

}  // namespace plimsoll::draw
