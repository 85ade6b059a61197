// The report's page as the program holds it: the files of src/report/page, embedded by cmake/EmbedPage.cmake.
#pragma once

#include <string_view>

namespace plimsoll::report {

extern const std::string_view kPageTemplate;  // report.html, for report/template.h
extern const std::string_view kPageChart;     // chart.html: what {{>chart}} in the template stands for
extern const std::string_view kPageStyle;     // report.css
extern const std::string_view kPageScript;    // report.js

}  // namespace plimsoll::report
