#include "request/teacher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "request/fit_request.h"

namespace plimsoll {
namespace {

bool same_tokens(const Tokenizer& a, const Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) return false;
  for (std::int32_t id = 0; id < a.vocab_size(); ++id) {
    if (a.id_to_token(id) != b.id_to_token(id)) return false;
  }
  return true;
}

void refuse(const char* what, const TeacherRequest& request, std::string teacher, std::string student,
            const char* remedy) {
  throw UsageError({.what = what,
                    .where = "--distil-from",
                    .found = fmt::format("{}: {}; the model that learns: {}", request.model, teacher, student),
                    .allowed = "a teacher that reads and predicts the same",
                    .remedy = remedy});
}

void compare(const TeacherRequest& request, const ModelBundle& teacher, const ModelBundle& student) {
  const Encoder &of_teacher = *teacher.config.encoder, &of_student = *student.config.encoder;
  const auto refuse_if = [&](bool differs, const char* what, const auto& a, const auto& b, const char* remedy) {
    if (differs) refuse(what, request, fmt::format("{}", a), fmt::format("{}", b), remedy);
  };
  refuse_if(of_teacher.model_type() != of_student.model_type(), "the teacher is of another family",
            of_teacher.model_type(), of_student.model_type(), "make the student of the teacher's family");
  refuse_if(teacher.task().name() != student.task().name(), "the teacher was trained for another task",
            teacher.task().name(), student.task().name(), "train a teacher for this task first");
  if (student.task().reads_text()) {
    throw UsageError({.what = "language models are not distilled",
                      .where = "--distil-from",
                      .found = fmt::format("{}, for {}", request.model, student.task().name()),
                      .allowed = "a teacher and a student of another task",
                      .remedy = "omit --distil-from: the model learns from the texts alone"});
  }
  const EncoderFacts a = teacher.facts(), b = student.facts();
  refuse_if(!same_tokens(*teacher.tokenizer, *student.tokenizer) || !(a.token == b.token),
            "the teacher's tokenizer is another", counted(teacher.tokenizer->vocab_size(), "token"),
            counted(student.tokenizer->vocab_size(), "token") +
                (teacher.tokenizer->vocab_size() == student.tokenizer->vocab_size() ? ", others" : ""),
            "pass --tokenizer with the teacher's directory to a new student, or take one that was made of the teacher: "
            "plimsoll init --model TEACHER --num-hidden-layers 6 --output-dir student");
  refuse_if(!(a.image == b.image), "the teacher sees images of another size",
            fmt::format("{} in {}", counted(a.image.size, "pixel"), counted(a.image.patches(), "patch", "patches")),
            fmt::format("{} in {}", counted(b.image.size, "pixel"), counted(b.image.patches(), "patch", "patches")),
            "make the student with the teacher's input_size and patch_size");
  refuse_if(teacher.config.task.labels != student.config.task.labels, "the teacher predicts other labels",
            fmt::format("{}", fmt::join(teacher.config.task.labels, ", ")),
            fmt::format("{}", fmt::join(student.config.task.labels, ", ")),
            "pass the teacher's labels: --labels with the same names in the same order");
}

// Opens the model, and names the option that was typed in messages that would name --model.
ModelBundle open_named(const std::string& model) {
  try {
    return open_trained_model(model);
  } catch (const UsageError& error) {
    Problem problem = error.problem();
    if (problem.where != "--model") throw;
    problem.where = "--distil-from";
    problem.allowed = "the directory of a trained model";
    problem.remedy = "pass the --output-dir of the run that trained the teacher, or a model that was downloaded";
    throw UsageError(std::move(problem));
  }
}

}  // namespace

