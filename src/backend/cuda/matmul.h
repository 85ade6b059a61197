// Matrix products of fixed shapes by cuBLASLt: the one place that knows how it is asked.
//
// A product's algorithm is the first that the library's heuristic proposes; after `tune`, the fastest of its proposals,
// or what a table that was taken over says: for one version of the library and one device, results with the same
// algorithm are the same bits. Where the library proposes none, `can_run` is false and the caller multiplies by a
// kernel of its own.
//
// The host knows a bound of the rows alone, so a product is prepared for each bound that occurs: when it first runs, or
// before, by `prepare`. Bounds should be few. Only that first time allocates (on the host). An algorithm is chosen for
// the capacity, a half and a quarter of it, which takes 1.75 times as long as the capacity alone, where sixteen bounds
// would take 8.5 times; a bound between them is multiplied by the algorithm of the next above. So a table depends on
// capacities only, not on which rows have occurred.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/context.h"
#include "backend/cuda/cublaslt.h"
#include "tensor/dtype.h"

namespace plimsoll::cuda {

// Which size of a product is the number of rows of a step, of which the host knows a bound.
enum class Bounded : std::uint8_t { kRows, kInner };

// c[rows, columns] = a b (+ bias) (+ addend), row-major; summed in F32, rounded once.
struct MatmulShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  DType operands = DType::kF32;  // of a and b: F32, BF16 or F16
  DType result = DType::kF32;    // of c, bias and addend: F32 or the operands' type, for cuBLASLt has no other bias
  bool transposed_a = false;     // a is stored [inner, rows], else [rows, inner]
  bool transposed_b = false;     // b is stored [columns, inner], else [inner, columns]
  bool bias = false;             // + bias[columns] on every row
  bool adds = false;             // + addend[rows, columns], which may be c
  Bounded bounded = Bounded::kRows;
  friend auto operator<=>(const MatmulShape&, const MatmulShape&) = default;

  // Of the size that is bounded: what it is, and the same product with another.
  std::int64_t size() const { return bounded == Bounded::kRows ? rows : inner; }
  MatmulShape with(std::int64_t size) const;

  // "4096x3072x768 BF16>BF16 tb bias": its name in a table of choices.
  std::string name() const;
  // What an algorithm may use beside its operands, and what it asks for to split sums over `inner`: room for sixteen
  // partial sums of small results. It grows with rows, so that a bound never needs more than the capacity does.
  std::size_t workspace_bytes() const;
};

// Buffers lie on the device, aligned to kAlignmentBytes, the workspace to kWorkspaceAlignment.
inline constexpr std::size_t kMostWorkspaceBytes = std::size_t{32} << 20, kLeastWorkspaceBytes = std::size_t{1} << 20;
inline constexpr std::size_t kWorkspaceAlignment = 256;
struct MatmulBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* addend = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;  // workspace_bytes()
};

class Matmuls {
 public:
  // A node's product as large as it can be. It is announced for as long as this lives.
  using Announced = std::shared_ptr<const MatmulShape>;

  Matmuls(const Context& context, const CublasLt& library);
  ~Matmuls();
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;

  Announced announce(const MatmulShape& at_capacity);
  // Every announced product at each bound: ready to run, then.
  void prepare(std::span<const std::int64_t> bounds);
  // For every announced product that no table knows: the fastest of the library's proposals, each timed in `memory`,
  // whose contents are lost; of those within 2 % of the fastest, the library's first. The library's first of all where
  // a product does not fit into `memory`, and for what is left after kMostSeconds. How many were timed.
  std::size_t tune(std::span<std::byte> memory);

  // Of a product whose bounded size is now `size`, at most its capacity's.
  bool can_run(const Announced& product, std::int64_t size);
  // Throws EnvironmentError where the library fails.
  void run(const Announced& product, std::int64_t size, const MatmulBuffers& buffers);

  // As Backend has them, by the products' names; nothing for those that were neither tuned nor taken over. An algorithm
  // that does not run here is a DataError, naming `where`, when `tune` or a run meets it.
  Choices choices() const;
  bool use(const Choices& choices, const std::string& where);

  static constexpr double kMostSeconds = 20;

 private:
  struct Product;
  struct Choice {
    std::optional<LtAlgorithm> algorithm{};  // none: the caller's own kernel
    std::string where;                       // it was read from; empty: chosen here
  };

  Product& at(const MatmulShape& at_capacity, std::int64_t size);
  std::optional<LtAlgorithm> algorithm_for(const MatmulShape& at_capacity, const MatmulShape& shape,
                                           const Product& product) const;
  std::unique_ptr<Product> describe(const MatmulShape& shape) const;
  std::vector<LtCandidate> candidates(const MatmulShape& shape, const Product& product) const;
  std::optional<LtAlgorithm> fastest(const MatmulShape& shape, std::span<std::byte> memory, bool& timed);
  void wake(std::span<std::byte> memory);
  int start(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
            const MatmulBuffers& buffers) const;
  float milliseconds(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
                     const MatmulBuffers& buffers, float best) const;
  void check_status(int status, const MatmulShape& shape, const char* doing) const;
  std::vector<Announced> announced() const;
  std::string device() const;

  const Context& context_;
  CublasLt library_;
  LtHandle handle_ = nullptr;
  std::map<MatmulShape, std::weak_ptr<const MatmulShape>> announced_;
  std::map<std::pair<MatmulShape, std::int64_t>, std::unique_ptr<Product>> products_;  // by capacity and size
  std::map<std::string, Choice> choices_;
  bool is_awake_ = false;  // the device, as far as `tune` knows
};

}  // namespace plimsoll::cuda
