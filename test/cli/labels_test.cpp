// Tests how check, eval and predict treat labelling schemes, words without a prediction, and models that cannot
// predict.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cli/program_fixture.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Removes a tensor from the file by giving it another name of the same length.
void rename_tensor(const fs::path& path, const std::string& from, const std::string& to) {
  edit_weights(path, [&](std::string& header, char*) {
    const std::size_t at = header.find("\"" + from + "\"");
    ASSERT_NE(at, std::string::npos) << from;
    header.replace(at + 1, from.size(), to);
  });
}

class Labels : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    make_model();
  }
  Arguments predict_arguments(const std::string& data, const std::string& output, const Arguments& more = {}) const {
    Arguments all = {"predict",    "--model",  path("model"), "--data",    path(data), "--output",
                     path(output), "--budget", "1GiB",        "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Arguments with(Arguments all, const Arguments& more) const {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Writes the pages again with each label changed.
  void relabel(const std::string& name, const std::function<std::string(const std::string&)>& change) const {
    std::vector<json> pages = read_pages("validation.jsonl");
    for (json& page : pages) {
      for (json& label : page["labels"]) label = change(label.get<std::string>());
    }
    write_pages(name, pages);
  }
  std::vector<json> read_lines(const std::string& name) const {
    std::vector<json> lines;
    std::ifstream file(at(name));
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

// A type whose fields all have one word needs no I-: a model without it knows every label of such data.
TEST_F(Labels, AHeadIsKeptIfTheModelKnowsEveryLabelOfTheData) {
  relabel("short.jsonl", [](const std::string& label) { return label == "I-DATE" ? "B-DATE" : label; });
  ASSERT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--labels",
                 "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,B-TOTAL,I-TOTAL", "--output-dir", path("short")})
                .code,
            0);
  Arguments train = train_arguments("run", {"--max-steps", "1"});
  train[2] = path("short");
  train[4] = path("pages/short.jsonl");
  const Outcome trained = run(train);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out + trained.err, Not(HasSubstr("new classification head")));
  EXPECT_EQ(json::parse(file_bytes(at("run/config.json"))).at("id2label").size(), 8U);
}

TEST_F(Labels, PlainNamesAreWholeTypesAndThatIsSaid) {
  relabel("plain.jsonl", [](const std::string& label) { return label == "O" ? label : label.substr(2); });
  const Arguments data = {"--data", path("pages/plain.jsonl")};
  const Outcome checked = run(with({"check", "--model", "layoutlmv3-tiny"}, data));
  EXPECT_EQ(checked.code, 0) << checked.out;
  EXPECT_THAT(checked.out, HasSubstr("each name is a separate type"));
  const Outcome made = run({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("plain"), "--labels",
                            "O,ADDRESS,COMPANY,DATE,TOTAL"});
  ASSERT_EQ(made.code, 0) << made.err;
  const Outcome scored = run(with({"eval", "--model", path("plain"), "--threads", "1", "--json"}, data));
  ASSERT_EQ(scored.code, 0) << scored.err;
  EXPECT_THAT(scored.err, HasSubstr("the labels have no B- or I-"));
  const json labels = json::parse(scored.out).at("per_label");
  EXPECT_TRUE(labels.contains("ADDRESS")) << labels;
  EXPECT_FALSE(labels.contains("DDRESS")) << labels;
  const Outcome tagged = run(eval_arguments());
  ASSERT_EQ(tagged.code, 0) << tagged.err;
  EXPECT_THAT(tagged.err, Not(HasSubstr("separate type")));
}

