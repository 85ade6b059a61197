// Tests the model that stays in memory.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class Serve : public ProgramTest {};

TEST_F(Serve, AnswersRequestAfterRequest) {
  draw_pages();
  make_model();
  const std::string train = path("pages/train.jsonl"), held_out = path("pages/validation.jsonl");
  const auto predicted = [&](const std::string& data) {
    const Outcome outcome = run({"predict", "--model", path("model"), "--data", data, "--threads", "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const auto done = [](int pages) {
    return "{\"done\":{\"pages\":" + std::to_string(pages) + ",\"skipped_pages\":[]}}\n";
  };
  const std::string of_held_out = predicted(held_out), of_train = predicted(train);
  // What is asked for in the middle cannot be answered.
  const Outcome outcome = run_with_input(
      {"serve", "--model", path("model"), "--threads", "1"},
      nlohmann::json{{"data", held_out}}.dump() + "\n" + nlohmann::json{{"data", path("absent.jsonl")}}.dump() +
          "\n{\"data\": 7}\nnothing\n\n{\"data\": \"" + std::string(2 << 20, 'x') +
          "\"}\n{\"data\": \"a\", \"data\": \"b\"}\n" +
          nlohmann::json{{"data", {train, held_out}}, {"box_format", "pixel"}}.dump());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line, answers;
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("ready").at("task"), "token-classification");
  int errors = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with("{\"error\"")) {
      ++errors;
      EXPECT_FALSE(nlohmann::json::parse(line).at("error").at("what").empty());
      EXPECT_LT(line.size(), 2000U);
    } else {
      answers += line + "\n";
    }
  }
  EXPECT_EQ(errors, 5);
  EXPECT_EQ(answers, of_held_out + done(2) + of_train + of_held_out + done(6));
}

// Config and labels would be of one model, and the weights of another.
TEST_F(Serve, AModelThatIsOverwrittenIsNotServed) {
  draw_pages();
  make_model();
  fs::copy(at("model"), at("served"), fs::copy_options::recursive);
  ASSERT_EQ(::mkfifo(at("requests").c_str(), 0600), 0);
  const int requests = ::open(at("requests").c_str(), O_RDWR | O_CLOEXEC);
  Process serve({"serve", "--model", path("served"), "--threads", "1"}, at("log"), at("requests"));
  for (int i = 0; i < 2000 && file_bytes(at("log.out")).find("ready") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string bytes = file_bytes(at("served/model.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fs::remove(at("served/checksums.json"));
  write_bytes(at("served/model.safetensors"), bytes);  // in place
  // Asked again, it does not compute with parameters that were never read.
  std::string request = nlohmann::json{{"data", path("pages/validation.jsonl")}}.dump() + "\n";
  request += request;
  ASSERT_EQ(::write(requests, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  const auto lines = [this] { return std::ranges::count(file_bytes(at("log.out")), '\n'); };
  for (int i = 0; i < 2000 && lines() < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  serve.signal(SIGTERM);
  ::close(requests);
  const std::string answers = serve.wait().out, said = "have been written to since they were opened";
  const std::size_t first = answers.find(said);
  ASSERT_NE(first, std::string::npos) << answers;
  EXPECT_NE(answers.find(said, first + 1), std::string::npos) << answers;
}

// A pair is two windows.
TEST_F(Serve, PredictsPairs) {
  draw_pages();
  std::string pairs;
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  for (std::size_t i = 0; i + 1 < pages.size(); ++i) {
    for (nlohmann::json& page : pages)
      page["image"] = path("pages/images/") + fs::path(page["image"]).filename().string();
    pairs += nlohmann::json{{"a", pages[i]}, {"b", pages[i + 1]}, {"label", i % 2}}.dump() + "\n";
  }
  write_bytes(at("pairs.jsonl"), pairs);
  const Arguments task = {"--task", "pair-classification", "--max-length", "128", "--truncate"};
  Arguments train = {"train",        "--model",     "layoutlmv3-tiny", "--data", path("pairs.jsonl"),
                     "--output-dir", path("model"), "--max-steps",     "1",      "--budget",
                     "1GiB"};
  train.insert(train.end(), task.begin(), task.end());
  const Outcome trained = run(train);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome predicted = run({"predict", "--model", path("model"), "--data", path("pairs.jsonl"), "--max-length",
                                 "128", "--truncate", "--threads", "1"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const Outcome served =
      run_with_input({"serve", "--model", path("model"), "--max-length", "128", "--truncate", "--threads", "1"},
                     nlohmann::json{{"data", path("pairs.jsonl")}}.dump());
  ASSERT_EQ(served.code, 0) << served.err << served.out;
  EXPECT_THAT(served.out, testing::HasSubstr(predicted.out));
  const Outcome pruned = run({"prune", "--model", path("model"), "--data", path("pairs.jsonl"), "--max-length", "128",
                              "--truncate", "--to-flops", "0.5", "--output-dir", path("pruned")});
  EXPECT_EQ(pruned.code, 2);
  EXPECT_THAT(pruned.err, testing::HasSubstr("models for pairs of pages cannot be pruned"));
}

TEST_F(Serve, RefusesAModelWithoutAHead) {
  const Outcome outcome = run_with_input({"serve", "--model", "layoutlmv3-tiny"}, "");
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, testing::HasSubstr("error: "));
}

}  // namespace
}  // namespace plimsoll
