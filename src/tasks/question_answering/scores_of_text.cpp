#include "tasks/question_answering/scores_of_text.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "data/tokenizer_split.h"

namespace plimsoll {
namespace {

bool is_punctuation(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > ' ' && byte < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
    word.clear();
  };
  for (const char c : text) {
    if (is_space(c)) {
      end_word();
    } else if (!is_punctuation(c)) {
      word += lower(c);
    }
  }
  end_word();
  return words;
}

// Returns the characters in lower case, without white space at both ends.
std::vector<char32_t> characters(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  std::vector<char32_t> result;
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text, at);
    result.push_back(c.code_point < 0x80 ? static_cast<char32_t>(lower(static_cast<char>(c.code_point)))
                                         : c.code_point);
    at += c.length;
  }
  return result;
}

std::size_t distance(const std::vector<char32_t>& a, const std::vector<char32_t>& b) {
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
  for (const std::string& word : words_of(text)) result += (result.empty() ? "" : " ") + word;
  return result;
}

bool is_exact_match(std::string_view predicted, std::string_view gold) { return words_of(predicted) == words_of(gold); }

double word_f1(std::string_view predicted, std::string_view gold) {
  const std::vector<std::string> found = words_of(predicted), wanted = words_of(gold);
  if (found.empty() || wanted.empty()) return found.empty() && wanted.empty() ? 1 : 0;
  std::map<std::string, int> left;
  for (const std::string& word : wanted) ++left[word];
  int common = 0;
  for (const std::string& word : found) common += left[word]-- > 0 ? 1 : 0;
  return 2.0 * common / static_cast<double>(found.size() + wanted.size());
}

double levenshtein_similarity(std::string_view predicted, std::string_view gold) {
  const std::vector<char32_t> a = characters(predicted), b = characters(gold);
  const std::size_t longest = std::max(a.size(), b.size());
  if (longest == 0) return 1;
  const double similarity = 1 - static_cast<double>(distance(a, b)) / static_cast<double>(longest);
  return similarity < 0.5 ? 0 : similarity;
}

}  // namespace plimsoll
