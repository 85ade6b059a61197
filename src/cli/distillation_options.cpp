// The options of a run that learns from another model besides its labels.
#include "base/error.h"
#include "cli/run_options.h"
#include "cli/usage.h"

namespace plimsoll {

void add_distillation_options(Command* command, RunOptions& o) {
  command->heading("Distillation");
  command
      ->add_option("--distil-from", o.teacher.model,
                   "Directory of a trained model, the teacher: its outputs for each page are learnt besides the "
                   "labels. It reads and predicts the same as the model that learns; both are in one plan")
      ->type_name("DIR");
  command
      ->add_option("--teacher-cache", o.teacher.cache,
                   "Directory of a file that keeps what the teacher computes of each page, so that its weights need no "
                   "memory, and its computation no time, while the student trains. It is computed before the first "
                   "update, and again only for another teacher, other data or another precision; the plan says how "
                   "large it is")
      ->type_name("DIR");
  add_distillation_loss_options(command, o);
}

void add_distillation_loss_options(Command* command, RunOptions& o) {
  DistillationOptions& by = o.train.distillation;
  command->heading("Distillation");
  number(command->add_option("--distil-logits", by.logits,
                             "Factor of the loss of the teacher's predictions (0: none of it); the labels' is 1"),
         0, 1e6)
      ->capture_default_str();
  number(command->add_option("--distil-temperature", by.temperature, "Temperature of both predictions"), 0, 1000, true)
      ->capture_default_str();
  number(
      command->add_option("--distil-hidden", by.hidden,
                          "Factor of the mean squared difference of the layers' states, which have one width; layers "
                          "of a model with fewer learn from those evenly spaced in the teacher"),
      0, 1e6)
      ->capture_default_str();
  number(command->add_option("--distil-relations", by.relations,
                             "Factor of the loss of how tokens relate in the last layer's queries, keys and values "
                             "(MiniLMv2), for models of any width"),
         0, 1e6)
      ->capture_default_str();
  one_of(command->add_option("--teacher-bits", o.teacher_bits,
                             "How the teacher's weights are held: 32 (as the run computes), 8 or 4"),
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
