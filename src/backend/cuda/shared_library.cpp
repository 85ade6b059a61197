#include "backend/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/installed.h"

namespace plimsoll::cuda {

void* SharedLibrary::symbol(const char* name) const {
  if (void* const found = dlsym(handle_, name)) return found;
  throw EnvironmentError({.what = fmt::format("the {} library lacks a function that Plimsoll calls", texts_.name),
                          .where = file_,
                          .found = fmt::format("no {}", name),
                          .allowed = texts_.allowed,
                          .remedy = texts_.remedy});
}

std::vector<std::string> library_names(const char* variable, std::initializer_list<const char*> sonames) {
  if (const char* const file = std::getenv(variable); file != nullptr && *file != '\0') return {file};
  std::vector<std::string> names(sonames.begin(), sonames.end());
  for (const char* const soname : sonames) {
    for (const std::filesystem::path& file : in_nvidia_packages(soname)) names.push_back(file.string());
  }
  return names;
}

void open_library(std::span<const std::string> names, const LibraryTexts& texts,
                  const std::function<std::string(const SharedLibrary&)>& use) {
  std::string tried;
  for (const std::string& name : names) {
    std::string reason;
    if (void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      reason = use(SharedLibrary(handle, name, texts));
      if (reason.empty()) return;
      reason = fmt::format("{}: {}", name, reason);
    } else {
      const char* const error = dlerror();
      reason = error == nullptr ? name : error;
    }
    tried += (tried.empty() ? "" : "; ") + reason;
  }
  throw EnvironmentError({.what = fmt::format("{}, {}, cannot be loaded", texts.name, texts.purpose),
                          .where = texts.where,
                          .found = tried,
                          .allowed = fmt::format("one of {}", fmt::join(names, ", ")),
                          .remedy = texts.remedy});
}

}  // namespace plimsoll::cuda
