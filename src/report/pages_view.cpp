// The worst pages: the picture, what was found on it and what is wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/counted.h"
#include "base/error.h"
#include "data/label_scheme.h"
#include "formats/base64.h"
#include "report/page_picture.h"
#include "report/views.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostMarks = 400;  // rectangles on a page
constexpr std::size_t kMostErrors = 24;  // rows of a page's table
constexpr std::size_t kOpenErrors = 6;   // how many are shown without a click

LabelScheme scheme_of(const std::string& name) {
  for (const LabelScheme scheme :
       {LabelScheme::kIob, LabelScheme::kIobes, LabelScheme::kBilou, LabelScheme::kPlain, LabelScheme::kMixed}) {
    if (name == scheme_name(scheme)) return scheme;
  }
  return LabelScheme::kMixed;
}

enum class Verdict { kRight, kWrong, kMissed };
const char* class_of(Verdict verdict) {
  return verdict == Verdict::kRight ? "right" : verdict == Verdict::kWrong ? "wrong" : "missed";
}

struct Mark {
  WordSpan span;
  Verdict verdict = Verdict::kRight;
};

struct Marks {
  std::vector<Mark> list{};
  std::size_t right = 0, wrong = 0, missed = 0;
  bool has_given = false;
};

// An entity is right if the given labels have the same one, as in draw/annotate.
Marks marks_of(const WorstPage& page) {
  std::vector<std::string> found_labels, given_labels;
  Marks marks;
  for (const WorstWord& word : page.words) marks.has_given = marks.has_given || word.given.has_value();
  for (const WorstWord& word : page.words) {
    const bool unknown = marks.has_given && !word.given;  // neither right nor wrong
    found_labels.push_back(unknown ? "O" : word.label);
    given_labels.push_back(word.given.value_or("O"));
  }
  const LabelScheme scheme = scheme_of(page.scheme);
  const std::vector<WordSpan> found = entity_spans(found_labels, scheme);
  const std::vector<WordSpan> given = marks.has_given ? entity_spans(given_labels, scheme) : std::vector<WordSpan>();
  // Spans of one list are in the order of their words.
  const auto among = [](const std::vector<WordSpan>& spans, const WordSpan& span) {
    const auto same = std::ranges::lower_bound(spans, span.begin, {}, &WordSpan::begin);
    return same != spans.end() && *same == span;
  };
  for (const WordSpan& span : found) {
    const bool wrong = marks.has_given && !among(given, span);
    ++(wrong ? marks.wrong : marks.right);
    marks.list.push_back({span, wrong ? Verdict::kWrong : Verdict::kRight});
  }
  for (const WordSpan& span : given) {
    if (among(found, span)) continue;
    ++marks.missed;
    marks.list.push_back({span, Verdict::kMissed});
  }
  return marks;
}

std::string text_of(const WorstPage& page, const WordSpan& span, const ViewLimits& limits) {
  std::string text;
  for (std::size_t w = span.begin; w < span.end && text.size() <= limits.texts; ++w) {
    text += (w == span.begin ? "" : " ") + page.words[w].text;
  }
  return cut_text(text, std::min<std::size_t>(limits.texts, 120));
}

// Returns the confidence of the least confident word.
std::string sure_text(const WorstPage& page, const WordSpan& span) {
  std::optional<double> least;
  for (std::size_t w = span.begin; w < span.end; ++w) {
    const std::optional<double>& confidence = page.words[w].confidence;
    if (confidence) least = std::min(least.value_or(1), *confidence);
  }
  return least ? fmt::format("{:.0f} %", std::floor(100 * std::clamp(*least, 0.0, 1.0))) : "";
}

// Returns the names of the entities on these words.
std::string names_on(const std::vector<Mark>& marks, const WordSpan& span, bool given) {
  std::string names;
  for (const Mark& mark : marks) {
    const bool is_given = mark.verdict != Verdict::kWrong, is_found = mark.verdict != Verdict::kMissed;
    const bool overlaps = mark.span.begin < span.end && span.begin < mark.span.end;
    if (!overlaps || !(given ? is_given : is_found)) continue;
    if (names.find(mark.span.name) == std::string::npos) names += (names.empty() ? "" : ", ") + mark.span.name;
  }
  return names.empty() ? "–" : names;
}

