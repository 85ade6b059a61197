#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/doctor_text.h"
#include "doctor/diagnosis.h"
#include "fuzz/targets.h"

void plimsoll::fuzz::log(std::string_view input) {
  may_refuse([&] {
    doctor::LogReader reader;
    // The input comes in two pieces, as from a pipe.
    reader.feed(input.substr(0, input.size() / 2));
    reader.feed(input.substr(input.size() / 2));
    const doctor::Diagnosis diagnosis = reader.finish();
    // What is printed of a log is text, and no control character that a terminal would obey.
    const std::string text = diagnosis_text(diagnosis, "log");
    if (std::any_of(text.begin(), text.end(), [](char c) { return c == 0x7F || (c >= 0 && c < 0x20 && c != '\n'); })) {
      std::abort();
    }
    nlohmann::json(text).dump();  // throws if it is no UTF-8
    diagnosis_json(diagnosis).dump();
  });
}
