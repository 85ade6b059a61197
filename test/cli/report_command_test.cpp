// `plimsoll report` and the drawings of `plan`, as a user has them: from runs, into files that nobody needs.
#include <sys/stat.h>

#include <cstdlib>

#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

class Report : public ProgramTest {
 protected:
  // Trains six updates with two evaluations.
  void make_run(const std::string& name, const Arguments& more = {}) const {
    Arguments arguments = train_arguments(name, {"--eval-data", path("pages/validation.jsonl"), "--max-steps", "6",
                                                 "--eval-steps", "3", "--save-steps", "0"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  void SetUp() override {
    draw_pages();
    make_run("run");
  }
  std::string report_of(const Arguments& runs) const {
    Arguments arguments = {"report"};
    for (const std::string& name : runs) arguments.push_back(path(name));
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return file_bytes(at(runs.front() + "/report.html"));
  }
};

TEST_F(Report, DrawsARun) {
  const std::string page = report_of({"run"});
  for (const char* part : {"data-map=\"0\"", "data-chart=\"loss\"", "data-chart=\"metrics\"", "what is taken for what",
                           "data:image/jpeg;base64,", "every word has a box of its own", ">finished<"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("class=\"note\">arena")));
  EXPECT_LE(page.size(), std::size_t{2} << 20);
  EXPECT_EQ(report_of({"run"}), page) << "it replaces its own report, and is the same again";
  const Outcome json = run({"report", path("run"), "--output", path("other.html"), "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["bytes"], page.size());
  EXPECT_EQ(file_bytes(at("other.html")), page);
}

TEST_F(Report, TheFilesOfARunAgree) {
  const auto arena = nlohmann::json::parse(file_bytes(at("run/arena.json")));
  const auto plan = nlohmann::json::parse(file_bytes(at("run/plan.json")));
  EXPECT_EQ(arena["arena_bytes"], plan["arena_bytes"]);
  EXPECT_EQ(arena["programs"].size(), plan["programs"].size());
  EXPECT_EQ(plan["updates"], 6);
  const auto worst = nlohmann::json::parse(file_bytes(at("run/worst.json")))["pages"];
  const std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  ASSERT_EQ(worst.size(), pages.size()) << "fewer pages than are kept";
  for (const auto& page : worst) {
    EXPECT_TRUE(fs::exists(page["image"].get<std::string>()));
    EXPECT_EQ(page["words"].size(), pages[page["id"] == pages[0]["id"] ? 0 : 1]["words"].size());
    EXPECT_EQ(page["words"][0].size(), 8U);
  }
  // `eval` finds the same losses.
  const Outcome eval = run({"eval", "--model", path("run"), "--data", path("pages/validation.jsonl"), "--worst", "9",
                            "--json", "--budget", "1GiB", "--threads", "1", "--per-device-eval-batch-size", "2"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const nlohmann::json scores = nlohmann::json::parse(eval.out);
  for (const auto& page : scores.at("worst")) {
    const auto same = std::ranges::find_if(worst, [&](const auto& other) { return other["id"] == page["id"]; });
    ASSERT_NE(same, worst.end());
    EXPECT_NEAR((*same)["loss"].get<double>(), page["loss"].get<double>(), 1e-4);
  }
}

TEST_F(Report, DrawsARunThatIsNotFinished) {
  make_run("half");
  fs::remove(at("half/summary.json"));
  fs::remove(at("half/worst.json"));
  write_bytes(at("half/metrics.jsonl"), file_bytes(at("half/metrics.jsonl")).substr(0, 400));
  const std::string page = report_of({"half"});
  EXPECT_THAT(page, HasSubstr("The run has no summary"));
  EXPECT_THAT(page, HasSubstr("1 line cannot be read and is left out"));
  EXPECT_THAT(page, HasSubstr("updates: 1 of 6"));
}

TEST_F(Report, DrawsAnAdapterWithoutAnEvaluation) {
  make_model();
  Arguments arguments = train_arguments("adapter", {"--max-steps", "2", "--lora-rank", "2"});
  arguments[2] = path("model");
  const Outcome trained = run(arguments);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string page = report_of({"adapter"});
  EXPECT_THAT(page, HasSubstr("frozen parameters"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"labels\"")));
}

TEST_F(Report, ComparesTwoRuns) {
  make_run("slower", {"--seed", "7", "--micro-batch-size", "1"});
  const std::string page = report_of({"run", "slower"});
  EXPECT_THAT(page, HasSubstr("run and slower side by side"));
  EXPECT_THAT(page, HasSubstr("<code>seed</code></th><td>42</td><td>7</td>"));
  EXPECT_THAT(page, HasSubstr("data-map=\"1\""));
}

TEST_F(Report, SaysThatAPictureIsGone) {
  fs::remove_all(at("pages/images"));
  const std::string page = report_of({"run"});
  EXPECT_THAT(page, HasSubstr("The picture cannot be shown"));
  EXPECT_THAT(page, Not(HasSubstr("data:image")));
}

TEST_F(Report, WaitsForNoPicture) {
  auto worst = nlohmann::json::parse(file_bytes(at("run/worst.json")));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (auto& page : worst["pages"]) page["image"] = path("pipe");
  write_bytes(at("run/worst.json"), worst.dump());
  EXPECT_THAT(report_of({"run"}), HasSubstr("The picture cannot be shown"));
}

TEST_F(Report, OverwritesNothingThatItReads) {
  fs::create_symlink(at("run/metrics.jsonl"), at("link.html"));
  const std::string image = path("pages/" + read_pages("validation.jsonl")[0]["image"].get<std::string>());
  for (const std::string& output :
       {path("run/args.json"), path("run/arena.json"), path("run/worst.json"), path("run/../run/plan.json"),
        path("run/model.safetensors"), path("link.html"), path("pages/train.jsonl"), image,
        path("pages/" + read_pages("train.jsonl")[1]["image"].get<std::string>())}) {
    const std::string before = file_bytes(output);
    expect_message(run({"report", path("run"), "--output", output}), 2, {"where:   --output"});
    EXPECT_EQ(file_bytes(output), before) << output;
  }
  expect_message(run({"report", path("pages")}), 3, {"this is not the directory of a run"});
  expect_message(run({"report", path("nowhere")}), 3, {"nothing of that name"});
  expect_message(run({"report", path("run"), path("run"), path("run"), path("run"), path("run")}), 2,
                 {"too many runs"});
}

// A run that begins where another one was moves that one's report along with it.
TEST_F(Report, MovesWithItsRun) {
  const std::string page = report_of({"run"});
  make_run("run", {"--overwrite-output-dir"});
  EXPECT_EQ(file_bytes(at("run/earlier-1/report.html")), page);
  EXPECT_TRUE(fs::exists(at("run/earlier-1/arena.json")));
  EXPECT_FALSE(fs::exists(at("run/report.html")));
  EXPECT_THAT(report_of({"run/earlier-1"}), HasSubstr(">finished<"));
}

TEST_F(Report, DrawsAPlan) {
  const Arguments plan = {"plan",     "--model", "layoutlmv3-tiny",    "--data", path("pages/train.jsonl"),
                          "--budget", "1GiB",    "--train-batch-size", "2"};
  const auto with = [&plan](const Arguments& more) {
    Arguments all = plan;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Outcome drawn = run(with({"--html", path("plan.html"), "--memory-viz", path("plan.pickle")}));
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, HasSubstr("predicted peak")) << "what is printed stays the same";
  const std::string page = file_bytes(at("plan.html"));
  EXPECT_THAT(page, HasSubstr("<h1>Memory plan</h1>"));
  EXPECT_THAT(page, HasSubstr("data-map=\"0\""));
  EXPECT_THAT(page, HasSubstr("<dd>2 x 1</dd>"));
  EXPECT_THAT(page, HasSubstr("updates: 6"));
  EXPECT_THAT(page, Not(HasSubstr("data-chart=")));
  const Outcome doctor = run({"doctor", "--snapshot", path("plan.pickle"), "--json"});
  EXPECT_EQ(doctor.code, 0) << doctor.err;
  EXPECT_THAT(doctor.out, HasSubstr("peak"));
  expect_message(run(with({"--html", path("pages/train.jsonl")})), 2, {"where:   --html", "the input (--data)"});
  expect_message(run(with({"--memory-viz", path("x"), "--sweep"})), 2, {"where:   --memory-viz"});
  const Outcome piped = run(with({"--html", "-"}));
  EXPECT_TRUE(piped.out.starts_with("<!doctype html>"));
}

// PyTorch's own tool opens the snapshot; PLIMSOLL_TEST_PYTHON names an interpreter that has PyTorch.
TEST_F(Report, PyTorchOpensThePlansSnapshot) {
  const char* named = std::getenv("PLIMSOLL_TEST_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  if (std::system((python + " -c 'import torch.cuda._memory_viz' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no PyTorch; PLIMSOLL_TEST_PYTHON names another interpreter";
  }
  ASSERT_EQ(run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget", "1GiB",
                 "--memory-viz", path("plan.pickle")})
                .code,
            0);
  write_bytes(at("open.py"), R"py(
import pickle, sys
from torch.cuda import _memory_viz
snapshot = pickle.load(open(sys.argv[1], "rb"))
trace = _memory_viz.trace(snapshot)
allocations = [event for event in snapshot["device_traces"][0] if event["action"] == "alloc"]
assert trace.count(" = a[") == len(allocations), "every tensor lies in the arena"
assert "segments: 1" in _memory_viz.segsum(snapshot)  # which also checks that its blocks add up
for draw in (_memory_viz.trace_plot, _memory_viz.segment_plot):
    assert len(draw(snapshot)) > 10000, draw
live, peak = 0, 0
for event in snapshot["device_traces"][0]:
    live += {"alloc": 1, "free_completed": -1}.get(event["action"], 0) * event["size"]
    peak = max(peak, live)
print("peak", peak)
)py");
  const std::string out = path("opened.txt");
  ASSERT_EQ(std::system((python + " " + path("open.py") + " " + path("plan.pickle") + " >" + out + " 2>&1").c_str()), 0)
      << file_bytes(out);
  const Outcome doctor = run({"doctor", "--snapshot", path("plan.pickle"), "--json"});
  const auto peak = nlohmann::json::parse(doctor.out).at("devices").at(0).at("peak_bytes");
  EXPECT_THAT(file_bytes(out), HasSubstr("peak " + std::to_string(peak.get<std::uint64_t>())));
}

}  // namespace
}  // namespace plimsoll
