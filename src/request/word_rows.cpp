#include "request/word_rows.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "fit/word_rows.h"
#include "request/fit_request.h"
#include "train/checkpoint.h"

namespace plimsoll {
namespace {

using Rows = std::vector<std::int32_t>;

void add_rows(Rows& rows, const Rows& more) {
  Rows all;
  std::ranges::set_union(rows, more, std::back_inserter(all));
  rows = std::move(all);
}

// Returns the rows that batches of the data may look up, ascending.
Rows rows_of(const Dataset* train, const Dataset* evaluation, const EncoderFacts& encoder) {
  Rows rows;
  if (encoder.token.pads && encoder.token.pad_id >= 0) rows.push_back(encoder.token.pad_id);
  for (const Dataset* data : {train, evaluation}) {
    if (data != nullptr) add_rows(rows, data->token_ids());
  }
  return rows;
}

// Adds the rows whose moments a run takes over. Returns false if the checkpoint does not say which they are.
bool add_rows_with_moments(const ModelBundle& bundle, const std::filesystem::path& checkpoint, Rows& rows) {
  if (read_trainer_state(checkpoint).only_model) return true;
  const std::vector<ParameterSpec> specs = bundle.specs();
  const auto table = std::ranges::find(specs, ParameterSpec::Part::kWordEmbedding, &ParameterSpec::part);
  if (table == specs.end() || !table->trains) return true;
  const std::optional<Rows> kept = rows_with_moments(checkpoint, table->name, table->file_shape[0]);
  if (kept) add_rows(rows, *kept);
  return kept.has_value();
}

}  // namespace

void keep_word_rows(ModelBundle& bundle, TrainOptions& options, const Dataset* train, const Dataset* evaluation,
                    const std::optional<std::filesystem::path>& resume) {
  bundle.options.word_rows = nullptr;
  const OptimizerOptions optimizer = optimizer_options(bundle, options);
  if (!may_lack_word_rows(bundle.definition(), bundle.options, train == nullptr ? nullptr : &optimizer)) return;
  const bool teaches = train != nullptr && options.teacher != nullptr;
  if (teaches && !may_lack_word_rows(options.teacher->definition(), options.teacher->options, nullptr)) return;
  Rows rows = rows_of(train, evaluation, bundle.facts());
  if (resume && !add_rows_with_moments(bundle, *resume, rows)) return;
  if (rows.empty() || std::ssize(rows) >= bundle.facts().vocab_size) return;
  bundle.options.word_rows = std::make_shared<const Rows>(std::move(rows));
  if (!teaches) return;
  auto teacher = std::make_shared<ModelBundle>(*options.teacher);
  teacher->options.word_rows = bundle.options.word_rows;
  options.teacher = std::move(teacher);
}

}  // namespace plimsoll
