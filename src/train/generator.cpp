#include "train/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "transform/key_value_cache.h"

namespace plimsoll {
namespace {

// Writes numbers to an input of a program, which may have room for more.
template <typename T>
void write(const Program& program, std::string_view name, const std::vector<T>& values) {
  if (program.has_source(name)) program.source(name).write(std::as_bytes(std::span(values)));
}

void refuse_bad(std::span<const float> logits, std::size_t text) {
  const auto bad = std::ranges::find_if(logits, [](float x) { return !std::isfinite(x); });
  if (bad == logits.end()) return;
  throw DataError({.what = "the model's scores of the next token are not numbers",
                   .where = fmt::format("prompt {}", text + 1),
                   .found = fmt::format("{} for token {}", *bad, bad - logits.begin()),
                   .allowed = "finite numbers",
                   .remedy = "check the model's weights; in half precision, compute in fp32"});
}

}  // namespace

Generator::Generator(const Session& session, const ModelDefinition& model)
    : session_(session),
      capacity_(session.planned(ProgramKind::kDecode).capacity),
      first_position_(model.encoder().facts().token.first_position),
      vocab_size_(model.encoder().facts().vocab_size),
      logits_(static_cast<std::size_t>(capacity_.samples * vocab_size_)) {
  for (InputSpec& each : model.inputs(capacity_, session.plan().precision)) {
    if (!each.constants.empty()) constants_.push_back(std::move(each));
  }
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    if (name.ends_with(kKeyCacheSuffix)) tokens_ = entry.type.shape[0] / capacity_.samples;
  }
  check(tokens_ > 0, "the programs keep keys and values");
  const auto most = static_cast<std::size_t>(
      std::max(capacity_.text_rows, session.planned(ProgramKind::kPrefill).capacity.text_rows));
  Arrays& a = arrays_;
  for (std::vector<std::int32_t>* const each : {&a.ids, &a.positions, &a.places, &a.last_of}) each->reserve(most);
  a.seen.reserve(2 * most);
}

void Generator::step(ProgramKind kind, std::span<const Row> rows) const {
  const Program& program = session_.program(kind);
  const auto texts = static_cast<std::size_t>(capacity_.samples);
  Arrays& a = arrays_;
  for (std::vector<std::int32_t>* const each : {&a.ids, &a.positions, &a.places, &a.seen}) each->clear();
  a.last.assign(texts, -1);
  a.last_of.assign(rows.size(), -1);
  for (const Row& row : rows) {
    const auto begin = static_cast<std::int32_t>(row.text * tokens_);
    a.ids.push_back(row.token);
    a.positions.push_back(row.position + first_position_);
    a.places.push_back(begin + row.position);
    a.seen.push_back(begin);
    a.seen.push_back(begin + row.position + 1);
    if (!row.is_last) continue;
    a.last[static_cast<std::size_t>(row.text)] = static_cast<std::int32_t>(a.ids.size()) - 1;
    a.last_of[a.ids.size() - 1] = row.text;
  }
  // Other values use an input's bytes after it has been read, so constants are written in every step.
  for (const InputSpec& each : constants_) write(program, each.name, each.constants);
  write(program, input::kInputIds, a.ids);
  write(program, input::kPositionIds, a.positions);
  write(program, kCacheRowsInput, a.places);
  write(program, kSeenRowsInput, a.seen);
  write(program, input::kLastRows, a.last);
  write(program, input::kLastRowOf, a.last_of);
  const Graph& graph = program.graph();
  program.set_rows(graph.find_source(input::kRows), static_cast<std::int32_t>(rows.size()));
  program.set_rows(graph.find_source(input::kSamples), static_cast<std::int32_t>(texts));
  program.run();
  program.tensor(session_.planned(kind).logits).read(std::as_writable_bytes(std::span(logits_)));
}

std::span<float> Generator::logits(std::int32_t text) const {
  const auto size = static_cast<std::size_t>(vocab_size_);
  return std::span(logits_).subspan(static_cast<std::size_t>(text) * size, size);
}

