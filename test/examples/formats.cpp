// Compiles the examples of src/formats.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "formats/base64.h"
#include "formats/checksums.h"
#include "formats/event_file.h"
#include "formats/jinja.h"
#include "formats/jinja_arguments.h"
#include "formats/jinja_filters.h"
#include "formats/jinja_methods.h"
#include "formats/jinja_syntax.h"
#include "formats/jinja_text.h"
#include "formats/jinja_tokens.h"
#include "formats/jinja_values.h"
#include "formats/json.h"
#include "formats/little_endian.h"
#include "formats/npy.h"
#include "formats/pickle.h"
#include "formats/pickle_writer.h"
#include "formats/protobuf.h"
#include "formats/quantized_source.h"
#include "formats/quantized_writer.h"
#include "formats/safetensors.h"
#include "formats/tensor_source.h"
#include "formats/torch_pickle.h"
#include "formats/weights.h"
#include "formats/zip.h"

namespace plimsoll::examples {

namespace fs = std::filesystem;

void of_event_file(const std::filesystem::path& directory) {
#include "formats/event_file.h.inc"
}

void of_base64() {
#include "formats/base64.h.inc"
}

void of_checksums(const fs::path& directory, std::string_view text) {
#include "formats/checksums.h.inc"
}

void of_json(const fs::path& path) {
  constexpr std::uint64_t kLimit = 1 << 20;
#include "formats/json.h.inc"
}

void of_little_endian(std::span<const std::byte> header) {
#include "formats/little_endian.h.inc"
}

void of_npy() {
#include "formats/npy.h.inc"
}

void of_pickle(std::span<const std::byte> bytes) {
#include "formats/pickle.h.inc"
}

void of_pickle_writer(OutputFile& file) {
#include "formats/pickle_writer.h.inc"
}

void of_protobuf(std::string_view bytes, std::vector<std::string>& pieces) {
#include "formats/protobuf.h.inc"
}

void of_safetensors(const fs::path& path, std::span<const std::byte> weight_bytes,
                    std::span<const std::byte> bias_bytes) {
#include "formats/safetensors.h.inc"
}

void of_tensor_source(const fs::path& directory, std::size_t plan_bytes, std::span<float> bias) {
#include "formats/tensor_source.h.inc"
}

void of_torch_pickle(const fs::path& directory, std::span<float> bias) {
#include "formats/torch_pickle.h.inc"
}

void of_quantized_source(const fs::path& path, std::span<float> values) {
#include "formats/quantized_source.h.inc"
}

void of_quantized_writer(const fs::path& path, const QuantizedWriter::Read& read) {
#include "formats/quantized_writer.h.inc"
}

void of_weights(const fs::path& model_dir, std::span<float> bias, std::span<std::byte> staging) {
#include "formats/weights.h.inc"
}

void of_zip(const fs::path& path, std::string text) {
#include "formats/zip.h.inc"
}

void of_jinja(const std::string& text, const nlohmann::ordered_json& messages) {
#include "formats/jinja.h.inc"
}

void of_jinja_arguments(const JinjaArguments& arguments) {
#include "formats/jinja_arguments.h.inc"
}

void of_jinja_filters(const JinjaValue& messages) {
#include "formats/jinja_filters.h.inc"
}

void of_jinja_methods() {
#include "formats/jinja_methods.h.inc"
}

void of_jinja_syntax() {
#include "formats/jinja_syntax.h.inc"
}

void of_jinja_text() {
#include "formats/jinja_text.h.inc"
}

void of_jinja_tokens() {
#include "formats/jinja_tokens.h.inc"
}

void of_jinja_values() {
#include "formats/jinja_values.h.inc"
}

}  // namespace plimsoll::examples
