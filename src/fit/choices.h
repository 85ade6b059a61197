// Choices of algorithms (Backend::tune), kept from one run to the next: they are timed once on a machine, kept there in
// a file, and recorded with a run, so that a second or a resumed run gives the same bits.
//
//   Session session(fit(request, backend), backend, {{.cache = cache_directory()}});
//   session.choices();    // for plan.json and checkpoints
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/backend.h"

namespace plimsoll {

// Choices that were made before.
struct KnownChoices {
  Choices recorded{};             // with the run that this one resumes or repeats: these have priority
  std::string recorded_in{};      // for messages
  std::filesystem::path cache{};  // the directory of this machine's file; empty: no file is used
};

// Gives `backend` the known choices and times the missing ones, using `memory`, which must not hold data yet and holds
// zeros afterwards; adds them to the file. Warns if the recorded choices are for another device, or if the file cannot
// be used or written. Throws DataError if the recorded choices make no sense.
Choices choose(Backend& backend, const DeviceMemory& memory, const KnownChoices& known);

// Choices as JSON: {"device": "NVIDIA H200, cuBLAS 130100", "algorithms": {"4096x768x768 BF16>BF16 tb bias": "00…",
// …}}, or null if there is nothing to choose. Reading throws DataError, naming `where`.
nlohmann::json choices_json(const Choices& choices);
Choices parse_choices(const nlohmann::json& json, const std::string& where);

}  // namespace plimsoll
