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
    nlohmann::json(text).dump();  // throws if it is no UTF-8
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      const bool is_c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
      if (is_c1 || c == 0x7F || (c < 0x20 && c != '\n')) std::abort();
    }
    diagnosis_json(diagnosis).dump();
  });
}
