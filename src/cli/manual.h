// The format of --help: options in groups, wrapped to a terminal's width, required ones in the usage line.
//
//   plimsoll synth --output DIR [options]
//
//   Pages
//     --count N             Pages, validation included (default: 100)
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace plimsoll {

class Manual : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace plimsoll
