#include "doctor/diagnosis.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "doctor/log_lines.h"
#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

// Of one pattern: its first hit in each of the first tracebacks.
constexpr std::size_t kMaxHits = 64;
constexpr std::size_t kMaxErrors = 3, kMaxContext = 4;
// An out-of-memory message may be wrapped by a terminal or be a small table.
constexpr std::size_t kMessageLines = 12, kMessageBytes = 4096;
// A run that printed so many further losses has outlived an error. Ranks that wait for a dead one print one at most.
constexpr std::uint64_t kUpdatesAfterSurvival = 2;

struct Hit {
  std::uint64_t traceback = 0;  // how many tracebacks had begun
  std::uint64_t updates = 0;    // how many losses had been printed
  Evidence evidence{};
};

constexpr std::string_view kTraceback = "traceback (most recent call last)";
// Where numbers may follow.
constexpr std::string_view kOutOfMemory[] = {
    "anon-rss",           "out of memory",        "tried to allocate", "outofmemory", "would exceed allowed memory",
    "unable to allocate", "can't allocate memory"};

// What other programs say in passing: TensorFlow, which transformers loads where it is installed, about libraries that
// it lacks; pip about versions.
constexpr std::string_view kElsewhere[] = {"tensorflow/stream_executor/", "tensorflow/core/",
                                           "tensorflow/compiler/",        "external/local_",
                                           "which is incompatible",       "which is not installed"};

// "ValueError: …" as Python names what ended a traceback; no "mean absolute error: 0.1".
bool names_exception(std::string_view text) {
  for (const std::string_view word : {"Error: ", "Exception: ", "Invalid: "}) {
    const std::size_t at = text.find(word);
    if (at != std::string_view::npos && at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0)
      return text.find("Warning") == std::string_view::npos;
  }
  return false;
}

bool is_error(std::string_view small) {
  // "SomeError: …" as Python ends a traceback, after whatever prefix a launcher sets; or a C++ program's last words.
  const std::size_t place = std::min({small.find("error: "), small.find("exception: "), small.find("invalid: ")});
  if (place != std::string_view::npos) return small.find("warning") == std::string_view::npos;
  return small.find("terminate called") != std::string_view::npos ||
         small.find("segmentation fault") != std::string_view::npos || small.ends_with("error") ||
         small.starts_with("fatal");
}

// Source lines that a notebook's or rich's traceback shows around the one that failed: they say what did not happen.
// "    745         position_embeddings = …" beside "--> 746 …"; "│   376 │   …" beside "│ ❱ 377 │ …".
bool is_context_line(std::string_view text, bool notebook) {
  const auto skip_blanks = [&] {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  };
  skip_blanks();
  constexpr std::string_view kBar = "│";
  const bool rich = text.starts_with(kBar);
  if (rich) text.remove_prefix(kBar.size());
  if (!rich && !notebook) return false;
  skip_blanks();
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  return digits > 0 && (digits == text.size() || text[digits] == ' ');
}

// A warning is not what ended a run where something else is; save that CUDA told there why it found no device.
bool only_warns(const Finding& finding) {
  const std::string small = to_small_letters(finding.trigger.text);
  return small.find("warning") != std::string::npos && small.find("cuda initialization") == std::string::npos;
}

// The number in "'loss': 0.3127", "loss=0.41", "average loss = 0.0412"; empty where the line tells none, or none
// finite.
std::string_view loss_in(std::string_view small) {
  for (std::size_t at = small.find("loss"); at != std::string_view::npos; at = small.find("loss", at + 1)) {
    const std::size_t begin = small.find_first_not_of("'\": =", at + 4);
    if (begin == std::string_view::npos || begin == at + 4) continue;
    const std::size_t end = std::min(small.find_first_not_of("0123456789.e+-", begin), small.size());
    if (small[begin] >= '0' && small[begin] <= '9') return small.substr(begin, end - begin);
  }
  return {};
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::string out;
  for (std::size_t i = 0; i < text.size() && out.size() < limit;) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = c < 0x80                ? 1
                               : c >= 0xC2 && c < 0xE0 ? 2
                               : c >= 0xE0 && c < 0xF0 ? 3
                               : c >= 0xF0 && c < 0xF5 ? 4
                                                       : 0;
    bool valid = length > 0 && i + length <= text.size() && !(c < 0x20 || c == 0x7F);
    for (std::size_t k = 1; valid && k < length; ++k) valid = (static_cast<unsigned char>(text[i + k]) & 0xC0U) == 0x80;
    // Overlong forms, surrogates, beyond the last, and C1 controls, which some terminals obey.
    if (valid && length >= 2) {
      const auto d = static_cast<unsigned char>(text[i + 1]);
      if ((c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) || (c == 0xF4 && d > 0x8F) ||
          (c == 0xC2 && d < 0xA0))
        valid = false;
    }
    if (valid) {
      out += text.substr(i, length);
      i += length;
    } else {
      out += '?';
      ++i;
    }
  }
  if (text.size() > limit) out += "…";
  return out;
}

