#include "doctor/raised.h"

#include <algorithm>
#include <cctype>

#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool holds_one_of(std::string_view small, std::span<const std::string_view> patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view p) { return matches(p, small); });
}

// Python's own classes, which mean the same whatever code raises them.
constexpr std::string_view kBuiltIn[] = {
    "ArithmeticError", "AssertionError",    "AttributeError",     "BlockingIOError",   "BufferError",
    "ConnectionError", "EOFError",          "FileExistsError",    "FileNotFoundError", "FloatingPointError",
    "ImportError",     "IndentationError",  "IndexError",         "IsADirectoryError", "JSONDecodeError",
    "KeyError",        "LookupError",       "MemoryError",        "NameError",         "NotADirectoryError",
    "OSError",         "OverflowError",     "PermissionError",    "RecursionError",    "NotImplementedError",
    "RuntimeError",    "StopIteration",     "SyntaxError",        "TimeoutError",      "ModuleNotFoundError",
    "TypeError",       "UnboundLocalError", "UnicodeEncodeError", "UnicodeError",      "UnicodeDecodeError",
    "ValueError",      "ZeroDivisionError"};
// The mere name of these says what happened.
constexpr std::string_view kSpeaking[] = {"KeyError", "NameError", "ZeroDivisionError", "UnboundLocalError"};

constexpr std::string_view kReports[] = {"^traceback (most recent call last)",
                                         "an error occurred while generating the dataset",
                                         "caught*in dataloader worker",
                                         "caught*in replica",
                                         "caught*in pin memory thread",
                                         "failed to import*because of the following error",
                                         "returned non-zero exit status",
                                         "died with <signals",
                                         "-- process*terminated with the following error",
                                         "process*terminated with exit code",
                                         "process*terminated with signal",
                                         "see root cause above",
                                         "engine core initialization failed",
                                         "engine process failed to start",
                                         "see stack trace for root cause"};
constexpr std::string_view kReportClasses[] = {
    "ChildFailedError",   "ProcessRaisedException", "ProcessExitedException", "DatasetGenerationError",
    "RemoteTraceback",    "CalledProcessError",     "InstantiationException", "RetryError",
    "CellExecutionError", "PapermillExecutionError"};
constexpr std::string_view kFollows[] = {"failed to recv, got 0 bytes",
                                         "connection closed by peer",
                                         "nccl communicator was aborted",
                                         "connection closed by remote peer",
                                         "the connection to the c10d store has failed",
                                         "can only test a child process"};
constexpr std::string_view kFollowClasses[] = {
    "DistNetworkError",      "DistStoreError",     "SignalException",           "RendezvousTimeoutError",
    "RendezvousClosedError", "MailboxClosedError", "RendezvousConnectionError", "RendezvousGracefulExitError"};
// Errors that are reported late or only say that something failed elsewhere.
constexpr std::string_view kSaysNothing[] = {"cuda error",
                                             "cuda runtime error",
                                             "cuda driver error",
                                             "cublas",
                                             "cudnn",
                                             "miopen",
                                             "hipblas",
                                             "cusolver",
                                             "hip error",
                                             "nccl",
                                             "internal assert failed",
                                             "unknown error",
                                             "unspecified",
                                             "without setting an exception",
                                             "without setting an error",
                                             "something went wrong",
                                             "unexpected error",
                                             "see above",
                                             "see the log",
                                             "an error occurred$",
                                             "^error$",
                                             "^failed$",
                                             "broken pipe",
                                             "connection reset by peer",
                                             "exited unexpectedly",
                                             "exit code",
                                             "exitcode"};

}  // namespace

std::string Raised::name() const {
  const std::size_t dot = type.rfind('.');
  return dot == std::string::npos ? type : type.substr(dot + 1);
}

std::optional<Raised> read_raised(std::string_view text, bool ends_traceback) {
  Raised raised;
  std::size_t begin = std::string_view::npos, end = 0;
  for (const std::string_view word : {"Error:", "Exception:", "Invalid:", "Interrupt:", "Exit:"}) {
    const std::size_t at = text.find(word);
    if (at == std::string_view::npos || at >= begin) continue;
    end = at + word.size() - 1;
    if (end + 1 < text.size() && text[end + 1] != ' ') continue;
    begin = at;
  }
  if (begin != std::string_view::npos) {
    while (begin > 0 && is_name_letter(text[begin - 1])) --begin;
    end = text.find(':', begin);
  } else if (ends_traceback) {
    text = trimmed(text);
    end = std::min(text.find(':'), text.size());
    begin = end;
    while (begin > 0 && is_name_letter(text[begin - 1])) --begin;
  }
  if (begin == std::string_view::npos || begin == end) return {};
  raised.type = text.substr(begin, end - begin);
  if (std::isalpha(static_cast<unsigned char>(raised.type[0])) == 0 || raised.type == "Error") return {};
  raised.message = trimmed(text.substr(std::min(end + 1, text.size())));
  // Accepts "[rank5]: ", "0: ", "E   ", "stderr: ", and nothing else.
  std::string_view before = trimmed(text.substr(0, begin));
  if (before.starts_with("stderr:")) before.remove_prefix(7);
  raised.at_start = before.size() < 16 && std::all_of(before.begin(), before.end(), [](char c) {
                      return std::isdigit(static_cast<unsigned char>(c)) != 0 ||
                             std::string_view("[]:rankE| ").find(c) != std::string_view::npos;
                    });
  return raised;
}

