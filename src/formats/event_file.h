// EventFile: a file that TensorBoard reads (tensorboard/compat/proto/event.proto in TFRecord frames). TensorBoard finds
// it by its name, events.out.tfevents.*, in any folder below --logdir.
//
//   EventFile file(directory, 100);  // the run goes on after 100 updates
//   file.add_scalars(110, std::array<EventFile::Scalar, 2>{{{"train/loss", 0.25}, {"train/learning_rate", 1e-4}}});
//   file.add_text(0, "plan", "| tensor | bytes |");
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace plimsoll {

class EventFile {
 public:
  struct Scalar {
    std::string_view tag;
    double value = 0;
  };
  static constexpr std::size_t kMostScalars = 16, kLongestTag = 64;  // per call, and in bytes

  // Makes a new file in the directory, which is created if it is missing. `resumed_at`: the run continues after that
  // step; TensorBoard then forgets what earlier files say of later ones. Throws EnvironmentError.
  explicit EventFile(const std::filesystem::path& directory, std::optional<std::int64_t> resumed_at = std::nullopt);

  // Writes at most kMostScalars numbers of one step with one system call, and allocates nothing. Numbers that are not
  // finite are shown as such.
  void add_scalars(std::int64_t step, std::span<const Scalar> scalars);
  // Adds a text, which is shown as Markdown.
  void add_text(std::int64_t step, std::string_view tag, std::string_view text);
  // `png` has the bytes of a PNG file of that size in pixels, which are not copied; the tag has at most kLongestTag
  // bytes.
  void add_image(std::int64_t step, std::string_view tag, std::string_view png, std::int64_t width,
                 std::int64_t height);

  const std::filesystem::path& path() const { return file_->path(); }

 private:
  void write_event(std::int64_t step, std::uint32_t field, std::string_view content, std::string_view rest = {});
  void write_record(std::string_view head, std::string_view content);

  std::optional<AppendedFile> file_;
};

// CRC-32C (Castagnoli), RFC 3720 B.4.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

}  // namespace plimsoll
