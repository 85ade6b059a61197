#include "doctor/log_lines.h"

namespace plimsoll::doctor {

void LineReader::end_part() {
  if (!part_.empty()) visit_(number_, part_);
  part_.clear();
}

void LineReader::feed(std::string_view bytes) {
  bytes_ += bytes.size();
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\r') {
      escape_ = Escape::kNone;
      if (c == '\n' || !part_.empty()) end_part();
      if (c == '\n') lines_ = number_++;
      continue;
    }
    // Terminal sequences: ESC [ … letter (colours, cursor) and ESC ] … BEL (window titles).
    if (escape_ == Escape::kBegun) {
      escape_ = c == '[' ? Escape::kControl : c == ']' ? Escape::kTitle : Escape::kNone;
      continue;
    }
    if (escape_ == Escape::kControl) {
      if (code >= 0x40 && code <= 0x7E) escape_ = Escape::kNone;
      continue;
    }
    if (escape_ == Escape::kTitle) {
      if (code == 0x07) escape_ = Escape::kNone;
      continue;
    }
    if (code == 0x1B) {
      escape_ = Escape::kBegun;
      continue;
    }
    if (code == 0) continue;  // UTF-16, as written by PowerShell: every other byte of English text is 0
    part_ += code < 0x20 || code == 0x7F ? ' ' : c;
    if (part_.size() == kMaxLineBytes) end_part();
  }
}

void LineReader::finish() {
  if (!part_.empty()) lines_ = number_;
  end_part();
}

std::string_view without_emphasis(std::string_view text) {
  constexpr std::string_view kMarks = "*_# ";
  const bool emphasised = text.starts_with("**") || text.starts_with("_**") || text.starts_with("###");
  if (!emphasised || text.starts_with("***")) return text;  // "***** train metrics *****" is a heading
  const std::size_t begin = text.find_first_not_of(kMarks);
  if (begin == std::string_view::npos || begin > 8) return text;
  return text.substr(begin, text.find_last_not_of(kMarks) + 1 - begin);
}

}  // namespace plimsoll::doctor
