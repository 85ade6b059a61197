#include "ranks/mpi_communicator.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/installed.h"
#include "ranks/mpi/part.h"
#include "ranks/rank_failure.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kPartFile = "libplimsoll_mpi.so";
// Messages are cut into pieces that an int counts.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;

[[noreturn]] void throw_no_mpi(const Launch& launch, const std::string& found) {
  const bool lacks_part = found.starts_with(kPartFile);  // ours, not one of MPI's libraries
  throw EnvironmentError({.what = fmt::format("{} has started {} ranks, and MPI cannot be used to connect them",
                                              launcher_name(launch.launcher), launch.size),
                          .where = kPartFile,
                          .found = found,
                          .allowed = "a program built with MPI, and the library of the launcher's MPI",
                          .remedy = lacks_part
                                        ? "put libplimsoll_mpi.so, which is built if libopenmpi-dev is installed, "
                                          "beside the program, or start a single process with --launcher none"
                                        : "install Open MPI (apt-get install openmpi-bin), or start a single process "
                                          "with --launcher none"});
}

// Returns the library's path: beside the program in its build folder, or where it was installed.
fs::path part_path() {
  if (const fs::path file = installed(fs::path("lib") / kPartFile); !file.empty()) return file;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = program.parent_path(); !folder.empty() && folder != folder.root_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / kPartFile, error)) return folder / kPartFile;
  }
  return kPartFile;
}

