// A plan as PyTorch's memory snapshot, which pytorch.org/memory_viz draws and torch.cuda._memory_viz opens: the trace
// has an allocation for each tensor at the address that the plan gives it, and a release when it dies, in the order of
// the step's nodes. The programs of a run follow one another.
//
//   write_text_parts("plan.pickle", [&](const TextSink& write) { write_memory_viz(*run.arena, write); });
//
// A tensor's innermost frame has its name, kind and lever, the next ones the node that makes it, its op and phase, and
// the program. Times are estimates, in microseconds.
#pragma once

#include "base/file.h"
#include "report/facts.h"

namespace plimsoll::report {

void write_memory_viz(const Arena& arena, const TextSink& write);

}  // namespace plimsoll::report
