#include "data/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "formats/json.h"

namespace plimsoll {

std::string_view severity_name(Severity severity) {
  constexpr std::string_view kNames[] = {"error", "warning", "info"};
  return kNames[static_cast<std::size_t>(severity)];
}

void Findings::add(Severity severity, std::string_view kind, Problem problem) {
  auto found = std::find_if(findings_.begin(), findings_.end(), [&](const Finding& each) {
    return each.kind == kind && each.severity == severity && each.first.what == problem.what;
  });
  if (found == findings_.end()) {
    findings_.push_back({.severity = severity, .kind = std::string(kind)});
    found = findings_.end() - 1;
    found->first = problem;
  }
  ++found->count;
  if (found->places.size() < places_kept_) {
    found->places.push_back({std::move(problem.where), std::move(problem.found)});
  }
}

void Findings::merge(const Findings& other) {
  for (const Finding& theirs : other.findings_) {
    const auto found = std::find_if(findings_.begin(), findings_.end(), [&](const Finding& each) {
      return each.kind == theirs.kind && each.severity == theirs.severity && each.first.what == theirs.first.what;
    });
    if (found == findings_.end()) {
      findings_.push_back(theirs);
      continue;
    }
    found->count += theirs.count;
    for (const Finding::Place& place : theirs.places) {
      if (found->places.size() < places_kept_) found->places.push_back(place);
    }
  }
}

std::vector<Finding> Findings::sorted() const {
  std::vector<Finding> sorted = findings_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return sorted;
}

std::uint64_t Findings::count(Severity severity) const {
  std::uint64_t sum = 0;
  for (const Finding& finding : findings_) sum += finding.severity == severity ? finding.count : 0;
  return sum;
}

std::uint64_t Findings::count(std::string_view kind) const {
  std::uint64_t sum = 0;
  for (const Finding& finding : findings_) sum += finding.kind == kind ? finding.count : 0;
  return sum;
}

std::string Findings::to_text() const {
  std::string text;
  for (const Finding& finding : sorted()) {
    text += fmt::format("{} [{}] {}{}\n", severity_name(finding.severity), finding.kind, finding.first.what,
                        finding.count == 1 ? "" : fmt::format(" ({})", counted(finding.count, "time")));
    const auto line = [&text](std::string_view label, const std::string& value) {
      if (!value.empty()) text += fmt::format("  {:<8} {}\n", label, printable(value, "\n"));
    };
    for (std::size_t i = 0; i < finding.places.size(); ++i) {
      const auto& [where, found] = finding.places[i];
      const bool own = finding.count > 1 && !found.empty();  // the value found differs between places
      line(i == 0 ? "where:" : "", own ? fmt::format("{}: {}", where, found) : where);
    }
    if (finding.count > finding.places.size()) {
      line("", fmt::format("and {} more", finding.count - finding.places.size()));
    }
    if (finding.count == 1) line("found:", finding.first.found);
    line("allowed:", finding.first.allowed);
    line("to do:", finding.first.remedy);
  }
  return text;
}

std::string Findings::to_json() const {
  using Json = nlohmann::ordered_json;
  Json json = Json::array();
  for (const Finding& finding : sorted()) {
    Json places = Json::array(), found = Json::array();
    for (const Finding::Place& place : finding.places) {
      places.push_back(place.where);
      found.push_back(place.found);
    }
    json.push_back({{"severity", severity_name(finding.severity)},
                    {"kind", finding.kind},
                    {"count", finding.count},
                    {"what", finding.first.what},
                    {"places", places},
                    {"found_at_places", found},
                    {"found", finding.first.found},
                    {"allowed", finding.first.allowed},
                    {"remedy", finding.first.remedy}});
  }
  return json_text(json, 2);
}

std::vector<std::string> Findings::to_lines(Severity severity) const {
  std::vector<std::string> lines;
  for (const Finding& finding : sorted()) {
    if (finding.severity != severity) continue;
    const Problem& first = finding.first;
    lines.push_back(printable(fmt::format("[{}] {} ({}{}){}{}", finding.kind, first.what,
                                          finding.count == 1 ? "" : counted(finding.count, "time") + ", first at ",
                                          first.where, first.found.empty() ? "" : ": ", first.found)));
  }
  return lines;
}

DataError Findings::to_error(std::string_view file, std::string_view more_listed) const {
  const std::vector<Finding> all = sorted();
  check(!all.empty() && all.front().severity == Severity::kError, "there is an error to report");
  Problem problem = all.front().first;
  const std::uint64_t more = count(Severity::kError) - 1;
  if (more > 0) {
    problem.remedy += fmt::format("{}{} in {}: {}", problem.remedy.empty() ? "" : "; ", counted(more, "more error"),
                                  file, more_listed);
  }
  return DataError(std::move(problem));
}

}  // namespace plimsoll
