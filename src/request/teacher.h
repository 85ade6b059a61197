// The model that a run learns from beside its labels, opened and compared with the one that learns.
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
  std::filesystem::path cache{};  // directory of the file that keeps what it computes; empty: each step computes it
  DType weights = DType::kF32;    // how they are held; Q8 or NF4: and activations are rounded where that is faster
};

// Throws UsageError where the two do not read and predict the same: family, tokenizer, image, task, labels; where
// `distillation` asks for something that they cannot be compared in; and what open_trained_model throws.
std::shared_ptr<const ModelBundle> open_teacher(const TeacherRequest& request, const ModelBundle& student,
                                                const DistillationOptions& distillation);

// The teacher that `options` name, as part of a step.
TeacherOptions teacher_options(const TrainOptions& options);

// The file in which `cache` keeps what options.teacher computes of the data: its name tells apart the teacher's weights
// and how they are held, the precision, the data, what is compared and the device. `rounds`: whether products of coded
// weights are those of bytes (Backend::multiplies_int8). Throws UsageError where pages change from epoch to epoch or
// are padded.
std::shared_ptr<const TeacherFile> teacher_file(const std::filesystem::path& cache, const ModelBundle& student,
                                                const TrainOptions& options, const Dataset& data, bool rounds,
                                                bool on_device);

// What is to be planned to compute that file, in one process.
FitRequest teaching_request(const TrainOptions& options, const Dataset& data, const TeacherFile& file,
                            const MemoryRequest& memory);

}  // namespace plimsoll
