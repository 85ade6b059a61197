#include "data/packed_page.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/packed.h"

namespace plimsoll {
namespace {

void pack_fault(const PageError& fault, Packer& out) {
  const Problem& problem = fault.problem();
  for (const std::string& text :
       {fault.kind(), problem.what, problem.where, problem.found, problem.allowed, problem.remedy}) {
    out.text(text);
  }
}

PageError unpack_fault(Unpacker& in) {
  std::string kind = in.text();
  Problem problem;
  for (std::string* text : {&problem.what, &problem.where, &problem.found, &problem.allowed, &problem.remedy}) {
    *text = in.text();
  }
  return PageError(std::move(kind), std::move(problem));
}

// Returns whether the number has no fraction and is small enough for an exact integer; -0 is no integer, because its
// sign would be lost.
bool is_whole(double value) {
  constexpr double kMost = 1e9;
  return std::abs(value) <= kMost && value == std::trunc(value) && !(value == 0 && std::signbit(value));
}

// Coordinates are mostly whole numbers.
void pack_boxes(const std::vector<Box>& boxes, Packer& out) {
  out.count(boxes.size());
  const bool whole = std::ranges::all_of(boxes, [](const Box& box) { return std::ranges::all_of(box, is_whole); });
  out.count(whole ? 1 : 0);
  for (const Box& box : boxes) {
    for (const double value : box) whole ? out.number(static_cast<std::int64_t>(value)) : out.real(value);
  }
}

void unpack_boxes(Unpacker& in, std::vector<Box>& boxes) {
  boxes.resize(in.size());
  const bool whole = in.count() != 0;
  for (Box& box : boxes) {
    for (double& value : box) value = whole ? static_cast<double>(in.number()) : in.real();
  }
}

// A few names label many words: writes each name once, then one number per word.
void pack_labels(const std::vector<std::string>& labels, Packer& out) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  std::vector<std::string_view> names;
  for (const std::string& label : labels) {
    if (numbers.emplace(label, names.size()).second) names.push_back(label);
  }
  out.count(names.size());
  for (const std::string_view name : names) out.text(name);
  out.count(labels.size());
  for (const std::string& label : labels) out.count(numbers.at(label));
}

void unpack_labels(Unpacker& in, std::vector<std::string>& labels) {
  std::vector<std::string> names(in.size());
  for (std::string& name : names) name = in.text();
  labels.resize(in.size());
  for (std::string& label : labels) {
    const auto name = static_cast<std::size_t>(in.count());
    check_packed(name < names.size());
    label = names[name];
  }
}

void pack_ids(const std::vector<std::int32_t>& ids, Packer& out) {
  out.count(ids.size());
  for (const std::int32_t id : ids) out.number(id);
}

void unpack_ids(Unpacker& in, std::vector<std::int32_t>& ids) {
  ids.resize(in.size());
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(in.number());
}

// The tokens' words are given by how many tokens each word has.
void pack_tokens(const PageTokens& tokens, Packer& out) {
  pack_ids(tokens.ids, out);
  std::vector<std::uint64_t> counts(tokens.first_of_word.size());
  for (const std::int32_t word : tokens.words) ++counts[static_cast<std::size_t>(word)];
  out.count(counts.size());
  for (const std::uint64_t count : counts) out.count(count);
  out.count(tokens.prompts.size());
  for (const std::vector<std::int32_t>& prompt : tokens.prompts) pack_ids(prompt, out);
}

void unpack_tokens(Unpacker& in, PageTokens& tokens) {
  unpack_ids(in, tokens.ids);
  tokens.first_of_word.resize(in.size());
  tokens.words.reserve(tokens.ids.size());
  for (std::size_t word = 0; word < tokens.first_of_word.size(); ++word) {
    const auto count = static_cast<std::size_t>(in.count());
    tokens.first_of_word[word] = count > 0 ? static_cast<std::int32_t>(tokens.words.size()) : kNoWord;
    check_packed(count <= tokens.ids.size() - tokens.words.size());
    tokens.words.resize(tokens.words.size() + count, static_cast<std::int32_t>(word));
  }
  check_packed(tokens.words.size() == tokens.ids.size());  // every token belongs to a word
  tokens.prompts.resize(in.size());
  for (std::vector<std::int32_t>& prompt : tokens.prompts) unpack_ids(in, prompt);
}

}  // namespace

std::vector<std::byte> pack_page(const PackedPage& packed, const TargetReader* reader) {
  Packer out;
  out.count(packed.faults.size());
  for (const PageError& fault : packed.faults) pack_fault(fault, out);
  out.count(packed.broken ? 1 : 0);
  if (packed.broken) {
    pack_fault(*packed.broken, out);
    return std::move(out).take();
  }
  const Page& page = packed.page;
  out.text(page.id);
  out.text(page.document);
  out.text(page.image.native());
  out.number(page.width);
  out.number(page.height);
  out.text(page.file.native());
  out.count(page.line);
  out.count(page.words.size());
  for (const std::string& word : page.words) out.text(word);
  out.count(page.is_text ? 1 : 0);
  pack_boxes(page.boxes, out);
  pack_labels(page.labels, out);
  pack_tokens(packed.tokens, out);
  const bool unread = is_unread(page);
  out.count(page.target == nullptr ? 0 : unread ? 2 : 1);
  if (page.target != nullptr && !unread) reader->pack(*page.target, out);
  out.count(page.other_keys.size());
  for (const std::string& key : page.other_keys) out.text(key);
  return std::move(out).take();
}

PackedPage unpack_page(std::span<const std::byte> bytes, const TargetReader* reader) {
  Unpacker in(bytes);
  PackedPage packed;
  for (std::uint64_t faults = in.size(); faults > 0; --faults) packed.faults.push_back(unpack_fault(in));
  if (in.count() != 0) {
    packed.broken = unpack_fault(in);
    return packed;
  }
  Page& page = packed.page;
  page.id = in.text();
  page.document = in.text();
  page.image = in.text();
  page.width = static_cast<int>(in.number());
  page.height = static_cast<int>(in.number());
  page.file = in.text();
  page.line = static_cast<std::size_t>(in.count());
  page.words.resize(in.size());
  for (std::string& word : page.words) word = in.text();
  page.is_text = packed.tokens.is_text = in.count() != 0;
  unpack_boxes(in, page.boxes);
  unpack_labels(in, page.labels);
  unpack_tokens(in, packed.tokens);
  if (const std::uint64_t target = in.count(); target != 0) {
    check_packed(reader != nullptr && target <= 2);
    page.target = target == 2 ? unread_target() : reader->unpack(in);
  }
  page.other_keys.resize(in.size());
  for (std::string& key : page.other_keys) key = in.text();
  check_packed(in.at_end());
  return packed;
}

}  // namespace plimsoll
