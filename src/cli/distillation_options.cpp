// The options of a run that learns from another model besides its labels.
#include "base/error.h"
#include "cli/run_options.h"
#include "cli/usage.h"

namespace plimsoll {

void add_distillation_options(Command* command, RunOptions& o) {
  command->heading("Distillation");
  command
      ->add_option("--distil-from", o.teacher.model,
                   "Directory of a trained model, the teacher, whose outputs the student learns in addition to the "
                   "labels. Both must read the same inputs and predict the same labels; one plan covers both")
      ->type_name("DIR");
  command
      ->add_option(
          "--teacher-cache", o.teacher.cache,
          "Directory for a file of the teacher's outputs for every page, so that its weights take no memory and its "
          "forward pass no time while the student trains. The file is made before the first update, and made again "
          "only if the teacher, the data or the precision changes; the plan says how large it is")
      ->type_name("DIR");
  add_distillation_loss_options(command, o);
}

void add_distillation_loss_options(Command* command, RunOptions& o) {
  DistillationOptions& by = o.train.distillation;
  command->heading("Distillation");
  number(command->add_option(
             "--distil-logits", by.logits,
             "Weight of the loss against the teacher's predictions (0: unused); the loss against the labels weighs 1"),
         0, 1e6)
      ->capture_default_str();
  number(command->add_option("--distil-temperature", by.temperature,
                             "Temperature of the teacher's and the student's predictions"),
         0, 1000, true)
      ->capture_default_str();
  number(command->add_option("--distil-hidden", by.hidden,
                             "Weight of the squared difference between hidden states, which must have the same width: "
                             "a mean over columns, layers and rows (tokens and patches). A student with fewer layers "
                             "learns from evenly spaced layers of the teacher"),
         0, 1e6)
      ->capture_default_str();
  number(command->add_option("--distil-relations", by.relations,
                             "Weight of the loss on how tokens relate to each other in the last layer's queries, keys "
                             "and values (MiniLMv2), for models of any width; a mean over heads and rows"),
         0, 1e6)
      ->capture_default_str();
  one_of(command->add_option("--teacher-bits", o.teacher_bits,
                             "Bits of the teacher's weights: 32 (as the run computes), 8 or 4"),
         {"32", "8", "4"})
      ->type_name("BITS")
      ->capture_default_str();
}

void take_teacher(RunOptions& options, const ModelBundle& bundle) {
  options.teacher.weights = options.teacher_bits == "8"   ? DType::kQ8
                            : options.teacher_bits == "4" ? DType::kNF4
                                                          : DType::kF32;
  options.train.teacher = open_teacher(options.teacher, bundle, options.train.distillation);
  if (options.train.teacher == nullptr || options.ranks.launch.size < 2) return;
  if (options.memory.zero_stage.value_or(3) < 3) return;
  throw UsageError({.what = "a teacher is whole on each rank",
                    .where = "--distil-from, --zero-stage",
                    .found = "ranks that may keep parts of parameters",
                    .allowed = "--zero-stage 0, 1 or 2",
                    .remedy = "pass --zero-stage 2"});
}

}  // namespace plimsoll
