// A whole form: letterhead, sections of blocks, small print.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "draw/form_blocks.h"
#include "draw/form_sheet.h"
#include "draw/form_text.h"
#include "draw/layouts.h"
#include "draw/names.h"

namespace plimsoll::draw {
namespace {

constexpr double kFormWidth = 640;
// A4, letter or half a sheet; a page is longer if its text needs it.
constexpr std::array<double, 4> kFormHeights = {905, 905, 828, 640};
// Sections begin above this line, so that the last one and the foot end on the page or a little below.
constexpr double kLastSection = 700;

class FormPage {
 public:
  FormPage(const FontSet& fonts, PageRandom& text, PageRandom& random)
      : form_(fonts, kFormWidth),
        look_(pick_look(random)),
        voice_(pick_voice(text)),
        text_(&text),
        random_(&random),
        blocks_(form_, look_, voice_, text, random),
        margin_(random.between(2, 3) * 17.0),
        height_(random.pick(kFormHeights)) {}

  FilledForm lay_out() &&;

 private:
  Area whole(double y) const { return {margin_, kFormWidth - margin_, y}; }
  double letterhead();
  // Puts one block that fits into the area's width.
  double block(const Area& area, const Header& header);
  // Puts a header, if this page has headers, and what is below it.
  double section(Area area);
  double two_sections(double y);
  double foot(double y);

