// The check on data before anything is trained: reads every page and every image's header and reports what would break
// a run or spoil its result. One page is in memory at a time.
//
//   const CheckReport report = check_pages(*source, {.labels = &labels, .encoder = &encoder});
//   if (report.findings.count(Severity::kError) > 0) …
//
// Kinds, stable for machines. Errors: whatever PageError and ImageError name ("bad-json", "missing-key", "wrong-type",
// "counts-differ", "box-shape", "not-finite", "not-utf8", "label-numbers", "label-unknown", "image-missing",
// "image-unreadable", "image-kind", "image-too-large"), "box-outside", "labels-missing", "empty-page", "page-too-long".
// Warnings: "box-inverted", "duplicate-id", "image-size", "image-damaged", "word-without-tokens", "words-lost".
// Infos: "long-page".
#pragma once

#include <cstdint>

#include "data/findings.h"
#include "data/labels.h"
#include "data/page_source.h"
#include "data/windows.h"

namespace plimsoll {

struct CheckOptions {
  BoxFormat box_format = BoxFormat::kPixel;
  const LabelSet* labels = nullptr;      // absent: any label name will do
  bool labels_required = false;          // training and evaluation
  const WordEncoder* encoder = nullptr;  // absent: nothing is said about tokens
  WindowOptions windows{};
  bool decode_images = false;  // decode each image too, instead of its header only
};

struct CheckReport {
  Findings findings;
  std::uint64_t pages = 0;  // that could be read
  std::uint64_t words = 0;
  std::uint64_t labelled_words = 0;  // with a label other than O
  std::uint64_t tokens = 0;
  std::uint64_t windows = 0;
  std::uint64_t longest_page_tokens = 0;
};

CheckReport check_pages(const PageSource& source, const CheckOptions& options);

}  // namespace plimsoll
