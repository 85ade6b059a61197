// The options and the work that `ocr` and `predict --input` share: documents are read into a JSONL file of pages.
//
//   DocumentInput input;
//   add_document_options(command, input);
//   const WrittenPages summary = write_pages(invocation, input, {.output = "pages.jsonl", .images =
//   "pages.images"});
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "ocr/read_documents.h"
#include "request/memory.h"

namespace plimsoll {

struct DocumentInput {
  std::vector<std::string> files;  // as typed
  std::string images;
  std::string language = "eng";
  std::string tessdata_dir;
  std::string layout = "auto";
  std::string enlarge = "never";
  std::string word_order = "found";
  std::string pdf_reader = "auto";
  double min_confidence = 0;
  int dpi = 300;
  bool ignore_pdf_text = false, keep_rotation = false, drop_specks = false;

  // Returns every path that is read, with the option that named it.
  std::vector<NamedPath> inputs() const;
};

// Adds --input and how it is read. The heading is "Documents".
void add_document_options(Command* command, DocumentInput& input);
// Warns of those that say how documents are read, if none is.
void tell_idle_document_options(const Command& command, const DocumentInput& input);

// Returns what identifies a set of documents: their names and sizes, in their order.
std::string documents_fingerprint(const DocumentInput& input);

struct PagesPlace {
  std::filesystem::path output{};  // the JSONL file
  std::filesystem::path images{};  // a directory that is created for the first picture; empty: none
  bool owns_images = false;        // the directory is the caller's own, so it needs no mark
  bool absolute_paths = false;     // do not name images relative to the output's folder, which is temporary
  bool every_rank = false;         // `output` is each rank's own; otherwise the first one writes it
  int threads = 1;
  ReadingBudget budget{};
  std::optional<ShardNumber> shard{};  // the part of all pages that is read
  bool whole_documents = false;        // each document's pages are all in the same part
  std::filesystem::path named_from{};  // the file to whose folder images' paths are relative; empty: `output`
};

struct WrittenPages : DocumentSummary {
  FileSum sum{};  // of the output; zeros on a rank that does not write it
};

// Returns the budget for reading: of the process, in whose memory pages are read.
ReadingBudget reading_budget(const MemoryRequest& memory);

// Reads all documents, or a shard of their pages, and writes a line for each page. Warnings say what could not be read;
// throws DataError if no page of any document could. With ranks, each reads its share of the pages. If signals are
// watched (cli/signals.h), Ctrl-C leaves no incomplete file behind.
WrittenPages write_pages(const Invocation& invocation, const DocumentInput& input, const PagesPlace& place);

// A directory for short-lived files that is removed with this object, or when a signal ends the process.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace plimsoll
