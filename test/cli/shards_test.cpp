// Shards of `predict` and `ocr`, and `merge-parts`, as a user runs them: processes that nothing connects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "cli/program_fixture.h"
#include "ocr/text_reader.h"
#include "support/drawn_text.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Shards : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    make_model();
  }

  Arguments predict(const std::string& output, const Arguments& more = {}) const {
    Arguments all = {"predict",   "--model",   path("model"), "--data", path("pages/train.jsonl"),
                     "--threads", "1",         "--budget",    "1GiB",   "--return-all-scores",
                     "--output",  path(output)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome run_shard(const std::string& output, const std::string& shard, Arguments more = {}) const {
    more.insert(more.end(), {"--shard", shard});
    return run(predict(output, more));
  }
  Outcome merge(const std::string& output, const Arguments& more = {}) const {
    Arguments all = {"merge-parts", "--output", path(output)};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  // Runs all shards of an output.
  void run_all(const std::string& output, int count, const Arguments& more = {}) const {
    for (int shard = 1; shard <= count; ++shard) {
      const Outcome outcome = run_shard(output, std::to_string(shard) + "/" + std::to_string(count), more);
      ASSERT_EQ(outcome.code, 0) << outcome.err;
    }
  }
  std::string part(const std::string& output, int shard, int count) const {
    return path(output) + ".part-" + std::to_string(shard) + "-of-" + std::to_string(count);
  }
  void change_manifest(const std::string& output, int shard, int count,
                       const std::function<void(json&)>& change) const {
    const std::string manifest = part(output, shard, count) + ".json";
    json object = json::parse(file_bytes(manifest));
    change(object);
    write_bytes(manifest, object.dump());
  }
};

TEST_F(Shards, JoinToTheBytesOfOneProcess) {
  if (sums_depend_on_rows()) GTEST_SKIP() << kSumsDependOnRows;
  for (const char* form : {"jsonl", "json", "csv"}) {
    const Arguments more = {"--format", form};
    ASSERT_EQ(run(predict("alone", more)).code, 0);
    // Four pages: with six shards, two of them are empty.
    for (const int count : {1, 3, 6}) {
      const std::string output = std::string("found-") + form + std::to_string(count);
      run_all(output, count, more);
      EXPECT_FALSE(fs::exists(at(output)));
      const Outcome merged = merge(output);
      ASSERT_EQ(merged.code, 0) << merged.err;
      EXPECT_THAT(merged.out, HasSubstr("of 4 pages joined, written to " + path(output)));
      EXPECT_TRUE(file_bytes(at(output)) == file_bytes(at("alone"))) << form << " of " << count;
      EXPECT_TRUE(fs::exists(part(output, 1, count))) << "parts stay unless --remove-parts is given";
    }
  }
  ASSERT_EQ(merge("found-csv3", {"--remove-parts"}).code, 0);
  EXPECT_FALSE(fs::exists(part("found-csv3", 2, 3)));
  EXPECT_FALSE(fs::exists(part("found-csv3", 2, 3) + ".json"));
  EXPECT_TRUE(file_bytes(at("found-csv3")) == file_bytes(at("alone")));
}

TEST_F(Shards, PagesOfADocumentStayTogether) {
  if (sums_depend_on_rows()) GTEST_SKIP() << kSumsDependOnRows;
  std::vector<json> pages = read_pages("train.jsonl");
  for (std::size_t i = 1; i < 4; ++i) pages.at(i)["document"] = "contract";
  write_pages("train.jsonl", pages);
  ASSERT_EQ(run(predict("alone.jsonl")).code, 0);
  run_all("found.jsonl", 3);
  ASSERT_EQ(merge("found.jsonl").code, 0);
  EXPECT_TRUE(file_bytes(at("found.jsonl")) == file_bytes(at("alone.jsonl")));
}

TEST_F(Shards, DrawTheSamePictures) {
  std::vector<json> pages = read_pages("train.jsonl");
  pages.at(3)["id"] = pages.at(0)["id"];  // the second picture of that name has a number
  write_pages("train.jsonl", pages);
  ASSERT_EQ(run(predict("alone.jsonl", {"--draw", path("alone")})).code, 0);
  run_all("found.jsonl", 2, {"--draw", path("drawn")});
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(at("alone"))) {
    const fs::path other = at("drawn") / entry.path().filename();
    ASSERT_TRUE(fs::exists(other)) << other;
    EXPECT_TRUE(file_bytes(entry.path()) == file_bytes(other)) << other;
    ++files;
  }
  EXPECT_EQ(files, 5) << "four pictures and the directory's mark";
  EXPECT_EQ(std::distance(fs::directory_iterator(at("drawn")), fs::directory_iterator()), 5);
}

TEST_F(Shards, AFinishedShardIsNotRunAgain) {
  run_all("found.jsonl", 2);
  const auto written = fs::last_write_time(part("found.jsonl", 1, 2));
  const Outcome again = run_shard("found.jsonl", "1/2");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("nothing is left to do: shard 1/2 is finished, 2 pages in"));
  EXPECT_EQ(fs::last_write_time(part("found.jsonl", 1, 2)), written);
  // Options that change no byte may differ.
  const Outcome other = run_shard("found.jsonl", "1/2", {"--per-device-eval-batch-size", "1", "--json"});
  EXPECT_EQ(json::parse(other.out).value("was_finished", false), true) << other.out << other.err;
  // One whose part is gone is.
  fs::remove(part("found.jsonl", 1, 2));
  EXPECT_THAT(run_shard("found.jsonl", "1/2").out, HasSubstr("2 pages predicted"));
}

