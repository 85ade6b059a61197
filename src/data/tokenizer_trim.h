// Trims a tokenizer: tokens that a text never needs leave its vocabulary, and those that stay get new ids in their old
// order.
//
//   std::vector<bool> kept(definition.tokens.size());  // true for the tokens of a text
//   keep_needed_tokens(definition, kept);              // and for those without which it would be cut otherwise
//   for (const TokenizerFile& file : trimmed_files(definition, kept)) {
//     write_text_file(directory / file.name, file.content);  // for `transformers`, and Tokenizer::from_directory
//   }
//
// A text whose tokens are all kept is cut into the same pieces as before.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer_files.h"

namespace plimsoll {

// Adds to `kept` (a flag for each id) the tokens that must stay:
//   - special and added tokens, and the token for unknown text,
//   - single characters (tokens with a character that no other token stands for), and with byte-level BPE single bytes,
//     so that any text can be encoded that could be before,
//   - with BPE both sides of each merge that makes a kept token: a merge that is left out was never applied in a text
//     whose tokens are all kept,
//   - with Unigram the token of the lowest score, from which the score of unknown characters is computed.
// WordPiece takes the longest token that fits, which is not changed when others go.
void keep_needed_tokens(const TokenizerDefinition& definition, std::vector<bool>& kept);

// Returns the new id of each old one, kNoToken for those that leave.
std::vector<std::int32_t> trimmed_ids(const std::vector<bool>& kept);

// Returns the tokenizer's files (tokenizer_files) with only the kept tokens: tokenizer.json, tokenizer_config.json,
// added_tokens.json, vocab.json, merges.txt, vocab.txt and sentencepiece.bpe.model; others are unchanged.
std::vector<TokenizerFile> trimmed_files(const TokenizerDefinition& definition, const std::vector<bool>& kept);

}  // namespace plimsoll
