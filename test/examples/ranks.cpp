// Compiles the examples of src/ranks, and of what other folders do with ranks.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "fit/session.h"
#include "ranks/communicator.h"
#include "ranks/launcher.h"
#include "ranks/rendezvous.h"
#include "train/rank_agreement.h"
#include "transform/data_parallel.h"
#include "transform/parameter_shards.h"
#include "transform/shards.h"

namespace plimsoll::examples {

void of_communicator(Communicator& communicator, std::int64_t ticket, std::span<std::byte> theirs,
                     std::span<const std::byte> mine) {
#include "ranks/communicator.h.inc"
}

void connect(const Launch& launch);
void of_launcher() {
#include "ranks/launcher.h.inc"
}

void of_rendezvous(const Launch& launch) {
#include "ranks/rendezvous.h.inc"
}

void of_shards(const std::vector<ShardedParameter>& parameters) {
#include "transform/shards.h.inc"
}

void of_data_parallel(Graph graph, Gradients& gradients, const Shards& shards, const RankOptions& options) {
#include "transform/data_parallel.h.inc"
}

void of_parameter_shards(Graph graph, const Shards& shards, const RankOptions& options) {
#include "transform/parameter_shards.h.inc"
}

void of_rank_agreement(const Session& session, const Interrupt& interrupt, std::optional<BadPageError>& bad,
                       double loss) {
#include "train/rank_agreement.h.inc"
}

}  // namespace plimsoll::examples
