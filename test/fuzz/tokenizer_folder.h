// A folder of tokenizer files for a fuzz target, and what a tokenizer that was read from it must be able to do.
#pragma once

#include <span>

#include "data/tokenizer.h"
#include "fuzz/targets.h"
#include "support/scratch_folder.h"

namespace plimsoll::fuzz {

// Writes the parts of `input`, which are separated by form feeds, under these names; an empty part is no file.
inline void write_parts(const test::ScratchFolder& folder, std::span<const char* const> names, std::string_view input) {
  for (const char* name : names) {
    const std::string_view content = input.substr(0, input.find('\f'));
    input.remove_prefix(std::min(input.size(), content.size() + 1));
    if (content.empty())
      std::filesystem::remove(folder / name);
    else
      folder.write(name, content);
  }
}

inline void read_and_encode(const std::filesystem::path& folder) {
  may_refuse([&] {
    const Tokenizer tokenizer = Tokenizer::from_directory(folder);
    std::vector<std::int32_t> ids;
    for (const std::string_view word :
         {"TOTAL", " 12,50\u20AC<mask> ", "</s>x<s>", "[SEP]e\u0301\u4E2D\uAC01", "\uFF21\u00BD"})
      tokenizer.encode_word(word, ids);
    const std::string long_word(200, 'a');  // takes the other path
    tokenizer.encode_word(long_word, ids);
    for (const std::int32_t id : ids) {
      check(id >= 0 && id < tokenizer.vocab_size(), "an id lies in the vocabulary");
    }
    tokenizer.decode(ids, true);
  });
}

}  // namespace plimsoll::fuzz
