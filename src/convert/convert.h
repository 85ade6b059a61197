// Turns files of other programs into pages, and pages into files of other programs.
//
//   ConvertOptions options{.inputs = {"scan.hocr"}, .output = "pages.jsonl"};
//   const ConvertSummary summary = convert(options);
//   use(summary.pages, summary.words, summary.lost);
//
// Formats are rows of a table (convert/formats.h). Pages go through one at a time: memory grows with the largest file
// of JSON or XML, not with their number; TSV and JSONL are read line by line, and Label Studio's tasks are parsed one
// by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/page_source.h"

namespace plimsoll {

struct ConvertOptions {
  PagePaths inputs{};  // files (convert_inputs)
  std::filesystem::path output{};
  std::filesystem::path predictions{};       // `predict`'s lines for the inputs' pages; empty: none
  std::filesystem::path images{};            // the folder of the pictures; empty: they are looked for beside the inputs
  std::string from{};                        // a name of input_formats(); empty: recognised
  std::string to = "pages";                  // a name of output_formats()
  BoxFormat box_format = BoxFormat::kPixel;  // for pages' boxes
  double dpi = 150;                          // pixels per inch, for boxes in lengths without a picture
  double least_confidence = 0;               // 0 to 1: words that an OCR engine is less sure of are left out
  bool segment_boxes = false;                // a word gets the box of its line or field
  std::vector<std::string> label_names{};    // for labels that are numbers; for a labelling configuration also others
  std::string image_url = "/data/local-files/?d=";  // the prefix of a picture's path in Label Studio's tasks
  std::string model_version = "plimsoll";           // for predictions in Label Studio's tasks
  std::filesystem::path label_config{};             // Label Studio's labelling configuration; empty: none is written
};

struct ConvertSummary {
  std::uint64_t pages = 0, words = 0;
  std::uint64_t labelled_pages = 0, predicted_pages = 0;
  bool wrote_label_config = false;
  std::vector<std::string> lost;  // sentences that say what was lost, each with its count
};

// Returns the files that patterns, files and folders name, in their order. A folder means its JSON, XML, HTML and TSV
// files, or those in its `annotations` (FUNSD) or `json` (CORD). Throws DataError for a name that is none of these.
PagePaths convert_inputs(const std::vector<std::string>& given);

// Throws DataError for a file that is damaged or of no known format, naming file, page and element, and UsageError for
// options that contradict each other or the files; `output` is then unchanged.
ConvertSummary convert(const ConvertOptions& options);

}  // namespace plimsoll
