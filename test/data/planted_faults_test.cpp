// Every kind of fault, planted at ten places each, is found there, by its right name, and nothing else is.
#include "data/planted_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "data/check.h"
#include "draw/synth.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

using namespace test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class PlantedFaults : public testing::Test {
 protected:
  PlantedFaults() {
    folder_.write("page.ppm", page_picture());
    folder_.write("blank.ppm", page_picture(250, 250, 250, false));
    folder_.write("bgr.ppm", page_picture(220, 240, 255));
    folder_.write("large.pbm", "P4 1600 2400\n" + std::string(200 * 2400, '\0'));
    for (const char* name : {"rgb.ppm", "gray.pgm", "rgb.tif", "lzw.tif", "rgb.bmp"}) {
      const std::string whole = read_text_file(image_file(name));
      folder_.write(std::string("cut_") + name, whole.substr(0, whole.size() * 9 / 10));
    }
    folder_.write("empty.png", "");
    std::string png = read_text_file(image_file("rgb.png"));
    for (std::size_t i = 300; i < 900; ++i) png[i] = '\0';
    folder_.write("broken.png", png);
    std::string jpeg = read_text_file(image_file("gray.jpg"));
    jpeg.replace(jpeg.size() * 3 / 4, 2, "\xFF\xD3");  // a restart mark where none belongs
    folder_.write("damaged.jpg", jpeg);
  }

  CheckReport check(const std::string& text, const Fault* fault = nullptr, int threads = 2) {
    const auto source = tokenized(folder_.write("data.jsonl", text), {.label_names = labels_.names()});
    CheckOptions options{.labels = &labels_,
                         .labels_required = true,
                         .tokens = source.get(),
                         .vocab_size = 126,
                         .places_kept = 10'000,
                         .threads = threads};
    if (fault != nullptr && fault->options) fault->options(options);
    return check_pages(*source, options);
  }

  // Puts the fault into ten of the clean pages; returns the places that the check must report.
  std::vector<std::string> plant(const Fault& fault, std::string& text) {
    Places places(fault.name);
    std::vector<Json> pages = clean_pages(places, fault.segments);
    std::set<std::size_t> chosen;
    while (chosen.size() < kPlaces) chosen.insert(1 + places.below(kPages - 1));
    std::vector<std::string> expected;
    for (std::size_t p = 0; p < kPages; ++p) {
      Json& page = pages[p];
      const std::size_t word = places.below(page["words"].size());
      const bool planted = chosen.count(p) > 0;
      const std::string spelled = page["words"][word].get<std::string>();
      if (planted && fault.plant) {
        page["first"] = pages[0];
        fault.plant(page, word);
        page.erase("first");
      }
      std::string line = page.dump();
      if (planted && fault.spoil) fault.spoil(line, spelled);
      text += line + "\n";
      if (!planted) continue;
      std::string where = fmt::format("{}:{}", (folder_.path() / "data.jsonl").string(), p + 1);
      if (fault.at != At::kLine) where += fmt::format(", page '{}'", page["id"].get<std::string>());
      if (fault.at == At::kWord) where += fmt::format(", word {}", word);
      expected.push_back(where);
    }
    return expected;
  }

  // True if `where` begins with the place and continues with more of it, but not with another digit.
  static bool is_at(const std::string& where, const std::string& place) {
    return where.starts_with(place) &&
           (where.size() == place.size() || std::isdigit(static_cast<unsigned char>(where[place.size()])) == 0);
  }

  void expect_found(const Fault& fault) {
    SCOPED_TRACE(fault.name);
    std::string text;
    const std::vector<std::string> expected = plant(fault, text);
    const CheckReport report = check(text, &fault);
    for (const Finding& finding : report.findings.sorted()) {
      if (finding.kind == "word-boxes" && finding.severity == Severity::kInfo) continue;
      if (finding.kind != fault.kind) {
        EXPECT_EQ(fault.also.count(finding.kind), 1U) << report.findings.to_text().substr(0, 2000);
        continue;
      }
      EXPECT_EQ(finding.count, kPlaces) << finding.first.where;
      ASSERT_EQ(finding.places.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(is_at(finding.places[i].where, expected[i]))
            << finding.places[i].where << " is not " << expected[i];
        found_ += is_at(finding.places[i].where, expected[i]) ? 1U : 0U;
      }
      EXPECT_FALSE(finding.first.what.empty());
      EXPECT_FALSE(finding.first.remedy.empty() && finding.first.allowed.empty());
    }
    EXPECT_GT(report.findings.count(fault.kind), 0U);
    ++kinds_;
  }

  ScratchFolder folder_;
  LabelSet labels_ = LabelSet::parse("O,B-X,I-X,B-Y,I-Y");
  std::size_t kinds_ = 0, found_ = 0;
};

TEST_F(PlantedFaults, AreFoundWhereTheyAre) {
  for (const Fault& fault : word_faults()) expect_found(fault);
  for (const Fault& fault : page_faults()) expect_found(fault);
  EXPECT_GE(kinds_, 60U);
  fmt::print("planted {} kinds of faults at {} places each: {} of {} found at their place\n", kinds_, kPlaces, found_,
             kinds_ * kPlaces);
}

