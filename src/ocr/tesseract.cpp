// The reader by Tesseract, through its C interface, which does not change from release to release.
#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>

#include "base/bytes.h"
#include "base/error.h"
#include "base/installed.h"
#include "base/lower_case.h"
#include "ocr/text_reader.h"

#ifdef PLIMSOLL_TESSERACT
#include <dlfcn.h>
#include <leptonica/allheaders.h>
#include <omp.h>
#include <tesseract/capi.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>
#endif

namespace plimsoll {

double mean_confidence(const PageText& text) {
  double sum = 0, letters = 0;
  for (const ReadWord& word : text.words) {
    const auto size = static_cast<double>(word.text.size());
    sum += size * word.confidence;
    letters += size;
  }
  return letters > 0 ? sum / letters : 0;
}

#ifdef PLIMSOLL_TESSERACT
namespace {

namespace fs = std::filesystem;

// Tesseract's functions, as capi.h declares them.
struct Library {
  decltype(&TessVersion) version = nullptr;
  decltype(&TessDeleteText) delete_text = nullptr;
  decltype(&TessBaseAPICreate) create = nullptr;
  decltype(&TessBaseAPIDelete) destroy = nullptr;
  decltype(&TessBaseAPISetVariable) set_variable = nullptr;
  decltype(&TessBaseAPIInit2) init = nullptr;
  decltype(&TessBaseAPISetPageSegMode) set_layout = nullptr;
  decltype(&TessBaseAPISetImage2) set_image = nullptr;
  decltype(&TessBaseAPISetSourceResolution) set_resolution = nullptr;
  decltype(&TessBaseAPIGetThresholdedImage) thresholded = nullptr;
  decltype(&TessBaseAPIRecognize) recognize = nullptr;
  decltype(&TessBaseAPIGetIterator) get_iterator = nullptr;
  decltype(&TessBaseAPIClear) clear = nullptr;
  decltype(&TessBaseAPIClearAdaptiveClassifier) forget = nullptr;
  decltype(&TessResultIteratorDelete) delete_iterator = nullptr;
  decltype(&TessResultIteratorGetPageIterator) page_iterator = nullptr;
  decltype(&TessResultIteratorNext) next = nullptr;
  decltype(&TessResultIteratorGetUTF8Text) text = nullptr;
  decltype(&TessResultIteratorConfidence) confidence = nullptr;
  decltype(&TessPageIteratorBoundingBox) bounding_box = nullptr;
  std::string missing{};  // what could not be loaded, and why; empty: everything was loaded

  Library() {
    const fs::path own = installed(fs::path("lib") / PLIMSOLL_TESSERACT);
    void* const handle = ::dlopen(own.empty() ? PLIMSOLL_TESSERACT : own.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      missing = ::dlerror();
      return;
    }
    load(handle, "TessVersion", version);
    load(handle, "TessDeleteText", delete_text);
    load(handle, "TessBaseAPICreate", create);
    load(handle, "TessBaseAPIDelete", destroy);
    load(handle, "TessBaseAPISetVariable", set_variable);
    load(handle, "TessBaseAPIInit2", init);
    load(handle, "TessBaseAPISetPageSegMode", set_layout);
    load(handle, "TessBaseAPISetImage2", set_image);
    load(handle, "TessBaseAPISetSourceResolution", set_resolution);
    load(handle, "TessBaseAPIGetThresholdedImage", thresholded);
    load(handle, "TessBaseAPIRecognize", recognize);
    load(handle, "TessBaseAPIGetIterator", get_iterator);
    load(handle, "TessBaseAPIClear", clear);
    load(handle, "TessBaseAPIClearAdaptiveClassifier", forget);
    load(handle, "TessResultIteratorDelete", delete_iterator);
    load(handle, "TessResultIteratorGetPageIterator", page_iterator);
    load(handle, "TessResultIteratorNext", next);
    load(handle, "TessResultIteratorGetUTF8Text", text);
    load(handle, "TessResultIteratorConfidence", confidence);
    load(handle, "TessPageIteratorBoundingBox", bounding_box);
  }

