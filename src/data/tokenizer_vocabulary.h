// The project's own vocabulary: 8,000 entries of byte-level BPE, compiled in, for models trained from scratch.
//
//   Tokenizer tokenizer(embedded_vocabulary());
#pragma once

#include <string_view>

#include "data/tokenizer_files.h"

namespace plimsoll {

// Entries are numbered as in RoBERTa's vocabulary: <s>, <pad>, </s>, <unk>, the 256 bytes, one entry for each merge,
// <mask>. `merges`: a line for each merge, "left right" in the byte alphabet. Throws InternalError if a merge names an
// entry that no line before it made.
TokenizerDefinition vocabulary_from_merges(std::string_view merges);

// From embedded_vocabulary.inc, which tools/vocabulary/make_vocabulary.cpp made.
TokenizerDefinition embedded_vocabulary();

}  // namespace plimsoll