class LogReader::Impl {
 public:
  Impl() { hits_.resize(known_.patterns.size()); }

  void feed(std::string_view bytes) { lines_.feed(bytes); }

  Diagnosis finish() {
    lines_.finish();
    std::vector<Finding> findings;
    for (const Rule& rule : all_rules()) {
      if (std::optional<Finding> finding = try_rule(rule)) findings.push_back(std::move(*finding));
    }
    Diagnosis diagnosis;
    diagnosis.lines = lines_.lines();
    diagnosis.bytes = lines_.bytes();
    choose(std::move(findings), diagnosis);
    if (diagnosis.rule == nullptr) diagnosis.errors = std::move(errors_);
    return diagnosis;
  }

 private:
  static void visit_patterns(const Rule& rule, const std::function<void(std::string_view)>& visit) {
    std::vector<AnyOf> groups = {rule.when, rule.without, rule.without_anywhere};
    groups.insert(groups.end(), rule.with.begin(), rule.with.end());
    groups.insert(groups.end(), rule.anywhere.begin(), rule.anywhere.end());
    for (const AnyOf& group : groups) std::for_each(group.begin(), group.end(), visit);
  }
  // The patterns of all rules, and the numbers of those that mean something here.
  struct Known {
    PatternSet patterns{};
    std::map<std::string_view, int> number{};
    std::set<int> out_of_memory{}, elsewhere{};
    int traceback = 0;
  };
  // Made once, for every reader.
  static const Known& known() {
    static const Known all = [] {
      Known made;
      for (const Rule& rule : all_rules()) {
        visit_patterns(rule, [&](std::string_view pattern) { made.number[pattern] = made.patterns.add(pattern); });
      }
      made.traceback = made.patterns.add(kTraceback);
      for (const std::string_view text : kOutOfMemory) made.out_of_memory.insert(made.patterns.add(text));
      for (const std::string_view text : kElsewhere) made.elsewhere.insert(made.patterns.add(text));
      made.patterns.prepare();
      return made;
    }();
    return all;
  }
  void on_line(std::uint64_t number, std::string_view text) {
    if (is_context_line(text, notebook_)) return;
    const std::string small = to_small_letters(text);
    if (const std::string_view loss = loss_in(small); !loss.empty() && loss != loss_) {
      ++updates_;
      loss_ = loss;
    }
    bool out_of_memory = false;
    found_.clear();
    known_.patterns.find(small, search_, [&](int pattern) { found_.push_back(pattern); });
    if (std::any_of(found_.begin(), found_.end(), [&](int pattern) { return known_.elsewhere.contains(pattern); }))
      return;
    for (const int pattern : found_) {
      if (pattern == known_.traceback) {
        ++tracebacks_;
        // A notebook's: "IndexError        Traceback (most recent call last)".
        notebook_ =
            small.find("error ") < small.find("traceback") || small.find("exception ") < small.find("traceback");
      }
      if (known_.out_of_memory.contains(pattern)) out_of_memory = true;
    }
    for (const int pattern : found_) {
      std::vector<Hit>& hits = hits_[static_cast<std::size_t>(pattern)];
      if (!hits.empty() && hits.back().traceback == tracebacks_) {
        // What was printed says more than the source line that a traceback shows of it.
        const bool was_source = hits.back().evidence.text.starts_with("raise ");
        if (was_source && !printable(text).starts_with("raise ")) hits.back().evidence = {number, printable(text)};
        continue;
      }
      if (hits.size() == kMaxHits) continue;
      hits.push_back({tracebacks_, updates_, {number, printable(text)}});
    }
    if (out_of_memory) {
      const bool outlived = updates_ >= numbers_updates_ + kUpdatesAfterSurvival;
      if (outlived && message_lines_ > 0) end_message();
      if (message_lines_ == 0 && (outlived || numbers_.empty())) {
        message_lines_ = kMessageLines;
        numbers_updates_ = updates_;
      }
    }
    if (message_lines_ > 0) {
      message_ += small.substr(0, kMessageBytes - std::min(kMessageBytes, message_.size()));
      message_ += ' ';
      if (--message_lines_ == 0) end_message();
    }
    if (found_.empty() && names_exception(text)) unexplained_ = {tracebacks_, updates_, {number, printable(text)}};
    if (is_error(small)) {
      if (errors_.size() == kMaxErrors) errors_.erase(errors_.begin() + 1);  // the first and the last ones
      errors_.push_back({number, printable(text)});
    }
  }
  void end_message() {
    if (const OomNumbers numbers = read_oom_message(message_); numbers_.empty() || !numbers.empty()) numbers_ = numbers;
    message_.clear();
    message_lines_ = 0;
  }

  const std::vector<Hit>& hits(std::string_view pattern) const {
    return hits_[static_cast<std::size_t>(known_.number.at(pattern))];
  }
  // The first hit of any of the patterns, in that traceback or, without one, anywhere.
  const Hit* first(const AnyOf& any, std::optional<std::uint64_t> traceback) const {
    const Hit* best = nullptr;
    for (const std::string_view pattern : any) {
      for (const Hit& hit : hits(pattern)) {
        if (traceback && hit.traceback != *traceback) continue;
        if (best == nullptr || hit.evidence.line < best->evidence.line) best = &hit;
      }
    }
    return best;
  }

