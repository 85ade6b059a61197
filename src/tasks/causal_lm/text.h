// Texts that a language model learns: whole ones, or completions of prompts, which are read and not learned.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "data/targets.h"

namespace plimsoll {

// A page of JSONL has a `text`, or a `prompt` and a `completion`, or `messages`, which become its words. The last word
// is learned, and every second one before it.
class PageText final : public PageTarget {
 public:
  PageText(bool is_chat, bool has_label, std::string odd_role)
      : is_chat_(is_chat), has_label_(has_label), odd_role_(std::move(odd_role)) {}
  // Returns true for a chat: its template writes what begins and ends it.
  bool frames_text() const override { return is_chat_; }
  // Returns true if it has the key of another task, sequence-classification.
  bool has_label() const { return has_label_; }
  // Returns the first role of a message that chat templates do not know; empty if there is none.
  const std::string& odd_role() const { return odd_role_; }

 private:
  bool is_chat_, has_label_;
  std::string odd_role_;
};

const TargetReader& text_reader();

// Labels each row with the next token, if that is learned.
std::shared_ptr<const Targets> next_token_targets();

}  // namespace plimsoll
