#include "draw/form_text.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "draw/names.h"

namespace plimsoll::draw {
namespace {

using std::string_view;

constexpr auto kRoles =
    std::to_array<string_view>({"applicant", "employee", "supplier",  "manager",  "witness",   "contact",  "owner",
                                "patient",   "driver",   "tenant",    "guardian", "inspector", "customer", "sender",
                                "agent",     "buyer",    "recipient", "trustee",  "student",   "officer"});
constexpr auto kEvents = std::to_array<string_view>(
    {"birth", "issue", "receipt", "arrival", "departure", "payment", "hire", "purchase", "inspection", "expiry",
     "delivery", "review", "approval", "transfer", "last visit", "first use", "incident", "renewal"});
constexpr auto kDone = std::to_array<string_view>({"received", "shipped", "signed", "issued", "started", "completed",
                                                   "requested", "approved", "opened", "returned", "tested", "mailed"});
constexpr auto kThingsCounted =
    std::to_array<string_view>({"copies", "units", "dependants", "pages", "cartons", "samples", "days", "passengers",
                                "rooms", "vehicles", "visits", "employees", "items", "hours", "tests", "pallets"});
constexpr auto kThingsNumbered =
    std::to_array<string_view>({"account",  "policy",  "reference", "licence", "order",        "case",     "project",
                                "batch",    "invoice", "file",      "claim",   "vehicle",      "passport", "model",
                                "contract", "permit",  "serial",    "lot",     "registration", "document"});
constexpr auto kSums = std::to_array<string_view>({"amount", "fee", "cost", "price", "budget", "charge", "deposit",
                                                   "balance", "salary", "rent", "value", "premium", "tax", "refund"});
constexpr auto kQualities = std::to_array<string_view>({"total", "monthly", "annual", "estimated", "actual", "previous",
                                                        "current", "final", "net", "gross", "initial", "approved"});
constexpr auto kSubjects = std::to_array<string_view>(
    {"applicant", "employee", "shipment", "payment",   "vehicle",  "property",  "insurance", "medical",
     "travel",    "project",  "sample",   "equipment", "contract", "contact",   "billing",   "delivery",
     "event",     "school",   "account",  "survey",    "product",  "membership"});

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string person_question(PageRandom& random) {
  constexpr auto kPlain = std::to_array<string_view>({"Name", "Full name", "Print name", "Prepared by", "Submitted by",
                                                      "Approved by", "Received by", "Attention", "To", "From", "Cc"});
  switch (random.below(4)) {
    case 0:
      return words({"Name of", pick(random, kRoles)});
    case 1:
      return capital(words({pick(random, kRoles), "name"}));
    case 2:
      return capital(pick(random, kRoles));
    default:
      return pick(random, kPlain);
  }
}

std::string organisation_question(PageRandom& random) {
  constexpr auto kPlain =
      std::to_array<string_view>({"Company", "Organisation", "Employer", "Manufacturer", "Bank", "Firm", "Carrier",
                                  "Insurance company", "Agency", "Vendor", "School", "Laboratory", "Client"});
  if (random.chance(0.3)) return words({"Name of", random.chance(0.5) ? "company" : "employer"});
  return pick(random, kPlain);
}

std::string phone_question(PageRandom& random) {
  constexpr auto kWhich =
      std::to_array<string_view>({"Home", "Office", "Mobile", "Fax", "Work", "Emergency", "Daytime"});
  constexpr auto kNumber = std::to_array<string_view>({"phone", "no.", "telephone", "number", "tel."});
  constexpr auto kPlain =
      std::to_array<string_view>({"Telephone no.", "Phone", "Tel", "Fax", "Telephone", "Phone number"});
  return random.chance(0.5) ? words({pick(random, kWhich), pick(random, kNumber)}) : pick(random, kPlain);
}

std::string place_question(PageRandom& random) {
  constexpr auto kPlain = std::to_array<string_view>({"City", "Town", "Location", "Branch", "Place of work", "Region",
                                                      "Port of entry", "Destination", "Site", "Place of issue"});
  return random.chance(0.3) ? words({"Place of", pick(random, kEvents)}) : pick(random, kPlain);
}

std::string code_question(PageRandom& random) {
  constexpr auto kEndings = std::to_array<string_view>({"no.", "number", "no", "ID", "code", "#"});
  return capital(words({pick(random, kThingsNumbered), pick(random, kEndings)}));
}

std::string choice_question(PageRandom& random) {
  constexpr auto kPlain =
      std::to_array<string_view>({"Status", "Type", "Category", "Department", "Nationality", "Colour", "Grade", "Title",
                                  "Occupation", "Priority", "Class", "Position", "Method", "Language", "Condition"});
  return random.chance(0.3) ? words({"Type of", pick(random, kSubjects)}) : pick(random, kPlain);
}

std::string remark_question(PageRandom& random) {
  constexpr auto kPlain =
      std::to_array<string_view>({"Remarks", "Comments", "Description", "Reason", "Purpose", "Instructions", "Subject",
                                  "Special requirements", "Details", "Objective", "Notes", "Nature of business"});
  if (random.chance(0.25)) return random.chance(0.3) ? "Reason for visit" : "Reason for request";
  return pick(random, kPlain);
}

}  // namespace

AnswerKind pick_answer_kind(PageRandom& random) { return static_cast<AnswerKind>(random.below(kAnswerKinds)); }

std::string question_text(PageRandom& random, AnswerKind kind) {
  switch (kind) {
    case AnswerKind::kPerson:
      return person_question(random);
    case AnswerKind::kOrganisation:
      return organisation_question(random);
    case AnswerKind::kAddress: {
      constexpr auto kPlain =
          std::to_array<string_view>({"Address", "Mailing address", "Home address", "Business address",
                                      "Street address", "Deliver to", "Ship to"});
      return pick(random, kPlain);
    }
    case AnswerKind::kPlace:
      return place_question(random);
    case AnswerKind::kPhone:
      return phone_question(random);
    case AnswerKind::kDate:
      if (random.chance(0.25)) return "Date";
      return random.chance(0.5) ? words({"Date of", pick(random, kEvents)}) : words({"Date", pick(random, kDone)});
    case AnswerKind::kTime:
      return random.chance(0.3) ? std::string("Time") : words({"Time of", pick(random, kEvents)});
    case AnswerKind::kCode:
      return code_question(random);
    case AnswerKind::kAmount:
      return capital(words({random.chance(0.6) ? pick(random, kQualities) : std::string(), pick(random, kSums)}));
    case AnswerKind::kQuantity:
      return words({random.chance(0.6) ? "Number of" : "No. of", pick(random, kThingsCounted)});
    case AnswerKind::kPercent:
      return random.chance(0.5) ? words({"Share of", pick(random, kRoles)}) : words({"Percent", pick(random, kDone)});
    case AnswerKind::kChoice:
      return choice_question(random);
    case AnswerKind::kRemark:
      return remark_question(random);
  }
  return {};
}

std::string column_title(PageRandom& random, AnswerKind kind) {
  switch (kind) {
    case AnswerKind::kPerson:
      return capital(pick(random, kRoles));
    case AnswerKind::kPlace:
    case AnswerKind::kAddress:
    case AnswerKind::kOrganisation: {
      constexpr auto kPlain = std::to_array<string_view>({"Place", "Location", "Town", "Site", "Branch", "From", "To"});
      return pick(random, kPlain);
    }
    case AnswerKind::kPhone:
      return "Phone";
    case AnswerKind::kDate:
      return random.chance(0.4) ? std::string("Date") : capital(pick(random, kDone));
    case AnswerKind::kTime:
      return "Time";
    case AnswerKind::kCode:
      return capital(words({pick(random, kThingsNumbered), "no."}));
    case AnswerKind::kAmount:
      return capital(random.chance(0.3) ? words({pick(random, kQualities), pick(random, kSums)}) : pick(random, kSums));
    case AnswerKind::kQuantity:
      return random.chance(0.4) ? std::string("Qty") : capital(pick(random, kThingsCounted));
    case AnswerKind::kPercent:
      return random.chance(0.5) ? "Percent" : "Share";
    case AnswerKind::kChoice:
    case AnswerKind::kRemark: {
      constexpr auto kPlain = std::to_array<string_view>({"Status", "Type", "Class", "Category", "Grade", "Condition"});
      return pick(random, kPlain);
    }
  }
  return {};
}

std::string hint_text(PageRandom& random, AnswerKind kind) {
  constexpr auto kPlain = std::to_array<string_view>({"(please print)", "(if known)", "(see note 2)", "(required)",
                                                      "(block letters)", "(if any)", "(as in passport)"});
  if (kind == AnswerKind::kDate) return random.chance(0.5) ? "(day, month, year)" : "(dd/mm/yyyy)";
  if (kind == AnswerKind::kPhone) return "(with area code)";
  if (kind == AnswerKind::kAmount) return "(before tax)";
  return pick(random, kPlain);
}

std::string form_title(PageRandom& random) {
  constexpr auto kKinds = std::to_array<string_view>({"application", "report", "request", "registration form", "record",
                                                      "questionnaire", "data sheet", "notification", "order form",
                                                      "declaration", "checklist", "transmittal", "summary"});
  return capital(words({pick(random, kSubjects), pick(random, kKinds)}));
}

std::string section_title(PageRandom& random) {
  constexpr auto kKinds =
      std::to_array<string_view>({"information", "details", "data", "history", "record", "summary"});
  constexpr auto kPlain =
      std::to_array<string_view>({"Declaration", "For office use only", "General", "Authorisation", "Background",
                                  "Schedule", "Distribution", "Particulars", "Confirmation", "Identification"});
  if (random.chance(0.2)) return pick(random, kPlain);
  if (random.chance(0.15)) return words({"To be completed by", pick(random, kRoles)});
  return capital(words({pick(random, kSubjects), pick(random, kKinds)}));
}

std::string instruction(PageRandom& random) {
  constexpr auto kFirst = std::to_array<string_view>(
      {"Please complete all sections and return this form to", "Send the original with two copies to",
       "This form must be signed before it is given to", "Keep one copy for your records and mail the other to",
       "Questions about this form are answered by", "Incomplete forms will be returned by"});
  constexpr auto kSecond = std::to_array<string_view>(
      {"the head office within ten days.", "your supervisor.", "the records department on the same day.",
       "the address given above.", "the personnel office, room 214.", "our agent in your area."});
  constexpr auto kWhole =
      std::to_array<string_view>({"I certify that the above is true and complete to the best of my knowledge.",
                                  "Use additional sheets if there is not enough space.",
                                  "The information on this page is confidential and is used for statistics only.",
                                  "All amounts are to be entered without cents unless stated otherwise.",
                                  "By signing you agree to the conditions printed on the reverse of this form.",
                                  "Fields that do not apply are to be left blank."});
  return random.chance(0.5) ? words({pick(random, kFirst), pick(random, kSecond)}) : pick(random, kWhole);
}

std::string form_number(PageRandom& random) {
  const int number = random.between(10, 9999), month = random.between(1, 12), year = random.between(80, 99);
  const char letter = static_cast<char>('A' + random.below(6));
  switch (random.below(3)) {
    case 0:
      return fmt::format("Form {}-{} (rev. {}/{})", number, letter, month, year);
    case 1:
      return fmt::format("{}{} {}/{}", letter, number, month, year);
    default:
      return fmt::format("Form no. {}", number);
  }
}

CheckGroup check_group(PageRandom& random) {
  switch (random.below(7)) {
    case 0:
      return {"Marital status", {"Single", "Married", "Widowed", "Divorced"}};
    case 1:
      return {"Preferred contact", {"Telephone", "Letter", "Fax", "E-mail"}};
    case 2:
      return {words({"Type of", pick(random, kSubjects)}), {"New", "Renewal", "Transfer", "Replacement", "Other"}};
    case 3:
      return {words({"Result of", pick(random, kEvents)}), {"Passed", "Failed", "Repeated"}};
    case 4:
      return {"Method of payment", {"Cash", "Cheque", "Bank transfer", "Credit card"}};
    case 5:
      return {capital(words({pick(random, kSubjects), "attached"})), {"Yes", "No", "Not applicable"}};
    default:
      return {"Copies sent to", {"Head office", "Branch", "Customer", "File", "Accounts"}};
  }
}

}  // namespace plimsoll::draw
