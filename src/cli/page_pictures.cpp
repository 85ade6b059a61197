#include "cli/page_pictures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/outputs.h"
#include "cli/rank_options.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/page_faults.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

// Turns a page's id into the name of a file in one folder: ids may be anything, such as "../invoices/7", and may
// repeat.
std::string picture_name(const std::string& id, std::set<std::string>& used) {
  std::string name;
  for (const char c : id.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(c);
    name += byte < 0x20 || c == '/' || c == '\\' || byte == 0x7F ? '_' : c;
  }
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  std::string free = name;
  for (int i = 2; !used.insert(free).second; ++i) free = fmt::format("{}-{}", name, i);
  return free + ".png";
}

}  // namespace

PagePictures::PagePictures(const Invocation& invocation, std::filesystem::path directory, const std::string& command,
                           const std::filesystem::path& pdf)
    : directory_(std::move(directory)), share_(page_share(invocation)) {
  if (share_.is_first()) {
    if (!directory_.empty()) make_directory_of(directory_, "--draw", command);
    if (!pdf.empty()) pdf_.emplace(pdf);
  }
  wait_for_ranks(invocation);
}

std::size_t PagePictures::bytes(const PageSource& pages, bool with_pdf) {
  ImageLimits largest;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    PageFaults of_labels;  // as they are read to be drawn
    try {
      largest.include(read_image_info(pages.read(i, &of_labels).image));
    } catch (const DataError&) {  // `draw` says so
    }
  }
  return drawing_bytes(largest.width, largest.height) + largest.decode_bytes +
         (with_pdf ? pdf_page_bytes(largest.width, largest.height) : 0);
}

void PagePictures::draw(const Predictions& predictions, Page& page, BoxFormat format) {
  const bool draws = !directory_.empty() && share_.has(pages_++);
  const std::string name = picture_name(page.id, names_);
  if (!draws && !pdf_) return;
  try {
    if (page.boxes.size() != page.words.size()) {
      throw DataError({.what = "its boxes are not known",
                       .found = fmt::format("{} and {}", counted(page.words.size(), "word"),
                                            counted(page.boxes.size(), "box", "boxes"))});
    }
    if (page.width == 0) read_page_image_info(page);
    AnnotatedPage picture = predictions.drawing(page, format);
    picture.width = page.width, picture.height = page.height;
    if (draws) {
      picture.output_png = directory_ / name;
      draw_annotated_page(picture);
    }
    if (pdf_) pdf_->add(picture);
  } catch (const DataError& error) {
    undrawn_.insert(
        fmt::format("a page is not drawn: {}: {} ({})", place(page), error.problem().what, error.problem().found));
  }
}

void PagePictures::pass(const std::string& id) { picture_name(id, names_); }

void PagePictures::finish() {
  if (pdf_) pdf_->close();
  // Another rank may have been to draw the page.
  if (share_.ranks > 1) {
    for (const std::string& others : share_.exchange(json_text(nlohmann::json(undrawn_)))) {
      undrawn_.merge(nlohmann::json::parse(others).get<std::set<std::string>>());
    }
  }
  for (const std::string& warning : undrawn_) log_warning(warning);
}

}  // namespace plimsoll
