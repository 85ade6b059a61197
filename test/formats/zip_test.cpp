#include "formats/zip.h"

#include "formats/zip_builder.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

ZipBuilder two_entries() {
  ZipBuilder zip;
  zip.add("b/first", "some bytes");
  zip.add("a", "");
  return zip;
}

std::string error_of(const std::string& content) {
  const ScratchFolder directory;
  return data_error([&] { ZipReader reader(directory.write("x.zip", content)); });
}

// Returns the archive of two_entries() with `replacement` at the nth occurrence of `signature`, plus `skip`.
std::string with_lie(const std::string& signature, std::size_t skip, const std::string& replacement) {
  std::string content = two_entries().finish();
  const std::size_t at = content.find(signature);
  check(at != std::string::npos, "the test finds what it falsifies");
  return content.replace(at + skip, replacement.size(), replacement);
}

const std::string kLocal = "PK\x03\x04", kCentral = "PK\x01\x02", kEnd = "PK\x05\x06";

TEST(Zip, ReadsEntriesByName) {
  for (const bool zip64 : {false, true}) {
    const ScratchFolder directory;
    const ZipReader zip(directory.write("x.zip", two_entries().finish(zip64)));
    ASSERT_EQ(zip.entries().size(), 2U);
    EXPECT_EQ(zip.read_all(*zip.find("b/first"), 10), "some bytes");
    EXPECT_EQ(zip.read_all(*zip.find("a"), 0), "");
    EXPECT_EQ(zip.find("first"), nullptr);
    std::array<std::byte, 5> part{};
    zip.read(*zip.find("b/first"), 5, part);
    EXPECT_EQ(std::memcmp(part.data(), "bytes", 5), 0);
    EXPECT_THROW(zip.read(*zip.find("b/first"), 6, part), DataError);
    EXPECT_THROW(zip.read_all(*zip.find("b/first"), 9), DataError);
  }
}

TEST(Zip, FindsTheEndBeforeAComment) {
  std::string content = two_entries().finish();
  content[content.size() - 2] = 5;
  const ScratchFolder directory;
  EXPECT_EQ(ZipReader(directory.write("x.zip", content + "notes")).entries().size(), 2U);
  EXPECT_THAT(error_of(content + "note"), HasSubstr("no end record"));
}

TEST(Zip, RefusesADirectoryThatLies) {
  const auto u32 = [](std::uint32_t value) { return little_endian(value); };
  const auto u16 = [](std::uint16_t value) { return little_endian(value); };
  EXPECT_THAT(error_of(""), HasSubstr("too short"));
  EXPECT_THAT(error_of(std::string(100, 'x')), HasSubstr("no end record"));
  EXPECT_THAT(error_of(with_lie(kEnd, 16, u32(0x7FFFFFFF))), HasSubstr("directory does not lie inside"));
  EXPECT_THAT(error_of(with_lie(kEnd, 12, u32(0x7FFFFFFF))), HasSubstr("directory does not lie inside"));
  EXPECT_THAT(error_of(with_lie(kEnd, 16, u32(0xFFFFFFFF))), HasSubstr("no locator"));
  EXPECT_THAT(error_of(with_lie(kEnd, 10, u16(60000))), HasSubstr("too short for its entries"));
  EXPECT_THAT(error_of(with_lie(kEnd, 10, u16(1))), HasSubstr("longer than its entries"));
  EXPECT_THAT(error_of(with_lie(kCentral, 0, "XX")), HasSubstr("torn"));
  EXPECT_THAT(error_of(with_lie(kCentral, 28, u16(60000))), HasSubstr("torn"));
  EXPECT_THAT(error_of(with_lie(kCentral, 8, u16(1))), HasSubstr("encrypted"));
  EXPECT_THAT(error_of(with_lie(kCentral, 10, u16(14))), HasSubstr("method 14"));
  EXPECT_THAT(error_of(with_lie(kCentral, 20, u32(11))), HasSubstr("two sizes"));
  EXPECT_THAT(error_of(with_lie(kCentral, 20, u32(500) + u32(500))), HasSubstr("beyond its file"));
  EXPECT_THAT(error_of(with_lie(kCentral, 20, u32(0xFFFFFFFF))), HasSubstr("has no sizes"));
  EXPECT_THAT(error_of(with_lie(kCentral, 42, u32(0x7FFFFFFF))), HasSubstr("does not lie inside"));
  EXPECT_THAT(error_of(with_lie(kCentral, 42, u32(3))), HasSubstr("own header disagrees"));
  EXPECT_THAT(error_of(with_lie(kCentral, 46, "c/")), HasSubstr("two names"));
  EXPECT_THAT(error_of(with_lie(kLocal, 26, u16(60000))), HasSubstr("own header disagrees"));
}

