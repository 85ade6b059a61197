#include "formats/jinja.h"

#include "fuzz/targets.h"

// A chat template, and what it is rendered with after a form feed.
void plimsoll::fuzz::jinja(std::string_view input) {
  const std::size_t cut = input.find('\f');
  const std::string_view source = input.substr(0, cut);
  auto values = cut == std::string_view::npos ? nlohmann::ordered_json()
                                              : nlohmann::ordered_json::parse(input.substr(cut + 1), nullptr, false);
  if (!values.is_object()) values = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"tools", nullptr}};
  may_refuse([&] { static_cast<void>(JinjaTemplate(source, "template").render(values)); });
}
