#include "backend/cuda/pinned_store.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::cuda {

PinnedStore::PinnedStore(const Context& context, std::uint64_t bytes, std::size_t tickets)
    : context_(context), data_(bytes, "for what the device has no room for"), done_(tickets) {
  begun_.reserve(tickets);
}

// A recorded step copies on the context's stream.
PinnedStore::~PinnedStore() {
  context_.drain(context_.stream());
  context_.drain(here_.get());
  context_.drain(there_.get());
}

void PinnedStore::begin(const TransferRequest& request) {
  check(request.offset + request.bytes.size() <= data_.bytes().size(), "a transfer stays within the store");
  const cudaStream_t stream = request.writes ? here_.get() : there_.get();
  const auto follow = [&](const Event& event) {
    check_cuda(cudaStreamWaitEvent(stream, event.get(), 0), request.label);
  };
  ready_.record(context_.stream());
  follow(ready_);
  // A read waits for transfers that still write to its place, and a write for transfers that still read it.
  const std::uint64_t end = request.offset + request.bytes.size();
  Begun* own = nullptr;
  for (Begun& other : begun_) {
    if (other.ticket == request.ticket) {
      own = &other;
    } else if (other.writes != request.writes && other.begin < end && request.offset < other.end) {
      follow(done_[static_cast<std::size_t>(other.ticket)]);
    }
  }
  if (own == nullptr) {
    begun_.push_back({request.ticket, request.offset, end, request.writes});
  } else {
    own->begin = std::min(own->begin, request.offset);
    own->end = std::max(own->end, end);
  }
  std::byte* const here = data_.bytes().data() + request.offset;
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, request.bytes.size(), kind, stream), request.label);
  };
  if (request.writes) {
    copy(here, request.bytes.data(), cudaMemcpyDeviceToHost);
  } else {
    copy(request.bytes.data(), here, cudaMemcpyHostToDevice);
  }
  done_.at(static_cast<std::size_t>(request.ticket)).record(stream);
}

void PinnedStore::wait(std::int64_t ticket) {
  const Event& done = done_.at(static_cast<std::size_t>(ticket));
  check_cuda(cudaStreamWaitEvent(context_.stream(), done.get(), 0), "a transfer");
  std::erase_if(begun_, [&](const Begun& each) { return each.ticket == ticket; });
}

void PinnedStore::drain() {
  context_.wait(context_.stream(), "transfers");
  context_.wait(here_.get(), "transfers");
  context_.wait(there_.get(), "transfers");
}

void PinnedStore::visit(std::uint64_t offset, std::size_t size, bool, const Visit& visit) {
  check(offset + size <= data_.bytes().size(), "a visit stays within the store");
  drain();
  visit(data_.bytes().subspan(offset, size));
}

}  // namespace plimsoll::cuda
