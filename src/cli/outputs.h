// What a command may overwrite. Every command that writes asks here before it does anything else: it must not replace
// anything that it reads, however the path is spelt, nor write to a directory with someone else's files.
//
//   refuse_replacing({{"--output", output}}, {{"--data", data}, {"--model", model}});
//   make_directory_of(directory, "--draw", "predict");
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/work_folder.h"
#include "data/page_source.h"

namespace plimsoll {

// A path and the option that named it. An empty path means that the option was not given.
struct NamedPath {
  std::string option;
  std::filesystem::path path;
};

// Throws UsageError if two outputs are one file, or if an output is an input, also through symbolic and hard links, or
// a file that is read from an input's directory: a model's, a run's, or the annotations and images of a data set. Also
// if an output is a file of a run or a model, unless that is `own_run`, whose files the caller knows.
void refuse_replacing(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs,
                      const std::filesystem::path& own_run = {});

// Adds an input to those of every later call: what is read whatever the command.
void add_common_input(NamedPath input);

// Does the same for pages' images, once the pages are known.
void refuse_replacing_images(const std::vector<NamedPath>& outputs, const PageSource& pages);

// Creates `path` and its parents; throws EnvironmentError naming `option` unless it can then be written to.
void make_directory(const std::filesystem::path& path, const std::string& option);

// Does the same for a directory that `command` fills with its own files: throws UsageError if there are files in it,
// unless an earlier call for that command created it, which a mark in it shows.
void make_directory_of(const std::filesystem::path& path, const std::string& option, const std::string& command);

// A directory that is removed again if it was made here and is empty in the end, because the command failed. A lock on
// it must end before.
class NewDirectory {
 public:
  // Throws as make_directory does.
  NewDirectory(std::filesystem::path path, const std::string& option);
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool made_;
};

// Makes and locks a model's directory. Throws UsageError if there are files in it.
class ModelDirectory {
 public:
  ModelDirectory(const std::filesystem::path& path, const std::string& option);
  ~ModelDirectory();
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;

  // Makes a folder in its work folder (base/work_folder.h), for as long as this object.
  std::filesystem::path work_directory(const std::string& name);

 private:
  NewDirectory directory_;
  DirectoryLock lock_;
  std::vector<std::string> work_{};
};

}  // namespace plimsoll
