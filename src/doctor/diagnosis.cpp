#include "doctor/diagnosis.h"

#include <algorithm>
#include <optional>
#include <set>

#include "doctor/diverged.h"
#include "doctor/error_lines.h"
#include "doctor/extensions.h"
#include "doctor/goes_on.h"
#include "doctor/hints.h"
#include "doctor/known.h"
#include "doctor/log_lines.h"
#include "doctor/log_words.h"
#include "doctor/loss_scale.h"
#include "doctor/pattern.h"
#include "doctor/run_up.h"
#include "doctor/signs.h"
#include "doctor/untrained.h"
#include "doctor/verdict.h"
#include "doctor/wrapped_lines.h"

namespace plimsoll::doctor {
namespace {

// The most hits of one pattern that are kept: its first one in each of the first tracebacks.
constexpr std::size_t kMaxHits = 64;
constexpr std::size_t kMaxErrors = 3, kMaxContext = 4;
// An out-of-memory message may be wrapped by a terminal or be a small table.
constexpr std::size_t kMessageLines = 12, kMessageBytes = 4096;
// The most exceptions of a log that are kept: the last ones.
constexpr std::size_t kMaxExceptions = 256;
// A time-out at most this many lines after the progress of the data's preparation occurred during that.
constexpr std::size_t kPreparingLines = 3;
// The most frames of a traceback that are kept, and the most lines and bytes of a message that are read.
constexpr std::size_t kMaxFrames = 128, kExceptionLines = 3, kExceptionBytes = 1200;
// The most lines of a message that begins with a printed object.
constexpr std::size_t kObjectLines = 64;

struct Hit {
  std::uint64_t traceback = 0;  // how many tracebacks had begun
  std::uint64_t chain = 0;      // the same, counting those that follow from one another as one
  std::uint64_t updates = 0;    // how many losses had been printed
  bool told = false;            // on an error's line, or in a traceback
  bool inside = false;          // in a traceback
  bool warns = false;           // on a line that calls itself a warning
  bool source = false;          // on a line of source in a traceback that raises nothing
  std::size_t weight = 0;       // how many characters of the line the pattern covers
  Evidence evidence{};
};

}  // namespace

class LogReader::Impl {
 public:
  Impl() { hits_.resize(known_.patterns.size()); }

  void feed(std::string_view bytes) { lines_.feed(bytes); }

  Diagnosis finish() {
    lines_.finish();
    if (in_traceback_ && !passing_ && !is_after_) {  // the log ends in the middle of it
      story_.errors.push_back(last_);
      story_.cut_line = traceback_line_;
      story_.error_updates = story_.fatal_updates = story_.updates;
      story_.fatal_line = last_.line;
    }
    facts_ = facts_reader_.facts();
    if (const auto found = untrained_.find()) {
      last_untrained_ = found->last;
      keep_found(found->pattern, found->first, false);
    }
    diverged_lines_ = diverged_.find();
    if (!diverged_lines_.empty()) keep_found(kLossDiverges, diverged_lines_.front(), false);
    find_sudden_end();
    std::vector<Finding> findings;
    std::set<int> explained;
    for (const Rule& rule : all_rules()) {
      std::optional<Finding> finding = try_rule(rule);
      if (!finding) continue;
      for (const std::string_view pattern : rule.when) explained.insert(known_.number.at(pattern));
      findings.push_back(std::move(*finding));
    }
    for (Exception& e : story_.exceptions)
      e.known = std::any_of(e.patterns.begin(), e.patterns.end(), [&](int p) { return explained.contains(p); });
    Diagnosis diagnosis = judge(std::move(findings), story_);
    diagnosis.lines = lines_.lines();
    diagnosis.bytes = lines_.bytes();
    diagnosis.facts = facts_;
    for (const std::string_view hint : {kModuleIsNone, kExtensionSymbol, kExtensionKernel})
      if (diagnosis.rule != nullptr && diagnosis.rule->when == AnyOf{hint}) diagnosis.ending.package = hinted_package_;
    if (diagnosis.rule != nullptr && diagnosis.rule->reads_numbers) diagnosis.numbers = numbers_;
    return diagnosis;
  }

