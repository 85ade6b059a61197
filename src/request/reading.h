// How pages are read and cut for a model: the requests of --data, --box-format, --max-length and so on, limited to what
// the model sees of a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "bundle/model_bundle.h"
#include "data/page_range.h"
#include "data/page_source.h"
#include "data/tokenized_pages.h"
#include "data/windows.h"

namespace plimsoll {

struct DataRequest {
  PagePaths data;
  PagePaths pages{};  // the pages whose ids the pairs of `data` name; empty: pairs contain their pages
  BoxFormat box_format = BoxFormat::kPixel;
  bool segment_boxes = false;
  int max_length = 0;                // text tokens of a window; 0: as many as the model has positions for, at most 512
  int stride = -1;                   // tokens by which windows overlap; below 0: a quarter of a window, at most 128
  bool truncate = false;             // long pages lose their end instead of being cut into windows
  std::filesystem::path cache{};     // a directory for preprocessed pages; empty: none
  std::optional<PageRange> range{};  // the range of all pages that the command works on
  std::optional<std::uint64_t> augment{};  // a seed: training pages are augmented
  // The directory for tokenised pages while the command runs, if not in `cache`; empty: that of other temporary files.
  std::filesystem::path work{};
  PageCounts* counts = nullptr;  // counts how often pages are parsed and tokenised; nullptr: nothing is counted
};

// Returns how many threads read all pages before a run.
int reading_threads();

// Returns what a model reads of a page.
PageParts page_parts(const EncoderFacts& facts);

// Returns how the pages of a run are read for the model's task; `with_targets` is false for prediction.
ReadOptions read_options(const ModelBundle& bundle, const DataRequest& request, bool with_targets);

// Opens the pages of `paths`, or those of them within the request's range.
std::unique_ptr<PageSource> open_requested(const DataRequest& request, const PagePaths& paths,
                                           const ReadOptions& reading);

// Opens the same pages, each parsed and tokenised once; `reading` comes from read_options.
std::shared_ptr<const TokenizedPages> open_tokenized(
    const ModelBundle& bundle, const DataRequest& request, const PagePaths& paths, const ReadOptions& reading,
    const std::function<void(std::size_t done, std::size_t pages)>& on_progress = {});

// Returns the tokens of a full window; throws UsageError if the model has fewer positions than were asked for.
int window_length(const DataRequest& request, const EncoderFacts& facts);
// Returns how pages are cut into windows; throws like window_length.
WindowOptions window_options(const DataRequest& request, const ModelBundle& bundle);

}  // namespace plimsoll
