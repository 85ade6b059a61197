// Dataset: combines tokenised pages and image processor into a list of examples, one per window.
//
// Invariant: the list is made in one pass over every page and every image's header, so each example's size is
// known before the first is loaded; it costs 20 bytes per example. Loading is thread-safe with one Scratch per thread,
// and the same index gives the same example every time.
//
//   Dataset data(pages, processor, {.labels = labels});
//   Dataset::Scratch scratch; EncodedExample example;
//   data.load(17, scratch, example, pixels);  // tokens, boxes, labels; bytes [224, 224, 3]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_gate.h"
#include "base/bytes.h"
#include "data/augment.h"
#include "data/image_processor.h"
#include "data/labels.h"
#include "data/page_cache.h"
#include "data/page_sizes.h"
#include "data/page_source.h"
#include "data/pairs.h"
#include "data/targets.h"
#include "data/tokenized_pages.h"
#include "data/windows.h"

namespace plimsoll {

// One window of one page; or a pair of pages, whose number is then used as `page` everywhere.
struct Example {
  std::uint32_t page = 0;        // index in the source
  std::uint32_t begin = 0;       // first of the page's tokens; for a pair, how many tokens its first page has
  std::uint16_t item = 0;        // of the page (data/targets.h)
  std::uint16_t items = 1;       // number of items of the page
  std::uint16_t window = 0;      // index within the item
  std::uint16_t windows = 1;     // number of windows of the item
  std::uint16_t tokens = 0;      // including prompt and special tokens
  std::uint16_t loss_terms = 0;  // numbers that the loss is a mean of: labelled tokens, or what a task says
};
static_assert(sizeof(Example) == 20);

// A labelled word that no window predicts: it is cut off, or has no tokens.
struct MissedWord {
  std::uint32_t page = 0, word = 0;  // the page's index in the source, the word's on the page
  std::int32_t label = 0;
};

// One window: its tokens, in arrays of equal length, `Example::tokens`; and its targets.
struct EncodedExample {
  std::vector<std::int32_t> input_ids;
  std::vector<Box1000> bbox;           // [0, 0, 0, 0] for <s> and </s>
  std::vector<std::int32_t> labels;    // at a word's first token; -100 elsewhere
  std::vector<std::int32_t> predicts;  // the word whose prediction is read here, kNoWord elsewhere: a word's first
                                       // token in the window that owns it
  std::int32_t pair_begin = 0;         // the first token after the prompt and its separators; 0: there is no prompt
  std::vector<std::int32_t> targets;   // of the task (data/targets.h); empty: none
  std::int64_t loss_terms = 0;
};

// A directory for preprocessed pages, so that the next epoch and the next run need not prepare them again.
struct CacheOptions {
  std::filesystem::path directory{};  // empty: no cache
  int threads = 1;                    // number of threads that fill it
};

struct DatasetOptions {
  PageParts parts{};  // the parts of a page that are loaded; other boxes and pixels are 0
  BoxFormat box_format = BoxFormat::kPixel;
  WindowOptions windows{};
  Box1000 begin_box{}, separator_box{};  // of <s>; of </s> and separators
  // If absent, labels are not read and every label is -100 (prediction).
  std::optional<LabelSet> labels{};
  // The task's own targets; nullptr: none.
  std::shared_ptr<const Targets> targets{};
  // If not nullptr, examples are these pairs of pages, not the pages themselves; `skipped` and `left_out` are then
  // numbers of pairs. `pair_targets` makes the pairs' targets; nullptr: none (prediction).
  std::shared_ptr<const Pairs> pairs{};
  std::shared_ptr<const PairTargets> pair_targets{};
  bool trains = false;  // leave out pairs that the task does not train on
  // By label, or by the number that is an example's target; empty: 1 each. A loss is divided by their sum.
  std::vector<float> class_weights{};
  // Keeps labels only in the window that owns the word, so that each word counts once (evaluation).
  bool label_owned_words_only = false;
  CacheOptions cache{};
  // The augmentation seed: each epoch sees its pages slightly changed (data/augment.h). It excludes a cache, which
  // keeps pages unchanged.
  std::optional<std::uint64_t> augment{};
  // The pages' sizes, as the checks found them; only the memory plan uses them.
  PageSizes sizes{};
  // Pages, ascending, that will not be loaded: their text is read, but their images are not.
  std::vector<std::uint32_t> skipped{};
  // Pages, ascending, that have an error and are not read: they have no examples.
  std::vector<std::uint32_t> left_out{};
};

// Tells data sets apart by what a run would read from them. File locations and modification times do not count.
struct DatasetFingerprint {
  std::uint64_t tokens = 0;  // hash of token ids and boxes of each window
  std::uint64_t labels = 0;  // hash of each token's label
  std::uint64_t images = 0;  // hash of the sizes of the image files
};

class Dataset {
 public:
  // The most that decoders may hold together: this allows a few photographs of receipts at a time and a drawn page
  // alone. Scans at 300 dpi, of 60 MiB each, are decoded one at a time, so that budgets count only one of them.
  static constexpr std::uint64_t kDecodingBytes = 4 * kMiB;

