#include "support/far_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace plimsoll::test {
namespace {

// The same pages at two addresses: one for the tests' copies, one that is accessible while a kernel runs.
class FarMemory final : public DeviceMemory {
 public:
  explicit FarMemory(std::size_t bytes) : bytes_(bytes) {
    const int file = ::memfd_create("far", MFD_CLOEXEC);
    check(file >= 0 && ::ftruncate(file, static_cast<off_t>(size())) == 0, "a test has memory");
    near_ = map(file);
    far_ = map(file);
    ::close(file);
    all().insert(this);
    close_to_host();
  }
  ~FarMemory() override {
    all().erase(this);
    ::munmap(near_, size());
    ::munmap(far_, size());
  }

  bool is_host() const override { return false; }
  std::span<std::byte> bytes() const override { return {far_, bytes_}; }
  void write(std::span<const std::byte> from, void* to) const override {
    if (!from.empty()) std::memcpy(near(to), from.data(), from.size());
  }
  void read(const void* from, std::span<std::byte> to) const override {
    if (!to.empty()) std::memcpy(to.data(), near(from), to.size());
  }
  void fill_zeros(std::span<std::byte> bytes) const override {
    if (!bytes.empty()) std::memset(near(bytes.data()), 0, bytes.size());
  }

  static void open_all() {
    for (const FarMemory* memory : all()) ::mprotect(memory->far_, memory->size(), PROT_READ | PROT_WRITE);
  }
  static void close_all() {
    for (const FarMemory* memory : all()) memory->close_to_host();
  }

 private:
  static std::set<const FarMemory*>& all() {
    static std::set<const FarMemory*> memories;
    return memories;
  }
  std::size_t size() const { return std::max<std::size_t>(bytes_, 1); }
  std::byte* map(int file) const {
    void* const address = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(address != MAP_FAILED, "a test has addresses");
    return static_cast<std::byte*>(address);
  }
  void close_to_host() const { ::mprotect(far_, size(), PROT_NONE); }
  std::byte* near(const void* far) const { return near_ + (static_cast<const std::byte*>(far) - far_); }

  std::size_t bytes_;
  std::byte *near_ = nullptr, *far_ = nullptr;
};

class FarKernel final : public Kernel {
 public:
  explicit FarKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  void run(const KernelArguments& arguments) const override {
    FarMemory::open_all();
    kernel_->run(arguments);
    FarMemory::close_all();
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> FarBackend::prepare(const Graph& graph, const Node& node) {
  return std::make_unique<FarKernel>(near_.prepare(graph, node));
}

std::unique_ptr<DeviceMemory> FarBackend::allocate(std::size_t bytes) { return std::make_unique<FarMemory>(bytes); }

}  // namespace plimsoll::test
