#include "doctor/verdict.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>

#include "doctor/error_lines.h"
#include "doctor/headers.h"
#include "doctor/hints.h"
#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

// True if the line has it as a separate word ("[INFO|trainer.py:12]", "| WARN |"), not as part of a path or name.
bool says_word(std::string_view line, std::string_view word) {
  const auto is_letter = [&](std::size_t at) {
    return at < line.size() && (std::isalnum(static_cast<unsigned char>(line[at])) != 0 ||
                                std::string_view("_./\\'\"=").find(line[at]) != std::string_view::npos);
  };
  for (std::size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1))
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  return false;
}

// "[W socket.cpp:436]", "[rank0]:[W412 03:21:49 TCPStore.cpp:141]": C++ code in PyTorch.
bool is_torch_warning(std::string_view small) {
  const std::size_t at = small.find("[w"), end = small.find(']', at == std::string_view::npos ? 0 : at);
  return at != std::string_view::npos && at + 2 < small.size() &&
         (small[at + 2] == ' ' || std::isdigit(static_cast<unsigned char>(small[at + 2])) != 0) &&
         small.substr(at, end - at).find(".cpp:") != std::string_view::npos;
}
// A loss that is NaN is no less serious in a line that a logger marks as information, nor is a warning that was raised
// as an exception.
bool is_mild(const Finding& f) {
  if (f.rule->level == Level::kNote) return true;
  const bool raised = f.inside && is_exception_name(f.trigger.text);
  return only_warns(f.trigger.text) && !f.rule->heals && !f.rule->lasting && !raised;
}

bool passes_by(const Finding& f) { return f.rule->passes || f.rule->outage; }

// This many losses that are NaN, each after a finite one, are not a coincidence.
constexpr std::uint64_t kRelapses = 3;

// The most that is quoted of an exception, and of its chain.
constexpr std::size_t kMaxMessageBytes = 1200, kMaxChain = 4;

bool calls_itself_warning(std::string_view line) { return to_small_letters(line).find("warning") != std::string::npos; }

class Judge {
 public:
  Judge(std::vector<Finding> findings, const Story& story) : findings_(std::move(findings)), story_(story) {
    has_more_than_reports_ =
        std::any_of(findings_.begin(), findings_.end(), [](const Finding& f) { return !is_mild(f); }) ||
        std::any_of(story_.exceptions.begin(), story_.exceptions.end(), [](const Exception& e) { return !follows(e); });
  }

  Diagnosis decide() {
    drop_vaguer_words();
    drop_same_lines();
    order();
    Diagnosis diagnosis;
    const std::optional<Evidence> unexplained = unexplained_error();
    const bool at_peace = !unexplained && ended_in_peace();
    const std::vector<const Exception*> ending = ending_chain();
    if (findings_.empty() || is_over(findings_.front()) || findings_.front().rule->usual ||
        (at_peace && made_progress() && is_mild(findings_.front()))) {
      diagnosis.no_failure = at_peace && (only_usual() || made_progress());
      if (!diagnosis.no_failure) take_ending(ending, diagnosis);
      diagnosis.others = std::move(findings_);
    } else if (unexplained && (explains_little(findings_.front()) || is_outranked(findings_.front(), ending))) {
      take_ending(ending, diagnosis);
      diagnosis.others = std::move(findings_);
    } else {
      take_root(diagnosis);
      doubt(diagnosis);
    }
    if (diagnosis.rule == nullptr && !diagnosis.no_failure) quote_errors(unexplained, diagnosis);
    return diagnosis;
  }

