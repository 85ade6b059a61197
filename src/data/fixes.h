// Copies a data set and repairs the faults that can be repaired for certain (data/box_checks.h says which).
//
//   const FixReport report = write_fixed(*source, BoxFormat::kPixel, "mended.jsonl");
//   // mended.jsonl, and mended.jsonl.changes.jsonl with a line for each box that changed
//
// Lines without a repair are copied byte for byte, faulty ones too, unless the copy lies in another folder: then
// `image` is rewritten relative to that folder. Into a pipe or device, paths are relative to the working directory, and
// no list of changes is written beside it. The original and its pictures are never changed.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/findings.h"
#include "data/page_source.h"

namespace plimsoll {

struct FixReport {
  Findings changes;              // infos by the kinds repaired: place, and "[12, …] becomes [11, …]"
  std::uint64_t boxes = 0;       // boxes changed
  std::uint64_t pages = 0;       // pages with a changed box
  std::uint64_t paths = 0;       // pages whose image path is rewritten for another folder
  std::filesystem::path list{};  // the list of all changes; empty: none
};

// `out` is a file for JSONL, a folder for FUNSD (images/ in it becomes a link to the original's). Throws UsageError if
// it is the original itself, EnvironmentError if it cannot be written.
FixReport write_fixed(const PageSource& source, BoxFormat format, const std::filesystem::path& out,
                      bool segment_boxes = false, std::size_t places_kept = Findings::kPlacesKept);

}  // namespace plimsoll
