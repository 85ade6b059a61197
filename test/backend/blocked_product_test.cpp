// Compares blocked products with simple loops, exactly where the elements are small whole numbers, with each
// micro-kernel that the processor has, or emulates, and blocks so small that every edge occurs.
#include "backend/cpu/blocked_product.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

#include "backend/amx_emulator.h"
#include "base/philox.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

// Three panels of rows and three of columns make a block; as many, of 128 inner elements, are packed at a time.
constexpr Blocking kTiny{
    .inner = 96, .part = 64, .rows = 96, .columns = 96, .block = 64 * 96, .packed_bytes = 25'000, .packed_inner = 128};

class BlockedProductTest : public testing::Test {
 protected:
  static std::vector<const MicroKernel*> micro_kernels() {
    std::vector<const MicroKernel*> found{&reference_micro_kernel()};
    for (const MicroKernel* const kernel : {vector_micro_kernel(), tile_micro_kernel()}) {
      if (kernel != nullptr) found.push_back(kernel);
    }
    return found;
  }

 private:
  test::EmulatedAmx amx_;
};

float small_number(std::size_t at, std::uint32_t which) {
  return static_cast<float>(philox4x32({static_cast<std::uint32_t>(at), which, 0, 0}, {5, 6})[0] % 17) - 8;
}
float fraction(std::size_t at, std::uint32_t which) {
  return static_cast<float>(philox4x32({static_cast<std::uint32_t>(at), which, 0, 0}, {5, 6})[0]) * 0x1.0p-31F - 1;
}

std::vector<std::uint16_t> halves(std::int64_t count, std::uint32_t which,
                                  float (*number)(std::size_t, std::uint32_t)) {
  std::vector<std::uint16_t> made(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = float_to_bfloat16(number(i, which));
  return made;
}

// Exactly as many bytes as a product asks for, or needs for its result, so that a sanitizer sees one too many.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : data_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}
  ~Scratch() { ::operator delete(data_, kAlignment); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  std::byte* data_;
};

// c of `shape`; elements between its rows, and after them, stay 7.
template <typename T>
std::vector<T> expected(const MatmulShape& shape, const std::vector<std::uint16_t>& a,
                        const std::vector<std::uint16_t>& b, const std::vector<float>& bias, std::vector<T> c) {
  const auto number = [](std::uint16_t bits) { return double{bfloat16_to_float(bits)}; };
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      double sum = shape.bias ? bias[static_cast<std::size_t>(j)] : 0;
      for (std::int64_t k = 0; k < shape.inner; ++k) {
        sum += number(a[static_cast<std::size_t>(shape.transposed_a ? k * shape.rows + i : i * shape.inner + k)]) *
               number(b[static_cast<std::size_t>(shape.transposed_b ? j * shape.inner + k : k * shape.columns + j)]);
      }
      T& to = c[static_cast<std::size_t>(i * shape.row_stride + j)];
      if constexpr (std::is_same_v<T, float>) {
        to = static_cast<float>(shape.accumulate ? to + sum : sum);
      } else {
        to = float_to_bfloat16(static_cast<float>(sum));
      }
    }
  }
  return c;
}

template <typename T>
void expect_exact(const MicroKernel& kernel, const Blocking& blocking, int threads, const MatmulShape& shape,
                  const MatmulShape& largest, int team = 0) {
  const auto a = halves(shape.rows * shape.inner, 0, small_number),
             b = halves(shape.inner * shape.columns, 1, small_number);
  std::vector<float> bias(static_cast<std::size_t>(shape.columns));
  for (std::size_t j = 0; j < bias.size(); ++j) bias[j] = small_number(j, 2);
  std::vector<T> c(static_cast<std::size_t>(shape.rows * shape.row_stride + 40), T{7});
  const std::vector<T> wanted = expected(shape, a, b, bias, c);
  const BlockedProduct product(kernel, largest, threads, blocking);
  Scratch scratch(product.scratch_bytes()),
      result(c.size() * sizeof(T));  // on whole lines, which have a way of their own
  T* const made = reinterpret_cast<T*>(result.data());
  std::ranges::copy(c, made);
  omp_set_num_threads(team == 0 ? threads : team);
  product.run(shape, a.data(), b.data(), bias.data(), made, scratch.data());
  std::copy_n(made, c.size(), c.begin());
  EXPECT_EQ(c, wanted) << fmt::format("{}: {} x {} x {}, transposed {} {}, bias {}, adds {}, {} threads", kernel.name,
                                      shape.rows, shape.inner, shape.columns, shape.transposed_a, shape.transposed_b,
                                      shape.bias, shape.accumulate, threads);
}

