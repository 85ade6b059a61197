// Compiles the examples of src/backend/reference.
#include <memory>

#include "backend/reference/loop_kernel.h"
#include "backend/reference/reference_backend.h"

namespace plimsoll::reference {

template <typename T>
void tanh(const KernelArguments& a);
#include "backend/reference/loop_kernel.h.inc"

}  // namespace plimsoll::reference

namespace plimsoll::examples {

void of_reference_backend(const Graph& graph, const Node& node) {
#include "backend/reference/reference_backend.h.inc"
}

}  // namespace plimsoll::examples
