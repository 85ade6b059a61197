// Files of pages and pairs, and the examples that a data set makes of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/pairs.h"
#include "tasks/task_pages.h"

namespace plimsoll::test {

class PairPages : public testing::Test {
 protected:
  // Pages "p0", "p1", …, each of the letters of one text.
  void write_pages(const std::vector<nlohmann::json>& pages, const TargetReader* reader = nullptr) {
    std::string lines;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      nlohmann::json page = pages[i];
      if (!page.contains("id")) page["id"] = "p" + std::to_string(i);
      lines += page.dump() + "\n";
    }
    pages_ = tokenized(folder_.write("pages.jsonl", lines),
                       {.parts = kTextAlone, .ignore_labels = true, .target = reader, .counts = &counts_});
  }
  std::shared_ptr<const Pairs> read(const std::string& lines,
                                    const std::function<std::string(const Page&)>& group_of = {}) {
    return std::make_shared<const Pairs>(PagePaths{folder_.write("pairs.jsonl", lines)}, *pages_, Pairs::Form::kIds,
                                         group_of);
  }
  Dataset data_of(const std::shared_ptr<const Pairs>& pairs, const std::shared_ptr<const PairTargets>& targets,
                  bool trains = true) {
    return Dataset(pages_, small_processor(),
                   {.parts = kTextAlone, .pairs = pairs, .pair_targets = targets, .trains = trains});
  }
  // The kinds of findings, each with its count.
  static std::map<std::string, std::uint64_t> kinds_in(const Findings& findings) {
    std::map<std::string, std::uint64_t> kinds;
    for (const Finding& finding : findings.sorted()) kinds[finding.kind] += finding.count;
    return kinds;
  }

  ScratchFolder folder_;
  PageCounts counts_;
  std::shared_ptr<const TokenizedPages> pages_;
};

}  // namespace plimsoll::test
