// The project's own vocabulary for models trained from scratch: 8,000 entries of byte-level BPE, compiled in.
//
//   Tokenizer tokenizer(embedded_vocabulary());
#pragma once

#include <string_view>

#include "data/tokenizer_files.h"

namespace plimsoll {

// Entries are numbered as in RoBERTa's vocabulary: <s>, <pad>, </s>, <unk>, the 256 bytes, one entry for each merge,
// <mask>. `merges` has a line for each merge, "left right" in the byte alphabet. Throws InternalError if a merge uses
// an entry that no earlier line made.
TokenizerDefinition vocabulary_from_merges(std::string_view merges);

// Reads embedded_vocabulary.inc, which tools/vocabulary/make_vocabulary.cpp wrote.
TokenizerDefinition embedded_vocabulary();

}  // namespace plimsoll
