#include "data/check.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "data/data_set_checks.h"
#include "data/packed_report.h"
#include "data/page_checks.h"
#include "data/shared_work.h"

namespace plimsoll {

void check_tokenizer_size(std::int64_t tokenizer_ids, std::int64_t embedding_rows, const std::string& where,
                          Findings& findings) {
  constexpr double kFew = 0.9;
  const bool beyond = tokenizer_ids > embedding_rows;
  if (!beyond && static_cast<double>(tokenizer_ids) >= kFew * static_cast<double>(embedding_rows)) return;
  findings.add(beyond ? Severity::kError : Severity::kWarning, "tokenizer-size",
               {.what = beyond ? "the tokenizer does not match the model: it has ids beyond the word embedding"
                               : "the tokenizer does not match the model: it has far fewer ids than the word embedding",
                .where = where,
                .found = counted(tokenizer_ids, "token id"),
                .allowed = fmt::format("{} vocab_size = {}", beyond ? "at most" : "about", embedding_rows),
                .remedy = "use the tokenizer that the model was trained with"});
}

CheckReport check_pages(const PageSource& source, const CheckOptions& options) {
  // A block is large enough that taking turns costs nothing, and small enough that a progress bar moves.
  constexpr std::size_t kBlockPages = 16;
  const std::size_t pages = source.size(), blocks = (pages + kBlockPages - 1) / kBlockPages;
  DataSetChecker whole(source, options);
  ByteGate decoding(options.decoding_bytes);
  std::size_t done = 0;
  run_shared<BlockReport>(
      options.share, blocks, options.threads,
      [&](std::size_t block) {
        BlockReport report(options.places_kept);
        PageChecker checker(source, options, decoding);
        const std::size_t begin = block * kBlockPages, end = std::min(begin + kBlockPages, pages);
        for (std::size_t i = begin; i < end; ++i) checker.check(i, report);
        return report;
      },
      pack_report, [&](std::string_view packed) { return unpack_report(packed, options.places_kept); },
      [&](const BlockReport& report) {
        whole.add(report);
        done = std::min(done + kBlockPages, pages);
        if (options.on_progress) options.on_progress(done, pages);
      });
  return whole.finish();
}

}  // namespace plimsoll
