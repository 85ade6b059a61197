// The parsers as a fuzzer sees them: one function each, which passes bytes to it in the same way as the product.
// test_fuzz replays them on test/fuzz/corpus, and libFuzzer drives them in the preset `fuzz` (scripts/fuzz.sh).
//
// A parser may accept its bytes or refuse them with an Error; a target that returns says that it did one of the two.
// Anything else is a finding: another exception, an InternalError, a broken invariant, a sanitizer's report, an
// allocation of 64 MiB, ten seconds.
#pragma once

#include <string_view>

#include "base/error.h"

namespace plimsoll::fuzz {

using Target = void (*)(std::string_view input);

void config(std::string_view input);  // every JSON of a model directory except the tokenizer's
void convert_json(std::string_view input);  // convert --input, of each format of JSON, and of TSV
void convert_xml(std::string_view input);   // the same of each format of XML
void funsd(std::string_view input);   // one annotation file
void jinja(std::string_view input);   // a chat template, and the values that it is rendered with after a form feed
void jsonl(std::string_view input);   // a file of pages
void log(std::string_view input);     // doctor LOG
void npy(std::string_view input);
void npz(std::string_view input);
void packed_page(std::string_view input);  // a page kept on disk; its first byte says for which task
void quantized(std::string_view input);    // a safetensors file with matrices as bitsandbytes has them
void safetensors(std::string_view input);
void sentencepiece(std::string_view input);  // sentencepiece.bpe.model
void shard_index(std::string_view input);    // model.safetensors.index.json
void snapshot(std::string_view input);       // doctor --snapshot
void tokenizer(std::string_view input);      // tokenizer.json, and the files beside it after form feeds
void torch_bin(std::string_view input);      // the whole archive of torch.save
void torch_pickle(std::string_view input);   // the pickle in a valid archive of this kind
void unigram(std::string_view input);  // tokenizer.json of a Unigram model, and tokenizer_config.json after a form feed
void vocab_txt(std::string_view input);  // vocab.txt, and the files beside it after form feeds

struct Named {
  const char* name;
  Target target;
};
inline constexpr Named kTargets[] = {{"config", config},
                                     {"convert_json", convert_json},
                                     {"convert_xml", convert_xml},
                                     {"funsd", funsd},
                                     {"jinja", jinja},
                                     {"jsonl", jsonl},
                                     {"log", log},
                                     {"npy", npy},
                                     {"npz", npz},
                                     {"packed_page", packed_page},
                                     {"quantized", quantized},
                                     {"safetensors", safetensors},
                                     {"sentencepiece", sentencepiece},
                                     {"shard_index", shard_index},
                                     {"snapshot", snapshot},
                                     {"tokenizer", tokenizer},
                                     {"torch_bin", torch_bin},
                                     {"torch_pickle", torch_pickle},
                                     {"unigram", unigram},
                                     {"vocab_txt", vocab_txt}};

// Runs `parse`, which may refuse its bytes.
template <typename Parse>
void may_refuse(const Parse& parse) {
  try {
    parse();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
}

}  // namespace plimsoll::fuzz