TEST(Zip, RefusesEntriesThatShareBytesOrNames) {
  ZipBuilder twins;
  twins.add("a", "1");
  twins.add("a", "2");
  EXPECT_THAT(error_of(twins.finish()), HasSubstr("comes twice"));
  // "a" ends where "b/first" ends, so its header lies inside the other's data.
  ZipBuilder inner;
  inner.add("in", "x");
  const std::string inner_bytes = inner.finish();
  ZipBuilder outer;
  outer.add("out", inner_bytes.substr(0, 33));
  outer.add("in", "x");
  std::string content = outer.finish();
  const std::size_t second = content.rfind(kCentral);
  content.replace(second + 42, 4, little_endian<std::uint32_t>(33));
  EXPECT_THAT(error_of(content), HasSubstr("share bytes"));
}

TEST(Zip, RefusesTornFilesAtEveryLength) {
  for (const bool zip64 : {false, true}) {
    const std::string whole = two_entries().finish(zip64);
    const ScratchFolder directory;
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const auto path = directory.write("torn.zip", std::string_view(whole).substr(0, length));
      EXPECT_THROW(ZipReader{path}, DataError) << length;
    }
  }
}

TEST(Zip, AFlippedBitOfAnEntryIsSeenByItsChecksum) {
  // Python's zipfile wrote both with checksums: one deflated, one stored.
  for (const char* name : {"deflated.npz", "stored.npz"}) {
    const std::string content = read_text_file(golden(name));
    const ScratchFolder directory;
    const ZipReader whole(directory.write("x.zip", content));
    for (const ZipEntry& entry : whole.entries()) {
      SCOPED_TRACE(entry.name);
      EXPECT_NE(entry.crc, 0U);
      EXPECT_NO_THROW(whole.verify(entry));
      for (const std::uint64_t byte : {entry.stored_bytes / 3, entry.stored_bytes / 2}) {
        std::string flipped = content;
        char& bit = flipped[entry.offset_bytes + byte];
        bit = static_cast<char>(bit ^ 16);
        const ZipReader zip(directory.write("flipped.zip", flipped));
        const ZipEntry& damaged = *zip.find(entry.name);
        EXPECT_THROW(zip.verify(damaged), DataError);
        EXPECT_THROW(zip.read_all(damaged, 1 << 24), DataError);
      }
    }
  }
}

TEST(Zip, AnEntryWithoutAChecksumIsReadAsItIs) {
  // torch.save writes this after torch.serialization.set_crc32_options(False): ZipBuilder also writes 0.
  const ScratchFolder directory;
  const ZipReader zip(directory.write("x.zip", two_entries().finish()));
  EXPECT_NO_THROW(zip.verify(*zip.find("b/first")));
}

TEST(Zip, RefusesADeflatedEntryThatIsTornOrClaimsTooMuch) {
  // Python's zipfile wrote the archive; the entry is deflated.
  std::string content = read_text_file(golden("deflated.npz"));
  const ScratchFolder directory;
  {
    const ZipReader zip(directory.write("x.zip", content));
    const ZipEntry* entry = zip.find("labels.npy");
    ASSERT_TRUE(entry != nullptr && entry->deflated);
    EXPECT_EQ(zip.read_all(*entry, 1 << 20).substr(1, 5), "NUMPY");
  }
  const std::size_t central = content.find(kCentral);
  std::string longer = content;
  longer.replace(central + 24, 4, little_endian<std::uint32_t>(50'000));
  const ZipReader zip(directory.write("longer.zip", longer));
  EXPECT_THAT(data_error([&] { zip.read_all(*zip.find("matrix.npy"), 1 << 20); }), HasSubstr("torn"));
  std::string bomb = content;
  bomb.replace(central + 24, 4, little_endian<std::uint32_t>(0x7FFFFFFF));
  EXPECT_THAT(error_of(bomb), HasSubstr("more than it can unpack to"));
}

}  // namespace
}  // namespace plimsoll
