// Compiles the examples of src/request.
#include <filesystem>

#include "data/check.h"
#include "request/arena_json.h"
#include "request/class_weights.h"
#include "request/teacher.h"
#include "train/options.h"

namespace plimsoll::examples {

void of_arena_json(const Session& session, const OpSpeeds& speeds, const std::filesystem::path& output_dir) {
#include "request/arena_json.h.inc"
}

void of_class_weights(ModelBundle& bundle, const ClassWeightRequest& request, const CheckReport& report) {
#include "request/class_weights.h.inc"
}

void of_teacher(const ModelBundle& bundle, TrainOptions& train) {
#include "request/teacher.h.inc"
}

}  // namespace plimsoll::examples
