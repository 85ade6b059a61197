#include "cli/page_pictures.h"

#include <fmt/format.h>

#include "cli/outputs.h"
#include "data/dataset.h"
#include "data/image.h"

namespace plimsoll {
namespace {

// A page's id as the name of a file in one folder: ids may hold anything, "../invoices/7" and twice the same too.
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

PagePictures::PagePictures(std::filesystem::path directory, const std::string& command,
                           const std::filesystem::path& pdf)
    : directory_(std::move(directory)) {
  if (!directory_.empty()) make_directory_of(directory_, "--draw", command);
  if (!pdf.empty()) pdf_.emplace(pdf);
}

std::size_t PagePictures::bytes(const PageSource& pages, bool with_pdf) {
  ImageLimits largest;
  for (std::size_t i = 0; i < pages.size(); ++i) largest.include(read_image_info(pages.read(i).image));
  return drawing_bytes(largest.width, largest.height) + largest.decode_bytes +
         (with_pdf ? pdf_page_bytes(largest.width, largest.height) : 0);
}

void PagePictures::draw(const Predictions& predictions, Page& page, BoxFormat format) {
  if (page.width == 0) read_page_image_info(page);
  AnnotatedPage picture = predictions.drawing(page, format);
  if (!directory_.empty()) {
    picture.output_png = directory_ / picture_name(page.id, names_);
    draw_annotated_page(picture);
  }
  if (pdf_) pdf_->add(picture);
}

void PagePictures::finish() {
  if (pdf_) pdf_->close();
}

}  // namespace plimsoll
