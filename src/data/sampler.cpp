#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "base/counted.h"
#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

void permute(std::uint64_t seed, std::uint64_t epoch, std::span<std::uint32_t> order) {
  constexpr std::uint32_t kShuffle = 0x5348554C;  // "SHUL": keeps these numbers apart from every other use of the seed
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); };
  // Computes floor(r * n / 2^64) for n < 2^32, in two halves.
  const auto below = [&](std::uint64_t r, std::uint64_t n) { return (high(r) * n + high(low(r) * n)) >> 32; };
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i-- > 1;) {
    const PhiloxOutput random = philox4x32({low(i), low(epoch), high(epoch), kShuffle}, {low(seed), high(seed)});
    const std::uint64_t r = (std::uint64_t{random[1]} << 32) | random[0];
    std::swap(order[i], order[below(r, i + 1)]);
  }
}

Sampler::Sampler(std::span<const Example> examples, const SamplerOptions& options, std::span<const float> loss_weights)
    : examples_(examples), loss_weights_(loss_weights), options_(options) {
  check(!examples.empty(), "there is at least one example");
  check(loss_weights.empty() || loss_weights.size() == examples.size(), "each example has a weight, or none has");
  check(options.train_batch_size > 0 && options.multiple > 0, "an update has at least one sample");
  if (samples_per_epoch() > 0) return;
  throw UsageError({.what = "an epoch has no complete batch",
                    .where = "--dataloader-drop-last",
                    .found = counted(examples.size(), "window"),
                    .allowed = counted(options.multiple, "window") + " or more, --per-device-train-batch-size",
                    .remedy = "omit --dataloader-drop-last, or pass a smaller batch"});
}

std::int64_t Sampler::samples_per_epoch() const {
  const auto count = static_cast<std::int64_t>(size());
  return count - count % options_.multiple;
}

void Sampler::leave_out(std::uint32_t page) {
  const auto at = std::ranges::lower_bound(left_out_, page);
  if (at == left_out_.end() || *at != page) left_out_.insert(at, page);
}

bool Sampler::leaves_out(std::uint32_t example) const {
  return leaves_out_any() && std::ranges::binary_search(left_out_, examples_[example].page);
}

std::int64_t Sampler::updates_per_epoch() const {
  return (samples_per_epoch() + options_.train_batch_size - 1) / options_.train_batch_size;
}

double Sampler::epochs_after(std::int64_t updates) const {
  const std::int64_t per_epoch = updates_per_epoch(), samples = samples_per_epoch();
  const std::int64_t done = std::min(updates % per_epoch * options_.train_batch_size, samples);
  return static_cast<double>(updates / per_epoch) + static_cast<double>(done) / static_cast<double>(samples);
}

std::int64_t Sampler::samples_in_update(std::int64_t update) const {
  check(update >= 0 && update < updates_per_epoch(), "an epoch has such an update");
  return std::min(options_.train_batch_size, samples_per_epoch() - update * options_.train_batch_size);
}

std::int64_t Sampler::micro_batches_in_update(std::int64_t update, std::int64_t samples_per_micro_batch) const {
  return divide_up(divide_up(samples_in_update(update), options_.ranks), samples_per_micro_batch);
}

std::int64_t Sampler::micro_batches_per_epoch(std::int64_t samples_per_micro_batch) const {
  const std::int64_t last = updates_per_epoch() - 1;
  const std::int64_t whole = divide_up(divide_up(options_.train_batch_size, options_.ranks), samples_per_micro_batch);
  return last * whole + micro_batches_in_update(last, samples_per_micro_batch);
}

void Sampler::epoch_order(std::uint64_t epoch, std::span<std::uint32_t> order) const {
  check(order.size() == size(), "an order has every example");
  if (options_.order == SampleOrder::kSequential) {
    std::iota(order.begin(), order.end(), 0U);
    return;
  }
  permute(options_.seed, epoch, order);
  if (options_.order == SampleOrder::kByLength) group_by_length(order);
}

