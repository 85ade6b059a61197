#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kErrorBytes = 4096;

[[noreturn]] void throw_not_started(const fs::path& program, int error) {
  throw EnvironmentError({.what = "a program cannot be started",
                          .where = program.string(),
                          .found = std::strerror(error),
                          .allowed = "an executable program, and room for another process",
                          .remedy = "start it by hand to see what it says; raise the limits (ulimit -u)"});
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe(const fs::path& program) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_not_started(program, errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// A running child; it is killed if nobody waits for it.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ <= 0) return;
    kill();
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() const { ::kill(id_, SIGKILL); }
  int wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
    return exit_code_of(status);
  }

 private:
  pid_t id_;
};

// A child's standard output and error, which this process reads.
struct Pipes {
  explicit Pipes(const fs::path& program) : out(make_pipe(program)), err(make_pipe(program)) {}
  Pipe out, err;
};

// Starts the program; `pipes`: nullptr if it shares this process's input and output. Signals that this process blocks
// or ignores are handled as usual in the child.
pid_t start(const fs::path& program, const std::vector<std::string>& arguments, const Pipes* pipes) {
  std::vector<std::string> words = {program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  if (pipes != nullptr) {
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, pipes->out.write.number(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, pipes->err.write.number(), STDERR_FILENO);
  }
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM}) ::sigaddset(&usual, signal);
  if (pipes != nullptr) ::sigaddset(&usual, SIGHUP);  // nohup's program ignores it, and so do the programs that it runs
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t id = -1;
  const int error = ::posix_spawn(&id, program.c_str(), &files, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) throw_not_started(program, error);
  return id;
}

}  // namespace

std::optional<fs::path> find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const fs::path program = fs::path(rest.substr(0, end)) / name;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    std::error_code error;
    // A relative directory of PATH would run whatever lies where the user happens to be.
    if (program.is_absolute() && fs::is_regular_file(program, error) && ::access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return std::nullopt;
}

ChildResult run_child(const fs::path& program, const std::vector<std::string>& arguments, const ChildLimits& limits,
                      const std::function<void(std::span<const std::byte>)>& take) {
  Pipes pipes(program);
  auto& [out, err] = pipes;
  Child child(start(program, arguments, &pipes));
  out.write.close();
  err.write.close();
  ChildResult result;
  const auto end = std::chrono::steady_clock::now() + limits.time;
  std::uint64_t written = 0;
  std::array<std::byte, 65536> buffer{};
  while (out.read.is_open() || err.read.is_open()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      result.too_slow = true;
      break;
    }
    // A closed descriptor is -1, which poll ignores.
    std::array<pollfd, 2> ready = {pollfd{out.read.number(), POLLIN, 0}, pollfd{err.read.number(), POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), static_cast<int>(left.count()) + 1) < 0 && errno != EINTR) break;
    for (Descriptor* const from : {&out.read, &err.read}) {
      if (!from->is_open() || ready[from == &out.read ? 0 : 1].revents == 0) continue;
      const ssize_t count = ::read(from->number(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        from->close();
        continue;
      }
      const std::span<const std::byte> piece(buffer.data(), static_cast<std::size_t>(count));
      const std::string_view text(reinterpret_cast<const char*>(piece.data()), piece.size());
      if (from == &err.read) {
        result.errors += text.substr(0, kErrorBytes - std::min(kErrorBytes, result.errors.size()));
        continue;
      }
      written += piece.size();
      result.too_long = written > limits.output_bytes;
      if (result.too_long) break;
      if (take) {
        take(piece);
      } else {
        result.output += text;
      }
    }
    if (result.too_long) break;
  }
  if (result.too_slow || result.too_long) child.kill();
  result.exit_code = child.wait();
  return result;
}

int run_in_foreground(const fs::path& program, const std::vector<std::string>& arguments) {
  // They stay pending until this process asks for them.
  sigset_t awaited, before;
  ::sigemptyset(&awaited);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&awaited, signal);
  ::pthread_sigmask(SIG_BLOCK, &awaited, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restore{before};
  const pid_t id = start(program, arguments, nullptr);
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(id, &status, WNOHANG);
    if (ended == id) return exit_code_of(status);
    siginfo_t info;
    const int signal = ::sigwaitinfo(&awaited, &info);
    // The terminal sends its signals to both, other processes to this one alone.
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) ::kill(id, signal);
  }
}

}  // namespace plimsoll