  std::optional<Finding> try_rule(const Rule& rule) {
    if (message_lines_ > 0) end_message();
    if (rule.holds != nullptr && !rule.holds(numbers_)) return {};
    if (first(rule.without_anywhere, {}) != nullptr) return {};
    std::set<std::uint64_t> tracebacks;
    for (const std::string_view pattern : rule.when) {
      for (const Hit& hit : hits(pattern)) tracebacks.insert(hit.traceback);
    }
    std::optional<Finding> found;
    for (const std::uint64_t traceback : tracebacks) {
      const Hit& trigger = *first(rule.when, traceback);
      if (found && trigger.updates < found->updates + kUpdatesAfterSurvival) continue;
      Finding finding{&rule, trigger.evidence, trigger.updates, {}};
      bool holds = first(rule.without, traceback) == nullptr;
      const auto require = [&](const AnyOf& group, std::optional<std::uint64_t> where) {
        const Hit* hit = first(group, where);
        if (hit == nullptr)
          holds = false;
        else
          finding.context.push_back(hit->evidence);
      };
      for (const AnyOf& group : rule.with) require(group, traceback);
      for (const AnyOf& group : rule.anywhere) require(group, {});
      // Other lines that say the same in other words.
      for (const std::string_view pattern : rule.when) {
        const Hit* hit = first({pattern}, traceback);
        if (hit != nullptr && finding.context.size() < kMaxContext) finding.context.push_back(hit->evidence);
      }
      if (holds) found = std::move(finding);
    }
    return found;
  }

  // Of all that matched: vaguer words for the same thing go, then what follows from something else, then causes that
  // the run outlived until another one came, then those that were but warned of, then the first in time wins.
  void choose(std::vector<Finding> findings, Diagnosis& diagnosis) const {
    std::set<std::string_view> refined;
    for (const Finding& finding : findings) refined.insert(finding.rule->refines.begin(), finding.rule->refines.end());
    std::erase_if(findings, [&](const Finding& finding) { return refined.contains(finding.rule->name); });
    if (findings.empty()) return;
    std::uint64_t last_cause = 0;
    for (const Finding& finding : findings)
      if (finding.rule->level == Level::kCause) last_cause = std::max(last_cause, finding.updates);
    const auto outlived = [&](const Finding& finding) {
      return finding.rule->level == Level::kCause && finding.updates + kUpdatesAfterSurvival <= last_cause;
    };
    std::stable_sort(findings.begin(), findings.end(), [&](const Finding& a, const Finding& b) {
      if (a.rule->level != b.rule->level) return a.rule->level > b.rule->level;
      if (outlived(a) != outlived(b)) return outlived(b);
      if (only_warns(a) != only_warns(b)) return only_warns(b);
      return a.trigger.line < b.trigger.line;
    });
    const Finding& root = findings.front();
    diagnosis.rule = root.rule;
    diagnosis.evidence = root.context;
    diagnosis.evidence.push_back(root.trigger);
    std::sort(diagnosis.evidence.begin(), diagnosis.evidence.end(),
              [](const Evidence& a, const Evidence& b) { return a.line < b.line; });
    diagnosis.evidence.erase(std::unique(diagnosis.evidence.begin(), diagnosis.evidence.end(),
                                         [](const Evidence& a, const Evidence& b) { return a.line == b.line; }),
                             diagnosis.evidence.end());
    if (root.rule->reads_numbers) diagnosis.numbers = numbers_;
    const bool is_told = is_error(to_small_letters(root.trigger.text));
    if (unexplained_.evidence.line > root.trigger.line &&
        (!is_told || unexplained_.updates >= root.updates + kUpdatesAfterSurvival))
      diagnosis.unexplained = unexplained_.evidence;
    diagnosis.others.assign(findings.begin() + 1, findings.end());
  }

  const Known& known_ = known();
  PatternSet::Search search_;
  std::vector<std::vector<Hit>> hits_;  // per pattern, in the log's order
  std::vector<int> found_;
  std::uint64_t tracebacks_ = 0;
  bool notebook_ = false;  // the last traceback is a notebook's
  std::string message_;
  std::size_t message_lines_ = 0;  // still to be read of the out-of-memory message
  OomNumbers numbers_;
  std::uint64_t updates_ = 0, numbers_updates_ = 0;
  std::string loss_;  // the last one
  std::vector<Evidence> errors_;
  Hit unexplained_;  // the last exception that no pattern knows; line 0: none
  LineReader lines_{[this](std::uint64_t number, std::string_view text) { on_line(number, text); }};
};

LogReader::LogReader() : impl_(std::make_unique<Impl>()) {}
LogReader::~LogReader() = default;
void LogReader::feed(std::string_view bytes) { impl_->feed(bytes); }
Diagnosis LogReader::finish() { return impl_->finish(); }

}  // namespace plimsoll::doctor
