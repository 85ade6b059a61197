// The lines of `predict`'s output: one per page, or one for consecutive pages of the same document.
//
//   DocumentLines lines([&](const nlohmann::json& line) { file.write(line.dump() + "\n"); });
//   lines.add(page, predictions.to_json(page));
//   lines.finish();
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "data/page.h"

namespace plimsoll {

class DocumentLines {
 public:
  explicit DocumentLines(std::function<void(const nlohmann::json&)> write) : write_(std::move(write)) {}

  void add(const Page& page, nlohmann::json line);
  // Writes the last document, after the last page.
  void finish();

 private:
  std::function<void(const nlohmann::json&)> write_;
  std::string document_;
  nlohmann::json pages_ = nlohmann::json::array();
};

}  // namespace plimsoll
