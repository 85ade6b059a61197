// Runs the built program as a user does, and captures its output.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/paths.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

inline std::string file_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
inline void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Changes the header of a safetensors file, whose length must not change, and its data.
inline void edit_weights(const fs::path& path, const std::function<void(std::string& header, char* data)>& change) {
  std::string bytes = file_bytes(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  std::string header = bytes.substr(8, length);
  change(header, bytes.data() + 8 + length);
  ASSERT_EQ(header.size(), length);
  bytes.replace(8, length, header);
  write_bytes(path, bytes);
  fs::remove(path.parent_path() / "checksums.json");  // as in a model from elsewhere
}

// True where a page's numbers may depend, in their last bits, on the pages beside it: without AVX-512, oneDNN's general
// product adds up in an order that depends on how many rows it has (docs/scale.md).
inline bool sums_depend_on_rows() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f") == 0;
#else
  return true;
#endif
}
inline constexpr const char* kSumsDependOnRows =
    "without AVX-512, last bits depend on the pages that are beside a page";

struct Outcome {
  int code = 0;  // 128 + signal if one ended it
  std::string out, err;
};

// Called between fork and exec: a child does not outlive a test program that is killed.
inline void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

// A program that is running; its output goes to files beside `log`. It is killed if nobody waits for it.
class Process {
 public:
  // `input`: a file for its standard input; empty: the test's own.
  Process(const Arguments& arguments, const fs::path& log, const fs::path& input = {},
          std::string program = program_path().string())
      : log_(log) {
    std::vector<char*> argv;
    Arguments copy = arguments;
    argv.push_back(program.data());
    for (std::string& argument : copy) argv.push_back(argument.data());
    argv.push_back(nullptr);
    // The files are emptied before the child exists: a test that waits for a line never reads one of an earlier run.
    const int out = opened(".out"), err = opened(".err");
    id_ = ::fork();
    if (id_ == 0) {
      end_with_parent();
      if (!input.empty()) ::dup2(::open(input.c_str(), O_RDONLY), STDIN_FILENO);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(err, STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(out);
    ::close(err);
  }
  ~Process() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  void signal(int number) const {
    if (id_ > 0) ::kill(id_, number);
  }
  Outcome wait() {
    int status = 0;
    ::waitpid(std::exchange(id_, -1), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), file_bytes(log_.string() + ".out"),
            file_bytes(log_.string() + ".err")};
  }

 private:
  int opened(const char* ending) const {
    return ::open((log_.string() + ending).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  }

  fs::path log_;
  pid_t id_ = -1;
};

class ProgramTest : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  std::string path(const std::string& name) const { return at(name).string(); }
  Outcome run(const Arguments& arguments) const { return Process(arguments, at("log")).wait(); }
  Outcome run_with_input(const Arguments& arguments, const std::string& input) const {
    write_bytes(at("input"), input);
    return Process(arguments, at("log"), at("input")).wait();
  }

  // Draws six pages, four of them for training, in pages/.
  void draw_pages() const {
    make_once("pages", {"synth", "--count", "6", "--validation-fraction", "0.34", "--output"});
  }
  // The losses that a run has logged.
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> all;
    std::ifstream file(at(run) / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json object = nlohmann::json::parse(line);
      if (object.contains("loss")) all.push_back(object["loss"]);
    }
    return all;
  }
  // Makes a small model with the pages' labels, in model/.
  void make_model() const {
    make_once("model", {"init", "--model", "layoutlmv3-tiny", "--labels",
                        "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,I-DATE,B-TOTAL,I-TOTAL", "--output-dir"});
  }
  Arguments train_arguments(const std::string& output, const Arguments& more = {}) const {
    Arguments all = {"train",
                     "--model",
                     "layoutlmv3-tiny",
                     "--data",
                     path("pages/train.jsonl"),
                     "--output-dir",
                     path(output),
                     "--budget",
                     "1GiB",
                     "--train-batch-size",
                     "2",
                     "--threads",
                     "1",
                     "--learning-rate",
                     "1e-3",
                     "--logging-steps",
                     "1",
                     "--dataloader-num-workers",
                     "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Arguments eval_arguments(const std::string& data = "pages/validation.jsonl") const {
    return {"eval", "--model", path("model"), "--data", path(data), "--budget", "1GiB", "--threads", "1"};
  }
  // Returns the lines of pages/<name> as JSON.
  std::vector<nlohmann::json> read_pages(const std::string& name) const {
    std::vector<nlohmann::json> pages;
    std::ifstream file(at("pages/" + name));
    for (std::string line; std::getline(file, line);) pages.push_back(nlohmann::json::parse(line));
    return pages;
  }
  void write_pages(const std::string& name, const std::vector<nlohmann::json>& pages) const {
    std::ofstream file(at("pages/" + name));
    for (const nlohmann::json& page : pages) file << page.dump() << "\n";
  }
  // Writes 24 short texts for a language model, of four kinds, into the folder "pages", which it makes.
  void write_texts(const std::string& name) const {
    fs::create_directories(at("pages"));
    std::vector<nlohmann::json> texts;
    for (int i = 0; i < 24; ++i) {
      texts.push_back({{"text", "The total of receipt number " + std::to_string(i % 4) + " is 7.50, paid in cash."}});
    }
    write_pages(name, texts);
  }

 private:
  // Puts into `name` what the program makes of these arguments, the last of which expects the output. Many tests begin
  // with the same: a test program makes it once, and each test has a copy that it may change.
  void make_once(const std::string& name, Arguments arguments) const {
    static const ScratchFolder made;
    const fs::path whole = made / name, begun = made / (name + ".begun");
    if (!fs::exists(whole)) {
      arguments.push_back(begun.string());
      const Outcome outcome = Process(arguments, at("log")).wait();
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      fs::rename(begun, whole);
    }
    fs::copy(whole, at(name), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }

  ScratchFolder folder_;
};

// Returns the lines of train --json as objects.
inline std::vector<nlohmann::json> events_of(const Outcome& outcome) {
  std::vector<nlohmann::json> events;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}
// The first event of that name; warnings may come before any.
inline nlohmann::json first_event(const Outcome& outcome, std::string_view name) {
  for (const nlohmann::json& event : events_of(outcome)) {
    if (event.at("event") == name) return event;
  }
  ADD_FAILURE() << "no event " << name;
  return {};
}
inline nlohmann::json last_event(const Outcome& outcome) { return events_of(outcome).back(); }

// Expects one clear message: it begins with "error: ", comes once, and contains all of `parts`.
inline void expect_message(const Outcome& outcome, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
  const std::size_t first = outcome.err.find("error: ");
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos) << outcome.err;
  for (const std::string& part : parts) EXPECT_THAT(outcome.err, testing::HasSubstr(part));
}

}  // namespace plimsoll::test
