#include "harness/paths.h"

namespace plimsoll {

std::filesystem::path source_dir() { return PLIMSOLL_SOURCE_DIR; }
std::filesystem::path test_data_dir() { return source_dir() / "test" / "data"; }
std::filesystem::path shared_dir() { return PLIMSOLL_SHARED_DIR; }
std::filesystem::path program_path() { return PLIMSOLL_PROGRAM; }

}  // namespace plimsoll
