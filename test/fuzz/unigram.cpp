#include "fuzz/tokenizer_folder.h"

void plimsoll::fuzz::unigram(std::string_view input) {
  static constexpr const char* kNames[] = {"tokenizer.json", "tokenizer_config.json"};
  static const test::ScratchFolder folder;
  write_parts(folder, kNames, input);
  read_and_encode(folder.path());
}
