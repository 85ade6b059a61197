#include "backend/cuda/named_kernel.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
namespace {
void nvtxRangePushA(const char*) {}
void nvtxRangePop() {}
}  // namespace
#endif

namespace plimsoll::cuda {
namespace {

#ifdef NVTX_VERSION
constexpr bool kHasNvtx = true;
#else
constexpr bool kHasNvtx = false;
#endif

class Range {
 public:
  explicit Range(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

class NamedKernel final : public Kernel {
 public:
  NamedKernel(std::string name, std::unique_ptr<Kernel> kernel) : name_(std::move(name)), kernel_(std::move(kernel)) {}

  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  void run(const KernelArguments& arguments) const override {
    const Range range(name_);
    kernel_->run(arguments);
  }
  // All calls are of the same backend, so all its kernels have names.
  JoinedCalls join(std::span<const KernelCall> calls) const override {
    std::vector<KernelCall> inner(calls.begin(), calls.end());
    for (KernelCall& call : inner) call.kernel = static_cast<const NamedKernel*>(call.kernel)->kernel_.get();
    JoinedCalls start = kernel_->join(inner);
    if (!start) return {};
    return [start = std::move(start), name = name_](std::int64_t row_bound) {
      const Range range(name);
      start(row_bound);
    };
  }

 private:
  std::string name_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

bool names_ranges() { return kHasNvtx && std::getenv("NVTX_INJECTION64_PATH") != nullptr; }

std::unique_ptr<Kernel> named_kernel(const Node& node, std::unique_ptr<Kernel> kernel) {
  return std::make_unique<NamedKernel>(std::string(op_name(node.op)) + " " + node.name, std::move(kernel));
}

}  // namespace plimsoll::cuda
