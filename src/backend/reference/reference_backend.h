// ReferenceBackend: every op of the catalogue as obvious loops, the oracle that other backends are compared with.
//
// A graph is wholly in F32 or wholly in F64 (scalars that the catalogue types as f32 or f64 stay so). Every sum runs in
// double and in index order, so results do not depend on a machine or on threads. Reading the loops is reading the
// specification; speed is no aim. Invariants kept for all ops: rows beyond the row count are neither read nor written;
// an output may be the same memory as an input where op_aliases says kMay and must be where it says kMust (checked).
//
//   ReferenceBackend backend;
//   std::unique_ptr<Kernel> kernel = backend.prepare(graph, node);
#pragma once

#include "backend/backend.h"

namespace plimsoll {

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  // Throws InternalError where the node's floating type is neither F32 nor F64.
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;
};

}  // namespace plimsoll
