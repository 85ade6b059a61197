#include "tasks/parts/other_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "tasks/tasks.h"

namespace plimsoll {

std::string remedy_with_task(const Page& page, std::string otherwise) {
  std::string advice;
  for (const Task* task : all_tasks()) {
    if (page.is_text && !task->takes_texts() && !task->reads_text()) continue;
    for (const std::string_view key : task->keys()) {
      if (std::ranges::find(page.other_keys, key) == page.other_keys.end()) continue;
      advice += fmt::format("{} --task {} (to check, plan or train), which reads the page's `{}`",
                            advice.empty() ? "pass" : ", or", task->name(), key);
      break;
    }
  }
  return advice.empty() ? otherwise : fmt::format("{}; otherwise {}", advice, otherwise);
}

}  // namespace plimsoll