void Sampler::group_by_length(std::span<std::uint32_t> order) const {
  constexpr std::size_t kMostUpdates = 50, kGroups = 4;
  const auto update = static_cast<std::size_t>(options_.train_batch_size);
  const std::size_t group =
      update * std::max<std::size_t>(1, std::min(kMostUpdates, order.size() / (update * kGroups)));
  const auto tokens = [this](std::uint32_t example) { return examples_[example].tokens; };
  std::size_t longest = 0;  // where the group with the longest sample begins
  for (std::size_t begin = 0; begin < order.size(); begin += group) {
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(begin + group, order.size()));
    // Ties go by index: a sort that keeps their order would allocate.
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(begin), end,
              [&](std::uint32_t a, std::uint32_t b) { return tokens(a) != tokens(b) ? tokens(a) > tokens(b) : a < b; });
    if (tokens(order[begin]) > tokens(order[longest])) longest = begin;
  }
  std::swap(order[0], order[longest]);  // the largest update comes first
}

std::span<const std::uint32_t> Sampler::update(std::span<const std::uint32_t> order, std::int64_t update) const {
  return order.subspan(static_cast<std::size_t>(update * options_.train_batch_size),
                       static_cast<std::size_t>(samples_in_update(update)));
}

void Sampler::deal(std::span<const std::uint32_t> update, int rank, std::vector<std::uint32_t>& places) const {
  const auto ranks = static_cast<std::size_t>(options_.ranks);
  places.resize(update.size());
  std::iota(places.begin(), places.end(), 0U);
  std::sort(places.begin(), places.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::int32_t of_a = examples_[update[a]].tokens, of_b = examples_[update[b]].tokens;
    return of_a != of_b ? of_a > of_b : a < b;
  });
  std::size_t count = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t turn = i / ranks, at = i % ranks;
    const std::size_t to = turn % 2 == 0 ? at : ranks - 1 - at;
    if (to == static_cast<std::size_t>(rank)) places[count++] = places[i];
  }
  places.resize(count);
  std::sort(places.begin(), places.end());
}

std::int64_t Sampler::text_rows(std::span<const std::uint32_t> examples) const {
  std::int64_t rows = 0;
  for (const std::uint32_t example : examples) {
    rows += std::max<std::int64_t>(examples_[example].tokens, options_.pad_to);
  }
  return rows;
}

std::int64_t Sampler::loss_terms(std::span<const std::uint32_t> examples) const {
  std::int64_t terms = 0;
  for (const std::uint32_t example : examples) terms += examples_[example].loss_terms;
  return terms;
}

double Sampler::loss_weight(std::span<const std::uint32_t> examples) const {
  double weight = 0;
  for (const std::uint32_t example : examples) {
    weight += loss_weights_.empty() ? static_cast<double>(examples_[example].loss_terms)
                                    : static_cast<double>(loss_weights_[example]);
  }
  return weight;
}

std::int64_t Sampler::largest_text_rows(std::uint64_t first, std::uint64_t count,
                                        std::int64_t samples_per_micro_batch) const {
  const auto micro = static_cast<std::size_t>(samples_per_micro_batch);
  std::vector<std::uint32_t> order(size());
  std::int64_t largest = 0;
  // In the data's order, every epoch is the same.
  const bool repeats = options_.order == SampleOrder::kSequential;
  const std::uint64_t different = repeats ? std::min<std::uint64_t>(count, 1) : count;
  std::vector<std::uint32_t> places, dealt;
  for (std::uint64_t epoch = first; epoch < first + different; ++epoch) {
    epoch_order(epoch, order);
    for (std::int64_t u = 0; u < updates_per_epoch(); ++u) {
      for (int rank = 0; options_.ranks > 1 && rank < options_.ranks; ++rank) {
        deal(update(order, u), rank, places);
        dealt.clear();
        for (const std::uint32_t place : places) dealt.push_back(update(order, u)[place]);
        for (std::span<const std::uint32_t> rest = dealt; !rest.empty();
             rest = rest.subspan(std::min(micro, rest.size()))) {
          largest = std::max(largest, text_rows(rest.first(std::min(micro, rest.size()))));
        }
      }
      if (options_.ranks > 1) continue;
      for (auto rest = update(order, u); !rest.empty(); rest = rest.subspan(std::min(micro, rest.size()))) {
        largest = std::max(largest, text_rows(rest.first(std::min(micro, rest.size()))));
      }
    }
  }
  return largest;
}

