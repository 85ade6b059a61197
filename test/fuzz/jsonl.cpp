#include "fuzz/memory_file.h"
#include "fuzz/pages.h"
#include "fuzz/targets.h"

void plimsoll::fuzz::jsonl(std::string_view input) {
  const MemoryFile file(input);
  may_refuse([&] {
    const auto pages = open_pages(file.path(), {.label_names = {"O", "B-TOTAL", "I-TOTAL"}});
    for (std::size_t i = 0; i < pages->size(); ++i) {
      may_refuse([&] { check_page(pages->read(i), true); });
      may_refuse([&] {
        PageFaults faults;
        const Page page = pages->read(i, &faults);
        check_page(page, faults.empty());
      });
    }
  });
}
