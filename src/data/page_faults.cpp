#include "data/page_faults.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/page_source.h"
#include "formats/json.h"

namespace plimsoll {

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  // `replace` makes sure that a message can be shown even if its text is not UTF-8.
  std::string text = json_text(value);
  if (const std::string_view name = non_finite_name(value); !name.empty()) text = name;
  if (text.size() > kLongest) {
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text.resize(end);
    text += "…";
  }
  return text;
}

void report(PageFaults* faults, PageError fault) {
  if (faults == nullptr) throw std::move(fault);
  faults->push_back(std::move(fault));
}

std::shared_ptr<const PageTarget> unread_target() {
  static const auto target = std::make_shared<const UnreadTarget>();
  return target;
}

bool is_idle(const Targets& targets, const PageWindow& window) {
  return window.index + 1 < window.windows.size() && targets.learnt_tokens(window) == 0;
}

bool is_unread(const Page& page) { return dynamic_cast<const UnreadTarget*>(page.target.get()) != nullptr; }

PageError wrong_type(const Page& page, const std::string& where, const nlohmann::json& value, std::string allowed) {
  // Findings are grouped by `what`, so it must not mix places for which different values are allowed.
  return PageError("wrong-type", {.what = fmt::format("a value of the wrong type: not {}", allowed),
                                  .where = fmt::format("{}, {}", place(page), where),
                                  .found = shown(value),
                                  .allowed = std::move(allowed),
                                  .remedy = "correct the page's JSON"});
}

}  // namespace plimsoll
