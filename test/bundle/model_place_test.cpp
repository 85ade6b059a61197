#include "bundle/model_place.h"

#include "base/error.h"
#include "base/file.h"
#include "base/work_folder.h"
#include "train/trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

FileSums write_files(const fs::path& directory, const std::vector<std::string>& names, const std::string& content) {
  FileSums sums;
  for (const std::string& name : names) sums[name] = write_text_file(directory / name, content + name);
  return sums;
}

const std::vector<std::string> kOld = {"config.json", "model.safetensors", "vocab.json"};
const std::vector<std::string> kNew = {"config.json", "model.safetensors", "tokenizer.json"};

void write_old(const fs::path& directory) {
  write_model(directory, [](const fs::path& aside) { return write_files(aside, kOld, "old "); });
}
void write_new(const fs::path& directory) {
  write_model(directory, [](const fs::path& aside) { return write_files(aside, kNew, "new "); });
}
void expect_whole(const fs::path& place, const std::vector<std::string>& names, const std::string& content) {
  for (const std::string& name : names) EXPECT_EQ(read_text_file(place / name), content + name);
  EXPECT_TRUE(verify_checkpoint(place));
}

TEST(ModelPlace, ANewModelTakesThePlaceOfTheOld) {
  const ScratchFolder folder;
  folder.write("notes", "a user's own");
  write_old(folder.path());
  expect_whole(folder.path(), kOld, "old ");
  write_new(folder.path());
  expect_whole(folder.path(), kNew, "new ");
  EXPECT_FALSE(fs::exists(folder / "vocab.json")) << "the old model's alone";
  EXPECT_EQ(read_text_file(folder / "notes"), "a user's own");
  EXPECT_FALSE(fs::exists(work_folder(folder.path())));
}

TEST(ModelPlace, AFailedWriteLeavesTheOldModel) {
  const ScratchFolder folder;
  write_old(folder.path());
  EXPECT_THROW(write_model(folder.path(),
                           [](const fs::path& aside) -> FileSums {
                             write_files(aside, {"config.json"}, "new ");
                             throw EnvironmentError({.what = "the disk is full"});
                           }),
               EnvironmentError);
  EXPECT_EQ(model_place(folder.path()), folder.path());
  expect_whole(folder.path(), kOld, "old ");
  finish_writing_model(folder.path());
  EXPECT_FALSE(fs::exists(work_folder(folder.path())));
}

// Simulates a kill before the commit: some files are written aside.
TEST(ModelPlace, BeforeTheCommitTheOldModelStands) {
  const ScratchFolder folder;
  write_old(folder.path());
  write_files(make_work_directory(folder.path(), "model.tmp"), {"config.json", "model.safetensors"}, "new ");
  EXPECT_EQ(model_place(folder.path()), folder.path());
  finish_writing_model(folder.path());
  expect_whole(folder.path(), kOld, "old ");
  EXPECT_FALSE(fs::exists(work_folder(folder.path())));
}

// Simulates a kill after the commit: some files are in place, the other names still belong to the old model.
TEST(ModelPlace, AfterTheCommitTheNewModelStandsWhateverWasPutInPlace) {
  for (std::size_t placed = 0; placed <= kNew.size(); ++placed) {
    const ScratchFolder folder;
    write_old(folder.path());
    const fs::path committed = make_work_directory(folder.path(), "model");
    write_checksums(committed, write_files(committed, kNew, "new "));
    if (placed > 0) fs::remove(folder / "config.json");
    for (std::size_t i = 1; i < placed; ++i) {
      fs::remove(folder / kNew[i]);
      fs::create_hard_link(committed / kNew[i], folder / kNew[i]);
    }
    fs::create_hard_link(committed / "model.safetensors", aside_path(folder / "model.safetensors"));
    EXPECT_EQ(model_place(folder.path()), committed);
    expect_whole(model_place(folder.path()), kNew, "new ");
    finish_writing_model(folder.path());
    EXPECT_EQ(model_place(folder.path()), folder.path());
    expect_whole(folder.path(), kNew, "new ");
    EXPECT_FALSE(fs::exists(folder / "vocab.json"));
    EXPECT_FALSE(fs::exists(aside_path(folder / "model.safetensors")));
    EXPECT_FALSE(fs::exists(work_folder(folder.path())));
  }
}

}  // namespace
}  // namespace plimsoll
