// What `plimsoll doctor` found, for people and as JSON. Text from logs and snapshots is printed without control
// characters.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "doctor/diagnosis.h"
#include "doctor/environment.h"
#include "doctor/snapshot.h"

namespace plimsoll {

std::string environment_text(std::span<const doctor::Check> checks);
nlohmann::json environment_json(std::span<const doctor::Check> checks);

// `name` is the log's, as the user gave it.
std::string diagnosis_text(const doctor::Diagnosis& diagnosis, const std::string& name);
nlohmann::json diagnosis_json(const doctor::Diagnosis& diagnosis);

std::string snapshot_text(const doctor::Snapshot& snapshot);
nlohmann::json snapshot_json(const doctor::Snapshot& snapshot);

}  // namespace plimsoll