std::int64_t cut_into_chunks(std::span<const Example> examples, std::span<const std::uint32_t> update,
                             const ChunkLimits& limits, std::vector<std::uint32_t>& begins) {
  std::int64_t samples = 0, rows = 0, most = 0;
  std::uint32_t sample = 0;
  for (const std::uint32_t pair : update) {
    const Example& example = examples[pair];
    for (const std::int64_t tokens : {std::int64_t{example.begin}, std::int64_t{example.tokens} - example.begin}) {
      check(tokens <= limits.text_rows, "a chunk has room for every page");
      if (sample == 0 || samples == limits.samples || rows + tokens > limits.text_rows) {
        begins.push_back(sample);
        samples = rows = 0;
      }
      ++samples;
      rows += tokens;
      most = std::max(most, rows);
      ++sample;
    }
  }
  return most;
}

BatchSequence::BatchSequence(const Sampler& sampler, const ChunkLimits& chunks, Range range)
    : sampler_(sampler), micro_(0), chunks_(chunks), range_(range) {
  check(sampler.options().ranks == 1, "chunks are of one process");
  check(range.update >= 0 && range.update < sampler.updates_per_epoch() && range.updates >= 0,
        "a range begins within an epoch");
  const auto updates = static_cast<std::size_t>(sampler.updates_per_epoch());
  for (Epoch& epoch : epochs_) {
    epoch.order.resize(sampler.size());
    epoch.begins.reserve(2 * sampler.size());
    for (std::vector<std::uint32_t>* each : {&epoch.kept, &epoch.first_chunks, &epoch.first_items}) {
      each->reserve(updates + 1);
    }
  }
  const auto last = static_cast<std::uint64_t>(range.update + range.updates);  // the end of the range, in updates
  const std::uint64_t whole = last / updates, rest = last % updates;
  ends_.reserve(whole + 1);
  std::uint64_t items = 0;
  for (std::uint64_t e = 0; e < whole + (rest > 0 ? 1 : 0); ++e) {
    Epoch& epoch = epoch_of(range.epoch + e);
    if (e == 0) first_ = epoch.first_items[static_cast<std::size_t>(range.update)];
    size_ = items + epoch.first_items[e < whole ? updates : static_cast<std::size_t>(rest)] - first_;
    items += epoch.first_items.back();
    ends_.push_back(items);
  }
}

void BatchSequence::fill(std::uint64_t number, Epoch& epoch) const {
  sampler_.epoch_order(number, epoch.order);
  epoch.number = number;
  if (chunks_) cut(epoch);
}

void BatchSequence::cut(Epoch& epoch) const {
  epoch.kept.clear();
  epoch.begins.clear();
  epoch.first_chunks.assign(1, 0);
  epoch.first_items.assign(1, 0);
  const auto batch = static_cast<std::size_t>(sampler_.options().train_batch_size);
  for (std::int64_t u = 0; u < sampler_.updates_per_epoch(); ++u) {
    const std::size_t count = static_cast<std::size_t>(sampler_.samples_in_update(u));
    const std::span<std::uint32_t> update = std::span(epoch.order).subspan(static_cast<std::size_t>(u) * batch, count);
    const auto end = std::remove_if(update.begin(), update.end(),
                                    [this](std::uint32_t example) { return sampler_.leaves_out(example); });
    const auto kept = static_cast<std::size_t>(end - update.begin());
    cut_into_chunks(sampler_.examples(), update.first(kept), *chunks_, epoch.begins);
    const auto chunks = static_cast<std::uint32_t>(epoch.begins.size()) - epoch.first_chunks.back();
    epoch.kept.push_back(static_cast<std::uint32_t>(kept));
    epoch.first_chunks.push_back(static_cast<std::uint32_t>(epoch.begins.size()));
    // One item represents an update that has lost all its samples.
    epoch.first_items.push_back(epoch.first_items.back() + std::max<std::uint32_t>(2 * chunks, 1));
  }
}

BatchSequence::Epoch& BatchSequence::epoch_of(std::uint64_t number) {
  Epoch& epoch = epochs_[number % epochs_.size()];
  if (epoch.number != number) fill(number, epoch);
  return epoch;
}

