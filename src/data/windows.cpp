#include "data/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/targets.h"
#include "data/tokenizer.h"

namespace plimsoll {

WordEncoder word_encoder(const std::shared_ptr<const Tokenizer>& tokenizer) {
  const SpecialTokens& special = tokenizer->special();
  return {.encode = [tokenizer](std::string_view word,
                                std::vector<std::int32_t>& ids) { tokenizer->encode_word(word, ids); },
          .encode_text =
              [tokenizer](std::span<const std::string> parts, std::vector<std::int32_t>& ids,
                          std::vector<std::int32_t>& parts_of_ids) {
                check(parts.size() == 1, "only a language model reads texts in several parts");
                tokenizer->encode_whole_text(parts.front(), ids);
                parts_of_ids.resize(ids.size(), 0);
              },
          .bos_id = special.bos,
          .pad_id = special.pad,
          .eos_id = special.eos,
          .encode_prompt = [tokenizer](std::string_view text,
                                       std::vector<std::int32_t>& ids) { tokenizer->encode_question(text, ids); },
          .pair_separators = special.eos == kNoToken ? 0 : tokenizer->pair_separators()};
}

WordEncoder text_encoder(const std::shared_ptr<const Tokenizer>& tokenizer) {
  const SpecialTokens& special = tokenizer->special();
  WordEncoder encoder = word_encoder(tokenizer);
  encoder.encode_text = [tokenizer](std::span<const std::string> parts, std::vector<std::int32_t>& ids,
                                    std::vector<std::int32_t>& parts_of_ids) {
    tokenizer->encode_parts(parts, ids, parts_of_ids);
  };
  // A tokenizer that is not made for decoders has one token for the end of everything.
  encoder.text_end_id = special.end_of_text != kNoToken ? special.end_of_text : encoder.eos_id;
  encoder.text_begin_id = std::exchange(encoder.bos_id, kNoToken);
  encoder.eos_id = kNoToken;
  return encoder;
}

void validate(const WindowOptions& options) {
  constexpr int kLongest = 65535;
  if (options.max_length < 3 || options.max_length > kLongest) {
    throw UsageError(
        {.what = "a window cannot have that many tokens",
         .where = "--max-length",
         .found = fmt::format("{}", options.max_length),
         .allowed = fmt::format("3 to {} (the first and the last token and at least one between)", kLongest),
         .remedy = "LayoutLMv3 was pretrained with 512"});
  }
  if (options.stride < 0 || options.stride >= options.content()) {
    throw UsageError({.what = "windows cannot overlap by that much",
                      .where = "--stride",
                      .found = fmt::format("{}", options.stride),
                      .allowed = fmt::format("0 to {} (max-length - {})", options.content() - 1, options.outer + 1),
                      .remedy = "a quarter of max-length is a good overlap"});
  }
}

namespace {

// Sets ids and words of a running text. A conversation is encoded whole, as its template's text is before an answer is
// generated; so are a prompt and its completion each by itself. The tokens around a text belong to its first and its
// last part.
void encode_running_text(const Page& page, const WordEncoder& encoder, PageTokens& out) {
  if (page.words.empty()) return;
  const bool framed = page.target != nullptr && page.target->frames_text();
  if (!framed && encoder.text_begin_id != kNoToken) {
    out.ids.push_back(encoder.text_begin_id);
    out.words.push_back(0);
  }
  if (framed) encoder.encode_text(page.words, out.ids, out.words);
  for (std::size_t part = 0; !framed && part < page.words.size(); ++part) {
    const std::ptrdiff_t before = std::ssize(out.words);
    encoder.encode_text(std::span(page.words).subspan(part, 1), out.ids, out.words);
    std::fill(out.words.begin() + before, out.words.end(), static_cast<std::int32_t>(part));
  }
  if (!framed && encoder.text_end_id != kNoToken) {
    out.ids.push_back(encoder.text_end_id);
    out.words.push_back(static_cast<std::int32_t>(page.words.size()) - 1);
  }
  out.first_of_word.assign(page.words.size(), kNoWord);
  for (std::size_t token = out.words.size(); token-- > 0;) {
    out.first_of_word[static_cast<std::size_t>(out.words[token])] = static_cast<std::int32_t>(token);
  }
}

}  // namespace

void PageTokens::assign(const Page& page, const WordEncoder& encoder, std::span<const std::string_view> texts) {
  ids.clear();
  words.clear();
  first_of_word.clear();
  is_text = page.is_text;
  if (is_text) encode_running_text(page, encoder, *this);
  for (std::size_t word = 0; !is_text && word < page.words.size(); ++word) {
    const std::size_t before = ids.size();
    encoder.encode(page.words[word], ids);
    words.resize(ids.size(), static_cast<std::int32_t>(word));
    first_of_word.push_back(ids.size() > before ? static_cast<std::int32_t>(before) : kNoWord);
  }
  prompts.resize(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    prompts[i].clear();
    encoder.encode_prompt(texts[i], prompts[i]);
  }
}

void Prompt::assign(const PageTokens& tokens, std::size_t item, const WordEncoder& encoder) {
  ids.clear();
  if (item >= tokens.prompts.size()) return;
  ids = tokens.prompts[item];
  ids.resize(ids.size() + static_cast<std::size_t>(encoder.pair_separators), encoder.eos_id);
}

std::optional<WindowOptions> Prompt::room(const WindowOptions& options) const {
  if (ids.empty()) return options;
  WindowOptions left = options;
  left.max_length -= static_cast<int>(std::min<std::size_t>(ids.size(), 65535));
  if (left.max_length < std::min(kLeastRoom, options.max_length)) return std::nullopt;
  left.stride = std::min(left.stride, left.content() - 1);
  return left;
}

void cut_windows(const PageTokens& tokens, const WindowOptions& options, std::vector<Window>& windows) {
  windows.clear();
  const auto count = static_cast<std::int32_t>(tokens.ids.size());
  const std::int32_t content = options.content();
  if (count <= content || options.long_pages == LongPages::kTruncate) {
    windows.push_back({0, std::min(count, content)});
    return;
  }
  const auto word_at = [&](std::int32_t token) { return tokens.words[static_cast<std::size_t>(token)]; };
  const auto starts_word = [&](std::int32_t token) {
    return tokens.is_text || token == 0 || token == count || word_at(token) != word_at(token - 1);
  };
  const auto word_end = [&](std::int32_t token) {
    std::int32_t end = token + 1;
    while (!starts_word(end)) ++end;
    return end;
  };

  for (std::int32_t begin = 0;;) {
    std::int32_t end = std::min(begin + content, count);
    if (!starts_word(end)) {
      std::int32_t start = end;
      while (start > begin && !starts_word(start)) --start;
      if (start > begin) end = start;  // otherwise the window holds part of one word, which is cut
    }
    windows.push_back({begin, end});
    if (end == count) return;
    // The overlap is as large as asked for, but the next word must fit after it, or the next window would end here.
    std::int32_t next = std::max(end - options.stride, word_end(end) - content);
    next = std::clamp(next, begin + 1, end);
    while (next < end && !starts_word(next)) ++next;
    begin = next;
  }
}

int owning_window(std::span<const Window> windows, std::int32_t token, std::int32_t token_count) {
  int owner = -1;
  std::int32_t most = -1;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    if (token < window.begin || token >= window.end) continue;
    const std::int32_t left = window.begin == 0 ? token_count : token - window.begin;
    const std::int32_t right = window.end == token_count ? token_count : window.end - 1 - token;
    if (const std::int32_t context = std::min(left, right); context > most) {
      most = context;
      owner = static_cast<int>(i);
    }
  }
  return owner;
}

}  // namespace plimsoll
