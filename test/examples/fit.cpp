// Compiles the examples of src/fit.
#include "fit/fit.h"

#include <vector>

#include "cli/speeds.h"
#include "fit/choices.h"
#include "fit/explanation.h"
#include "fit/phases.h"
#include "fit/remedies.h"
#include "fit/session.h"

namespace plimsoll::examples {

void of_choices(const FitRequest& request, Backend& backend) {
#include "fit/choices.h.inc"
}

void of_explanation(const FitRequest& request, Backend& backend) {
#include "fit/explanation.h.inc"
}

void of_phases(const FitRequest& weighing, const FitRequest& training, Backend& backend) {
#include "fit/phases.h.inc"
}

void of_remedies(const FitRequest& request, const PlanSummary& smallest, Backend& backend) {
#include "fit/remedies.h.inc"
}

void of_session(const FitRequest& request, Backend& backend) {
#include "fit/session.h.inc"
}

}  // namespace plimsoll::examples
