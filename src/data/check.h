// Checks data before anything is trained: reads every page and every image's header on several threads and
// reports what would break a run or spoil its result. Only about a hundred bytes of a page and its
// findings stay in memory.
//
//   const CheckReport report = check_pages(*source, {.labels = &labels, .tokens = source.get(), .threads = 2});
//   if (report.findings.count(Severity::kError) > 0) throw report.findings.to_error("train.jsonl");
//
// Invariant: the report does not depend on the numbers of threads and ranks.
//
// Kinds, stable for machines. Errors: whatever PageError and ImageError name ("bad-json", "repeated-key",
// "missing-key", "wrong-type", "counts-differ", "box-shape", "not-finite", "not-utf8", "label-numbers",
// "label-unknown", "labels-differ", "label-scheme", "size-unknown", "image-missing", "image-unreadable", "image-kind",
// "image-too-large"), "page-unreadable", "weights-unusable", "box-outside", "labels-missing", "label-missing",
// "label-kind", "label-range", "questions-missing", "answers-missing", "answer-outside", "prompt-too-long",
// "entities-missing", "entity-outside", "duplicate-entity", "completion-cut", "too-many-entities", "links-missing",
// "link-outside", "pair-unknown-page", "pair-ambiguous-page", "pair-same-page", "pair-without-page",
// "pair-contradiction" (a warning of rankings), "empty-page", "page-too-long", "token-outside", "tokenizer-size",
// and "duplicate-id" (a warning where labels are not required). Warnings: "box-inverted", "box-fractions",
// "box-thousandths", "box-pixels", "box-order", "box-constant", "box-mirrored", "word-boxes", "image-size",
// "image-turned", "image-damaged", "image-blank", "image-bgr", "word-without-tokens", "words-lost", "tokens-lost",
// "prompt-cut", "window-ignored", "tokenizer-size", "tag-order", "label-unused", "label-untrained",
// "label-misspelt", "label-alone", "label-not-read", "role-unknown", "class-dominant", "nothing-to-learn",
// "answer-text", "answer-cut", "duplicate-question", "pair-twice", "entities-overlap", "entity-unlabelled",
// "link-twice", "link-cut", "link-nowhere", "duplicate-page", "page-in-both", "picture-in-both", "pair-in-both",
// "words-shattered", "labels-whole". Infos: "long-page", "word-boxes", "word-unlabelled",
// "label-scheme" (names without tags; IOB1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_gate.h"
#include "base/bytes.h"
#include "data/findings.h"
#include "data/labels.h"
#include "data/page_share.h"
#include "data/page_sizes.h"
#include "data/page_source.h"
#include "data/targets.h"
#include "data/tokenized_pages.h"
#include "data/windows.h"

namespace plimsoll {

struct CheckOptions {
  PageParts parts{};  // what is checked of a page
  BoxFormat box_format = BoxFormat::kPixel;
  const LabelSet* labels = nullptr;          // nullptr: any label name is accepted
  bool labels_required = false;              // training and evaluation
  bool texts_required = false;               // the same, except for a pair's texts too, as the pair has the label
  bool words_labelled = true;                // the labels are of words; false: of whole pages
  std::shared_ptr<const Targets> targets{};  // absent: the task's own targets are not checked
  bool targets_known = true;                 // false: the caller says that no page has a target
  const TokenizedPages* tokens = nullptr;    // the source, where it has tokens; absent: tokens are not checked
  std::int64_t vocab_size = 0;               // rows of the word embedding; 0: unknown
  WindowOptions windows{};
  bool segments_known = false;              // the data knows which words form a segment; words' boxes were requested
  bool decode_images = false;               // decode each image instead of reading its header only
  std::uint64_t decoding_bytes = 4 * kMiB;  // the most that decoders hold together; a larger image is decoded alone
  // An image that takes more is not decoded: whoever plans the run refuses it. 0: there is no limit.
  std::uint64_t most_decoding_bytes = 0;
  std::vector<std::uint32_t> skipped{};  // pages, ascending, whose images, boxes and lengths are not checked
  std::size_t places_kept = Findings::kPlacesKept;
  bool keeps_bad_pages = false;  // list every page with an error (CheckReport::bad_pages)
  int threads = 1;
  PageShare share{};  // with ranks, each checks its blocks of pages, and all get the whole report
  // Returns the remedy for a page without labels: a better one than `otherwise` if its other keys suggest one; may be
  // absent.
  std::function<std::string(const Page& page, std::string otherwise)> remedy_without_labels{};
  // Called now and then with the number of pages done, by one thread at a time.
  std::function<void(std::size_t done, std::size_t pages)> on_progress{};
};

// Counts; targets are those of tasks other than labelling words.
struct CheckCounts : TargetCounts {
  std::uint64_t pages = 0;  // pages that could be read
  std::uint64_t texts = 0;  // those of them that are running texts
  std::uint64_t words = 0;
  std::uint64_t labelled_words = 0;  // with a label other than O
  std::uint64_t begun_with_b = 0;    // entities in IOB that begin with B- where IOB1 has I-
  std::uint64_t tokens = 0;
  std::uint64_t windows = 0;
  std::uint64_t longest_page_tokens = 0;
  std::uint64_t lost_words = 0;     // words of truncated pages
  std::uint64_t lost_tokens = 0;    // tokens of truncated texts
  std::uint64_t segment_pages = 0;  // pages whose words share boxes
  std::uint64_t word_pages = 0;     // pages on which no two consecutive words share a box

  void add(const CheckCounts& other);
};

// The largest coordinates of all boxes, and the smallest page (pixels).
struct BoxExtent {
  double right = 0, bottom = 0;
  int least_width = 1 << 30, least_height = 1 << 30;
  std::uint64_t boxes = 0;
  // Pages with less than 900 pixels on one side, and how many of them have all boxes within these pixels.
  std::uint64_t small_pages = 0, small_pages_filled = 0;

  void include(const Page& page);
  void include(const BoxExtent& other);
};

// A page with an error, by its index, and the first of its errors.
struct BadPage {
  std::uint32_t page = 0;
  Problem problem{};
};

// Hashes, each with the first page that has it.
using PageHashes = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

struct CheckReport : CheckCounts {
  Findings findings;
  PageSizes sizes{};
  std::map<std::string, std::uint64_t> labels;  // occurrences, on words or pages
  // These are of words and boxes, for pages with enough of them; they are sorted.
  PageHashes contents;
  PageHashes pictures;             // of the images' paths of all pages, sorted
  std::vector<BadPage> bad_pages;  // ascending; with CheckOptions::keeps_bad_pages
};

CheckReport check_pages(const PageSource& source, const CheckOptions& options);

// Adds "tokenizer-size": an error if the tokenizer has ids beyond the word embedding's rows, a warning if it has far
// fewer than rows (some models round their rows up).
void check_tokenizer_size(std::int64_t tokenizer_ids, std::int64_t embedding_rows, const std::string& where,
                          Findings& findings);

// Compares a training set with an evaluation set: "page-in-both", "picture-in-both", "label-untrained", "word-boxes".
// It uses only the options on labels and places.
struct CheckedData {
  const PageSource& source;
  const CheckReport& report;
};
Findings compare_data(const CheckedData& train, const CheckedData& evaluation, const CheckOptions& options = {});

}  // namespace plimsoll
