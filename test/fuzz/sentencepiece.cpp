#include "fuzz/tokenizer_folder.h"

void plimsoll::fuzz::sentencepiece(std::string_view input) {
  static const test::ScratchFolder folder;
  folder.write("sentencepiece.bpe.model", input);
  read_and_encode(folder.path());
}
