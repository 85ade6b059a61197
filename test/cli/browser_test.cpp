// Reports in a browser, as readers see them: headless Chromium runs the page's script, and prints what became of the
// page and what its console says. Skipped where there is no Chromium (scripts/install_test_tools.sh).
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>

#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

// The browser's program, or nothing.
std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system((std::string("command -v ") + name + " >/dev/null").c_str()) == 0) return name;
  }
  return {};
}

class Browser : public ProgramTest {
 protected:
  void SetUp() override {
    if (browser().empty()) GTEST_SKIP() << "no Chromium: scripts/install_test_tools.sh installs it";
    draw_pages();
    make_run("run");
  }
  void make_run(const std::string& name, const Arguments& more = {}) const {
    Arguments arguments = train_arguments(name, {"--eval-data", path("pages/validation.jsonl"), "--max-steps", "4",
                                                 "--eval-steps", "2", "--save-steps", "0"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  struct Opened {
    std::string page, console;  // the page once its script has run; what the browser says of it
  };
  // The page sees no network; nothing is left of the browser's profile.
  Opened open(const std::string& file, const std::string& more = {}) const {
    const std::string command = browser() +
                                " --headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage"
                                " --proxy-server=127.0.0.1:9 --enable-logging=stderr --v=0 --virtual-time-budget=5000"
                                " --user-data-dir=" +
                                path("profile") + " " + more + " --dump-dom 'file://" + path(file) + "' >" +
                                path("dom.html") + " 2>" + path("console.txt");
    EXPECT_EQ(std::system(command.c_str()), 0) << file_bytes(at("console.txt"));
    Opened opened{.page = file_bytes(at("dom.html")), .console = {}};
    std::istringstream lines(file_bytes(at("console.txt")));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("CONSOLE") != std::string::npos) opened.console += line + "\n";
    }
    return opened;
  }
  // Returns the charts that the script says it has drawn.
  static std::set<std::string> drawn(const std::string& page) {
    const std::size_t at = page.find("data-drawn=\"");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + std::string("data-drawn=\"").size();
    std::istringstream names(page.substr(begin, page.find('"', begin) - begin));
    return {std::istream_iterator<std::string>(names), {}};
  }
  // Returns how many elements of the page's drawings have that class.
  static int count(const std::string& page, const std::string& part) {
    int found = 0;
    for (std::size_t at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) ++found;
    return found;
  }
  void report(const Arguments& runs, const std::string& output) const {
    Arguments arguments = {"report", "--output", path(output)};
    for (const std::string& name : runs) arguments.push_back(path(name));
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
};

const std::set<std::string> kCharts = {"memory", "loss", "metrics", "rate", "norm", "speed", "wait"};

TEST_F(Browser, DrawsEveryChartOfARun) {
  report({"run"}, "one.html");
  EXPECT_LE(fs::file_size(at("one.html")), std::uintmax_t{2} << 20);
  const Opened opened = open("one.html");
  EXPECT_EQ(opened.console, "");
  std::set<std::string> expected = kCharts;
  expected.insert("map0");
  EXPECT_EQ(drawn(opened.page), expected);
  // The map has a band for each tensor of the program shown, and a chart is a slider with a value.
  const auto arena = nlohmann::json::parse(file_bytes(at("run/arena.json")));
  EXPECT_EQ(count(opened.page, "class=\"tensor "), static_cast<int>(arena["programs"][0]["tensors"].size()));
  EXPECT_EQ(count(opened.page, "role=\"slider\""), 8);
  EXPECT_EQ(count(opened.page, "aria-valuetext=\"update "), 7);
  EXPECT_THAT(opened.page, HasSubstr("peak: "));
}

TEST_F(Browser, DrawsRunsSideBySideAPlanAndAPhone) {
  make_run("other", {"--seed", "3", "--micro-batch-size", "1"});
  report({"run", "other"}, "two.html");
  const Opened two = open("two.html", "--window-size=390,900");
  EXPECT_EQ(two.console, "");
  std::set<std::string> expected = kCharts;
  expected.insert({"map0", "map1"});
  EXPECT_EQ(drawn(two.page), expected);
  const Outcome plan = run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget",
                            "1GiB", "--html", path("plan.html")});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Opened drawing = open("plan.html");
  EXPECT_EQ(drawing.console, "");
  EXPECT_EQ(drawn(drawing.page), (std::set<std::string>{"map0"}));
}

