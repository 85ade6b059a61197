// A backend like another one, but for its memory, which the host cannot reach: its addresses can be followed only while
// a kernel runs. Code that looks at a tensor where it lies, as it could not on a device, ends in a segmentation fault.
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"

namespace plimsoll::test {

class FarBackend final : public Backend {
 public:
  // `near` outlives this.
  explicit FarBackend(Backend& near) : near_(near) {}

  std::string_view name() const override { return "far"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;

 private:
  Backend& near_;
};

}  // namespace plimsoll::test
