#include "doctor/oom_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/bytes.h"
#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

using Bytes = std::optional<std::uint64_t>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_number(char c) { return is_digit(c) || c == '.' || c == ','; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns the first number with a unit that follows `key` within a few characters.
Bytes after(std::string_view text, std::string_view key) {
  const std::size_t place = text.find(key);
  if (place == std::string_view::npos) return {};
  return read_bytes_at(text.substr(place + key.size()));
}
Bytes before(std::string_view text, std::string_view key) {
  const std::size_t place = text.find(key);
  if (place == std::string_view::npos) return {};
  return read_bytes_before(text.substr(0, place));
}
Bytes first(std::initializer_list<Bytes> several) {
  for (const Bytes& one : several) {
    if (one) return one;
  }
  return {};
}

// Reads "Process 123 has 20.81 GiB memory in use." for every process.
std::vector<MemoryHolder> memory_holders(std::string_view text) {
  std::vector<MemoryHolder> holders;
  while (true) {
    const std::size_t place = text.find("process ");
    if (place == std::string_view::npos) return holders;
    text.remove_prefix(place + 8);
    std::size_t digits = 0;
    std::uint64_t process = 0;
    while (digits < text.size() && is_digit(text[digits]) && digits < 12)
      process = 10 * process + static_cast<std::uint64_t>(text[digits++] - '0');
    if (digits == 0 || !text.substr(digits).starts_with(" has ")) continue;
    if (const Bytes held = read_bytes_at(text.substr(digits + 5))) holders.push_back({process, *held});
  }
}

// Removes the failing process from `holders`, and returns what it holds. In a container, the message names processes by
// their numbers outside, and does not know its own: it is the one that holds what PyTorch has reserved, plus a context.
Bytes take_own(std::vector<MemoryHolder>& holders, const Bytes& reserved) {
  constexpr std::uint64_t kMostContext = 3 * kGiB;
  if (!reserved) return {};
  auto own = holders.end();
  for (auto holder = holders.begin(); holder != holders.end(); ++holder) {
    const bool may_be = holder->bytes >= *reserved && holder->bytes - *reserved <= kMostContext;
    if (may_be && (own == holders.end() || holder->bytes < own->bytes)) own = holder;
  }
  if (own == holders.end()) return {};
  const std::uint64_t bytes = own->bytes;
  holders.erase(own);
  return bytes;
}

std::string size(const Bytes& bytes) { return bytes ? format_bytes(*bytes) : "?"; }

}  // namespace

std::optional<std::uint64_t> read_bytes_at(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == ':' || text.front() == '=')) text.remove_prefix(1);
  std::string digits;
  while (!text.empty() && is_number(text.front()) && digits.size() < 30) {
    if (text.front() != ',') digits += text.front();
    text.remove_prefix(1);
  }
  if (digits.empty() || !is_digit(digits.front())) return {};
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::size_t letters = 0;
  while (letters < text.size() && is_letter(text[letters])) ++letters;
  const std::string unit = to_small_letters(text.substr(0, letters));
  double factor = 0;
  if (unit == "bytes" || unit == "byte" || unit == "b") factor = 1;
  if (unit == "kib" || unit == "kb" || unit == "k") factor = 0x1.0p10;
  if (unit == "mib" || unit == "mb" || unit == "m") factor = 0x1.0p20;
  if (unit == "gib" || unit == "gb" || unit == "g") factor = 0x1.0p30;
  if (unit == "tib" || unit == "tb" || unit == "t") factor = 0x1.0p40;
  if (factor == 0) return {};
  const double value = std::strtod(digits.c_str(), nullptr) * factor;
  // 17179869184 GiB is a small negative number, printed as unsigned; no device has a petabyte.
  if (!(value < 0x1.0p50)) return {};
  return static_cast<std::uint64_t>(std::llround(value));
}

std::optional<std::uint64_t> read_bytes_before(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  std::size_t begin = text.size();
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  while (begin > 0 && text[begin - 1] == ' ') --begin;
  while (begin > 0 && is_number(text[begin - 1])) --begin;
  return read_bytes_at(text.substr(begin));
}

