#include "convert/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

LineReader::LineReader(const std::filesystem::path& path) : file_(path) {}

bool LineReader::next() {
  constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
  line_.clear();
  bool any = false;
  ++number_;
  while (true) {
    if (at_ == chunk_.size()) {
      const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, file_.size_bytes() - offset_));
      if (bytes == 0) break;
      chunk_.resize(bytes);
      at_ = 0;
      file_.read_at(offset_, std::as_writable_bytes(std::span(chunk_.data(), bytes)));
      if (offset_ == 0 && chunk_.starts_with("\xEF\xBB\xBF")) at_ = 3;
      offset_ += bytes;
    }
    const std::size_t end = std::min(chunk_.find('\n', at_), chunk_.size());
    any = true;
    line_.append(chunk_, at_, end - at_);
    if (line_.size() > kLongest) {
      throw DataError({.what = "a line is too long",
                       .where = where(),
                       .found = "more than " + format_bytes(kLongest),
                       .allowed = "at most " + format_bytes(kLongest),
                       .remedy = "write one page a line"});
    }
    const bool whole = end < chunk_.size();
    at_ = whole ? end + 1 : end;
    if (whole) break;
  }
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  return any;
}

std::string LineReader::where() const { return fmt::format("{}:{}", file_.path().string(), number_); }

}  // namespace plimsoll
