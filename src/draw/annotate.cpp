#include "draw/annotate.h"

#include <cairo/cairo-pdf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "data/image.h"
#include "data/page.h"
#include "data/resample.h"
#include "draw/cairo.h"
#include "draw/fonts.h"

namespace plimsoll {
namespace {

using draw::Context;
using draw::Surface;

// Pictures are made for viewing, so larger pages are drawn smaller, which bounds the drawing's memory.
constexpr int kLongestSide = 2000;
// The most rows of the picture that the legend takes; entries that do not fit are left out.
constexpr int kHighestLegend = 400;
// The measured memory of fonts, paths and the PNG encoder.
constexpr std::size_t kDrawingHeap = 6 * kMiB;

struct Size {
  int width, height;
};
Size drawn_size(int width, int height) {
  const double scale = std::min(1.0, static_cast<double>(kLongestSide) / std::max(width, height));
  const auto scaled = [scale](int side) { return std::max(1, static_cast<int>(std::lround(side * scale))); };
  return {scaled(width), scaled(height)};
}

struct Colour {
  double red, green, blue;
};

// Okabe and Ito's palette (jfly.uni-koeln.de/color), which colour-blind readers can distinguish, without its red, which
// marks errors.
constexpr std::array<Colour, 7> kPalette = {{{0.00, 0.45, 0.70},
                                             {0.90, 0.62, 0.00},
                                             {0.00, 0.62, 0.45},
                                             {0.80, 0.47, 0.65},
                                             {0.34, 0.71, 0.91},
                                             {0.60, 0.56, 0.05},
                                             {0.40, 0.32, 0.62}}};
constexpr double kFullCircle = 6.283185307179586;
constexpr Colour kErrorColour = {0.85, 0.05, 0.05};

std::string safe_text(const std::string& text) {
  std::string safe = text;
  for (std::size_t bad = invalid_utf8_offset(safe); bad != std::string::npos; bad = invalid_utf8_offset(safe))
    safe[bad] = '?';
  std::replace_if(
      safe.begin(), safe.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return safe;
}

// Takes what Cairo encodes, piece by piece, so that no file is ever held whole.
struct EncodedBytes {
  OutputFile& file;
  std::exception_ptr error{};  // kept here, because no exception may pass through Cairo, which is C

  static cairo_status_t take(void* closure, const unsigned char* data, unsigned length) {
    EncodedBytes& self = *static_cast<EncodedBytes*>(closure);
    try {
      self.file.write(std::as_bytes(std::span(data, length)));
      return CAIRO_STATUS_SUCCESS;
    } catch (...) {
      self.error = std::current_exception();
      return CAIRO_STATUS_WRITE_ERROR;
    }
  }
  void check(cairo_status_t status, const char* doing) const {
    if (error) std::rethrow_exception(error);
    draw::check_cairo(status, doing);
  }
};

void write_png(cairo_surface_t* surface, OutputFile& file) {
  EncodedBytes bytes{file};
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface, EncodedBytes::take, &bytes);
  bytes.check(status, "encode a PNG image");
}

struct Rectangle {
  double x0, y0, x1, y1;
};

Rectangle united(const Rectangle& a, const Rectangle& b) {
  return {std::min(a.x0, b.x0), std::min(a.y0, b.y0), std::max(a.x1, b.x1), std::max(a.y1, b.y1)};
}

bool overlap(const Rectangle& a, const Rectangle& b) {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

enum class Verdict { kPlain, kWrong, kMissed };

struct Mark {
  WordSpan span;
  Verdict verdict = Verdict::kPlain;
  std::string tag{};
};

class Annotator {
 public:
  explicit Annotator(const AnnotatedPage& page)
      : page_(page), regular_(draw::load_font(draw::FontFamily::kDejaVuSans, false)) {
    find_marks();
    choose_colours();
    open_page();
  }

  // Draws the page and returns its picture.
  Surface draw() {
    // Fills are drawn first, so that no tag lies under another entity's colour.
    for (const Mark& mark : marks_) draw_boxes(mark);
    for (const AnnotatedLink& link : page_.links) draw_link(link);
    for (const Mark& mark : marks_) draw_tag(mark);
    draw_legend();
    draw::check_cairo(cairo_status(context_.get()), "draw an annotated page");
    context_.reset();
    return std::move(surface_);
  }

 private:
  void find_marks() {
    std::vector<std::string> labels, gold;
    for (const AnnotatedWord& word : page_.words) has_gold_ = has_gold_ || word.gold_label.has_value();
    for (std::size_t i = 0; i < page_.words.size(); ++i) {
      const AnnotatedWord& word = page_.words[i];
      // A word whose label is not known, among others, is neither right nor wrong.
      const bool unknown = has_gold_ && !word.gold_label;
      labels.push_back(unknown ? "O" : word.label);
      gold.push_back(word.gold_label.value_or("O"));
      const bool numbers = std::all_of(word.box.begin(), word.box.end(), [](double x) { return std::isfinite(x); }) &&
                           std::isfinite(word.confidence.value_or(0));
      if (!numbers) {
        throw DataError({.what = "a word cannot be drawn: its box or confidence is not a number",
                         .where = fmt::format("{}, word {}", page_.image.string(), i),
                         .found = to_string(word.box)});
      }
    }
    const std::vector<WordSpan> found = entity_spans(labels, page_.scheme);
    const std::vector<WordSpan> wanted = has_gold_ ? entity_spans(gold, page_.scheme) : std::vector<WordSpan>();
    const auto among = [](const std::vector<WordSpan>& spans, const WordSpan& span) {
      return std::find(spans.begin(), spans.end(), span) != spans.end();
    };
    for (const WordSpan& span : found) {
      const bool wrong = has_gold_ && !among(wanted, span);
      if (wrong) ++wrong_;
      marks_.push_back({span, wrong ? Verdict::kWrong : Verdict::kPlain, span.name + confidence_of(span)});
    }
    for (const WordSpan& span : wanted) {
      if (among(found, span)) continue;
      ++missed_;
      marks_.push_back({span, Verdict::kMissed, "missed: " + span.name});
    }
  }

  // Returns the confidence of the least confident word.
  std::string confidence_of(const WordSpan& span) const {
    std::optional<double> least;
    for (std::size_t i = span.begin; i < span.end; ++i) {
      const std::optional<double>& confidence = page_.words[i].confidence;
      if (confidence) least = std::min(least.value_or(1), *confidence);
    }
    return least ? fmt::format(" {:.0f}%", std::floor(100 * std::clamp(*least, 0.0, 1.0))) : "";
  }

  void choose_colours() {
    std::vector<std::string> names = page_.entity_names;
    std::set<std::string> others;
    for (const Mark& mark : marks_) others.insert(mark.span.name);
    for (const std::string& name : names) others.erase(name);
    names.insert(names.end(), others.begin(), others.end());
    for (const std::string& name : names) colours_.try_emplace(name, kPalette[colours_.size() % kPalette.size()]);
    for (const std::string& name : names) {
      const bool known = std::find(legend_.begin(), legend_.end(), name) != legend_.end();
      if (!known) legend_.push_back(name);
    }
  }

  void open_page() {
    const std::unique_ptr<ImageRows> image = open_image(page_.image);
    const Size size = drawn_size(image->width(), image->height());
    width_ = size.width, height_ = size.height;
    const bool sized = page_.width > 0 && page_.height > 0;
    across_ = static_cast<double>(width_) / (sized ? page_.width : image->width());
    down_ = static_cast<double>(height_) / (sized ? page_.height : image->height());
    font_size_ = std::clamp(std::min(width_, height_) / 45.0, 9.0, 40.0);
    const int legend_height =
        std::min(kHighestLegend, static_cast<int>(std::ceil(legend_rows() * 1.8 * font_size_ + font_size_)));
    surface_ = draw::make_surface(CAIRO_FORMAT_RGB24, width_, height_ + legend_height);
    read_pixels(*image);
    context_ = make_text_context(surface_.get());
    cairo_set_source_rgb(context_.get(), 1, 1, 1);
    cairo_rectangle(context_.get(), 0, height_, width_, legend_height);
    cairo_fill(context_.get());
  }

  // Scales the page row by row as it is decoded. The scaled bytes, three per pixel, go into the last part of the
  // surface's own memory and are then expanded to four from the front: no pixel is overwritten before it is read, since
  // the legend's rows follow.
  void read_pixels(ImageRows& image) {
    unsigned char* const data = cairo_image_surface_get_data(surface_.get());
    const auto stride = static_cast<std::size_t>(cairo_image_surface_get_stride(surface_.get()));
    const auto width = static_cast<std::size_t>(width_), height = static_cast<std::size_t>(height_);
    const std::size_t bytes = stride * static_cast<std::size_t>(cairo_image_surface_get_height(surface_.get()));
    const std::size_t scaled = 3 * width * height;
    std::uint8_t* rgb = data + (bytes - scaled);
    read_resized(image, width_, height_, {rgb, scaled});
    for (std::size_t y = 0; y < height; ++y) {
      auto* row = reinterpret_cast<std::uint32_t*>(data + y * stride);
      for (std::size_t x = 0; x < width; ++x, rgb += 3) {
        row[x] = std::uint32_t{rgb[0]} << 16 | std::uint32_t{rgb[1]} << 8 | rgb[2];
      }
    }
    cairo_surface_mark_dirty(surface_.get());
  }

  Context make_text_context(cairo_surface_t* surface) const {
    Context context = draw::make_context(surface);
    draw::use_plain_font_options(context.get());
    cairo_set_font_face(context.get(), regular_.get());
    cairo_set_font_size(context.get(), font_size_);
    return context;
  }

  double text_width(cairo_t* context, const std::string& text) const {
    cairo_text_extents_t extents;
    cairo_text_extents(context, text.c_str(), &extents);
    return extents.x_advance;
  }

  // An entry of the legend: the caption, a swatch and a name for each entity, then the meaning of the red lines.
  struct LegendEntry {
    std::string text;
    Colour colour;
    bool filled, dashed;
  };
  std::vector<LegendEntry> legend_entries() const {
    std::vector<LegendEntry> entries;
    if (!page_.caption.empty()) entries.push_back({safe_text(page_.caption), {0.1, 0.1, 0.1}, true, false});
    for (const std::string& name : legend_) entries.push_back({safe_text(name), colours_.at(name), true, false});
    if (has_gold_) {
      entries.push_back({fmt::format("not in the gold labels: {}", wrong_), kErrorColour, false, false});
      entries.push_back({fmt::format("missed: {}", missed_), kErrorColour, false, true});
    }
    return entries;
  }

  // Calls `place(entry, x, row)` for each entry, breaking rows at the page's width; returns the number of rows.
  template <typename Place>
  int lay_out_legend(cairo_t* context, const Place& place) const {
    const double gap = 1.6 * font_size_;
    double x = 0.8 * font_size_;
    int row = 0;
    for (const LegendEntry& entry : legend_entries()) {
      const double wide = 1.6 * font_size_ + text_width(context, entry.text);
      if (x + wide > width_ && x > font_size_) {
        x = 0.8 * font_size_;
        ++row;
      }
      place(entry, x, row);
      x += wide + gap;
    }
    return row + 1;
  }

  int legend_rows() const {
    const Surface tiny = draw::make_surface(CAIRO_FORMAT_A8, 1, 1);
    const Context measuring = make_text_context(tiny.get());
    return lay_out_legend(measuring.get(), [](const LegendEntry&, double, int) {});
  }

  void set_colour(const Colour& colour, double alpha = 1) {
    cairo_set_source_rgba(context_.get(), colour.red, colour.green, colour.blue, alpha);
  }

  Rectangle box_of(std::size_t word) const {
    const auto& [x0, y0, x1, y1] = page_.words[word].box;
    const auto across = [&](double x) { return std::clamp(x * across_, 0.0, static_cast<double>(width_)); };
    const auto down = [&](double y) { return std::clamp(y * down_, 0.0, static_cast<double>(height_)); };
    return {across(std::min(x0, x1)), down(std::min(y0, y1)), across(std::max(x0, x1)), down(std::max(y0, y1))};
  }

  // Returns the boxes of an entity, joined if they are on the same line of text.
  std::vector<Rectangle> lines_of(const WordSpan& span) const {
    std::vector<Rectangle> lines;
    for (std::size_t i = span.begin; i < span.end; ++i) {
      const Rectangle box = box_of(i);
      const double middle = (box.y0 + box.y1) / 2;
      if (!lines.empty() && middle >= lines.back().y0 && middle <= lines.back().y1 && box.x0 >= lines.back().x0) {
        lines.back() = united(lines.back(), box);
      } else {
        lines.push_back(box);
      }
    }
    return lines;
  }

  void draw_boxes(const Mark& mark) {
    const double outline = font_size_ / 7, grow = outline;
    for (const Rectangle& line : lines_of(mark.span)) {
      cairo_rectangle(context_.get(), line.x0 - grow, line.y0 - grow, line.x1 - line.x0 + 2 * grow,
                      line.y1 - line.y0 + 2 * grow);
      if (mark.verdict != Verdict::kMissed) {
        set_colour(colours_.at(mark.span.name), 0.28);
        cairo_fill_preserve(context_.get());
      }
      stroke(mark.verdict == Verdict::kPlain ? colours_.at(mark.span.name) : kErrorColour,
             mark.verdict == Verdict::kPlain ? outline : 1.5 * outline, mark.verdict == Verdict::kMissed);
    }
  }

  void stroke(const Colour& colour, double thickness, bool dashed) {
    const double dash = font_size_ / 2.5;
    cairo_set_dash(context_.get(), &dash, dashed ? 1 : 0, 0);
    cairo_set_line_width(context_.get(), thickness);
    set_colour(colour);
    cairo_stroke(context_.get());
  }

  // Puts the tag where it covers nothing: above the first line, at its right, at its left, or below the last line;
  // above if none of these places is free.
  void draw_tag(const Mark& mark) {
    const std::vector<Rectangle> lines = lines_of(mark.span);
    const std::string text = safe_text(mark.tag);
    const double size = 0.85 * font_size_, pad = 0.25 * size, tall = 1.25 * size;
    cairo_set_font_size(context_.get(), size);
    const double wide = text_width(context_.get(), text) + 2 * pad, gap = font_size_ / 5;
    const Rectangle &first = lines.front(), &last = lines.back();
    const double middle = (first.y0 + first.y1 - tall) / 2;
    const std::array<std::pair<double, double>, 4> places = {{{first.x0 - gap, first.y0 - gap - tall},
                                                              {first.x1 + 1.5 * gap, middle},
                                                              {first.x0 - 1.5 * gap - wide, middle},
                                                              {last.x0 - gap, last.y1 + gap}}};
    const auto is_free = [&](const std::pair<double, double>& place) {
      const Rectangle tag{place.first, place.second, place.first + wide, place.second + tall};
      if (tag.x0 < 0 || tag.y0 < 0 || tag.x1 > width_ || tag.y1 > height_) return false;
      for (const Rectangle& other : tags_) {
        if (overlap(tag, other)) return false;
      }
      for (std::size_t i = 0; i < page_.words.size(); ++i) {
        if (overlap(tag, box_of(i))) return false;
      }
      return true;
    };
    const auto* free_place = std::find_if(places.begin(), places.end(), is_free);
    const auto [wished_x, wished_y] = free_place == places.end() ? places.front() : *free_place;
    const double x = std::clamp(wished_x, 0.0, std::max(0.0, width_ - wide));
    const double y = std::clamp(wished_y, 0.0, std::max(0.0, height_ - tall));
    tags_.push_back({x, y, x + wide, y + tall});
    set_colour(mark.verdict == Verdict::kPlain ? colours_.at(mark.span.name) : kErrorColour, 0.92);
    cairo_rectangle(context_.get(), x, y, wide, tall);
    cairo_fill(context_.get());
    cairo_set_source_rgb(context_.get(), 1, 1, 1);
    cairo_move_to(context_.get(), x + pad, y + 0.97 * size);
    cairo_show_text(context_.get(), text.c_str());
    cairo_set_font_size(context_.get(), font_size_);
  }

  // Draws a line from the middle of one word to that of the other, where it ends in a dot.
  void draw_link(const AnnotatedLink& link) {
    using State = AnnotatedLink::State;
    const Rectangle from = box_of(link.from_word), to = box_of(link.to_word);
    const double end_x = (to.x0 + to.x1) / 2, end_y = (to.y0 + to.y1) / 2;
    const bool is_error = link.state == State::kWrong || link.state == State::kMissed;
    const Colour colour = is_error ? kErrorColour : Colour{0.1, 0.1, 0.1};
    cairo_move_to(context_.get(), (from.x0 + from.x1) / 2, (from.y0 + from.y1) / 2);
    cairo_line_to(context_.get(), end_x, end_y);
    stroke(colour, font_size_ / 8, link.state == State::kMissed);
    cairo_arc(context_.get(), end_x, end_y, font_size_ / 5, 0, kFullCircle);
    set_colour(colour);
    cairo_fill(context_.get());
  }

  void draw_legend() {
    lay_out_legend(context_.get(), [&](const LegendEntry& entry, double x, int row) {
      const double y = height_ + 0.8 * font_size_ + row * 1.8 * font_size_;
      cairo_rectangle(context_.get(), x, y, font_size_, font_size_);
      if (entry.filled) {
        set_colour(entry.colour, 0.28);
        cairo_fill_preserve(context_.get());
      }
      stroke(entry.colour, font_size_ / 7, entry.dashed);
      cairo_set_source_rgb(context_.get(), 0.1, 0.1, 0.1);
      cairo_move_to(context_.get(), x + 1.5 * font_size_, y + 0.87 * font_size_);
      cairo_show_text(context_.get(), entry.text.c_str());
    });
  }

  const AnnotatedPage& page_;
  draw::FontFace regular_;
  bool has_gold_ = false;
  int wrong_ = 0, missed_ = 0;
  std::vector<Mark> marks_;
  std::map<std::string, Colour> colours_;
  std::vector<std::string> legend_;
  int width_ = 0, height_ = 0;    // size of the drawn page
  double across_ = 1, down_ = 1;  // its pixels per pixel of the image
  double font_size_ = 12;
  Surface surface_;
  Context context_;
  std::vector<Rectangle> tags_;
};

}  // namespace

void draw_annotated_page(const AnnotatedPage& page) {
  const Surface surface = Annotator(page).draw();
  OutputFile file(page.output_png);
  write_png(surface.get(), file);
  file.close();
}

class AnnotatedPdf::File {
 public:
  explicit File(const std::filesystem::path& path)
      : file_(path), surface_(cairo_pdf_surface_create_for_stream(EncodedBytes::take, &bytes_, kShort, kLong)) {
    check(cairo_surface_status(surface_.get()));
  }