 private:
  // True if the run continued after that line: more losses, or the words of a finished run.
  bool went_on(std::uint64_t line, std::uint64_t updates) const {
    return story_.updates >= updates + kUpdatesAfterSurvival || (story_.closing_line > line && story_.finite);
  }
  // A program's output and its errors may reach a log out of order, because output is buffered and errors are not:
  // losses below a traceback may be older than it. But it is certain if the launcher reports a good end, or if a good
  // end follows a progress bar that continued, since bars go to the same stream as errors.
  bool ended_well(std::uint64_t line, std::uint64_t updates) const {
    const bool bars = story_.bar_line > line && story_.closing_line > line;
    return (story_.exit_line > line || bars) && went_on(line, updates);
  }
  // Training that continues with finite losses cancels neither a NaN in evaluation nor one that recurs.
  bool is_lasting_nan(const Finding& f) const {
    return f.rule->heals && (!story_.eval_finite || story_.relapses >= kRelapses);
  }
  bool is_over(const Finding& f) const {
    if (f.rule->lasting) return false;
    const bool passes = is_mild(f) || f.rule->heals || passes_by(f) || calls_itself_warning(f.trigger.text);
    if (is_lasting_nan(f)) return ended_well(f.trigger.line, f.updates);
    if (f.rule->outage && is_beside_training(f)) return true;
    return passes ? went_on(f.trigger.line, f.updates) : ended_well(f.trigger.line, f.updates);
  }
  // True for an outage of a tracker or the network that a run reports which trained, or which had finished: such a line
  // ends no run unless it is in a traceback.
  bool is_beside_training(const Finding& f) const {
    if (f.inside || !made_progress()) return false;
    const bool raised = std::any_of(story_.exceptions.begin(), story_.exceptions.end(),
                                    [&](const Exception& e) { return e.evidence.line == f.trigger.line; });
    return !raised || (story_.closing_line > 0 && story_.finite);
  }
  bool is_clean() const { return story_.errors.empty() && story_.exceptions.empty(); }
  // True if the log shows training that works, or that has finished.
  bool made_progress() const {
    if (!story_.eval_finite || story_.relapses >= kRelapses) return false;
    if (story_.closing_line > 0 || story_.results || (story_.tracked && is_clean())) return true;
    if (story_.signs && story_.finite && is_clean() && !story_.troubled) return true;
    // Not every program prints losses.
    return story_.finite && std::max(story_.updates, is_clean() ? story_.bars : 0) >= kUpdatesAfterSurvival;
  }
  // True if everything found is also printed by successful runs, or was survived by the run.
  bool only_usual() const {
    return !findings_.empty() && std::all_of(findings_.begin(), findings_.end(), [&](const Finding& f) {
      return is_over(f) || (is_clean() && f.rule->usual);
    });
  }
  bool ended_in_peace() const {
    for (const Exception& e : story_.exceptions) {
      const bool passes = std::any_of(findings_.begin(), findings_.end(), [&](const Finding& f) {
        const bool is_it =
            f.trigger.line == e.evidence.line || (contains(f.chains, e.chain) && went_on(e.evidence.line, e.updates));
        return passes_by(f) && is_it && is_over(f);
      });
      if (!passes && !ended_well(e.evidence.line, e.updates)) return false;
    }
    const auto is_passed = [&](std::uint64_t line) {
      return std::any_of(findings_.begin(), findings_.end(),
                         [&](const Finding& f) { return passes_by(f) && f.trigger.line == line && is_over(f); });
    };
    if (story_.errors.empty() || went_on(story_.errors.back().line, story_.error_updates) ||
        is_passed(story_.errors.back().line))
      return true;
    // If training finished or was evaluated, an error that a logger reports is about something else.
    const bool outlived =
        story_.fatal_line == 0 || went_on(story_.fatal_line, story_.fatal_updates) || is_passed(story_.fatal_line);
    return outlived && (story_.closing_line > 0 || story_.results);
  }

  // A warning, or what follows from something else, is named only if nothing else left a trace; an exception is a
  // trace. The exception to this is a NaN loss, which causes much else.
  static bool explains_little(const Finding& f) {
    return is_mild(f) || (f.rule->level != Level::kCause && !f.rule->heals);
  }
  // True if the exception that ended the run counts for more than that finding, which is not an error's line, or is an
  // exception that the program printed before it continued.
  bool is_outranked(const Finding& f, std::span<const Exception* const> ending) const {
    if (ending.empty() || kind_of(told_by(ending).raised) == nullptr || f.rule->from_outside) return false;
    if (!f.told) return true;
    const bool raised = std::any_of(story_.exceptions.begin(), story_.exceptions.end(),
                                    [&](const Exception& e) { return e.chain == f.chain && e.chain > 0; });
    const std::optional<Raised> quoted = read_raised(f.trigger.text, false);
    return !f.inside && !raised && quoted && !quoted->at_start && told_by(ending).raised.has_frames &&
           told_by(ending).evidence.line > f.trigger.line;
  }

