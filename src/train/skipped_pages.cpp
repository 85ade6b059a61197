#include "train/skipped_pages.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

nlohmann::json unread_pages_json(const std::vector<SkippedPage>& pages) {
  nlohmann::json list = nlohmann::json::array();
  for (const SkippedPage& page : pages) {
    list.push_back({{"index", page.page},
                    {"what", page.problem.what},
                    {"where", page.problem.where},
                    {"found", page.problem.found}});
  }
  return list;
}

nlohmann::json skipped_pages_json(const std::vector<SkippedPage>& pages) {
  nlohmann::json list = unread_pages_json(pages);
  for (std::size_t i = 0; i < pages.size(); ++i) list[i]["data"] = pages[i].evaluation ? "evaluation" : "train";
  return list;
}

std::vector<SkippedPage> parse_skipped_pages(const nlohmann::json& json) {
  std::vector<SkippedPage> pages;
  for (const nlohmann::json& page : json) {
    pages.push_back({.evaluation = page.at("data").get<std::string>() == "evaluation",
                     .page = page.at("index").get<std::uint32_t>(),
                     .problem = {.what = page.at("what").get<std::string>(),
                                 .where = page.at("where").get<std::string>(),
                                 .found = page.at("found").get<std::string>()}});
  }
  return pages;
}

std::string describe(const SkippedPage& page) {
  const Problem& problem = page.problem;
  return fmt::format("{}: {}{}", problem.where, problem.what,
                     problem.found.empty() ? "" : fmt::format(" ({})", problem.found));
}

std::vector<std::uint32_t> indices_of(const std::vector<SkippedPage>& pages, bool evaluation) {
  std::vector<std::uint32_t> indices;
  for (const SkippedPage& page : pages) {
    if (page.evaluation == evaluation) indices.push_back(page.page);
  }
  std::ranges::sort(indices);
  return indices;
}

}  // namespace plimsoll
