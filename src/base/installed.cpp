#include "base/installed.h"

#include <system_error>

namespace plimsoll {

std::filesystem::path installed(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || program.parent_path().filename() != "bin") return {};
  const std::filesystem::path file = program.parent_path().parent_path() / path;
  return std::filesystem::exists(file, error) ? file : std::filesystem::path();
}

}  // namespace plimsoll
