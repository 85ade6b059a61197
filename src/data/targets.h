// A task reads keys of pages besides words, boxes and image, and makes targets for each window. The data code itself
// knows words' labels; everything else that a task has comes through these interfaces (tasks/task.h).
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

// What a task has read from a page. Objects are immutable.
class PageTarget {
 public:
  virtual ~PageTarget() = default;
  // Returns how many things it asks or says about the page: one label, several questions.
  virtual std::size_t size() const { return 1; }
  // Returns for how many of them there is something to find: questions that have an answer.
  virtual std::size_t positives() const { return size(); }
  // Returns for how many things results are kept: questions, or entities between which links are sought.
  virtual std::size_t subjects() const { return size(); }
  // Returns how many words these have together, if their words are written with them.
  virtual std::size_t subject_words() const { return 0; }
  // Returns what it asks about the page, as one text. Pages of the same words that ask something else are no
  // duplicates.
  virtual std::string asked() const { return {}; }
  // Returns true if a running text already contains its beginning and ending tokens, so that none are added.
  virtual bool frames_text() const { return false; }
};

// Represents a task's keys that could not be read. Faults say why, so nothing else is reported.
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
  // Returns nullptr for a page without them, unread_target() for one whose keys cannot be read. Throws PageError, or
  // adds it to `faults` unless that is nullptr.
  virtual std::shared_ptr<const PageTarget> read(const nlohmann::json& page_json, const Page& page,
                                                 PageFaults* faults) const = 0;
  // Returns the key that it reads, which identifies the reader.
  virtual std::string_view key() const = 0;
  // Returns true if it gives a page's words, as parts of one running text, instead of the keys for words and boxes.
  virtual bool reads_text() const { return false; }
  // Returns those parts. `line` is the object's text, which has the order of its keys; `chat` says how conversations
  // become text, and is nullptr if that is unknown. Throws PageError for a page without a text.
  virtual std::vector<std::string> text(const nlohmann::json& /*page_json*/, std::string_view /*line*/, const Page&,
                                        const ChatForm* /*chat*/) const {
    return {};
  }
  // Returns the texts before a page's words in its windows, one for each item (Targets::items), usually questions.
  virtual std::vector<std::string_view> prompts(const PageTarget&) const { return {}; }
  // Write a target that `read` returned, and read it back: a page is parsed once and then kept as bytes.
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
  // Returns the number of a page's items. A page has separate windows for each item, usually a question, whose text
  // precedes the words (TargetReader::prompts). Without such texts there is one item. Throws PageError for a page that
  // lacks what the task needs.
  virtual std::size_t items(const Page&) const { return 1; }
  // Fills `targets` and `loss_terms` of an example whose tokens are complete: the numbers of the head's inputs that are
  // targets, one input after the other, floats by their bits. Throws PageError for a page without a target, or with one
  // that the model does not know.
  virtual void encode(const PageWindow& window, EncodedExample& out) const = 0;
  // Returns how many of a window's tokens are learnt, for a task that learns the tokens of texts: a text that is cut
  // before the first of them teaches nothing.
  virtual std::optional<std::int64_t> learnt_tokens(const PageWindow&) const { return std::nullopt; }
  // Returns true if a page without words teaches as well as another, by its picture: a blank page has a class.
  virtual bool learns_without_words() const { return false; }
  // Adds what is wrong with a page's target to `findings`, and counts the names of its labels. `required`: a page
  // without a target is an error.
  virtual void check(const Page& page, bool required, Findings& findings,
                     std::map<std::string, std::uint64_t>& labels) const = 0;
  // Does the same for the windows into which a page, or an item of it, is cut; `index` means nothing here. `required`
  // as above.
  virtual void check_windows(const PageWindow&, bool /*required*/, Findings&) const {}
  // Returns what is wrong with a data set without errors from which nothing can be learned, if that is so. The
  // place is added by the caller.
  virtual std::optional<Problem> nothing_to_learn(const TargetCounts&) const { return std::nullopt; }
};

// Returns true for a window of a text that holds only a part of its prompt, so that data sets leave it out: it would
// add nothing to an update. The last window stays, because it ends its page.
bool is_idle(const Targets& targets, const PageWindow& window);

}  // namespace plimsoll
