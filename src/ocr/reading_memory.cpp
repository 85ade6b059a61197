#include "ocr/reading_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"

namespace plimsoll {
namespace {

// Tesseract 5.3 holds no more than this for each pixel that it reads, besides the picture itself: a test compares the
// bound with pages of seven kinds (test/ocr/reading_memory_test.cpp).
constexpr std::size_t kGrayBytes = 11, kColourBytes = 16;
// Its heap keeps freed memory (FastHeap), and each page has words and lines.
constexpr std::size_t kHeapBytes = 16 * kMiB;

}  // namespace

std::size_t reading_bytes(const PictureForm& form, const ReadingSteps& steps) {
  const auto pixels = static_cast<std::size_t>(std::min(form.pixels, kMostPixels));
  const std::size_t own = (form.in_colours ? 4 : 1) * pixels;
  const std::size_t turned = steps.turns ? own : 0;
  std::size_t reading = own + turned + (form.in_colours ? kColourBytes : kGrayBytes) * pixels;
  if (steps.enlarges && pixels <= static_cast<std::size_t>(kMostPixels) / 4) {
    const std::size_t enlarged = 4 * pixels;  // in gray
    reading = std::max(reading, own + turned + pixels + (1 + kGrayBytes) * enlarged);
  }
  return kHeapBytes + std::max(own + form.decode_bytes, reading);
}

ReadingPlan plan_reading(const ReadingBudget& budget, std::size_t held_bytes, std::size_t reader_bytes,
                         const PageNeed& largest, std::size_t mean_bytes, int threads) {
  if (held_bytes + largest.bytes > budget.bytes) {
    const std::size_t enough = held_bytes + largest.bytes + kVariationBytes, mebibytes = enough / kMiB + 1;
    const auto item = [](const char* name, std::size_t bytes) {
      return fmt::format("\n             {:<42}{:>10}", name, format_bytes(bytes));
    };
    throw BudgetTooSmall(
        {.what = "reading the largest page does not fit the memory budget",
         .where = budget.option,
         .found = fmt::format(
             "{}; {}, of {:.1f} million pixels{}, needs {}:{}{}{}", format_bytes(budget.bytes), largest.name,
             1e-6 * static_cast<double>(largest.form.pixels), largest.form.in_colours ? " in colours" : "",
             format_bytes(enough), item("process, Tesseract with its data", held_bytes),
             item("the page while it is read", largest.bytes), item("what varies between runs", kVariationBytes)),
         .allowed = fmt::format("{} MiB or more for these documents", mebibytes),
         .remedy = fmt::format("pass {} {}MiB, or smaller pictures (of PDF files by a lower --dpi)", budget.option,
                               mebibytes)},
        mebibytes * kMiB);
  }
  // The process's own memory may vary while it reads; the largest page fits in any case.
  const std::size_t room = budget.bytes - held_bytes;
  const std::size_t free = std::max(largest.bytes, room - std::min(room, kVariationBytes));
  std::size_t count = 1;
  while (count < static_cast<std::size_t>(threads) && count * (reader_bytes + mean_bytes) + largest.bytes <= free)
    ++count;
  return {.threads = static_cast<int>(count), .page_bytes = free - (count - 1) * reader_bytes};
}

MemoryShare::Part::~Part() {
  {
    const std::lock_guard lock(share_.mutex_);
    share_.taken_ -= bytes_;
  }
  share_.given_back_.notify_all();
}

MemoryShare::Part MemoryShare::take(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [&] { return limit_ == 0 || taken_ == 0 || taken_ + bytes <= limit_; });
  taken_ += bytes;
  return {*this, bytes};
}

}  // namespace plimsoll
