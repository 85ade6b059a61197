#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "base/bytes.h"
#include "base/error.h"
#include "base/offload_file.h"
#include "transform/offload.h"

namespace plimsoll {

OffloadLayout::Piece OffloadLayout::place(const std::string& name, std::size_t bytes) {
  const auto [position, inserted] = places_.try_emplace(name, Piece{.offset = bytes_, .bytes = bytes});
  check(position->second.bytes == bytes, [&] { return fmt::format("'{}' has one size in all programs", name); });
  if (inserted) bytes_ += round_up(bytes, kOffloadAlignment);
  return position->second;
}

std::uint64_t OffloadLayout::state_bytes() const {
  return std::accumulate(states_.begin(), states_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& state) { return sum + state.second.type.bytes(); });
}

const OffloadLayout::Parameter& OffloadLayout::place_parameter(const std::string& name, const TensorType& type,
                                                               const StoredTensor* stored) {
  const auto [position, inserted] = parameters_.try_emplace(name);
  Parameter& parameter = position->second;
  if (!inserted) {
    check(parameter.type == type, [&] { return fmt::format("'{}' has one type in all programs", name); });
    return parameter;
  }
  parameter.type = type;
  if (stored == nullptr) {
    parameter.offset = place(name, type.bytes()).offset;
  } else {
    parameter.stored = *stored;
    parameter.offset = kOutsideOffset + outside_bytes_;
    outside_bytes_ += round_up(type.bytes(), kOffloadAlignment);
  }
  return parameter;
}

std::uint64_t OffloadLayout::parameter_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, parameter] : parameters_) bytes += parameter.stored ? 0 : parameter.type.bytes();
  return bytes;
}

std::uint64_t OffloadLayout::in_place_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, parameter] : parameters_) bytes += parameter.stored ? parameter.file_bytes() : 0;
  return bytes;
}

std::uint64_t OffloadLayout::activation_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, piece] : places_) bytes += piece.bytes;
  return bytes - state_bytes() - parameter_bytes();
}

std::string offloaded_text(const OffloadLayout& layout) {
  std::vector<std::string> parts;
  const auto add = [&](std::uint64_t bytes, const char* what) {
    if (bytes > 0) parts.push_back(fmt::format("{} of {}", format_bytes(bytes), what));
  };
  add(layout.state_bytes(), "optimizer state");
  add(layout.parameter_bytes(), "parameters");
  add(layout.activation_bytes(), "activations");
  add(layout.in_place_bytes(), "weights that stay in the model's own files");
  const std::string last = parts.empty() ? "nothing" : parts.back();
  if (parts.size() < 2) return last;
  parts.pop_back();
  return fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

}  // namespace plimsoll
