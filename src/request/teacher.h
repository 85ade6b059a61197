// The model that a run learns from besides its labels, opened and compared with the one that learns.
//
//   train.teacher = open_teacher({.model = "run"}, bundle, train.distillation);
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bundle/model_bundle.h"
#include "data/dataset.h"
#include "fit/fit.h"
#include "request/memory.h"
#include "tensor/dtype.h"
#include "train/options.h"
#include "train/teacher_file.h"
#include "transform/distillation.h"

namespace plimsoll {

struct TeacherRequest {
  std::string model{};            // directory; empty: none
  std::filesystem::path cache{};  // directory of the file that keeps its outputs; empty: each step computes them
  DType weights = DType::kF32;    // of its weights; Q8 or NF4: activations are rounded, too, if faster
};

// Throws UsageError if the two do not read and predict the same (family, tokenizer, image, task, labels), or if they
// cannot be compared in the way that `distillation` asks for; and what open_trained_model throws.
std::shared_ptr<const ModelBundle> open_teacher(const TeacherRequest& request, const ModelBundle& student,
                                                const DistillationOptions& distillation);

// Returns the teacher in `options`, as part of a step.
TeacherOptions teacher_options(const TrainOptions& options);

// Returns the file in which `cache` keeps the outputs of options.teacher for the data: its name depends on the
// teacher's weights and how they are held, the precision, the data, what is compared and the device. `rounds`: coded
// weights are multiplied as bytes (Backend::multiplies_int8). Throws UsageError if pages change from epoch to epoch or
// are padded.
std::shared_ptr<const TeacherFile> teacher_file(const std::filesystem::path& cache, const ModelBundle& student,
                                                const TrainOptions& options, const Dataset& data, bool rounds,
                                                bool on_device);

// Makes the request to plan the computation of that file, in one process.
FitRequest teaching_request(const TrainOptions& options, const Dataset& data, const TeacherFile& file,
                            const MemoryRequest& memory);

}  // namespace plimsoll
