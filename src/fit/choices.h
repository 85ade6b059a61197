// Choices of algorithms (Backend::tune) from one run to the next: timed once on a machine, kept in a file of it, and
// recorded with a run, so that a second run and one that goes on come to the same bits.
//
//   Session session(fit(request, backend), backend, {{.cache = cache_directory()}});
//   session.choices();    // for plan.json and checkpoints
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/backend.h"

namespace plimsoll {

// What was chosen before.
struct KnownChoices {
  Choices recorded{};             // with the run that this one continues or repeats: these come first
  std::string recorded_in{};      // for messages
  std::filesystem::path cache{};  // the directory of this machine's file; empty: none is read or written
};

// Has `backend` take over what is known and choose by time what is not, in `memory`, which holds nothing yet and holds
// zeros then; adds it to the file. A warning says where what was recorded is for another device, or what is in the
// file cannot be used or kept. Throws DataError where what was recorded makes no sense.
Choices choose(Backend& backend, const DeviceMemory& memory, const KnownChoices& known);

// {"device": "NVIDIA H200, cuBLAS 130100", "algorithms": {"4096x768x768 BF16>BF16 tb bias": "00…", …}}, or null where
// there is nothing to choose. Reading throws DataError, naming `where`.
nlohmann::json choices_json(const Choices& choices);
Choices parse_choices(const nlohmann::json& json, const std::string& where);

}  // namespace plimsoll
