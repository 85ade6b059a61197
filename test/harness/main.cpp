// The main function of every test program. Run by hand it behaves like GoogleTest's own. Run by ctest, where
// PLIMSOLL_TEST_TALLY names a file, it only prints failures and skips, each failure with the command that runs it
// alone, and writes one line per case to that file, from which scripts/test.sh counts cases. A case that crashes leaves
// its "begin" line without an end.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

class Tally : public testing::EmptyTestEventListener {
 public:
  Tally(const char* path, std::string program) : file_(std::fopen(path, "w"), &std::fclose), program_(std::move(program)) {
    if (!file_) {
      std::perror(path);
      std::exit(1);
    }
  }
  void OnTestIterationStart(const testing::UnitTest& tests, int) override {
    write("cases " + std::to_string(tests.test_to_run_count()));
  }
  void OnTestStart(const testing::TestInfo& info) override { write("begin " + name(info)); }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (part.passed()) return;
    std::printf("%s:%d: %s\n%s\n", part.file_name() != nullptr ? part.file_name() : "unknown file",
                part.line_number(), part.skipped() ? "skipped" : "failure", part.message());
    std::fflush(stdout);
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    const testing::TestResult& result = *info.result();
    const char* const outcome = result.Skipped() ? "skipped" : result.Failed() ? "failed" : "passed";
    write(outcome + (" " + name(info)) + " " + std::to_string(result.elapsed_time()) + " ms");
    if (result.Passed() && !result.Skipped()) return;
    std::printf("%s: %s\n", result.Skipped() ? "SKIPPED" : "FAILED", name(info).c_str());
    if (result.Failed()) std::printf("  alone: %s '--gtest_filter=%s'\n", program_.c_str(), name(info).c_str());
    std::fflush(stdout);
  }

 private:
  static std::string name(const testing::TestInfo& info) {
    return std::string(info.test_suite_name()) + "." + info.name();
  }
  void write(const std::string& line) {
    std::fprintf(file_.get(), "%s\n", line.c_str());
    std::fflush(file_.get());
  }

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::string program_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* path = std::getenv("PLIMSOLL_TEST_TALLY")) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Tally(path, argv[0]));
  }
  return RUN_ALL_TESTS();
}