  // Buffers of one thread.
  struct Scratch {
    Page page;
    PageTokens tokens;
    Prompt prompt;                // of an item
    std::vector<Window> windows;  // of that item
    Resampler resampler;
    Augmentation augmentation;                   // that of the page read last
    std::vector<std::uint8_t> picture, blurred;  // buffers that it works on
    ByteGate* decoding = nullptr;                // shared by threads that load: bounds what their decoders hold
  };

  // Reads every page and image header, and opens or makes the cache. Throws PageError or ImageError for the first one
  // that cannot be used, EnvironmentError if a cache cannot be made.
  Dataset(std::shared_ptr<const TokenizedPages> pages, ImageProcessor processor, DatasetOptions options);

  std::span<const Example> examples() const { return options_.pairs ? pair_examples_ : examples_; }
  // Returns how many samples of a batch an example is.
  int samples_per_example() const { return options_.pairs ? 2 : 1; }
  // Returns the sum of the class weights of each example; empty without class weights, when Example::loss_terms serves
  // instead.
  std::span<const float> loss_weights() const { return loss_weights_; }
  std::size_t size() const { return examples().size(); }
  const PageSource& source() const { return paired_ ? static_cast<const PageSource&>(*paired_) : *pages_; }
  const DatasetOptions& options() const { return options_; }
  const ImageProcessor& image_processor() const { return processor_; }
  const WordEncoder& encoder() const { return pages_->encoder(); }
  // Returns the number of words (for running texts, of tokens) that are in no example because their page was truncated
  // (kTruncate).
  std::uint64_t lost_words() const { return lost_words_; }
  std::uint64_t lost_tokens() const { return lost_tokens_; }
  // Returns a page's words that have a label and no prediction, in order; none if labels are not read.
  std::span<const MissedWord> missed_words(std::uint32_t page) const;
  const DatasetFingerprint& fingerprint() const { return fingerprint_; }
  // Returns the ids of the tokens that examples have, ascending.
  std::vector<std::int32_t> token_ids() const;
  // Returns the length of the longest example in tokens.
  int longest_example() const { return longest_example_; }

  // Fills `out` with the tokens of the example's sample `side` and, unless `pixels` is empty, `pixels`
  // (processor.pixel_count() bytes, which `normalise` turns into floats) with its page's image: from the cache if there
  // is one with an intact entry. `epoch` decides how the page is augmented. Throws PageError or ImageError if a file
  // has changed since.
  void load(std::size_t index, Scratch& scratch, EncodedExample& out, std::span<std::uint8_t> pixels = {},
            std::uint64_t epoch = 0, int side = 0) const;

  // Return the bytes that the data set itself keeps, and the most that a number of loading threads hold besides their
  // batches when they share a ByteGate of `decoding_bytes`.
  std::uint64_t host_bytes() const;
  std::uint64_t workers_host_bytes(int threads, std::uint64_t decoding_bytes) const;
  // Returns the most bytes that one thread holds when it reads a page of `source()`.
  std::uint64_t reading_bytes() const;