Json errors_of(const WorstPage& page, const Marks& marks, const ViewLimits& limits) {
  Json rows = Json::array();
  const std::size_t errors = marks.wrong + marks.missed;
  for (const Mark& mark : marks.list) {
    if (mark.verdict == Verdict::kRight || rows.size() == kMostErrors) continue;
    const bool missed = mark.verdict == Verdict::kMissed;
    const std::string name = cut_text(mark.span.name, limits.texts);
    rows.push_back({{"text", text_of(page, mark.span, limits)},
                    {"given", missed ? name : cut_text(names_on(marks.list, mark.span, true), limits.texts)},
                    {"found", missed ? cut_text(names_on(marks.list, mark.span, false), limits.texts) : name},
                    {"sure", missed ? "" : sure_text(page, mark.span)}});
  }
  if (rows.empty()) return {};
  return {{"title", counted(errors, "error")},
          {"open", errors <= kOpenErrors},
          {"more", errors > kMostErrors ? fmt::format("and {} more", errors - kMostErrors) : ""},
          {"rows", std::move(rows)}};
}

std::string tenth(double value) { return fmt::format("{:.1f}", value); }

struct Rectangle {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};
bool overlap(const Rectangle& a, const Rectangle& b) {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

// Returns the lines of an entity's words, within the page.
std::vector<Rectangle> lines_of(const WorstPage& page, const WordSpan& span, double width, double height) {
  std::vector<Rectangle> lines;
  for (std::size_t w = span.begin; w < span.end; ++w) {
    if (!page.words[w].box) continue;
    const auto& [x0, y0, x1, y1] = *page.words[w].box;
    const Rectangle word{std::clamp(std::min(x0, x1), 0.0, width), std::clamp(std::min(y0, y1), 0.0, height),
                         std::clamp(std::max(x0, x1), 0.0, width), std::clamp(std::max(y0, y1), 0.0, height)};
    const double middle = (word.y0 + word.y1) / 2;
    if (!lines.empty() && middle >= lines.back().y0 && middle <= lines.back().y1 && word.x0 >= lines.back().x0) {
      Rectangle& line = lines.back();
      line = {line.x0, std::min(line.y0, word.y0), std::max(line.x1, word.x1), std::max(line.y1, word.y1)};
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

// What is drawn over a page's picture, in the picture's own units.
class Overlay {
 public:
  Overlay(const WorstPage& page, double width, double height, const ViewLimits& limits)
      : page_(page), width_(width), height_(height), unit_(std::max(width, height) / 100), limits_(limits) {}

  Json of(const Marks& marks) {
    Json rectangles = Json::array(), tags = Json::array();
    for (const Mark& mark : marks.list) add_rectangles(mark, rectangles);
    for (const Mark& mark : marks.list) {
      if (mark.verdict != Verdict::kRight) add_tag(mark, tags);
    }
    return {{"marks", std::move(rectangles)}, {"tags", std::move(tags)}, {"links", links()}};
  }

 private:
  void add_rectangles(const Mark& mark, Json& rectangles) const {
    const bool error = mark.verdict != Verdict::kRight;
    const std::string words = text_of(page_, mark.span, limits_), name = cut_text(mark.span.name, limits_.texts);
    const std::string sure = sure_text(page_, mark.span);
    const std::string title = mark.verdict == Verdict::kMissed
                                  ? fmt::format("{}: {} was missed", words, name)
                                  : fmt::format("{}: {}{}{}", words, name, sure.empty() ? "" : ", " + sure + " sure",
                                                error ? ", which is wrong" : "");
    for (const Rectangle& line : lines_of(page_, mark.span, width_, height_)) {
      if (rectangles.size() == kMostMarks) return;
      const double grow = 0.25 * unit_;
      rectangles.push_back({{"class", class_of(mark.verdict)},
                            {"x", tenth(line.x0 - grow)},
                            {"y", tenth(line.y0 - grow)},
                            {"w", tenth(line.x1 - line.x0 + 2 * grow)},
                            {"h", tenth(line.y1 - line.y0 + 2 * grow)},
                            {"r", tenth(0.3 * unit_)},
                            {"stroke", tenth((error ? 0.28 : 0.14) * unit_)},
                            {"title", title}});
    }
  }

  // Adds the tag above the first line, below the last one, or beside it, where there is no other tag.
  void add_tag(const Mark& mark, Json& tags) {
    const std::vector<Rectangle> lines = lines_of(page_, mark.span, width_, height_);
    if (lines.empty() || tags.size() == kMostMarks) return;
    const std::string text = (mark.verdict == Verdict::kMissed ? "missed " : "") + cut_text(mark.span.name, 40);
    const double size = 1.7 * unit_, wide = 0.72 * size * static_cast<double>(text.size()), tall = 1.2 * size;
    const Rectangle &first = lines.front(), &last = lines.back();
    const double gap = 0.5 * unit_;
    const std::pair<double, double> places[] = {{first.x0, first.y0 - gap - tall},
                                                {last.x0, last.y1 + gap},
                                                {first.x1 + 2 * gap, (first.y0 + first.y1 - tall) / 2},
                                                {first.x0 - 2 * gap - wide, (first.y0 + first.y1 - tall) / 2}};
    Rectangle place;
    for (auto [x, y] : places) {
      x = std::clamp(x, 0.0, std::max(0.0, width_ - wide));
      place = {x, y, x + wide, y + tall};
      const bool is_free = std::ranges::none_of(tags_, [&](const Rectangle& other) { return overlap(place, other); });
      if (is_free && y >= 0 && y + tall <= height_) break;
    }
    tags_.push_back(place);
    tags.push_back({{"class", "tag"},
                    {"x", tenth(place.x0)},
                    {"y", tenth(place.y1 - 0.25 * tall)},
                    {"size", tenth(size)},
                    {"halo", tenth(0.45 * unit_)},
                    {"text", text}});
  }

  Json links() const {
    Json links = Json::array();
    for (const WorstLink& link : page_.links) {
      const auto &from = page_.words[link.from].box, &to = page_.words[link.to].box;
      if (!from || !to || links.size() == kMostMarks) continue;
      const char* state = link.state == "wrong" ? "wrong" : link.state == "missed" ? "missed" : "link";
      links.push_back(
          {{"class", state},
           {"d", fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", ((*from)[0] + (*from)[2]) / 2,
                             ((*from)[1] + (*from)[3]) / 2, ((*to)[0] + (*to)[2]) / 2, ((*to)[1] + (*to)[3]) / 2)},
           {"stroke", tenth(0.2 * unit_)}});
    }
    return links;
  }

  const WorstPage& page_;
  double width_, height_;
  double unit_;  // a hundredth of the page's longer side
  const ViewLimits& limits_;
  std::vector<Rectangle> tags_{};  // their places
};

std::string counts_text(const Marks& marks, const WorstPage& page) {
  if (!marks.has_given) return {};
  std::size_t wrong_links = 0;
  for (const WorstLink& link : page.links) wrong_links += link.state == "wrong" || link.state == "missed" ? 1 : 0;
  std::string text = fmt::format("{} right, {} wrong, {} missed", marks.right, marks.wrong, marks.missed);
  if (wrong_links > 0) text += ", " + counted(wrong_links, "wrong or missed link");
  return text;
}

Json page_view(const WorstPage& page, bool draws, const ViewLimits& limits) {
  const Marks marks = marks_of(page);
  const std::string counts = counts_text(marks, page);
  Json view = {{"id", cut_text(page.id, limits.texts)},
               {"loss", page.loss ? number_text(*page.loss) : "–"},
               {"counts", counts},
               {"where", cut_text(page.where, limits.texts)},
               {"text", cut_text(page.caption, limits.texts)},
               {"picture", nullptr},
               {"gone", ""},
               {"errors", errors_of(page, marks, limits)}};
  if (!draws || page.image.empty()) return view;
  try {
    const PagePicture picture = page_picture(page.image, limits.picture_bytes);
    const double width = page.width > 0 ? page.width : picture.page_width;
    const double height = page.height > 0 ? page.height : picture.page_height;
    Json drawn = Overlay(page, width, height, limits).of(marks);
    drawn["width"] = tenth(width);
    drawn["height"] = tenth(height);
    drawn["source"] = "data:image/jpeg;base64," + encode_base64(picture.jpeg);
    drawn["label"] = fmt::format("Page {}{}", cut_text(page.id, 80), counts.empty() ? "" : ": " + counts);
    view["picture"] = std::move(drawn);
  } catch (const Error& error) {
    view["gone"] = cut_text(
        fmt::format("The picture cannot be shown: {} ({})", error.problem().what, page.image.string()), limits.texts);
  }
  return view;
}

}  // namespace

Json pages_view(const std::vector<RunFacts>& runs, const ViewLimits& limits) {
  const std::vector<std::string> names = run_names(runs);
  Json of_runs = Json::array();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].worst.empty()) continue;
    Json pages = Json::array();
    for (const WorstPage& page : runs[r].worst)
      pages.push_back(page_view(page, pages.size() < limits.pictures, limits));
    of_runs.push_back({{"run", names[r]}, {"key", run_key(r)}, {"pages_of_run", std::move(pages)}});
  }
  if (of_runs.empty()) return {};
  return {{"runs_pages", std::move(of_runs)}};
}

}  // namespace plimsoll::report
