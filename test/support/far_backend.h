// A backend like another one, except that the host cannot access its memory: its addresses are valid only while a
// kernel runs. Code that reads a tensor in place, as it could not on a device, causes a segmentation fault.
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"

namespace plimsoll::test {

class FarBackend final : public Backend {
 public:
  // `near` must outlive this object.
  explicit FarBackend(Backend& near) : near_(near) {}

  std::string_view name() const override { return "far"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;

 private:
  Backend& near_;
};

}  // namespace plimsoll::test