void BatchSequence::get_chunk(std::uint64_t index, Item& item) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t position = first_ + index;
  const auto e = std::ranges::upper_bound(ends_, position) - ends_.begin();
  const std::uint64_t number = range_.epoch + static_cast<std::uint64_t>(e);
  const auto within = static_cast<std::uint32_t>(position - (e == 0 ? 0 : ends_[static_cast<std::size_t>(e) - 1]));
  const Epoch& epoch = epoch_of(number);
  const auto u =
      static_cast<std::size_t>(std::ranges::upper_bound(epoch.first_items, within) - epoch.first_items.begin() - 1);
  const std::uint32_t at = within - epoch.first_items[u];
  const std::size_t first_chunk = epoch.first_chunks[u], chunks = epoch.first_chunks[u + 1] - first_chunk;
  const std::span<const std::uint32_t> pairs =
      sampler_.update(epoch.order, static_cast<std::int64_t>(u)).first(epoch.kept[u]);
  item.examples.clear();
  item.keys.clear();
  item.info = {.epoch = number,
               .update = u,
               .micro_batches = static_cast<std::uint32_t>(chunks),
               .samples_in_update = static_cast<std::int64_t>(pairs.size()),
               .loss_weight_in_update = sampler_.loss_weight(pairs),
               .loss_terms_in_update = sampler_.loss_terms(pairs),
               .text_rows_in_update = sampler_.text_rows(pairs)};
  if (chunks == 0) return;
  const std::size_t chunk = at % chunks;
  const std::size_t begin = epoch.begins[first_chunk + chunk];
  const std::size_t end = chunk + 1 < chunks ? epoch.begins[first_chunk + chunk + 1] : 2 * pairs.size();
  item.info.micro_batch = static_cast<std::uint32_t>(chunk);
  item.info.first_pass = at < chunks;
  item.info.first_sample = static_cast<std::int64_t>(begin);
  item.first_side = static_cast<int>(begin % 2);
  item.last_side = static_cast<int>((end - 1) % 2);
  for (std::size_t pair = begin / 2; pair <= (end - 1) / 2; ++pair) {
    item.examples.push_back(pairs[pair]);
    item.keys.push_back(static_cast<std::int32_t>(pair));
  }
}

BatchSequence::BatchSequence(const Sampler& sampler, std::int64_t samples_per_micro_batch, Range range)
    : sampler_(sampler), micro_(samples_per_micro_batch), range_(range) {
  check(micro_ > 0, "a micro-batch has at least one sample");
  check(range.update >= 0 && range.update < sampler.updates_per_epoch() && range.updates >= 0,
        "a range begins within an epoch");
  // Counts the micro-batches before update u from the start of the range's first epoch.
  const auto before = [&](std::int64_t u) {
    const std::int64_t epochs = u / sampler_.updates_per_epoch(), rest = u % sampler_.updates_per_epoch();
    const std::int64_t whole =
        divide_up(divide_up(sampler_.options().train_batch_size, sampler_.options().ranks), micro_);
    return static_cast<std::uint64_t>(epochs * sampler_.micro_batches_per_epoch(micro_) + rest * whole);
  };
  first_ = before(range.update);
  size_ = before(range.update + range.updates) - first_;
  for (Epoch& epoch : epochs_) epoch.order.resize(sampler.size());
  if (sampler.options().ranks > 1) places_.reserve(static_cast<std::size_t>(sampler.options().train_batch_size));
}

void BatchSequence::get(std::uint64_t index, Item& item) {
  check(index < size_, "a sequence has such a micro-batch");
  if (chunks_) return get_chunk(index, item);
  const std::uint64_t position = first_ + index;
  const auto per_epoch = static_cast<std::uint64_t>(sampler_.micro_batches_per_epoch(micro_));
  const std::int64_t per_update =
      divide_up(divide_up(sampler_.options().train_batch_size, sampler_.options().ranks), micro_);
  const std::uint64_t number = range_.epoch + position / per_epoch;
  const auto within = static_cast<std::int64_t>(position % per_epoch);
  const std::int64_t update = within / per_update, micro_batch = within % per_update;

  const std::scoped_lock lock(mutex_);
  Epoch& epoch = epoch_of(number);
  const auto samples = sampler_.update(epoch.order, update);
  item.info = {.epoch = number,
               .update = static_cast<std::uint64_t>(update),
               .micro_batch = static_cast<std::uint32_t>(micro_batch),
               .micro_batches = static_cast<std::uint32_t>(sampler_.micro_batches_in_update(update, micro_)),
               .samples_in_update = static_cast<std::int64_t>(samples.size()),
               .loss_weight_in_update = sampler_.loss_weight(samples),
               .loss_terms_in_update = sampler_.loss_terms(samples),
               .text_rows_in_update = sampler_.text_rows(samples)};
  if (sampler_.options().ranks > 1) return get_of_rank(samples, micro_batch, item);
  const auto begin = static_cast<std::size_t>(micro_batch * micro_);
  const auto mine = samples.subspan(begin, std::min(static_cast<std::size_t>(micro_), samples.size() - begin));
  item.examples.assign(mine.begin(), mine.end());
  if (sampler_.leaves_out_any()) {
    remove_left_out(samples, begin, item);
  } else {
    item.keys.resize(mine.size());
    std::iota(item.keys.begin(), item.keys.end(), static_cast<std::int32_t>(begin));
  }
}

