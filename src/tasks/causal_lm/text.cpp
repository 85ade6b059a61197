#include "tasks/causal_lm/text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/dataset.h"
#include "data/page_faults.h"

namespace plimsoll {
namespace {

constexpr const char* kForms = "`text`, or `prompt` and `completion`";

class TextReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const nlohmann::json&, const Page&, PageFaults*) const override {
    return std::make_shared<PageText>();
  }
  std::string_view key() const override { return "text"; }
  bool reads_text() const override { return true; }

  std::vector<std::string> text(const nlohmann::json& json, const Page& page) const override {
    const bool whole = json.contains("text") || !(json.contains("prompt") || json.contains("completion"));
    for (const char* key : {"prompt", "completion"}) {
      if (json.contains("text") && json.contains(key)) {
        throw PageError("text-twice", {.what = "a page has a text in two ways",
                                       .where = place(page),
                                       .found = fmt::format("`text` and `{}`", key),
                                       .allowed = kForms,
                                       .remedy = "omit one of them"});
      }
    }
    std::vector<std::string> parts;
    for (const char* key : whole ? std::vector{"text"} : std::vector{"prompt", "completion"}) {
      const auto found = json.find(key);
      if (found == json.end()) {
        throw PageError("text-missing", {.what = "a page has no text to learn",
                                         .where = place(page),
                                         .found = fmt::format("no `{}`", key),
                                         .allowed = kForms,
                                         .remedy = "add it, or pass the --task that the data are for"});
      }
      if (!found->is_string()) throw wrong_type(page, fmt::format("`{}`", key), *found, "a string");
      parts.push_back(found->get<std::string>());
    }
    if (parts.back().empty()) {
      throw PageError("text-empty", {.what = "a page's text is empty",
                                     .where = place(page),
                                     .found = fmt::format("`{}`: \"\"", whole ? "text" : "completion"),
                                     .allowed = "at least one character",
                                     .remedy = "omit the line, or write the text"});
    }
    return parts;
  }

  void pack(const PageTarget&, Packer&) const override {}
  std::shared_ptr<const PageTarget> unpack(Unpacker&) const override { return std::make_shared<PageText>(); }
};

class NextTokenTargets final : public Targets {
 public:
  void encode(const PageWindow& window, EncodedExample& out) const override {
    const std::size_t learned = window.page.words.size() - 1;
    const Window& cut = window.windows[window.index];
    out.loss_terms = 0;
    for (std::int32_t token = cut.begin; token + 1 < cut.end; ++token) {
      const auto next = static_cast<std::size_t>(token) + 1;
      if (static_cast<std::size_t>(window.tokens.words[next]) != learned) continue;
      out.labels[window.first_row + static_cast<std::size_t>(token - cut.begin)] = window.tokens.ids[next];
      ++out.loss_terms;
    }
  }
  void check(const Page&, bool, Findings&, std::map<std::string, std::uint64_t>&) const override {}
};

}  // namespace

const TargetReader& text_reader() {
  static const TextReader reader;
  return reader;
}

std::shared_ptr<const Targets> next_token_targets() { return std::make_shared<NextTokenTargets>(); }

}  // namespace plimsoll
