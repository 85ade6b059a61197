#include "fuzz/tokenizer_folder.h"

void plimsoll::fuzz::vocab_txt(std::string_view input) {
  static constexpr const char* kNames[] = {"vocab.txt", "tokenizer_config.json", "special_tokens_map.json",
                                           "added_tokens.json"};
  static const test::ScratchFolder folder;
  write_parts(folder, kNames, input);
  read_and_encode(folder.path());
}
