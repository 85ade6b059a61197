// Compiles the examples of src/data.
#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/annotated_page.h"
#include "data/augment.h"
#include "data/batch.h"
#include "data/box_checks.h"
#include "data/cache_key.h"
#include "data/chat.h"
#include "data/check.h"
#include "data/dataset.h"
#include "data/file_kind.h"
#include "data/findings.h"
#include "data/fixes.h"
#include "data/image.h"
#include "data/image_orientation.h"
#include "data/image_processor.h"
#include "data/image_tiff.h"
#include "data/image_webp.h"
#include "data/in_order.h"
#include "data/label_scheme.h"
#include "data/labels.h"
#include "data/loader.h"
#include "data/packed.h"
#include "data/packed_page.h"
#include "data/packed_report.h"
#include "data/page.h"
#include "data/page_cache.h"
#include "data/page_checks.h"
#include "data/page_range.h"
#include "data/page_share.h"
#include "data/page_source.h"
#include "data/pairs.h"
#include "data/resample.h"
#include "data/sampler.h"
#include "data/shared_work.h"
#include "data/targets.h"
#include "data/tensor_checks.h"
#include "data/tokenized_pages.h"
#include "data/tokenizer.h"
#include "data/tokenizer_bpe.h"
#include "data/tokenizer_bpe_model.h"
#include "data/tokenizer_characters.h"
#include "data/tokenizer_charsmap.h"
#include "data/tokenizer_files.h"
#include "data/tokenizer_graphemes.h"
#include "data/tokenizer_normalize.h"
#include "data/tokenizer_sentencepiece.h"
#include "data/tokenizer_split.h"
#include "data/tokenizer_train.h"
#include "data/tokenizer_trie.h"
#include "data/tokenizer_trim.h"
#include "data/tokenizer_unicode.h"
#include "data/tokenizer_unigram.h"
#include "data/tokenizer_vocabulary.h"
#include "data/tokenizer_wordpiece.h"
#include "examples/use.h"

