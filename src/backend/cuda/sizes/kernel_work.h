// The kernels that a node launches on a GPU, and their work: arithmetic of matrix products, bytes of device memory, and
// numbers that a kernel spends a known count of instructions on. They are counted from shapes alone, so that a run can
// be planned without the GPU; roofline.h turns the work into time.
//
//   for (const KernelWork& kernel : kernel_work(graph, node)) starts += kernel.starts;
//
// Every tensor counts once for each kernel that reads or writes it, with all rows real: reading again from L2 costs no
// device memory. The launches are the same as the emulator's, for every op case (test/backend/kernel_work_test.cpp).
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace plimsoll::cuda {

// Sums by kind count a kernel under one of these.
enum class WorkKind : std::uint8_t {
  kProducts,
  kAttention,
  kAttentionGrad,
  kElementwise,  // and moves of rows
  kNormalisation,
  kReductions,  // gradients of biases, norms
  kEmbeddings,
  kUpdates,
  kLoss,
  kExchange  // offloads, and messages between ranks
};
inline constexpr std::size_t kWorkKinds = 10;
std::string_view work_kind_name(WorkKind kind);

// What a kernel spends its instructions on, if they may take longer than memory and products; how many it spends on
// each is counted in its machine code (tools/kernel_instructions.py).
enum class CountedWork : std::uint8_t {
  kNone,
  kBiases,
  kScores,
  kScoresGrad,
  kGroupScores,  // by warpgroups
  kGroupScoresGrad,
  kGelu,
  kGeluGrad
};

// The name of the library's products.
inline constexpr std::string_view kLibraryProduct = "cublasLt";

struct KernelWork {
  std::string_view kernel;  // its name in the source, or kLibraryProduct
  WorkKind kind = WorkKind::kElementwise;
  int starts = 1;
  double flops = 0;        // of matrix products, two a multiply-add
  bool of_halves = false;  // they are products of halves, which tensor cores compute
  double bytes = 0;        // of device memory, read and written
  CountedWork counted = CountedWork::kNone;
  CountedWork counted_by_groups = CountedWork::kNone;  // used instead if the GPU has warpgroups, unless kNone
  double count = 0;                                    // scores, or values
};

// Returns the kernels in the order of their launches. Each update counts as if it were alone; neighbours are launched
// together.
std::vector<KernelWork> kernel_work(const Graph& graph, const Node& node);

// How many neighbouring updates of AdamW one launch may do.
inline constexpr int kMostJoinedUpdates = 20;

}  // namespace plimsoll::cuda