std::shared_ptr<const ModelBundle> open_teacher(const TeacherRequest& request, const ModelBundle& student,
                                                const DistillationOptions& distillation) {
  if (request.model.empty()) return nullptr;
  auto teacher = std::make_shared<ModelBundle>(open_named(request.model));
  check_weights(*teacher, MissingHead::kRefused);
  compare(request, *teacher, student);
  teacher->options.freeze = {"*"};
  if (is_coded(request.weights)) {
    teacher->options.frozen_weights = request.weights;
    teacher->options.rounds_activations = true;
  }
  const ModelCapacity small{.samples = 1, .text_rows = 16};
  const ModelGraph learning = student.definition().build(small, true, student.options);
  const ModelGraph teaching = teacher->definition().build(small, false, teacher->options);
  const std::string fault = distillation_fault(
      {.graph = &learning.graph, .loss = learning.loss, .layers = student.config.encoder->layer_outputs()},
      {.graph = &teaching.graph, .logits = teaching.logits, .layers = teacher->config.encoder->layer_outputs()},
      distillation);
  if (fault.empty()) return teacher;
  throw UsageError({.what = "the two models cannot be compared in what was asked for",
                    .where = "--distil-from, --distil-logits, --distil-hidden, --distil-relations",
                    .found = fault,
                    .allowed = "what both have in the same form",
                    .remedy =
                        "pass 0 for that loss: --distil-hidden 0 for states of other widths, --distil-logits 0 for "
                        "another task's loss"});
}

TeacherOptions teacher_options(const TrainOptions& options) {
  return {.definition = options.teacher->definition(),
          .model = options.teacher->options,
          .distillation = options.distillation,
          .values = options.teacher_file == nullptr ? TeacherValues::kComputed : TeacherValues::kInputs};
}

std::shared_ptr<const TeacherFile> teacher_file(const std::filesystem::path& cache, const ModelBundle& student,
                                                const TrainOptions& options, const Dataset& data, bool rounds,
                                                bool on_device) {
  const auto refuse_if = [](bool refused, const char* option, const char* what) {
    if (!refused) return;
    throw UsageError({.what = what,
                      .where = "--teacher-cache",
                      .found = option,
                      .allowed = "pages that are the same in every epoch",
                      .remedy = fmt::format("omit {}, or --teacher-cache", option)});
  };
  refuse_if(data.options().augment.has_value(), "--augment", "the teacher sees other pages in every epoch");
  refuse_if(options.pad_to > 0, "--pad-to-max-length", "what the teacher computes is kept without padding");
  const ModelBundle& teacher = *options.teacher;
  StepOptions step;
  step.definition = student.definition();
  step.model = student.options;
  step.precision = options.precision;
  step.teacher = teacher_options(options);
  std::vector<TaughtValue> values = taught_values(step);
  nlohmann::json config = nlohmann::json::object();
  teacher.config.encoder->write_config(config);
  Hasher hash;
  hash.add_text(teacher.weights->fingerprint());
  if (teacher.adapter) hash.add_text(teacher.adapter->fingerprint());
  hash.add_text(config.dump());
  hash.add_text(fmt::format("{} {} {} {} {}", teacher.task().name(), dtype_name(teacher.options.frozen_weights),
                            is_coded(teacher.options.frozen_weights) && rounds, precision_name(options.precision),
                            on_device));
  for (const TaughtValue& value : values) {
    hash.add_text(fmt::format("{} {} {} {}", value.name, dtype_name(value.dtype), value.columns, value.row_count));
  }
  const DatasetFingerprint& pages = data.fingerprint();
  hash.add_text(fmt::format("{} {} {} {}", pages.tokens, pages.images, data.size(), data.samples_per_example()));
  return std::make_shared<TeacherFile>(cache / fmt::format("teacher-{}.safetensors", hash_digits(hash.digest())),
                                       std::move(values), data, student.facts().image.visual_tokens());
}

FitRequest teaching_request(const TrainOptions& options, const Dataset& data, const TeacherFile& file,
                            const MemoryRequest& memory) {
  TrainOptions alone = options;
  alone.rank = 0;
  alone.ranks = 1;
  alone.teacher = nullptr;
  MemoryRequest its = memory;
  its.micro_batch_size.reset();
  its.held_bytes.reset();  // that is the student's
  FitRequest request = fit_request(*options.teacher, alone, nullptr, &data, its);
  request.result_bytes = 0;  // nothing is scored
  for (const TaughtValue& value : file.values()) request.step.kept_values.insert(value.name);
  return request;
}

}  // namespace plimsoll
