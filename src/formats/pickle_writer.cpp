#include "formats/pickle_writer.h"

#include <array>
#include <bit>
#include <limits>

namespace plimsoll {
namespace {

// The instructions of CPython's Lib/pickletools.py.
constexpr char kProto = '\x80', kStop = '.', kMark = '(';
constexpr char kNewTrue = '\x88', kNewFalse = '\x89', kBinInt = 'J', kLong1 = '\x8a', kBinFloat = 'G';
constexpr char kBinUnicode = 'X', kEmptyList = ']', kAppends = 'e', kTuple = 't', kEmptyDict = '}', kSetItems = 'u';
constexpr char kLongBinPut = 'r', kLongBinGet = 'j';

}  // namespace

// Numbers are little-endian in a pickle.
template <typename T>
void PickleWriter::put(char op, T number) {
  std::array<char, 1 + sizeof(T)> bytes{op};
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[1 + i] = static_cast<char>(number >> (8 * i) & 0xFF);
  write_({bytes.data(), bytes.size()});
}

PickleWriter::PickleWriter(std::function<void(std::string_view)> write) : write_(std::move(write)) {
  put(kProto, std::uint8_t{2});
}

void PickleWriter::boolean(bool value) { put(value ? kNewTrue : kNewFalse); }

void PickleWriter::integer(std::int64_t value) {
  using Small = std::numeric_limits<std::int32_t>;
  if (value >= Small::min() && value <= Small::max()) {
    return put(kBinInt, static_cast<std::uint32_t>(static_cast<std::int32_t>(value)));
  }
  put(kLong1, std::uint8_t{8});
  const auto bits = static_cast<std::uint64_t>(value);
  std::array<char, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(bits >> (8 * i) & 0xFF);
  write_({bytes.data(), bytes.size()});
}

void PickleWriter::real(double value) {  // the one number that is big-endian
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::array<char, 9> bytes{kBinFloat};
  for (std::size_t i = 0; i < 8; ++i) bytes[1 + i] = static_cast<char>(bits >> (56 - 8 * i) & 0xFF);
  write_({bytes.data(), bytes.size()});
}

void PickleWriter::text(std::string_view value) {
  if (const auto known = texts_.find(value); known != texts_.end()) return recall(known->second);
  put(kBinUnicode, static_cast<std::uint32_t>(value.size()));
  write_(value);
  texts_.emplace(std::string(value), remember());
}

void PickleWriter::begin_list() {
  put(kEmptyList);
  put(kMark);
}
void PickleWriter::end_list() { put(kAppends); }
void PickleWriter::begin_tuple() { put(kMark); }
void PickleWriter::end_tuple() { put(kTuple); }
void PickleWriter::begin_dict() {
  put(kEmptyDict);
  put(kMark);
}
void PickleWriter::end_dict() { put(kSetItems); }

std::uint32_t PickleWriter::remember() {
  put(kLongBinPut, remembered_);
  return remembered_++;
}
void PickleWriter::recall(std::uint32_t value) { put(kLongBinGet, value); }
void PickleWriter::finish() { put(kStop); }

}  // namespace plimsoll