 private:
  template <typename Function>
  void load(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    if (function == nullptr && missing.empty()) missing = fmt::format("{} has no {}", PLIMSOLL_TESSERACT, name);
  }
};

// Loads the library at the first call; it stays loaded, because its own threads and objects cannot be shut down safely.
const Library& library() {
  static const Library loaded;
  return loaded;
}

const Library& expect_library() {
  const Library& loaded = library();
  if (loaded.missing.empty()) return loaded;
  throw EnvironmentError({.what = "Tesseract, which reads text from pictures, cannot be loaded",
                          .where = PLIMSOLL_TESSERACT,
                          .found = loaded.missing,
                          .allowed = "the library of Tesseract that this program was built for",
                          .remedy = "install it: apt-get install libtesseract5 tesseract-ocr-eng"});
}

bool has_data(const fs::path& directory, const std::string& language) {
  std::error_code error;
  return fs::is_regular_file(directory / (language + ".traineddata"), error);
}

// Tesseract's own search prints its failures and does not report them to its caller, so its directories are searched
// here.
std::vector<fs::path> data_directories(const TextReaderOptions& options) {
  if (!options.tessdata_dir.empty()) return {options.tessdata_dir};
  std::vector<fs::path> directories;
  if (const char* const named = std::getenv("TESSDATA_PREFIX"); named != nullptr && *named != '\0') {
    directories.emplace_back(named);
    directories.push_back(fs::path(named) / "tessdata");
  }
  if (const fs::path own = installed("share/plimsoll/tessdata"); !own.empty()) directories.push_back(own);
  for (const char* const path : {"/usr/share/tesseract-ocr/5/tessdata", "/usr/share/tesseract-ocr/4.00/tessdata",
                                 "/usr/share/tessdata", "/usr/share/tesseract/tessdata", "/usr/local/share/tessdata"}) {
    directories.emplace_back(path);
  }
  return directories;
}

std::vector<std::string> names_of(const std::string& language) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= language.size();) {
    const std::size_t end = std::min(language.find('+', begin), language.size());
    names.push_back(language.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// Returns what Tesseract calls a language that was named in English, or by its two letters; empty: unknown.
std::string code_of(const std::string& language) {
  static constexpr std::array<std::array<const char*, 3>, 16> kCodes = {{{"english", "en", "eng"},
                                                                         {"german", "de", "deu"},
                                                                         {"french", "fr", "fra"},
                                                                         {"spanish", "es", "spa"},
                                                                         {"italian", "it", "ita"},
                                                                         {"portuguese", "pt", "por"},
                                                                         {"dutch", "nl", "nld"},
                                                                         {"polish", "pl", "pol"},
                                                                         {"russian", "ru", "rus"},
                                                                         {"turkish", "tr", "tur"},
                                                                         {"arabic", "ar", "ara"},
                                                                         {"japanese", "ja", "jpn"},
                                                                         {"korean", "ko", "kor"},
                                                                         {"chinese", "zh", "chi_sim"},
                                                                         {"hindi", "hi", "hin"},
                                                                         {"vietnamese", "vi", "vie"}}};
  const std::string name = lower_case(language);
  for (const auto& [english, letters, code] : kCodes) {
    if (name == english || name == letters) return code;
  }
  return {};
}

// "chi_sim" is in tesseract-ocr-chi-sim; scripts have packages named by their codes.
std::string package_of(const std::string& language) {
  if (language.starts_with("script/")) return "the package tesseract-ocr-script-... of that script";
  std::string name = language;
  std::replace(name.begin(), name.end(), '_', '-');
  return "tesseract-ocr-" + name;
}

std::string installed_in(const std::vector<fs::path>& directories) {
  std::vector<std::string> names;
  for (const fs::path& directory : directories) {
    std::error_code error;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
      const std::string stem = entry->path().stem().string();
      if (entry->path().extension() == ".traineddata" && stem != "osd") names.push_back(stem);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

bool is_language_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '/';
  };
  return !name.empty() && name.front() != '/' && std::all_of(name.begin(), name.end(), allowed);
}

// Returns the directory that has the data of all requested languages.
fs::path find_data(const TextReaderOptions& options) {
  const std::vector<std::string> languages = names_of(options.language);
  for (const std::string& name : languages) {
    if (is_language_name(name)) continue;
    throw UsageError({.what = "no such language",
                      .where = "--language",
                      .found = options.language,
                      .allowed = "names as Tesseract has them, joined by +",
                      .remedy = "eng, deu, chi_sim, or eng+chi_sim for both"});
  }
  const std::vector<fs::path> directories = data_directories(options);
  std::string missing;
  for (const fs::path& directory : directories) {
    const auto absent = std::find_if(languages.begin(), languages.end(),
                                     [&](const std::string& name) { return !has_data(directory, name); });
    if (absent == languages.end()) return directory;
    std::error_code error;
    if (missing.empty() && fs::is_directory(directory, error)) missing = *absent;
  }
  if (missing.empty()) missing = languages.front();
  if (const std::string code = code_of(missing); !code.empty()) {
    throw UsageError({.what = "a language is not named as Tesseract names it",
                      .where = "--language",
                      .found = options.language,
                      .allowed = "those that are installed: " + installed_in(directories),
                      .remedy = fmt::format("did you mean {}? (apt-get install {})", code, package_of(code))});
  }
  std::string packages;
  for (const std::string& name : languages) {
    const bool found = std::any_of(directories.begin(), directories.end(),
                                   [&](const fs::path& directory) { return has_data(directory, name); });
    if (!found) packages += " " + package_of(name);
  }
  throw UsageError({.what = "a language of the text is not installed",
                    .where = "--language",
                    .found = fmt::format("{}: no {}.traineddata{}", options.language, missing,
                                         options.tessdata_dir.empty() ? "" : " in " + options.tessdata_dir.string()),
                    .allowed = "those that are installed: " + installed_in(directories),
                    .remedy = packages.empty()
                                  ? "put all languages into one directory, and pass it by --tessdata-dir"
                                  : fmt::format("apt-get install{}; or pass a directory with {}.traineddata by "
                                                "--tessdata-dir",
                                                packages, missing)});
}

// Tesseract finds columns and lines by the resolution. If a file gives none, it assumes 70 dots per inch, the lowest
// that it accepts; with the nominal resolution of screens it finds more words on receipts (bench/ocr.py).
constexpr int kLeastDpi = 70, kUnknownDpi = 96;

// Tesseract would start four threads per page, which only helps if there are fewer pages than cores; and `num_threads`
// in its source overrides omp_set_num_threads.
class OneThread {
 public:
  OneThread() : levels_(omp_get_max_active_levels()) { omp_set_max_active_levels(0); }
  ~OneThread() { omp_set_max_active_levels(levels_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int levels_;
};

TessPageSegMode mode_of(TextLayout layout) {
  switch (layout) {
    case TextLayout::kBlock:
      return tesseract::PSM_SINGLE_BLOCK;
    case TextLayout::kSparse:
      return tesseract::PSM_SPARSE_TEXT;
    case TextLayout::kAuto:
      break;
  }
  return tesseract::PSM_AUTO;
}

class TesseractReader final : public TextReader {
 public:
  explicit TesseractReader(const TextReaderOptions& options) : library_(expect_library()), handle_(library_.create()) {
    if (handle_ == nullptr) throw std::bad_alloc();
    const fs::path data = find_data(options);
    // Tesseract keeps some parameters once for all readers of a process, and setting up a reader writes them.
    static std::mutex set_up;
    const std::lock_guard lock(set_up);
    // It prints debugging output to standard error unless it has a file for that.
    library_.set_variable(handle_.get(), "debug_file", "/dev/null");
    if (library_.init(handle_.get(), data.c_str(), options.language.c_str(), tesseract::OEM_DEFAULT) != 0) {
      throw EnvironmentError({.what = "Tesseract cannot use the data of a language",
                              .where = data.string(),
                              .found = options.language,
                              .allowed = "*.traineddata of Tesseract 4 or 5",
                              .remedy = "install the package again, or pass other data by --tessdata-dir"});
    }
  }

  PageText read(const Picture& picture, TextLayout layout) override {
    const OneThread one_thread;
    PageText text = read_once(picture, layout);
    // One threshold for the whole page may take faint print for paper; then each part of it gets its own, which is
    // worse elsewhere. Tesseract has that from version 5 on.
    constexpr std::size_t kFewWords = 3;
    if (text.words.size() < kFewWords && library_.set_variable(handle_.get(), kThresholding, kLocalOtsu) != 0) {
      PageText other = read_once(picture, layout, kMostParts);
      library_.set_variable(handle_.get(), kThresholding, kOtsu);
      if (other.words.size() > text.words.size()) text = std::move(other);
    }
    return text;
  }

 private:
  static constexpr const char *kThresholding = "thresholding_method", *kOtsu = "0", *kLocalOtsu = "1";

  // A page of small print has some thousand letters; a photograph with a threshold for each part falls into many more
  // specks, which would take minutes to read as words.
  static constexpr int kMostParts = 20'000;

  bool has_more_parts(int most) {
    struct DestroyPix {
      void operator()(Pix* pix) const { pixDestroy(&pix); }
    };
    const std::unique_ptr<Pix, DestroyPix> black(library_.thresholded(handle_.get()));
    l_int32 parts = 0;
    return black != nullptr && pixCountConnComp(black.get(), 8, &parts) == 0 && parts > most;
  }

  // Reads no words if the page's black pixels are in more than `most_parts` parts; 0: however many they are.
  PageText read_once(const Picture& picture, TextLayout layout, int most_parts = 0) {
    TessBaseAPI* const handle = handle_.get();
    library_.set_layout(handle, mode_of(layout));
    library_.set_image(handle, picture.pix());
    if (picture.dpi() < kLeastDpi) library_.set_resolution(handle, kUnknownDpi);
    PageText text;
    const bool reads = most_parts == 0 || !has_more_parts(most_parts);
    if (reads && library_.recognize(handle, nullptr) == 0) take_words(picture, text);
    // A page must not affect the next one's result, because which worker reads which page is random.
    library_.clear(handle);
    library_.forget(handle);
    return text;
  }

  struct Destroy {
    void operator()(TessBaseAPI* handle) const { library().destroy(handle); }
  };

  void take_words(const Picture& picture, PageText& page) {
    struct DeleteIterator {
      void operator()(TessResultIterator* result) const { library().delete_iterator(result); }
    };
    const std::unique_ptr<TessResultIterator, DeleteIterator> result(library_.get_iterator(handle_.get()));
    if (result == nullptr) return;  // a page without text
    TessPageIterator* const place = library_.page_iterator(result.get());
    std::size_t letters = 0, high_letters = 0;  // of words that are long enough to show how they run
    do {
      int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
      if (!library_.bounding_box(place, tesseract::RIL_WORD, &x0, &y0, &x1, &y1)) continue;
      char* const text = library_.text(result.get(), tesseract::RIL_WORD);
      if (text == nullptr) continue;
      ReadWord word{.text = text,
                    .confidence = static_cast<double>(library_.confidence(result.get(), tesseract::RIL_WORD)) / 100};
      library_.delete_text(text);
      const std::size_t first = word.text.find_first_not_of(" \t\r\n");
      if (first == std::string::npos) continue;
      word.text = word.text.substr(first, word.text.find_last_not_of(" \t\r\n") + 1 - first);
      word.confidence = std::clamp(word.confidence, 0.0, 1.0);
      const double wide = picture.width(), high = picture.height();
      word.box = {std::clamp<double>(x0, 0, wide), std::clamp<double>(y0, 0, high), std::clamp<double>(x1, 0, wide),
                  std::clamp<double>(y1, 0, high)};
      if (word.box[2] <= word.box[0] || word.box[3] <= word.box[1]) continue;
      constexpr std::size_t kLongWord = 4;
      if (word.text.size() >= kLongWord) {
        letters += word.text.size();
        high_letters += y1 - y0 > x1 - x0 ? word.text.size() : 0;
      }
      page.words.push_back(std::move(word));
    } while (library_.next(result.get(), tesseract::RIL_WORD));
    page.is_sideways = 2 * high_letters > letters;
  }

  const Library& library_;
  std::unique_ptr<TessBaseAPI, Destroy> handle_;
};

}  // namespace

std::unique_ptr<TextReader> open_text_reader(const TextReaderOptions& options) {
  expect_library();
  setMsgSeverity(L_SEVERITY_NONE);  // Leptonica's messages, under Tesseract's calls too
  return std::make_unique<TesseractReader>(options);
}

std::size_t text_reader_bytes(const TextReaderOptions& options) {
  // A reader of English, whose file has 4 MiB, adds 20 MiB to the process.
  constexpr std::size_t kOwn = 16 * kMiB, kDecoded = 3;
  const fs::path data = find_data(options);
  std::size_t bytes = kOwn;
  for (const std::string& name : names_of(options.language)) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(data / (name + ".traineddata"), error);
    if (!error) bytes += kDecoded * static_cast<std::size_t>(size);
  }
  return bytes;
}

std::string describe_text_reader() {
  const Library& loaded = library();
  if (!loaded.missing.empty()) return fmt::format("Tesseract, which cannot be loaded ({})", loaded.missing);
  return fmt::format("Tesseract {}", loaded.version());
}

#else

std::unique_ptr<TextReader> open_text_reader(const TextReaderOptions&) {
  throw EnvironmentError({.what = "this program was built without Tesseract, which reads text from pictures",
                          .where = "plimsoll --version",
                          .found = "OCR: none",
                          .allowed = "a program that was built where libtesseract is installed",
                          .remedy = "apt-get install libtesseract-dev tesseract-ocr-eng, and build again (CMake's "
                                    "PLIMSOLL_OCR must not be OFF); or give words and boxes of another OCR engine "
                                    "as JSONL"});
}

std::size_t text_reader_bytes(const TextReaderOptions&) { return 0; }

std::string describe_text_reader() { return "none"; }

#endif

}  // namespace plimsoll
