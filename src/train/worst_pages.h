// worst.json: the pages on which the last evaluation found the highest loss, with what was found on them and what
// was expected, for `plimsoll report` to draw.
//
//   write_worst_pages(session, bundle, held_out, loader, BoxFormat::kPixel, evaluation.worst, run / "worst.json");
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "bundle/model_bundle.h"
#include "data/annotated_page.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "fit/session.h"
#include "train/evaluation.h"

namespace plimsoll {

// The number of pages that a run records.
inline constexpr std::size_t kWorstPages = 6;

// Called for a page that can be drawn, because it has boxes and an image, when its line was written.
using WorstPageObserver = std::function<void(const PageLoss& loss, const Page& page, const AnnotatedPage& drawn)>;

// Predicts these pages again and writes a line for each as soon as it is predicted, so that one page is held at a time;
// it uses the evaluation program and a loader, which the plan counts. A page that can no longer be read is left out.
//
//   {"version": 1, "pages": [{"id", "where", "loss", "image", "width", "height", "caption", "scheme",
//     "words": [[text, label, confidence or null, given label or null, x0, y0, x1, y1], …],
//     "links": [[from word, to word, "predicted", "right", "wrong" or "missed"], …]}, …]} (JSON)
//
// With ranks, all of them call this, and the first one writes.
//
// Boxes are in pixels of the image; a page whose model sees no boxes has none (five entries per word). Throws
// EnvironmentError (disk).
void write_worst_pages(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                       const LoaderOptions& loader, BoxFormat format, const std::vector<PageLoss>& worst,
                       const std::filesystem::path& path, const WorstPageObserver& observer = {});

}  // namespace plimsoll
