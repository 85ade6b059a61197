// The pages with the highest loss as pictures in TensorBoard's event file, with what was found on them: worst/1 to
// worst/6, beginning with the highest loss, and a table of them.
//
//   WorstPictures::plan(options, &held_out);
//   WorstPictures pictures(*log.file(), evaluation.worst, steps, work_folder("run"));
//   write_worst_pages(session, bundle, held_out, loader, format, evaluation.worst, path, pictures.observer());
//   pictures.write_table();
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/run_options.h"
#include "data/dataset.h"
#include "formats/event_file.h"
#include "train/worst_pages.h"

namespace plimsoll {

class WorstPictures {
 public:
  // Pictures are drawn in `folder`, one at a time, and removed.
  WorstPictures(EventFile& file, const std::vector<PageLoss>& worst, std::int64_t step, std::filesystem::path folder)
      : file_(file), worst_(worst), step_(step), folder_(std::move(folder)) {}

  // Makes the plan of a run that reports to TensorBoard count what drawing the largest of the held-out pages takes. It
  // reads every image's header.
  static void plan(RunOptions& options, const Dataset* held_out);
  // A page that cannot be drawn causes only a warning: a finished run does not fail because of a picture.
  WorstPageObserver observer();
  // Writes the places and losses of the pages that were drawn.
  void write_table();

 private:
  void add(const PageLoss& loss, const Page& page, const AnnotatedPage& drawn);

  EventFile& file_;
  const std::vector<PageLoss>& worst_;
  std::int64_t step_;
  std::filesystem::path folder_;
  std::map<std::size_t, std::string> lines_;  // by rank
};

}  // namespace plimsoll
