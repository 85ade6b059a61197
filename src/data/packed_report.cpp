#include "data/packed_report.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

using nlohmann::json;

json problem_list(const Problem& problem) {
  return {problem.what, problem.where, problem.found, problem.allowed, problem.remedy};
}

Problem problem_of(const json& list) {
  return {.what = list.at(0), .where = list.at(1), .found = list.at(2), .allowed = list.at(3), .remedy = list.at(4)};
}

json findings_list(const Findings& findings) {
  json list = json::array();
  for (const Finding& finding : findings.sorted()) {
    json places = json::array();
    for (const Finding::Place& place : finding.places) places.push_back({place.where, place.found});
    list.push_back({static_cast<int>(finding.severity), finding.kind, finding.count, problem_list(finding.first),
                    std::move(places)});
  }
  return list;
}

Findings findings_of(const json& list, std::size_t places_kept) {
  Findings findings(places_kept);
  for (const json& each : list) {
    Finding finding{.severity = static_cast<Severity>(each.at(0).get<int>()),
                    .kind = each.at(1),
                    .count = each.at(2),
                    .first = problem_of(each.at(3))};
    for (const json& place : each.at(4)) finding.places.push_back({.where = place.at(0), .found = place.at(1)});
    findings.add(std::move(finding));
  }
  return findings;
}

// Writes numbers in their form in memory, because the ranks run the same program.
template <typename Values>
json::binary_t bytes_of(const Values* values, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Values>);
  std::vector<std::uint8_t> bytes(count * sizeof(Values));
  if (count > 0) std::memcpy(bytes.data(), values, bytes.size());
  return json::binary_t(std::move(bytes));
}

template <typename Value>
std::vector<Value> values_of(const json& packed) {
  const json::binary_t& bytes = packed.get_binary();
  std::vector<Value> values(bytes.size() / sizeof(Value));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
  return values;
}

}  // namespace

std::string pack_report(const BlockReport& report) {
  json bad_pages = json::array();
  for (const BadPage& page : report.bad_pages) bad_pages.push_back({page.page, problem_list(page.problem)});
  json object = {{"findings", findings_list(report.findings)},
                 {"word_level", findings_list(report.word_level)},
                 {"inside_first", findings_list(report.inside_first)},
                 {"order_with_ends", findings_list(report.order_with_ends)},
                 {"ends", findings_list(report.ends)},
                 {"bad_pages", std::move(bad_pages)},
                 {"labels", report.labels}};
  object["counts"] = bytes_of(&report.counts, 1);
  object["pages"] = bytes_of(report.pages.data(), report.pages.size());
  object["boxes"] = bytes_of(&report.boxes, 1);
  // Unlike JSON as text, CBOR keeps strings that are not UTF-8.
  std::string packed;
  json::to_cbor(object, packed);
  return packed;
}

BlockReport unpack_report(std::string_view packed, std::size_t places_kept) {
  const json object = json::from_cbor(packed);
  BlockReport report(places_kept);
  report.findings = findings_of(object.at("findings"), places_kept);
  report.word_level = findings_of(object.at("word_level"), places_kept);
  report.inside_first = findings_of(object.at("inside_first"), places_kept);
  report.order_with_ends = findings_of(object.at("order_with_ends"), places_kept);
  report.ends = findings_of(object.at("ends"), places_kept);
  for (const json& page : object.at("bad_pages")) {
    report.bad_pages.push_back({.page = page.at(0), .problem = problem_of(page.at(1))});
  }
  report.labels = object.at("labels").get<std::map<std::string, std::uint64_t>>();
  report.counts = values_of<CheckCounts>(object.at("counts")).at(0);
  report.pages = values_of<PageFacts>(object.at("pages"));
  report.boxes = values_of<BoxExtent>(object.at("boxes")).at(0);
  return report;
}

}  // namespace plimsoll
