#include "base/path_from.h"

#include "base/file.h"

namespace plimsoll {

std::filesystem::path path_from(const std::filesystem::path& output, const std::filesystem::path& path) {
  if (output.empty() || path.empty() || path.is_absolute() || is_special_file(output)) return path;
  return std::filesystem::absolute(path).lexically_normal().lexically_proximate(
      std::filesystem::absolute(output).lexically_normal().parent_path());
}

}  // namespace plimsoll
