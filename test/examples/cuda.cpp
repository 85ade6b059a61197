// Compiles the examples of src/backend/cuda as the emulator compiles its kernels.
#include <cstdint>

#include "backend/cuda/grouped_sums.h"
#include "backend/cuda/rank_exchange.h"
#include "backend/cuda/sizes/cuda_planner.h"
#include "backend/cuda/sizes/roofline.h"
#include "fit/fit.h"

namespace plimsoll {

void of_cuda_planner(const FitRequest& request) {
#include "backend/cuda/sizes/cuda_planner.h.inc"
}

}  // namespace plimsoll

namespace plimsoll::cuda {

void of_grouped_sums(const Context& context, const float* dy, const std::int32_t* ids, std::int32_t padding_idx,
                     const Rows& rows, const SumLists<1>& lists, std::int64_t most_items, std::int64_t unit) {
#include "backend/cuda/grouped_sums.h.inc"
}

void of_kernel_work(const Graph& graph, const Node& node, int starts) {
#include "backend/cuda/sizes/kernel_work.h.inc"
}

void of_roofline(const Graph& graph) {
#include "backend/cuda/sizes/roofline.h.inc"
}

void of_rank_exchange(RankExchange& exchange, std::span<const std::byte> bytes, std::span<std::byte> staging,
                      std::int64_t ticket) {
#include "backend/cuda/rank_exchange.h.inc"
}

}  // namespace plimsoll::cuda
