// Makes the embedded vocabulary: composes words as on receipts and forms, from the word lists beside this file and from
// invented numbers, and learns a byte pair encoding from their counts. The same lists give the same bytes.
//
//   cmake --build --preset release --target plimsoll_make_vocabulary
//   build/release/bench/plimsoll_make_vocabulary tools/vocabulary src/data/embedded_vocabulary.inc
//   (then rebuild, and make the golden file again: tools/make_tokenizer_golden.py)
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "data/tokenizer_train.h"

namespace {

using plimsoll::PieceCounts;

constexpr std::size_t kEntries = 8000;
constexpr std::size_t kSpecialEntries = 5;  // <s> <pad> </s> <unk> <mask>
constexpr std::size_t kByteEntries = 256;

// The weights of a list's words in capitals, with a capital, and in small letters, and the additional weight of its
// first words.
struct WordList {
  const char* file;
  std::uint64_t upper, title, lower;
  std::uint64_t first_bonus;
  enum Inflection { kNone, kNoun, kVerb } inflection = kNone;
};
constexpr WordList kWordLists[] = {
    {"receipts.txt", 60, 40, 20, 600},
    {"goods.txt", 40, 16, 10, 0},
    {"places.txt", 40, 30, 6, 60},
    {"names.txt", 24, 20, 4, 0},
    {"forms.txt", 24, 32, 24, 0},
    {"function_words.txt", 24, 20, 60, 300},
    {"nouns.txt", 10, 14, 22, 0, WordList::kNoun},
    {"verbs.txt", 9, 7, 18, 0, WordList::kVerb},
    {"adjectives.txt", 8, 10, 18, 0},
};

// Numbers from one counter: a draw depends only on its place in the order.
class Draw {
 public:
  // Returns a number in 0 .. limit-1.
  std::uint32_t below(std::uint32_t limit) {
    const auto bits = plimsoll::philox4x32({counter_++, 0, 0, 0}, {0x506C696D, 0x766F6361})[0];
    return static_cast<std::uint32_t>(std::uint64_t{bits} * limit >> 32);
  }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  // Returns `pattern` with each 9 replaced by a digit and each A by a capital letter.
  std::string fill(std::string pattern) {
    for (char& c : pattern) {
      if (c == '9') c = static_cast<char>('0' + below(10));
      if (c == 'A') c = static_cast<char>('A' + below(26));
    }
    return pattern;
  }
  template <std::size_t N>
  const char* one_of(const std::array<const char*, N>& choices) {
    return choices[below(N)];
  }

 private:
  std::uint32_t counter_ = 0;
};

std::string to_case(std::string word, bool first_upper, bool rest_upper) {
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool upper = i == 0 ? first_upper : rest_upper;
    if (upper && word[i] >= 'a' && word[i] <= 'z') word[i] = static_cast<char>(word[i] - 'a' + 'A');
  }
  return word;
}

// Adds a word after a space, and with an eighth of the weight without one: behind "(", "/", "-".
void add(const std::string& word, std::uint64_t weight, PieceCounts& counts) {
  plimsoll::count_pieces(" " + word, weight, counts);
  if (weight >= 8) plimsoll::count_pieces(word, weight / 8, counts);
}

std::vector<std::string> inflected(const std::string& word, WordList::Inflection inflection) {
  std::vector<std::string> forms = {word};
  if (inflection == WordList::kNone) return forms;
  const std::string stem = word.substr(0, word.size() - 1);
  const auto ends_with = [&](std::string_view end) { return word.ends_with(end); };
  const bool vowel_before =
      word.size() > 1 && std::string_view("aeiou").find(word[word.size() - 2]) != std::string_view::npos;
  const bool y = ends_with("y") && !vowel_before;
  const bool sibilant = ends_with("s") || ends_with("x") || ends_with("ch") || ends_with("sh") || ends_with("z");
  forms.push_back(y ? stem + "ies" : sibilant ? word + "es" : word + "s");
  if (inflection == WordList::kVerb) {
    forms.push_back(ends_with("e") ? word + "d" : y ? stem + "ied" : word + "ed");
    forms.push_back(ends_with("e") && !ends_with("ee") ? stem + "ing" : word + "ing");
  }
  return forms;
}