std::optional<std::string> read_assertion(std::string_view text) {
  text = trimmed(text);
  // Skips a notebook's arrow and line number, a rank's prefix, rich's bars.
  const std::size_t at = text.find("assert ");
  if (at == std::string_view::npos || at > 24) return {};
  const std::string_view before = text.substr(0, at);
  if (before.find_first_of("#\"'") != std::string_view::npos) return {};
  if (std::any_of(before.begin(), before.end(), [](char c) { return c >= 'a' && c <= 'z'; }) &&
      before.find("rank") == std::string_view::npos)
    return {};
  std::string_view condition = trimmed(text.substr(at + 7));
  if (condition.ends_with("│")) condition.remove_suffix(std::string_view("│").size());
  return std::string(trimmed(condition));
}

bool only_reports(const Raised& raised) {
  return is_one_of(raised.name(), kReportClasses) || holds_one_of(to_small_letters(raised.message), kReports);
}
bool follows_another_end(const Raised& raised) {
  return is_one_of(raised.name(), kFollowClasses) || holds_one_of(to_small_letters(raised.message), kFollows);
}

bool says_enough(const Raised& raised) {
  const std::string name = raised.name();
  const bool built_in = is_one_of(name, kBuiltIn);
  const bool listed = std::any_of(all_kinds().begin(), all_kinds().end(),
                                  [&](const Kind& kind) { return is_one_of(name, kind.classes); });
  const bool is_class = built_in || listed || name.ends_with("Error") || name.ends_with("Exception");
  // Only Python writes a class with its modules.
  const bool dotted = std::count(raised.type.begin(), raised.type.end(), '.') >= 2;
  if (!is_class || (!raised.has_frames && !((built_in || listed || dotted) && raised.at_start))) return false;
  if (only_reports(raised)) return false;
  std::string_view message = raised.message;
  if (name == "AssertionError" && message.empty()) {
    // For data, the place says enough: the data has another form than the code expects.
    if (raised.has_frames && (raised.layer == Layer::kDataSet || raised.layer == Layer::kPreparation)) return true;
    // A condition with a comparison says what the code requires; `assert False` and `assert ok` do not.
    message = raised.asserted;
    const std::string_view signs[] = {"==", "!=", "<", ">", " in ", "isinstance", " is ", "len(", "exists("};
    return std::any_of(std::begin(signs), std::end(signs),
                       [&](std::string_view sign) { return message.find(sign) != std::string_view::npos; });
  }
  if (message.empty()) return false;
  if (holds_one_of(to_small_letters(message), kSaysNothing)) return false;
  if (is_one_of(name, kSpeaking)) return true;
  std::size_t words = 0, letters = 0;
  for (const char c : std::string(message) + " ") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80) {
      ++letters;
    } else {
      words += letters >= 2;
      letters = 0;
    }
  }
  const bool names_something = message.find_first_of("'`\"_[(=/0123456789") != std::string_view::npos;
  return words >= 4 || (words >= 2 && names_something);
}

std::size_t telling_one(std::span<const Raised> chain, bool direct) {
  if (chain.size() < 2) return 0;
  const Raised& first = chain.front();
  // The same exception, passed on by a pool: the place where it was first raised says more.
  std::size_t last = chain.size() - 1;
  while (last > 0 && (only_reports(chain[last]) || follows_another_end(chain[last]) || !says_enough(chain[last]) ||
                      chain[last].name() == "KeyboardInterrupt"))
    --last;
  for (std::size_t i = 0; i < last; ++i)
    if (chain[i].name() == chain[last].name() && chain[i].message == chain[last].message) return i;
  if (!says_enough(first)) return last;
  if (chain[last].message.find(first.message) != std::string::npos && !first.message.empty()) return 0;
  // If a look-up or a connection fails, code often raises its own message.
  constexpr std::string_view kLookUps[] = {"KeyError",           "AttributeError",  "StopIteration", "IndexError",
                                           "HTTPError",          "ConnectionError", "ImportError",   "JSONDecodeError",
                                           "NewConnectionError", "MaxRetryError"};
  if (!direct || is_one_of(first.name(), kLookUps)) return last;
  return 0;
}

const Kind* kind_of(const Raised& raised) {
  if (!says_enough(raised)) return nullptr;
  const std::string name = raised.name(), small = to_small_letters(raised.message);
  for (const Kind& kind : all_kinds()) {
    if (!kind.classes.empty() && !is_one_of(name, kind.classes)) continue;
    if (!kind.layers.empty() && std::find(kind.layers.begin(), kind.layers.end(), raised.layer) == kind.layers.end())
      continue;
    if (kind.rule.when.empty() || holds_one_of(small, kind.rule.when)) return &kind;
  }
  return nullptr;
}

}  // namespace plimsoll::doctor
