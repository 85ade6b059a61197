// Pages of text alone with a task's keys, in a file of their own, and the examples that a data set makes of them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/check.h"
#include "data/dataset.h"
#include "data/pages_fixture.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {

inline constexpr PageParts kTextAlone{.boxes = false, .image = false};

class TaskPages : public testing::Test {
 protected:
  std::shared_ptr<const TokenizedPages> open_with(const std::vector<nlohmann::json>& pages,
                                                  const TargetReader& reader) const {
    std::string lines;
    for (const nlohmann::json& page : pages) lines += page.dump() + "\n";
    return tokenized(folder_.write("pages.jsonl", lines),
                     {.parts = kTextAlone, .ignore_labels = true, .target = &reader});
  }
  static EncodedExample load(const Dataset& data, std::size_t index) {
    Dataset::Scratch scratch;
    EncodedExample example;
    data.load(index, scratch, example);
    return example;
  }
  // What `check` says of pages with targets.
  static CheckReport checked(const std::shared_ptr<const TokenizedPages>& pages,
                             const std::shared_ptr<const Targets>& targets, const WindowOptions& windows = {}) {
    return check_pages(*pages, {.parts = kTextAlone,
                                .labels_required = true,
                                .words_labelled = false,
                                .targets = targets,
                                .tokens = pages.get(),
                                .windows = windows});
  }
  // The number of findings of each kind.
  static std::map<std::string, std::uint64_t> kinds_in(const Findings& findings) {
    std::map<std::string, std::uint64_t> kinds;
    for (const Finding& finding : findings.sorted()) kinds[finding.kind] += finding.count;
    return kinds;
  }

 private:
  ScratchFolder folder_;
};

}  // namespace plimsoll::test
