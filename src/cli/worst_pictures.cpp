#include "cli/worst_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/page_pictures.h"
#include "data/image.h"
#include "draw/annotate.h"

namespace plimsoll {

void WorstPictures::plan(RunOptions& options, const Dataset* held_out) {
  if (held_out == nullptr || !options.reports_to_tensorboard()) return;
  const PageSource& pages = held_out->source();
  bool has_images = false;
  for (std::size_t i = 0; i < pages.size() && !has_images; ++i) has_images = !pages.read(i).image.empty();
  // The PNG file, which is held after the drawing is freed, is smaller than the drawing.
  if (has_images) options.memory.drawing_bytes = PagePictures::bytes(pages);
}

WorstPageObserver WorstPictures::observer() {
  return [this](const PageLoss& loss, const Page& page, const AnnotatedPage& drawn) {
    try {
      add(loss, page, drawn);
    } catch (const Error& error) {
      log_warning(fmt::format("a page is not drawn for TensorBoard: {}: {} ({})", place(page), error.problem().what,
                              error.problem().found));
    }
  };
}

void WorstPictures::add(const PageLoss& loss, const Page& page, const AnnotatedPage& drawn) {
  const auto rank = static_cast<std::size_t>(
      std::distance(worst_.begin(), std::ranges::find(worst_, loss.page, &PageLoss::page)) + 1);
  AnnotatedPage picture = drawn;
  picture.output_png = folder_ / "worst.png";
  draw_annotated_page(picture);
  const ImageInfo size = read_image_info(picture.output_png);
  file_.add_image(step_, fmt::format("worst/{}", rank), read_text_file(picture.output_png), size.width, size.height);
  std::error_code ignored;
  std::filesystem::remove(picture.output_png, ignored);
  lines_[rank] = fmt::format("worst/{}  loss {:.4f}  {}", rank, loss.loss, place(page));
}

void WorstPictures::write_table() {
  if (lines_.empty()) return;
  std::string table;
  for (const auto& [rank, line] : lines_) table += line + "\n";
  file_.add_text(step_, "worst", fmt::format("```\n{}```", table));
}

}  // namespace plimsoll
