// The answers that people write into a form.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "draw/form_text.h"
#include "draw/names.h"

namespace plimsoll::draw {
namespace {

using std::string_view;

std::string choice(PageRandom& random) {
  constexpr auto kChoices = std::to_array<string_view>(
      {"Full time", "Part time", "Single",    "Married",    "Sales",    "Finance", "Urgent",  "Routine", "Standard",
       "New",       "Used",      "Black",     "White",      "Grade B",  "Pending", "Active",  "Retired", "Engineer",
       "Clerk",     "Nurse",     "Permanent", "Temporary",  "British",  "Dutch",   "English", "French",  "By post",
       "By hand",   "Good",      "Fair",      "Technician", "Director", "Export",  "Domestic"});
  return pick(random, kChoices);
}

std::string remark(PageRandom& random) {
  constexpr auto kOpenings = std::to_array<string_view>({"Replace", "Check", "Return", "Repair of", "Request for",
                                                         "Delivery of", "Need", "Review of", "Supply", "Loss of"});
  constexpr auto kClosings = std::to_array<string_view>({"as agreed", "before Friday", "at own cost", "for the office",
                                                         "see letter attached", "per order", "without delay",
                                                         "at the main site", "for two weeks", "after inspection"});
  return words({pick(random, kOpenings), goods_name(random, PageKind::kInvoice), pick(random, kClosings)});
}

std::string code(PageRandom& random) {
  const std::string letters = to_upper(coined_name(random).substr(0, 2));
  const int number = random.between(100, 999999);
  switch (random.below(4)) {
    case 0:
      return fmt::format("{}-{}", letters, number);
    case 1:
      return fmt::format("{}{:06}", letters.substr(0, 1), number);
    case 2:
      return fmt::format("{}/{}", number % 1000, letters);
    default:
      return fmt::format("{}", number);
  }
}

std::string clock(PageRandom& random) {
  const int hour = random.between(7, 19), minute = random.between(0, 11) * 5;
  if (random.chance(0.5)) return fmt::format("{:02}:{:02}", hour, minute);
  return fmt::format("{}:{:02} {}", (hour + 11) % 12 + 1, minute, hour < 12 ? "AM" : "PM");
}

std::vector<std::string> written_answer(PageRandom& random, AnswerKind kind, const FormVoice& voice) {
  switch (kind) {
    case AnswerKind::kPerson:
      return {words({person_name(random), random.chance(0.4) ? surname(random) : std::string()})};
    case AnswerKind::kOrganisation:
      return {company_name(random, PageKind::kInvoice, voice.region).front()};
    case AnswerKind::kAddress:
      return street_address(random, voice.region);
    case AnswerKind::kPlace:
      return {random.chance(0.5) ? coined_name(random) : words({coined_name(random), surname(random)})};
    case AnswerKind::kPhone:
      return {phone_number(random, voice.region)};
    case AnswerKind::kDate:
      return {date_text(random, voice.region, voice.date_form, voice.upper_case)};
    case AnswerKind::kTime:
      return {clock(random)};
    case AnswerKind::kCode:
      return {code(random)};
    case AnswerKind::kAmount: {
      const std::string amount = format_amount(random.between(10, 99999) * Cents{5}, voice.money);
      return {voice.money.currency_attached ? voice.money.currency + amount : amount};
    }
    case AnswerKind::kQuantity:
      return {fmt::format("{}", random.chance(0.7) ? random.between(1, 40) : random.between(41, 2000))};
    case AnswerKind::kPercent:
      return {fmt::format("{}%", random.between(1, 100))};
    case AnswerKind::kChoice:
      return {choice(random)};
    case AnswerKind::kRemark:
      return {remark(random)};
  }
  return {};
}

}  // namespace

FormVoice pick_voice(PageRandom& random) {
  FormVoice voice;
  voice.region = pick_region(random);
  voice.money.currency_attached = random.chance(0.3);
  if (voice.money.currency_attached) voice.money.currency = "$";
  voice.money.group_thousands = random.chance(0.7);
  voice.date_form = random.between(0, kDateForms - 1);
  voice.upper_case = random.chance(0.3);
  return voice;
}

std::vector<std::string> answer_lines(PageRandom& random, AnswerKind kind, const FormVoice& voice) {
  std::vector<std::string> lines = written_answer(random, kind, voice);
  if (voice.upper_case) std::transform(lines.begin(), lines.end(), lines.begin(), to_upper);
  return lines;
}

}  // namespace plimsoll::draw
