// Reconstruction: the maps that read the kept units learn to compensate for the removed ones. Layer by layer, from the
// first to the last, the weights and the bias of each map that reads pruned columns are solved for by ridge regression,
// so that its sublayer's output on the calibration pages comes closest to the whole model's. The pruned model's output
// is computed from its own earlier layers, so their errors are compensated, too. If whole layers were removed, the last
// norm before them learns their output: a factor and a shift for each of its columns.
//
// Kwon et al. 2022 tune one factor for each unit by least squares; here all weights of the map are unknowns, because
// the normal equations are as cheap and leave less error.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "compress/pruned_units.h"
#include "compress/window_pass.h"
#include "fit/session.h"

namespace plimsoll {

class Reconstruction {
 public:
  struct Options {
    double ridge = 1e-2;  // on the change of the weights, relative to each column's mean square
  };
  // Holds all memory that it needs besides the sessions, so that it is counted when these are planned. `groups` and
  // `encoder` are those of the pruned model's layers. `rows` is the most rows of the encoder in a window.
  Reconstruction(const std::vector<WeighedUnits>& groups, const Masks& masks, const Encoder& encoder, std::int64_t rows,
                 Backend& backend, const Options& options);
  ~Reconstruction();

  // Returns the bytes that an object holds of the host's memory and of the device's, if every unit is kept.
  struct Bytes {
    std::size_t host = 0, device = 0;
  };
  static Bytes most_bytes(const std::vector<WeighedUnits>& groups, const Encoder& encoder, std::int64_t rows,
                          Backend& backend);

  // `whole` and `pruned` have the program kEvaluate for one window, each with its parameters loaded: `pruned` has the
  // remaining layers, and `sources` names the whole model's parameter for each of its own. Stores in `pruned` the
  // weights that were solved for, with zeros in the removed columns. For as many windows as fit into `kept_bytes`,
  // states are kept from one map to the next; for the others, all layers before a map are computed again.
  void run(const Session& whole, const Session& pruned, const std::map<std::string, std::string>& sources,
           const WindowPass& pass, std::size_t kept_bytes);

 private:
  class Normal;  // the normal equations of one map
  class Walk;
  class Windows;
  struct Map {
    std::string name;
    std::int64_t out = 0, in = 0;
    std::vector<std::int64_t> kept;  // its input columns
  };
  // A place where the two models are compared: the end of a map's sublayer, or a norm before removed layers.
  struct Step {
    const Map* map = nullptr;  // nullptr: a norm
    std::string norm{};
    std::size_t pruned_begin = 0, linear = 0;   // nodes of the pruned model; `linear` computes the map
    std::size_t pruned_end = 0, whole_end = 0;  // the last nodes of the place
  };

  std::vector<Step> steps_of(const Session& whole, const Session& pruned,
                             const std::map<std::string, std::string>& sources) const;
  void solve_map(const Step& step, const Session& pruned, Windows& windows);
  void solve_norm(const Step& step, const Session& pruned, Windows& windows);

  Backend& backend_;
  Options options_;
  std::int64_t rows_;
  std::set<std::string> layer_ends_;
  std::vector<Map> maps_;
  std::unique_ptr<Normal> normal_;
};

}  // namespace plimsoll
