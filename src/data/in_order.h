// Runs work on several threads and takes the results in order, one at a time, so that the outcome does not depend on
// the number of threads.
//
//   run_in_order<Block>(blocks, threads, [&](std::size_t i) { return check_block(i); },
//                       [&](Block block) { add(block); });
//
// Invariant: at most a few results per thread wait for their turn. The first exception ends the work and is rethrown.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll {

// `produce(i)` runs on any thread; `consume` runs under a lock, in order of i from 0 to count - 1.
template <typename Result, typename Produce, typename Consume>
void run_in_order(std::size_t count, int threads, const Produce& produce, const Consume& consume) {
  const std::size_t workers = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), 1, count + 1);
  const std::size_t ahead = 4 * workers;
  std::mutex mutex;
  std::condition_variable turned;
  std::map<std::size_t, Result> waiting;
  std::size_t next = 0, consumed = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    try {
      while (true) {
        turned.wait(lock, [&] { return failure || next >= count || next < consumed + ahead; });
        if (failure || next >= count) return;
        const std::size_t mine = next++;
        lock.unlock();
        Result result = produce(mine);
        lock.lock();
        waiting.emplace(mine, std::move(result));
        for (auto first = waiting.begin(); first != waiting.end() && first->first == consumed; ++consumed) {
          consume(std::move(first->second));
          first = waiting.erase(first);
        }
        turned.notify_all();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      if (!failure) failure = std::current_exception();
      turned.notify_all();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < workers; ++i) others.emplace_back(work);
    } catch (const std::system_error&) {
      // The system cannot start more threads, so fewer do the same work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace plimsoll
