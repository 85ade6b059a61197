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
    diagnosis_text(diagnosis, "log");
    diagnosis_json(diagnosis).dump();
  });
}
