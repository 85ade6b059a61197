#include "backend/cuda/pinned_store.h"

#include "base/error.h"

namespace plimsoll::cuda {

PinnedStore::PinnedStore(const Context& context, std::uint64_t bytes, std::size_t tickets)
    : context_(context), data_(bytes, "for what the device has no room for"), done_(tickets) {}

// A recorded step copies on the context's stream.
PinnedStore::~PinnedStore() {
  context_.drain(context_.stream());
  context_.drain(stream_.get());
}

void PinnedStore::begin(const TransferRequest& request) {
  check(request.offset + request.bytes.size() <= data_.bytes().size(), "a transfer stays within the store");
  ready_.record(context_.stream());
  check_cuda(cudaStreamWaitEvent(stream_.get(), ready_.get(), 0), request.label);
  std::byte* const here = data_.bytes().data() + request.offset;
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, request.bytes.size(), kind, stream_.get()), request.label);
  };
  if (request.writes) {
    copy(here, request.bytes.data(), cudaMemcpyDeviceToHost);
  } else {
    copy(request.bytes.data(), here, cudaMemcpyHostToDevice);
  }
  done_.at(static_cast<std::size_t>(request.ticket)).record(stream_.get());
}

void PinnedStore::wait(std::int64_t ticket) {
  const Event& done = done_.at(static_cast<std::size_t>(ticket));
  check_cuda(cudaStreamWaitEvent(context_.stream(), done.get(), 0), "a transfer");
}

void PinnedStore::drain() {
  context_.wait(context_.stream(), "transfers");
  context_.wait(stream_.get(), "transfers");
}

void PinnedStore::visit(std::uint64_t offset, std::size_t size, bool, const Visit& visit) {
  check(offset + size <= data_.bytes().size(), "a visit stays within the store");
  drain();
  visit(data_.bytes().subspan(offset, size));
}

}  // namespace plimsoll::cuda
