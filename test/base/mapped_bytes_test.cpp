#include "base/mapped_bytes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

TEST(MappedBytes, ShowsAnyPartOfAFile) {
  const test::ScratchFolder folder;
  std::string text(20000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  const auto path = folder.write("a", text);
  const InputFile file(path);
  for (const std::size_t offset : {0U, 1U, 4095U, 4096U, 4097U, 19999U}) {
    const MappedBytes part(file, offset, text.size() - offset);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(part.bytes().data()), part.bytes().size()),
              std::string_view(text).substr(offset));
  }
  EXPECT_THROW(MappedBytes(file, 19000, 1001), DataError);
  std::filesystem::resize_file(path, 10000);
  EXPECT_THROW(MappedBytes(file, 0, 20000), DataError) << "cut since it was opened";
}

}  // namespace
}  // namespace plimsoll
