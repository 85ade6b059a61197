// The losses that a log prints, and how they went before the first that is no number: what tells a divergence from an
// overflow, and both from data that are no numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/diagnosis.h"

namespace plimsoll::doctor {

// The loss as one line, in small letters, states it.
struct LossLine {
  std::string_view loss{};        // "'loss': 0.3127", "loss=0.41", "average loss = 0.0412": the number; empty: none
  std::string_view train_loss{};  // the same, if it is no evaluation's
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
  // "500  0.4127  0.3920" becomes "'loss': 0.4127, 'eval_loss': 0.3920". Empty for every other line.
  std::string read_row(std::string_view small);

 private:
  // "76980 nan": the rows of a table without a heading, a step and its loss. They are told from other pairs of numbers
  // by what comes before the first NaN: losses of steps that grow.
  std::string read_bare_row(std::string_view small);

  bool inside_ = false;
  std::uint64_t bare_step_ = 0;
  std::size_t bare_rows_ = 0;  // in a row, whose steps grew and whose losses were numbers
};

class RunUpReader {
 public:
  // How many losses before the first that is no number are looked at.
  static constexpr std::size_t kLosses = 8;

  void add(const LossLine& losses, std::uint64_t number, std::string_view text, std::string_view small);
  // kAny: every loss is a number, or was again later; or what came before is too little or too uneven to say.
  RunUp kind() const;
  // The lines before the first that is no number, and that one; empty where there is none.
  std::vector<Evidence> evidence() const;

 private:
  struct Point {
    Evidence evidence{};
    double loss = 0, norm = 0;  // 0: not told, or not finite
  };
  std::vector<double> series(double Point::*field) const;

  std::vector<Point> points_;     // the last ones whose numbers are finite
  std::optional<Point> first_{};  // after them, whose loss or gradients are not
  bool at_start_ = false;         // in the first epoch, as far as that line tells
};

}  // namespace plimsoll::doctor
