// take_rows, join_rows and put_rows for backends that compute on the host: copies of any type.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace plimsoll {

std::unique_ptr<Kernel> make_take_rows_kernel(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_join_rows_kernel(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_put_rows_kernel(const Graph& graph, const Node& node);

}  // namespace plimsoll
