// The parts of a report as values for its template (src/report/page/report.html), one function per section. Null: the
// section is left out. Texts are plain and bounded; the template escapes them.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/facts.h"

namespace plimsoll::report {

// How much of a run goes into the page; lowered until the page is small enough.
struct ViewLimits {
  std::size_t tensors = 3000;           // of each program's map, and of those that always exist
  std::size_t picture_bytes = 110'000;  // of each page
  std::size_t pictures = 6;             // of each run
  std::size_t texts = 300;              // bytes per text from the run's files
};

// Returns "a", "b", …, which selects a run's colour.
std::string run_key(std::size_t run);
// Returns the runs' names in the page: the directory's name, with more of the path if two are the same.
std::vector<std::string> run_names(const std::vector<RunFacts>& runs);
// Cuts a text to that many bytes, never within a character; "…" replaces the rest.
std::string cut_text(std::string_view text, std::size_t most_bytes);
// Returns "0.0123", "1.2e-05"; "–" for NaN and infinity.
std::string number_text(double value, int digits = 4);

// Returns what the predicted peak consists of, and the maps of arenas.
nlohmann::json memory_view(const std::vector<RunFacts>& runs, const ViewLimits& limits);
// Returns the names of kinds, levers and phases, which the page's script holds once; a tensor of another kind is an
// activation.
const nlohmann::json& map_kinds();
const nlohmann::json& map_levers();
const nlohmann::json& map_phases();
// Returns the arena for the page's script; null without one.
nlohmann::json arena_facts(const RunFacts& run, const ViewLimits& limits);

// Return charts over updates, each with its table: of memory, and the sections of the others.
nlohmann::json memory_charts(const std::vector<RunFacts>& runs);
nlohmann::json chart_views(const std::vector<RunFacts>& runs);
// Returns the names of the metrics that any run's evaluations have, the task's main one first.
std::vector<std::string> metric_names(const std::vector<RunFacts>& runs);
nlohmann::json progress_facts(const RunFacts& run);
// Returns the evaluation that describes the model: that of the saved model, or the last; nullptr if there is none.
const Evaluation* final_evaluation(const RunFacts& run);

nlohmann::json labels_view(const std::vector<RunFacts>& runs, const ViewLimits& limits);
nlohmann::json pages_view(const std::vector<RunFacts>& runs, const ViewLimits& limits);
nlohmann::json findings_view(const std::vector<RunFacts>& runs, const ViewLimits& limits);
// `differing`: only the options that differ between runs.
nlohmann::json options_view(const std::vector<RunFacts>& runs, bool differing, const ViewLimits& limits);
nlohmann::json summary_facts(const std::vector<RunFacts>& runs);

}  // namespace plimsoll::report
