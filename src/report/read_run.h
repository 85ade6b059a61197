// Reads the directory of a run as data: sizes, depths and counts are bounded, and a missing or damaged file costs only
// its own content, never the report.
//
//   const RunFacts run = read_run("runs/receipts");
//   for (const std::string& note : run.notes) use(note);
#pragma once

#include <filesystem>
#include <string>

#include "report/facts.h"

namespace plimsoll::report {

// Throws DataError if the directory is not that of a run: it has neither args.json, plan.json nor metrics.jsonl.
RunFacts read_run(const std::filesystem::path& directory);

// Takes the facts of a plan without a run: the JSON of plan.json, the text of arena.json and the list of findings.
RunFacts plan_as_run(const nlohmann::json& plan, const std::string& arena, const nlohmann::json& options,
                     const nlohmann::json& findings);

// Reads arena.json's text. Throws DataError if it holds no map.
Arena read_arena(const std::string& text, const std::string& where);

}  // namespace plimsoll::report
