// Recognises files that are not pages by their contents.
#include "data/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/page_source.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

class FileKindTest : public testing::Test {
 protected:
  Problem refusal(const std::filesystem::path& path) const {
    try {
      open_pages(path, {});
    } catch (const DataError& error) {
      return error.problem();
    }
    ADD_FAILURE() << path << " is taken for pages";
    return {};
  }
  test::ScratchFolder folder_;
};

TEST_F(FileKindTest, IsToldByTheFirstBytesWhateverTheName) {
  struct Case {
    const char* name;
    std::string bytes, kind, remedy;
  };
  const std::string tail(300, '\x01');
  const std::vector<Case> cases = {
      {"a.jsonl", "PAR1" + tail + "PAR1", "a parquet file", "tools/convert_dataset.py --output pages "},
      {"b.jsonl", "ARROW1\0\0"s + tail, "an Arrow file", "to_parquet"},
      {"c.arrow", "\xFF\xFF\xFF\xFF" + tail, "an Arrow stream", "to_parquet"},
      {"d.jsonl", "\x89PNG\r\n\x1A\n" + tail, "a PNG picture", "plimsoll ocr --input "},
      {"e", "\xFF\xD8\xFF\xE0" + tail, "a JPEG picture", "e --output pages.jsonl"},
      {"f.tif", "II*\0"s + tail, "a TIFF picture", "plimsoll ocr"},
      {"g.jsonl", "%PDF-1.7\n" + tail, "a PDF document", "plimsoll ocr"},
      {"h.jsonl", "PK\x03\x04" + tail, "a zip archive", "unzip"},
      {"i.jsonl.gz", "\x1F\x8B\x08" + tail, "a gzip file", "gunzip"},
      {"j.csv", "image,words,boxes\na.png,\"x y\",\"[1, 2]\"\n", "a table (CSV or TSV)",
       "orient='records', lines=True"},
      {"k.tsv", "id\timage\n1\ta.png\n", "a table (CSV or TSV)", "orient='records', lines=True"},
      {"l.xml", "\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<alto/>\n", "XML or HTML",
       "hOCR, ALTO or PAGE, convert it: plimsoll convert"},
      {"m.jsonl", "\xFF\xFE{\0\"\0w\0"s, "text in UTF-16", "iconv"},
      {"n.jsonl", "\xFF\xFE\0\0{\0\0\0"s, "text in UTF-32", "iconv -f UTF-32"},
      {"o.jsonl", "\0\0\xFE\xFF\0\0\0{"s, "text in UTF-32", "iconv -f UTF-32"},
      {"n.safetensors", "\x40\0\0\0\0\0\0\0{\"a\": {}}"s, "a safetensors file", "--model"},
      {"o.bin", "PK\x03\x04" + tail, "weights that PyTorch saved", "--model"},
      {"p.pkl", "\x80\x04\x95" + tail, "a Python pickle", "--model"},
      {"q.dat", "abc\0def"s, "binary data", "JSONL"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Problem problem = refusal(folder_.write(each.name, each.bytes));
    EXPECT_THAT(problem.found, HasSubstr(each.kind));
    EXPECT_THAT(problem.remedy, HasSubstr(each.remedy));
    EXPECT_THAT(problem.where, HasSubstr(each.name));
  }
}

// A file that may be JSONL goes to the reader, which names lines; a broken line does not make it a table.
TEST_F(FileKindTest, LeavesLinesOfJsonToTheirReader) {
  for (const char* text :
       {"{\"words\": []}\n", "\n\n  {\"a\": 1}\n", "\xEF\xBB\xBF{\"a\": 1}\n", "broken, really\n{\"a\": 1}\n",
        "{\"words\": [\"a\xFFz\"]}\n", "[\n{\"a\": 1},\n{\"a\": 2}\n]\n", "nonsense\n", "", "\n"}) {
    EXPECT_FALSE(recognise_file(folder_.write("pages.jsonl", text))) << text;
  }
  EXPECT_FALSE(recognise_file(folder_.path() / "absent.jsonl"));
  EXPECT_FALSE(recognise_file(folder_.path()));
}

TEST_F(FileKindTest, FoldersAreToldByWhatTheyHold) {
  folder_.write("hub/data/train-00000-of-00001.parquet", "PAR1");
  EXPECT_THAT(refusal(folder_.path() / "hub").remedy, HasSubstr("tools/convert_dataset.py --output pages "));
  folder_.write("saved/train/data-00000-of-00001.arrow", "\xFF\xFF\xFF\xFF");
  EXPECT_THAT(refusal(folder_.path() / "saved").remedy, HasSubstr("data-00000-of-00001.arrow"));
  folder_.write("scans/b.png", "");
  folder_.write("scans/a.jpg", "");
  EXPECT_THAT(refusal(folder_.path() / "scans").remedy, HasSubstr("/scans --output"));
  folder_.write("lines/pages.jsonl", "{}\n");
  folder_.write("lines/images/a.png", "");
  EXPECT_THAT(refusal(folder_.path() / "lines").remedy,
              HasSubstr("pass the file itself: " + (folder_.path() / "lines/pages.jsonl").string()));
  folder_.write("funsd/training_data/annotations/a.json", "{}");
  EXPECT_THAT(refusal(folder_.path() / "funsd").remedy, HasSubstr("training_data"));
  const std::string above = "name " + (folder_.path() / "funsd/training_data").string();
  EXPECT_EQ(refusal(folder_.path() / "funsd/training_data/annotations").remedy, above);
  EXPECT_EQ(refusal(folder_.path() / "funsd/training_data/annotations/").remedy, above);
  folder_.write("funsd/training_data/images/a.png", "");
  EXPECT_EQ(refusal(folder_.path() / "funsd/training_data/images").remedy, above);
}

TEST_F(FileKindTest, NamesOfTheHubAndAddressesAreToldByTheirForm) {
  EXPECT_THAT(refusal("nielsr/funsd-layoutlmv3").remedy,
              HasSubstr("hf download nielsr/funsd-layoutlmv3 --repo-type dataset --local-dir funsd-layoutlmv3"));
  EXPECT_THAT(refusal("https://huggingface.co/datasets/nielsr/funsd").remedy, HasSubstr("hf download nielsr/funsd "));
  EXPECT_THAT(refusal("https://example.com/pages.jsonl").remedy, HasSubstr("curl"));
  for (const char* no : {"pages.jsonl", "data/pages.jsonl", "./data/pages", "../x", "a/b/c", "/a/b", "", "funsd"}) {
    EXPECT_FALSE(is_hub_name(no)) << no;
  }
  EXPECT_THAT(refusal("data/pages.jsonl").what, testing::Not(HasSubstr("form")));  // a file that does not exist
}

}  // namespace
}  // namespace plimsoll
