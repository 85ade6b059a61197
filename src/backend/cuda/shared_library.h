// Libraries that are opened at run time, cuBLASLt and NCCL: hundreds of megabytes that are neither linked nor shipped.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::cuda {

// Texts for messages if a library is missing.
struct LibraryTexts {
  std::string name;       // "NCCL"
  std::string purpose;    // "which moves tensors between GPUs"
  std::string where{};    // the option that asks for it, or empty
  std::string allowed{};  // what library would do, or empty
  std::string remedy;
};

class SharedLibrary {
 public:
  SharedLibrary(void* handle, std::string file, const LibraryTexts& texts)
      : handle_(handle), file_(std::move(file)), texts_(texts) {}

  const std::string& file() const { return file_; }
  // Throws EnvironmentError if the library has no such function.
  template <typename Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  void* handle_;
  std::string file_;
  const LibraryTexts& texts_;
};

// Returns the file that the environment variable names; else `sonames`, which the loader looks for, and then the same
// among Python's packages (base/installed.h).
std::vector<std::string> library_names(const char* variable, std::initializer_list<const char*> sonames);

// Opens them in turn until use(library) accepts one by returning an empty text; otherwise the text says why the library
// is of no use. The library stays open. Throws EnvironmentError, which says what was tried, if there is none; `use` may
// throw, too.
void open_library(std::span<const std::string> names, const LibraryTexts& texts,
                  const std::function<std::string(const SharedLibrary&)>& use);

}  // namespace plimsoll::cuda