  FormSheet form_;
  FormLook look_;
  FormVoice voice_;
  PageRandom* text_;
  PageRandom* random_;
  FormBlocks blocks_;
  double margin_, height_;
  bool headed_ = true;
};

double FormPage::letterhead() {
  const Style& body = look_.body;
  const int block = form_.new_block();
  double y = random_->uniform(26, 40);
  const double right = kFormWidth - margin_;
  // A stamp, a number that an archive has put on, or the form's own number at the top right.
  double corner = right;
  if (random_->chance(0.6)) {
    corner = right - 150;
    const double choice = random_->uniform();
    const Area at{corner, right, y};
    if (choice < 0.35) {
      form_.put(block, EntityKind::kOther, {fmt::format("{:08}", text_->between(1000, 99999999))}, at, body,
                Align::kRight);
    } else if (choice < 0.65) {
      form_.put(block, EntityKind::kOther, {form_number(*text_)}, at, look_.small, Align::kRight);
    } else {
      const Placed stamp = form_.put(block, EntityKind::kOther, {"RECEIVED"}, at, body.with_bold(), Align::kCenter);
      const Placed day = form_.put(block, EntityKind::kOther, answer_lines(*text_, AnswerKind::kDate, voice_),
                                   {corner, right, stamp.bottom}, body, Align::kCenter);
      form_.sheet().frame(corner + 20, y - 4, right - 20, day.bottom + 4, 1.6);
    }
    corner -= 12;
  }
  const bool centred = corner == right && random_->chance(0.6);
  const Align align = centred ? Align::kCenter : Align::kLeft;
  Area area{margin_, corner, y};
  if (random_->chance(0.25) && !centred) {
    draw_logo(form_.sheet(), margin_ + 22, y + 20, 40, *random_);
    area.left += 58;
  }
  if (random_->chance(0.7)) {
    const std::string name = company_name(*text_, PageKind::kInvoice, voice_.region).front();
    area.y =
        form_.put(block, EntityKind::kOther, {name}, area, body.with_bold().with_size(body.size * 1.15), align).bottom;
    if (random_->chance(0.6)) {
      const std::vector<std::string> address = street_address(*text_, voice_.region);
      area.y = form_.put(block, EntityKind::kOther, address, area, look_.small, align).bottom;
    }
    area.y += 6;
  }
  y = std::max(area.y, y + (area.left > margin_ ? 46 : 0));
  const Style title = body.with_bold().with_size(body.size * random_->uniform(1.35, 1.8));
  const std::string text = random_->chance(0.4) ? to_upper(form_title(*text_)) : form_title(*text_);
  y = form_.put(block, EntityKind::kHeader, {text}, {margin_, centred ? right : corner, y}, title, align).bottom + 4;
  // The corner's stamp may reach below the title.
  y = std::max(y, 92.0);
  if (random_->chance(0.45)) y = blocks_.paragraph(whole(y)) + 8;
  if (random_->chance(0.2)) y = blocks_.recipient({margin_, margin_ + 260, y + 6}) + 14;
  return y;
}

double FormPage::block(const Area& area, const Header& header) {
  const bool wide = area.width() > 400;
  const double choice = random_->uniform();
  if (choice < (wide ? 0.40 : 0.55)) return blocks_.fields(area, header);
  if (choice < (wide ? 0.65 : 0.85)) return blocks_.cells(area, header);
  return blocks_.table(area, header, wide ? choice > 0.9 : choice > 0.95);
}

double FormPage::section(Area area) {
  if (random_->chance(0.12)) return blocks_.check_boxes(area);
  Header header;
  if (headed_) {
    header = blocks_.header(area);
    area.y = header->bottom;
  }
  area.y = block(area, header) + 4;
  if (area.width() > 400 && random_->chance(0.25) && form_.size() + 12 < look_.most_entities) {
    area.y = block(area, header) + 4;
  }
  return area.y;
}

double FormPage::two_sections(double y) {
  const double middle = kFormWidth / 2 + random_->uniform(-30, 30);
  const bool read_across = random_->chance(0.35);
  if (read_across) form_.join_blocks(true);
  const double left = section({margin_, middle - 11, y});
  const double right = section({middle + 11, kFormWidth - margin_, y});
  if (read_across) form_.join_blocks(false);
  if (random_->chance(0.3)) form_.sheet().rule(middle, y, middle, std::max(left, right) - 4, 0.9);
  return std::max(left, right);
}

double FormPage::foot(double y) {
  if (random_->chance(0.6)) y = blocks_.paragraph(whole(y + 4)) + 4;
  if (random_->chance(0.55)) y = blocks_.signatures(whole(y + 6));
  y = std::max(y + 12, height_ - random_->uniform(40, 60));
  const int block = form_.new_block();
  double bottom = y;
  if (random_->chance(0.5)) {
    bottom =
        form_.put(block, EntityKind::kOther, {form_number(*text_)}, {margin_, margin_ + 220, y}, look_.small).bottom;
  }
  if (random_->chance(0.5)) {
    const std::string page = fmt::format("Page {} of {}", 1, text_->between(1, 6));
    const Area at{kFormWidth - margin_ - 120, kFormWidth - margin_, y};
    bottom = form_.put(block, EntityKind::kOther, {page}, at, look_.small, Align::kRight).bottom;
  }
  return bottom;
}

FilledForm FormPage::lay_out() && {
  // A page has headers for all its sections or for none: below a section with a header, one without would seem to
  // belong to it.
  headed_ = random_->chance(0.75);
  const auto enough = static_cast<std::size_t>(random_->between(24, 42));
  const double section_gap = random_->uniform(10, 40);
  double y = letterhead() + 6;
  while (form_.size() < enough && y < kLastSection) {
    if (random_->chance(0.12)) y = blocks_.paragraph(whole(y)) + 8;
    if (random_->chance(0.12)) y = blocks_.note(whole(y)) + 8;
    const bool two = random_->chance(0.3) && form_.size() + 24 < look_.most_entities;
    y = two ? two_sections(y) : section(whole(y));
    y += random_->uniform(4, section_gap);
  }
  y = foot(y);
  return std::move(form_).finish(std::max(y + 24, height_));
}

}  // namespace

FilledForm lay_out_filled_form(const FontSet& fonts, PageRandom& text, PageRandom& random) {
  return FormPage(fonts, text, random).lay_out();
}

}  // namespace plimsoll::draw
