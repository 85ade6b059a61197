// RunMemory: the parameters and optimizer states of a run, for filling them from files and writing them to files,
// wherever the session keeps them.
//
// Frozen parameters may be held in fewer bits than their file has, and only some rows of the word embedding may be
// held. original() is where the rest comes from when the model is saved: the model or checkpoint that the run began
// with, or the latest checkpoint that it has written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "fit/session.h"
#include "train/checkpoint.h"
#include "train/disk_need.h"
#include "train/rank_states.h"

namespace plimsoll {

class RunMemory {
 public:
  // Both arguments must outlive this object.
  RunMemory(const Session& session, const ModelBundle& bundle);

  // Fills the parameters from the bundle's weights, new ones from the seed, and the states with zeros.
  void fill_fresh(std::uint64_t seed);
  // Fills the parameters of the teacher that the run computes with, which does not learn.
  void fill_teacher(const ModelBundle& teacher) const;
  // Fills both from a checkpoint. Throws DataError if it is damaged or does not fit the model.
  void fill_from(const std::filesystem::path& checkpoint, std::uint64_t seed);
  // Fills only the parameters.
  void fill_parameters_from(const std::filesystem::path& checkpoint);
  // Reserves what note_update() keeps of so many updates: RunPlan::noted_bytes.
  void expect_updates(std::int64_t updates);
  // Says that this update has changed the parameters: rows that are not in memory decay, too, when they are saved.
  void note_update(double learning_rate);
  // Says that the checkpoint has been written, so that the next one can begin with its values.
  void note_checkpoint(const std::filesystem::path& checkpoint);
  // Makes original() what the run began with, if it is a checkpoint that was noted since and proves to be damaged.
  // Returns false if it is that already.
  bool fall_back();

  ParameterMemory parameters() const;
  // Returns the same for saving: with ranks that each keep a part of a parameter, rank 0 gets the whole, while the
  // others serve their parts until it is done.
  ParameterMemory whole_parameters() const;
  void serve_parameters() const;
  void end_serving() const;
  const ParameterSource& original() const { return original_; }
  // Returns the optimizer's states that a checkpoint has, sorted.
  const std::vector<std::string>& state_names() const { return saved_names_; }
  // Returns those of them that each rank has a part of.
  std::vector<std::string> shared_state_names() const {
    return rank_states_ ? state_names_ : std::vector<std::string>();
  }
  StateAccess states() const;
  // Returns the sizes of the files that hold all this; with `only_model`, checkpoints have no optimizer state, except
  // those that a signal asks for.
  WrittenBytes written_bytes(bool only_model) const;

 private:
  // Returns the name of the word embedding, if memory has only some of its rows and they train; else none.
  std::string table_with_slots() const;
  std::vector<std::int32_t> slots(const std::string& parameter) const;
  StateAccess own_states() const;
  // True if rows that are not in memory decay, and this rank saves them.
  bool notes_updates() const { return session_.plan().word_decay != 0 && session_.plan().rank == 0; }
  void take_as_original(const std::filesystem::path& checkpoint, std::uint64_t seed);
  void begin_from_original();

  const Session& session_;
  const ModelBundle& bundle_;
  std::string slots_name_;  // of the slots of moments, which no checkpoint gives back; empty: there are none
  // The optimizer's states; and with the slots.
  std::vector<std::string> state_names_, saved_names_;
  std::optional<RankStates> rank_states_;  // if ranks share the states
  // Parameters, or lower halves of split parameters, of which each rank keeps a part.
  std::vector<std::string> divided_;
  // These are what the run began with, and what was noted last. A checkpoint's file lives as long.
  ParameterSource first_, original_;
  std::shared_ptr<const WeightsFile> first_file_, original_file_;
  std::vector<float> decays_;  // of each update since first_; room for all is reserved
  std::size_t noted_at_ = 0;   // how many of them came before original_
};

}  // namespace plimsoll
