#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/free_names.h"
#include "base/in_quotes.h"
#include "base/log.h"
#include "base/lower_case.h"
#include "convert/formats.h"
#include "convert/pages_file.h"
#include "convert/readers.h"
#include "data/file_kind.h"
#include "data/page.h"
#include "data/page_source.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr Loss kSameId{"page has the name of an earlier one, and gets a number besides",
                       "pages have the names of earlier ones, and get numbers besides"};
constexpr Loss kUncertain{"word is less certain than --min-confidence and is left out",
                          "words are less certain than --min-confidence and are left out"};
constexpr Loss kNoSegment{"word has no line or field, and keeps its own box (--segment-boxes)",
                          "words have no line or field, and keep their own boxes (--segment-boxes)"};
constexpr Loss kEmptyPage{"page has no words: it can be predicted, but not trained on",
                          "pages have no words: they can be predicted, but not trained on"};

// The files of a folder that may be converted, sorted.
PagePaths files_in(const fs::path& folder) {
  PagePaths files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = lower_case(entry.path().extension().string());
    const bool known = extension == ".json" || extension == ".jsonl" || extension == ".xml" || extension == ".hocr" ||
                       extension == ".html" || extension == ".htm" || extension == ".xhtml" || extension == ".tsv" ||
                       extension == ".alto" || extension == ".page";
    if (known && name.front() != '.' && entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const InputFormat& format_named(const std::string& name) {
  for (const InputFormat& format : input_formats()) {
    if (name == format.name) return format;
  }
  throw UsageError({.what = "an unknown format",
                    .where = "--from",
                    .found = name,
                    .allowed = input_format_names(),
                    .remedy = "omit --from: formats are recognised by what is in a file"});
}

const OutputFormat& output_named(const std::string& name) {
  for (const OutputFormat& format : output_formats()) {
    if (name == format.name) return format;
  }
  throw UsageError({.what = "an unknown format",
                    .where = "--to",
                    .found = name,
                    .allowed = "pages, label-studio or conll",
                    .remedy = "name one of these"});
}

// The format of each file: that of --from, or the recognised one, which is logged once for each format.
class Formats {
 public:
  explicit Formats(const ConvertOptions& options) {
    if (!options.from.empty()) given_ = &format_named(options.from);
  }

  const InputFormat& of(const fs::path& file) {
    if (given_ != nullptr) return *given_;
    const auto known = known_.find(file);
    if (known != known_.end()) return *known->second;
    const Evidence evidence = look_at(file);
    const InputFormat* const format = recognised(evidence);
    if (format == nullptr) {
      std::string found = "a file with the marks of none of these formats";
      std::string remedy = "if the file is damaged or cut, get it again; if it is one of these, name it: --from FORMAT";
      if (evidence.head.find_first_not_of(" \t\r\n") == std::string::npos) found = "an empty file";
      if (!evidence.root.empty()) found = fmt::format("XML or HTML with the root <{}>", evidence.root);
      if (!evidence.members.empty())
        found = fmt::format("JSON with the member {}", in_quotes(*evidence.members.begin()));
      const std::optional<FileKind> kind = recognise_file(file);
      if (kind && kind->format != Format::kMarkup && kind->format != Format::kTable) {
        found = kind->name;
        remedy = data_remedy(*kind, file);
      } else if (const std::size_t valid = invalid_utf8_offset(evidence.head);
                 valid != std::string::npos && valid + 4 < evidence.head.size()) {
        found = fmt::format("text that is not UTF-8 from byte {} on", valid);
        remedy = fmt::format("if it is Latin-1, convert it: iconv -f LATIN1 -t UTF-8 {}", shell_word(file.string()));
      }
      throw DataError({.what = "a file's format is not recognised",
                       .where = file.string(),
                       .found = std::move(found),
                       .allowed = input_format_names(),
                       .remedy = std::move(remedy)});
    }
    const bool said =
        std::any_of(known_.begin(), known_.end(), [&](const auto& each) { return each.second == format; });
    if (!said) log_info(fmt::format("{} is read as {}: {}", file.string(), format->name, format->description));
    known_.emplace(file, format);
    return *format;
  }

 private:
  const InputFormat* given_ = nullptr;
  std::map<fs::path, const InputFormat*> known_{};
};

// The predictions of a run for the converted pages: they are in the same order, but pages that could not be read are
// missing.
class Predictions {
 public:
  explicit Predictions(const ConvertOptions& options)
      : file_(options.predictions, options.label_names), path_(options.predictions) {
    next_ = file_.next();
  }

  // Returns the prediction for the page; nullptr if there is none.
  const FoundPage* of(const FoundPage& page) {
    if (!next_) return nullptr;
    if (!is_of(*next_, page)) {
      if (next_->id == page.id) skipped_ = page.id;
      return nullptr;
    }
    current_ = std::move(next_);
    next_ = file_.next();
    return &*current_;
  }

  void finish() const {
    if (!next_) return;
    if (skipped_ && *skipped_ == next_->id) {
      throw DataError({.what = "a prediction has other words than its page",
                       .where = next_->where,
                       .found = in_quotes(next_->id),
                       .allowed = "what predict writes of the same pages",
                       .remedy = "predict the pages again: their words have changed since, or come from another OCR"});
    }
    throw DataError({.what = "a prediction is of no page of the input, or out of order",
                     .where = next_->where,
                     .found = in_quotes(next_->id),
                     .allowed = "what predict writes of the same pages, in their order",
                     .remedy = fmt::format("pass to --input the files that {} was predicted from", path_.string())});
  }

 private:
  static bool is_of(const FoundPage& prediction, const FoundPage& page) {
    const bool named = page.more.is_object() && page.more.contains("id");
    return (!named || prediction.id == page.id) &&
           std::equal(prediction.words.begin(), prediction.words.end(), page.words.begin(), page.words.end(),
                      [](const FoundWord& a, const FoundWord& b) { return a.text == b.text; });
  }

  PagesFile file_;
  fs::path path_;
  std::optional<FoundPage> next_{}, current_{};
  std::optional<std::string> skipped_{};  // the last page that had the next prediction's id and other words
};

void leave_out_uncertain(FoundPage& page, double least, Losses& losses) {
  // Labels, entities and answers to questions count words.
  if (!(least > 0) || page.is_labelled() || page.more.contains("questions")) return;
  const auto uncertain = [&](const FoundWord& word) { return word.confidence && *word.confidence < least; };
  // Lists of a page in Plimsoll's own format that are as long as its words have an element for each.
  for (nlohmann::json& member : page.more) {
    if (!member.is_array() || member.size() != page.words.size()) continue;
    nlohmann::json kept = nlohmann::json::array();
    for (std::size_t w = 0; w < page.words.size(); ++w) {
      if (!uncertain(page.words[w])) kept.push_back(std::move(member[w]));
    }
    member = std::move(kept);
  }
  const auto first = std::remove_if(page.words.begin(), page.words.end(), uncertain);
  losses.add(kUncertain, page.where, static_cast<std::uint64_t>(page.words.end() - first));
  page.words.erase(first, page.words.end());
}

void use_segments(FoundPage& page, Losses& losses) {
  for (FoundWord& word : page.words) {
    if (word.segment) {
      word.box = *word.segment;
    } else {
      losses.add(kNoSegment, page.where);
    }
  }
}

// XML may contain bytes that are not UTF-8 although it says so; readers of the output would stop there.
void check_text(const FoundPage& page) {
  const auto check_one = [&](const std::string& text, const char* what) {
    const std::size_t at = invalid_utf8_offset(text);
    if (at == std::string_view::npos) return;
    throw DataError({.what = fmt::format("{} is not UTF-8", what),
                     .where = page.where,
                     .found = fmt::format("byte 0x{:02x} at {} of it", static_cast<unsigned char>(text[at]), at),
                     .allowed = "UTF-8, or the encoding that the file names at its begin",
                     .remedy = "write the file again with encoding UTF-8"});
  };
  for (const FoundWord& word : page.words) check_one(word.text, "a word");
  for (const std::string& label : page.labels) check_one(label, "a label");
  check_one(page.id, "a page's name");
  check_one(page.document, "a document's name");
  check_one(page.image, "a picture's name");
  check_one(page.picture.string(), "a picture's path");
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return !a.empty() && !b.empty() && fs::equivalent(a, b, error) && !error;
}

class Conversion {
 public:
  explicit Conversion(const ConvertOptions& options)
      : options_(options), to_(output_named(options.to)), formats_(options), pictures_(options.images, options.dpi) {}

  ConvertSummary run() {
    if (to_.needs_names) collect_names();
    OutputFile output(options_.output);
    const std::unique_ptr<PageWriter> writer =
        to_.make({.options = options_, .names = names_, .losses = losses_, .write = [&](std::string_view text) {
                    output.write(text);
                  }});
    std::optional<Predictions> predictions;
    if (!options_.predictions.empty()) predictions.emplace(options_);
    read_all(losses_, [&](FoundPage&& page, const InputFormat& format) {
      prepare(page, format);
      const FoundPage* const predicted = predictions ? predictions->of(page) : nullptr;
      writer->write(page, predicted);
      ++summary_.pages;
      summary_.words += page.words.size();
      summary_.labelled_pages += page.is_labelled() && !page.predicted ? 1 : 0;
      summary_.predicted_pages += page.predicted || predicted != nullptr ? 1 : 0;
    });
    if (predictions) predictions->finish();
    if (summary_.pages == 0) refuse_nothing();
    writer->finish();
    if (!options_.label_config.empty()) {
      write_text_file(options_.label_config, label_studio_config(names_, options_.label_names));
      summary_.wrote_label_config = true;
    }
    output.close();
    summary_.lost = losses_.lines();
    return summary_;
  }

 private:
  using Take = std::function<void(FoundPage&&, const InputFormat&)>;

  void read_all(Losses& losses, const Take& take) {
    for (const fs::path& file : options_.inputs) {
      const InputFormat& format = formats_.of(file);
      format.read(file, {.options = options_, .pictures = pictures_, .losses = losses, .take = [&](FoundPage&& page) {
                           take(std::move(page), format);
                         }});
    }
  }

  void collect_names() {
    Losses said_later;
    read_all(said_later, [&](FoundPage&& page, const InputFormat&) { names_.add(page); });
    if (options_.predictions.empty()) return;
    PagesFile predictions(options_.predictions, options_.label_names);
    while (const std::optional<FoundPage> page = predictions.next()) names_.add(*page);
  }

  // Files of one name in several folders give pages and documents of one name, which the commands that read pages
  // refuse, or join.
  void name_once(FoundPage& page) {
    if (page.more.is_object()) {  // pages keep their own names
      page_names_.keep(page.id);
      if (!page.document.empty()) names_of_documents_.keep(page.document);
      return;
    }
    const std::string own = std::exchange(page.id, page_names_.take(page.id));
    if (page.id != own) losses_.add(kSameId, page.where);
    if (page.document.empty()) return;
    const auto [name, added] = document_names_.try_emplace(std::pair(page.file, page.document));
    if (added) name->second = names_of_documents_.take(page.document);
    page.document = name->second;
  }

  void prepare(FoundPage& page, const InputFormat& format) {
    name_once(page);
    const bool thousandths = page.unit == BoxUnit::kShare;
    const bool placed = !page.more.is_object() || to_.own_boxes == OwnBoxes::kMeasured ||
                        (to_.own_boxes == OwnBoxes::kAsTheyAre && thousandths);
    leave_out_uncertain(page, options_.least_confidence, losses_);
    if (placed) {
      pictures_.place(page, losses_);
    } else if (const auto found = pictures_.find(page)) {
      page.picture = *found;  // only the path to the picture changes with the file's place
    }
    check_text(page);
    // FUNSD's reader has given words the boxes of their entities.
    if (options_.segment_boxes && std::string_view(format.name) != "funsd") use_segments(page, losses_);
    if (page.words.empty()) losses_.add(kEmptyPage, page.where);
    if (is_same_file(page.picture, options_.output) || is_same_file(page.picture, options_.label_config)) {
      throw UsageError({.what = "the output would overwrite a page's picture",
                        .where = "--output",
                        .found = page.picture.string(),
                        .allowed = "a file that the command does not read",
                        .remedy = "pass a new file"});
    }
  }

  [[noreturn]] void refuse_nothing() const {
    std::string lost;
    for (const std::string& line : losses_.lines()) lost += (lost.empty() ? "" : "; ") + line;
    throw DataError({.what = "the input has no page that can be converted",
                     .where = listed(options_.inputs),
                     .found = lost.empty() ? "no page" : lost,
                     .allowed = "at least one page",
                     .remedy = "look at the files: are they what you meant to convert?"});
  }

  const ConvertOptions& options_;
  const OutputFormat& to_;
  Formats formats_;
  Pictures pictures_;
  PageNames names_{};
  Losses losses_{};
  ConvertSummary summary_{};
  FreeNames page_names_{}, names_of_documents_{};
  std::map<std::pair<fs::path, std::string>, std::string> document_names_{};  // of a file's documents
};

}  // namespace

PagePaths convert_inputs(const std::vector<std::string>& given) {
  PagePaths files;
  for (const fs::path& path : match_paths(given)) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    fs::path folder = path;
    for (const char* inner : {"annotations", "json"}) {
      if (fs::is_directory(path / inner, error)) folder = path / inner;
    }
    const PagePaths inside = files_in(folder);
    if (inside.empty()) {
      throw DataError(
          {.what = "a folder has no file that can be converted",
           .where = folder.string(),
           .found = "no file of JSON, XML, HTML or TSV",
           .allowed = "files of " + input_format_names(),
           .remedy = "name the folder that directly contains the results, or a pattern: 'results/*/*.json'"});
    }
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return each_once(std::move(files));
}

ConvertSummary convert(const ConvertOptions& options) {
  check(!options.inputs.empty(), "there is a file to convert");
  return Conversion(options).run();
}

}  // namespace plimsoll
