# cmake -DFOLDER=src/report/page -DOUTPUT=page_files.cpp -P EmbedPage.cmake
#   Writes a C++ file that holds the report's template, style and script as raw strings: kPageTemplate, kPageChart,
#   kPageStyle and kPageScript of report/page_files.h.
cmake_minimum_required(VERSION 3.22)

set(code "#include \"report/page_files.h\"\n\nnamespace plimsoll::report {\n\n")
foreach(piece Template:report.html Chart:chart.html Style:report.css Script:report.js)
  string(REPLACE ":" ";" piece "${piece}")
  list(GET piece 0 name)
  list(GET piece 1 file)
  file(READ "${FOLDER}/${file}" text)
  string(FIND "${text}" ")embedded\"" delimiter)
  if(NOT delimiter EQUAL -1)
    message(FATAL_ERROR "${file} holds the delimiter of raw strings")
  endif()
  string(APPEND code "const std::string_view kPage${name} = R\"embedded(${text})embedded\";\n")
endforeach()
string(APPEND code "\n}  // namespace plimsoll::report\n")
file(WRITE "${OUTPUT}" "${code}")