// Keys move through charts and the map, and say where they are; buttons show another program, and the whole arena.
TEST_F(Browser, AnswersKeysAndButtons) {
  report({"run"}, "one.html");
  std::string page = file_bytes(at("one.html"));
  const std::size_t nonce = page.find("nonce-") + 6;
  const std::string user = R"js(
    const press = (element, key) => element.dispatchEvent(new KeyboardEvent('keydown', {key}));
    const say = (name, text) => document.body.setAttribute('data-' + name, text);
    const map = document.querySelector('[data-map] [data-canvas]'), loss = document.querySelector('[data-chart=loss] [data-canvas]');
    press(map, 'Home');
    say('largest', map.getAttribute('aria-valuetext'));
    press(map, 'ArrowDown');
    say('second', map.getAttribute('aria-valuetext'));
    say('chosen', document.querySelectorAll('.tensor.on').length);
    press(loss, 'Home');
    say('first', loss.getAttribute('aria-valuetext'));
    press(loss, 'ArrowRight');
    say('next', loss.getAttribute('aria-valuetext'));
    say('along', document.querySelector('[data-chart=rate] [data-canvas]').getAttribute('aria-valuetext'));
    const choices = document.querySelectorAll('[data-tools] input');
    choices[choices.length - 1].click();
    say('whole', document.querySelectorAll('.tensor').length);
    choices[1].click();
    say('other', document.querySelectorAll('.tensor').length);
    dispatchEvent(new Event('beforeprint'));
    dispatchEvent(new Event('afterprint'));)js";
  page.replace(page.find("</body>"), 7,
               "<script nonce=\"" + page.substr(nonce, 16) + "\">" + user + "</script></body>");
  write_bytes(at("used.html"), page);
  const Opened opened = open("used.html");
  EXPECT_EQ(opened.console, "");
  const auto said = [&opened](const std::string& name) {
    const std::string mark = "data-" + name + "=\"";
    const std::size_t begin = opened.page.rfind(mark);
    if (begin == std::string::npos) return std::string("nothing");
    return opened.page.substr(begin + mark.size(), opened.page.find('"', begin + mark.size()) - begin - mark.size());
  };
  const auto arena = nlohmann::json::parse(file_bytes(at("run/arena.json")));
  const auto& tensors = arena["programs"][0]["tensors"];
  const auto largest =
      std::ranges::max_element(tensors, {}, [](const auto& tensor) { return tensor[4].template get<std::uint64_t>(); });
  EXPECT_THAT(said("largest"), testing::StartsWith((*largest)[0].get<std::string>() + ": "));
  EXPECT_NE(said("second"), said("largest"));
  EXPECT_EQ(said("chosen"), "1");
  EXPECT_THAT(said("first"), testing::StartsWith("update 1: training "));
  EXPECT_THAT(said("next"), testing::StartsWith("update 2: training "));
  EXPECT_THAT(said("along"), testing::StartsWith("update 2: ")) << "the other charts go along";
  EXPECT_EQ(said("whole"), std::to_string(tensors.size() + arena["persistent"].size()));
  EXPECT_EQ(said("other"), std::to_string(arena["programs"][1]["tensors"].size() + arena["persistent"].size()));
}

// A run may have written as little as one line, or nothing at all.
TEST_F(Browser, DrawsWhatThereIsOfARun) {
  for (const char* file : {"summary.json", "worst.json", "arena.json", "findings.json"}) fs::remove(at("run") / file);
  const std::string metrics = file_bytes(at("run/metrics.jsonl"));
  write_bytes(at("run/metrics.jsonl"), metrics.substr(0, metrics.find('\n') + 1));
  report({"run"}, "one.html");
  const Opened one = open("one.html");
  EXPECT_EQ(one.console, "");
  EXPECT_TRUE(drawn(one.page).contains("loss"));
  write_bytes(at("run/metrics.jsonl"), "");
  report({"run"}, "none.html");
  EXPECT_EQ(open("none.html").console, "");
}

// Texts of strangers stay texts in the browser too: a script among them would change the title.
TEST_F(Browser, RunsNoScriptOfARun) {
  const std::string hostile =
      "</script><script>document.title='changed'</script><img src=x onerror=document.title='changed'>";
  auto worst = nlohmann::json::parse(file_bytes(at("run/worst.json")));
  for (auto& page : worst["pages"]) {
    page["id"] = page["where"] = page["caption"] = hostile;
    for (auto& word : page["words"]) word[0] = word[1] = word[3] = hostile;
  }
  write_bytes(at("run/worst.json"), worst.dump());
  auto arena = nlohmann::json::parse(file_bytes(at("run/arena.json")));
  for (auto& tensor : arena["programs"][0]["tensors"]) tensor[0] = tensor[1] = hostile;
  for (auto& node : arena["programs"][0]["nodes"]) node[0] = hostile;
  write_bytes(at("run/arena.json"), arena.dump());
  report({"run"}, "hostile.html");
  const Opened opened = open("hostile.html");
  EXPECT_EQ(opened.console, "");
  EXPECT_THAT(opened.page, HasSubstr("<title>Run run</title>"));
  EXPECT_THAT(opened.page, Not(HasSubstr("<img")));
  EXPECT_TRUE(drawn(opened.page).contains("map0"));
}

}  // namespace
}  // namespace plimsoll
