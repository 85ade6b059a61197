// Needs CUDA's headers, though no GPU.
#include "backend/cuda/named_kernel.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cuda/cuda_backend.h"
#include "graph/build.h"
#include "support/graph_runner.h"

namespace plimsoll::test {
namespace {

TEST(NamedKernel, AProfilerSeesRangesByTheNamesOfNodes) {
#ifndef PLIMSOLL_PROFILER_STAND_IN
  GTEST_SKIP() << "NVTX's headers come with the CUDA toolkit, which this build does without";
#else
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {3, 4}});
  graph.mark_output(scale(graph, "twice", add(graph, "sum", x, x, kNoValue), 2, kNoValue));
  EXPECT_FALSE(cuda::names_ranges());
  ::setenv("NVTX_INJECTION64_PATH", PLIMSOLL_PROFILER_STAND_IN, 1);
  EXPECT_TRUE(cuda::names_ranges());
  CudaBackend backend;
  GraphRunner runner(graph, backend);
  runner.set("x", std::vector<double>(12, 1.0));
  runner.run();
  ::unsetenv("NVTX_INJECTION64_PATH");
  EXPECT_EQ(runner.made("twice").front(), 4);
  void* const profiler = dlopen(PLIMSOLL_PROFILER_STAND_IN, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(profiler, nullptr) << "NVTX has not loaded it";
  const auto seen = reinterpret_cast<const char* (*)()>(dlsym(profiler, "plimsoll_ranges_seen"));
  ASSERT_NE(seen, nullptr);
  EXPECT_STREQ(seen(), "add sum\nend\nscale twice\nend\n");
  dlclose(profiler);
#endif
}

}  // namespace
}  // namespace plimsoll::test