TEST_F(BlockedProductTest, IsExactOnOddShapes) {
  for (const MicroKernel* const kernel : micro_kernels()) {
    for (const auto& [rows, inner, columns] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                                       {16, 32, 16},
                                                                                       {32, 64, 32},
                                                                                       {33, 31, 17},
                                                                                       {70, 130, 100},
                                                                                       {64, 64, 96},
                                                                                       {200, 33, 9},
                                                                                       {5, 300, 260},
                                                                                       {130, 257, 110},
                                                                                       {64, 600, 64},
                                                                                       {40, 100, 560},
                                                                                       {40, 1600, 70}}) {
      for (const int which : {0, 1, 2, 3}) {
        MatmulShape shape{.rows = rows,
                          .columns = columns,
                          .inner = inner,
                          .operands = DType::kBF16,
                          .transposed_a = which % 2 == 1,
                          .transposed_b = which / 2 == 1,
                          .bias = which == 2,
                          .accumulate = which != 0,
                          .row_stride = columns + 3 * (which % 2)};
        MatmulShape largest = shape;
        largest.rows += 50 * which;
        largest.inner += which == 3 ? 1'000 : 7 * which;  // with parts, where the shape may have none
        largest.transposed_a = which != 0;
        largest.columns += 40 * which;
        for (const int threads : {1, 3}) expect_exact<float>(*kernel, kTiny, threads, shape, largest);
        expect_exact<float>(*kernel, kernel->blocking, 2, shape, largest);
        shape.result = largest.result = DType::kBF16;
        shape.accumulate = false;
        for (const int threads : {1, 3}) expect_exact<std::uint16_t>(*kernel, kTiny, threads, shape, largest);
        expect_exact<std::uint16_t>(*kernel, kernel->blocking, 2, shape, largest);
      }
    }
  }
}

// Blocks become smaller where many threads would keep sums of large ones.
TEST_F(BlockedProductTest, IsExactInBlocksForManyThreads) {
  constexpr Blocking kShared{.inner = 96, .part = 64, .rows = 128, .columns = 128, .block = 64 * 128};
  constexpr int kThreads = 2'000;  // of which two run
  const MatmulShape shape{.rows = 150,
                          .columns = 170,
                          .inner = 200,
                          .operands = DType::kBF16,
                          .result = DType::kBF16,
                          .transposed_b = true,
                          .row_stride = 170};
  for (const MicroKernel* const kernel : micro_kernels()) {
    const BlockedProduct few(*kernel, shape, 2, kShared), many(*kernel, shape, kThreads, kShared);
    EXPECT_LT(many.scratch_bytes() / kThreads, few.scratch_bytes() / 2);
    expect_exact<std::uint16_t>(*kernel, kShared, kThreads, shape, shape, 2);
  }
}

// A row's sums are the same bits however many rows and threads there are.
TEST_F(BlockedProductTest, SumsDoNotDependOnRowsOrThreads) {
  constexpr std::int64_t kRows = 230, kFewer = 37, kInner = 700, kColumns = 150;
  const auto a = halves(kRows * kInner, 0, fraction), b = halves(kInner * kColumns, 1, fraction);
  const auto expect_same = [&](const MicroKernel& kernel, auto element, DType result) {
    MatmulShape shape{.rows = kRows,
                      .columns = kColumns,
                      .inner = kInner,
                      .operands = DType::kBF16,
                      .result = result,
                      .transposed_b = true};
    const BlockedProduct product(kernel, shape, 3, kTiny);
    Scratch scratch(product.scratch_bytes());
    std::vector<decltype(element)> all(kRows * kColumns), fewer(kFewer * kColumns);
    omp_set_num_threads(3);
    product.run(shape, a.data(), b.data(), nullptr, all.data(), scratch.data());
    shape.rows = kFewer;
    omp_set_num_threads(1);
    product.run(shape, a.data(), b.data(), nullptr, fewer.data(), scratch.data());
    all.resize(fewer.size());
    EXPECT_EQ(all, fewer) << kernel.name;
  };
  for (const MicroKernel* const kernel : micro_kernels()) {
    expect_same(*kernel, float(), DType::kF32);
    expect_same(*kernel, std::uint16_t(), DType::kBF16);
  }
}

}  // namespace
}  // namespace plimsoll