const PlimsollMpiPart& load_part(const Launch& launch) {
  void* const library = ::dlopen(part_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw_no_mpi(launch, ::dlerror());
  using Part = const PlimsollMpiPart* (*)();
  const auto part = reinterpret_cast<Part>(::dlsym(library, "plimsoll_mpi_part"));
  if (part == nullptr) throw_no_mpi(launch, ::dlerror());
  if (part()->version != PLIMSOLL_MPI_PART_VERSION) {
    throw_no_mpi(launch, fmt::format("version {} instead of {}", part()->version, PLIMSOLL_MPI_PART_VERSION));
  }
  return *part();
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const Launch& launch, const MpiOptions& options)
      : part_(load_part(launch)), options_(options), in_slot_(PLIMSOLL_MPI_SLOTS), done_(PLIMSOLL_MPI_SLOTS) {
    check_error(part_.start(&rank_, &size_));
    if (size_ != launch.size || rank_ != launch.rank) {
      throw_no_mpi(launch, fmt::format("{} says rank {} of {}, {} says {} of {}: another MPI than the launcher's",
                                       part_.library, rank_, size_, launch.variables, launch.rank, launch.size));
    }
    std::vector<char> names(static_cast<std::size_t>(size_) * PLIMSOLL_MPI_NAME_BYTES);
    check_error(part_.hosts(names.data()));
    for (int r = 0; r < size_; ++r) {
      hosts_.emplace_back(names.data() + static_cast<std::size_t>(r) * PLIMSOLL_MPI_NAME_BYTES);
    }
    free_.reserve(in_slot_.size());
    for (int slot = PLIMSOLL_MPI_SLOTS; slot-- > 0;) free_.push_back(slot);
    reserve(1);
    barrier(*this);  // connects every two ranks
  }

  ~MpiCommunicator() override {
    if (!failed_) part_.end();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host(int rank) const override { return hosts_.at(static_cast<std::size_t>(rank)); }

  void reserve(std::int64_t tickets) override {
    pending_.resize(std::max(pending_.size(), static_cast<std::size_t>(tickets)), 0);
  }

  void poll() override {
    if (used_ > 0) progress();
    if (++polls_ % 64 == 0) throw_if_another_failed();
  }

  void fail(const Problem& problem, ExitCode code) noexcept override {
    if (std::exchange(failed_, true)) return;
    try {
      const std::string text = failure_text(*this, problem, code);
      part_.send_failure(text.data(), text.size());
    } catch (...) {  // others then notice that this rank has ended
    }
  }

 private:
  void begin_send(std::int64_t ticket, int to, std::span<const std::byte> bytes) override {
    // An empty message is sent, too, because its receiver may not know that it is empty.
    for (std::size_t first = 0; first == 0 || first < bytes.size(); first += kPieceBytes) {
      const auto piece = bytes.subspan(first, std::min(kPieceBytes, bytes.size() - first));
      check_error(part_.send(piece.data(), piece.size(), to, take_slot(ticket, to)));
    }
  }

  void begin_receive(std::int64_t ticket, int from, std::span<std::byte> bytes) override {
    for (std::size_t first = 0; first == 0 || first < bytes.size(); first += kPieceBytes) {
      const auto piece = bytes.subspan(first, std::min(kPieceBytes, bytes.size() - first));
      check_error(part_.receive(piece.data(), piece.size(), from, take_slot(ticket, from)));
    }
  }

  bool is_done(std::int64_t ticket) const override { return pending_.at(static_cast<std::size_t>(ticket)) == 0; }
  void wait_until_done(std::int64_t ticket) override {
    wait_until([&] { return is_done(ticket); });
  }

  struct InSlot {
    std::int64_t ticket = -1;
    int other = 0;
  };

  void check_error(int error) const {
    if (error == 0) return;
    std::array<char, PLIMSOLL_MPI_NAME_BYTES> text{};
    part_.error_text(error, text.data());
    throw EnvironmentError({.what = "MPI cannot exchange messages between the ranks",
                            .where = fmt::format("rank {} of {}, {}", rank_, size_, part_.library),
                            .found = text.data(),
                            .remedy = "look at the launcher's own messages: the network or another rank has failed"});
  }

  int take_slot(std::int64_t ticket, int other) {
    if (free_.empty()) wait_until([&] { return !free_.empty(); });
    const int slot = free_.back();
    free_.pop_back();
    in_slot_[static_cast<std::size_t>(slot)] = {.ticket = ticket, .other = other};
    used_ = std::max(used_, slot + 1);
    ++pending_.at(static_cast<std::size_t>(ticket));
    return slot;
  }

  // Returns true if a message has arrived.
  bool progress() {
    int count = 0;
    check_error(part_.test(used_, done_.data(), &count));
    for (int i = 0; i < count; ++i) {
      const int slot = done_[static_cast<std::size_t>(i)];
      --pending_[static_cast<std::size_t>(std::exchange(in_slot_[static_cast<std::size_t>(slot)].ticket, -1))];
      free_.push_back(slot);
    }
    while (used_ > 0 && in_slot_[static_cast<std::size_t>(used_ - 1)].ticket < 0) --used_;
    return count > 0;
  }

  template <typename IsDone>
  void wait_until(const IsDone& is_done) {
    auto last = Clock::now();
    for (std::int64_t idle = 0;; ++idle) {
      if (used_ > 0 && progress()) {
        idle = 0;
        last = Clock::now();
      }
      if (is_done()) return;
      if (idle % 64 != 63) continue;
      throw_if_another_failed();
      const auto silent = Clock::now() - last;
      if (silent > options_.timeout || (options_.end_signal() != 0 && silent > kPatienceWithSilence))
        throw_silent(silent);
      // Ranks may share cores, and a waiting rank must not take them from computing ones.
      if (idle > 4096) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      } else {
        std::this_thread::yield();
      }
    }
  }

  void throw_if_another_failed() {
    std::array<char, kMostFailureBytes> text{};
    int from = 0;
    std::size_t count = 0;
    check_error(part_.receive_failure(text.data(), text.size(), &from, &count));
    if (count == 0) return;
    failed_ = true;
    throw told_failure(*this, {text.data(), count});
  }

  [[noreturn]] void throw_silent(Clock::duration silent) {
    failed_ = true;
    std::string names;
    std::vector<bool> listed(static_cast<std::size_t>(size_), false);
    for (const InSlot& slot : in_slot_) {
      if (slot.ticket < 0 || listed[static_cast<std::size_t>(slot.other)]) continue;
      listed[static_cast<std::size_t>(slot.other)] = true;
      names += (names.empty() ? "" : ", ") + rank_text(*this, slot.other);
    }
    throw silent_failure(*this, names, silent, options_.end_signal());
  }

  const PlimsollMpiPart& part_;
  MpiOptions options_;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;
  std::vector<InSlot> in_slot_;
  std::vector<int> free_, done_;
  std::vector<int> pending_;  // by ticket
  int used_ = 0;              // slots from this one on have no message
  std::uint64_t polls_ = 0;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<Communicator> connect_by_mpi(const Launch& launch, const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(launch, options);
}

}  // namespace plimsoll
