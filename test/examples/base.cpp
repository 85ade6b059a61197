// Compiles the examples of src/base, as the CMakeLists.txt beside this file explains. The parameters of each function
// are what its example takes as given.
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_gate.h"
#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/child_process.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/installed.h"
#include "base/interrupt.h"
#include "base/lower_case.h"
#include "base/mapped_bytes.h"
#include "base/nvidia.h"
#include "base/offload_file.h"
#include "base/path_from.h"
#include "base/philox.h"
#include "base/utf8.h"
#include "base/work_folder.h"
#include "examples/use.h"
#include "runtime/program.h"
#include "transform/offload.h"

namespace plimsoll::examples {

namespace fs = std::filesystem;

void of_byte_gate(std::uint64_t image_bytes, void decode()) {
#include "base/byte_gate.h.inc"
}

void of_cgroup() {
#include "base/cgroup.h.inc"
}

void of_child_process(void use(const std::string& output)) {
#include "base/child_process.h.inc"
}

void of_installed(void use(const fs::path& folder)) {
#include "base/installed.h.inc"
}

void of_lower_case(const fs::path& path) {
#include "base/lower_case.h.inc"
}

void of_counted(int n) {
#include "base/counted.h.inc"
}

void of_error() {
#include "base/error.h.inc"
}

void of_hash(const std::string& text, std::span<const std::byte> more) {
#include "base/hash.h.inc"
}

void of_heap() {
#include "base/heap.h.inc"
}

void of_interrupt(const Program& program, void save()) {
#include "base/interrupt.h.inc"
}

void of_mapped_bytes(const InputFile& file, std::uint64_t offset, std::size_t bytes) {
#include "base/mapped_bytes.h.inc"
}

void of_nvidia() {
#include "base/nvidia.h.inc"
}

void of_offload_file(const OffloadLayout& layout, std::span<std::byte> bytes) {
#include "base/offload_file.h.inc"
}

void of_path_from() {
#include "base/path_from.h.inc"
}

void of_philox(std::uint32_t token, std::uint32_t column, std::uint32_t site, std::uint32_t sample,
               std::uint32_t seed_low, std::uint32_t seed_high) {
#include "base/philox.h.inc"
}

void of_work_folder(const std::string& text) {
#include "base/work_folder.h.inc"
}

void of_utf8() {
#include "base/utf8.h.inc"
}

}  // namespace plimsoll::examples
