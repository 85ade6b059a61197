#include "convert/evidence.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/utf8.h"
#include "convert/xml.h"

namespace plimsoll {
namespace {

// Collects the path of every member while parsing a JSON text.
class MemberNotes : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::set<std::string> take() { return std::move(members_); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(false); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(true); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ <= kDepth && name.size() <= kLongestName) {
      path_.resize(ends_.back());
      if (!path_.empty()) path_ += '.';
      path_ += name;
      if (members_.size() < kMost) members_.insert(path_);
    }
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  bool enter(bool list) {
    ++depth_;
    if (depth_ > kDepth) return true;
    if (list) path_ += "[]";
    ends_.push_back(path_.size());
    return true;
  }
  bool leave() {
    if (depth_ <= kDepth) {
      ends_.pop_back();
      // The next member's path begins with that of the value's container.
      path_.resize(ends_.empty() ? 0 : ends_.back());
    }
    --depth_;
    return true;
  }

  static constexpr int kDepth = 7;
  static constexpr std::size_t kMost = 4000, kLongestName = 60;
  std::set<std::string> members_;
  std::string path_;
  std::vector<std::size_t> ends_;  // for each open value, the length of its path
  int depth_ = 0;
};

// Returns text in UTF-16 with a byte order mark as UTF-8, up to an incomplete character; nothing for other bytes.
std::string from_utf16(std::string_view bytes) {
  const bool is_little = bytes.starts_with("\xFF\xFE");
  std::string text;
  if (!is_little && !bytes.starts_with("\xFE\xFF")) return text;
  const auto unit = [&](std::size_t at) {
    const auto first = static_cast<unsigned char>(bytes[at]), second = static_cast<unsigned char>(bytes[at + 1]);
    return static_cast<char32_t>(is_little ? first | second << 8 : first << 8 | second);
  };
  for (std::size_t at = 2; at + 1 < bytes.size(); at += 2) {
    char32_t code_point = unit(at);
    if (code_point >= 0xD800 && code_point < 0xDC00) {
      if (at + 3 >= bytes.size()) break;
      at += 2;
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + ((unit(at) - 0xDC00) & 0x3FF);
    }
    append_utf8(code_point, text);
  }
  return text;
}

}  // namespace

std::set<std::string> json_members(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  MemberNotes notes;
  nlohmann::json::sax_parse(text.begin(), text.end(), &notes, nlohmann::json::input_format_t::json, false);
  return notes.take();
}

Evidence look_at(const std::filesystem::path& path) {
  constexpr std::uint64_t kHead = std::uint64_t{1} << 20;
  Evidence evidence{.file = path};
  {
    const InputFile file(path);
    evidence.head.resize(static_cast<std::size_t>(std::min(kHead, file.size_bytes())));
    file.read_at(0, std::as_writable_bytes(std::span(evidence.head.data(), evidence.head.size())));
  }
  // XML may be in UTF-16, which its readers know.
  if (std::string text = from_utf16(evidence.head); text.starts_with('<')) evidence.head = std::move(text);
  const std::size_t first = evidence.head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string::npos) return evidence;
  if (evidence.head[first] == '<') evidence.root = xml_root_name(evidence.head);
  if (evidence.head[first] != '{' && evidence.head[first] != '[') return evidence;
  evidence.members = json_members(evidence.head);
  // Most files show what they are at once.
  const std::size_t line = evidence.head.find('\n', first);
  const bool lines = line != std::string::npos && nlohmann::json::accept(evidence.head.substr(first, line - first));
  if (evidence.head.size() == kHead && !lines) evidence.members = json_members(read_text_file(path, kLongestFile));
  return evidence;
}

}  // namespace plimsoll