// Plants the same box faults in FUNSD's layout, where each word is an entity of its own.
TEST_F(PlantedFaults, AreFoundInFunsdFolders) {
  std::size_t kinds = 0;
  for (const Fault& fault : word_faults()) {
    if (!fault.kind.starts_with("box-") || fault.name == "box null") continue;  // null counts as a missing key there
    SCOPED_TRACE(fault.name);
    const fs::path folder = folder_.path() / fmt::format("funsd{}", kinds++);
    fs::create_directories(folder / "annotations");
    fs::create_directories(folder / "images");
    Places places(fault.name);
    std::vector<Json> pages = clean_pages(places);
    std::set<std::size_t> chosen;
    while (chosen.size() < kPlaces) chosen.insert(places.below(kPages));
    std::vector<std::pair<std::string, std::string>> expected;  // how a place begins, and what it says about the word
    for (std::size_t p = 0; p < kPages; ++p) {
      const std::size_t word = places.below(pages[p]["words"].size());
      const std::string id = fmt::format("p{:02}", p), file = (folder / "annotations" / (id + ".json")).string();
      if (chosen.count(p) > 0) {
        fault.plant(pages[p], word);
        expected.emplace_back(fmt::format("{}, page '{}'", file, id), fmt::format(", word {}", word));
      }
      Json form = Json::array();
      for (std::size_t w = 0; w < pages[p]["words"].size(); ++w) {
        const Json &text = pages[p]["words"][w], &box = pages[p]["boxes"][w];
        form.push_back({{"box", box}, {"label", "x"}, {"words", {{{"text", text}, {"box", box}}}}});
      }
      folder_.write(fs::relative(file, folder_.path()).string(), Json{{"form", form}}.dump());
      fs::create_hard_link(folder_.path() / "page.ppm", folder / "images" / (id + ".png"));
    }
    const auto source = tokenized(folder, {.label_names = labels_.names()});
    const CheckReport report = check_pages(*source, {.labels = &labels_,
                                                     .labels_required = true,
                                                     .tokens = source.get(),
                                                     .vocab_size = 126,
                                                     .places_kept = 10'000});
    for (const Finding& finding : report.findings.sorted()) {
      if (finding.kind != fault.kind) continue;
      ASSERT_EQ(finding.places.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::string& where = finding.places[i].where;
        const auto& [begin, of_word] = expected[i];
        EXPECT_TRUE(where.starts_with(begin) &&
                    is_at(where.substr(std::min(where.size(), where.rfind(", word "))), of_word))
            << where << " is not " << begin << of_word;
      }
    }
    EXPECT_EQ(report.findings.count(fault.kind), kPlaces) << report.findings.to_text().substr(0, 2000);
  }
  EXPECT_GE(kinds, 15U);
}

TEST_F(PlantedFaults, CleanPagesHaveNone) {
  Places places("clean");
  std::string text;
  for (const Json& page : clean_pages(places)) text += page.dump() + "\n";
  const CheckReport report = check(text);
  EXPECT_EQ(report.findings.count(Severity::kError) + report.findings.count(Severity::kWarning), 0U)
      << report.findings.to_text();
}

TEST_F(PlantedFaults, ReportDoesNotDependOnThreads) {
  std::vector<Fault> faults = word_faults();
  std::string text;
  for (const Fault& fault : faults) plant(fault, text);
  const CheckReport one = check(text, nullptr, 1);
  EXPECT_GT(one.findings.count(Severity::kError), 200U);
  for (const int threads : {2, 3, 7}) {
    const CheckReport many = check(text, nullptr, threads);
    EXPECT_EQ(many.findings.to_json(), one.findings.to_json());
    EXPECT_EQ(many.contents, one.contents);
  }
}

// Plants one fault in a whole data set, in ten variants each.
TEST_F(PlantedFaults, OfWholeDataSets) {
  const auto expect = [&](const std::string& name, const std::string& kind, auto&& change, auto&& options_change) {
    for (std::size_t variant = 0; variant < kPlaces; ++variant) {
      SCOPED_TRACE(fmt::format("{} {}", name, variant));
      Places places(name + std::to_string(variant));
      std::string text;
      for (Json& page : clean_pages(places)) {
        change(page, places);
        text += page.dump() + "\n";
      }
      Fault fault{.name = name, .kind = kind, .options = options_change};
      const CheckReport report = check(text, &fault);
      EXPECT_EQ(report.findings.count(kind), 1U) << report.findings.to_text();
      EXPECT_EQ(report.findings.count(Severity::kError), 0U) << report.findings.to_text();
      EXPECT_EQ(report.findings.count(Severity::kWarning), 1U) << report.findings.to_text();
    }
  };
  const auto as_is = [](CheckOptions&) {};
  const auto replace = [](const char* from, const char* to) {
    return [from, to](Json& page, Places&) {
      for (Json& label : page["labels"]) label = label == from ? Json(to) : label;
    };
  };
  expect("no example of a label", "label-unused", replace("B-Y", "O"), as_is);
  expect(
      "one label nearly everywhere", "class-dominant",
      [](Json& page, Places& places) {
        const std::size_t kept = 4 * places.below(kLines) + 1;
        for (std::size_t w = 0; w < page["labels"].size(); ++w) {
          if (w != kept && w != kept + 2) page["labels"][w] = "O";
          if (w == kept + 2) page["labels"][w] = "B-Y";
        }
      },
      as_is);
  expect(
      "pixels taken for thousandths", "box-pixels", [](Json&, Places&) {},
      [](CheckOptions& options) { options.box_format = BoxFormat::k1000; });
  expect(
      "thousandths of large pages", "box-thousandths",
      [](Json& page, Places&) {
        page["image"] = "large.pbm";
        page["width"] = 1600;
        page["height"] = 2400;
        for (Json& box : page["boxes"]) {
          for (std::size_t i = 0; i < 4; ++i)
            box[i] = box[i].get<double>() * 1000 / (i % 2 == 0 ? kPageWidth : kPageHeight);
        }
      },
      as_is);
}

TEST_F(PlantedFaults, BetweenTrainingAndEvaluation) {
  Places places("held out");
  const std::vector<Json> trained = clean_pages(places);
  std::vector<Json> held_out = clean_pages(places);
  std::set<std::size_t> shared;
  while (shared.size() < kPlaces) shared.insert(places.below(kPages));
  std::string train_text, text;
  std::vector<std::size_t> from;
  std::size_t seen = 0;  // the page that has only its picture in common
  while (shared.contains(seen)) ++seen;
  for (const Json& page : trained) train_text += page.dump() + "\n";
  for (std::size_t p = 0; p < kPages; ++p) {
    if (shared.count(p) > 0) {
      const std::size_t other = 7 * p % kPages;
      for (const char* key : {"words", "boxes"}) held_out[p][key] = trained[other][key];
      from.push_back(other);
    }
    held_out[p]["labels"][3] = "B-Z";
    held_out[p]["image"] = p == seen ? "page.ppm" : fmt::format("held-out-{}.ppm", p);
    text += held_out[p].dump() + "\n";
  }
  const auto train = open_pages(folder_.write("train.jsonl", train_text), {});
  const auto evaluation = open_pages(folder_.write("eval.jsonl", text), {});
  const CheckReport a = check_pages(*train, {}), b = check_pages(*evaluation, {});
  const Findings findings = compare_data({*train, a}, {*evaluation, b}, {.places_kept = 100});
  EXPECT_EQ(findings.count("label-untrained"), 1U);
  EXPECT_EQ(findings.count("word-boxes"), 0U);
  EXPECT_EQ(findings.count(Severity::kError), 0U);
  const Finding found = findings.sorted().at(0);
  EXPECT_EQ(found.kind, "page-in-both");
  ASSERT_EQ(found.places.size(), kPlaces);
  std::size_t i = 0;
  for (const std::size_t p : shared) {
    EXPECT_THAT(found.places[i].where, testing::HasSubstr(fmt::format("eval.jsonl:{}, page", p + 1)));
    EXPECT_THAT(found.places[i].found, testing::HasSubstr(fmt::format("train.jsonl:{}, page", from[i] + 1)));
    ++i;
  }
  const Finding picture = findings.sorted().at(1);
  EXPECT_EQ(picture.kind, "picture-in-both");
  ASSERT_EQ(picture.places.size(), 1U);
  EXPECT_THAT(picture.places[0].where, testing::HasSubstr(fmt::format("eval.jsonl:{}, page", seen + 1)));

  std::string segments;
  for (const Json& page : clean_pages(places, true)) segments += page.dump() + "\n";
  const auto other = open_pages(folder_.write("segments.jsonl", segments), {});
  const CheckReport c = check_pages(*other, {});
  EXPECT_EQ(compare_data({*train, a}, {*other, c}).count("word-boxes"), 1U);
  EXPECT_EQ(compare_data({*other, c}, {*train, a}).count("word-boxes"), 1U);
}

// Drawn pages and real ones give no error and no warning.
TEST_F(PlantedFaults, CleanDataHasNone) {
  const auto expect_clean = [](const fs::path& path, bool decode) {
    const auto source = tokenized(path);
    const LabelSet labels = LabelSet::from_pages(*source);
    CheckOptions options{.labels = &labels, .labels_required = true, .tokens = source.get(), .decode_images = decode};
    options.threads = 2;
    const CheckReport report = check_pages(*source, options);
    EXPECT_EQ(report.pages, source->size());
    EXPECT_EQ(report.findings.count(Severity::kError) + report.findings.count(Severity::kWarning), 0U)
        << report.findings.to_text();
  };
  const SynthSummary drawn = synthesize({.output_dir = folder_.path() / "drawn", .count = 60, .seed = 5});
  expect_clean(drawn.train_file, true);
  const fs::path sroie = shared_dir() / "data" / "sroie";
  if (!fs::exists(sroie)) GTEST_SKIP() << "drawn pages are clean; " << sroie << " is not there";
  expect_clean(sroie / "train.jsonl", false);
  expect_clean(sroie / "validation.jsonl", true);
}

}  // namespace
}  // namespace plimsoll