OomNumbers read_oom_message(std::string_view message) {
  std::string small = to_small_letters(message);
  small.erase(std::unique(small.begin(), small.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
              small.end());
  const std::string_view text = small;
  OomNumbers n;
  n.tried = first({after(text, "tried to allocate"), after(text, "trying to allocate"),
                   after(text, "unable to allocate"), after(text, "requested :"), after(text, "requested:"),
                   after(text, "attempting to reserve"), after(text, "attempting to allocate"),
                   after(text, "out of memory allocating"), after(text, "failed to allocate request for")});
  // XLA on TPUs: "Used 17.50G of 15.48G hbm. Exceeded hbm capacity by 2.02G."
  if (text.find("hbm capacity by") != std::string_view::npos) {
    const std::size_t used = text.find("used ");
    if (used != std::string_view::npos) {
      n.program = read_bytes_at(text.substr(used + 5));
      n.total = after(text.substr(used), " of");
    }
  }
  if (!n.total)
    n.total = first({after(text, "total capacity of"), after(text, "total capacty of"), before(text, "total capac"),
                     after(text, "device limit"), after(text, "hbm capacity")});
  n.free = first({after(text, "of which"), before(text, " free;"), before(text, " free)"),
                  after(text, "free (according to cuda)"), after(text, "there are")});
  n.process = first({after(text, "this process has"), after(text, "other allocations")});
  n.allocated = first({after(text, "of the allocated memory"), before(text, "already allocated"),
                       after(text, "currently allocated"), after(text, "mps allocated")});
  n.unallocated =
      first({before(text, "is reserved by pytorch but unallocated"), before(text, "reserved but unallocated")});
  n.reserved = first({before(text, "reserved in total"), before(text, "cached")});
  // Up to PyTorch 1.3, "cached" is what the allocator holds besides the tensors, not everything that it holds.
  if (n.reserved && n.allocated && *n.reserved < *n.allocated) {
    if (!n.unallocated) n.unallocated = n.reserved;
    n.reserved.reset();
  }
  n.limit = first({before(text, "allowed;"), after(text, "max allowed"), after(text, "memory limit of")});
  n.resident = after(text, "anon-rss");
  if (!n.total && n.limit) n.total = n.limit;
  if (n.reserved && n.allocated && *n.reserved >= *n.allocated && !n.unallocated)
    n.unallocated = *n.reserved - *n.allocated;
  if (n.unallocated && n.allocated && !n.reserved) n.reserved = *n.allocated + *n.unallocated;
  if (n.process && n.total && *n.process > *n.total) n.process.reset();
  n.holders = memory_holders(text);
  if (n.process && *n.process == 0) n.process.reset();
  if (!n.process) n.process = take_own(n.holders, n.reserved);
  // In a container the driver reports no processes: each is listed with 0 bytes, including this one.
  const bool hidden = std::ranges::all_of(n.holders, [](const MemoryHolder& holder) { return holder.bytes == 0; });
  if (!n.holders.empty() && hidden) n.holders.clear();
  for (const MemoryHolder& holder : n.holders) n.others = n.others.value_or(0) + holder.bytes;
  const Bytes held = n.process ? n.process : n.reserved;
  if (!n.others && n.total && n.free && held && *held + *n.free < *n.total) n.others = *n.total - *n.free - *held;
  return n;
}

bool is_fragmented(const OomNumbers& n) {
  if (!n.tried || !n.unallocated || *n.unallocated < *n.tried) return false;
  // A single tensor of a quarter of the device shows that the batch is too large, whatever the gaps between tensors.
  if (n.total && *n.tried > *n.total / 4 && *n.unallocated < 2 * *n.tried) return false;
  // Some slack is usual: it counts if it is a tenth of what is reserved, or a fifth if little was requested.
  const std::uint64_t share = *n.tried >= 256 * kMiB ? 10 : 5;
  return *n.unallocated >= 64 * kMiB && (!n.reserved || *n.unallocated * share >= *n.reserved);
}

bool others_hold_much(const OomNumbers& n) {
  if (!n.others || !n.tried || *n.others <= *n.tried / 2) return false;
  if (!n.holders.empty()) return *n.others > kGiB && (!n.total || *n.others * 5 > *n.total);
  // If no process is named, the rest also includes this one's context and libraries, a desktop, and what Windows
  // reserves.
  return *n.others > 2 * kGiB && (!n.total || *n.others * 10 > *n.total * 3);
}

bool wants_more_than_all(const OomNumbers& n) { return n.tried && n.total && *n.tried > *n.total; }

std::vector<std::string> explain(const OomNumbers& n) {
  std::vector<std::string> lines;
  const auto say = [&](std::string line) { lines.push_back(std::move(line)); };
  if (n.tried) say(fmt::format("wanted       {:>10}  in one piece", size(n.tried)));
  if (n.program) say(fmt::format("program      {:>10}  all that the compiled program needs", size(n.program)));
  if (n.total) say(fmt::format("device       {:>10}  in all", size(n.total)));
  if (n.free) say(fmt::format("free         {:>10}  of the device", size(n.free)));
  if (n.allocated) say(fmt::format("in tensors   {:>10}  allocated by PyTorch", size(n.allocated)));
  if (n.unallocated) say(fmt::format("between them {:>10}  reserved by PyTorch but unallocated", size(n.unallocated)));
  if (n.others && *n.others > 0) {
    say(fmt::format("elsewhere    {:>10}  other processes, and what no allocator counts (CUDA context, libraries)",
                    size(n.others)));
  }
  for (const MemoryHolder& holder : n.holders)
    say(fmt::format("             {:>10}  of that held by process {}", size(holder.bytes), holder.process));
  if (n.resident) say(fmt::format("resident     {:>10}  of the killed process", size(n.resident)));
  if (wants_more_than_all(n)) {
    say("One piece is larger than the whole device: no setting of the allocator helps, only a smaller batch or shape.");
  } else if (is_fragmented(n)) {
    say(fmt::format("{} lie unused between tensors, {} were wanted: {}", size(n.unallocated), size(n.tried),
                    n.filled_by_tensors()
                        ? "enough for this one, but tensors fill the device, and a step asks for more after it."
                        : "enough memory, in pieces that are too small."));
  } else if (others_hold_much(n)) {
    say(fmt::format("{} of the device are not this process's tensors: freeing them would have been enough.",
                    size(n.others)));
  } else if (n.program && n.total && *n.program > *n.total) {
    say(fmt::format("{} are missing for the whole program.", size(*n.program - *n.total)));
  } else if (n.tells() && n.allocated && n.free) {
    const std::uint64_t have = *n.free + n.unallocated.value_or(0);
    if (*n.tried > have)
      say(fmt::format("At least {} were missing for this tensor alone; a step asks for more after it.",
                      size(*n.tried - have)));
  }
  return lines;
}

}  // namespace plimsoll::doctor
