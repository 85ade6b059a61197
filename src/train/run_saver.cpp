#include "train/run_saver.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/work_folder.h"
#include "bundle/model_place.h"
#include "train/checkpoint.h"

namespace plimsoll {
namespace {

// `Failure` is that of the disk or of the file that some weights are copied from.
template <typename Failure>
[[noreturn]] void throw_unwritten(const std::string& what, const Failure& error,
                                  const std::filesystem::path& output_dir) {
  Problem problem = error.problem();
  problem.what = fmt::format("{}: {}", what, problem.what);
  problem.remedy += continue_remedy(output_dir);
  throw Failure(std::move(problem));
}

// Saves, once more if a checkpoint from which some weights are copied has been damaged since it was written.
template <typename Save>
auto save_from(RunMemory& memory, const Save& save) {
  try {
    return save();
  } catch (const DataError& error) {
    if (!memory.fall_back()) throw;
    log_warning(fmt::format("{}: {}; what is not in memory is saved from the model that the run began with instead",
                            error.problem().where, error.problem().what));
  }
  return save();
}

}  // namespace

std::string continue_remedy(const std::filesystem::path& output_dir) {
  const std::vector<std::int64_t> good = list_checkpoints(output_dir);
  return good.empty()
             ? "; there is no earlier checkpoint: the run starts from the beginning"
             : fmt::format("; then continue with --resume-from-checkpoint latest, from update {}", good.back());
}

void RunSaver::save(const TrainerState& state) {
  // This also removes checkpoints if the run was ended between a save and this point.
  if (holds(state.step)) return rotate(state);
  write(state);
  saved_step_ = state.step;
  rotate(state);
}

void RunSaver::save_due(const TrainerState& state) {
  if (!options_.save_only_model) return save(state);
  TrainerState model = state;
  model.only_model = true;
  if (!holds(state.step)) write(model);
  rotate(state);
}

void RunSaver::rotate(const TrainerState& state) const {
  if (!agreement_.is_first()) return;
  rotate_checkpoints(options_.output_dir, options_.save_total_limit,
                     options_.load_best_model_at_end ? state.best_step : -1);
}

void RunSaver::write(const TrainerState& state) {
  if (!agreement_.is_first()) {
    // The first rank reads every parameter and state; this rank may have a part of them.
    memory_.serve_parameters();
    for (const std::string& name : state.only_model ? std::vector<std::string>() : memory_.shared_state_names()) {
      memory_.states().read(name, [](std::span<const std::byte>) {});
    }
    return agreement_.wait_for_all();
  }
  refuse_another_directory(options_.output_dir);
  std::filesystem::path path;
  try {
    path = save_from(memory_, [&] {
      return save_checkpoint(options_.output_dir, state, bundle_, memory_.original(), memory_.whole_parameters(),
                             memory_.state_names(), memory_.states());
    });
  } catch (const EnvironmentError& error) {
    throw_unwritten(fmt::format("cannot write the checkpoint of update {}", state.step), error, options_.output_dir);
  } catch (const DataError& error) {
    throw_unwritten(fmt::format("cannot write the checkpoint of update {}", state.step), error, options_.output_dir);
  }
  memory_.note_checkpoint(path);
  observer_.on_checkpoint(path);
  agreement_.wait_for_all();
}

void RunSaver::save_model() {
  if (!agreement_.is_first()) {
    memory_.serve_parameters();
    return agreement_.wait_for_all();
  }
  refuse_another_directory(options_.output_dir);
  try {
    save_from(memory_, [&] {
      write_model(options_.output_dir, [&](const std::filesystem::path& aside) {
        return plimsoll::save_model(aside, bundle_, memory_.original(), memory_.whole_parameters());
      });
    });
    memory_.end_serving();
  } catch (const EnvironmentError& error) {
    throw_unwritten("cannot write the model at the end of the run", error, options_.output_dir);
  } catch (const DataError& error) {
    throw_unwritten("cannot write the model at the end of the run", error, options_.output_dir);
  }
  agreement_.wait_for_all();
}

}  // namespace plimsoll
