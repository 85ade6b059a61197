// Recognises runs that continue, or reach their end, and train nothing: every update is skipped, or the learning rate,
// the gradients or the losses are 0 on every line. No single line shows that, so the whole log is read first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "doctor/diagnosis.h"
#include "doctor/run_up.h"

namespace plimsoll::doctor {

class UntrainedReader {
 public:
  void read(const LossLine& losses, std::uint64_t number, std::string_view text, std::string_view small);

  struct Found {
    std::string_view pattern{};  // named by a rule: kUpdatesAreSkipped, …
    Evidence first{}, last{};
  };
  // Call it at the log's end. Returns nothing if some line shows training, or too few lines say anything.
  std::optional<Found> find() const;

 private:
  // How often a number was 0, and whether it was ever different.
  struct Zeros {
    std::uint64_t lines = 0;
    bool other = false;
    Evidence first{}, last{};
    void add(std::uint64_t number, std::string_view text);
    void end();
  };
  // "98/24128 [00:40<2:40:10": the step of a progress bar.
  struct BarStep {
    std::uint64_t step = 0, total = 0;
  };
  static std::optional<BarStep> bar_step(std::string_view small);
  void read_skips(std::uint64_t number, std::string_view text, std::string_view small);
  bool skips_all() const;

  Zeros skips_, rates_, norms_, losses_;
  bool searching_ = false;  // a scale was lowered, and could be lowered further
  std::uint64_t losses_since_first_skip_ = 0, losses_since_last_skip_ = 0;
  std::optional<BarStep> bar_{}, first_bar_{};  // now, and by the first skip
  std::uint64_t skips_by_bar_ = 0;              // since then
  double loss_ = 0;                             // the last that was not 0
};

}  // namespace plimsoll::doctor
