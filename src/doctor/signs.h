// Signs that a run works or has worked, besides its losses: results of an evaluation, tables of them, progress bars
// that reached their end. Each is weak: it counts only in a log in which nothing resembles an error.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::doctor {

class SignsReader {
 public:
  // Reads a line in small letters; true if it is such a sign.
  bool read(std::string_view small);

 private:
  bool is_row_of_results(std::string_view small);

  bool below_heading_ = false;  // the lines above are a heading whose columns include a metric
};

// True if the line names a metric and its value: "'eval_f1': 0.9021", "test_acc  0.9124", "Average WER 21.112".
bool states_metric(std::string_view small);
// True for a progress bar at its end, unless data were loaded, fetched or prepared.
bool is_finished_bar(std::string_view small);
// True for a progress bar of work before training: downloads, shards of weights, data.
bool is_preparing_bar(std::string_view small);
// True for an error that is measured: "mean absolute error: 0.12", "test_error=0.3", "word error rate 0.21".
bool measures_error(std::string_view small);

}  // namespace plimsoll::doctor
