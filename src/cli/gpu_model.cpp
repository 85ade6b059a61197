#include "cli/gpu_model.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "fit/calibration.h"

namespace plimsoll {

using cuda::KindSum;

namespace {

// Sums all parts, each as often as an update runs it.
template <typename Parts>
std::array<KindSum, cuda::kWorkKinds> sums_of(const Parts& parts) {
  std::array<KindSum, cuda::kWorkKinds> sums{};
  for (const auto& part : parts) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const KindSum& of_run = part.model.kinds[k];
      sums[k].starts += static_cast<int>(part.runs) * of_run.starts;
      sums[k].flops += static_cast<double>(part.runs) * of_run.flops;
      sums[k].bytes += static_cast<double>(part.runs) * of_run.bytes;
      sums[k].seconds += static_cast<double>(part.runs) * of_run.seconds;
    }
  }
  return sums;
}

// Returns how long a GPU takes for one of attention's scores.
double score_seconds(const cuda::GpuRates& gpu, cuda::CountedWork counted) {
  const double share = cuda::kIssueShares.at(static_cast<std::size_t>(counted));
  return cuda::instructions_each(counted) / (share * gpu.instructions);
}

KindSum total_of(const std::array<KindSum, cuda::kWorkKinds>& sums) {
  KindSum total;
  for (const KindSum& kind : sums) {
    total.starts += kind.starts;
    total.flops += kind.flops;
    total.bytes += kind.bytes;
    total.seconds += kind.seconds;
  }
  return total;
}

std::string row(std::string_view name, const KindSum& sum, double whole) {
  return fmt::format("  {:<24}{:>8}{:>12.3f}{:>12.2f}{:>12.2f}{:>9.1f} %\n", name, sum.starts, 1e-12 * sum.flops,
                     1e-9 * sum.bytes, 1e3 * sum.seconds, whole > 0 ? 100 * sum.seconds / whole : 0);
}

}  // namespace

OpSpeeds gpu_speeds(const cuda::GpuRates& gpu) {
  using cuda::CountedWork;
  const bool groups = gpu.warpgroups;
  return device_speeds(
      {.float_flops = gpu.float_flops,
       .half_flops = gpu.half_flops,
       .memory_bytes = gpu.memory_bytes,
       .score_seconds = score_seconds(gpu, groups ? CountedWork::kGroupScores : CountedWork::kScores),
       .score_grad_seconds = score_seconds(gpu, groups ? CountedWork::kGroupScoresGrad : CountedWork::kScoresGrad),
       .seconds_per_start = cuda::kSecondsBetweenKernels});
}

GpuModel::GpuModel(const RunPlan& plan, const cuda::GpuRates& gpu) : gpu_(gpu) {
  for (const PlannedProgram& program : plan.programs) {
    const std::int64_t runs = runs_per_update(plan, program.kind);
    if (runs == 0) continue;
    Part part{.kind = program.kind, .runs = runs, .model = cuda::model_step(program.prepared.graph, gpu), .nodes = {}};
    for (const cuda::ModelledKernel& kernel : part.model.kernels) part.nodes.emplace_back(kernel.node);
    parts_.push_back(std::move(part));
  }
}

std::string GpuModel::text() const {
  const auto sums = sums_of(parts_);
  const KindSum total = total_of(sums);
  std::string text =
      fmt::format("an update on {}, by a model of its kernels (not measured)\n  {:<24}{:>8}{:>12}{:>12}{:>12}{:>11}\n",
                  gpu_.full_name, "", "launches", "TFLOP", "GB", "ms", "share");
  for (std::size_t k = 0; k < sums.size(); ++k) {
    if (sums[k].starts > 0) text += row(cuda::work_kind_name(static_cast<cuda::WorkKind>(k)), sums[k], total.seconds);
  }
  text += row("together", total, total.seconds);
  text += fmt::format(
      "  {:.1f} % of the rate of matrix products; taken for granted: {:.0f} TFLOP/s in halves, {:.0f} in F32,\n"
      "  {:.2f} TB/s, {:.1f} us from one kernel to the next\n",
      total.seconds > 0 ? 100 * total.flops / (total.seconds * gpu_.half_flops) : 0, 1e-12 * gpu_.half_flops,
      1e-12 * gpu_.float_flops, 1e-12 * gpu_.memory_bytes, 1e6 * cuda::kSecondsBetweenKernels);
  return text;
}

nlohmann::json GpuModel::json() const {
  const auto sums = sums_of(parts_);
  const KindSum total = total_of(sums);
  const auto of_sum = [](const KindSum& sum) {
    return nlohmann::json{{"starts", sum.starts}, {"flops", sum.flops}, {"bytes", sum.bytes}, {"seconds", sum.seconds}};
  };
  nlohmann::json kinds = nlohmann::json::object(), programs = nlohmann::json::array();
  for (std::size_t k = 0; k < sums.size(); ++k) {
    if (sums[k].starts > 0) kinds[std::string(cuda::work_kind_name(static_cast<cuda::WorkKind>(k)))] = of_sum(sums[k]);
  }
  for (const Part& part : parts_) {
    nlohmann::json kernels = nlohmann::json::array();
    for (std::size_t i = 0; i < part.model.kernels.size(); ++i) {
      const cuda::ModelledKernel& kernel = part.model.kernels[i];
      kernels.push_back({{"node", part.nodes[i]},
                         {"kernel", kernel.work.kernel},
                         {"kind", cuda::work_kind_name(kernel.work.kind)},
                         {"starts", kernel.work.starts},
                         {"flops", kernel.work.flops},
                         {"bytes", kernel.work.bytes},
                         {"count", kernel.work.count},
                         {"seconds", kernel.seconds},
                         {"limit", cuda::limit_name(kernel.limit)}});
    }
    programs.push_back(
        {{"program", program_kind_name(part.kind)}, {"runs", part.runs}, {"kernels", std::move(kernels)}});
  }
  return {{"gpu", gpu_.name},
          {"is_model", true},
          {"assumed",
           {{"half_flops", gpu_.half_flops},
            {"float_flops", gpu_.float_flops},
            {"memory_bytes_per_second", gpu_.memory_bytes},
            {"instructions_per_second", gpu_.instructions},
            {"issue_shares", cuda::kIssueShares},
            {"seconds_between_kernels", cuda::kSecondsBetweenKernels}}},
          {"together", of_sum(total)},
          {"kinds", std::move(kinds)},
          {"programs", std::move(programs)}};
}

}  // namespace plimsoll
