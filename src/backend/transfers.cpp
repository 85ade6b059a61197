#include "backend/transfers.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

class TransferKernel final : public Kernel {
 public:
  explicit TransferKernel(const Node& node)
      : op_(node.op), label_(node.name), attributes_(std::get<TransferAttributes>(node.attributes)) {}

  void run(const KernelArguments& arguments) const override {
    check(arguments.transfers != nullptr, "a program that offloads is given a file to offload to");
    if (op_ == Op::kFetchEnd || op_ == Op::kStoreEnd) return arguments.transfers->wait(attributes_.ticket);
    for (std::size_t i = 0; i < attributes_.parts.size(); ++i) {
      arguments.transfers->begin({.ticket = attributes_.ticket,
                                  .offset = attributes_.parts[i].offset,
                                  .bytes = arguments.outputs[i].byte_span(),
                                  .writes = op_ == Op::kStoreBegin,
                                  .label = label_.c_str()});
    }
  }

 private:
  Op op_;
  std::string label_;
  TransferAttributes attributes_;
};

}  // namespace

std::unique_ptr<OffloadStore> Backend::make_offload_store(std::uint64_t, std::size_t) { return nullptr; }

std::unique_ptr<Kernel> make_transfer_kernel(const Node& node) { return std::make_unique<TransferKernel>(node); }

}  // namespace plimsoll
