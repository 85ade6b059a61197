// A copy of a data set with the faults mended that can be mended without a guess (data/box_checks.h says which).
//
//   const FixReport report = write_fixed(*source, BoxFormat::kPixel, "mended.jsonl");
//   // mended.jsonl, and mended.jsonl.changes.jsonl with a line for each box that is another
//
// Lines without a repair are copied byte for byte, faulty ones too, unless the copy lies in another folder: then
// `image` is written as seen from there. Into a pipe or device they are written as seen from the working directory, and
// without a list of changes beside it. Original and pictures are never touched.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/findings.h"
#include "data/page_source.h"

namespace plimsoll {

struct FixReport {
  Findings changes;              // infos by the kinds mended: where, and "[12, …] becomes [11, …]"
  std::uint64_t boxes = 0;       // changed
  std::uint64_t pages = 0;       // with a changed box
  std::uint64_t paths = 0;       // pages whose image is written as seen from another folder
  std::filesystem::path list{};  // of all changes; empty: none
};

// `out`: a file for JSONL, a folder for FUNSD (images/ in it becomes a link to the original's). Throws UsageError if it
// is the original itself, EnvironmentError if it cannot be written.
FixReport write_fixed(const PageSource& source, BoxFormat format, const std::filesystem::path& out,
                      bool segment_boxes = false, std::size_t places_kept = Findings::kPlacesKept);

}  // namespace plimsoll
