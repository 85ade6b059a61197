#include "fuzz/pages.h"
#include "fuzz/targets.h"
#include "tasks/tasks.h"

void plimsoll::fuzz::funsd(std::string_view input) {
  for (const Task* task : all_tasks()) {
    for (const bool segment_boxes : {false, true}) {
      const ReadOptions options{
          .segment_boxes = segment_boxes, .ignore_labels = !task->labels_words(), .target = task->reader()};
      may_refuse(
          [&] { check_page(parse_funsd_page(input, "annotations/page.json", "images/page.png", options), true); });
      may_refuse([&] {
        PageFaults faults;
        const Page page = parse_funsd_page(input, "annotations/page.json", "images/page.png", options, &faults);
        check_page(page, faults.empty());
        const std::shared_ptr<const Targets> targets = task->targets({.labels = {"a", "b"}}, true);
        Findings findings;
        std::map<std::string, std::uint64_t> labels;
        if (targets != nullptr) targets->check(page, true, findings, labels);
      });
    }
  }
}
