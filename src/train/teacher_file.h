// TeacherFile: a teacher's outputs for every page of a data set, kept in a file, so that a step needs neither the
// teacher's weights nor its time.
//
// The file is safetensors with one tensor of bytes, "records": one record for each sample (a window, or a page of a
// pair), in the data's order. A record has the sample's rows of each tensor that the student is compared with, one
// tensor after the other, and ends with 8 bytes of their hash (base/hash.h).
//
//   TeacherFile file(directory / name, taught_values(step), dataset, facts.image.visual_tokens());
//   if (!file.is_whole()) compute_teacher_file(session, model, dataset, loader, file, interrupt);
//   TeacherInputs inputs(program, file);
//   inputs.copy(batch);                            // of each batch, beside what BatchBinding copies
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "fit/session.h"
#include "fit/step_graphs.h"

namespace plimsoll {

class TeacherFile {
 public:
  // The name in `path` must identify all that the values depend on. `visual_tokens` are the encoder's rows after each
  // sample's text. `dataset` must outlive the object.
  TeacherFile(std::filesystem::path path, std::vector<TaughtValue> values, const Dataset& dataset,
              std::int64_t visual_tokens);

  const std::filesystem::path& path() const { return path_; }
  std::span<const TaughtValue> values() const { return values_; }
  std::size_t samples() const { return begins_.size() - 1; }
  std::uint64_t bytes() const { return begins_.back(); }  // of all records
  // Return where a sample's record begins, and its length including its hash.
  std::uint64_t begin(std::size_t sample) const { return begins_[sample]; }
  std::uint64_t length(std::size_t sample) const { return begins_[sample + 1] - begins_[sample]; }
  // Returns how many rows of a value a sample has.
  std::int64_t rows(const TaughtValue& value, std::size_t sample) const;
  // Returns the number in this file of a batch's sample.
  std::size_t number(const Batch& batch, std::int64_t sample) const;

  // Returns whether the file exists and has every page that the data set does not skip. Throws EnvironmentError if
  // something else has its name.
  bool is_whole() const;
  // Throws EnvironmentError if the disk has less free than the file needs.
  void check_disk() const;

 private:
  std::int64_t text_rows(std::size_t sample) const;

  std::filesystem::path path_;
  std::vector<TaughtValue> values_;
  const Dataset& dataset_;
  std::int64_t visual_tokens_;
  std::vector<std::uint64_t> begins_;  // and the end
};

// Computes the file: runs the program kEvaluate of `session`, the teacher's with StepOptions::kept_values, over the
// data set. Pages that the data set skips get zeros, and is_whole() remembers them. `on_progress` gets counts of
// samples. Throws EnvironmentError (disk), DataError for a page that cannot be read, InterruptedError once `interrupt`
// has a signal that asks for the end; then no file is left.
void compute_teacher_file(const Session& session, const ModelDefinition& teacher, const Dataset& dataset,
                          const LoaderOptions& loader, const TeacherFile& file, const Interrupt& interrupt,
                          const std::function<void(std::size_t done, std::size_t all)>& on_progress = {});

// Fills the inputs of a program whose TeacherOptions::values are inputs. Allocates nothing after construction.
class TeacherInputs {
 public:
  // `file` must outlive the object. Throws DataError if it cannot be opened.
  TeacherInputs(const Program& program, const TeacherFile& file);

  // Throws EnvironmentError if a record is damaged.
  void copy(const Batch& batch);
  // Asks the system to read a batch's records ahead.
  void advise(const Batch& batch) const;

 private:
  // To memory that the host cannot access, this much is copied at a time.
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

  struct Input {
    TaughtValue value;
    DeviceTensor to;
  };
  // Reads from the file into the tensor, and adds what it has read to the hash.
  void read(std::uint64_t offset, std::size_t bytes, const DeviceTensor& to, std::size_t first);

  const TeacherFile& file_;
  InputFile bytes_;
  std::uint64_t records_ = 0;  // where they begin in the file
  std::vector<Input> inputs_;
  std::vector<std::byte> piece_;  // empty if the host can access the tensors
  Hasher hash_;                   // of a record
};

}  // namespace plimsoll
