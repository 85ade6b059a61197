// The report's page as embedded in the program: the files of src/report/page, embedded by cmake/EmbedPage.cmake.
#pragma once

#include <string_view>

namespace plimsoll::report {

extern const std::string_view kPageTemplate;  // report.html, for report/template.h
extern const std::string_view kPageChart;     // chart.html: replaces {{>chart}} in the template
extern const std::string_view kPageStyle;     // report.css
extern const std::string_view kPageScript;    // report.js

}  // namespace plimsoll::report
