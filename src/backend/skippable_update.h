// An update of a parameter that changes nothing if its last input, the gradients' factor, is NaN (graph/op.h).
#pragma once

#include <memory>
#include <utility>

#include "backend/backend.h"

namespace plimsoll {

class SkippableUpdate final : public Kernel {
 public:
  explicit SkippableUpdate(std::unique_ptr<Kernel> update) : update_(std::move(update)) {}
  std::size_t scratch_bytes() const override { return update_->scratch_bytes(); }
  void run(const KernelArguments& arguments) const override {
    const float factor = *arguments.inputs.back().data<float>();
    if (factor == factor) update_->run(arguments);
  }

 private:
  std::unique_ptr<Kernel> update_;
};

}  // namespace plimsoll
