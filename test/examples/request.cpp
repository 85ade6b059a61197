// Compiles the examples of src/request.
#include <filesystem>

#include "request/arena_json.h"

namespace plimsoll::examples {

void of_arena_json(const Session& session, const OpSpeeds& speeds, const std::filesystem::path& output_dir) {
#include "request/arena_json.h.inc"
}

}  // namespace plimsoll::examples
