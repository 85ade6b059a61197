// Headers that a compiler does not find, and what brings them.
#include "doctor/headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/advice.h"
#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

using ::testing::HasSubstr;

TEST(Headers, NameWhatBringsThem) {
  for (const auto& [line, source] :
       {std::pair{"a.cu:6:10: fatal error: cuda_profiler_api.h: no such file or directory", "cuda-profiler-api"},
        {"a.cu:6:10: fatal error: cusparse.h: no such file or directory", "libcusparse-dev"},
        {"a.cu:6:10: fatal error: cuda_runtime_api.h: no such file or directory", "whole CUDA toolkit"},
        {"fatal error: 'omp.h' file not found", "libomp-dev"},
        {"a.cpp(3): fatal error c1083: cannot open include file: 'zlib.h': no such file or directory", "zlib1g-dev"},
        {"a.cpp:2:10: fatal error: eigen/dense: no such file or directory", "libeigen3-dev"},
        {"a.cpp:2:10: fatal error: thc/thc.h: no such file or directory", "PyTorch 1.11"},
        {"_configtest.c:2:10: fatal error: mpi.h: no such file or directory", "libopenmpi-dev"}})
    EXPECT_THAT(std::string(source_of_header(line)), HasSubstr(source)) << line;
  for (const char* line :
       {"fatal error: my_own.h: no such file or directory", "fatal: not a git repository", "zlib.h was included"})
    EXPECT_EQ(source_of_header(line), "") << line;
}

TEST(Headers, StandInTheAnswer) {
  const Diagnosis known = diagnose(
      "a.cpp:4:10: fatal error: libaio.h: No such file or directory\n"
      "compilation terminated.\nninja: build stopped: subcommand failed.\n");
  EXPECT_EQ(name_of(known), "header-missing");
  EXPECT_TRUE(is_sure(known));
  EXPECT_THAT(fixes(known).front(), HasSubstr("libaio-dev"));
  ASSERT_FALSE(known.evidence.empty());
  EXPECT_EQ(known.evidence.front().line, 1U);
  // What is not known is not made up.
  const Diagnosis own = diagnose("a.cpp:4:10: fatal error: my_own.h: No such file or directory\n");
  EXPECT_EQ(name_of(own), "header-missing");
  for (const std::string& fix : fixes(own)) EXPECT_EQ(fix.find("NAME"), std::string::npos);
  EXPECT_EQ(name_of(diagnose("a.c:1:10: fatal error: Python.h: No such file or directory\n")), "python-headers");
}

}  // namespace
}  // namespace plimsoll::doctor
