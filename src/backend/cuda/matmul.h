// Matrix products of fixed shapes by cuBLASLt: the one place that knows how it is asked.
//
// A product's algorithm is the first that the library's heuristic proposes, the fastest of its proposals after `tune`,
// or what a stored table says: for one version of the library and one device, results with the same algorithm are the
// same bits. Where the library proposes none, `can_run` is false and the caller multiplies by a kernel of its own.
//
// The host knows a bound of the rows alone, so a product is prepared for each bound that occurs: when it first runs, or
// before, by `prepare`. Bounds should be few. Only that first time allocates (on the host).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/cublaslt.h"
#include "tensor/dtype.h"

namespace plimsoll::cuda {

// c[rows, columns] = a b (+ bias) (+ addend), row-major; summed in F32, rounded once.
struct MatmulShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  DType operands = DType::kF32;  // of a and b: F32, BF16 or F16
  DType result = DType::kF32;    // of c, bias and addend: F32 or the operands' type, for cuBLASLt has no other bias
  bool transposed_a = false;     // a is stored [inner, rows], else [rows, inner]
  bool transposed_b = false;     // b is stored [columns, inner], else [inner, columns]
  bool bias = false;             // + bias[columns] on every row
  bool adds = false;             // + addend[rows, columns], which may be c
  friend auto operator<=>(const MatmulShape&, const MatmulShape&) = default;

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

// Which size of a product is the number of rows of a step, of which the host knows a bound.
enum class Bounded : std::uint8_t { kRows, kInner };

class Matmuls {
 public:
  Matmuls(const Context& context, const CublasLt& library);
  ~Matmuls();
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;

  // A node's product as large as it can be.
  void announce(const MatmulShape& at_capacity, Bounded bounded);
  // Every announced product at each bound: ready to run, then.
  void prepare(std::span<const std::int64_t> bounds);
  // The same, with the fastest of the library's proposals, each timed in `memory`, whose contents are lost; of those
  // within 2 % of the fastest, the library's first. Products that do not fit into `memory` keep their algorithm.
  void tune(std::span<const std::int64_t> bounds, std::span<std::byte> memory);

  bool can_run(const MatmulShape& shape);
  // Throws EnvironmentError where the library fails.
  void run(const MatmulShape& shape, const MatmulBuffers& buffers);

  // The algorithm of every product that is ready, by its name, and "library": the version. `use` makes such a table the
  // rule for products that it names. Throws DataError for a table of another version, or one that makes no sense; the
  // first use of a product does if its algorithm does not run here.
  using Choices = std::map<std::string, std::string>;
  Choices choices() const;
  void use(Choices choices);

 private:
  struct Product;
  Product& at(const MatmulShape& shape);
  std::vector<LtCandidate> candidates(const MatmulShape& shape, const Product& product) const;
  int start(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
            const MatmulBuffers& buffers) const;
  float milliseconds(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
                     const MatmulBuffers& buffers) const;
  void check_status(int status, const MatmulShape& shape, const char* doing) const;
  std::set<MatmulShape> announced_at(std::span<const std::int64_t> bounds) const;

  const Context& context_;
  CublasLt library_;
  LtHandle handle_ = nullptr;
  std::set<std::pair<MatmulShape, Bounded>> announced_;
  std::map<MatmulShape, std::unique_ptr<Product>> products_;
  Choices choices_;  // given by `use`
};

}  // namespace plimsoll::cuda
