// The table of formats. To add one, write a file that reads or writes it and a row here.
//
//   if (const InputFormat* format = recognised(look_at(path))) use(format->name);
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "convert/convert.h"
#include "convert/evidence.h"
#include "convert/found_page.h"
#include "convert/losses.h"
#include "convert/pictures.h"
#include "data/label_scheme.h"

namespace plimsoll {

// What a reader gets besides its file.
struct Reading {
  const ConvertOptions& options;
  const Pictures& pictures;
  Losses& losses;
  std::function<void(FoundPage&&)> take;  // is called for each page, in order
};

struct InputFormat {
  const char* name;         // as in --from
  const char* description;  // "hOCR 1.2"
  bool (*recognises)(const Evidence& evidence);
  // Throws DataError for a file that is not of the format.
  void (*read)(const std::filesystem::path& file, const Reading& reading);
};

// The names that pages use, known before the first page is written.
struct PageNames {
  std::set<std::string> labels{};         // of words, with tags
  std::set<std::string> entity_labels{};  // of entities
  std::set<std::string> classes{};
  bool has_links = false, has_predictions = false;

  void add(const FoundPage& page);
  LabelScheme scheme() const;  // of the labels of words
};

struct Writing {
  const ConvertOptions& options;
  const PageNames& names;
  Losses& losses;
  std::function<void(std::string_view)> write;  // to the output
};

class PageWriter {
 public:
  virtual ~PageWriter() = default;
  // `predicted` is what a model says about the same page; nullptr: nothing.
  virtual void write(const FoundPage& page, const FoundPage* predicted) = 0;
  virtual void finish() {}
};

// Says what a format needs of the boxes of pages in Plimsoll's own format; those of all others become pixels.
enum class OwnBoxes : std::uint8_t {
  kUnread,     // nothing
  kAsTheyAre,  // pixels stay as they are, thousandths become pixels
  kMeasured    // they are pixels of the page, whose size must be known
};

struct OutputFormat {
  const char* name;  // as in --to
  const char* description;
  bool needs_names;  // PageNames are collected in a first pass
  OwnBoxes own_boxes;
  std::unique_ptr<PageWriter> (*make)(const Writing& writing);
};

std::span<const InputFormat> input_formats();
std::span<const OutputFormat> output_formats();

// Returns the first format of the table that recognises the file; nullptr if none does.
const InputFormat* recognised(const Evidence& evidence);
// Return the names of formats, for messages: "alto, azure, …".
std::string input_format_names();

}  // namespace plimsoll
