#include "tasks/question_answering/scores_of_text.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "base/utf8.h"
#include "data/tokenizer_split.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

bool is_punctuation(char32_t c) {
  return c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
}

// Returns the characters in lower case, as Python's str.lower: a sigma that ends a word has a form of its own.
std::u32string lower_characters(std::string_view text) {
  const UnicodeTables& tables = UnicodeTables::instance();
  const CharClasses& classes = CharClasses::instance();
  constexpr char32_t kSigma = U'\u03A3', kFinalSigma = U'\u03C2';
  std::u32string characters;
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text, at);
    at += c.length;
    const auto is_letter = [&](char32_t each) { return classes(each) == CharClass::kLetter; };
    const bool ends_word = c.code_point == kSigma && !characters.empty() && is_letter(characters.back()) &&
                           (at == text.size() || !is_letter(decode_utf8(text, at).code_point));
    ends_word ? characters.push_back(kFinalSigma) : tables.append_lower(c.code_point, characters);
  }
  return characters;
}

// Returns the words between white space, as Python's str.split.
std::vector<std::u32string> split(const std::u32string& text) {
  const CharClasses& classes = CharClasses::instance();
  std::vector<std::u32string> words;
  bool in_word = false;
  for (const char32_t c : text) {
    const bool space = is_python_space(c, classes);
    if (!space && !in_word) words.emplace_back();
    if (!space) words.back() += c;
    in_word = !space;
  }
  return words;
}

bool is_article(const std::u32string& word) { return word == U"a" || word == U"an" || word == U"the"; }

std::vector<std::u32string> words_of(std::string_view text) {
  std::u32string kept = lower_characters(text);
  std::erase_if(kept, is_punctuation);
  // Articles that are whole runs of letters and digits, as between the \b of a regular expression.
  const CharClasses& classes = CharClasses::instance();
  const auto in_word = [&](char32_t c) { return classes(c) == CharClass::kLetter || classes(c) == CharClass::kNumber; };
  std::u32string without;
  for (std::size_t at = 0; at < kept.size();) {
    std::size_t end = at;
    while (end < kept.size() && in_word(kept[end])) ++end;
    const std::u32string run = kept.substr(at, end - at);
    without += is_article(run) ? U" " : run;
    if (end < kept.size()) without += kept[end++];
    at = end;
  }
  return split(without);
}

// Returns the characters in lower case, with one space between words and none around them.
std::u32string characters(std::string_view text) {
  std::u32string result;
  for (const std::u32string& word : split(lower_characters(text))) result += (result.empty() ? U"" : U" ") + word;
  return result;
}

std::size_t distance(const std::u32string& a, const std::u32string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0U : 1U);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string normalized_answer(std::string_view text) {
  std::string result;
  for (const std::u32string& word : words_of(text)) {
    if (!result.empty()) result += ' ';
    for (const char32_t c : word) append_utf8(c, result);
  }
  return result;
}

std::string lower_text(std::string_view text) {
  std::string result;
  for (const char32_t c : characters(text)) append_utf8(c, result);
  return result;
}

std::string lower_letters(std::string_view text) {
  std::string result;
  for (const char32_t c : characters(text)) {
    if (c != U' ' && !is_punctuation(c)) append_utf8(c, result);
  }
  return result;
}

std::vector<std::string> compared_answers(const std::vector<std::string>& gold) {
  std::vector<std::string> compared;
  for (const std::string& text : gold) {
    if (!normalized_answer(text).empty()) compared.push_back(text);
  }
  if (compared.empty()) compared.emplace_back();
  return compared;
}

bool is_exact_match(std::string_view predicted, std::string_view gold) { return words_of(predicted) == words_of(gold); }

double word_f1(std::string_view predicted, std::string_view gold) {
  const std::vector<std::u32string> found = words_of(predicted), wanted = words_of(gold);
  if (found.empty() || wanted.empty()) return found.empty() && wanted.empty() ? 1 : 0;
  std::map<std::u32string, int> left;
  for (const std::u32string& word : wanted) ++left[word];
  int common = 0;
  for (const std::u32string& word : found) common += left[word]-- > 0 ? 1 : 0;
  return 2.0 * common / static_cast<double>(found.size() + wanted.size());
}

double levenshtein_similarity(std::string_view predicted, std::string_view gold) {
  const std::u32string a = characters(predicted), b = characters(gold);
  const std::size_t longest = std::max(a.size(), b.size());
  if (longest == 0) return 1;
  const double similarity = 1 - static_cast<double>(distance(a, b)) / static_cast<double>(longest);
  return similarity < 0.5 ? 0 : similarity;
}

}  // namespace plimsoll