  // Returns the unexplained exceptions that belong, according to Python, to the failure that ended the run: with one
  // process the last such failure, with several processes the first.
  std::vector<const Exception*> ending_chain() const {
    std::vector<const Exception*> chain;
    for (const Exception& e : story_.exceptions) {
      if (is_explained(e) || went_on(e.evidence.line, e.updates)) continue;
      const bool starts = chain.empty() || chain.back()->chain != e.chain;
      if (starts && !chain.empty() && (follows(e) || story_.ranks)) continue;
      if (starts) chain.clear();
      chain.push_back(&e);
    }
    return chain;
  }
  static const Exception& told_by(std::span<const Exception* const> chain) {
    std::vector<Raised> raised;
    for (const Exception* e : chain) raised.push_back(e->raised);
    return *chain[telling_one(raised, chain.back()->direct)];
  }
  static std::string where(const Raised& raised) {
    const std::string words(raised.layer == Layer::kOwnCode && raised.in_library ? "in a library that the script calls"
                                                                                 : layer_words(raised.layer));
    // The names of files and functions come from the log, so they are made printable.
    const std::string place = printable(raised.place);
    return words.empty() || place.empty() ? words + place : words + ": " + place;
  }
  void take_ending(std::span<const Exception* const> chain, Diagnosis& diagnosis) const {
    if (chain.empty()) return;
    const Exception& exception = told_by(chain);
    const Kind* kind = kind_of(exception.raised);
    if (kind == nullptr) return;
    const Raised& raised = exception.raised;
    diagnosis.rule = &kind->rule;
    diagnosis.ending = {printable(raised.type + (!raised.message.empty()    ? ": " + raised.message
                                                 : !raised.asserted.empty() ? ": assert " + raised.asserted
                                                                            : std::string()),
                                  kMaxMessageBytes),
                        where(raised), missing_package(raised.message)};
    for (const Exception* e : chain) diagnosis.evidence.push_back(e->evidence);
    if (diagnosis.evidence.size() > kMaxChain)
      diagnosis.evidence.erase(diagnosis.evidence.begin() + 1, diagnosis.evidence.end() - (kMaxChain - 1));
    // Another program's last message, which nothing explains.
    for (const Exception& e : story_.exceptions) {
      if (e.evidence.line <= exception.evidence.line || e.chain == exception.chain || is_explained(e) ||
          went_on(e.evidence.line, e.updates) || kind_of(e.raised) != nullptr || follows(e))
        continue;
      diagnosis.unexplained = e.evidence;
      diagnosis.doubt = "the log also holds an error that Plimsoll does not know, and which may be the failure";
    }
    // A failure that a rule knows ended a separate traceback.
    const bool another = std::any_of(findings_.begin(), findings_.end(), [&](const Finding& f) {
      return f.told && f.inside && f.rule->level == Level::kCause && !is_mild(f) && !is_over(f) &&
             f.chain != exception.chain;
    });
    if (another && diagnosis.doubt.empty())
      diagnosis.doubt = "another failure in the log may be the first: see \"also seen\"";
    if (went_on(exception.evidence.line, exception.updates))
      diagnosis.doubt = "losses follow it: the run went on after it, or its output reached the log late";
  }

