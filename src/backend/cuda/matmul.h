// Matrix products of fixed shapes by cuBLASLt; only this file and its source know the library's interface.
//
// A product's algorithm is the first that the library's heuristic proposes; after `tune`, the fastest of its proposals,
// or what a given table says: for one version of the library and one device, results with the same algorithm are the
// same bits. If the library proposes none, `can_run` is false and the caller multiplies by a kernel of its own.
//
// Several products of one shape may be computed at once (MatmulShape::count), by the algorithm of each alone. `tune`
// runs them both ways, and allows it if the results are the same bits, in less time: so it changes no number, and may
// be left out where the products' operands do not lie at regular distances.
//
// The host knows only a bound of the rows, so a product is prepared for each bound that occurs: when it first runs, or
// before, by `prepare`. Bounds should be few. Only that first time allocates (on the host). Algorithms are chosen for
// the capacity, a half and a quarter of it, which takes 1.75 times as long as for the capacity alone (for sixteen
// bounds it would take 8.5 times as long); a bound between them uses the algorithm of the next larger one. So a table
// depends on capacities only, not on which rows have occurred.
#pragma once

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
#include "backend/cuda/matmul_buffers.h"
#include "backend/cuda/sizes/products.h"

namespace plimsoll::cuda {

class Matmuls {
 public:
  // A node's product at its largest size. It is announced for as long as this lives.
  using Announced = std::shared_ptr<const MatmulShape>;

  Matmuls(const Context& context, const CublasLt& library);
  ~Matmuls();
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;

  Announced announce(const MatmulShape& at_capacity);
  // Makes every announced product ready to run at each bound.
  void prepare(std::span<const std::int64_t> bounds);
  // Chooses an algorithm for every announced product that no table knows: the fastest of the library's proposals, each
  // timed in `memory`, whose contents are lost, on normally distributed numbers that are not in L2; among those within
  // 2 % of the fastest, the library's first. A product that does not fit into `memory`, or is not timed within
  // kMostSeconds, gets the library's first proposal. Returns how many products were timed.
  std::size_t tune(std::span<std::byte> memory);

  // Runs no batches from now on, so that what they gain can be measured.
  void run_no_batches();

  // True if a product can run with `size` as its bounded size, which is at most its capacity.
  bool can_run(const Announced& product, std::int64_t size);
  // Runs it. Throws EnvironmentError if the library fails.
  void run(const Announced& product, std::int64_t size, const MatmulBuffers& buffers);
  // Runs several products at once, whose buffers lie at these strides; the first one's workspace is used. can_run says
  // whether `tune` found this faster than one after the other, with the same bits. Returns false, and has changed at
  // most results, if the library refuses these places.
  bool run_batch(const Announced& batch, std::int64_t size, std::span<const MatmulBuffers> buffers,
                 const MatmulStrides& strides);

  // See Backend; keys are the products' names, and products that were neither tuned nor given are left out. When `tune`
  // or a run needs a given algorithm that does not run here, it throws DataError naming `where`.
  Choices choices() const;
  bool use(const Choices& choices, const std::string& where);

  static constexpr double kMostSeconds = 20;

 private:
  struct Product;
  struct Choice {
    std::optional<LtAlgorithm> algorithm{};  // none: the caller's own kernel, or, of a batch, one product at a time
    std::string where;                       // where it was read from; empty: chosen here
  };

  Product& at(const MatmulShape& at_capacity, std::int64_t size);
  std::optional<LtAlgorithm> algorithm_for(const MatmulShape& at_capacity, const MatmulShape& shape,
                                           const Product& product) const;
  std::unique_ptr<Product> describe(const MatmulShape& shape) const;
  std::vector<LtCandidate> candidates(const MatmulShape& shape, const Product& product) const;
  std::optional<LtAlgorithm> fastest(const MatmulShape& shape, std::span<std::byte> memory, bool& timed);
  bool tune_batch(const MatmulShape& shape, std::span<std::byte> memory);
  bool pays(const MatmulShape& shape, const LtAlgorithm& algorithm, std::span<std::byte> memory) const;
  LtCandidate checked(const Product& product, const LtAlgorithm& algorithm) const;
  bool runs(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm) const;
  bool are_same(const std::byte* a, const std::byte* b, std::size_t bytes) const;
  void copy_addend(const MatmulShape& shape, const MatmulBuffers& buffers) const;
  void wake(std::span<std::byte> memory);
  int start(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
            const MatmulBuffers& buffers, const MatmulStrides& strides = {}) const;
  std::vector<MatmulBuffers> operand_sets(const MatmulShape& shape, std::span<std::byte> memory, std::size_t wanted,
                                          std::size_t distinct) const;
  std::vector<MatmulBuffers> buffers_to_time(const MatmulShape& shape, std::span<std::byte> memory) const;
  float milliseconds(const MatmulShape& shape, const Product& product, const LtAlgorithm& algorithm,
                     std::span<const MatmulBuffers> buffers, float best) const;
  void check_status(int status, const MatmulShape& shape, const char* doing) const;
  std::vector<Announced> announced() const;
  std::string device() const;

  const Context& context_;
  CublasLt library_;
  LtHandle handle_ = nullptr;
  std::map<MatmulShape, std::weak_ptr<const MatmulShape>> announced_;
  std::map<std::pair<MatmulShape, std::int64_t>, std::unique_ptr<Product>> products_;  // by capacity and size
  std::map<std::string, Choice> choices_;
  bool batches_ = true;
  bool is_awake_ = false;  // whether the device is, as far as `tune` knows
};

}  // namespace plimsoll::cuda
