// The gradients of a model's loss with respect to a factor of each head and of each column, window by window: from
// these, the empirical Fisher information says how important each unit is for the loss (Kwon et al. 2022).
//
//   ModelBundle masked = bundle;
//   masked.options.masked_maps = masked_maps(*bundle.config.encoder);
//   load_model(masked, 0, [&](const std::string& name) { return session.parameter(name); });  // planned for `masked`
//   const std::int64_t windows = measure_mask_gradients(session, pass, groups);
#pragma once

#include <vector>

#include "compress/pruned_units.h"
#include "compress/window_pass.h"
#include "fit/session.h"

namespace plimsoll {

// Runs forward and backward on each window of the pass and fills the groups' gradients. `session` has the program
// kGradients of a model whose maps are masked and whose parameters are loaded; its micro-batch is one window. A
// window's loss is the mean over its labels. Returns the number of windows that have labels.
std::int64_t measure_mask_gradients(const Session& session, const WindowPass& pass, std::vector<WeighedUnits>& groups);

}  // namespace plimsoll
