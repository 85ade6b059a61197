#include "data/fixes.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <memory>

#include "base/file.h"
#include "data/box_checks.h"
#include "data/dataset.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // keys keep their order

Json to_json(const Box& box) {
  Json json = Json::array();
  for (const double value : box) {
    if (value == std::floor(value)) {
      json.push_back(static_cast<std::int64_t>(value));
    } else {
      json.push_back(value);
    }
  }
  return json;
}

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

class Fixer {
 public:
  Fixer(const PageSource& source, BoxFormat format, fs::path out, bool segment_boxes, std::size_t places_kept)
      : source_(source),
        path_(source.paths().front()),
        format_(format),
        out_(std::move(out)),
        segment_boxes_(segment_boxes) {
    if (source.paths().size() > 1) {
      throw UsageError({.what = "--fix takes one file at a time",
                        .where = "--fix",
                        .found = fmt::format("--data {}", listed(source.paths())),
                        .allowed = "one JSONL file, or one folder of FUNSD",
                        .remedy = "run check --fix for each file"});
    }
    report_.changes = Findings(places_kept);
    // No list is written beside a pipe or a device.
    if (!is_special_file(out_)) report_.list = out_.string() + ".changes.jsonl";
  }

  FixReport run() {
    std::error_code error;
    if (fs::equivalent(path_, out_, error)) {
      throw UsageError({.what = "the copy would overwrite the original",
                        .where = "--fix",
                        .found = out_.string(),
                        .allowed = "a path other than the data's",
                        .remedy = "pass a new file (or folder, for FUNSD)"});
    }
    fs::is_directory(path_, error) ? fs::create_directories(out_ / "annotations", error)
                                   : fs::create_directories(fs::absolute(out_).parent_path(), error);
    if (!report_.list.empty()) list_ = std::make_unique<OutputFile>(report_.list);
    fs::is_directory(path_, error) ? fix_folder() : fix_lines();
    if (list_) list_->close();
    return std::move(report_);
  }

 private:
  // Returns the repairs of a page; none if it cannot be read.
  std::vector<BoxRepair> repairs_of(std::size_t index, Page& page) const {
    try {
      PageFaults faults;
      page = source_.read(index, &faults);
      if (format_ == BoxFormat::kPixel) find_page_size(page);
      return repair_boxes(page, format_, read_boxes(page, format_));
    } catch (const DataError&) {
      return {};
    }
  }

  void record(const Page& page, const std::vector<BoxRepair>& repairs) {
    for (const BoxRepair& repair : repairs) {
      report_.changes.add(Severity::kInfo, repair.kinds,
                          {.what = fmt::format("fixed: {}", repair.kinds),
                           .where = place(page, repair.word),
                           .found = fmt::format("{} becomes {}", to_string(repair.from), to_string(repair.to))});
      if (!list_) continue;
      list_->write(json_text(Json({{"file", page.file.string()},
                                   {"line", page.line},
                                   {"page", page.id},
                                   {"word", repair.word},
                                   {"text", page.words[repair.word]},
                                   {"kinds", repair.kinds},
                                   {"from", to_json(repair.from)},
                                   {"to", to_json(repair.to)}})) +
                   "\n");
    }
    report_.boxes += repairs.size();
    report_.pages += repairs.empty() ? 0U : 1U;
  }

  void fix_lines() {
    const fs::path from = fs::absolute(path_).parent_path(),
                   to = is_special_file(out_) ? fs::current_path() : fs::absolute(out_).parent_path();
    std::error_code error;
    const bool moves = !fs::equivalent(from, to, error);
    std::ifstream in(path_, std::ios::binary);
    OutputFile file(out_);
    std::size_t index = 0;
    for (std::string line; std::getline(in, line);) {
      if (!is_blank(line)) fix_line(line, index++, moves ? to : fs::path());
      if (!in.eof()) line += '\n';
      file.write(line);
    }
    if (!in.eof()) {
      throw DataError({.what = "a file cannot be read completely",
                       .where = fmt::format("{}, after line {}", path_.string(), index),
                       .remedy = "check the disk and the free memory; nothing was written"});
    }
    file.close();
  }

  // `folder` is where the copy will lie, if elsewhere.
  void fix_line(std::string& line, std::size_t index, const fs::path& folder) {
    Page page;
    const std::vector<BoxRepair> repairs = repairs_of(index, page);
    if (repairs.empty() && folder.empty()) return;
    const std::size_t start = line.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    Json json = parse_json(quote_non_finite(std::string_view(line).substr(start)));
    if (!json.is_object()) return;  // broken: kept unchanged and reported
    const auto first_key = [&json](const auto& names) {
      for (const char* name : names) {
        if (json.contains(name) && !json[name].is_null()) return json.find(name);
      }
      return json.end();
    };
    if (const auto image = first_key(kImageKeys); !folder.empty() && image != json.end() && image->is_string()) {
      const fs::path written = image->template get<std::string>();
      if (written.is_relative()) {
        *image = fs::absolute(path_.parent_path() / written)
                     .lexically_normal()
                     .lexically_proximate(folder.lexically_normal())
                     .string();
        ++report_.paths;
      }
    }
    if (const auto boxes = first_key(kBoxKeys); !repairs.empty() && boxes != json.end()) {
      for (const BoxRepair& repair : repairs) (*boxes)[repair.word] = to_json(repair.to);
      record(page, repairs);
    }
    const bool carriage_return = line.ends_with('\r');
    line = line.substr(0, start) + json.dump() + (carriage_return ? "\r" : "");
  }

  void fix_folder() {
    std::error_code error;
    if (!fs::exists(out_ / "images", error)) {
      fs::create_directory_symlink(fs::absolute(path_ / "images"), out_ / "images", error);
    }
    for (const auto& entry : fs::directory_iterator(path_ / "annotations")) {
      fs::copy(entry.path(), out_ / "annotations" / entry.path().filename(), fs::copy_options::overwrite_existing);
    }
    for (std::size_t index = 0; index < source_.size(); ++index) {
      Page page;
      const std::vector<BoxRepair> repairs = repairs_of(index, page);
      if (repairs.empty()) continue;
      Json json = parse_json(read_text_file(page.file), page.file.string());
      if (!json.is_object()) continue;
      patch_funsd(json, repairs);
      record(page, repairs);
      write_text_file(out_ / "annotations" / page.file.filename(), json.dump());
    }
  }

  // Words are counted as the reader counts them: those that are only spaces do not count.
  void patch_funsd(Json& json, const std::vector<BoxRepair>& repairs) const {
    std::size_t word = 0, next = 0;
    for (Json& entity : json["form"]) {
      for (Json& each : entity["words"]) {
        if (each["text"].get<std::string>().find_first_not_of(" \t\r\n") == std::string::npos) continue;
        if (next < repairs.size() && repairs[next].word == word) {
          (segment_boxes_ ? entity : each)["box"] = to_json(repairs[next++].to);
        }
        ++word;
      }
    }
  }

  const PageSource& source_;
  fs::path path_;
  BoxFormat format_;
  fs::path out_;
  bool segment_boxes_;
  FixReport report_;
  std::unique_ptr<OutputFile> list_;
};

}  // namespace

FixReport write_fixed(const PageSource& source, BoxFormat format, const fs::path& out, bool segment_boxes,
                      std::size_t places_kept) {
  return Fixer(source, format, out, segment_boxes, places_kept).run();
}

}  // namespace plimsoll
