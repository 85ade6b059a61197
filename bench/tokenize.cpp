// plimsoll_tokenize: turns words into token ids, for comparing the tokenizer with another one and for timing it.
//
//   plimsoll_tokenize [--tokenizer DIR|tokenizer.json] [--question] < words.jsonl    a JSON string a line in, a JSON
//                                                                                    array of ids a line out
//   plimsoll_tokenize [--tokenizer ...] --repeat 20 < words.jsonl                    MiB/s and words/s on one thread
//   plimsoll_tokenize [--tokenizer ...] --save DIR                                   writes its files, reads nothing
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/tokenizer.h"

namespace {

void print_ids(const plimsoll::Tokenizer& tokenizer, const std::vector<std::string>& words, bool question) {
  std::vector<std::int32_t> ids;
  for (const std::string& word : words) {
    ids.clear();
    question ? tokenizer.encode_question(word, ids) : tokenizer.encode_word(word, ids);
    std::cout << nlohmann::json(ids).dump() << '\n';
  }
}

void print_speed(const plimsoll::Tokenizer& tokenizer, const std::vector<std::string>& words, int repeat) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::int32_t> ids;
  std::size_t bytes = 0, count = 0;
  for (const std::string& word : words) bytes += word.size();
  double best_seconds = 1e30;
  for (int round = 0; round < repeat; ++round) {
    ids.clear();
    const auto start = Clock::now();
    for (const std::string& word : words) tokenizer.encode_word(word, ids);
    best_seconds = std::min(best_seconds, std::chrono::duration<double>(Clock::now() - start).count());
    count = ids.size();
  }
  fmt::print("{} words, {} bytes, {} ids: {:.1f} MiB/s, {:.2f} million words/s (best of {} rounds, one thread)\n",
             words.size(), bytes, count, static_cast<double>(bytes) / best_seconds / (1 << 20),
             static_cast<double>(words.size()) / best_seconds / 1e6, repeat);
}

int run(int argc, char** argv) {
  CLI::App app("Prints the token ids of words, one JSON string a line on standard input");
  std::string path, save;
  bool question = false;
  int repeat = 0;
  app.add_option("--tokenizer", path, "model directory or tokenizer.json (default: the embedded vocabulary)");
  app.add_option("--save", save, "write the tokenizer's files to this directory and stop");
  app.add_flag("--question", question, "take each line as a question, not a word");
  app.add_option("--repeat", repeat, "time this many rounds instead of printing ids");
  CLI11_PARSE(app, argc, argv);

  const auto start = std::chrono::steady_clock::now();
  const plimsoll::Tokenizer tokenizer =
      path.empty() ? plimsoll::Tokenizer::embedded() : plimsoll::Tokenizer::from_directory(path);
  const std::chrono::duration<double> load_seconds = std::chrono::steady_clock::now() - start;
  if (!save.empty()) {
    std::filesystem::create_directories(save);
    tokenizer.save(save);
    return 0;
  }
  std::vector<std::string> words;
  for (std::string line; std::getline(std::cin, line);) words.push_back(nlohmann::json::parse(line));
  if (repeat > 0) {
    fmt::print("{} entries, read in {:.0f} ms, {} bytes held\n", tokenizer.vocab_size(), load_seconds.count() * 1e3,
               tokenizer.memory_bytes());
    print_speed(tokenizer, words, repeat);
  } else {
    std::ios::sync_with_stdio(false);
    print_ids(tokenizer, words, question);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const plimsoll::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
