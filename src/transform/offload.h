// Offload: optimizer states, activations that backward reads, and parameters live in a file between their uses.
// (ZeRO-Offload and ZeRO-Infinity do this for far larger models: Ren et al. 2021, Rajbhandari et al. 2021.)
//
// Only the place of bytes changes; every node computes the same numbers from the same bits. An update whose moments are
// offloaded is cut into parts of a few MiB, so that staging takes a few pieces however large the parameter is: each
// part is fetched one part ahead of its update, and stored while the next one is updated. An activation is stored where
// it is made, and fetched some time before backward reads it. That time follows from estimated seconds, so that staging
// is held only as long as needed to hide the disk.
//
// A parameter is fetched shortly before a node reads it, in forward and again in backward, and its bytes are free after
// that. One that trains is updated together with its moments: part by part, each of which is fetched and stored with
// them. One that does not train is read from the model's own file, if it is there in the type that it has in memory or
// in a narrower one.
//
//   std::vector<Offloading> ranked = rank_offloads(graph, options);
//   graph = offload(graph, {ranked[0].name, ranked[1].name}, options, layout);   // last of all transforms
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/stored_tensor.h"

namespace plimsoll {

// The places of offloaded tensors in the file. One layout serves all programs of a run: a name has one place.
class OffloadLayout {
 public:
  struct Piece {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  // A state of the optimizer; its pieces cover it from its first byte to its last.
  struct State {
    TensorType type;
    std::vector<Piece> pieces;
  };
  // A parameter, or the lower half of one, in one piece.
  struct Parameter {
    TensorType type;
    std::uint64_t offset = 0;
    std::optional<StoredTensor> stored;  // set if it is read from the model's own file
    std::size_t file_bytes() const { return stored ? TensorType{stored->dtype, type.shape}.bytes() : type.bytes(); }
  };

  // Returns the place of that name; a new one is added at the end of the file. Throws InternalError if its size
  // differs.
  Piece place(const std::string& name, std::size_t bytes);
  void set_state(const std::string& name, State state) { states_[name] = std::move(state); }

  // Returns the place of a parameter; a new one is added at the end of the file, or refers to `stored` if it is read
  // from there.
  const Parameter& place_parameter(const std::string& name, const TensorType& type, const StoredTensor* stored);

  const std::map<std::string, State>& states() const { return states_; }
  const std::map<std::string, Parameter>& parameters() const { return parameters_; }
  bool empty() const { return places_.empty() && parameters_.empty(); }
  // Return the bytes of the offload file, and the parts of them that states, parameters and activations take.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t state_bytes() const;
  std::uint64_t parameter_bytes() const;
  std::uint64_t activation_bytes() const;
  // Returns the bytes of the parameters that are read from files of their own; `parameter_bytes` does not include them.
  std::uint64_t in_place_bytes() const;

 private:
  std::map<std::string, Piece> places_;
  std::map<std::string, State> states_;
  std::map<std::string, Parameter> parameters_;
  std::uint64_t bytes_ = 0;
  std::uint64_t outside_bytes_ = 0;  // of what is read from other files, from kOutsideOffset on
};

// Returns "1.2 GiB of parameters and 80 MiB of activations".
std::string offloaded_text(const OffloadLayout& layout);

// Something that may be offloaded: an update node with its moments, an activation, or a parameter; one that trains
// takes its moments along.
struct Offloading {
  enum class Kind : std::uint8_t { kState, kActivation, kParameter };

  std::string name;  // the update node's, or the value's
  Kind kind = Kind::kState;
  std::size_t bytes = 0;  // freed in memory, without the staging buffers
};

struct OffloadOptions {
  // The seconds that a node takes; below, those that the disk takes per byte.
  std::function<double(const Graph&, const Node&)> node_seconds;
  double read_seconds_per_byte = 0, write_seconds_per_byte = 0;
  std::size_t piece_bytes = std::size_t{4} << 20;      // largest piece of a moment
  std::size_t smallest_bytes = std::size_t{64} << 10;  // smaller ones stay: the disk is hardly faster for them
  // Parameters that do not change and are in a file already, by name; nullptr: none.
  const std::map<std::string, StoredTensor>* stored = nullptr;
};

// Returns what may be offloaded, in the order in which it is offloaded as the need for memory grows: states, with the
// smallest that make whole pieces first, so that no more is offloaded than needed; activations that backward reads, in
// the order in which they are made, since the first is needed last; and parameters in the order in which they are used,
// if one process has them whole. Tables for look-ups stay in memory, and so does a head that trains, which may be
// updated in parts.
std::vector<Offloading> rank_offloads(const Graph& graph, const OffloadOptions& options);

// `names` are names from rank_offloads of a step; others are ignored (a value may be recomputed instead). The other
// programs of a run take the same names, since what is offloaded lies in no program's memory. Offloaded states and
// parameters are no longer sources of the graph: `layout` says where they are.
Graph offload(const Graph& graph, const std::set<std::string>& names, const OffloadOptions& options,
              OffloadLayout& layout);

}  // namespace plimsoll
