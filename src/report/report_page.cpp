#include "report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "base/counted.h"
#include "base/hash.h"
#include "report/page_files.h"
#include "report/template.h"
#include "report/views.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::json;

std::string title_of(const std::vector<RunFacts>& runs, const std::vector<std::string>& names) {
  if (runs.size() == 1) return runs.front().is_plan ? "Memory plan" : "Run " + names.front();
  std::string title;
  for (std::size_t r = 0; r < names.size(); ++r) {
    title += (r == 0 ? "" : r + 1 == names.size() ? " and " : ", ") + names[r];
  }
  return title + " side by side";
}

std::string subtitle_of(const RunFacts& run) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : " · ") + part;
  };
  add(text_at(run.options, "model"));
  add(text_at(run.options, "data"));
  add(text_at(run.machine, "processor"));
  if (text_at(run.machine, "device") == "cuda") add("GPU");
  return text;
}

Json notes_of(const std::vector<RunFacts>& runs, const std::vector<std::string>& names, const ViewLimits& limits) {
  constexpr std::size_t kMost = 12;
  Json notes = Json::array();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::size_t of_run = 0;
    for (const std::string& note : runs[r].notes) {
      if (++of_run > kMost) break;
      notes.push_back({{"run", runs.size() > 1 ? names[r] : ""}, {"text", cut_text(note, limits.texts)}});
    }
    if (!runs[r].is_plan && !runs[r].finished) {
      notes.push_back({{"run", runs.size() > 1 ? names[r] : ""},
                       {"text",
                        "The run has no summary: it is still running, or was interrupted. A checkpoint of it continues "
                        "with --resume-from-checkpoint latest."}});
    }
  }
  return notes;
}

Json sections_of(const Json& page) {
  Json sections = Json::array();
  const auto add = [&](const char* id, const char* name) { sections.push_back({{"id", id}, {"name", name}}); };
  add("summary", "Summary");
  if (!page["memory"].is_null()) add("memory", "Memory");
  for (const Json& section : page["chart_sections"]) {
    sections.push_back({{"id", section["id"]}, {"name", section["title"]}});
  }
  if (!page["labels"].is_null()) add("labels", "Labels");
  if (!page["pages"].is_null()) add("pages", "Worst pages");
  if (!page["data"].is_null()) add("data", "Checks");
  if (!page["options"].is_null()) add("options", "Options");
  return sections;
}

std::string whole_template() {
  constexpr std::string_view kPlace = "{{>chart}}";
  std::string text(kPageTemplate);
  for (std::size_t at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at + kPageChart.size())) {
    text.replace(at, kPlace.size(), kPageChart);
  }
  return text;
}

std::string build(const std::vector<RunFacts>& runs, const ViewLimits& limits) {
  const std::vector<std::string> names = run_names(runs);
  Json of_runs = Json::array(), facts = Json::array();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    of_runs.push_back({{"name", names[r]}, {"key", run_key(r)}});
    Json fact = progress_facts(runs[r]);
    fact["name"] = names[r];
    fact["key"] = run_key(r);
    fact["index"] = r;
    fact["arena"] = arena_facts(runs[r], limits);
    facts.push_back(std::move(fact));
  }
  const bool several = runs.size() > 1;
  const std::string script_facts = script_json({{"runs", std::move(facts)},
                                                {"metrics", metric_names(runs)},
                                                {"kinds", map_kinds()},
                                                {"levers", map_levers()},
                                                {"phases", map_phases()}});
  const std::string version = runs.front().version;
  Json page = {
      {"title", title_of(runs, names)},
      {"subtitle", several ? "" : cut_text(subtitle_of(runs.front()), limits.texts)},
      {"several", several},
      {"runs", std::move(of_runs)},
      {"notes", notes_of(runs, names, limits)},
      {"facts", summary_facts(runs)},
      {"differences", several ? options_view(runs, true, limits) : Json()},
      {"memory", memory_view(runs, limits)},
      {"chart_sections", chart_views(runs)},
      {"labels", labels_view(runs, limits)},
      {"pages", pages_view(runs, limits)},
      {"data", findings_view(runs, limits)},
      {"options", options_view(runs, false, limits)},
      {"footer", fmt::format("Written by plimsoll{}. The file needs no network; times in it are estimates unless "
                             "they are called measured.",
                             runs.front().is_plan ? " plan --html" : " report")},
      {"style", std::string(kPageStyle)},
      {"script", std::string(kPageScript)},
      {"script_facts", script_facts},
      // No text in the runs can contain it, because it depends on all of them.
      {"nonce", hash_digits(hash_bytes(std::as_bytes(std::span(script_facts))))}};
  page["sections"] = sections_of(page);
  return fill_template(whole_template(), page);
}

}  // namespace

std::string run_key(std::size_t run) { return std::string(1, static_cast<char>('a' + run % 6)); }

std::vector<std::string> run_names(const std::vector<RunFacts>& runs) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  bool unique = true;
  for (const RunFacts& run : runs) unique = seen.insert(run.name).second && unique;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::string name = runs[r].is_plan ? "plan" : unique ? runs[r].name : runs[r].directory.string();
    names.push_back(cut_text(name, 60));
  }
  return names;
}

std::string cut_text(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string number_text(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "–";
}

std::string report_page(const std::vector<RunFacts>& runs) {
  ViewLimits limits;
  limits.tensors /= runs.size();
  limits.picture_bytes /= runs.size();
  std::string page = build(runs, limits);
  while (page.size() > kMostReportBytes && limits.tensors > 50) {
    limits.tensors /= 2;
    limits.picture_bytes /= 2;
    limits.texts = std::max<std::size_t>(60, limits.texts / 2);
    if (limits.picture_bytes < 20'000) limits.pictures = limits.pictures / 2;
    page = build(runs, limits);
  }
  return page;
}

}  // namespace plimsoll::report
