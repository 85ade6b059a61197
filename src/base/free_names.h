// Names of which none is given twice: "scan", then "scan-2".
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace plimsoll {

class FreeNames {
 public:
  // Returns the name, or, if it is taken, the name with the first number from 2 that makes it a free one. Either is
  // taken then.
  std::string take(const std::string& name);
  // Takes a name that stays as it is, whether or not it is taken.
  void keep(const std::string& name) { taken_.insert(name); }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::size_t> last_;  // the last number that was added to a name
};

}  // namespace plimsoll