 private:
  bool is_skipped(std::size_t page) const;
  // Reads a page, its size if it is needed, and its tokens; checks boxes and labels. Returns the number of its items.
  std::size_t read_page(std::size_t page, Scratch& scratch) const;
  // Cuts the windows of an item of the page read last.
  void cut_item(std::size_t item, Scratch& scratch) const;
  void scan_item(const Example& example, Scratch& scratch, EncodedExample& encoded, CacheKey* key);
  void encode(const Example& example, const Scratch& scratch, EncodedExample& out) const;
  std::int32_t label_of(const Page& page, std::size_t word) const;
  // Cuts the example's item; throws PageError if its windows have changed since it was scanned.
  void cut_unchanged(const Example& example, Scratch& scratch) const;
  // Returns the strongest augmentation of the page read last that keeps every box on it.
  Augmentation augmentation_of(std::size_t page, std::uint64_t epoch, const Page& content) const;
  // Loads the image of the page read last.
  void load_pixels(Scratch& scratch, std::span<std::uint8_t> out) const;
  void scan();
  // Makes an example of each pair from the examples of its pages.
  void scan_pairs();
  void load_page(std::size_t index, Scratch& scratch, EncodedExample& out, std::span<std::uint8_t> pixels,
                 std::uint64_t epoch) const;
  void add_to_fingerprint(const EncodedExample& example);
  void note_tokens(const EncodedExample& example);
  // Throws PageError for a token that no example had at first.
  void check_tokens(const Page& page, const EncodedExample& example) const;
  // The functions below are in dataset_cache.cpp.
  static void add_to_key(const EncodedExample& example, CacheKey& key);
  std::filesystem::path cache_path() const;
  std::size_t cached_bytes(const Example& example) const;
  void open_cache(CacheKey key);
  // Fills the entry of a page whose first example is `first`.
  void fill_entry(std::size_t page, std::size_t first, ByteGate& decoding, std::span<std::byte> out) const;
  // The bytes of a page's image as it is loaded; 0 if the model sees none.
  std::size_t pixel_count() const { return options_.parts.image ? processor_.pixel_count() : 0; }
  // Returns false if the page's entry is damaged.
  bool load_cached(std::size_t index, EncodedExample& out, std::span<std::uint8_t> pixels) const;

  std::shared_ptr<const TokenizedPages> pages_;
  ImageProcessor processor_;
  DatasetOptions options_;
  std::vector<Example> examples_;
  std::vector<Example> pair_examples_;
  std::vector<std::uint32_t> example_of_page_;  // of pages that a pair names
  std::vector<bool> looked_at_;                 // pages that are named by a pair which is not skipped
  std::unique_ptr<const PairedPages> paired_;   // nullptr: examples are pages
  std::vector<float> loss_weights_;
  std::vector<bool> has_token_;     // by id
  std::vector<MissedWord> missed_;  // in the order of pages
  ImageLimits image_limits_;
  std::unique_ptr<PageCache> cache_;
  std::size_t targets_ = 0;  // numbers in each example's `targets`
  std::uint64_t lost_words_ = 0, lost_tokens_ = 0;
  int longest_example_ = 0;
  DatasetFingerprint fingerprint_;
};

// Reads the header of a page's image and sets the page's width and height if the data did not give them. Throws
// ImageError that also names the page.
ImageInfo read_page_image_info(Page& page);

// Sets a page's width and height from its image's header if the data did not give them; 1 for a page without image and
// boxes. Throws PageError "size-unknown" for a page with boxes and neither, ImageError for an image that cannot be
// read.
void find_page_size(Page& page);

// Says what was cut off: tokens of texts, or words of pages; empty if nothing was.
std::string lost_text(std::uint64_t words, std::uint64_t tokens);

// Gives the same wording wherever a fault is met: while the data set is read, or by the check before it.
Problem box_outside_problem(const Page& page, std::size_t word, BoxFormat format);
Problem unknown_label_problem(const Page& page, std::size_t word, const LabelSet& labels);
Problem prompt_too_long_problem(const Page& page, std::size_t item, const Prompt& prompt, const WindowOptions& options);
Problem page_too_long_problem(const Page& page, std::size_t tokens, const WindowOptions& options);
Problem completion_cut_problem(const Page& page, std::size_t read, std::size_t tokens);

}  // namespace plimsoll