TEST_F(Shards, AnInterruptedShardBeginsAgain) {
  ASSERT_EQ(run(predict("alone.jsonl")).code, 0);
  // However far it came: the manifest says that it is not finished, or the part has its name and the manifest not yet.
  for (int kills = 0; kills < 6; ++kills) {
    Process process(predict("found.jsonl", {"--shard", "1/2"}), at("killed"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * kills));
    process.signal(SIGKILL);
    process.wait();
    const Outcome merged = merge("found.jsonl");
    EXPECT_EQ(merged.code, 3) << merged.out;
    EXPECT_FALSE(fs::exists(at("found.jsonl")));
  }
  run_all("found.jsonl", 2);
  change_manifest("found.jsonl", 2, 2, [](json& manifest) { manifest["finished"] = false; });
  expect_message(merge("found.jsonl"), 3, {"a part is not finished", "found.jsonl.part-2-of-2", "--shard 2/2"});
  EXPECT_THAT(run_shard("found.jsonl", "2/2").out, HasSubstr("2 pages predicted"));
  ASSERT_EQ(merge("found.jsonl").code, 0);
  EXPECT_TRUE(file_bytes(at("found.jsonl")) == file_bytes(at("alone.jsonl")));
}

TEST_F(Shards, PartsOfAnotherRunAreRefused) {
  ASSERT_EQ(run_shard("found.jsonl", "1/2").code, 0);
  const std::string manifest = "found.jsonl.part-1-of-2.json";
  const std::string what = "there are parts of the output that were made in another way";
  expect_message(run_shard("found.jsonl", "2/2", {"--max-length", "64"}), 2,
                 {what, manifest, "max_length: 0 then, 64 now"});
  expect_message(run_shard("found.jsonl", "1/2", {"--max-length", "64"}), 2, {what, manifest, "max_length"});
  // The same name with other bytes.
  const std::string bytes = file_bytes(at("pages/train.jsonl"));
  write_bytes(at("pages/train.jsonl"), bytes + bytes);
  expect_message(run_shard("found.jsonl", "2/2"), 2, {what, "another input"});
  write_bytes(at("pages/train.jsonl"), bytes);
  // Another model of the same name.
  ASSERT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("other"), "--seed", "7", "--labels",
                 "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,I-DATE,B-TOTAL,I-TOTAL"})
                .code,
            0);
  fs::rename(at("model"), at("first"));
  fs::rename(at("other"), at("model"));
  expect_message(run_shard("found.jsonl", "2/2"), 2, {what, "another model"});
  fs::rename(at("model"), at("other"));
  fs::rename(at("first"), at("model"));
  EXPECT_EQ(run_shard("found.jsonl", "2/2").code, 0);
  change_manifest("found.jsonl", 1, 2, [](json& object) { object["identity"]["command"] = "ocr"; });
  expect_message(run_shard("found.jsonl", "2/2"), 2, {what, "command: \"ocr\" then, \"predict\" now"});
}

TEST_F(Shards, WhatCannotBeJoinedIsRefused) {
  expect_message(merge("found.jsonl"), 3, {"the output has no parts", "found.jsonl", "--shard 1/N"});
  run_all("found.jsonl", 3);
  const std::string second = part("found.jsonl", 2, 3);
  const std::string bytes = file_bytes(second), manifest = file_bytes(second + ".json");
  const auto expect_refused = [&](const std::vector<std::string>& parts) {
    expect_message(merge("found.jsonl"), 3, parts);
    EXPECT_FALSE(fs::exists(at("found.jsonl")));
    write_bytes(second, bytes);
    write_bytes(second + ".json", manifest);
  };
  fs::remove(second);
  expect_refused({"a part is missing", "found.jsonl.part-2-of-3", "--shard 2/3"});
  fs::remove(second + ".json");
  expect_refused({"a part is missing", "no manifest", "--shard 2/3"});
  write_bytes(second + ".json", "{");
  expect_refused({"a part is not finished", "a damaged manifest"});
  write_bytes(second, bytes + "x");
  expect_refused({"a part is damaged", "a length of"});
  std::string changed = bytes;
  changed[changed.size() / 2] ^= 1;
  write_bytes(second, changed);
  expect_refused({"a part is damaged", "checksum", "found.jsonl.part-2-of-3.json says"});
  change_manifest("found.jsonl", 2, 3, [](json& object) { object["identity"]["options"]["max_length"] = 64; });
  expect_refused({"a part was made in another way than the first", "max_length: 0 then, 64 now"});
  change_manifest("found.jsonl", 2, 3, [](json& object) { object["first_page"] = 0; });
  expect_refused({"a part does not begin where the one before it ends", "page 0 instead of 1"});
  ASSERT_EQ(run_shard("found.jsonl", "1/2").code, 0);
  expect_refused({"the output has parts of two divisions", "parts of 2 shards and of 3"});
}

