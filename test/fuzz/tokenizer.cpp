#include "data/tokenizer.h"

#include "fuzz/targets.h"
#include "support/scratch_folder.h"

// The input has the files of a tokenizer in this order, separated by form feeds; an empty one is absent.
void plimsoll::fuzz::tokenizer(std::string_view input) {
  static constexpr const char* kNames[] = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
      "merges.txt",     "added_tokens.json"};
  static const test::ScratchFolder folder;
  for (const char* name : kNames) {
    const std::string_view content = input.substr(0, input.find('\f'));
    input.remove_prefix(std::min(input.size(), content.size() + 1));
    if (content.empty())
      std::filesystem::remove(folder / name);
    else
      folder.write(name, content);
  }
  may_refuse([&] {
    const Tokenizer tokenizer = Tokenizer::from_directory(folder.path());
    std::vector<std::int32_t> ids;
    for (const std::string_view word : {"TOTAL", " 12,50\u20AC<mask> ", "</s>x<s>"}) tokenizer.encode_word(word, ids);
    const std::string long_word(200, 'a');  // takes the other merging path
    tokenizer.encode_word(long_word, ids);
    for (const std::int32_t id : ids) {
      check(id >= 0 && id < tokenizer.vocab_size(), "an id lies in the vocabulary");
    }
    tokenizer.decode(ids, true);
  });
}
