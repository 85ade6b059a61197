#include "data/packed_page.h"
#include "fuzz/memory_file.h"
#include "fuzz/pages.h"
#include "fuzz/targets.h"
#include "tasks/tasks.h"

namespace {

using namespace plimsoll;

// What a task makes of a page that was read: faults are reported, never thrown.
void check_target(const Task& task, const Page& page) {
  for (const char* problem : {"single_label_classification", "multi_label_classification", "regression"}) {
    const auto targets = task.targets({.labels = {"a", "b"}, .problem_type = problem}, true);
    if (targets == nullptr) return;
    Findings findings;
    std::map<std::string, std::uint64_t> labels;
    targets->check(page, true, findings, labels);
  }
}

// A page comes back from its packed bytes as it was read.
void check_kept(const Task& task, const Page& page) {
  const std::vector<std::byte> bytes = pack_page({.page = page}, task.reader());
  check(pack_page(unpack_page(bytes, task.reader()), task.reader()) == bytes, "a page is kept whole");
}

void read_all(const std::filesystem::path& path, const Task& task) {
  const auto pages = open_pages(
      path,
      {.label_names = {"O", "B-TOTAL", "I-TOTAL"}, .ignore_labels = !task.labels_words(), .target = task.reader()});
  for (std::size_t i = 0; i < pages->size(); ++i) {
    fuzz::may_refuse([&] { fuzz::check_page(pages->read(i), true); });
    fuzz::may_refuse([&] {
      PageFaults faults;
      const Page page = pages->read(i, &faults);
      fuzz::check_page(page, faults.empty());
      check_target(task, page);
      check_kept(task, page);
    });
  }
}

}  // namespace

void plimsoll::fuzz::jsonl(std::string_view input) {
  const MemoryFile file(input);
  for (const Task* task : all_tasks()) may_refuse([&] { read_all(file.path(), *task); });
}