 private:
  bool found_one_of(const std::set<int>& patterns) const {
    return std::any_of(found_.begin(), found_.end(), [&](int pattern) { return patterns.contains(pattern); });
  }
  void on_line(std::uint64_t number, std::string_view text) {
    if (text.starts_with("> ")) text.remove_prefix(2);  // quoted, as in an e-mail
    text = without_emphasis(text);
    goes_on_ = wrapped_.add(number, text);
    if (is_context_line(text, notebook_)) return;
    std::string small = to_small_letters(text);
    follow_end(number, text, small);
    if (const std::string row = table_.read_row(small); !row.empty()) small = row;
    found_.clear();
    known_.patterns.find(small, search_, [&](int pattern) { found_.push_back(pattern); });
    if (found_one_of(known_.elsewhere) && !names_exception(text)) return wrapped_.end();
    for (const int pattern : found_)
      if (const auto fact = known_.facts.find(pattern); fact != known_.facts.end())
        facts_reader_.read(fact->second, number, small);
    follow_losses(number, text, small);
    follow_signs(text, small);
    follow_tracebacks(text, small);
    if (begins_traceback_) traceback_line_ = number;
    // A traceback may be cut after its heading, and its first remaining line then has no blanks.
    if (!in_traceback_ && text.starts_with("File \"") && read_frame(text)) {
      chain_ = ++tracebacks_;
      begins_traceback_ = in_traceback_ = true;
    }
    if (is_after_) {
      if (ends_traceback_here(text)) in_traceback_ = is_after_ = false;
      return wrapped_.end();
    }
    const bool ends_traceback = ends_traceback_here(text);
    follow_exception(number, text, small);
    look_deeper(text, small);
    const bool error = is_error(small), told = error || in_traceback_ || exception_lines_ > 0;
    story_.ranks = story_.ranks || found_one_of(known_.ranks);
    for (const int pattern : found_)
      keep_hit(pattern, known_.patterns.text(pattern), {number, text, small, told, in_traceback_, is_source_});
    look_across_breaks(text, told);
    follow_message(small);
    const bool ends_here = ends_traceback && is_exception_name(text.substr(prefix_.size()));
    if (!passing_ && !only_warns(text) && (ends_here || names_exception(text))) keep_exception(number, text, ends_here);
    // A notebook's traceback ends with its exception, and numbered lines below it are no source lines.
    if (notebook_ && !text.starts_with(' ') && !text.starts_with('-') && names_exception(text)) notebook_ = false;
    if (in_traceback_) last_ = {number, printable(text)};
    if (ends_traceback) in_traceback_ = false;
    if (error && !passing_ && (names_exception(text) || ends_traceback || !is_logged_error(text))) {
      story_.fatal_line = number;
      story_.fatal_updates = story_.updates;
    }
    if (error && !passing_) {
      std::vector<Evidence>& errors = story_.errors;
      if (errors.size() == kMaxErrors) errors.erase(errors.begin() + 1);  // keep the first and the last ones
      errors.push_back({number, printable(text)});
      story_.error_updates = story_.updates;
    }
  }
  // Keeps what the log ends with: a message of the allocator, "^C".
  void follow_end(std::uint64_t number, std::string_view text, std::string_view small) {
    const std::string_view line = trimmed(small);
    // "@  0x7f568599a1e7 0x7f56152510ce": the message's addresses, which a terminal may break.
    if (line.empty() || line.find_first_not_of("0123456789abcdefx@ ") == std::string_view::npos) return;
    if (line.starts_with("tcmalloc: large alloc")) {
      large_allocation_ = {number, printable(text)};
    } else if (line == "^c") {
      interrupt_ = {number, printable(text)};
      return;
    } else {
      large_allocation_ = {};
    }
    interrupt_ = {};
  }
  // Keeps what is only seen once the whole log has been read.
  void keep_found(std::string_view pattern, const Evidence& evidence, bool told) {
    hits_[static_cast<std::size_t>(known_.number.at(pattern))].push_back(
        {.updates = story_.updates, .told = told, .weight = pattern.size(), .evidence = evidence});
  }
  // Notebooks on the web end a program that runs out of memory as if Ctrl-C had been pressed.
  void find_sudden_end() {
    const bool trains = story_.updates >= kUpdatesAfterSurvival || story_.signs || story_.closing_line > 0;
    if (large_allocation_.line > 0 && (interrupt_.line > 0 || !trains))
      keep_found(kEndsInAllocation, large_allocation_, true);
    if (interrupt_.line > 0 && !trains) keep_found(kEndsInInterrupt, interrupt_, true);
  }
  // Searches the lines that a terminal broke for patterns across a break.
  void look_across_breaks(std::string_view text, bool told) {
    if (!goes_on_) {
      whole_found_ = found_;
      whole_told_ = told;
      whole_inside_ = in_traceback_;
      return;
    }
    whole_found_.insert(whole_found_.end(), found_.begin(), found_.end());
    for (const std::string& whole : wrapped_.whole()) {
      const std::string small = to_small_letters(whole);
      const std::size_t known = whole_found_.size();
      known_.patterns.find(small, search_, [&](int pattern) {
        if (const auto fact = known_.facts.find(pattern); fact != known_.facts.end())
          facts_reader_.read(fact->second, wrapped_.first(), small);
        if (std::find(whole_found_.begin(), whole_found_.end(), pattern) == whole_found_.end())
          whole_found_.push_back(pattern);
      });
      find_hints(whole, small, whole_found_);
      for (std::size_t i = known; i < whole_found_.size(); ++i) {
        keep_hit(whole_found_[i], known_.patterns.text(whole_found_[i]),
                 {wrapped_.first(), whole, small, whole_told_ || told, whole_inside_, false});
        if (exception_line_ >= wrapped_.first() && !story_.exceptions.empty() && !names_exception(text))
          story_.exceptions.back().patterns.push_back(whole_found_[i]);
      }
    }
  }
  // Finds what no pattern can, because it takes several lines.
  void look_deeper(std::string_view text, std::string_view small) {
    if (!frames_.empty() && names_exception(text)) {
      const Import import = read_import(text, frames_);
      if (import == Import::kFromItself) found_.push_back(known_.own_import);
      if (import == Import::kFromOther) found_.push_back(known_.other_import);
      if (const std::string_view module = module_that_is_none(text, source_); !module.empty()) {
        found_.push_back(known_.module_none);
        hinted_package_ = module;
      }
      if (stale_ && blames_loaded_code(text)) found_.push_back(known_.stale_source);
    }
    if (is_error(small) && names_one_letter(small)) found_.push_back(known_.one_letter);
    if (loss_scale_.has_fallen(small)) found_.push_back(known_.scale_fallen);
    find_hints(text, small, found_);
    if (is_source_ && !frames_.empty() && !frames_.back().library) own_source_ = text;
    if (!frames_.empty() && frames_.back().library && shows_other_source(text) && (text.starts_with('-') || is_source_))
      stale_ = true;
    if (small.find_first_not_of(" ~^") != std::string_view::npos) source_ = text;
    follow_preparation(small);
  }
  // Finds time-outs during the preparation of data: near its progress, above or below, or in a function that waits for
  // it. A traceback is one event, however many lines it has.
  void follow_preparation(std::string_view small) {
    const auto count = [&](std::size_t& lines, bool begins) {
      if (begins)
        lines = 0;
      else if (!in_traceback_ && !goes_on_)
        lines = std::min(lines + 1, kPreparingLines + 1);
    };
    const bool times_out = found_one_of(known_.timeouts);
    // A bar that has come to its end shows that the work is done.
    const bool prepares = found_one_of(known_.preparing) && small.find("100%") == std::string_view::npos;
    count(since_preparing_, prepares);
    count(since_timeout_, times_out);
    const bool waits = std::any_of(frames_.begin(), frames_.end(), [](const Frame& frame) {
      return std::find(std::begin(kPreparingFunctions), std::end(kPreparingFunctions), frame.function) !=
             std::end(kPreparingFunctions);
    });
    if ((times_out && (waits || since_preparing_ <= kPreparingLines)) ||
        (prepares && since_timeout_ <= kPreparingLines))
      found_.push_back(known_.preparing_timeout);
  }
  // Finds what a line, or several joined ones, say besides their words.
  void find_hints(std::string_view text, std::string_view small, std::vector<int>& found) {
    const auto blame = [&](std::string_view package, int pattern) {
      if (package.empty()) return;
      found.push_back(pattern);
      hinted_package_ = package;
    };
    blame(extension_without_symbol(small), known_.extension_symbol);
    blame(extension_without_kernel(small, frames_), known_.extension_kernel);
    const bool refuses = small.find("must match the ") != std::string_view::npos ||
                         small.find("is invalid for input of size") != std::string_view::npos;
    const Lengths lengths = refuses ? read_lengths(small, source_ + own_source_) : Lengths::kUnknown;
    if (lengths == Lengths::kTooLong) found.push_back(known_.longer_sequence);
    if (lengths == Lengths::kPaddedApart) found.push_back(known_.padded_apart);
    if (!names_exception(text)) return;
    const Unequal unequal = read_unequal(text, source_ + own_source_);
    if (unequal == Unequal::kImageSizes) found.push_back(known_.image_sizes);
    if (unequal == Unequal::kImageChannels) found.push_back(known_.image_channels);
  }
  // True for exceptions that are raised when two versions of one package are mixed in memory.
  bool blames_loaded_code(std::string_view text) const {
    if (layer_of(frames_) == Layer::kImport) return true;
    const std::optional<Raised> raised = read_raised(text, false);
    if (!raised) return false;
    const std::string name = raised->name();
    return name == "ImportError" || name == "ModuleNotFoundError" || name == "AttributeError" || name == "NameError" ||
           name == "TypeError";
  }
  void keep_exception(std::uint64_t number, std::string_view text, bool ends_traceback) {
    if (story_.exceptions.size() == kMaxExceptions) story_.exceptions.erase(story_.exceptions.begin());
    Raised raised = read_raised(ends_traceback ? text.substr(prefix_.size()) : text, ends_traceback).value_or(Raised{});
    raised.has_frames = !frames_.empty();
    raised.at_start = raised.at_start || ends_traceback;
    raised.layer = layer_of(frames_);
    raised.place = place_of(frames_);
    raised.in_library = !frames_.empty() && frames_.back().library;
    raised.asserted = assertion_;
    // "ImportError: " and "RuntimeError: Error(s) in loading state_dict for Model:" continue in the next lines.
    exception_lines_ = raised.message.empty() || raised.message.ends_with(':') || raised.name() == "ValidationError"
                           ? kExceptionLines
                           : 0;
    if (raised.name() == "AssertionError") exception_lines_ = 0;
    // "TypeError: Pix2StructImageProcessor {": the message begins with an object that is printed over many lines.
    if (raised.message.ends_with('{')) exception_lines_ = kObjectLines;
    story_.exceptions.push_back({{number, printable(text)},
                                 chain_,
                                 story_.updates,
                                 found_,
                                 found_one_of(known_.teardown),
                                 false,
                                 direct_,
                                 std::move(raised)});
    exception_line_ = number;
    frames_.clear();
    assertion_.clear();
  }
  // Reads frames, and the rest of a message that takes several lines.
  void follow_exception(std::uint64_t number, std::string_view text, std::string_view small) {
    const std::string_view own = text.starts_with(prefix_) ? text.substr(prefix_.size()) : text;
    // A line that raises or asserts is not only shown: it was executed. Ranks that write at the same time may separate
    // a frame from its line.
    const std::string_view code = trimmed(own);
    is_source_ = own.starts_with(' ') && (is_frame_ || code.starts_with("from ") || code.starts_with("import ")) &&
                 !code.starts_with("raise ") && !code.starts_with("assert ") &&
                 !(names_exception(code) && is_exception_name(code));
    const bool was_frame = is_frame_;
    is_frame_ = false;
    std::optional<Frame> frame = read_frame(own);
    if (!frame && goes_on_ && wrapped_.whole().front().starts_with("File \"")) {
      for (const std::string& whole : wrapped_.whole())
        if (std::optional<Frame> read = read_frame(whole)) frame = std::move(read);
      if (frame && was_frame && !frames_.empty()) frames_.pop_back();  // the part of it on the previous line
    }
    if (frame) {
      is_frame_ = true;
      if (frames_.size() == kMaxFrames) frames_.erase(frames_.begin());
      frames_.push_back(std::move(*frame));
      assertion_.clear();
      exception_lines_ = 0;
      return;
    }
    if (std::optional<std::string> condition = read_assertion(text)) assertion_ = std::move(*condition);
    // A message that a terminal broke continues, too.
    if (exception_lines_ == 0 && goes_on_ && exception_line_ + 1 == number) exception_lines_ = 1;
    if (exception_lines_ == 0 || story_.exceptions.empty()) return;
    const std::string rest = printable(own, kExceptionBytes);
    std::string& message = story_.exceptions.back().raised.message;
    const bool ends = begins_traceback_ || found_one_of(known_.links) || names_exception(text) ||
                      small.starts_with("[rank") || message.size() > kExceptionBytes;
    // An empty line ends a message that has begun.
    if (ends || (number > exception_line_ + 1 && !message.empty())) {
      exception_lines_ = 0;
      return;
    }
    exception_line_ = number;
    if (rest.empty()) return;
    message += (message.empty() ? "" : " ") + rest;
    // A rule may recognise the exception by this line.
    story_.exceptions.back().patterns.insert(story_.exceptions.back().patterns.end(), found_.begin(), found_.end());
    --exception_lines_;
  }
  void follow_losses(std::uint64_t number, std::string_view text, std::string_view small) {
    if (found_one_of(known_.trackers)) {
      story_.tracked = story_.tracked || found_one_of(known_.tracked);
      return;
    }
    // detectron2 prints how long it trained even when it failed: a run that took no time has not finished.
    if (found_one_of(known_.closings) && small.find("time: 0:00:00 (") == std::string_view::npos)
      story_.closing_line = number;
    if (found_one_of(known_.results)) story_.results = true;
    if (found_one_of(known_.bars)) {
      story_.bar_line = number;
      story_.bars += !is_preparing_bar(small);
    }
    if (found_one_of(known_.exits)) story_.exit_line = story_.closing_line = number;
    if (story_.closing_line == number) diverged_.close(number);
    // A line that sums a run up says nothing about its last step.
    if (story_.closing_line == number || found_one_of(known_.summaries)) return;
    const LossLine losses = read_losses(small);
    run_up_.add(losses, number, text, small);
    untrained_.read(losses, number, text, small);
    diverged_.read(losses, number, text, small);
    // Whatever the form of the line, rules recognise it by one of these.
    if (losses.train_nan) found_.push_back(known_.train_nan);
    if (losses.eval_nan) found_.push_back(known_.eval_nan);
    // NaN in evaluation is a separate failure if training continues with finite losses.
    for (const std::string_view name : {"eval_loss", "val_loss", "validation loss", "valid loss", "valid_loss"})
      if (small.find(name) != std::string_view::npos) story_.eval_finite = losses.finite || !story_.finite;
    if (!losses.finite) {
      story_.relapses += story_.finite && story_.updates > 0 && losses.loss.empty();
      story_.finite = false;
    } else if (!losses.loss.empty()) {
      story_.finite = true;
      if (losses.loss != loss_) ++story_.updates;
      loss_ = losses.loss;
    }
  }
  // Notes what shows that a run works although it prints no losses, and what contradicts that.
  void follow_signs(std::string_view text, std::string_view small) {
    if (!story_.troubled && found_one_of(known_.troubles))
      story_.troubled = !measures_error(small) && !only_warns(text);
    if (story_.signs || story_.updates >= kUpdatesAfterSurvival || found_one_of(known_.trackers)) return;
    story_.signs = found_one_of(known_.signs) || signs_.read(small) || goes_on_reader_.read(small);
  }
  // Notes where a traceback begins, and which chain it belongs to.
  void follow_tracebacks(std::string_view text, std::string_view small) {
    if (found_one_of(known_.links)) {
      linked_ = true;
      direct_next_ = small.find("direct cause") != std::string_view::npos;
    }
    if (found_one_of(known_.threads)) passing_next_ = true;
    if (found_one_of(known_.after)) is_after_ = passing_next_ = true;
    // The words before the heading are a launcher's prefix only if the next line has them, too; else it is a progress
    // bar.
    if (begins_traceback_ && !text.starts_with(prefix_)) prefix_.clear();
    begins_traceback_ = std::find(found_.begin(), found_.end(), known_.traceback) != found_.end();
    if (!begins_traceback_) return;
    ++tracebacks_;
    stale_ = false;
    own_source_.clear();
    frames_.clear();
    assertion_.clear();
    direct_ = linked_ && direct_next_;
    if (!linked_) chain_ = tracebacks_;
    is_after_ = is_after_ && passing_next_;
    passing_ = passing_next_ || (linked_ && passing_);
    linked_ = passing_next_ = false;
    // A notebook's: "IndexError        Traceback (most recent call last)".
    notebook_ = !small.ends_with("last):") && small.find("traceback") > 0 && small.find("─") == std::string_view::npos;
    in_traceback_ = small.ends_with("last):");
    prefix_ = text.substr(0, small.find("traceback (most"));
    if (to_small_letters(prefix_).ends_with("original ")) prefix_.resize(prefix_.size() - 9);
  }
  // True for the first line after a traceback's that is not indented, after any prefix of a launcher.
  bool ends_traceback_here(std::string_view text) const {
    if (!in_traceback_ || begins_traceback_ || goes_on_ || !text.starts_with(prefix_)) return false;
    text.remove_prefix(prefix_.size());
    return !text.empty() && text[0] != ' ';
  }
  // A line, or several joined ones, in which a pattern was found.
  struct Place {
    std::uint64_t number = 0;
    std::string_view text{}, small{};
    bool told = false, inside = false, source = false;
  };
  void keep_hit(int pattern, std::string_view pattern_text, const Place& place) {
    const std::string_view text = place.text;
    const Match match = find_match(pattern_text, place.small).value_or(Match{});
    if (only_supposes(place.small, match.begin)) return;
    std::vector<Hit>& hits = hits_[static_cast<std::size_t>(pattern)];
    if (!hits.empty() && hits.back().traceback == tracebacks_ &&
        story_.updates < hits.back().updates + kUpdatesAfterSurvival) {
      // A printed message says more than a source line in a traceback, and an error more than a warning.
      const bool was_source = hits.back().source || hits.back().evidence.text.starts_with("raise ");
      if ((was_source && !printable(text).starts_with("raise ")) || (hits.back().warns && !only_warns(text)))
        hits.pop_back();
      else
        return;
    }
    if (hits.size() == kMaxHits) hits.pop_back();  // keep the first and the last ones
    hits.push_back({tracebacks_,
                    chain_,
                    story_.updates,
                    place.told,
                    place.inside,
                    only_warns(text),
                    place.source,
                    pattern_text.size(),
                    {place.number, printable_around(text, match)}});
  }
  // Reads the numbers of out-of-memory messages: those of the last message that has any, unless the run did not survive
  // an earlier one.
  void follow_message(std::string_view small) {
    if (found_one_of(known_.out_of_memory)) {
      const bool outlived = story_.updates >= numbers_updates_ + kUpdatesAfterSurvival;
      if (outlived && message_lines_ > 0) end_message();
      if (message_lines_ == 0 && (outlived || numbers_.empty())) {
        message_lines_ = kMessageLines;
        numbers_updates_ = story_.updates;
      }
    }
    if (message_lines_ > 0) {
      message_ += small.substr(0, kMessageBytes - std::min(kMessageBytes, message_.size()));
      message_ += ' ';
      if (--message_lines_ == 0) end_message();
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
  // Returns the first hit of any of the patterns, in that traceback or, without one, anywhere, after at least `updates`
  // printed losses; with `errors`, not on a line that calls itself a warning.
  const Hit* first(const AnyOf& any, std::optional<std::uint64_t> traceback, std::uint64_t updates = 0,
                   bool errors = false) const {
    const Hit* best = nullptr;
    for (const std::string_view pattern : any) {
      for (const Hit& hit : hits(pattern)) {
        if ((traceback && hit.traceback != *traceback) || hit.updates < updates || (errors && hit.warns)) continue;
        if (best == nullptr || hit.evidence.line < best->evidence.line) best = &hit;
      }
    }
    return best;
  }

  // Returns the first place where the rule holds, or the first after the run had survived that one, or one that is more
  // than a warning.
  std::optional<Finding> try_rule(const Rule& rule) {
    if (message_lines_ > 0) end_message();
    if (rule.holds != nullptr && !rule.holds(numbers_, facts_)) return {};
    if (first(rule.without_anywhere, {}) != nullptr) return {};
    if (rule.run_up != RunUp::kAny && rule.run_up != run_up_.kind()) return {};
    std::vector<const Hit*> triggers;
    for (const std::string_view pattern : rule.when)
      for (const Hit& hit : hits(pattern))
        if (!hit.source) triggers.push_back(&hit);
    std::stable_sort(triggers.begin(), triggers.end(),
                     [](const Hit* a, const Hit* b) { return a->evidence.line < b->evidence.line; });
    std::optional<Finding> found;
    for (const Hit* trigger : triggers) {
      if (found && !rule.last_words && trigger->updates < found->updates + kUpdatesAfterSurvival &&
          (!only_warns(found->trigger.text) || trigger->warns))
        continue;
      Finding finding{&rule,
                      trigger->evidence,
                      trigger->updates,
                      trigger->chain,
                      trigger->told,
                      trigger->inside,
                      trigger->weight,
                      {},
                      {}};
      for (const Hit* other : triggers)
        if (other->evidence.line == trigger->evidence.line) finding.weight = std::max(finding.weight, other->weight);
      bool holds = first(rule.without, trigger->traceback) == nullptr;
      const auto require = [&](const AnyOf& group, std::optional<std::uint64_t> where, bool errors) {
        const Hit* hit = first(group, where, 0, errors);
        if (hit == nullptr)
          holds = false;
        else
          finding.context.push_back(hit->evidence);
      };
      for (const AnyOf& group : rule.with) require(group, trigger->traceback, !trigger->warns);
      for (const AnyOf& group : rule.anywhere) require(group, {}, false);
      for (const Hit* other : triggers)
        if (other->told) finding.chains.push_back(other->chain);
      // Other lines that say the same in other words.
      for (const std::string_view pattern : rule.when) {
        const Hit* hit = first({pattern}, trigger->traceback, trigger->updates);
        if (hit == nullptr) continue;
        finding.told |= hit->told;
        if (finding.context.size() < kMaxContext) finding.context.push_back(hit->evidence);
      }
      if (holds) found = std::move(finding);
    }
    if (found && rule.quotes_losses)
      for (Evidence& evidence : run_up_.evidence()) found->context.push_back(std::move(evidence));
    if (!found || !rule.lasting) return found;
    if (rule.when == AnyOf{kLossDiverges})
      found->context = diverged_lines_;
    else
      found->context.push_back(last_untrained_);
    return found;
  }

  const Known& known_ = known_patterns();
  WrappedLines wrapped_;
  bool goes_on_ = false;                            // the line continues the previous one
  std::vector<int> whole_found_;                    // by the joined lines
  bool whole_told_ = false, whole_inside_ = false;  // of the first of them
  PatternSet::Search search_;
  std::vector<std::vector<Hit>> hits_;  // per pattern, in the log's order
  std::vector<int> found_;              // by the line that is being read
  std::uint64_t tracebacks_ = 0, chain_ = 0;
  bool linked_ = false, passing_next_ = false;  // the next traceback: is of the last failure; ends no program
  bool notebook_ = false, passing_ = false;     // the last traceback is a notebook's; did not end a program
  bool is_after_ = false;                       // the current text fails while a program is terminated
  bool begins_traceback_ = false;               // in the line that is being read
  bool in_traceback_ = false;                   // its exception has not come yet
  std::string prefix_;                          // of its lines
  Evidence last_;                               // its last line
  std::uint64_t traceback_line_ = 0;            // its heading's
  bool is_frame_ = false, is_source_ = false;   // the last line named a frame; this one shows its source
  std::vector<Frame> frames_;                   // of the traceback that is being read
  bool stale_ = false;                          // it shows source that cannot be the code that ran
  std::string hinted_package_;                  // an optional package whose module is None, or a mismatched extension
  std::string own_source_;                      // of the traceback, the last line of the user's own code
  std::string source_;                          // the last line that is not an underlining
  std::size_t since_preparing_ = kPreparingLines + 1;  // lines since data were being prepared
  std::size_t since_timeout_ = kPreparingLines + 1;    // and since a rank's time ran out
  LossScaleReader loss_scale_;
  UntrainedReader untrained_;
  DivergedReader diverged_;
  std::vector<Evidence> diverged_lines_;   // that show a loss which diverges
  Evidence large_allocation_, interrupt_;  // the log's last lines; line 0 if others follow
  Evidence last_untrained_;                // the last line that shows that the run trains nothing
  std::string assertion_;                  // the condition that its last source line asserts
  std::size_t exception_lines_ = 0;        // lines of the last exception's message still to be read
  std::uint64_t exception_line_ = 0;
  bool direct_ = false, direct_next_ = false;  // the previous exception was the direct cause of the current one
  std::string message_;
  std::size_t message_lines_ = 0;  // lines of the out-of-memory message still to be read
  OomNumbers numbers_;
  std::uint64_t numbers_updates_ = 0;
  std::string loss_;  // the last one
  RunUpReader run_up_;
  LossTable table_;
  SignsReader signs_;
  GoesOnReader goes_on_reader_;
  LogFactsReader facts_reader_;
  LogFacts facts_;
  Story story_;
  LineReader lines_{[this](std::uint64_t number, std::string_view text) { on_line(number, text); }};
};

LogReader::LogReader() : impl_(std::make_unique<Impl>()) {}
LogReader::~LogReader() = default;
void LogReader::feed(std::string_view bytes) { impl_->feed(bytes); }
Diagnosis LogReader::finish() { return impl_->finish(); }

}  // namespace plimsoll::doctor
