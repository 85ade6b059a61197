// --teacher-cache: keeps the teacher's outputs in a file, so that its weights need no memory while the student trains.
//
//   TeacherCache cache(options, bundle, *data.train, backend);      // sets options.train.teacher_file
//   print_line(cache.line());
//   cache.compute(invocation, device);                              // unless the file is there
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/devices.h"
#include "cli/run_options.h"

namespace plimsoll {

class TeacherCache {
 public:
  // Without --teacher-cache it does nothing. Throws UsageError like teacher_file; EnvironmentError if the disk has no
  // room for the file, or the directory cannot be created.
  TeacherCache(RunOptions& options, const ModelBundle& bundle, const Dataset& train, Backend& backend);

  bool exists() const { return file_ != nullptr; }
  // Throws BudgetError if the teacher has to compute and does not fit the budget.
  void check(Backend& backend) const;
  // Runs on rank 0, while the others wait.
  void compute(const Invocation& invocation, const Device& device) const;
  // Returns one line for people; empty without the option.
  std::string line() const;
  nlohmann::json json() const;

 private:
  const RunOptions& options_;
  const Dataset& train_;
  std::shared_ptr<const TeacherFile> file_;
  bool whole_ = false;
};

}  // namespace plimsoll
