// What a failure looks like in a log, and what to say about it: data. The tables are in rules_*.cpp, one file per
// subject; test/doctor/logs has a log for every rule, with its name.
//
//   const Rule rule{.name = "shm-full",
//    .when = {"bus error*shared memory"},           // one line that matches one of these (doctor/pattern.h)
//    .with = {{"dataloader", "worker"}},            // and, in the same traceback, of every group one
//    .refines = {"worker-crash"},                   // says more than that rule does
//    .what = "…", .cause = "…\n…", .confirm = "…", .fix = "…", .command = "plimsoll train …"};
#pragma once

#include <string_view>
#include <vector>

#include "doctor/log_facts.h"
#include "doctor/oom_message.h"

namespace plimsoll::doctor {

enum class Level {
  kNote,         // may be harmless: named when nothing else is found to blame
  kEcho,         // only reports a failure elsewhere: named when nothing says what that was
  kConsequence,  // something else broke first: named when that left no trace in the log
  kCause
};

// How the losses developed before the first NaN or infinity (doctor/run_up.h).
enum class RunUp {
  kAny,
  kRose,    // rose several-fold, over several lines: the losses, or the norms of the gradients
  kSteady,  // were level or fell
  kNone     // the NaN was the first loss to be printed, in the first epoch
};

using AnyOf = std::vector<std::string_view>;

// The reader finds these by means other than a line's words (doctor/hints.h). Rules name them like patterns.
inline constexpr std::string_view kImportsFromItself = "[found: an import between two files of one package]";
inline constexpr std::string_view kImportsFromOther = "[found: an import from another package]";
inline constexpr std::string_view kModuleIsNone = "[found: a module that is none]";
inline constexpr std::string_view kStaleSource = "[found: source lines that are not what a package's loaded code runs]";
inline constexpr std::string_view kNameOfOneLetter = "[found: a name on the hub that is one letter]";
inline constexpr std::string_view kTimedOutPreparing = "[found: a time-out while data were prepared]";
inline constexpr std::string_view kScaleHasFallen = "[found: a loss scale that has fallen until it helps no more]";
inline constexpr std::string_view kUpdatesAreSkipped = "[found: no update that was not skipped]";
inline constexpr std::string_view kRateIsZero = "[found: no learning rate but 0]";
inline constexpr std::string_view kGradientsAreZero = "[found: no gradient but 0]";
inline constexpr std::string_view kLossIsZero = "[found: no loss but 0]";
inline constexpr std::string_view kLossDiverges = "[found: a loss that rises and stays far above where it began]";
inline constexpr std::string_view kExtensionSymbol = "[found: a symbol that an extension in native code lacks]";
inline constexpr std::string_view kExtensionKernel =
    "[found: an extension in native code without a kernel for this device]";
inline constexpr std::string_view kEndsInAllocation = "[found: a large allocation, and nothing after it]";
inline constexpr std::string_view kEndsInInterrupt = "[found: an interrupt that ends the log before any training]";
inline constexpr std::string_view kImagesOfSizes = "[found: images of different sizes in one batch]";
inline constexpr std::string_view kImagesOfChannels = "[found: images of different channels in one batch]";
inline constexpr std::string_view kLongerThanPositions = "[found: a sequence that is longer than the positions]";
inline constexpr std::string_view kOneIsPadded = "[found: a padded sequence beside one that is shorter]";

// Facts in the quoted lines, or in a note that was found besides, that say more than the rule's words: what failed, or
// which of its causes it was.
struct Telling {
  AnyOf when{};             // patterns of one of those lines
  std::string_view what{};  // the headline; empty: the rule's
  // The cause and the fix that begin like this come first; empty: the order is unchanged.
  std::string_view cause{}, fix{};
};

struct Rule {
  std::string_view name{};
  Level level = Level::kCause;
  AnyOf when{};
  std::vector<AnyOf> with{};      // in the same traceback as `when`
  std::vector<AnyOf> anywhere{};  // somewhere in the log
  AnyOf without{};                // not in the same traceback
  AnyOf without_anywhere{};       // not in the log
  // Must hold for the out-of-memory message's numbers and for what else the log says about the run.
  bool (*holds)(const OomNumbers& numbers, const LogFacts& facts) = nullptr;
  RunUp run_up = RunUp::kAny;  // how the losses before must have developed
  bool quotes_losses = false;  // the answer quotes the losses up to the first NaN or infinity
  bool usual = false;          // successful runs print it, too: alone it is not a failure
  bool from_outside = false;   // another program ended this one
  bool heals = false;          // losses above 0 after it show that it has passed
  bool last_words = false;     // no program continues after it: of several runs' lines, the last counts
  bool passes = false;         // losses after it show that the run continued without it
  // It is an outage of the network or of a tracker: the same, and outside a traceback it ends no run that trained.
  bool outage = false;
  bool lasting = false;                      // it concerns the run to its end: a good end does not cancel it
  bool reads_numbers = false;                // the answer explains the numbers of that message
  bool saves_memory = false;                 // after `fix` comes what saves a training run's memory (doctor/advice.h)
  std::vector<std::string_view> refines{};   // less specific rules for the same failure, which give way
  std::vector<std::string_view> leads_to{};  // causes that follow from this one, and do not make it doubtful
  std::string_view what{};
  std::string_view cause{};  // one per line, the likeliest first
  std::string_view confirm{};
  std::string_view fix{};           // one per line, the cheapest first
  std::string_view command{};       // the command of Plimsoll that avoids it; empty if none does
  std::vector<Telling> tellings{};  // the first that holds counts
};

// Every rule; names are unique.
const std::vector<Rule>& all_rules();

// The tables, in the order of all_rules().
std::vector<Rule> memory_rules();
std::vector<Rule> host_rules();
std::vector<Rule> device_rules();
std::vector<Rule> driver_rules();
std::vector<Rule> library_rules();
std::vector<Rule> extension_rules();
std::vector<Rule> install_rules();
std::vector<Rule> parallel_rules();
std::vector<Rule> cluster_rules();
std::vector<Rule> usage_rules();
std::vector<Rule> setup_rules();
std::vector<Rule> number_rules();
std::vector<Rule> untrained_rules();
std::vector<Rule> shape_rules();
std::vector<Rule> data_rules();
std::vector<Rule> load_rules();
std::vector<Rule> hub_rules();
std::vector<Rule> model_rules();
std::vector<Rule> trainer_rules();
std::vector<Rule> compile_rules();
std::vector<Rule> package_rules();
std::vector<Rule> release_rules();
std::vector<Rule> vision_rules();
std::vector<Rule> file_rules();
std::vector<Rule> own_rules();

}  // namespace plimsoll::doctor
