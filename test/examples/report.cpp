// Compiles the examples of src/report.
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "examples/use.h"
#include "formats/base64.h"
#include "report/memory_viz.h"
#include "report/page_picture.h"
#include "report/read_run.h"
#include "report/report_page.h"
#include "report/template.h"

namespace plimsoll::report {

void of_memory_viz(const RunFacts& run) {
#include "report/memory_viz.h.inc"
}

void of_page_picture() {
#include "report/page_picture.h.inc"
}

void of_read_run() {
#include "report/read_run.h.inc"
}

void of_report_page() {
#include "report/report_page.h.inc"
}

void of_template() {
#include "report/template.h.inc"
}

}  // namespace plimsoll::report
