// The map of a plan's arena as arena.json holds it: every tensor with its bytes, its place and the nodes between which
// it lives, and every node with its estimated time. `plimsoll report` draws it.
//
//   write_arena_file(session, speeds, output_dir / "arena.json");
#pragma once

#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "fit/session.h"

namespace plimsoll {

// Passes the JSON text to `write` line by line, so that it is never held as a whole: a run writes it when its arena is
// already allocated.
//
//   {"version": 1, "arena_bytes": …, "persistent_bytes": …,
//    "persistent": [[name, kind, lever, offset, bytes], …],
//    "programs": [{"kind", "runs", "transient_bytes", "peak_node",
//                  "nodes": [[name, op, phase, seconds], …],
//                  "tensors": [[name, kind, lever, offset, bytes, first node, node after the last], …]}, …]} (JSON)
//
// Offsets are from the arena's start. `runs` is how often an update runs the program, 0 for an evaluation. A tensor's
// kind is "parameter", "frozen parameter", "optimizer state", "summed gradient", "batch", "activation", "gradient" or
// "scratch". Its lever is "kept" (it waits for a later phase, or is always there), "recomputed", "offloaded", or
// "brief" (it dies in the phase in which it is made). Seconds are estimates with every row real.
void write_arena(const RunPlan& plan, const OpSpeeds& speeds, const TextSink& write);
void write_arena(const Session& session, const OpSpeeds& speeds, const TextSink& write);

// Writes that text to a file. Throws EnvironmentError (disk).
void write_arena_file(const Session& session, const OpSpeeds& speeds, const std::filesystem::path& path);

}  // namespace plimsoll
