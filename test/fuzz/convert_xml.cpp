#include "fuzz/converted.h"

void plimsoll::fuzz::convert_xml(std::string_view input) { convert_as(input, {"alto", "hocr", "page-xml"}); }
