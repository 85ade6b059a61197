// PageShare: which pages of a command this process works on, if the ranks of a launcher share them: every `ranks`-th
// page, from `rank` on. A single process has them all, and exchanges nothing.
//
//   const PageShare share{.rank = 1, .ranks = 4, .exchange = [&](const std::string& mine) { return gathered(mine); }};
//   if (share.has(5)) read_page(5);
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace plimsoll {

struct PageShare {
  std::size_t rank = 0, ranks = 1;
  // Returns the texts of all ranks, in their order, to every rank. All ranks call it equally often, each from one
  // thread.
  std::function<std::vector<std::string>(const std::string& mine)> exchange{};

  bool has(std::size_t page) const { return page % ranks == rank; }
  bool is_first() const { return rank == 0; }
};

}  // namespace plimsoll
