// Texts that a language model learns: whole ones, or completions of prompts, which are read and not learned.
#pragma once

#include <memory>

#include "data/targets.h"

namespace plimsoll {

// A page of JSONL has a `text`, or a `prompt` and a `completion`, which become its words. The last one is what is learned,
// so there is nothing else to keep.
class PageText final : public PageTarget {};

const TargetReader& text_reader();

// Labels each row with the token behind it, where that one is learned.
std::shared_ptr<const Targets> next_token_targets();

}  // namespace plimsoll
