// CpuBackend: the host. oneDNN multiplies most matrices, Highway does everything else with the machine's widest vectors,
// and OpenMP spreads rows over a fixed team of threads.
//
// Invariant: for a fixed machine and thread count every result is a pure function of inputs, shapes and the real row
// count; sums over rows are taken in blocks of fixed size, in order. Kernels prepared by one backend share oneDNN
// primitives whose data handles are set while they run, so a backend's kernels run on one thread at a time.
//
//   CpuBackend backend(2);
//   std::unique_ptr<Kernel> kernel = backend.prepare(graph, node);
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"
#include "backend/cpu/general_product.h"

namespace plimsoll {

class MatmulCache;

class CpuBackend : public Backend {
 public:
  // `threads` is the size of the OpenMP team; 0 means every core that the process may use (affinity and cgroup quota).
  explicit CpuBackend(int threads = 0, GeneralProducts general = GeneralProducts::kWhereFaster);
  ~CpuBackend() override;

  std::string_view name() const override { return "cpu"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;
  std::size_t library_bytes() const override;
  void release_unused() override;
  void make_code() override;
  std::size_t code_bytes() const override;
  bool multiplies_int8() const override;
  bool adds_to_products(DType rows) const override { return rows == DType::kF32; }

  int threads() const { return threads_; }

 private:
  int threads_;
  std::unique_ptr<MatmulCache> matmuls_;
};

}  // namespace plimsoll