  void add(const AnnotatedPage& page) {
    const Surface picture = Annotator(page).draw();
    const int width = cairo_image_surface_get_width(picture.get());
    const int height = cairo_image_surface_get_height(picture.get());
    const double scale =
        std::min(kLong / std::max(width, height), kShort / std::min(width, height));  // points of a pixel
    cairo_pdf_surface_set_size(surface_.get(), scale * width, scale * height);
    const Context context = draw::make_context(surface_.get());
    cairo_scale(context.get(), scale, scale);
    cairo_set_source_surface(context.get(), picture.get(), 0, 0);
    cairo_paint(context.get());
    cairo_show_page(context.get());
    check(cairo_status(context.get()));
  }

  void close() {
    cairo_surface_finish(surface_.get());
    check(cairo_surface_status(surface_.get()));
    file_.close();
  }

 private:
  static constexpr double kShort = 595, kLong = 842;  // A4, in points

  void check(cairo_status_t status) const { bytes_.check(status, "draw a PDF file"); }

  OutputFile file_;
  EncodedBytes bytes_{file_};
  Surface surface_;
};

AnnotatedPdf::AnnotatedPdf(const std::filesystem::path& path) : file_(std::make_unique<File>(path)) {}
AnnotatedPdf::~AnnotatedPdf() = default;
void AnnotatedPdf::add(const AnnotatedPage& page) { file_->add(page); }
void AnnotatedPdf::close() { file_->close(); }

std::size_t drawing_bytes(int width, int height) {
  const int wide = std::min(width, kLongestSide), high = std::min(height, kLongestSide);
  const std::size_t surface = 4 * static_cast<std::size_t>(wide) * static_cast<std::size_t>(high + kHighestLegend);
  return surface + Resampler::host_bytes(width, height, wide, high) + kDrawingHeap;
}

std::size_t pdf_page_bytes(int width, int height) {
  // Cairo copies the picture as three bytes per pixel and compresses that, at worst to its own size.
  const std::size_t wide = static_cast<std::size_t>(std::min(width, kLongestSide));
  return 6 * wide * static_cast<std::size_t>(std::min(height, kLongestSide) + kHighestLegend);
}

}  // namespace plimsoll
