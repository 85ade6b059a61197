// Tests output files that are pipes, links or standard output.
#include <sys/stat.h>

#include <thread>

#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class Output : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    make_model();
  }

  // Runs with a pipe at `pipe`, reads it to its end and returns what came out.
  std::string read_pipe(const fs::path& pipe, const Arguments& arguments, Outcome& outcome) const {
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    // The pipe is held open for reading and writing, so that neither side waits for the other.
    const int held = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
    std::string text;
    Process process(arguments, at("log"));
    std::jthread reader([&](const std::stop_token& stop) {
      std::vector<char> bytes(1 << 16);
      for (;;) {
        const bool last = stop.stop_requested();
        const ssize_t count = ::read(held, bytes.data(), bytes.size());
        if (count > 0) text.append(bytes.data(), static_cast<std::size_t>(count));
        if (count <= 0 && last) return;
        if (count <= 0) ::usleep(1000);
      }
    });
    outcome = process.wait();
    reader.request_stop();
    reader.join();
    ::close(held);
    EXPECT_TRUE(fs::is_fifo(fs::symlink_status(pipe)));
    EXPECT_FALSE(fs::exists(pipe.string() + ".plimsoll.tmp"));
    return text;
  }

  Arguments predict(const std::string& output) const {
    return {"predict",  "--model", path("model"), "--data", path("pages/validation.jsonl"), "--output", output,
            "--budget", "1GiB",    "--threads",   "1"};
  }
};

TEST_F(Output, PredictIntoAPipeALinkAndStandardOutput) {
  const Outcome plain = run(predict(path("out.jsonl")));
  ASSERT_EQ(plain.code, 0) << plain.err;
  const std::string expected = file_bytes(path("out.jsonl"));

  Outcome outcome;
  EXPECT_EQ(read_pipe(path("pipe"), predict(path("pipe")), outcome), expected);
  EXPECT_EQ(outcome.code, 0) << outcome.err;

  write_bytes(path("kept.jsonl"), "before");
  fs::create_symlink("kept.jsonl", path("link.jsonl"));
  outcome = run(predict(path("link.jsonl")));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::is_symlink(path("link.jsonl")));
  EXPECT_EQ(file_bytes(path("kept.jsonl")), expected);

  // Standard output has the pages only; everything else goes to standard error.
  for (const char* name : {"-", "/dev/stdout"}) {
    outcome = run(predict(name));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected);
    EXPECT_THAT(outcome.err, testing::HasSubstr("2 pages predicted"));
  }
}

TEST_F(Output, ASweepsPictureIntoAPipe) {
  Outcome outcome;
  const std::string svg = read_pipe(path("pipe"),
                                    {"plan", "--model", path("model"), "--data", path("pages/train.jsonl"), "--points",
                                     "2", "--svg", path("pipe"), "--threads", "1"},
                                    outcome);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(svg, testing::StartsWith("<svg"));
}

TEST_F(Output, AMendedCopyIntoAPipe) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  std::swap(pages[0]["boxes"][0][0], pages[0]["boxes"][0][2]);
  write_pages("bad.jsonl", pages);
  const Arguments check = {"check", "--model", path("model"), "--data", path("pages/bad.jsonl"), "--fix"};
  const auto with = [&](const std::string& out) {
    Arguments all = check;
    all.push_back(out);
    return all;
  };
  const Outcome plain = run(with(path("pages/mended.jsonl")));
  ASSERT_EQ(plain.code, 0) << plain.out << plain.err;
  Outcome outcome;
  const std::string copy = read_pipe(path("pipe"), with(path("pipe")), outcome);
  const auto boxes = [](const std::string& lines) {
    return nlohmann::json::parse(lines.substr(0, lines.find('\n'))).at("boxes");
  };
  EXPECT_EQ(boxes(copy), boxes(file_bytes(path("pages/mended.jsonl"))));  // image paths are relative to another folder
  EXPECT_THAT(outcome.out, testing::HasSubstr("is not checked"));
  EXPECT_FALSE(fs::exists(path("pipe.changes.jsonl")));
}

}  // namespace
}  // namespace plimsoll
