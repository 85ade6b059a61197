// Texts that a language model learns: whole ones, or completions of prompts, which are read and not learned.
#pragma once

#include <memory>

#include "data/targets.h"

namespace plimsoll {

// Of a page of JSONL: `text`, or `prompt` and `completion`. They are the page's words.
class PageText final : public PageTarget {
 public:
  explicit PageText(std::size_t first) : first_(first) {}
  // The first of the page's words whose tokens are learned.
  std::size_t first_learned() const { return first_; }

 private:
  std::size_t first_;
};

const TargetReader& text_reader();

// Labels each row with the token behind it, where that one is learned; `with_targets`: false, no row has a label.
std::shared_ptr<const Targets> next_token_targets();

}  // namespace plimsoll