TEST_F(Labels, AMixtureOfSchemesIsAnError) {
  relabel("mixed.jsonl", [](const std::string& label) { return label.ends_with("DATE") ? "DATE" : label; });
  const Arguments data = {"--data", path("pages/mixed.jsonl")};
  const Outcome checked = run(with({"check", "--model", "layoutlmv3-tiny"}, data));
  EXPECT_EQ(checked.code, 3) << checked.out;
  EXPECT_THAT(checked.out, HasSubstr("[label-scheme] labels of different schemes are mixed"));
  EXPECT_THAT(checked.out, HasSubstr("mixed.jsonl:1, page"));
  EXPECT_THAT(checked.out, HasSubstr("\"DATE\""));
  Arguments train = train_arguments("run");
  *(std::find(train.begin(), train.end(), "--data") + 1) = path("pages/mixed.jsonl");
  expect_message(run(train), 3, {"labels of different schemes are mixed", "mixed.jsonl:1", "\"DATE\""});
}

TEST_F(Labels, WordsThatAreCutOffAreMissed) {
  const auto evaluate = [&](const Arguments& more) {
    const Outcome outcome = run(with(with(eval_arguments(), {"--json"}), more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json whole = evaluate({}), cut = evaluate({"--max-length", "12", "--truncate"});
  EXPECT_EQ(whole["missed_words"], 0);
  EXPECT_GT(cut["missed_words"], 20);
  EXPECT_EQ(cut["support"], whole["support"]);
  EXPECT_GT(whole["support"], 5);
  const Outcome told = run(with(eval_arguments(), {"--max-length", "12", "--truncate"}));
  EXPECT_THAT(told.out, HasSubstr("labelled words have no prediction"));

  const Outcome outcome =
      run(predict_arguments("pages/validation.jsonl", "out.jsonl", {"--max-length", "12", "--truncate"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("words have no prediction (cut off by --truncate"));
  for (const json& page : read_lines("out.jsonl")) {
    const json& unpredicted = page.at("unpredicted_words");
    ASSERT_GT(unpredicted.size(), 0U);
    EXPECT_EQ(unpredicted.back(), page.at("words").size() - 1);
    for (const json& word : unpredicted) {
      EXPECT_TRUE(page.at("probabilities").at(word.get<std::size_t>()).is_null());
      EXPECT_EQ(page.at("labels").at(word.get<std::size_t>()), "O");
    }
    EXPECT_TRUE(page.at("probabilities").at(0).is_number());
  }
}

TEST_F(Labels, AWordWithoutTextIsMissedToo) {
  std::vector<json> pages = read_pages("validation.jsonl");
  const json whole = json::parse(run(with(eval_arguments(), {"--json"})).out);
  int emptied = 0;
  for (json& page : pages) {
    for (std::size_t w = 0; w < page["words"].size(); ++w) {
      if (page["labels"][w] == "O" || emptied == 2) continue;
      page["words"][w] = "";
      ++emptied;
    }
  }
  ASSERT_EQ(emptied, 2);
  write_pages("holes.jsonl", pages);
  const json holes = json::parse(run(with(eval_arguments("pages/holes.jsonl"), {"--json"})).out);
  EXPECT_EQ(holes["missed_words"], 2);
  EXPECT_EQ(holes["support"], whole["support"]);
}

TEST_F(Labels, WordsWhoseLabelIsNotKnownAreNeitherLearntNorScored) {
  const json whole = json::parse(run(with(eval_arguments(), {"--json"})).out);
  for (const char* file : {"train.jsonl", "validation.jsonl"}) {
    std::vector<json> pages = read_pages(file);
    for (json& page : pages) {
      for (json& label : page["labels"]) {
        if (label == "B-TOTAL") label = nullptr;
        if (label == "I-TOTAL") label = -100;
      }
    }
    write_pages(std::string("part-") + file, pages);
  }
  const Outcome scored = run(with(eval_arguments("pages/part-validation.jsonl"), {"--json"}));
  ASSERT_EQ(scored.code, 0) << scored.err;
  const json part = json::parse(scored.out);
  EXPECT_GT(whole["per_label"]["TOTAL"]["support"], 0);
  EXPECT_EQ(part["per_label"]["TOTAL"]["support"], 0);
  EXPECT_EQ(part["per_label"]["DATE"]["support"], whole["per_label"]["DATE"]["support"]);
  EXPECT_EQ(part["missed_words"], 0);
  const Outcome checked = run({"check", "--model", "layoutlmv3-tiny", "--data", path("pages/part-train.jsonl")});
  EXPECT_EQ(checked.code, 0) << checked.out;
  EXPECT_THAT(checked.out, HasSubstr("[word-unlabelled] a word's label is not known (null or -100)"));
  Arguments train = train_arguments("part");
  *(std::find(train.begin(), train.end(), "--data") + 1) = path("pages/part-train.jsonl");
  const Outcome trained = run(train);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(file_bytes(at("part/config.json")), Not(HasSubstr("TOTAL")));
}

TEST_F(Labels, FieldsSayWhatTheWordsSay) {
  const std::string data = "pages/validation.jsonl";
  ASSERT_EQ(run(predict_arguments(data, "out.jsonl", {"--return-all-scores"})).code, 0);
  std::size_t fields = 0;
  for (const json& page : read_lines("out.jsonl")) {
    const json &words = page.at("words"), &labels = page.at("labels"), &probabilities = page.at("probabilities");
    std::vector<bool> covered(words.size());
    for (const json& field : page.at("fields")) {
      ++fields;
      const auto begin = field.at("start_word").get<std::size_t>(), end = field.at("end_word").get<std::size_t>();
      ASSERT_LT(begin, end);
      ASSERT_LE(end, words.size());
      std::string text;
      double confidence = 1;
      json box = field.at("boxes").at(0);
      ASSERT_EQ(field.at("boxes").size(), end - begin);
      for (std::size_t w = begin; w < end; ++w) {
        covered[w] = true;
        text += (w == begin ? "" : " ") + words[w].get<std::string>();
        confidence = std::min(confidence, probabilities[w].get<double>());
        const json& of_word = field.at("boxes").at(w - begin);
        for (std::size_t i = 0; i < 4; ++i) {
          box[i] = i < 2 ? std::min(box[i].get<double>(), of_word[i].get<double>())
                         : std::max(box[i].get<double>(), of_word[i].get<double>());
        }
        EXPECT_EQ(labels[w].get<std::string>().substr(2), field.at("label"));
      }
      EXPECT_EQ(field.at("text"), text);
      EXPECT_DOUBLE_EQ(field.at("confidence").get<double>(), confidence);
      for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(field.at("box")[i].get<double>(), box[i].get<double>());
    }
    for (std::size_t w = 0; w < words.size(); ++w) EXPECT_EQ(covered[w], labels[w] != "O") << w;

    const json &names = page.at("label_names"), &scores = page.at("scores");
    ASSERT_EQ(scores.size(), words.size());
    ASSERT_EQ(names.size(), 9U);
    for (std::size_t w = 0; w < words.size(); ++w) {
      ASSERT_EQ(scores[w].size(), names.size());
      double sum = 0;
      std::size_t best = 0;
      for (std::size_t c = 0; c < names.size(); ++c) {
        sum += scores[w][c].get<double>();
        if (scores[w][c] > scores[w][best]) best = c;
      }
      EXPECT_NEAR(sum, 1, 1e-5);
      EXPECT_EQ(names[best], labels[w]);
      EXPECT_NEAR(scores[w][best].get<double>(), probabilities[w].get<double>(), 1e-6);
    }
  }
  EXPECT_GT(fields, 0U);
  const std::vector<json> pages = read_pages("validation.jsonl");
  const std::vector<json> lines = read_lines("out.jsonl");
  ASSERT_EQ(lines.size(), pages.size());
  for (std::size_t p = 0; p < pages.size(); ++p) {
    for (const json& field : lines[p].at("fields")) {
      EXPECT_EQ(field.at("boxes").at(0), pages[p].at("boxes").at(field.at("start_word").get<std::size_t>()));
    }
  }
  ASSERT_EQ(run(predict_arguments(data, "plain.jsonl")).code, 0);
  EXPECT_FALSE(read_lines("plain.jsonl").at(0).contains("scores"));
}

TEST_F(Labels, AModelWithoutAHeadIsForTrainingAlone) {
  const fs::path weights = at("model/model.safetensors");
  const std::string whole = file_bytes(weights);
  rename_tensor(weights, "classifier.weight", "klassifier.weight");
  rename_tensor(weights, "classifier.bias", "klassifier.bias");
  const std::vector<std::string> parts = {"no classification head", "model.safetensors", "'classifier.weight'",
                                          "plimsoll train --model " + path("model")};
  expect_message(run(eval_arguments()), 3, parts);
  expect_message(run(predict_arguments("pages/validation.jsonl", "out.jsonl")), 3, parts);
  EXPECT_FALSE(fs::exists(at("out.jsonl")));
  Arguments train = train_arguments("run", {"--max-steps", "1"});
  *(std::find(train.begin(), train.end(), "--model") + 1) = path("model");
  const Outcome trained = run(train);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("new classification head"));

  // An incomplete head must not be replaced by a new one silently.
  write_bytes(weights, whole);
  rename_tensor(weights, "classifier.bias", "klassifier.bias");
  expect_message(run(eval_arguments()), 3, {"lack a tensor", "'classifier.bias'"});
  *(std::find(train.begin(), train.end(), "--output-dir") + 1) = path("half");
  expect_message(run(train), 3, {"lack a tensor", "'classifier.bias'"});
}

TEST_F(Labels, PredictionsThatAreNotFiniteNameTheFirstTensor) {
  edit_weights(at("model/model.safetensors"), [](std::string& header, char* data) {
    const json offsets = json::parse(header).at("classifier.weight").at("data_offsets");
    for (std::size_t at = offsets[0]; at < offsets[1].get<std::size_t>(); at += sizeof(float)) {
      const float large = std::numeric_limits<float>::max();
      std::memcpy(data + at, &large, sizeof(large));
    }
  });
  const std::vector<std::string> parts = {"predictions are NaN or infinite", "validation.jsonl:1, page", "'classifier",
                                          "makes"};
  expect_message(run(eval_arguments()), 6, parts);
  expect_message(run(predict_arguments("pages/validation.jsonl", "out.jsonl")), 6, parts);
  EXPECT_FALSE(fs::exists(at("out.jsonl")));
}

TEST_F(Labels, AnEmptyPageIsNamed) {
  std::vector<json> pages = read_pages("validation.jsonl");
  for (const char* key : {"words", "boxes", "labels"}) pages.at(1)[key] = json::array();
  write_pages("empty.jsonl", pages);
  const std::string page = pages.at(1).at("id").get<std::string>();
  expect_message(run(eval_arguments("pages/empty.jsonl")), 3, {"a page has no words", "empty.jsonl:2", page});
  // The same holds if no page of the file has labels.
  write_pages("alone.jsonl", {pages.at(1)});
  expect_message(run(eval_arguments("pages/alone.jsonl")), 3, {"a page has no words", "alone.jsonl:1", page});
  Arguments train = train_arguments("run");
  *(std::find(train.begin(), train.end(), "--data") + 1) = path("pages/alone.jsonl");
  expect_message(run(train), 3, {"no page has words", "alone.jsonl:1", page, "1 page without words"});
}

TEST_F(Labels, ARunThatMakesNoUpdateHasNoLoss) {
  Arguments train = train_arguments("run", {"--max-steps", "1", "--save-steps", "1"});
  ASSERT_EQ(run(train).code, 0);
  EXPECT_TRUE(json::parse(file_bytes(at("run/summary.json"))).at("loss").is_number());
  fs::remove(at("run/summary.json"));
  const Outcome again = run(with(train, {"--resume-from-checkpoint", "latest"}));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(json::parse(file_bytes(at("run/summary.json"))).at("loss").is_null());
}

}  // namespace
}  // namespace plimsoll::test
