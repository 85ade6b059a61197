// Readers of text that threads share: there is one per thread, because each holds the data of its languages.
//
//   const TextReaderOptions options{.language = "eng"};
//   TextReaders readers(options);
//   std::unique_ptr<TextReader> reader = readers.take();   // in any thread
//   readers.give_back(std::move(reader));
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ocr/text_reader.h"

namespace plimsoll {

// The options must outlive it.
class TextReaders {
 public:
  explicit TextReaders(const TextReaderOptions& options) : options_(options) {
    free_.push_back(open_text_reader(options));
  }

  std::unique_ptr<TextReader> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<TextReader> reader = std::move(free_.back());
        free_.pop_back();
        return reader;
      }
    }
    return open_text_reader(options_);
  }
  void give_back(std::unique_ptr<TextReader> reader) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(reader));
  }

 private:
  const TextReaderOptions& options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TextReader>> free_;
};

}  // namespace plimsoll
