// The numbers in an out-of-memory message of PyTorch, from 1.0's wording to today's, of other devices' allocators, of
// the host's, and of the kernel's OOM killer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::doctor {

// A process in the message, and what it holds on the device.
struct MemoryHolder {
  std::uint64_t process = 0, bytes = 0;
};

// In bytes; nothing if the message does not say. `process` is all that the failing process holds on the device.
struct OomNumbers {
  std::optional<std::uint64_t> tried, total, free, process, allocated, reserved, unallocated, limit;
  std::optional<std::uint64_t> others;    // held by other processes: from the message, or the remainder
  std::optional<std::uint64_t> program;   // all that a compiled program needs (XLA)
  std::optional<std::uint64_t> resident;  // of the process that the kernel killed
  std::vector<MemoryHolder> holders;      // in the message's order

  // True if the message says how much was requested and how much the device has.
  bool tells() const { return tried.has_value() && total.has_value(); }
  // True if tensors hold three quarters of the device: the run is too large for it, with or without gaps between them.
  bool filled_by_tensors() const { return allocated && total && *allocated > *total / 4 * 3; }
  bool empty() const { return !tried && !total && !resident && !allocated && !program; }
};

// Reads the message as one text, with blanks for line breaks. Numbers that make no sense (an unsigned difference below
// zero, as WSL prints it) are left out.
OomNumbers read_oom_message(std::string_view text);

// Says what the numbers mean, one line each.
std::vector<std::string> explain(const OomNumbers& numbers);

// Reads "20.00 MiB", "1,024 bytes", "7.79GB" or "17.5G" at the start of `text`, after blanks; MB means MiB, as in these
// messages.
std::optional<std::uint64_t> read_bytes_at(std::string_view text);
// Does the same for the end of `text`.
std::optional<std::uint64_t> read_bytes_before(std::string_view text);

// For rules: whether free memory is in pieces that are too small, whether other processes hold much of the device, and
// whether one allocation is larger than the device.
bool is_fragmented(const OomNumbers& numbers);
bool others_hold_much(const OomNumbers& numbers);
bool wants_more_than_all(const OomNumbers& numbers);

}  // namespace plimsoll::doctor
