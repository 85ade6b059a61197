// Reconstruction: what reads the units that stay learns to make up for those that went. Layer by layer, from the first
// to the last, the weights and the bias of each map that reads pruned columns are solved for by ridge regression, so
// that its sublayer's output on the calibration pages comes closest to the whole model's. The whole model's output is
// compared with what the pruned one makes of its own earlier layers, so errors of these are made up for, too.
//
// Kwon et al. 2022 tune one factor for each unit by least squares; here all weights of the map are unknowns, because
// the normal equations are as cheap and leave less error.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "compress/pruned_units.h"
#include "compress/window_pass.h"
#include "fit/session.h"

namespace plimsoll {

class Reconstruction {
 public:
  struct Options {
    double ridge = 1e-2;  // of the change of the weights, relative to each column's mean square
  };
  // Holds all memory that it needs beside the sessions, so that it is counted where these are planned. `rows`: of the
  // encoder, that a window has at most.
  Reconstruction(const std::vector<WeighedUnits>& groups, const Masks& masks, const Encoder& encoder, std::int64_t rows,
                 Backend& backend, const Options& options);
  ~Reconstruction();

  // `whole` and `pruned` have the program kEvaluate of the same model for one window, each with its parameters loaded.
  // Leaves in `pruned` the weights that were solved for, with zeros in the columns that went.
  void run(const Session& whole, const Session& pruned, const WindowPass& pass);

 private:
  class Normal;  // the normal equations of one map
  struct Map {
    std::string name;
    std::int64_t out = 0, in = 0;
    std::vector<std::int64_t> kept;  // its input columns
  };

  void solve(const Map& map, const Session& whole, const Session& pruned, const WindowPass& pass);

  Backend& backend_;
  Options options_;
  std::int64_t rows_;
  std::vector<Map> maps_;
  std::unique_ptr<Normal> normal_;
};

}  // namespace plimsoll
