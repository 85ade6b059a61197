#include "data/tokenizer_train.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer_files.h"
#include "data/tokenizer_split.h"

namespace plimsoll {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return (std::uint64_t{static_cast<std::uint32_t>(pair.first)} << 32 | static_cast<std::uint32_t>(pair.second)) *
           0x9E3779B97F4A7C15U;
  }
};

struct Piece {
  std::vector<std::int32_t> symbols;
  std::uint64_t count;
};

class Trainer {
 public:
  explicit Trainer(const PieceCounts& counts);
  std::string run(std::size_t new_entries);

 private:
  struct PairUse {
    std::uint64_t count = 0;
    std::set<std::size_t> pieces;  // the pieces in which it may occur
  };
  struct Candidate {  // a pair with the count that it had when it was queued
    std::uint64_t count;
    Pair pair;
  };
  void count_pairs(std::size_t piece, bool add);
  void queue_changed();
  bool worse(const Candidate& a, const Candidate& b) const;
  std::optional<Pair> take_best();
  std::int32_t symbol_of(const std::string& bytes);
  void merge(const Pair& pair, std::int32_t result);

  std::vector<Piece> pieces_;
  std::vector<std::string> texts_;  // the text of each symbol; the first 256 are the bytes
  std::unordered_map<std::string, std::int32_t> symbols_;
  std::unordered_map<Pair, PairUse, PairHash> pairs_;
  std::vector<Candidate> heap_;  // best at the front; entries whose count has changed since are skipped
  std::set<Pair> changed_;
};

Trainer::Trainer(const PieceCounts& counts) {
  for (int byte = 0; byte < 256; ++byte) symbol_of(std::string(1, static_cast<char>(byte)));
  for (const auto& [text, count] : counts) {
    Piece piece{{}, count};
    for (const char byte : text) piece.symbols.push_back(static_cast<unsigned char>(byte));
    pieces_.push_back(std::move(piece));
    count_pairs(pieces_.size() - 1, true);
  }
  queue_changed();
}

std::int32_t Trainer::symbol_of(const std::string& bytes) {
  const auto [entry, fresh] = symbols_.emplace(bytes, static_cast<std::int32_t>(texts_.size()));
  if (fresh) texts_.push_back(bytes);
  return entry->second;
}

void Trainer::count_pairs(std::size_t piece, bool add) {
  const std::vector<std::int32_t>& symbols = pieces_[piece].symbols;
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    const auto use = pairs_.try_emplace({symbols[i], symbols[i + 1]}).first;
    changed_.insert(use->first);
    if (add) {
      use->second.count += pieces_[piece].count;
      use->second.pieces.insert(piece);
    } else {
      use->second.count -= pieces_[piece].count;
      if (use->second.count == 0) pairs_.erase(use);
    }
  }
}

bool Trainer::worse(const Candidate& a, const Candidate& b) const {
  if (a.count != b.count) return a.count < b.count;
  const auto text = [&](std::int32_t symbol) -> std::string_view { return texts_[static_cast<std::size_t>(symbol)]; };
  return std::pair(text(a.pair.first), text(a.pair.second)) > std::pair(text(b.pair.first), text(b.pair.second));
}

void Trainer::queue_changed() {
  const auto order = [this](const Candidate& a, const Candidate& b) { return worse(a, b); };
  for (const Pair& pair : changed_) {
    const auto use = pairs_.find(pair);
    if (use == pairs_.end() || use->second.count < 2) continue;
    heap_.push_back({use->second.count, pair});
    std::push_heap(heap_.begin(), heap_.end(), order);
  }
  changed_.clear();
}

std::optional<Pair> Trainer::take_best() {
  const auto order = [this](const Candidate& a, const Candidate& b) { return worse(a, b); };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), order);
    const Candidate best = heap_.back();
    heap_.pop_back();
    const auto use = pairs_.find(best.pair);
    if (use != pairs_.end() && use->second.count == best.count) return best.pair;
  }
  return std::nullopt;
}

void Trainer::merge(const Pair& pair, std::int32_t result) {
  const std::set<std::size_t> affected = std::move(pairs_[pair].pieces);
  for (const std::size_t piece : affected) {
    count_pairs(piece, false);
    std::vector<std::int32_t>& symbols = pieces_[piece].symbols;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool here = i + 1 < symbols.size() && Pair{symbols[i], symbols[i + 1]} == pair;
      symbols[kept++] = here ? result : symbols[i];
      if (here) ++i;
    }
    symbols.resize(kept);
    count_pairs(piece, true);
  }
  queue_changed();
}

std::string Trainer::run(std::size_t new_entries) {
  std::string merges;
  const std::size_t wanted = texts_.size() + new_entries;
  while (texts_.size() < wanted) {
    const std::optional<Pair> pair = take_best();
    if (!pair) break;
    const std::string left = texts_[static_cast<std::size_t>(pair->first)];
    const std::string right = texts_[static_cast<std::size_t>(pair->second)];
    merges += bytes_to_alphabet(left) + ' ' + bytes_to_alphabet(right) + '\n';
    merge(*pair, symbol_of(left + right));
  }
  return merges;
}

}  // namespace

void count_pieces(std::string_view text, std::uint64_t weight, PieceCounts& counts) {
  const CharClasses& classes = CharClasses::instance();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin, classes);
    const std::string_view piece = text.substr(begin, end - begin);
    const auto entry = counts.find(piece);
    (entry == counts.end() ? counts.emplace(std::string(piece), 0).first : entry)->second += weight;
    begin = end;
  }
}

std::string train_merges(const PieceCounts& counts, std::size_t new_entries) {
  return Trainer(counts).run(new_entries);
}

}  // namespace plimsoll
