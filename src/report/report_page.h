// The report: one HTML file that needs nothing else, neither a network nor another file. Charts are drawn by its own
// script from JSON in the page; each has a table, so that it can be read without the script.
//
//   write_text_file("run/report.html", report_page({read_run("run"), read_run("other-run")}));
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/facts.h"

namespace plimsoll::report {

inline constexpr std::size_t kMostReportBytes = std::size_t{2} << 20;

// Returns the page for one run, or for several side by side. It is smaller than kMostReportBytes for up to four runs:
// pictures get smaller and the smallest tensors of a map are left out, which the page says.
std::string report_page(const std::vector<RunFacts>& runs);

}  // namespace plimsoll::report
