#include "train/teacher_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "formats/safetensors.h"
#include "train/batch_binding.h"
#include "train/batch_shape.h"
#include "transform/distillation.h"

namespace plimsoll {
namespace {

constexpr const char *kRecords = "records", *kSkipped = "skipped_pages", *kValues = "values";

std::size_t row_bytes(const TaughtValue& value) {
  return static_cast<std::size_t>(value.columns) * dtype_bytes(value.dtype);
}

// Returns the first of a value's rows in a batch that belong to the sample.
std::int64_t first_row(const TaughtValue& value, const Batch& batch, std::int64_t sample) {
  if (value.row_count == input::kSamples) return sample;
  const std::int64_t text = batch.first_text_row(sample);
  return value.row_count == input::kRows ? text + sample * batch.shape().image.visual_tokens() : text;
}

std::string skipped_text(const Dataset& dataset) {
  return fmt::format("{}", fmt::join(dataset.options().skipped, " "));
}

std::string values_text(std::span<const TaughtValue> values) {
  std::string text;
  for (const TaughtValue& value : values) {
    text += fmt::format("{}{} {}[{}, {}]", text.empty() ? "" : "; ", value.name, dtype_name(value.dtype),
                        value.row_count, value.columns);
  }
  return text;
}

EnvironmentError damaged(const std::filesystem::path& path, std::string found) {
  return EnvironmentError({.what = "the file of what the teacher computes is damaged",
                           .where = path.string(),
                           .found = std::move(found),
                           .remedy = "delete it; the next run with --teacher-cache computes it again"});
}

}  // namespace

TeacherFile::TeacherFile(std::filesystem::path path, std::vector<TaughtValue> values, const Dataset& dataset,
                         std::int64_t visual_tokens)
    : path_(std::move(path)), values_(std::move(values)), dataset_(dataset), visual_tokens_(visual_tokens) {
  static const std::set<std::string_view> known = {input::kSamples, input::kRows, input::kTextRows};
  for (const TaughtValue& value : values_) {
    check(known.contains(value.row_count), "a tensor that is compared has rows of samples, text or the encoder");
  }
  const std::size_t count = dataset.size() * static_cast<std::size_t>(dataset.samples_per_example());
  begins_.reserve(count + 1);
  begins_.push_back(0);
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::uint64_t bytes = sizeof(std::uint64_t);
    for (const TaughtValue& value : values_) {
      bytes += static_cast<std::uint64_t>(rows(value, sample)) * row_bytes(value);
    }
    begins_.push_back(begins_.back() + bytes);
  }
}

std::int64_t TeacherFile::text_rows(std::size_t sample) const {
  const auto each = static_cast<std::size_t>(dataset_.samples_per_example());
  const Example& example = dataset_.examples()[sample / each];
  if (each == 1) return example.tokens;
  return sample % each == 0 ? std::int64_t{example.begin} : std::int64_t{example.tokens} - example.begin;
}

std::int64_t TeacherFile::rows(const TaughtValue& value, std::size_t sample) const {
  if (value.row_count == input::kSamples) return 1;
  return text_rows(sample) + (value.row_count == input::kRows ? visual_tokens_ : 0);
}

std::size_t TeacherFile::number(const Batch& batch, std::int64_t sample) const {
  const auto each = static_cast<std::size_t>(dataset_.samples_per_example());
  const std::size_t example = batch.references()[static_cast<std::size_t>(sample)].example;
  // The samples of an example follow one another.
  return example * each + static_cast<std::size_t>(sample) % each;
}

bool TeacherFile::is_whole() const {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return false;
  const SafetensorsReader reader = [&] {
    try {
      return SafetensorsReader(path_);
    } catch (const DataError& torn) {
      throw damaged(path_, torn.problem().what);
    }
  }();
  const TensorEntry* const records = reader.find(kRecords);
  if (records == nullptr || records->type.bytes() != bytes()) {
    throw damaged(path_, records == nullptr
                             ? "no tensor 'records'"
                             : fmt::format("{}, not {}", format_bytes(records->type.bytes()), format_bytes(bytes())));
  }
  const auto found = reader.metadata().find(kSkipped);
  if (found == reader.metadata().end()) throw damaged(path_, "no list of skipped pages");
  // The pages that it lacks must be pages that the data set skips.
  std::istringstream lacks(found->second);
  const std::vector<std::uint32_t>& skipped = dataset_.options().skipped;
  for (std::uint32_t page = 0; lacks >> page;) {
    if (!std::ranges::binary_search(skipped, page)) return false;
  }
  return true;
}

void TeacherFile::check_disk() const {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path_.parent_path(), error);
  if (error || space.capacity == 0 || space.available >= bytes() + kMiB) return;
  throw EnvironmentError(
      {.what = "not enough disk space for what the teacher computes",
       .where = path_.parent_path().string(),
       .found = fmt::format("{} free", format_bytes(space.available)),
       .allowed = fmt::format("{} or more", format_bytes(bytes() + kMiB)),
       .remedy =
           "pass a --teacher-cache on another disk; or --distil-hidden 0 and --distil-relations 0, which keep the "
           "predictions alone; or omit --teacher-cache: the teacher then computes in every step"});
}

