#include "backend/cuda/pinned_store.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::cuda {

PinnedStore::PinnedStore(const Context& context, std::uint64_t bytes, std::size_t tickets)
    : context_(context), bytes_(bytes), done_(tickets) {
  void* address = nullptr;
  check_cuda(cudaMallocHost(&address, bytes),
             fmt::format("{} of the host's memory for what the device has no room for", format_bytes(bytes)));
  data_ = static_cast<std::byte*>(address);
  check_cuda(cudaStreamCreate(&stream_), "a stream");
  check_cuda(cudaEventCreate(&ready_), "an event");
  for (cudaEvent_t& event : done_) check_cuda(cudaEventCreate(&event), "an event");
}

PinnedStore::~PinnedStore() {
  cudaStreamSynchronize(stream_);
  for (const cudaEvent_t event : done_) cudaEventDestroy(event);
  cudaEventDestroy(ready_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(data_);
}

void PinnedStore::begin(const TransferRequest& request) {
  check(request.offset + request.bytes.size() <= bytes_, "a transfer stays within the store");
  check_cuda(cudaEventRecord(ready_, context_.stream()), request.label);
  check_cuda(cudaStreamWaitEvent(stream_, ready_, 0), request.label);
  std::byte* const here = data_ + request.offset;
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, request.bytes.size(), kind, stream_), request.label);
  };
  if (request.writes) {
    copy(here, request.bytes.data(), cudaMemcpyDeviceToHost);
  } else {
    copy(request.bytes.data(), here, cudaMemcpyHostToDevice);
  }
  check_cuda(cudaEventRecord(done_.at(static_cast<std::size_t>(request.ticket)), stream_), request.label);
}

void PinnedStore::wait(std::int64_t ticket) {
  check_cuda(cudaStreamWaitEvent(context_.stream(), done_.at(static_cast<std::size_t>(ticket)), 0), "a transfer");
}

void PinnedStore::drain() {
  check_cuda(cudaStreamSynchronize(context_.stream()), "transfers");
  check_cuda(cudaStreamSynchronize(stream_), "transfers");
}

void PinnedStore::visit(std::uint64_t offset, std::size_t size, bool, const Visit& visit) {
  check(offset + size <= bytes_, "a visit stays within the store");
  drain();
  visit({data_ + offset, size});
}

}  // namespace plimsoll::cuda
