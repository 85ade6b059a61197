// The losses that a log prints, and how they developed before the first NaN or infinity, which distinguishes a
// divergence from an overflow, and both from NaN in the data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/diagnosis.h"

namespace plimsoll::doctor {

// The losses that one line, in small letters, states.
struct LossLine {
  std::string_view loss{};        // "'loss': 0.3127", "loss=0.41", "average loss = 0.0412": the number; empty: none
  std::string_view train_loss{};  // the same, unless it is an evaluation's
  bool train_nan = false;         // the loss of training is NaN or infinite
  bool eval_nan = false;          // an evaluation's is
  bool norm_nan = false;          // the norm of the gradients is
  bool finite = true;             // false: "'loss': nan", "grad_norm=inf"; and a loss of 0, as the Trainer prints NaN
};
LossLine read_losses(std::string_view small);

// Reads the Trainer's table in a notebook.
class LossTable {
 public:
  // Rewrites a row as a line that names its losses: below the heading "Step  Training Loss  Validation Loss" the row
  // "500  0.4127  0.3920" becomes "'loss': 0.4127, 'eval_loss': 0.3920". Returns an empty text for every other line.
  std::string read_row(std::string_view small);

 private:
  // Reads "76980 nan": the rows of a table without a heading, a step and its loss. They are distinguished from other
  // pairs of numbers by the rows before the first NaN: losses with growing steps.
  std::string read_bare_row(std::string_view small);

  bool inside_ = false;
  std::uint64_t bare_step_ = 0;
  std::size_t bare_rows_ = 0;  // consecutive rows with growing steps and finite losses
};

class RunUpReader {
 public:
  // How many losses before the first NaN or infinity are considered.
  static constexpr std::size_t kLosses = 8;

  void add(const LossLine& losses, std::uint64_t number, std::string_view text, std::string_view small);
  // Returns kAny if every loss is finite, or became finite again later, or if the losses before are too few or too
  // uneven to say.
  RunUp kind() const;
  // Returns the lines before the first NaN or infinity, and that one; empty if there is none.
  std::vector<Evidence> evidence() const;

 private:
  struct Point {
    Evidence evidence{};
    double loss = 0, norm = 0;  // 0: not printed, or not finite
  };
  std::vector<double> series(double Point::*field) const;

  std::vector<Point> points_;     // the last ones with finite numbers
  std::optional<Point> first_{};  // the next one, whose loss or gradients are not finite
  bool at_start_ = false;         // in the first epoch, as far as that line says
};

}  // namespace plimsoll::doctor
