#include "formats/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <system_error>

#include "base/error.h"

namespace plimsoll {
namespace {

// Field numbers of the messages (event.proto, summary.proto, tensor.proto, tensor_shape.proto).
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;  // Event
constexpr std::uint32_t kValue = 1;                                                                 // Summary
constexpr std::uint32_t kTag = 1, kSimpleValue = 2, kImage = 4, kTensor = 8, kMetadata = 9;         // Summary.Value
constexpr std::uint32_t kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;                     // Summary.Image

enum class Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Appends fields of a message to bytes that the caller owns. It allocates only if they do.
template <typename Bytes>
class MessageWriter {
 public:
  explicit MessageWriter(Bytes& bytes) : bytes_(bytes) {}

  void number(std::uint32_t field, std::uint64_t value) {
    key(field, Wire::kVarint);
    varint(value);
  }
  void real(std::uint32_t field, double value) {
    key(field, Wire::kFixed64);
    fixed(std::bit_cast<std::uint64_t>(value));
  }
  void real(std::uint32_t field, float value) {
    key(field, Wire::kFixed32);
    fixed(std::bit_cast<std::uint32_t>(value));
  }
  void text(std::uint32_t field, std::string_view value) {
    begin(field, value.size());
    for (const char c : value) bytes_.push_back(c);
  }
  // Begins a text or message: writes its key and size; its bytes follow.
  void begin(std::uint32_t field, std::uint64_t size) {
    key(field, Wire::kBytes);
    varint(size);
  }

 private:
  void key(std::uint32_t field, Wire wire) { varint(field << 3 | static_cast<std::uint32_t>(wire)); }
  void varint(std::uint64_t value) {
    constexpr std::uint64_t kMore = 0x80;
    for (; value >= kMore; value >>= 7) bytes_.push_back(static_cast<char>(value | kMore));
    bytes_.push_back(static_cast<char>(value));
  }
  template <typename Word>
  void fixed(Word value) {
    for (std::size_t i = 0; i < sizeof value; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }

  Bytes& bytes_;
};

// A fixed buffer, for messages of known size.
template <std::size_t kSize>
class FixedBytes {
 public:
  void push_back(char c) {
    check(size_ < kSize, "a message is not larger than was foreseen");
    bytes_[size_++] = c;
  }
  operator std::string_view() const { return {bytes_.data(), size_}; }  // NOLINT(google-explicit-constructor)

 private:
  std::array<char, kSize> bytes_{};
  std::size_t size_ = 0;
};

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ kPolynomial : value >> 1;
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = crc_table();

// Masks a checksum as in TFRecord, so that bytes that contain checksums can have one.
std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8U; }

std::string message(const auto& fill) {
  std::string bytes;
  MessageWriter writer(bytes);
  fill(writer);
  return bytes;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& directory, std::optional<std::int64_t> resumed_at) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw EnvironmentError({.what = "cannot make a directory",
                            .where = directory.string(),
                            .found = error.message(),
                            .remedy = "check the path, its permissions and the disk"});
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  // Readers read the files of a folder in the order of their names, which begin with their times.
  std::filesystem::path path;
  int number = 0;
  do {
    path = directory / fmt::format("events.out.tfevents.{:010}.{}.{}.plimsoll", seconds, ::getpid(), number++);
  } while (std::filesystem::exists(path));
  file_.emplace(path, true);
  write_event(0, kFileVersion, "brain.Event:2");
  if (resumed_at) {
    write_event(*resumed_at + 1, kSessionLog, message([](auto& log) { log.number(1, 1); }));  // SessionLog.START
  }
}

void EventFile::add_scalars(std::int64_t step, std::span<const Scalar> scalars) {
  check(scalars.size() <= kMostScalars, "a call has no more numbers than it may");
  constexpr std::size_t kAround = 16;  // keys, sizes and the number itself
  FixedBytes<kMostScalars*(kLongestTag + kAround)> summary;
  MessageWriter writer(summary);
  for (const auto& [tag, value] : scalars) {
    FixedBytes<kLongestTag + kAround> entry;
    MessageWriter fields(entry);
    fields.text(kTag, tag);
    fields.real(kSimpleValue, static_cast<float>(value));
    writer.text(kValue, entry);
  }
  write_event(step, kSummary, summary);
}

void EventFile::add_text(std::int64_t step, std::string_view tag, std::string_view text) {
  const std::string plugin = message([](auto& data) { data.text(1, "text"); });
  const std::string metadata = message([&](auto& all) { all.text(1, plugin); });
  const std::string dimension = message([](auto& size) { size.number(1, 1); });
  const std::string shape = message([&](auto& dimensions) { dimensions.text(2, dimension); });
  const std::string tensor = message([&](auto& fields) {
    fields.number(1, 7);  // DataType.DT_STRING
    fields.text(2, shape);
    fields.text(8, text);
  });
  const std::string value = message([&](auto& fields) {
    fields.text(kTag, tag);
    fields.text(kTensor, tensor);
    fields.text(kMetadata, metadata);
  });
  write_event(step, kSummary, message([&](auto& summary) { summary.text(kValue, value); }));
}

void EventFile::add_image(std::int64_t step, std::string_view tag, std::string_view png, std::int64_t width,
                          std::int64_t height) {
  // All of these messages end with the picture's bytes, so these are written directly, without a copy.
  const std::string image = message([&](auto& fields) {
    fields.number(kHeight, static_cast<std::uint64_t>(height));
    fields.number(kWidth, static_cast<std::uint64_t>(width));
    fields.number(kColorspace, 3);  // RGB
    fields.begin(kEncoded, png.size());
  });
  const std::string value = message([&](auto& fields) {
    fields.text(kTag, tag);
    fields.begin(kImage, image.size() + png.size());
  });
  const std::string summary =
      message([&](auto& fields) { fields.begin(kValue, value.size() + image.size() + png.size()); });
  write_event(step, kSummary, summary + value + image, png);
}

void EventFile::write_event(std::int64_t step, std::uint32_t field, std::string_view content, std::string_view rest) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  // A tag and the sizes and keys of four messages fit.
  FixedBytes<2 * kLongestTag + 64> head;
  MessageWriter writer(head);
  writer.real(kWallTime, std::chrono::duration<double>(now).count());
  if (step != 0) writer.number(kStep, static_cast<std::uint64_t>(step));
  writer.begin(field, content.size() + rest.size());
  if (rest.empty()) return write_record(head, content);
  for (const char c : content) head.push_back(c);
  write_record(head, rest);
}

void EventFile::write_record(std::string_view head, std::string_view content) {
  const auto put = [](auto value, char* to) {
    for (std::size_t i = 0; i < sizeof value; ++i) to[i] = static_cast<char>(value >> (8 * i));
  };
  std::array<char, 12> before{};
  std::array<char, 4> after{};
  put(std::uint64_t{head.size() + content.size()}, before.data());
  put(masked(crc32c({before.data(), 8})), before.data() + 8);
  put(masked(crc32c(content, crc32c(head))), after.data());
  file_->write({{before.data(), before.size()}, head, content, {after.data(), after.size()}});
}

}  // namespace plimsoll
