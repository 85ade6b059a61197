#include "ranks/communicator.h"

#include <chrono>

namespace plimsoll {
namespace {

std::span<std::byte> part(std::span<std::byte> all, std::size_t bytes, int rank) {
  return all.subspan(static_cast<std::size_t>(rank) * bytes, bytes);
}

}  // namespace

void Communicator::wait(std::int64_t ticket) {
  if (is_done(ticket)) return;
  const auto begin = std::chrono::steady_clock::now();
  wait_until_done(ticket);
  if (ticket == kHostTicket) return;
  traffic_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void all_gather(Communicator& ranks, std::span<const std::byte> mine, std::span<std::byte> all) {
  check(all.size() == mine.size() * static_cast<std::size_t>(ranks.size()), "there is room for every rank's bytes");
  std::ranges::copy(mine, part(all, mine.size(), ranks.rank()).begin());
  if (mine.empty()) return;
  for (int other = 0; other < ranks.size(); ++other) {
    if (other == ranks.rank()) continue;
    ranks.receive(Communicator::kHostTicket, other, part(all, mine.size(), other));
    ranks.send(Communicator::kHostTicket, other, mine);
  }
  ranks.wait(Communicator::kHostTicket);
}

std::vector<std::string> all_gather_texts(Communicator& ranks, const std::string& mine) {
  const std::vector<std::uint64_t> lengths = all_gather(ranks, std::uint64_t{mine.size()});
  std::vector<std::string> texts(lengths.size());
  for (int other = 0; other < ranks.size(); ++other) {
    std::string& text = texts[static_cast<std::size_t>(other)];
    if (other == ranks.rank()) {
      text = mine;
      continue;
    }
    text.resize(lengths[static_cast<std::size_t>(other)]);
    if (!text.empty()) ranks.receive(Communicator::kHostTicket, other, std::as_writable_bytes(std::span(text)));
    if (!mine.empty()) ranks.send(Communicator::kHostTicket, other, std::as_bytes(std::span(mine)));
  }
  ranks.wait(Communicator::kHostTicket);
  return texts;
}

std::string broadcast_text(Communicator& ranks, const std::string& text) {
  return all_gather_texts(ranks, ranks.rank() == 0 ? text : std::string()).front();
}

void barrier(Communicator& ranks) { all_gather(ranks, std::byte{0}); }

}  // namespace plimsoll
