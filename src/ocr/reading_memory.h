// Bounds what reading a page takes in memory, and shares a limit among the threads that read.
//
//   const PageNeed largest{.name = "scan.png", .form = picture_form("scan.png"), .bytes = 200 * kMiB};
//   const ReadingPlan plan = plan_reading({.bytes = kGiB}, resident_bytes(), text_reader_bytes({}), largest, kMiB, 16);
//   MemoryShare share;
//   share.set_limit(plan.page_bytes);                                // of plan.threads threads
//   const MemoryShare::Part part = share.take(200 * kMiB);           // waits for others
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>

#include "ocr/picture.h"

namespace plimsoll {

struct ReadingSteps {
  bool enlarges = false;  // small print is read at twice its size
  bool turns = false;     // a page that lies on a side is turned, and read again
};

// Returns an upper bound of the bytes that a page takes while it is decoded and read, beyond a reader with its data.
std::size_t reading_bytes(const PictureForm& form, const ReadingSteps& steps);

struct ReadingBudget {
  std::size_t bytes = 0;            // of the process's resident set; 0: no limit
  const char* option = "--budget";  // the option that sets it
};

// A page, and what reading it takes.
struct PageNeed {
  std::string name{};
  PictureForm form{};
  std::size_t bytes = 0;
};

struct ReadingPlan {
  int threads = 1;             // that read at once
  std::size_t page_bytes = 0;  // what their pages may take together
};

// Plans to read pages, which take `mean_bytes` on average and the largest of which is given, on as many of `threads`
// threads as fit the budget. The process holds `held_bytes`, and each thread but one opens a reader more, of
// `reader_bytes`. Throws BudgetTooSmall if not even one thread can read the largest page.
ReadingPlan plan_reading(const ReadingBudget& budget, std::size_t held_bytes, std::size_t reader_bytes,
                         const PageNeed& largest, std::size_t mean_bytes, int threads);

// Bytes that threads take and give back. A thread that wants more than are free waits; one that wants more than the
// limit waits until no other has any.
class MemoryShare {
 public:
  class Part {
   public:
    Part(MemoryShare& share, std::size_t bytes) : share_(share), bytes_(bytes) {}
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    MemoryShare& share_;
    std::size_t bytes_;
  };

  // Without it there is no limit. Called before any thread takes a part.
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  [[nodiscard]] Part take(std::size_t bytes);

 private:
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::size_t limit_ = 0, taken_ = 0;  // limit_ 0: none
};

}  // namespace plimsoll
