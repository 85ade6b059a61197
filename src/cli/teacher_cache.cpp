#include "cli/teacher_cache.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/outputs.h"
#include "cli/page_bar.h"
#include "cli/signals.h"
#include "request/teacher.h"

namespace plimsoll {

TeacherCache::TeacherCache(RunOptions& options, const ModelBundle& bundle, const Dataset& train, Backend& backend)
    : options_(options), train_(train) {
  options.train.teacher_file = nullptr;
  if (options.teacher.cache.empty()) return;
  if (options.train.teacher == nullptr) {
    throw UsageError({.what = "nothing is learnt from a teacher",
                      .where = "--teacher-cache",
                      .found = "no --distil-from",
                      .allowed = "--teacher-cache with --distil-from",
                      .remedy = "pass --distil-from, or omit --teacher-cache"});
  }
  file_ = teacher_file(options.teacher.cache, bundle, options.train, train, backend.multiplies_int8(),
                       backend.device_use().has_value());
  options.train.teacher_file = file_;
  whole_ = file_->is_whole();
  if (whole_) return;
  if (!options.memory.plans_only) make_directory(options.teacher.cache, "--teacher-cache");
  file_->check_disk();
}

void TeacherCache::check(Backend& backend) const {
  if (file_ == nullptr || whole_) return;
  fit(teaching_request(options_.train, train_, *file_, options_.memory), backend);
}

void TeacherCache::compute(const Invocation& invocation, const Device& device) const {
  if (file_ == nullptr || whole_) return;
  if (invocation.is_first()) {
    const ModelBundle& teacher = *options_.train.teacher;
    PageBar bar("windows computed by the teacher", invocation.json, true);
    verify_weights(teacher);
    const Session session(fit(teaching_request(options_.train, train_, *file_, options_.memory), *device.backend),
                          *device.backend);
    load_model(teacher, 0, [&](const std::string& name) { return session.parameter(name); });
    compute_teacher_file(session, teacher.definition(), train_, loader_options(options_.memory), *file_,
                         interrupt_on_signals(), [&bar](std::size_t done, std::size_t all) { bar.draw(done, all); });
  }
  wait_for_ranks(invocation);
  if (!invocation.is_first() && !file_->is_whole()) {
    throw EnvironmentError({.what = "what the teacher computed cannot be seen here",
                            .where = file_->path().string(),
                            .found = "no such file",
                            .allowed = "a directory that all processes share",
                            .remedy = "pass a --teacher-cache on a file system that all hosts mount"});
  }
  // From here on, the training's peak is measured.
  release_free_heap();
  reset_peak_resident();
}

std::string TeacherCache::line() const {
  if (file_ == nullptr) return {};
  return fmt::format("what the teacher computes: {} for {}, {} in {}", format_bytes(file_->bytes()),
                     counted(file_->samples(), "window"),
                     whole_ ? "already" : "computed before the first update and kept", file_->path().string());
}

nlohmann::json TeacherCache::json() const {
  return {
      {"file", file_->path().string()}, {"bytes", file_->bytes()}, {"samples", file_->samples()}, {"whole", whole_}};
}

}  // namespace plimsoll
