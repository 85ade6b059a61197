// Logs of failed runs, and what the doctor says about them.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "doctor/diagnosis.h"
#include "harness/paths.h"

namespace plimsoll::doctor {

inline std::filesystem::path logs() { return source_dir() / "test" / "doctor" / "logs"; }
inline std::filesystem::path unseen_logs() { return logs().parent_path() / "unseen"; }

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Diagnosis diagnose(const std::string& log) {
  LogReader reader;
  reader.feed(log);
  return reader.finish();
}

inline std::string name_of(const Diagnosis& diagnosis) {
  if (diagnosis.no_failure) return "no failure";
  return diagnosis.rule == nullptr ? "not recognised" : std::string(diagnosis.rule->name);
}

inline bool is_sure(const Diagnosis& diagnosis) { return diagnosis.rule != nullptr && diagnosis.doubt.empty(); }

}  // namespace plimsoll::doctor