void add_list(const std::string& folder, const WordList& list, PieceCounts& counts) {
  const std::string text = plimsoll::read_text_file(folder + "/" + list.file);
  std::size_t rank = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    if (text[begin] == '#') begin = text.find('\n', begin);
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const std::uint64_t bonus = list.first_bonus * 20 / (20 + rank++);
    for (const std::string& form : inflected(word, list.inflection)) {
      add(to_case(form, true, true), list.upper + (list.lower < list.upper ? bonus : 0), counts);
      add(to_case(form, true, false), list.title + bonus / 2, counts);
      add(form, list.lower + (list.lower < list.upper ? 0 : bonus), counts);
    }
  }
}

std::string price(Draw& draw) {
  constexpr std::array<const char*, 16> kCents = {"00", "00", "00", "50", "50", "90", "90", "80",
                                                  "99", "95", "20", "40", "60", "10", "30", "70"};
  const std::uint32_t size = draw.below(10);
  const std::uint32_t whole = draw.below(size < 4 ? 10 : size < 8 ? 100 : size < 9 ? 400 : 2000);
  const std::string cents = draw.below(4) ? draw.one_of(kCents) : draw.fill("99");
  if (whole < 1000) return fmt::format("{}.{}", whole, cents);
  const char* comma = draw.below(2) ? "," : "";
  return fmt::format("{}{}{:03}.{}", whole / 1000, comma, whole % 1000, cents);
}

std::string date(Draw& draw) {
  const std::uint32_t day = draw.between(1, 28), month = draw.between(1, 12);
  const std::uint32_t year = draw.below(3) ? draw.between(2010, 2026) : draw.between(1960, 2030);
  switch (draw.below(8)) {
    case 0:
      return fmt::format("{:02}-{:02}-{}", day, month, year);
    case 1:
      return fmt::format("{:02}/{:02}/{:02}", day, month, year % 100);
    case 2:
      return fmt::format("{}-{:02}-{:02}", year, month, day);
    case 3:
      return fmt::format("{:02}.{:02}.{}", day, month, year);
    case 4:
      return fmt::format("{}/{}/{}", month, day, year);
    case 5:
      return fmt::format("{} {}", day, year);
    default:
      return fmt::format("{:02}/{:02}/{}", day, month, year);
  }
}

std::string clock_time(Draw& draw, bool seconds) {
  const std::uint32_t hour = draw.below(24), minute = draw.below(60), second = draw.below(60);
  return seconds ? fmt::format("{:02}:{:02}:{:02}", hour, minute, second) : fmt::format("{}:{:02}", hour, minute);
}

std::string code(Draw& draw) {
  constexpr std::array<const char*, 20> kPatterns = {
      "(999999-A)",   "(999999-A)",    "009999999999", "009999999999", "INV00099999", "CS00099999", "CR-99999",
      "SO-99999",     "PO99999",       "DO-009999",    "TD00999999",   "AA9999",      "A-9999",     "#9999",
      "955599999999", "9559999999999", "03-9999 9999", "07-999 9999",  "019-9999999", "01-9999999"};
  return draw.fill(draw.one_of(kPatterns));
}

