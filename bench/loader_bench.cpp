// Times what a loader's thread does for a page, and compares it with the bar if there is one.
//
//   plimsoll_loader_bench --data receipts.jsonl [--tokenizer DIR] [--text FILE] [--rounds 5] [--pages
//   50] [--cache DIR]
//
// Seconds are the thread's own (CLOCK_THREAD_CPUTIME_ID), the best of the rounds: other programs disturb the rest.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/image_processor.h"
#include "data/page_source.h"
#include "data/tokenizer.h"

namespace {

using namespace plimsoll;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_seconds(int rounds, const std::function<void()>& work) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    const double start = thread_seconds();
    work();
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

void print(std::string_view what, double value, std::string_view unit, double bar = 0) {
  fmt::print("{:<44} {:>10.1f} {:<8}{}\n", what, value, unit,
             bar == 0       ? std::string()
             : value >= bar ? fmt::format("bar {:g}: met", bar)
                            : fmt::format("bar {:g}: MISSED", bar));
}

void bench_tokenizer(std::string_view what, const Tokenizer& tokenizer, const std::vector<std::string>& words,
                     int rounds) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  std::vector<std::int32_t> ids;
  const double seconds = best_seconds(rounds, [&] {
    ids.clear();
    for (const std::string& word : words) tokenizer.encode_word(word, ids);
  });
  print(what, static_cast<double>(bytes) / seconds / (1 << 20), "MiB/s", 30);
}

std::vector<std::string> words_of(const std::vector<Page>& pages) {
  std::vector<std::string> words;
  for (const Page& page : pages) words.insert(words.end(), page.words.begin(), page.words.end());
  return words;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

void bench_images(const std::vector<Page>& pages, int rounds) {
  const ImageProcessor processor(ImageProcessorConfig{});
  Resampler resampler;
  std::vector<float> values(processor.pixel_count());
  std::vector<std::uint8_t> bytes(processor.pixel_count());
  const auto time = [&](std::string_view what, const std::function<void(const Page&)>& work, double bar = 0) {
    // Each page's best time is taken separately: a page is short, so some of its rounds are undisturbed.
    double seconds = 0;
    for (const Page& page : pages) seconds += best_seconds(rounds, [&] { work(page); });
    print(what, static_cast<double>(pages.size()) / seconds, "pages/s", bar);
    return seconds / static_cast<double>(pages.size());
  };
  time("image: header and end mark", [](const Page& page) { (void)read_image_info(page.image); });
  std::vector<std::uint8_t> row;
  time("image: read, decode", [&](const Page& page) {
    const std::unique_ptr<ImageRows> image = open_image(page.image);
    row.resize(3 * static_cast<std::size_t>(image->width()));
    for (int y = 0; y < image->height(); ++y) image->next_row(row);
  });
  time("image: read, decode, resize", [&](const Page& page) { processor.load(page.image, resampler, bytes); });
  time(
      "image: read, decode, resize, normalise",
      [&](const Page& page) {
        processor.load(page.image, resampler, bytes);
        normalise(bytes, processor.values(), values);
      },
      250);
}

// Times whole examples, as a loader's thread loads them into a batch.
void bench_examples(const std::string& data, const WordEncoder& encoder, const std::filesystem::path& cache,
                    int rounds) {
  const ReadOptions reading{.ignore_labels = true};
  const auto pages = std::make_shared<TokenizedPages>(open_pages(data, reading), encoder, reading);
  const auto time = [&](std::string_view what, DatasetOptions options, double bar = 0) {
    const Dataset dataset(pages, ImageProcessor(ImageProcessorConfig{}), std::move(options));
    Dataset::Scratch scratch;
    EncodedExample example;
    std::vector<std::uint8_t> pixels(dataset.image_processor().pixel_count());
    const std::size_t count = std::min<std::size_t>(100, dataset.size());
    double seconds = 0;
    for (std::size_t i = 0; i < count; ++i) {
      seconds += best_seconds(rounds, [&] { dataset.load(i, scratch, example, pixels); });
    }
    print(what, static_cast<double>(count) / seconds, "pages/s", bar);
  };
  time("page: tokens, boxes, pixels", {});
  time("page: the same, augmented", {.augment = 1});
  time("page: from the cache", {.cache = {.directory = cache, .threads = 2}}, 20000);
}

int run(int argc, char** argv) {
  CLI::App app("Times what the loader does for a page");
  std::string data, text, path, cache = (std::filesystem::temp_directory_path() / "plimsoll_loader_bench").string();
  int rounds = 5;
  std::size_t most = 50;
  app.add_option("--data", data, "pages")->required();
  app.add_option("--text", text, "English text");
  app.add_option("--tokenizer", path, "model directory (default: the embedded vocabulary)");
  app.add_option("--cache", cache, "directory for the cache")->capture_default_str();
  app.add_option("--rounds", rounds, "rounds, of which the best counts");
  app.add_option("--pages", most, "pages that are used");
  CLI11_PARSE(app, argc, argv);

  const std::unique_ptr<PageSource> source = open_pages(data, {.ignore_labels = true});
  std::vector<Page> pages;
  for (std::size_t i = 0; i < std::min(most, source->size()); ++i) pages.push_back(source->read(i));
  const auto tokenizer =
      std::make_shared<const Tokenizer>(path.empty() ? Tokenizer::embedded() : Tokenizer::from_directory(path));
  bench_tokenizer("tokenizer, the pages' words", *tokenizer, words_of(pages), rounds);
  if (!text.empty()) bench_tokenizer("tokenizer, the text's words", *tokenizer, words_of(read_text_file(text)), rounds);
  bench_images(pages, rounds);
  bench_examples(data, word_encoder(tokenizer), cache, rounds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
