// How large the pages of a data set are, for the memory plan of what is found on them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll {

// The words of a page or document, and what its results are about besides words (PageTarget::subjects): questions, or
// entities.
struct PageSize {
  std::uint64_t words = 0, subjects = 0;
  std::uint64_t subject_words = 0;  // of all subjects together: entities may overlap
  std::uint64_t pairs = 0;          // of subjects of the same page

  void include(const PageSize& other) {
    words = std::max(words, other.words);
    subjects = std::max(subjects, other.subjects);
    subject_words = std::max(subject_words, other.subject_words);
    pairs = std::max(pairs, other.pairs);
  }
  PageSize& operator+=(const PageSize& other) {
    words += other.words;
    subjects += other.subjects;
    subject_words += other.subject_words;
    pairs += other.pairs;
    return *this;
  }
};

struct PageSizes {
  PageSize page{};      // the most of any page
  PageSize document{};  // the most of pages that follow one another and name the same document
  PageSize all{};       // the sums over all pages
};

}  // namespace plimsoll