  // True if the root is that the program was ended from outside: then it ends in the usual way, and may say so.
  bool is_ended_from_outside() const {
    return !findings_.empty() && findings_.front().rule->from_outside && !is_mild(findings_.front()) &&
           !is_over(findings_.front());
  }
  // A rule explains an exception whose line it knows, or one in the same chain as its finding, which may be a cause, or
  // a consequence that only announces the exception ("Caught … in DataLoader worker").
  bool is_explained(const Exception& e) const {
    if (e.known || (follows(e) && has_more_than_reports_) || (e.teardown && is_ended_from_outside())) return true;
    // A loss that is NaN makes these fail later.
    if (mentions_nan(e.raised.message) && std::any_of(findings_.begin(), findings_.end(), [&](const Finding& f) {
          return f.rule->heals && f.trigger.line < e.evidence.line;
        }))
      return true;
    if (ends_what_failed_before(e)) return true;
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& f) {
      if (f.rule->level == Level::kEcho && kind_of(e.raised) != nullptr) return false;
      // The same failure, printed once more.
      if (!is_mild(f) && f.told && e.chain > f.chain && contains(f.chains, e.chain) && f.rule->level == Level::kCause)
        return true;
      return f.told && f.chain == e.chain && !is_mild(f) && e.updates < f.updates + kUpdatesAfterSurvival &&
             (f.rule->level == Level::kCause || f.trigger.line <= e.evidence.line);
    });
  }
  static bool contains(const std::vector<std::uint64_t>& chains, std::uint64_t chain) {
    return std::find(chains.begin(), chains.end(), chain) != chains.end();
  }
  // True if a reported cause precedes an exception that says nothing itself, or that a tracker or a logger raises when
  // it is closed.
  bool ends_what_failed_before(const Exception& e) const {
    const bool is_bare = e.raised.message.empty() && e.raised.asserted.empty() &&
                         (e.raised.name() == "RuntimeError" || e.raised.name() == "Exception" ||
                          e.raised.name() == "SystemExit" || e.raised.name() == "Exit");
    if (!is_bare && e.raised.layer != Layer::kTracker && !e.raised.type.starts_with("wandb.")) return false;
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& f) {
      return f.told && !is_mild(f) && f.rule->level == Level::kCause && f.trigger.line < e.evidence.line;
    });
  }
  static bool follows(const Exception& e) { return follows_another_end(e.raised) || only_reports(e.raised); }
  static bool mentions_nan(std::string_view message) {
    const std::string small = to_small_letters(message);
    for (const std::string_view word : {"nan", "inf", "infinity", "infinite"})
      if (says_word(small, word)) return true;
    return false;
  }
  // Returns the last exception below that line that no rule explains; one that is followed by losses only if requested.
  std::optional<Evidence> unexplained_error(std::uint64_t line = 0, bool even_if_losses_follow = false) const {
    for (auto e = story_.exceptions.rbegin(); e != story_.exceptions.rend(); ++e) {
      if (e->evidence.line <= line || is_explained(*e)) continue;
      if (even_if_losses_follow || !went_on(e->evidence.line, e->updates)) return e->evidence;
    }
    return {};
  }

  void drop_vaguer_words() {
    // A note or a warning says more than another warning, but not more than an error; notes come first, because such a
    // warning then refines nothing.
    for (const bool notes : {true, false}) {
      std::set<std::string_view> refined;
      for (const Finding& f : findings_)
        if (is_mild(f) == notes) refined.insert(f.rule->refines.begin(), f.rule->refines.end());
      std::erase_if(findings_,
                    [&](const Finding& f) { return refined.contains(f.rule->name) && (!notes || is_mild(f)); });
    }
  }

  // Several rules may read one line: they are about one failure, and one of them names it. A cause is kept before a
  // consequence, and the rule with the longer words before the others.
  void drop_same_lines() {
    const auto says_more = [](const Finding& a, const Finding& b) {
      if (a.rule->level != b.rule->level) return a.rule->level > b.rule->level;
      return a.weight > b.weight;
    };
    std::map<std::uint64_t, const Finding*> best;
    for (const Finding& f : findings_) {
      const Finding*& known = best[f.trigger.line];
      if (known == nullptr || says_more(f, *known)) known = &f;
    }
    std::set<const Rule*> kept;
    for (const auto& [line, f] : best) kept.insert(f->rule);
    std::erase_if(findings_, [&](const Finding& f) { return !kept.contains(f.rule); });
  }

  // True if another cause came after the run had survived this one.
  bool is_outlived(const Finding& f) const {
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& other) {
      return other.rule->level == Level::kCause && !is_mild(other) &&
             f.updates + kUpdatesAfterSurvival <= other.updates;
    });
  }
  // True if that cause is only in a warning, and an error that does not follow from it ended the run.
  bool is_only_warned(const Finding& f) const {
    if (f.told || f.rule->heals || f.rule->from_outside) return false;
    if (!calls_itself_warning(f.trigger.text)) return is_outranked_by_end(f);
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& other) {
      const auto& follows = f.rule->leads_to;
      return other.told && other.inside && other.rule->level >= Level::kConsequence && !is_mild(other) &&
             other.trigger.line > f.trigger.line &&
             std::find(follows.begin(), follows.end(), other.rule->name) == follows.end();
    });
  }
  // True if an exception that says by itself what was refused, and that a rule knows, ended the run, while that finding
  // is a line of output from which the rule does not follow.
  bool is_outranked_by_end(const Finding& f) const {
    // Kernels, drivers, compilers and NCCL print what an exception only reports later.
    const std::string small = to_small_letters(f.trigger.text);
    for (const std::string_view word : {"error", "assert", "fail", "kill", "nvrm", "nccl", "nan", "cannot find"})
      if (small.find(word) != std::string::npos) return false;
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& other) {
      const auto &leads = f.rule->leads_to, &refines = f.rule->refines;
      if (!other.told || !other.inside || is_mild(other) || other.rule->level != Level::kCause ||
          other.trigger.line <= f.trigger.line ||
          std::find(leads.begin(), leads.end(), other.rule->name) != leads.end() ||
          std::find(refines.begin(), refines.end(), other.rule->name) != refines.end())
        return false;
      return std::any_of(story_.exceptions.begin(), story_.exceptions.end(), [&](const Exception& e) {
        return e.evidence.line == other.trigger.line && says_enough(e.raised) && !went_on(e.evidence.line, e.updates);
      });
    });
  }
  // The order is: causes, consequences, reports of another process's end, mere warnings, what successful runs print,
  // too, and what the run survived; among causes, those that it survived until another one came are last.
  int rank(const Finding& f) const {
    if (is_over(f)) return 6;
    if (f.rule->usual) return 5;
    if (is_mild(f) || is_only_warned(f)) return 4;
    if (f.rule->level == Level::kEcho) return 3;
    if (f.rule->level != Level::kCause) return 2;
    return is_outlived(f) ? 1 : 0;
  }
  void order() {
    std::vector<std::pair<int, std::size_t>> ranks;
    for (std::size_t i = 0; i < findings_.size(); ++i) ranks.emplace_back(rank(findings_[i]), i);
    std::stable_sort(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first < b.first;
      return findings_[a.second].trigger.line < findings_[b.second].trigger.line;
    });
    std::vector<Finding> sorted;
    for (const auto& [rank, i] : ranks) sorted.push_back(std::move(findings_[i]));
    findings_ = std::move(sorted);
  }

  void take_root(Diagnosis& diagnosis) const {
    const Finding& root = findings_.front();
    diagnosis.rule = root.rule;
    diagnosis.evidence = root.context;
    diagnosis.evidence.push_back(root.trigger);
    std::sort(diagnosis.evidence.begin(), diagnosis.evidence.end(),
              [](const Evidence& a, const Evidence& b) { return a.line < b.line; });
    diagnosis.evidence.erase(std::unique(diagnosis.evidence.begin(), diagnosis.evidence.end(),
                                         [](const Evidence& a, const Evidence& b) { return a.line == b.line; }),
                             diagnosis.evidence.end());
    diagnosis.others.assign(findings_.begin() + 1, findings_.end());
    diagnosis.ending.package = root.rule->name == "header-missing"
                                   ? std::string(source_of_header(to_small_letters(root.trigger.text)))
                                   : missing_package(root.trigger.text);
    for (const Exception& e : story_.exceptions) {
      if (!root.inside || e.chain != root.chain || e.raised.place.empty()) continue;
      diagnosis.ending.where = where(e.raised);
      break;
    }
  }

  void doubt(Diagnosis& diagnosis) const {
    const Finding& root = findings_.front();
    const bool is_cause = root.rule->level == Level::kCause;
    diagnosis.unexplained = unexplained_error(is_cause ? root.trigger.line : 0, !is_cause);
    if (diagnosis.unexplained)
      diagnosis.doubt = "the log also holds an error that Plimsoll does not know, and which may be the failure";
    else if (!root.rule->lasting && went_on(root.trigger.line, root.updates) && !ends_in_failure(root) &&
             (!is_lasting_nan(root) || story_.closing_line > root.trigger.line))
      diagnosis.doubt = "losses follow it: the run went on after it, or its output reached the log late";
    else if (is_mild(root) && !is_cut_short(root))
      diagnosis.doubt = "it is only a warning, and the log holds no error";
    else if (root.rule->level == Level::kEcho)
      diagnosis.doubt = "it only reports that something failed elsewhere, and the log does not hold that failure";
    else if (is_cause && disagrees(root))
      diagnosis.doubt = "another failure in the log may be the first: see \"also seen\"";
  }
  // True if the log ends in a traceback that begins right below that line, so that the line alone describes the
  // failure.
  bool is_cut_short(const Finding& f) const {
    constexpr std::uint64_t kNear = 3;
    return story_.cut_line > f.trigger.line && story_.cut_line <= f.trigger.line + kNear;
  }
  // True if an exception that follows from the root ended the run, whatever other processes printed before.
  bool ends_in_failure(const Finding& root) const {
    return root.told && std::any_of(story_.exceptions.begin(), story_.exceptions.end(), [&](const Exception& e) {
             return e.evidence.line > root.trigger.line && is_explained(e) && e.raised.has_frames &&
                    e.updates == story_.updates && e.evidence.line > story_.closing_line;
           });
  }
  // True if the log has another cause of the same rank: not one that follows from the root, nor one on another line
  // (another rank's) that is the same failure in other words.
  bool disagrees(const Finding& root) const {
    const std::set<std::string_view> follows(root.rule->leads_to.begin(), root.rule->leads_to.end()),
        same(root.rule->refines.begin(), root.rule->refines.end());
    return std::any_of(findings_.begin() + 1, findings_.end(), [&](const Finding& f) {
      if (rank(f) != rank(root) || follows.contains(f.rule->name)) return false;
      // These tracebacks belong to one failure, according to Python.
      if (f.inside && root.inside && f.chain == root.chain) return false;
      const auto& refines = f.rule->refines;
      return f.trigger.line == root.trigger.line ||
             std::none_of(refines.begin(), refines.end(), [&](std::string_view name) { return same.contains(name); });
    });
  }

  void quote_errors(const std::optional<Evidence>& unexplained, Diagnosis& diagnosis) const {
    if (unexplained) diagnosis.errors.push_back(*unexplained);
    for (const Evidence& error : story_.errors)
      if (!unexplained || error.line != unexplained->line) diagnosis.errors.push_back(error);
  }

  std::vector<Finding> findings_;
  const Story& story_;
  bool has_more_than_reports_ = false;  // the log holds more than what follows from another process's end
};

}  // namespace

bool only_warns(std::string_view line) {
  const std::string small = to_small_letters(line);
  // The line that ends a traceback may mention warnings.
  if (const std::optional<Raised> raised = read_raised(line, false); raised && raised->at_start) return false;
  for (const std::string_view serious : {"cuda initialization", "nccl warn", "failed to clone() tensor",
                                         "failedscheduling", "failed to pull image", "imagepullbackoff"})
    if (small.find(serious) != std::string::npos) return false;
  // A level's name is in capitals or brackets: "to debug the error" is not one.
  for (const std::string_view level : {"WARN", "INFO", "DEBUG"})
    if (says_word(line, level)) return true;
  for (const std::string_view level : {"[warn]", "[info]", "[debug]", "| warn", "| info", "| debug"})
    if (small.find(level) != std::string::npos) return true;
  return small.find("warning") != std::string::npos || is_torch_warning(small);
}

Diagnosis judge(std::vector<Finding> findings, const Story& story) {
  return Judge(std::move(findings), story).decide();
}

}  // namespace plimsoll::doctor
