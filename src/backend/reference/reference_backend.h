// ReferenceBackend: implements every op of the catalogue by simple loops; other backends are compared with it.
//
// A graph is entirely in F32 or entirely in F64 (scalars that the catalogue types as f32 or f64 keep their type). Every
// sum runs in double and in index order, so results do not depend on a machine or on threads. The loops are the
// specification; speed is not a goal. Invariants for all ops: rows beyond the row count are neither read nor written;
// an output may alias an input where op_aliases says kMay and must alias it where it says kMust (checked).
//
//   ReferenceBackend backend;
//   std::unique_ptr<Kernel> kernel = backend.prepare(graph, node);
#pragma once

#include "backend/backend.h"

namespace plimsoll {

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  // Throws InternalError if the node's floating type is neither F32 nor F64.
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;
};

}  // namespace plimsoll
