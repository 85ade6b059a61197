#include "train/rank_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/json.h"

namespace plimsoll {
namespace {

std::string page_text(const BadPageError& error) {
  const Problem& p = error.problem();
  return json_text(nlohmann::json({{"page", error.page()},
                                   {"what", p.what},
                                   {"where", p.where},
                                   {"found", p.found},
                                   {"allowed", p.allowed},
                                   {"remedy", p.remedy}}));
}

BadPageError parse_page(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return BadPageError(json.at("page").get<std::uint32_t>(), {.what = json.at("what"),
                                                             .where = json.at("where"),
                                                             .found = json.at("found"),
                                                             .allowed = json.at("allowed"),
                                                             .remedy = json.at("remedy")});
}

}  // namespace

RankAgreement::RankAgreement(Communicator* ranks) : ranks_(ranks) {
  if (ranks != nullptr) words_.resize(static_cast<std::size_t>(ranks->size()));
}

void RankAgreement::exchange(const Word& mine) {
  all_gather(*ranks_, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(words_)));
}

RankAgreement::Verdict RankAgreement::before_micro_batch(bool drops, std::optional<BadPageError>& bad) {
  const Verdict mine = bad ? Verdict::kBadPage : drops ? Verdict::kDrop : Verdict::kGoOn;
  if (alone()) return mine;
  exchange({.code = static_cast<std::int32_t>(mine)});
  Verdict all = Verdict::kGoOn;
  for (const Word& word : words_) all = std::max(all, static_cast<Verdict>(word.code));
  if (all != Verdict::kBadPage) return all;
  for (const std::string& text : all_gather_texts(*ranks_, bad ? page_text(*bad) : std::string())) {
    if (text.empty()) continue;
    bad = parse_page(text);
    break;
  }
  return all;
}

double RankAgreement::sum(double mine) {
  if (alone()) return mine;
  exchange({.number = mine});
  double total = 0;
  for (const Word& word : words_) total += word.number;
  return total;
}

std::optional<StepFault> RankAgreement::first_fault(std::optional<StepFault> mine) {
  if (alone()) return mine;
  std::string text;
  if (mine) {
    text = json_text(nlohmann::json({{"told", fmt::format("{}, on rank {}", describe(*mine), ranks_->rank())},
                                     {"tensor", mine->tensor},
                                     {"kind", static_cast<int>(mine->kind)},
                                     {"forward", mine->forward},
                                     {"updated", mine->updated},
                                     {"place", mine->place}}));
  }
  std::optional<StepFault> first;
  bool updated = false;
  for (const std::string& told : all_gather_texts(*ranks_, text)) {
    if (told.empty()) continue;
    const nlohmann::json json = nlohmann::json::parse(told);
    updated = updated || json.at("updated").get<bool>();
    const auto place = json.at("place").get<std::size_t>();
    if (first && first->place <= place) continue;
    first.emplace();
    first->kind = static_cast<StepFault::Kind>(json.at("kind").get<int>());
    first->tensor = json.at("tensor");
    first->forward = json.at("forward");
    first->place = place;
    first->told = json.at("told");
  }
  if (first) first->updated = updated;
  return first;
}

RankAgreement::Requests RankAgreement::share(Interrupt& interrupt) {
  const int signal = interrupt.end_signal();
  Requests all{.end_signal = signal, .save = signal == 0 && interrupt.pending()};
  if (alone()) return all;
  exchange({.code = all.end_signal, .saves = all.save ? 1 : 0});
  all = {};
  for (const Word& word : words_) {
    if (all.end_signal == 0) all.end_signal = word.code;
    all.save = all.save || word.saves != 0;
  }
  if (all.end_signal != 0) interrupt.request_end(all.end_signal);
  if (all.save) interrupt.request_save();
  return all;
}

void RankAgreement::wait_for_all() {
  if (!alone()) barrier(*ranks_);
}

}  // namespace plimsoll
