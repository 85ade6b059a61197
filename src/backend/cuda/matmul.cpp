#include "backend/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "tensor/tensor.h"

namespace plimsoll::cuda {
namespace {

constexpr int kMostCandidates = 16;
constexpr int kTimedRuns = 5;
constexpr double kTie = 1.02;
constexpr std::string_view kOwnKernel = "own kernel", kLibraryKey = "library";

int library_type(DType dtype) {
  if (dtype == DType::kBF16) return kLtBF16;
  return dtype == DType::kF16 ? kLtF16 : kLtF32;
}

std::string text_of(const LtAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<LtAlgorithm> algorithm_of(std::string_view text) {
  LtAlgorithm algorithm{};
  if (text.size() != 16 * algorithm.size()) return std::nullopt;
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    const char* const begin = text.data() + 16 * i;
    const auto [end, error] = std::from_chars(begin, begin + 16, algorithm[i], 16);
    if (error != std::errc() || end != begin + 16) return std::nullopt;
  }
  return algorithm;
}

}  // namespace

std::string MatmulShape::name() const {
  return fmt::format("{}x{}x{} {}>{}{}{}{}{}", rows, columns, inner, dtype_name(operands), dtype_name(result),
                     transposed_a ? " ta" : "", transposed_b ? " tb" : "", bias ? " bias" : "", adds ? " adds" : "");
}

std::size_t MatmulShape::workspace_bytes() const {
  const std::size_t result_bytes = sizeof(float) * static_cast<std::size_t>(rows * columns);
  return std::clamp(round_up(16 * result_bytes, kWorkspaceAlignment), kLeastWorkspaceBytes, kMostWorkspaceBytes);
}

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

Matmuls::Product& Matmuls::at(const MatmulShape& shape) {
  const auto found = products_.find(shape);
  if (found != products_.end()) return *found->second;

  auto product = std::make_unique<Product>(library_);
  const auto succeed = [&](int status) { check_status(status, shape, "to describe a product"); };
  succeed(library_.create_operation(&product->operation, kLtComputeF32, kLtF32));
  const auto set = [&](int attribute, const auto& value) {
    succeed(library_.set_operation(product->operation, attribute, &value, sizeof value));
  };
  set(kLtOperationA, shape.transposed_b ? kLtTransposed : kLtPlain);
  set(kLtOperationB, shape.transposed_a ? kLtTransposed : kLtPlain);
  set(kLtEpilogue, shape.bias ? kLtBiasEpilogue : kLtNoEpilogue);
  // What a pointer is aligned to is part of the question; the pointer itself comes with each run.
  if (shape.bias) set(kLtBiasPointer, reinterpret_cast<const void*>(kAlignmentBytes));
  const auto layout = [&](LtLayout& to, DType dtype, std::int64_t rows, std::int64_t columns) {
    succeed(library_.create_layout(&to, library_type(dtype), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows));
  };
  const auto stored = [&](LtLayout& to, std::int64_t rows, std::int64_t columns, bool transposed) {
    transposed ? layout(to, shape.operands, rows, columns) : layout(to, shape.operands, columns, rows);
  };
  stored(product->a, shape.rows, shape.inner, shape.transposed_a);
  stored(product->b, shape.inner, shape.columns, shape.transposed_b);
  layout(product->c, shape.result, shape.columns, shape.rows);

  const auto choice = choices_.find(shape.name());
  if (choice == choices_.end()) {
    const std::vector<LtCandidate> proposed = candidates(shape, *product);
    if (!proposed.empty()) product->algorithm = proposed.front().algorithm;
  } else if (choice->second != kOwnKernel) {
    product->algorithm = algorithm_of(choice->second);
    LtCandidate result;
    const int status = library_.check(handle_, product->operation, product->b, product->a, product->c, product->c,
                                      &*product->algorithm, &result);
    if (status != kLtSuccess || result.workspace_bytes > shape.workspace_bytes()) {
      throw DataError({.what = "a stored choice of an algorithm does not run on this device",
                       .where = shape.name(),
                       .found = status == kLtSuccess ? format_bytes(result.workspace_bytes) + " of workspace"
                                                     : library_.status_name(status),
                       .remedy = "remove the table of choices; it is made again by tuning"});
    }
  }
  return *products_.emplace(shape, std::move(product)).first->second;
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
    // Partial sums in F32 alone: in a half's type they would be rounded more than once.
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
                   const MatmulBuffers& buffers) const {
  if (shape.bias) {
    const int status = library_.set_operation(product.operation, kLtBiasPointer, &buffers.bias, sizeof buffers.bias);
    if (status != kLtSuccess) return status;
  }
  constexpr float kOne = 1, kZero = 0;
  return library_.matmul(handle_, product.operation, &kOne, buffers.b, product.b, buffers.a, product.a,
                         shape.adds ? &kOne : &kZero, shape.adds ? buffers.addend : buffers.c, product.c, buffers.c,
                         product.c, &algorithm, buffers.workspace, shape.workspace_bytes(), context_.stream());
}

bool Matmuls::can_run(const MatmulShape& shape) { return at(shape).algorithm.has_value(); }

void Matmuls::run(const MatmulShape& shape, const MatmulBuffers& buffers) {
  const Product& product = at(shape);
  check(product.algorithm.has_value(), "cuBLASLt has an algorithm for a product that is run by it");
  check_status(start(shape, product, *product.algorithm, buffers), shape, "to multiply");
}

void Matmuls::announce(const MatmulShape& at_capacity, Bounded bounded) {
  announced_.emplace(at_capacity, bounded);
  at(at_capacity);
}

std::set<MatmulShape> Matmuls::announced_at(std::span<const std::int64_t> bounds) const {
  std::set<MatmulShape> shapes;
  for (const auto& [at_capacity, bounded] : announced_) {
    for (const std::int64_t bound : bounds) {
      MatmulShape shape = at_capacity;
      std::int64_t& size = bounded == Bounded::kRows ? shape.rows : shape.inner;
      size = std::min(size, bound);
      if (size > 0) shapes.insert(shape);
    }
  }
  return shapes;
}

void Matmuls::prepare(std::span<const std::int64_t> bounds) {
  for (const MatmulShape& shape : announced_at(bounds)) at(shape);
}

float Matmuls::milliseconds(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
                            const MatmulBuffers& buffers) const {
  const auto run = [&] { return start(shape, product, algorithm, buffers) == kLtSuccess; };
  if (!run()) return std::numeric_limits<float>::infinity();  // the first one warms up
  const Event begin, end;
  begin.record(context_.stream());
  for (int i = 0; i < kTimedRuns; ++i) run();
  end.record(context_.stream());
  end.wait();
  return end.milliseconds_since(begin) / kTimedRuns;
}

void Matmuls::tune(std::span<const std::int64_t> bounds, std::span<std::byte> memory) {
  for (const MatmulShape& shape : announced_at(bounds)) {
    Product& product = at(shape);
    std::size_t used = 0;
    const auto take = [&](std::int64_t elements, DType dtype) {
      std::byte* const part = memory.data() + used;
      used += round_up(static_cast<std::size_t>(elements) * dtype_bytes(dtype), kWorkspaceAlignment);
      return part;
    };
    MatmulBuffers buffers;
    buffers.a = take(shape.rows * shape.inner, shape.operands);
    buffers.b = take(shape.inner * shape.columns, shape.operands);
    buffers.bias = take(shape.columns, shape.result);
    buffers.c = take(shape.rows * shape.columns, shape.result);
    buffers.addend = buffers.c;
    buffers.workspace = memory.data() + used;
    if (used + shape.workspace_bytes() > memory.size()) continue;

    const std::vector<LtCandidate> proposed = candidates(shape, product);
    std::vector<float> times;
    for (const LtCandidate& candidate : proposed) {
      times.push_back(milliseconds(shape, product, candidate.algorithm, buffers));
    }
    if (times.empty()) continue;
    const double enough = kTie * double{*std::ranges::min_element(times)};
    const auto best = std::ranges::find_if(times, [&](float time) { return double{time} <= enough; });
    product.algorithm = proposed[static_cast<std::size_t>(best - times.begin())].algorithm;
  }
}

Matmuls::Choices Matmuls::choices() const {
  Choices choices = {{std::string(kLibraryKey), fmt::format("{}", library_.version())}};
  for (const auto& [shape, product] : products_) {
    choices[shape.name()] = product->algorithm ? text_of(*product->algorithm) : std::string(kOwnKernel);
  }
  return choices;
}

void Matmuls::use(Choices choices) {
  const std::string version = fmt::format("{}", library_.version());
  for (const auto& [name, choice] : choices) {
    if (name == kLibraryKey ? choice == version : choice == kOwnKernel || algorithm_of(choice)) continue;
    throw DataError({.what = "a table of choices of algorithms does not fit",
                     .where = name,
                     .found = choice,
                     .allowed = name == kLibraryKey ? version : "128 hexadecimal digits",
                     .remedy = "remove the table of choices; it is made again by tuning"});
  }
  check(choices.contains(std::string(kLibraryKey)), "a table of choices names its library");
  choices_ = std::move(choices);
  products_.clear();
}

}  // namespace plimsoll::cuda