// The texts that are written at once.
class Generator::Texts {
 public:
  Texts(const Generator& generator, std::span<const std::vector<std::int32_t>> prompts, std::size_t first,
        const GenerationOptions& options, const std::function<void(std::size_t, std::int32_t)>& on_token)
      : generator_(generator),
        first_(first),
        options_(options),
        on_token_(on_token),
        sampler_(options.sampling, generator.vocab_size_),
        texts_(prompts.begin(), prompts.end()),
        found_(prompts.size()) {
    for (const std::vector<std::int32_t>& prompt : texts_) {
      check(!prompt.empty() && std::ssize(prompt) + options.max_new_tokens - 1 <= generator.tokens_,
            "a prompt has tokens, and it and what may follow have room");
    }
  }

  void read_prompts() {
    const auto most = static_cast<std::size_t>(generator_.session_.planned(ProgramKind::kPrefill).capacity.text_rows);
    rows_.reserve(std::max(most, texts_.size()));
    for (std::size_t text = 0; text < texts_.size(); ++text) {
      // A text grows by one token after its last row is computed.
      const std::size_t length = texts_[text].size();
      for (std::size_t i = 0; i < length; ++i) {
        rows_.push_back(row(text, i));
        if (rows_.size() == most) run(ProgramKind::kPrefill);
      }
    }
    run(ProgramKind::kPrefill);
  }

  // Writes one token of each text that has not ended; returns false if all have.
  bool write_tokens() {
    for (std::size_t text = 0; text < texts_.size(); ++text) {
      if (is_open(text)) rows_.push_back(row(text, texts_[text].size() - 1));
    }
    if (rows_.empty()) return false;
    run(ProgramKind::kDecode);
    return true;
  }

  std::vector<Continuation> take() { return std::move(found_); }

 private:
  bool is_open(std::size_t text) const {
    return !found_[text].ended && std::ssize(found_[text].tokens) < options_.max_new_tokens;
  }
  Row row(std::size_t text, std::size_t token) const {
    return {.text = static_cast<std::int32_t>(text),
            .token = texts_[text][token],
            .position = static_cast<std::int32_t>(token),
            .is_last = token + 1 == texts_[text].size()};
  }
  // Computes the waiting rows, and gives each text whose last row is among them its next token.
  void run(ProgramKind kind) {
    if (rows_.empty()) return;
    generator_.step(kind, rows_);
    for (const Row& each : rows_) {
      if (each.is_last) append(static_cast<std::size_t>(each.text));
    }
    rows_.clear();
  }
  void append(std::size_t text) {
    if (!is_open(text)) return;  // no token was asked for
    const std::span<float> logits = generator_.logits(static_cast<std::int32_t>(text));
    refuse_bad(logits, first_ + text);
    const std::int32_t token = sampler_.next(logits, texts_[text], static_cast<std::uint32_t>(first_ + text));
    texts_[text].push_back(token);
    found_[text].tokens.push_back(token);
    found_[text].ended = options_.ends.contains(token) || (options_.stops && options_.stops(texts_[text]));
    if (on_token_) on_token_(first_ + text, token);
  }

  const Generator& generator_;
  std::size_t first_;  // the number of the first of them
  const GenerationOptions& options_;
  const std::function<void(std::size_t, std::int32_t)>& on_token_;
  TokenSampler sampler_;
  std::vector<std::vector<std::int32_t>> texts_;  // prompts and what follows
  std::vector<Continuation> found_;
  std::vector<Row> rows_;  // of the next step
};

std::vector<Continuation> Generator::run(std::span<const std::vector<std::int32_t>> prompts, std::size_t first,
                                         const GenerationOptions& options,
                                         const std::function<void(std::size_t, std::int32_t)>& on_token) const {
  check(std::ssize(prompts) <= capacity_.samples, "no more texts are written at once than were planned");
  Texts texts(*this, prompts, first, options, on_token);
  texts.read_prompts();
  while (texts.write_tokens()) {
  }
  return texts.take();
}

}  // namespace plimsoll