TEST_F(Shards, WhatIsNoShardIsRefused) {
  for (const char* shard : {"0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", "1/1000000"}) {
    expect_message(run_shard("found.jsonl", shard), 2, {"not the number of a shard", "--shard", shard, "I/N"});
  }
  Arguments to_standard = predict("found.jsonl", {"--shard", "1/2"});
  *std::ranges::find(to_standard, path("found.jsonl")) = "-";
  expect_message(run(to_standard), 2, {"which must be a file", "--shard"});
  expect_message(run_shard("found.jsonl", "1/2", {"--draw-pdf", path("a.pdf")}), 2, {"--draw-pdf", "shards cannot"});
  expect_message(run_shard("found.jsonl", "1/2", {"--draw", path("drawn"), "--draw-limit", "1"}), 2, {"--draw-limit"});
}

// A page that cannot be read costs that page, in its shard and in the whole, with the exit code of one process.
TEST_F(Shards, PagesThatCannotBeReadAreNamed) {
  if (sums_depend_on_rows()) GTEST_SKIP() << kSumsDependOnRows;
  std::vector<json> pages = read_pages("train.jsonl");
  pages.at(0)["image"] = "images/absent.png";
  write_pages("train.jsonl", pages);
  ASSERT_EQ(run(predict("alone.jsonl")).code, 3);
  // The first shard has no page but that one.
  EXPECT_EQ(run_shard("found.jsonl", "1/4").code, 3);
  const Outcome again = run_shard("found.jsonl", "1/4");
  EXPECT_EQ(again.code, 3) << "and so says a second call";
  EXPECT_THAT(again.err, HasSubstr("to do the shard again, remove"));
  for (const char* shard : {"2/4", "3/4", "4/4"}) ASSERT_EQ(run_shard("found.jsonl", shard).code, 0);
  const Outcome merged = merge("found.jsonl");
  EXPECT_EQ(merged.code, 3);
  EXPECT_THAT(merged.err, HasSubstr("absent.png"));
  EXPECT_TRUE(file_bytes(at("found.jsonl")) == file_bytes(at("alone.jsonl")));
}

TEST_F(Shards, ScansAreReadInShards) {
  try {
    open_text_reader({});
  } catch (const Error& error) {
    GTEST_SKIP() << "pages cannot be read here: " << error.what();
  }
  fs::create_directories(at("scans"));
  draw_text(at("scans/a.png"), {"Greenburg Services", "TOTAL 12.50"});
  draw_text(at("scans/b.png"), {"Invoice 4711"});
  draw_text(at("scans/c.png"), {"Amount due"});
  const Arguments ocr = {"ocr", "--input", path("scans"), "--output"};
  const auto of = [&](const std::string& output, const Arguments& more) {
    Arguments all = ocr;
    all.push_back(path(output));
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  ASSERT_EQ(of("alone.jsonl", {}).code, 0);
  for (const char* shard : {"1/2", "2/2"}) ASSERT_EQ(of("pages.jsonl", {"--shard", shard}).code, 0);
  EXPECT_THAT(of("pages.jsonl", {"--shard", "2/2"}).out, HasSubstr("nothing is left to do"));
  expect_message(of("pages.jsonl", {"--shard", "2/2", "--language", "deu"}), 2, {"language"});
  ASSERT_EQ(merge("pages.jsonl").code, 0);
  EXPECT_TRUE(file_bytes(at("pages.jsonl")) == file_bytes(at("alone.jsonl")));
  // And read and predicted in one go.
  const auto predict_scans = [&](const std::string& output, const Arguments& more) {
    Arguments all = {"predict",   "--model", path("model"), "--input",   path("scans"),
                     "--threads", "1",       "--output",    path(output)};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  ASSERT_EQ(predict_scans("alone.fields", {}).code, 0);
  for (const char* shard : {"1/4", "2/4", "3/4", "4/4"}) {
    const Outcome outcome = predict_scans("fields", {"--shard", shard});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  ASSERT_EQ(merge("fields").code, 0);
  EXPECT_TRUE(file_bytes(at("fields")) == file_bytes(at("alone.fields")));
}

}  // namespace
}  // namespace plimsoll::test
