// Compiles the examples of src/doctor.
#include <string_view>

#include "doctor/diagnosis.h"
#include "doctor/rule.h"
#include "doctor/snapshot.h"
#include "examples/use.h"

namespace plimsoll::doctor {

void of_diagnosis(std::string_view bytes) {
#include "doctor/diagnosis.h.inc"
}

void of_rule() {
#include "doctor/rule.h.inc"
}

void of_snapshot() {
#include "doctor/snapshot.h.inc"
}

}  // namespace plimsoll::doctor
