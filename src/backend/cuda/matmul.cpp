#include "backend/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "backend/cuda/kernels.h"
#include "base/bytes.h"
#include "base/error.h"
#include "tensor/tensor.h"

namespace plimsoll::cuda {
namespace {

constexpr int kMostCandidates = 16;
constexpr double kTie = 1.02;
// An algorithm that takes this many times as long as the best in its second run is not run again.
constexpr float kHopeless = 1.5F;
// The others run for this long, but at least and at most these numbers of times.
constexpr float kTimedMilliseconds = 1;
constexpr int kLeastRuns = 2, kMostRuns = 20;
constexpr float kWakeMilliseconds = 100;
constexpr int kBatchRounds = 5;
constexpr std::size_t kComparedBytes = std::size_t{1} << 20;  // at a time, on the host
constexpr std::string_view kOwnKernel = "own kernel", kApart = "one at a time";
constexpr std::string_view kRemoveTable = "remove the table of choices; they are made again by tuning";

int library_type(DType dtype) {
  if (dtype == DType::kBF16) return kLtBF16;
  return dtype == DType::kF16 ? kLtF16 : kLtF32;
}

std::string text_of(const LtAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

// Throws DataError for a text that is not an algorithm.
std::optional<LtAlgorithm> algorithm_of(const std::string& text, const std::string& where) {
  if (text == kOwnKernel || text == kApart) return std::nullopt;
  LtAlgorithm algorithm{};
  bool is_one = text.size() == 16 * algorithm.size();
  for (std::size_t i = 0; is_one && i < algorithm.size(); ++i) {
    const char* const begin = text.data() + 16 * i;
    const auto [end, error] = std::from_chars(begin, begin + 16, algorithm[i], 16);
    is_one = error == std::errc() && end == begin + 16;
  }
  if (is_one) return algorithm;
  throw DataError({.what = "a stored choice of an algorithm cannot be read",
                   .where = where,
                   .found = fmt::format("'{}'", text),
                   .allowed = fmt::format("128 hexadecimal digits, '{}' or '{}'", kOwnKernel, kApart),
                   .remedy = std::string(kRemoveTable)});
}

// The capacity over each of these is tuned.
constexpr std::int64_t kTunedParts[] = {1, 2, 4};
std::int64_t part_of(std::int64_t capacity, std::int64_t part) { return (capacity + part - 1) / part; }

// Returns the smallest of the tuned sizes that is not below `size`.
std::int64_t tuned_size(std::int64_t capacity, std::int64_t size) {
  std::int64_t result = capacity;
  for (const std::int64_t part : kTunedParts) {
    if (part_of(capacity, part) >= size) result = part_of(capacity, part);
  }
  return result;
}

// Returns the bytes from one tensor of so many elements to the next, if they lie behind one another.
std::size_t stride_bytes(DType dtype, std::int64_t count) {
  return round_up(static_cast<std::size_t>(count) * dtype_bytes(dtype), kWorkspaceAlignment);
}

// The buffers of a product: a, b, bias and c.
struct Part {
  DType dtype;
  std::int64_t count;
  std::size_t bytes() const { return stride_bytes(dtype, count); }
};
std::array<Part, 4> parts_of(const MatmulShape& shape) {
  return {{{shape.operands, (shape.transposed_a ? shape.inner : shape.rows) * shape.pitch_a()},
           {shape.operands, shape.inner * shape.columns},
           {shape.result, shape.columns},
           {shape.result, shape.rows * shape.pitch_c()}}};
}
std::size_t set_bytes(const MatmulShape& shape) {
  std::size_t bytes = 0;
  for (const Part& part : parts_of(shape)) bytes += part.bytes();
  return bytes;
}

int set_stride(const CublasLt& library, LtLayout layout, DType dtype, std::int64_t bytes) {
  const std::int64_t elements = bytes / static_cast<std::int64_t>(dtype_bytes(dtype));
  return library.set_layout(layout, kLtBatchStride, &elements, sizeof elements);
}

}  // namespace

// The library is column-major, where c is its transpose: c^T[columns, rows] = b^T a^T, so that b comes first.
struct Matmuls::Product {
  explicit Product(const CublasLt& lt) : library(lt) {}
  ~Product() {
    if (operation != nullptr) library.destroy_operation(operation);
    for (const LtLayout layout : {a, b, c}) {
      if (layout != nullptr) library.destroy_layout(layout);
    }
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  const CublasLt& library;
  LtOperation operation = nullptr;
  LtLayout a = nullptr, b = nullptr, c = nullptr;
  std::optional<LtAlgorithm> algorithm{};  // none: the caller's own kernel
};

Matmuls::Matmuls(const Context& context, const CublasLt& library) : context_(context), library_(library) {
  const int status = library_.create(&handle_);
  if (status == kLtSuccess) return;
  throw EnvironmentError({.what = "cuBLASLt does not start",
                          .found = fmt::format("{} from version {}", library_.status_name(status), library_.version()),
                          .remedy = "plimsoll doctor shows the device and its driver, which may be too old for it"});
}

Matmuls::~Matmuls() {
  products_.clear();
  library_.destroy(handle_);
}

void Matmuls::check_status(int status, const MatmulShape& shape, const char* doing) const {
  if (status == kLtSuccess) return;
  throw EnvironmentError({.what = fmt::format("cuBLASLt refused: {}", doing),
                          .where = shape.name(),
                          .found = fmt::format("{} from version {}", library_.status_name(status), library_.version()),
                          .remedy = "if a table of choices was loaded, remove it; else try another version of cuBLAS"});
}

std::string Matmuls::device() const { return fmt::format("{}, cuBLAS {}", context_.gpu().name(), library_.version()); }

Matmuls::Product& Matmuls::at(const MatmulShape& at_capacity, std::int64_t size) {
  const auto found = products_.find({at_capacity, size});
  if (found != products_.end()) return *found->second;
  const MatmulShape shape = at_capacity.with(size);
  std::unique_ptr<Product> product = describe(shape);
  product->algorithm = algorithm_for(at_capacity, shape, *product);
  return *products_.emplace(std::pair(at_capacity, size), std::move(product)).first->second;
}

std::optional<LtAlgorithm> Matmuls::algorithm_for(const MatmulShape& at_capacity, const MatmulShape& shape,
                                                  const Product& product) const {
  const MatmulShape tuned = at_capacity.with(tuned_size(at_capacity.size(), shape.size()));
  const auto choice = choices_.find(tuned.name());
  if (shape.count > 1) {
    if (!batches_ || choice == choices_.end() || !choice->second.algorithm) return std::nullopt;
    const MatmulShape single = shape.times(1);
    const std::optional<LtAlgorithm> alone = algorithm_for(at_capacity.times(1), single, *describe(single));
    const bool same = alone == choice->second.algorithm && runs(shape, product, *alone);
    return same ? alone : std::nullopt;
  }
  if (choice != choices_.end()) {
    const std::optional<LtAlgorithm>& algorithm = choice->second.algorithm;
    if (!algorithm) return std::nullopt;
    if (runs(shape, product, *algorithm)) return algorithm;
    if (shape == tuned) {
      const LtCandidate result = checked(product, *algorithm);
      throw DataError({.what = "a stored choice of an algorithm does not run on this device",
                       .where = fmt::format("{}, '{}'", choice->second.where, shape.name()),
                       .found = result.status == kLtSuccess
                                    ? fmt::format("{} of workspace", format_bytes(result.workspace_bytes))
                                    : library_.status_name(result.status),
                       .allowed = fmt::format("an algorithm of {}", device()),
                       .remedy = std::string(kRemoveTable)});
    }
    // The algorithm runs at the next larger tuned size, but not at this one.
  }
  const std::vector<LtCandidate> proposed = candidates(shape, product);
  if (proposed.empty()) return std::nullopt;
  return proposed.front().algorithm;
}

LtCandidate Matmuls::checked(const Product& product, const LtAlgorithm& algorithm) const {
  LtCandidate result;
  const int status =
      library_.check(handle_, product.operation, product.b, product.a, product.c, product.c, &algorithm, &result);
  result.status = status;
  return result;
}

// Returns whether the library can multiply so, in the workspace that the shape has.
bool Matmuls::runs(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm) const {
  const LtCandidate result = checked(product, algorithm);
  return result.status == kLtSuccess && result.workspace_bytes <= shape.workspace_bytes();
}

std::unique_ptr<Matmuls::Product> Matmuls::describe(const MatmulShape& shape) const {
  auto product = std::make_unique<Product>(library_);
  const auto succeed = [&](int status) { check_status(status, shape, "to describe a product"); };
  succeed(library_.create_operation(&product->operation, kLtComputeF32, kLtF32));
  const auto set = [&](int attribute, const auto& value) {
    succeed(library_.set_operation(product->operation, attribute, &value, sizeof value));
  };
  set(kLtOperationA, shape.transposed_b ? kLtTransposed : kLtPlain);
  set(kLtOperationB, shape.transposed_a ? kLtTransposed : kLtPlain);
  set(kLtEpilogue, shape.bias ? kLtBiasEpilogue : kLtNoEpilogue);
  // The library is asked with the pointer's alignment; the pointer itself is passed at each run.
  if (shape.bias) set(kLtBiasPointer, reinterpret_cast<const void*>(kAlignmentBytes));
  // The library's matrices are ours transposed: its columns are our rows.
  const auto layout = [&](LtLayout& to, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
    succeed(library_.create_layout(&to, library_type(dtype), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), pitch));
    if (shape.count == 1) return;
    const auto count = static_cast<std::int32_t>(shape.count);
    succeed(library_.set_layout(to, kLtBatchCount, &count, sizeof count));
    succeed(set_stride(library_, to, dtype, static_cast<std::int64_t>(stride_bytes(dtype, rows * pitch))));
  };
  const auto stored = [&](LtLayout& to, std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t pitch) {
    if (transposed) std::swap(rows, columns);
    layout(to, shape.operands, rows, columns, pitch);
  };
  stored(product->a, shape.rows, shape.inner, shape.transposed_a, shape.pitch_a());
  stored(product->b, shape.inner, shape.columns, shape.transposed_b, shape.transposed_b ? shape.inner : shape.columns);
  layout(product->c, shape.result, shape.rows, shape.columns, shape.pitch_c());
  return product;
}

std::vector<LtCandidate> Matmuls::candidates(const MatmulShape& shape, const Product& product) const {
  LtPreference preference = nullptr;
  check_status(library_.create_preference(&preference), shape, "to say what is preferred");
  const auto set = [&](int attribute, auto value) {
    check_status(library_.set_preference(preference, attribute, &value, sizeof value), shape,
                 "to say what is preferred");
  };
  std::vector<LtCandidate> proposed(kMostCandidates);
  int count = 0, status = kLtSuccess;
  try {
    set(kLtWorkspaceBytes, std::uint64_t{shape.workspace_bytes()});
    // Allow only partial sums in F32: in a half's type they would be rounded more than once.
    set(kLtReductionMask, kLtReduceInComputeType);
    for (const int operand : {kLtAlignmentA, kLtAlignmentB, kLtAlignmentC, kLtAlignmentD}) {
      set(operand, static_cast<std::uint32_t>(kAlignmentBytes));
    }
    status = library_.heuristic(handle_, product.operation, product.b, product.a, product.c, product.c, preference,
                                kMostCandidates, proposed.data(), &count);
  } catch (...) {
    library_.destroy_preference(preference);
    throw;
  }
  library_.destroy_preference(preference);
  if (status == kLtNotSupported) return {};
  check_status(status, shape, "to propose algorithms");
  proposed.resize(static_cast<std::size_t>(count));
  std::erase_if(proposed, [](const LtCandidate& candidate) { return candidate.status != kLtSuccess; });
  return proposed;
}

int Matmuls::start(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
                   const MatmulBuffers& buffers, const MatmulStrides& strides) const {
  if (shape.count > 1) {
    const std::int64_t bias_stride = strides.bias / static_cast<std::int64_t>(dtype_bytes(shape.result));
    for (const int status :
         {set_stride(library_, product.a, shape.operands, strides.a),
          set_stride(library_, product.b, shape.operands, strides.b),
          set_stride(library_, product.c, shape.result, strides.c),
          shape.bias ? library_.set_operation(product.operation, kLtBiasStride, &bias_stride, sizeof bias_stride)
                     : kLtSuccess}) {
      if (status != kLtSuccess) return status;
    }
  }
  if (shape.bias) {
    const int status = library_.set_operation(product.operation, kLtBiasPointer, &buffers.bias, sizeof buffers.bias);
    if (status != kLtSuccess) return status;
  }
  constexpr float kOne = 1, kZero = 0;
  return library_.matmul(handle_, product.operation, &kOne, buffers.b, product.b, buffers.a, product.a,
                         shape.adds ? &kOne : &kZero, shape.adds ? buffers.addend : buffers.c, product.c, buffers.c,
                         product.c, &algorithm, buffers.workspace, shape.workspace_bytes(), context_.stream());
}

bool Matmuls::can_run(const Announced& product, std::int64_t size) { return at(*product, size).algorithm.has_value(); }

// Some of the library's algorithms round differently if the addend is not in the result's buffer, and a result must not
// depend on where the plan puts tensors.
void Matmuls::copy_addend(const MatmulShape& shape, const MatmulBuffers& buffers) const {
  if (!shape.adds || buffers.addend == buffers.c) return;
  check_cuda(cudaMemcpyAsync(buffers.c, buffers.addend, bytes_of(shape.result, shape.rows * shape.columns),
                             cudaMemcpyDeviceToDevice, context_.stream()),
             "a copy of what a product is added to");
}

void Matmuls::run(const Announced& product, std::int64_t size, const MatmulBuffers& buffers) {
  const Product& ready = at(*product, size);
  const MatmulShape shape = product->with(size);
  check(ready.algorithm.has_value(), "cuBLASLt has an algorithm for a product that is run by it");
  copy_addend(shape, buffers);
  MatmulBuffers in_place = buffers;
  in_place.addend = buffers.c;
  check_status(start(shape, ready, *ready.algorithm, in_place), shape, "to multiply");
}

bool Matmuls::run_batch(const Announced& batch, std::int64_t size, std::span<const MatmulBuffers> buffers,
                        const MatmulStrides& strides) {
  const Product& ready = at(*batch, size);
  const MatmulShape shape = batch->with(size);
  check(ready.algorithm.has_value(), "a batch is run that was found to pay");
  check(static_cast<std::int64_t>(buffers.size()) == shape.count, "each product of a batch has its buffers");
  for (const MatmulBuffers& each : buffers) copy_addend(shape, each);
  MatmulBuffers in_place = buffers.front();
  in_place.addend = in_place.c;
  return start(shape, ready, *ready.algorithm, in_place, strides) == kLtSuccess;
}

Matmuls::Announced Matmuls::announce(const MatmulShape& at_capacity) {
  std::weak_ptr<const MatmulShape>& known = announced_[at_capacity];
  Announced announced = known.lock();
  if (announced == nullptr) known = announced = std::make_shared<const MatmulShape>(at_capacity);
  at(at_capacity, at_capacity.size());
  return announced;
}

std::vector<Matmuls::Announced> Matmuls::announced() const {
  std::vector<Announced> all;
  for (const auto& [shape, weak] : announced_) {
    if (Announced announced = weak.lock()) all.push_back(std::move(announced));
  }
  return all;
}

void Matmuls::prepare(std::span<const std::int64_t> bounds) {
  for (const Announced& product : announced()) {
    for (const std::int64_t bound : bounds) {
      if (const std::int64_t size = std::min(product->size(), bound); size > 0) at(*product, size);
    }
  }
}

// Returns at most `wanted` sets of buffers for the same product, with numbers in them; sets lie at constant distances.
// The numbers of a set are those of the set `distinct` before. Returns fewer, or none, if `memory` has no room.
std::vector<MatmulBuffers> Matmuls::operand_sets(const MatmulShape& shape, std::span<std::byte> memory,
                                                 std::size_t wanted, std::size_t distinct) const {
  const std::array<Part, 4> parts = parts_of(shape);
  const std::size_t each = set_bytes(shape);
  std::size_t used = round_up(shape.workspace_bytes(), kWorkspaceAlignment);
  std::vector<MatmulBuffers> sets;
  while (sets.size() < wanted && used + each <= memory.size()) {
    std::array<std::byte*, 4> at{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      at[i] = memory.data() + used;
      used += parts[i].bytes();
      fill_normal(context_, parts[i].dtype, at[i], parts[i].count, static_cast<std::uint32_t>(sets.size() % distinct));
    }
    sets.push_back({.a = at[0], .b = at[1], .bias = at[2], .addend = at[3], .c = at[3], .workspace = memory.data()});
  }
  return sets;
}

// Returns enough sets to exceed L2 together, so that each is read from memory in its turn, as in a step.
std::vector<MatmulBuffers> Matmuls::buffers_to_time(const MatmulShape& shape, std::span<std::byte> memory) const {
  const std::size_t wanted = 2 * context_.gpu().cache_bytes() / std::max<std::size_t>(set_bytes(shape), 1) + 1;
  return operand_sets(shape, memory, wanted, wanted);
}

float Matmuls::milliseconds(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
                            std::span<const MatmulBuffers> buffers, float best) const {
  std::size_t next = 0;
  const auto run = [&] { return start(shape, product, algorithm, buffers[next++ % buffers.size()]) == kLtSuccess; };
  if (!run()) return std::numeric_limits<float>::infinity();  // the first one warms up
  const auto timed = [&](int runs) {
    const Event begin, end;
    begin.record(context_.stream());
    for (int i = 0; i < runs; ++i) run();
    end.record(context_.stream());
    end.wait();
    return end.milliseconds_since(begin) / static_cast<float>(runs);
  };
  const float once = timed(1);
  if (once > kHopeless * best) return once;
  return timed(
      static_cast<int>(std::clamp(kTimedMilliseconds / std::max(once, 1e-3F), float{kLeastRuns}, float{kMostRuns})));
}

// A device that was idle runs at a fraction of its clock rate at first, so that the first timings would be too long.
void Matmuls::wake(std::span<std::byte> memory) {
  if (memory.empty() || std::exchange(is_awake_, true)) return;
  const Event begin, end;
  begin.record(context_.stream());
  do {
    check_cuda(cudaMemsetAsync(memory.data(), 0, memory.size(), context_.stream()), "zeros in device memory");
    end.record(context_.stream());
    end.wait();
  } while (end.milliseconds_since(begin) < kWakeMilliseconds);
}

std::optional<LtAlgorithm> Matmuls::fastest(const MatmulShape& shape, std::span<std::byte> memory, bool& timed) {
  const std::unique_ptr<Product> product = describe(shape);
  const std::vector<LtCandidate> proposed = candidates(shape, *product);
  if (proposed.empty()) return std::nullopt;
  if (!timed) return proposed.front().algorithm;
  wake(memory);
  const std::vector<MatmulBuffers> buffers = buffers_to_time(shape, memory);
  timed = !buffers.empty();
  if (!timed) return proposed.front().algorithm;
  std::vector<float> times;
  float best = std::numeric_limits<float>::infinity();
  for (const LtCandidate& candidate : proposed) {
    times.push_back(milliseconds(shape, *product, candidate.algorithm, buffers, best));
    best = std::min(best, times.back());
  }
  const double enough = kTie * double{best};
  const auto chosen = std::ranges::find_if(times, [&](float time) { return double{time} <= enough; });
  return proposed[static_cast<std::size_t>(chosen - times.begin())].algorithm;
}

// Returns whether the device holds the same bytes at both places.
bool Matmuls::are_same(const std::byte* a, const std::byte* b, std::size_t bytes) const {
  std::vector<std::byte> here(std::min(bytes, kComparedBytes)), there(here.size());
  for (std::size_t at = 0; at < bytes; at += here.size()) {
    const std::size_t part = std::min(here.size(), bytes - at);
    for (const auto& [to, from] : {std::pair(here.data(), a + at), {there.data(), b + at}}) {
      check_cuda(cudaMemcpyAsync(to, from, part, cudaMemcpyDeviceToHost, context_.stream()), "a copy of a product");
    }
    check_cuda(cudaStreamSynchronize(context_.stream()), "a copy of a product");
    if (!std::equal(here.begin(), here.begin() + static_cast<std::ptrdiff_t>(part), there.begin())) return false;
  }
  return true;
}

// Returns whether a batch by the single product's algorithm gives the same bits as the products one after the other, in
// less time. `memory` has room for both.
bool Matmuls::pays(const MatmulShape& shape, const LtAlgorithm& algorithm, std::span<std::byte> memory) const {
  const MatmulShape single = shape.times(1);
  const std::unique_ptr<Product> batch = describe(shape), one = describe(single);
  const auto count = static_cast<std::size_t>(shape.count);
  // The first half is multiplied one by one, the second, of the same numbers, at once.
  const std::vector<MatmulBuffers> sets = operand_sets(single, memory, 2 * count, count);
  check(sets.size() == 2 * count, "a batch is tuned where memory has room for it");
  const MatmulStrides distinct = *strides_of(sets);
  // A stride of 0 is that of one operand for all, as where maps read the same rows.
  const auto apart = [&](const MatmulStrides& strides) {
    bool started = true;
    for (std::size_t i = 0; i < count; ++i) {
      MatmulBuffers buffers = sets[i];
      if (strides.a == 0) buffers.a = sets[0].a;
      if (strides.b == 0) buffers.b = sets[0].b;
      started &= start(single, *one, algorithm, buffers) == kLtSuccess;
    }
    return started;
  };
  const auto together = [&](const MatmulStrides& strides) {
    return start(shape, *batch, algorithm, sets[count], strides) == kLtSuccess;
  };
  MatmulStrides of_one_a = distinct, of_one_b = distinct;
  of_one_a.a = of_one_b.b = 0;
  for (const MatmulStrides& strides : {distinct, of_one_a, of_one_b}) {
    if (!apart(strides) || !together(strides)) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const auto* const c = static_cast<const std::byte*>(sets[i].c);
      const auto* const d = static_cast<const std::byte*>(sets[count + i].c);
      if (!are_same(c, d, bytes_of(shape.result, shape.rows * shape.columns))) return false;
    }
  }
  const auto milliseconds_of = [&](const auto& run) {
    const Event begin, end;
    begin.record(context_.stream());
    run(shape.transposed_a ? of_one_b : of_one_a);  // maps of the same rows, and the gradients of their weights
    end.record(context_.stream());
    end.wait();
    return double{end.milliseconds_since(begin)};
  };
  double of_apart = 0, of_together = 0;
  for (int round = 0; round < kBatchRounds; ++round) {
    of_apart += milliseconds_of(apart);
    of_together += milliseconds_of(together);
  }
  return kTie * of_together < of_apart;
}

// Decides whether a batch is used. Returns whether that took `memory`; nothing is decided if it is too small, or if
// there is no algorithm for the single product.
bool Matmuls::tune_batch(const MatmulShape& shape, std::span<std::byte> memory) {
  const auto choice = choices_.find(shape.times(1).name());
  if (choice == choices_.end() || !choice->second.algorithm) return false;
  const LtAlgorithm algorithm = *choice->second.algorithm;
  // A choice for another algorithm of the single product, which came from elsewhere, is made again.
  const auto known = choices_.find(shape.name());
  if (known != choices_.end() && (!known->second.algorithm || known->second.algorithm == algorithm)) return false;
  if (!runs(shape, *describe(shape), algorithm)) {
    choices_[shape.name()] = {};
    return false;
  }
  const std::size_t sets = 2 * static_cast<std::size_t>(shape.count) * set_bytes(shape);
  if (round_up(shape.workspace_bytes(), kWorkspaceAlignment) + sets > memory.size()) return false;
  wake(memory);
  choices_[shape.name()] = {.algorithm = pays(shape, algorithm, memory) ? std::optional(algorithm) : std::nullopt,
                            .where = {}};
  return true;
}

std::size_t Matmuls::tune(std::span<std::byte> memory) {
  const auto begin = std::chrono::steady_clock::now();
  const auto has_time = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < kMostSeconds;
  };
  std::size_t count = 0;
  // The largest comes first: it has the most to gain if time runs out.
  for (const std::int64_t part : kTunedParts) {
    for (const Announced& product : announced()) {
      const MatmulShape shape = product->with(part_of(product->size(), part));
      if (shape.size() == 0 || shape.count > 1) continue;
      if (choices_.contains(shape.name())) {
        algorithm_for(*product, shape, *describe(shape));  // throws if it does not run
        continue;
      }
      bool timed = has_time();
      choices_[shape.name()] = {.algorithm = fastest(shape, memory, timed), .where = {}};
      if (timed) ++count;
    }
  }
  for (const std::int64_t part : kTunedParts) {
    for (const Announced& product : announced()) {
      const MatmulShape shape = product->with(part_of(product->size(), part));
      if (batches_ && shape.size() > 0 && shape.count > 1 && has_time() && tune_batch(shape, memory)) ++count;
    }
  }
  products_.clear();
  return count;
}

void Matmuls::run_no_batches() {
  batches_ = false;
  products_.clear();
}

Choices Matmuls::choices() const {
  Choices choices{.device = device(), .algorithms = {}};
  for (const Announced& product : announced()) {
    for (const std::int64_t part : kTunedParts) {
      const std::string name = product->with(part_of(product->size(), part)).name();
      const auto choice = choices_.find(name);
      if (choice == choices_.end()) continue;
      const std::optional<LtAlgorithm>& algorithm = choice->second.algorithm;
      const std::string_view none = product->count > 1 ? kApart : kOwnKernel;
      choices.algorithms[name] = algorithm ? text_of(*algorithm) : std::string(none);
    }
  }
  return choices;
}

bool Matmuls::use(const Choices& choices, const std::string& where) {
  std::map<std::string, Choice> read;
  for (const auto& [name, text] : choices.algorithms) {
    read[name] = {.algorithm = algorithm_of(text, fmt::format("{}, '{}'", where, name)), .where = where};
  }
  if (choices.device != device()) return choices.device.empty();
  read.merge(choices_);  // keeps earlier choices that the table does not replace
  choices_ = std::move(read);
  products_.clear();
  return true;
}

}  // namespace plimsoll::cuda
