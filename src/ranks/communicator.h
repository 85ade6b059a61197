// Communicator: messages between the ranks of a run, which are one process each. A message belongs to a ticket; its
// bytes must stay in place until the ticket has been waited for.
//
// Invariant: the messages from one rank to another arrive in the order in which both begin them, so ranks that run the
// same program need no other names for them. After the constructor nothing allocates.
//
//   communicator.receive(ticket, 1, theirs);
//   communicator.send(ticket, 1, mine);
//   communicator.poll();          // now and then while computing: libraries move messages only when they are called
//   communicator.wait(ticket);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace plimsoll {

// Another rank has failed, has ended, or has been silent for too long.
class RankError : public EnvironmentError {
 public:
  RankError(Problem problem, ExitCode theirs) : EnvironmentError(std::move(problem)), theirs_(theirs) {}
  // Returns the exit code of the rank that failed first.
  ExitCode exit_code_of_rank() const { return theirs_; }

 private:
  ExitCode theirs_;
};

class Communicator {
 public:
  // The ticket of messages that the host itself sends between steps (below); nodes have tickets from 1 on.
  static constexpr std::int64_t kHostTicket = 0;

  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns the name of the machine that a rank runs on.
  virtual const std::string& host(int rank) const = 0;

  // Makes room for messages with tickets below `tickets`.
  virtual void reserve(std::int64_t tickets) = 0;
  // Begins a message, which may be empty. A received message may be shorter than `bytes`, which are its limit. `rows`:
  // it holds rows of tokens, so its length depends on the data, not on the plan.
  void send(std::int64_t ticket, int to, std::span<const std::byte> bytes, bool rows = false) {
    if (ticket != kHostTicket) {
      (rows ? traffic_.sent_row_bytes : traffic_.sent_bytes) += bytes.size();
      traffic_.sent_messages += rows ? 0 : 1;
    }
    begin_send(ticket, to, bytes);
  }
  void receive(std::int64_t ticket, int from, std::span<std::byte> bytes, bool rows = false) {
    if (ticket != kHostTicket && !rows) traffic_.received_bytes += bytes.size();
    begin_receive(ticket, from, bytes);
  }
  // Waits until every message with that ticket has arrived. Throws RankError if another rank has failed, or has been
  // silent for too long.
  void wait(std::int64_t ticket);
  // Makes progress on messages, without waiting. Throws RankError if another rank has failed.
  virtual void poll() = 0;
  // Tells the other ranks that this one ends because of `problem`; they throw RankError. Does not throw.
  virtual void fail(const Problem& problem, ExitCode code) noexcept = 0;

  // What nodes have exchanged so far, without the host's own messages, and how long they have waited for it. Messages
  // of rows are counted separately.
  struct Traffic {
    std::uint64_t sent_bytes = 0, received_bytes = 0, sent_messages = 0, sent_row_bytes = 0;
    double wait_seconds = 0;

    Traffic& operator+=(const Traffic& more) {
      sent_bytes += more.sent_bytes;
      received_bytes += more.received_bytes;
      sent_messages += more.sent_messages;
      sent_row_bytes += more.sent_row_bytes;
      wait_seconds += more.wait_seconds;
      return *this;
    }
    Traffic operator-(const Traffic& less) const {
      return {.sent_bytes = sent_bytes - less.sent_bytes,
              .received_bytes = received_bytes - less.received_bytes,
              .sent_messages = sent_messages - less.sent_messages,
              .sent_row_bytes = sent_row_bytes - less.sent_row_bytes,
              .wait_seconds = wait_seconds - less.wait_seconds};
    }
  };
  Traffic traffic() const { return traffic_; }
  // Adds what nodes have exchanged in other ways, such as between GPUs.
  void add_traffic(const Traffic& more) { traffic_ += more; }

 protected:
  virtual void begin_send(std::int64_t ticket, int to, std::span<const std::byte> bytes) = 0;
  virtual void begin_receive(std::int64_t ticket, int from, std::span<std::byte> bytes) = 0;
  virtual bool is_done(std::int64_t ticket) const = 0;
  // Waits for a ticket that is not done.
  virtual void wait_until_done(std::int64_t ticket) = 0;

 private:
  Traffic traffic_{};
};

// Gives every rank the bytes of all, in the order of ranks; `all` has size() times as many bytes as `mine`. Allocates
// nothing.
void all_gather(Communicator& ranks, std::span<const std::byte> mine, std::span<std::byte> all);

// Does the same for one value from each rank.
template <typename T>
requires std::is_trivially_copyable_v<T> std::vector<T> all_gather(Communicator& ranks, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(ranks.size()));
  all_gather(ranks, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

// Does the same for texts of any length.
std::vector<std::string> all_gather_texts(Communicator& ranks, const std::string& mine);

// Returns rank 0's text on every rank.
std::string broadcast_text(Communicator& ranks, const std::string& text);

// Returns when every rank has called it.
void barrier(Communicator& ranks);

}  // namespace plimsoll
