#include "fuzz/tokenizer_folder.h"

// The input has the files of a tokenizer in this order.
void plimsoll::fuzz::tokenizer(std::string_view input) {
  static constexpr const char* kNames[] = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
      "merges.txt",     "added_tokens.json"};
  static const test::ScratchFolder folder;
  write_parts(folder, kNames, input);
  read_and_encode(folder.path());
}