void BatchSequence::get_of_rank(std::span<const std::uint32_t> update, std::int64_t micro_batch, Item& item) {
  sampler_.deal(update, sampler_.options().rank, places_);
  const auto begin = std::min(static_cast<std::size_t>(micro_batch * micro_), places_.size());
  const std::size_t count = std::min(static_cast<std::size_t>(micro_), places_.size() - begin);
  MicroBatchInfo& info = item.info;
  info.samples_in_update = 0;
  info.loss_weight_in_update = 0;
  info.loss_terms_in_update = info.text_rows_in_update = 0;
  item.examples.clear();
  item.keys.clear();
  std::int32_t key = 0;
  std::size_t next = begin;  // of this micro-batch's places
  for (std::uint32_t place = 0; place < update.size(); ++place) {
    const bool mine = next < begin + count && places_[next] == place;
    if (mine) ++next;
    if (sampler_.leaves_out(update[place])) continue;
    if (mine) {
      item.examples.push_back(update[place]);
      item.keys.push_back(key);
    }
    ++key;
    ++info.samples_in_update;
    info.loss_weight_in_update += sampler_.loss_weight({&update[place], 1});
    info.loss_terms_in_update += sampler_.loss_terms({&update[place], 1});
    info.text_rows_in_update += sampler_.text_rows({&update[place], 1});
  }
}

void BatchSequence::remove_left_out(std::span<const std::uint32_t> update, std::size_t begin, Item& item) const {
  const auto micro = static_cast<std::size_t>(micro_);
  MicroBatchInfo& info = item.info;
  info.micro_batch = info.micro_batches = 0;
  info.samples_in_update = 0;
  info.loss_weight_in_update = 0;
  info.loss_terms_in_update = info.text_rows_in_update = 0;
  std::int32_t first_key = 0;
  for (std::size_t first = 0; first < update.size(); first += micro) {
    const auto samples = update.subspan(first, std::min(micro, update.size() - first));
    std::int32_t kept = 0;
    for (const std::uint32_t example : samples) {
      if (sampler_.leaves_out(example)) continue;
      ++kept;
      info.loss_weight_in_update += sampler_.loss_weight({&example, 1});
      info.loss_terms_in_update += sampler_.loss_terms({&example, 1});
      info.text_rows_in_update += sampler_.text_rows({&example, 1});
    }
    info.samples_in_update += kept;
    if (first < begin) first_key += kept;
    if (first < begin && kept > 0) ++info.micro_batch;
    if (kept > 0) ++info.micro_batches;
  }
  std::erase_if(item.examples, [this](std::uint32_t example) { return sampler_.leaves_out(example); });
  item.keys.resize(item.examples.size());
  std::iota(item.keys.begin(), item.keys.end(), first_key);
  // In an update that has lost all samples, the first micro-batch represents the update, and the others are skipped.
  if (info.samples_in_update == 0) info.micro_batch = begin == 0 ? 0 : 1;
}

std::uint64_t BatchSequence::host_bytes() const {
  std::uint64_t numbers = 0;
  for (const Epoch& epoch : epochs_) {
    numbers += epoch.order.size() + epoch.begins.capacity() + epoch.kept.capacity() + epoch.first_chunks.capacity() +
               epoch.first_items.capacity();
  }
  return numbers * sizeof(std::uint32_t) + ends_.capacity() * sizeof(std::uint64_t);
}

}  // namespace plimsoll
