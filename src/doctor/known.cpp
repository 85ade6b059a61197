#include "doctor/known.h"

#include <span>
#include <utility>

#include "doctor/log_facts.h"
#include "doctor/log_words.h"
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

void add_rule(const Rule& rule, Known& made) {
  std::vector<AnyOf> groups = {rule.when, rule.without, rule.without_anywhere};
  groups.insert(groups.end(), rule.with.begin(), rule.with.end());
  groups.insert(groups.end(), rule.anywhere.begin(), rule.anywhere.end());
  for (const AnyOf& group : groups)
    for (const std::string_view pattern : group) made.number[pattern] = made.patterns.add(pattern);
}

Known make_known() {
  Known made;
  for (const Rule& rule : all_rules()) add_rule(rule, made);
  const std::pair<int*, std::string_view> single[] = {{&made.traceback, kTraceback},
                                                      {&made.train_nan, "loss is nan"},
                                                      {&made.eval_nan, "val_loss: nan"},
                                                      {&made.own_import, kImportsFromItself},
                                                      {&made.other_import, kImportsFromOther},
                                                      {&made.module_none, kModuleIsNone},
                                                      {&made.preparing_timeout, kTimedOutPreparing},
                                                      {&made.stale_source, kStaleSource},
                                                      {&made.one_letter, kNameOfOneLetter},
                                                      {&made.scale_fallen, kScaleHasFallen},
                                                      {&made.extension_symbol, kExtensionSymbol},
                                                      {&made.extension_kernel, kExtensionKernel},
                                                      {&made.image_sizes, kImagesOfSizes},
                                                      {&made.image_channels, kImagesOfChannels},
                                                      {&made.longer_sequence, kLongerThanPositions},
                                                      {&made.padded_apart, kOneIsPadded}};
  for (const auto& [number, text] : single) *number = made.patterns.add(text);
  const std::pair<std::set<int>*, std::span<const std::string_view>> several[] = {{&made.out_of_memory, kOutOfMemory},
                                                                                  {&made.elsewhere, kElsewhere},
                                                                                  {&made.links, kLinks},
                                                                                  {&made.threads, kThreads},
                                                                                  {&made.after, kAfter},
                                                                                  {&made.closings, kClosings},
                                                                                  {&made.exits, kExits},
                                                                                  {&made.trackers, kTrackers},
                                                                                  {&made.tracked, kTracked},
                                                                                  {&made.summaries, kSummaries},
                                                                                  {&made.teardown, kTeardown},
                                                                                  {&made.ranks, kRanks},
                                                                                  {&made.results, kResults},
                                                                                  {&made.signs, kSigns},
                                                                                  {&made.troubles, kTroubles},
                                                                                  {&made.bars, kBars},
                                                                                  {&made.preparing, kPreparing},
                                                                                  {&made.timeouts, kTimeouts}};
  for (const auto& [numbers, texts] : several)
    for (const std::string_view text : texts) numbers->insert(made.patterns.add(text));
  const auto& facts = LogFactsReader::patterns();
  for (std::size_t i = 0; i < facts.size(); ++i) made.facts.emplace(made.patterns.add(facts[i]), i);
  made.patterns.prepare();
  return made;
}

}  // namespace

const Known& known_patterns() {
  static const Known all = make_known();
  return all;
}

}  // namespace plimsoll::doctor
