// How similar an answer is to those in the data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Returns the text in the form that SQuAD's evaluation compares: in lower case, without punctuation and the articles a,
// an, the, words separated by one space (Rajpurkar et al. 2016, evaluate-v1.1.py). White space is that of Python's
// str.split, which includes the space that does not break; punctuation is ASCII's.
std::string normalized_answer(std::string_view text);

// Returns the text in lower case, with one space between words and none around them.
std::string lower_text(std::string_view text);
// Returns the same without spaces and ASCII's punctuation.
std::string lower_letters(std::string_view text);

// Returns the answers with which SQuAD 2's script compares: those of which something is left once they are normalised;
// an empty one if none is (evaluate-v2.0.py).
std::vector<std::string> compared_answers(const std::vector<std::string>& gold);

// Returns whether both are the same once normalised.
bool is_exact_match(std::string_view predicted, std::string_view gold);
// Returns the F1 of their words once normalised; 1 for two empty texts, 0 if only one is empty.
double word_f1(std::string_view predicted, std::string_view gold);
// Returns 1 - edit distance / length of the longer text, in characters, ignoring case and how much white space there
// is; 0 below a half (ANLS: Biten et al., "Scene Text Visual Question Answering", 2019).
double levenshtein_similarity(std::string_view predicted, std::string_view gold);

}  // namespace plimsoll
