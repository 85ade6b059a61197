#include "formats/checksums.h"

#include "formats/support.h"
#include "support/log_capture.h"
#include "support/log_capture.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Returns a directory with two files and their sums.
fs::path saved(const ScratchFolder& folder) {
  const fs::path directory = folder.make("saved");
  std::string weights(200'000, 'w');  // longer than the piece read at a time
  write_checksums(directory, {{"config.json", write_text_file(directory / "config.json", "{\"a\": 1}")},
                              {"model.safetensors", write_text_file(directory / "model.safetensors", weights)}});
  return directory;
}

void flip(const fs::path& path, std::size_t byte) {
  std::string bytes = read_text_file(path);
  bytes[byte] = static_cast<char>(bytes[byte] ^ 4);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Checksums, TheSumsOfWritingAreThoseOfReading) {
  const ScratchFolder folder;
  const fs::path directory = saved(folder);
  for (const auto& [name, sum] : read_checksums(directory)) EXPECT_EQ(sum_of_file(directory / name), sum) << name;
  EXPECT_EQ(read_checksums(directory).size(), 2U);
  OutputFile pieces(folder / "pieces");
  for (int i = 0; i < 1000; ++i) pieces.write(std::string(static_cast<std::size_t>(i), 'p'));
  const FileSum written = pieces.close();
  EXPECT_EQ(written, sum_of_file(folder / "pieces"));
}

TEST(Checksums, AFlippedBitIsSeenWhereverItIs) {
  const ScratchFolder folder;
  const fs::path directory = saved(folder);
  EXPECT_TRUE(verify_checkpoint(directory));
  for (const std::size_t byte : {0U, 65'535U, 65'536U, 131'072U, 199'999U}) {
    flip(directory / "model.safetensors", byte);
    EXPECT_THAT(data_error([&] { verify_file(directory / "model.safetensors"); }), HasSubstr("damaged")) << byte;
    EXPECT_THAT(data_error([&] { verify_checkpoint(directory); }), HasSubstr("model.safetensors")) << byte;
    EXPECT_NO_THROW(verify_model_files(directory, false)) << "weights are verified when they are loaded";
    EXPECT_THROW(verify_model_files(directory, true), DataError);
    flip(directory / "model.safetensors", byte);
  }
  EXPECT_TRUE(verify_checkpoint(directory));
  flip(directory / "config.json", 3);
  EXPECT_THAT(data_error([&] { verify_model_files(directory, false); }), HasSubstr("config.json"));
}

TEST(Checksums, AFileOfAnotherLengthWasWrittenAnew) {
  const ScratchFolder folder;
  const fs::path directory = saved(folder);
  const test::LogCapture log;
  write_text_file(directory / "config.json", "{\"a\": 1, \"b\": 2}");
  EXPECT_NO_THROW(verify_model_files(directory, true));
  EXPECT_THAT(log.text(), HasSubstr("config.json is not the file that was saved there"));
  EXPECT_THAT(data_error([&] { verify_checkpoint(directory); }), HasSubstr("config.json"))
      << "nobody edits a checkpoint";
}

TEST(Checksums, AMissingFileAndNoListAtAll) {
  const ScratchFolder folder;
  const fs::path directory = saved(folder);
  fs::remove(directory / "model.safetensors");
  EXPECT_NO_THROW(verify_model_files(directory, true)) << "who opens it says so";
  EXPECT_THROW(verify_checkpoint(directory), DataError);
  fs::remove(directory / kChecksumsFile);
  EXPECT_FALSE(verify_checkpoint(directory));
  EXPECT_NO_THROW(verify_file(directory / "config.json"));
}

// Whatever a damaged bit of the list changes, no damaged file is accepted, and nothing outside is looked for.
TEST(Checksums, ADamagedListIsNeverTakenForAGoodOne) {
  const ScratchFolder folder;
  const fs::path directory = saved(folder);
  const std::string list = read_text_file(directory / kChecksumsFile);
  for (std::size_t byte = 0; byte < list.size(); ++byte) {
    if (list[byte] == ' ' || list[byte] == '\n') continue;  // it may become another white space character
    flip(directory / kChecksumsFile, byte);
    EXPECT_THROW(verify_checkpoint(directory), DataError) << byte;
    std::ofstream(directory / kChecksumsFile, std::ios::binary) << list;
  }
  folder.write("saved/checksums.json",
               R"({"algorithm": "xxh3-64", "files": {"../x": {"bytes": 1, "xxh3": "0000000000000000"}}})");
  EXPECT_THROW(read_checksums(directory), DataError);
}

}  // namespace
}  // namespace plimsoll
