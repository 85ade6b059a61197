#include "train/worst_pages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/file.h"
#include "data/label_scheme.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

const char* state_name(AnnotatedLink::State state) {
  constexpr std::array kNames = {"predicted", "right", "wrong", "missed"};
  return kNames.at(static_cast<std::size_t>(state));
}

// Returns a path of the image that stays valid when the run's directory is read from another working directory.
std::string whole_path(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path whole = path.empty() ? path : std::filesystem::absolute(path, error);
  return (error ? path : whole).string();
}

nlohmann::json words_json(const AnnotatedPage& drawn, const Page& page, bool has_boxes) {
  nlohmann::json words = nlohmann::json::array();
  for (std::size_t w = 0; w < drawn.words.size(); ++w) {
    const AnnotatedWord& word = drawn.words[w];
    const bool known = word.confidence && std::isfinite(*word.confidence);
    nlohmann::json entry = {w < page.words.size() ? page.words[w] : std::string(), word.label,
                            known ? nlohmann::json(std::round(*word.confidence * 1e4) / 1e4) : nlohmann::json(),
                            word.gold_label ? nlohmann::json(*word.gold_label) : nlohmann::json()};
    for (const double side : word.box) {
      if (has_boxes) entry.push_back(std::round(side * 10) / 10);
    }
    words.push_back(std::move(entry));
  }
  return words;
}

std::string line_of(const AnnotatedPage& drawn, const Page& page, double loss, bool has_boxes) {
  nlohmann::json links = nlohmann::json::array();
  for (const AnnotatedLink& link : drawn.links) {
    links.push_back({link.from_word, link.to_word, state_name(link.state)});
  }
  const nlohmann::json line = {{"id", page.id},
                               {"where", place(page)},
                               {"loss", std::isfinite(loss) ? nlohmann::json(loss) : nlohmann::json()},
                               {"image", whole_path(page.image)},
                               {"width", page.width},
                               {"height", page.height},
                               {"caption", drawn.caption},
                               {"scheme", scheme_name(drawn.scheme)},
                               {"words", words_json(drawn, page, has_boxes)},
                               {"links", std::move(links)}};
  return json_text(line);
}

}  // namespace

void write_worst_pages(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                       const LoaderOptions& loader, BoxFormat format, const std::vector<PageLoss>& worst,
                       const std::filesystem::path& path, const WorstPageObserver& observer) {
  std::optional<OutputFile> file;
  if (session.ranks() == nullptr || session.ranks()->rank() == 0) file.emplace(path);
  if (file) file->write("{\"version\":1,\"pages\":[");
  PredictControl control{.on_bad_page = [](const BadPageError&) {}};
  for (std::uint32_t page = 0; page < dataset.source().size(); ++page) {
    if (std::ranges::find(worst, page, &PageLoss::page) == worst.end()) control.skipped.push_back(page);
  }
  const std::unique_ptr<Predictions> predictions = bundle.task().predictions(bundle.config.task, {});
  const char* comma = "\n";
  const auto write_page = [&](std::uint32_t index) {
    if (!file) return;
    try {
      Page page = dataset.source().read(index);
      const PageLoss& of = *std::ranges::find(worst, index, &PageLoss::page);
      const bool has_boxes = page.boxes.size() == page.words.size();
      if (!has_boxes) page.boxes.assign(page.words.size(), Box{});
      if (page.width == 0 && !page.image.empty()) read_page_image_info(page);
      AnnotatedPage drawn = predictions->drawing(page, format);
      drawn.width = page.width, drawn.height = page.height;
      file->write(comma + line_of(drawn, page, of.loss, has_boxes));
      comma = ",\n";
      if (observer && has_boxes && !page.image.empty()) observer(of, page, drawn);
    } catch (const DataError&) {  // its image is gone
    }
  };
  if (!worst.empty()) predict_pages(session, bundle.definition(), dataset, loader, *predictions, control, write_page);
  if (!file) return;
  file->write("]}\n");
  file->close();
}

}  // namespace plimsoll