void compute_teacher_file(const Session& session, const ModelDefinition& teacher, const Dataset& dataset,
                          const LoaderOptions& loader_options, const TeacherFile& file, const Interrupt& interrupt,
                          const std::function<void(std::size_t done, std::size_t all)>& on_progress) {
  const PlannedProgram& planned = session.planned(ProgramKind::kEvaluate);
  const Program& program = session.program(ProgramKind::kEvaluate);
  std::vector<std::unique_ptr<HostCopy>> copies;
  for (const TaughtValue& value : file.values()) {
    const std::deque<Value>& values = program.graph().values();
    const auto found = std::ranges::find(values, value.name, &Value::name);
    check(found != values.end(), "the teacher's program has what is compared");
    copies.push_back(std::make_unique<HostCopy>(program.tensor(static_cast<ValueId>(found - values.begin()))));
  }
  SafetensorsWriter writer(
      file.path(), {{kRecords, {DType::kU8, {static_cast<std::int64_t>(file.bytes())}}}},
      {{"format", "pt"}, {kSkipped, skipped_text(dataset)}, {kValues, values_text(file.values())}});
  std::size_t next = 0;  // sample to be written
  Hasher hash;           // of its record
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    writer.write(bytes);
  };
  const auto end_record = [&] {
    const std::uint64_t digest = hash.digest();
    writer.write(std::as_bytes(std::span(&digest, 1)));
    hash.reset();
    ++next;
  };
  const auto write_zeros = [&](std::size_t end) {
    static constexpr std::array<std::byte, 4096> kZeros{};
    while (next < end) {
      for (std::uint64_t left = file.length(next) - sizeof(std::uint64_t); left > 0;) {
        const std::uint64_t now = std::min<std::uint64_t>(left, kZeros.size());
        write(std::span(kZeros).first(now));
        left -= now;
      }
      end_record();
    }
  };
  const std::int64_t micro = planned.capacity.samples;
  Sampler sampler(dataset.examples(), {.seed = 0, .train_batch_size = micro, .order = SampleOrder::kSequential});
  for (const std::uint32_t page : dataset.options().skipped) sampler.leave_out(page);
  BatchSequence sequence(sampler, micro, {.epoch = 0, .update = 0, .updates = sampler.updates_per_epoch()});
  Loader loader(dataset, sequence, batch_shape(teacher, planned.capacity), 0, loader_options);
  std::unique_ptr<BatchBinding> binding;
  while (const Batch* batch = loader.next()) {
    if (const int signal = interrupt.end_signal(); signal != 0) {
      throw InterruptedError({.what = "interrupted while the teacher computed what is learnt from it",
                              .where = file.path().string(),
                              .found = fmt::format("{} of {}", next, counted(file.samples(), "window")),
                              .remedy = "nothing was written; the same command begins again"},
                             signal);
    }
    if (batch->samples() == 0) continue;
    if (!binding) binding = std::make_unique<BatchBinding>(program, *batch, session.plan().word_rows);
    binding->copy(*batch);
    binding->set_loss_scale(1);
    binding->set_dropout_key({0, 0});
    program.run();
    for (const auto& copy : copies) copy->refresh();
    for (std::int64_t sample = 0; sample < batch->samples(); ++sample) {
      const std::size_t number = file.number(*batch, sample);
      write_zeros(number);
      for (std::size_t v = 0; v < copies.size(); ++v) {
        const TaughtValue& value = file.values()[v];
        const std::size_t first = static_cast<std::size_t>(first_row(value, *batch, sample)) * row_bytes(value);
        const std::size_t bytes = static_cast<std::size_t>(file.rows(value, number)) * row_bytes(value);
        write(std::as_const(*copies[v]).view().byte_span().subspan(first, bytes));
      }
      end_record();
    }
    if (on_progress) on_progress(next, file.samples());
  }
  write_zeros(file.samples());
  writer.finish();
}

TeacherInputs::TeacherInputs(const Program& program, const TeacherFile& file) : file_(file), bytes_(file.path()) {
  records_ = SafetensorsReader(file.path()).at(kRecords).offset_bytes;
  for (const TaughtValue& value : file.values()) {
    inputs_.push_back({.value = value, .to = program.source(std::string(kTeacherPrefix) + value.name)});
    if (inputs_.back().to.host_bytes().empty()) piece_.resize(kPieceBytes);
  }
}

void TeacherInputs::read(std::uint64_t offset, std::size_t bytes, const DeviceTensor& to, std::size_t first) {
  while (bytes > 0) {
    const std::span<std::byte> piece = piece_.empty() ? to.host_bytes().subspan(first, bytes)
                                                      : std::span(piece_).first(std::min(bytes, piece_.size()));
    bytes_.read_at(offset, piece);
    hash_.add(piece);
    if (!piece_.empty()) to.write(piece, first);
    offset += piece.size();
    first += piece.size();
    bytes -= piece.size();
  }
}

void TeacherInputs::copy(const Batch& batch) {
  for (std::int64_t sample = 0; sample < batch.samples(); ++sample) {
    const std::size_t number = file_.number(batch, sample);
    std::uint64_t offset = records_ + file_.begin(number);
    hash_.reset();
    for (const Input& input : inputs_) {
      const std::size_t each = row_bytes(input.value);
      const std::size_t bytes = static_cast<std::size_t>(file_.rows(input.value, number)) * each;
      read(offset, bytes, input.to, static_cast<std::size_t>(first_row(input.value, batch, sample)) * each);
      offset += bytes;
    }
    std::uint64_t written = 0;
    bytes_.read_at(offset, std::as_writable_bytes(std::span(&written, 1)));
    if (written != hash_.digest()) throw damaged(file_.path(), fmt::format("another hash of record {}", number));
  }
}

void TeacherInputs::advise(const Batch& batch) const {
  for (std::int64_t sample = 0; sample < batch.samples(); ++sample) {
    const std::size_t number = file_.number(batch, sample);
    ::posix_fadvise(bytes_.descriptor(), static_cast<off_t>(records_ + file_.begin(number)),
                    static_cast<off_t>(file_.length(number)), POSIX_FADV_WILLNEED);
  }
}

}  // namespace plimsoll
