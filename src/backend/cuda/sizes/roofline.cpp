#include "backend/cuda/sizes/roofline.h"

#include <algorithm>

#include "backend/cuda/sizes/products.h"
#include "base/error.h"
#include "graph/product_batches.h"
#include "graph/update_form.h"

namespace plimsoll::cuda {
namespace {

// Counted instructions, by CountedWork.
constexpr std::array<double, 8> kInstructions = {
    0,
#include "backend/cuda/sizes/instructions.inc"
};

ModelledKernel modelled(std::string_view node, const KernelWork& work, const GpuRates& gpu) {
  const double products = work.flops / (work.of_halves ? gpu.half_flops : gpu.float_flops);
  const double memory = work.bytes / gpu.memory_bytes;
  const bool by_groups = gpu.warpgroups && work.counted_by_groups != CountedWork::kNone;
  const CountedWork counted = by_groups ? work.counted_by_groups : work.counted;
  const double share = kIssueShares.at(static_cast<std::size_t>(counted));
  const double issued = work.count * instructions_each(counted) / (share * gpu.instructions);
  const double gaps = work.starts * kSecondsBetweenKernels;
  const double busy = std::max({products, memory, issued});
  const Limit limit = busy <= gaps       ? Limit::kGap
                      : busy == products ? Limit::kProducts
                      : busy == memory   ? Limit::kMemory
                                         : Limit::kInstructions;
  return {.node = node, .work = work, .seconds = busy + gaps, .limit = limit};
}

// Returns a number for the update's form (coded moments or not, by rows or not): one launch takes updates of one form.
int form_number(const Graph& graph, const Node& node) {
  const UpdateForm form = update_form(graph, node);
  return (form.coded ? 2 : 0) + (form.by_rows ? 1 : 0);
}

bool is_adamw(const Node& node) { return node.op == Op::kAdamW || node.op == Op::kAdamWRows; }

// Joins consecutive updates: those of one form are launched together, as many as one launch takes.
void join(const Graph& graph, std::vector<ModelledKernel>& kernels, std::size_t first,
          std::span<const Node* const> nodes) {
  std::array<int, 4> taken{};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    int& of_form = taken[static_cast<std::size_t>(form_number(graph, *nodes[i]))];
    kernels[first + i].work.starts = of_form++ % kMostJoinedUpdates == 0 ? 1 : 0;
  }
}

// Returns whether a node is the library's product alone.
bool is_plain_product(const Graph& graph, const Node& node) {
  if (!is_product(node.op)) return false;
  return node.op == Op::kLinearWeightGrad ? WeightGradientForm(graph, node).is_plain()
                                          : RowProductForm(graph, node).is_plain();
}

}  // namespace

const GpuRates* find_gpu(std::string_view name) {
  const auto found = std::ranges::find(kGpuRates, name, &GpuRates::name);
  return found == kGpuRates.end() ? nullptr : &*found;
}

double instructions_each(CountedWork counted) { return kInstructions.at(static_cast<std::size_t>(counted)); }

std::string_view limit_name(Limit limit) {
  static constexpr std::array<std::string_view, 4> kNames = {"products", "memory", "instructions", "starts"};
  return kNames[static_cast<std::size_t>(limit)];
}

int StepModel::starts() const {
  int sum = 0;
  for (const KindSum& kind : kinds) sum += kind.starts;
  return sum;
}
double StepModel::flops() const {
  double sum = 0;
  for (const KindSum& kind : kinds) sum += kind.flops;
  return sum;
}
double StepModel::seconds() const {
  double sum = 0;
  for (const KindSum& kind : kinds) sum += kind.seconds;
  return sum;
}

StepModel model_step(const Graph& graph, const GpuRates& gpu) {
  StepModel model;
  std::vector<const Node*> updates;
  const auto end_updates = [&] {
    if (updates.size() > 1) join(graph, model.kernels, model.kernels.size() - updates.size(), updates);
    updates.clear();
  };
  std::size_t batch_end = 0;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (!is_adamw(node)) end_updates();
    const bool in_batch = n < batch_end;
    if (!in_batch && is_plain_product(graph, node)) batch_end = n + batched_products(graph, n);
    for (KernelWork work : kernel_work(graph, node)) {
      // A batch is launched once.
      if (in_batch && work.kernel == kLibraryProduct) work.starts = 0;
      model.kernels.push_back({.node = node.name, .work = work});
    }
    if (is_adamw(node)) updates.push_back(&node);
  }
  end_updates();
  for (ModelledKernel& kernel : model.kernels) {
    kernel = modelled(kernel.node, kernel.work, gpu);
    KindSum& kind = model.kinds[static_cast<std::size_t>(kernel.work.kind)];
    kind.starts += kernel.work.starts;
    kind.flops += kernel.work.flops;
    kind.bytes += kernel.work.bytes;
    kind.seconds += kernel.seconds;
  }
  return model;
}

}  // namespace plimsoll::cuda