void add_numbers(PieceCounts& counts) {
  constexpr std::uint64_t kSamples = 120000;
  Draw draw;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    std::string word;
    switch (draw.below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6:
        word = price(draw);
        break;
      case 7:
      case 8:
      case 9:
        word = date(draw);
        break;
      case 10:
      case 11:
        word = clock_time(draw, true);
        break;
      case 12:
        word = clock_time(draw, false);
        break;
      case 13:
      case 14:
        word = fmt::format("{}", draw.between(1, 20));
        break;
      case 15:
        word = fmt::format("{}%", draw.below(2) ? 6 : draw.below(101));
        break;
      case 16:
        word = fmt::format("{:05}", draw.between(10000, 98000) / 10 * 10);
        break;
      default:
        word = code(draw);
        break;
    }
    plimsoll::count_pieces(" " + word, 1, counts);
    if (sample % 4 == 0) plimsoll::count_pieces(word, 1, counts);
  }
}

void add_symbols(PieceCounts& counts) {
  for (const char* text :
       {":",        "-",        ".",      ",",      "/",        "(",      ")",      "*",        "&",      "@",
        "#",        "%",        "+",      "=",      "$",        "!",      "?",      "'",        "\"",     ";",
        "_",        "[",        "]",      "<",      ">",        "|",      "~",      "{",        "}",      "\\",
        "^",        "`",        "x",      "X",      "**",       "***",    "****",   "********", "--",     "---",
        "----",     "--------", "==",     "====",   "========", "__",     "____",   "..",       "...",    "....",
        "........", "://",      "//",     "),",     ").",       "):",     ".:",     ".)",       ".,",     "#:",
        "(*",       "%)",       "!!",     "!!!",    "->",       "<<",     ">>",     "\u00A3",   "\u20AC", "\u00A5",
        "\u00A2",   "\u00B0",   "\u2022", "\u2013", "\u2014",   "\u2018", "\u2019", "\u201C",   "\u201D", "\u2026",
        "\u00A9",   "\u00AE",   "\u2122", "\u00D7", "\u00BD",   "\u00E9", "\u00E8", "\u00E0",   "\u00E4", "\u00F6",
        "\u00FC",   "\u00DF",   "\u00F1", "\u00E7", "\u00C9",   "\u00D6", "\u00DC", "\u00EA",   "\u00F3", "\u00ED",
        "\u00E1"}) {
    plimsoll::count_pieces(std::string(" ") + text, 400, counts);
    plimsoll::count_pieces(text, 400, counts);
  }
  for (const char* text : {"A's", "A't", "A're", "A've", "A'm", "A'll", "A'd"})
    plimsoll::count_pieces(text, 300, counts);
}

// Formats C string literals, packed into lines of at most 100 columns.
std::string as_source(const std::string& merges) {
  std::string source =
      "// The merges of the embedded vocabulary, best first. Made by plimsoll_make_vocabulary: do not edit.\n"
      "//   build/release/bench/plimsoll_make_vocabulary tools/vocabulary src/data/embedded_vocabulary.inc\n";
  std::string line;
  for (std::size_t begin = 0; begin < merges.size();) {
    const std::size_t end = merges.find('\n', begin);
    std::string entry;
    for (const char c : merges.substr(begin, end - begin)) {
      if (c == '"' || c == '\\') entry += '\\';
      entry += c;
    }
    entry += "\\n";
    begin = end + 1;
    if (line.size() + entry.size() > 98) {
      source += "\"" + line + "\"\n";
      line.clear();
    }
    line += entry;
  }
  return source + "\"" + line + "\"\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: plimsoll_make_vocabulary WORD_LISTS_FOLDER OUTPUT.inc\n");
    return static_cast<int>(plimsoll::ExitCode::kUsage);
  }
  try {
    PieceCounts counts;
    for (const WordList& list : kWordLists) add_list(argv[1], list, counts);
    add_numbers(counts);
    add_symbols(counts);
    const std::string merges = plimsoll::train_merges(counts, kEntries - kSpecialEntries - kByteEntries);
    const std::string source = as_source(merges);
    plimsoll::write_text_file(argv[2], source);
    fmt::print("{} pieces, {} merges, {} bytes written to {}\n", counts.size(),
               std::count(merges.begin(), merges.end(), '\n'), source.size(), argv[2]);
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
