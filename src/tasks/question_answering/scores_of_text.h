// How like an answer is to those in the data.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// As SQuAD's evaluation compares texts: lower case, without punctuation and the articles a, an, the, words separated by
// one space (Rajpurkar et al. 2016, evaluate-v1.1.py). Of letters, those of ASCII change case.
std::string normalized_answer(std::string_view text);

// Whether both are the same once normalised.
bool is_exact_match(std::string_view predicted, std::string_view gold);
// F1 of their words once normalised; 1 for two empty texts, 0 for an empty one and another.
double word_f1(std::string_view predicted, std::string_view gold);
// 1 - edit distance / length of the longer text, in characters and without regard to case; 0 below a half (ANLS: Biten
// et al., "Scene Text Visual Question Answering", 2019).
double levenshtein_similarity(std::string_view predicted, std::string_view gold);

}  // namespace plimsoll
