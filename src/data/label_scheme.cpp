#include "data/label_scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/in_quotes.h"
#include "data/page.h"

namespace plimsoll {
namespace {

constexpr std::string_view kTags = "BIESLU", kNoType = "_";

bool is_bare_tag(std::string_view name) { return name.size() == 1 && kTags.find(name[0]) != kTags.npos; }
bool is_tagged(std::string_view name) {
  return name.size() >= 2 && name[1] == '-' && kTags.find(name[0]) != kTags.npos;
}

}  // namespace

LabelScheme label_scheme(std::span<const std::string> names) {
  const auto has = [names](auto&& holds) {
    return std::ranges::any_of(names,
                               [&](const std::string& name) { return !name.empty() && name != "O" && holds(name); });
  };
  const auto has_tag = [&](std::string_view tags) {
    return has([tags](std::string_view name) {
      return (is_tagged(name) || is_bare_tag(name)) && tags.find(name[0]) != tags.npos;
    });
  };
  const bool plain = has([](std::string_view name) { return !is_tagged(name) && !is_bare_tag(name); });
  const bool begins = has([](std::string_view name) { return name.starts_with("B-") || name.starts_with("I-"); });
  if (plain) return begins ? LabelScheme::kMixed : LabelScheme::kPlain;
  const bool iobes = has_tag("ES"), bilou = has_tag("LU");
  if (iobes && bilou) return LabelScheme::kMixed;
  return bilou ? LabelScheme::kBilou : iobes ? LabelScheme::kIobes : LabelScheme::kIob;
}

std::string_view scheme_name(LabelScheme scheme) {
  constexpr std::string_view kNames[] = {"IOB", "BIOES", "BILOU", "plain", "mixed"};
  return kNames[static_cast<std::size_t>(scheme)];
}

std::string_view odd_label(std::span<const std::string> names) {
  const auto first = [names](auto&& holds) -> std::string_view {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return !name.empty() && name != "O" && holds(name); });
    return found != names.end() ? std::string_view(*found) : std::string_view();
  };
  const std::string_view untagged =
      first([](const std::string& name) { return !is_tagged(name) && !is_bare_tag(name); });
  return untagged.empty() ? first([](const std::string& name) { return name[0] == 'L' || name[0] == 'U'; }) : untagged;
}

std::string scheme_note(std::span<const std::string> names) {
  switch (label_scheme(names)) {
    case LabelScheme::kPlain:
      return fmt::format(
          "the labels have no B- or I- ({}): each name is a separate type, and consecutive words with the same label "
          "are one entity",
          in_quotes(odd_label(names)));
    case LabelScheme::kMixed:
      return fmt::format(
          "the labels mix schemes (such as {}): a name without a tag is read as a type of its own, L- as E- and U- as "
          "S-",
          in_quotes(odd_label(names)));
    default:
      return {};
  }
}

LabelParts split_label(std::string_view label, LabelScheme scheme) {
  if (label.empty() || label == "O") return {};
  const bool tagged = is_tagged(label) || is_bare_tag(label);
  if (scheme == LabelScheme::kPlain || !tagged) return {'I', label};
  std::string_view type = label.substr(std::min<std::size_t>(2, label.size()));
  char tag = label[0];
  if (scheme == LabelScheme::kBilou) {  // strict mode strips dashes from both ends
    type.remove_prefix(std::min(type.find_first_not_of('-'), type.size()));
    type = type.substr(0, type.find_last_not_of('-') + 1);
  } else if (tag == 'L') {
    tag = 'E';
  } else if (tag == 'U') {
    tag = 'S';
  }
  return {tag, type.empty() ? kNoType : type};
}

// Implements conlleval's rules with two questions. An entity ends before a word that begins one or is outside, after E
// and S, and where the type changes; it begins with B and S, with I or E after a word that ended one or was outside,
// and where the type changes. So I- without B- begins an entity, and E- without B- is one.
bool EntityWalker::advance(Label label, std::uint64_t position, Entity& ended) {
  if (strict_) return advance_strictly(label, position, ended);
  const char before = previous_.tag;
  const char now = label.tag;
  const bool type_changes = previous_.type != label.type;
  const bool was_inside = before == 'B' || before == 'I';
  const bool was_closed = before == 'E' || before == 'S' || before == 'O';

  const bool ends = before == 'E' || before == 'S' || (was_inside && (now == 'B' || now == 'S' || now == 'O')) ||
                    (before != 'O' && type_changes);
  const bool begins =
      now == 'B' || now == 'S' || (was_closed && (now == 'E' || now == 'I')) || (now != 'O' && type_changes);
  if (ends) ended = {previous_.type, begin_, position};
  if (begins) begin_ = position;
  previous_ = label;
  return ends;
}

bool EntityWalker::advance_strictly(Label label, std::uint64_t position, Entity& ended) {
  const bool ends = closed_;
  if (ends) ended = {previous_.type, begin_, position};
  const bool continues = open_ && previous_.type == label.type;
  if (label.tag == 'B' || label.tag == 'U') begin_ = position;
  open_ = label.tag == 'B' || (label.tag == 'I' && continues);
  closed_ = label.tag == 'U' || (label.tag == 'L' && continues);
  previous_ = label;
  return ends;
}

std::vector<WordSpan> entity_spans(std::span<const std::string> labels, LabelScheme scheme) {
  std::vector<WordSpan> spans;
  std::vector<std::string_view> types;
  std::unordered_map<std::string_view, std::int32_t> numbers;
  EntityWalker walker(scheme);
  EntityWalker::Entity entity;
  for (std::size_t word = 0; word <= labels.size(); ++word) {
    const LabelParts parts = word < labels.size() ? split_label(labels[word], scheme) : LabelParts{};
    const auto [number, added] = numbers.emplace(parts.type, static_cast<std::int32_t>(types.size()));
    if (added) types.push_back(parts.type);
    if (walker.advance({parts.tag, number->second}, word, entity)) {
      spans.push_back({std::string(types[static_cast<std::size_t>(entity.type)]), entity.begin, entity.end});
    }
  }
  return spans;
}

}  // namespace plimsoll
