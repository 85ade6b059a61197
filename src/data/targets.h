// A task reads keys of pages beside words, boxes and image, and trains each window of them towards something. The data
// floor knows labels of words by itself; whatever else a task has comes through these interfaces (tasks/task.h).
//
//   ReadOptions options{.target = &reader};              // pages are read with the task's keys
//   DatasetOptions data{.targets = targets};             // examples are encoded with their targets
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/findings.h"
#include "data/page.h"

namespace plimsoll {

class ChatForm;
class Packer;
class Unpacker;
struct EncodedExample;
struct PageTokens;
struct Window;

using PageFaults = std::vector<PageError>;

// This holds what a task has read of a page. An object never changes.
class PageTarget {
 public:
  virtual ~PageTarget() = default;
  // How many things it asks or says of the page: one label, several questions.
  virtual std::size_t size() const { return 1; }
  // How many of them there is something to find of: questions that have an answer.
  virtual std::size_t positives() const { return size(); }
  // True if a running text has in itself what begins and ends it: no token is put around it then.
  virtual bool frames_text() const { return false; }
};

// Stands for a task's keys that a page has and that could not be read. Faults say why, so that nothing else is said.
class UnreadTarget final : public PageTarget {
 public:
  std::size_t size() const override { return 0; }
};
std::shared_ptr<const PageTarget> unread_target();
bool is_unread(const Page& page);

// Counts of the targets of a data set.
struct TargetCounts {
  std::uint64_t target_pages = 0;  // pages with a target
  std::uint64_t targets = 0;       // PageTarget::size
  std::uint64_t positives = 0;     // PageTarget::positives
};

// Reads a task's keys of a page. One object serves all threads.
class TargetReader {
 public:
  virtual ~TargetReader() = default;
  // Returns nullptr for a page without them, unread_target() for one whose keys hold nothing that can be read. Throws
  // PageError, or adds it to `faults` unless that is nullptr.
  virtual std::shared_ptr<const PageTarget> read(const nlohmann::json& page_json, const Page& page,
                                                 PageFaults* faults) const = 0;
  // The key that it reads, which tells readers apart.
  virtual std::string_view key() const = 0;
  // Returns true if it gives a page's words, as parts of one running text, in place of the keys of words and boxes.
  virtual bool reads_text() const { return false; }
  // Returns those parts; `chat`: how conversations are written down, nullptr where nobody knows. Throws PageError for a
  // page without a text.
  virtual std::vector<std::string> text(const nlohmann::json& /*page_json*/, const Page&,
                                        const ChatForm* /*chat*/) const {
    return {};
  }
  // The texts that stand before a page's words in its windows, one for each item (Targets::items); questions, mostly.
  virtual std::vector<std::string_view> prompts(const PageTarget&) const { return {}; }
  // A page is parsed once and kept as bytes: writes a target that `read` returned, and reads it back.
  virtual void pack(const PageTarget& target, Packer& out) const = 0;
  virtual std::shared_ptr<const PageTarget> unpack(Unpacker& in) const = 0;
};

// The window of a page that becomes an example.
struct PageWindow {
  const Page& page;
  const PageTokens& tokens;
  std::span<const Window> windows;  // of the page, for this item
  std::size_t index = 0;            // of this one
  std::size_t item = 0;
  std::size_t first_row = 1;  // the example's token that is the window's first
};

// Makes targets. One object serves all threads.
class Targets {
 public:
  virtual ~Targets() = default;
  // A page has windows of its own for each item, a question mostly, whose text stands before the words
  // (TargetReader::prompts). Without texts there is one item. Throws PageError for a page that lacks what the task
  // asks.
  virtual std::size_t items(const Page&) const { return 1; }
  // Fills `targets` and `loss_terms` of an example whose tokens are complete: the numbers of the head's inputs that are
  // targets, one input after the other, floats by their bits. Throws PageError for a page without a target, or with one
  // that the model does not know.
  virtual void encode(const PageWindow& window, EncodedExample& out) const = 0;
  // How many of a window's tokens are learnt, where a task learns the tokens of texts: a text that is cut before the
  // first of them has nothing to give.
  virtual std::optional<std::int64_t> learnt_tokens(const PageWindow&) const { return std::nullopt; }
  // Adds what is wrong with a page's target to `findings`, and counts the names of its labels. `required`: a page
  // without a target is an error.
  virtual void check(const Page& page, bool required, Findings& findings,
                     std::map<std::string, std::uint64_t>& labels) const = 0;
  // The same for one of the page's windows.
  virtual void check_window(const PageWindow&, Findings&) const {}
  // Returns what is wrong with a data set without errors from which nothing can be learned, if that is so. The
  // place is added by the caller.
  virtual std::optional<Problem> nothing_to_learn(const TargetCounts&) const { return std::nullopt; }
};

// Returns true for a window of a text that holds a part of its prompt alone, so that data sets leave it out: in an
// update it would be a share of nothing. The last window stays, because it ends its page.
bool is_idle(const Targets& targets, const PageWindow& window);

}  // namespace plimsoll