namespace plimsoll::examples {

namespace fs = std::filesystem;

void of_annotated_page(const std::vector<AnnotatedWord>& words) {
#include "data/annotated_page.h.inc"
}

void of_augment(double width, double height, Box1000 box, std::span<const std::uint8_t> twice,
                std::vector<std::uint8_t>& buffer, std::span<std::uint8_t> out) {
#include "data/augment.h.inc"
}

void of_chat(const nlohmann::ordered_json& messages) {
#include "data/chat.h.inc"
}

void of_batch(const BatchShape& shape, const ImageProcessor& processor, const MicroBatchInfo& info,
              const Dataset& dataset, Dataset::Scratch& scratch, EncodedExample& example, std::int32_t key) {
#include "data/batch.h.inc"
}

void of_box_checks(const Page& page, Findings& findings) {
#include "data/box_checks.h.inc"
}

void of_cache_key() {
#include "data/cache_key.h.inc"
}

void of_check(const std::shared_ptr<const TokenizedPages>& source, const LabelSet& labels) {
#include "data/check.h.inc"
}

void of_dataset(const std::shared_ptr<const TokenizedPages>& pages, const ImageProcessor& processor,
                const LabelSet& labels, std::span<std::uint8_t> pixels) {
#include "data/dataset.h.inc"
}

void of_file_kind() {
#include "data/file_kind.h.inc"
}

void of_findings() {
#include "data/findings.h.inc"
}

void of_fixes(const std::unique_ptr<PageSource>& source) {
#include "data/fixes.h.inc"
}

void of_image(const fs::path& path, std::span<std::uint8_t> row) {
#include "data/image.h.inc"
}

void of_image_orientation(const InputFile& file, std::unique_ptr<ImageRows> rows) {
#include "data/image_orientation.h.inc"
}

void of_image_tiff() {
#include "data/image_tiff.h.inc"
  use(page);
}

void of_image_processor(std::span<std::uint8_t> bytes, std::span<float> pixel_values) {
#include "data/image_processor.h.inc"
}

void of_image_webp(const InputFile& file) {
#include "data/image_webp.h.inc"
  use(webp);
}

struct Block {};
void of_in_order(std::size_t blocks, int threads, Block check_block(std::size_t), void add(const Block&)) {
#include "data/in_order.h.inc"
}

void of_label_scheme() {
#include "data/label_scheme.h.inc"
}

void of_labels() {
#include "data/labels.h.inc"
}

void of_loader(const Dataset& dataset, BatchSequence& sequence, const BatchShape& shape, void step(const Batch&)) {
#include "data/loader.h.inc"
}

void of_packed(const std::vector<std::string>& words) {
#include "data/packed.h.inc"
}

void of_packed_page(const Page& page, const PageTokens& tokens, const TargetReader* reader) {
#include "data/packed_page.h.inc"
}

void of_page(const PageSource& source) {
#include "data/page.h.inc"
}

void of_page_cache(const fs::path& directory, const CacheKey& key, std::size_t pages,
                   const std::function<std::vector<std::byte>(std::size_t)>& fill, void load()) {
#include "data/page_cache.h.inc"
}

void of_page_checks(const std::unique_ptr<PageSource>& source, const CheckOptions& options, ByteGate& gate,
                    std::size_t begin, std::size_t end) {
#include "data/page_checks.h.inc"
}

void of_packed_report(const BlockReport& report, const CheckOptions& options) {
#include "data/packed_report.h.inc"
}

void of_shared_work(const PageShare& share, std::size_t blocks, int threads, BlockReport check_block(std::size_t),
                    BlockReport unpack(std::string_view), void add(const BlockReport&)) {
#include "data/shared_work.h.inc"
}

void of_page_range(std::unique_ptr<PageSource> pages) {
#include "data/page_range.h.inc"
}

void of_page_source() {
#include "data/page_source.h.inc"
}

void of_pairs(const PagePaths& paths, const PageSource* pages) {
  const auto use = [](std::uint32_t, std::uint32_t) {};
#include "data/pairs.h.inc"
}

void of_resample(ImageRows& image, std::span<std::uint8_t> out) {
#include "data/resample.h.inc"
}

void of_sampler(const Dataset& dataset) {
#include "data/sampler.h.inc"
}

void of_targets(const TargetReader& reader, const std::shared_ptr<const Targets>& targets) {
#include "data/targets.h.inc"
}

void of_tensor_checks(const PaddedTensors& tensors, std::int64_t image_size, const PaddedLimits& limits,
                      const TokenForm& token) {
#include "data/tensor_checks.h.inc"
}

void of_tokenized_pages(const ReadOptions& reading, const WordEncoder& encoder) {
#include "data/tokenized_pages.h.inc"
}

void of_tokenizer() {
#include "data/tokenizer.h.inc"
}

void of_tokenizer_bpe(const std::array<std::int32_t, 256>& byte_ids, std::vector<std::int32_t>& ids) {
#include "data/tokenizer_bpe.h.inc"
}

void of_tokenizer_bpe_model(const TokenizerDefinition& definition, std::vector<std::int32_t>& ids) {
#include "data/tokenizer_bpe_model.h.inc"
}

void of_tokenizer_characters(const TokenizerDefinition& definition, std::vector<std::int32_t>& ids) {
#include "data/tokenizer_characters.h.inc"
}

void of_tokenizer_charsmap(std::string_view bytes) {
#include "data/tokenizer_charsmap.h.inc"
}

void of_tokenizer_graphemes(std::string_view text) {
#include "data/tokenizer_graphemes.h.inc"
}

void of_tokenizer_sentencepiece(std::string_view bytes) {
#include "data/tokenizer_sentencepiece.h.inc"
}

void of_tokenizer_unigram(const TokenizerDefinition& definition, std::vector<std::int32_t>& ids) {
#include "data/tokenizer_unigram.h.inc"
}

void of_tokenizer_normalize() {
#include "data/tokenizer_normalize.h.inc"
}

void of_tokenizer_trie() {
#include "data/tokenizer_trie.h.inc"
}

void of_tokenizer_trim(const TokenizerDefinition& definition, const std::filesystem::path& directory) {
#include "data/tokenizer_trim.h.inc"
}

void of_tokenizer_unicode() {
#include "data/tokenizer_unicode.h.inc"
}

void of_tokenizer_wordpiece(const TokenizerDefinition& definition, std::vector<std::int32_t>& ids) {
#include "data/tokenizer_wordpiece.h.inc"
}

void of_tokenizer_files() {
#include "data/tokenizer_files.h.inc"
}

void of_tokenizer_split(std::string_view text) {
#include "data/tokenizer_split.h.inc"
}

void of_tokenizer_train() {
#include "data/tokenizer_train.h.inc"
}

void of_tokenizer_vocabulary() {
#include "data/tokenizer_vocabulary.h.inc"
}

void read_page(std::size_t page);
void of_page_share(const std::function<std::vector<std::string>(const std::string&)>& gathered) {
#include "data/page_share.h.inc"
}

}  // namespace plimsoll::examples
