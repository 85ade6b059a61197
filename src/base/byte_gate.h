// ByteGate: lets threads through while the bytes that they hold together stay within a limit.
//
//   ByteGate gate(16 * kMiB);
//   { const ByteGate::Pass pass(gate, image_bytes); decode(); }
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace plimsoll {

class ByteGate {
 public:
  explicit ByteGate(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  // Held while the bytes are in use. Its constructor waits until they fit; a size above the limit passes alone.
  class Pass {
   public:
    Pass(ByteGate& gate, std::uint64_t bytes) : gate_(gate), bytes_(bytes) {
      std::unique_lock lock(gate_.mutex_);
      gate_.freed_.wait(lock, [this] { return gate_.held_ == 0 || gate_.held_ + bytes_ <= gate_.limit_; });
      gate_.held_ += bytes_;
    }
    ~Pass() {
      {
        const std::scoped_lock lock(gate_.mutex_);
        gate_.held_ -= bytes_;
      }
      gate_.freed_.notify_all();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    ByteGate& gate_;
    std::uint64_t bytes_;
  };

 private:
  std::uint64_t limit_, held_ = 0;
  std::mutex mutex_;
  std::condition_variable freed_;
};

}  // namespace plimsoll
