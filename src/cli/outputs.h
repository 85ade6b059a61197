// What a command may write over. Every command that writes asks here, before it does anything else: nothing that it
// reads may be replaced, however the path is spelt, and no directory in which somebody else keeps files is written to.
//
//   refuse_replacing({{"--output", output}}, {{"--data", data}, {"--model", model}});
//   make_directory_of(directory, "--draw", "predict");
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/page_source.h"

namespace plimsoll {

// A path and the option that named it. An empty path is an option that was not given.
struct NamedPath {
  std::string option;
  std::filesystem::path path;
};

// Throws UsageError if an output is an input, through symbolic links and hard links too, or a file that is read from an
// input's directory: a model's, a run's, or the annotations and images of a data set.
void refuse_replacing(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs);

// The same of pages' images, once the pages are known.
void refuse_replacing_images(const std::vector<NamedPath>& outputs, const PageSource& pages);

// Makes `path` and its parents; throws EnvironmentError naming `option` unless it can then be written to.
void make_directory(const std::filesystem::path& path, const std::string& option);

// The same for a directory that `command` fills with files of its own: UsageError if there are files in it, unless an
// earlier call for that command made it. A mark in it says so.
void make_directory_of(const std::filesystem::path& path, const std::string& option, const std::string& command);

// The same for a model's directory: UsageError if there are files in it.
void make_model_directory(const std::filesystem::path& path, const std::string& option);

}  // namespace plimsoll
