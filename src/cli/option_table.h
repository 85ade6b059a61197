// The table of commands and options that `plimsoll --options` prints, from which the Python package takes its keywords.
//
//   const nlohmann::ordered_json table = option_table(app);
//
// {"version": "1.0", "commands": [{"name": "train", "description": "…", "options": [{"name": "learning_rate",
// "option": "--learning-rate", "group": "Training", "type": "float", "default": "5e-05", "description": "…"}, …]}]}
// `type` is flag, int, float, str, path or size; `choices` lists what is allowed where that is a list, `range` what
// numbers are; `several` says that it takes more than one value, `required` that it has to be given, and `positional`
// that it is named by its place. "elsewhere" lists options of other programs: {"name": "torch_compile",
// "here": "", "accepted": "always", "note": "…"}. `here` has Plimsoll's own options with that meaning; `accepted` says
// whether train and plan pass over it: "always", "if it asks for nothing" (false, none, 0 or `usual`), or "never".
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace plimsoll {

nlohmann::ordered_json option_table(const CLI::App& app);

}  // namespace plimsoll
