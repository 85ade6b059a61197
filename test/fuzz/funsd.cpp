#include "fuzz/pages.h"
#include "fuzz/targets.h"

void plimsoll::fuzz::funsd(std::string_view input) {
  for (const bool segment_boxes : {false, true}) {
    const ReadOptions options{.segment_boxes = segment_boxes};
    may_refuse([&] { check_page(parse_funsd_page(input, "annotations/page.json", "images/page.png", options), true); });
    may_refuse([&] {
      PageFaults faults;
      const Page page = parse_funsd_page(input, "annotations/page.json", "images/page.png", options, &faults);
      check_page(page, faults.empty());
    });
  }
}
