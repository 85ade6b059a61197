// The scratch of all_to_all_rows_begin on a GPU: a message has room for as many rows as a rank may ask for, because the
// host does not know how many there are, and the rows from one owner arrive here before they are moved to their places.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/scratch.h"
#include "graph/graph.h"

namespace plimsoll::cuda {

struct AllToAllScratch {
  AllToAllScratch(const Graph& graph, const Node& node)
      : ids(graph.type(node.outputs[1]).shape.elements()),
        row_bytes(graph.type(node.outputs[0]).shape[1] *
                  static_cast<std::int64_t>(dtype_bytes(graph.type(node.outputs[0]).dtype))),
        firsts(layout.add<std::int32_t>(std::get<CollectiveAttributes>(node.attributes).ranks + 1)),
        arrived(layout.add<std::byte>(ids * row_bytes)) {}

  ScratchLayout layout{};
  std::int64_t ids, row_bytes;  // of a rank
  std::size_t firsts;           // where each owner's rows begin among those that this rank asks for, and their number
  std::size_t arrived;
};

}  // namespace plimsoll::cuda
