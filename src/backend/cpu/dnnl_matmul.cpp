#include "backend/cpu/dnnl_matmul.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/cpu/blocked_product.h"
#include "backend/cpu/pack_transposed.h"
#include "backend/cpu/parallel.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"

namespace plimsoll {
namespace {

using Description = dnnl::memory::desc;

// oneDNN is asked for its preferred layout with a product of this many rows.
constexpr std::int64_t kTypicalRows = 256;

dnnl::memory::data_type library_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == DType::kBF16  ? Type::bf16
         : dtype == DType::kI8  ? Type::s8
         : dtype == DType::kI32 ? Type::s32
                                : Type::f32;
}

Description matrix(std::int64_t rows, std::int64_t columns, bool transposed, DType dtype = DType::kF32) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
  return {dnnl::memory::dims{rows, columns}, library_type(dtype), strides};
}

Description any_layout(std::int64_t rows, std::int64_t columns, DType dtype) {
  return {dnnl::memory::dims{rows, columns}, library_type(dtype), dnnl::memory::format_tag::any};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const MatmulShape& shape, const Description& b) {
  const Description a = matrix(shape.rows, shape.inner, shape.transposed_a, shape.operands);
  const Description c = matrix(shape.rows, shape.columns, false, shape.result);
  dnnl::primitive_attr attributes = user_scratchpad();
  if (shape.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const Description bias = shape.bias ? matrix(1, shape.columns, false) : Description();
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, bias, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
#endif
}

// A memory object without a buffer; its handle is set before each run.
dnnl::memory unbound(const Description& description, const dnnl::engine& engine) {
  return {description, engine, DNNL_MEMORY_NONE};
}

// Calls dnnl_primitive_execute with an array on the stack, because the C++ form makes a map and a vector for each call.
template <std::size_t N>
void execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
             const std::array<dnnl_exec_arg_t, N>& arguments) {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(N), arguments.data());
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  check(status == dnnl_success, "oneDNN runs a primitive that it has prepared");
}

// oneDNN writes generated code through a null pointer if the system refuses it memory, so this tries to get that memory
// first.
void expect_memory_for_code() {
  constexpr std::size_t kRoom = 16 * kMiB;
  void* const room = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kRoom);
}

// Calls `make` and turns oneDNN's errors into ours.
template <typename Make>
auto made_by_library(const Make& make) {
  expect_memory_for_code();
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw EnvironmentError({.what = "oneDNN cannot prepare a matrix product",
                            .where = "libdnnl",
                            .found = error.what(),
                            .remedy = "free memory on this machine; if enough is free, report it with config.json"});
  }
}

// A plan that is only estimated needs to know the scratch of its products, not their code, which takes longer to
// generate than all else and tens of KiB each.
class DnnlMatmul final : public Matmul {
 public:
  DnnlMatmul(const dnnl::engine& engine, const dnnl::stream& stream, const MatmulShape& shape, const Description& b)
      : DnnlMatmul(engine, stream, shape, describe(engine, shape, b)) {}

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  // True if oneDNN uses its general product, as version 2 does on processors without AVX-512.
  bool is_general() const { return is_general_; }

  // Generates the code; the first run does so otherwise.
  bool has_code() const { return static_cast<bool>(primitive_); }
  void make_code() const {
    if (has_code()) return;
    primitive_ = made_by_library([this] { return dnnl::matmul(description_); });
    description_ = {};  // the primitive has a copy
  }

  void run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const override {
    make_code();
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    if (scratch_bytes_ > 0) scratch_.set_data_handle(scratch);
    if (has_bias_) {
      bias_.set_data_handle(const_cast<float*>(bias));
      execute(primitive_, stream_,
              std::array<dnnl_exec_arg_t, 5>{{{DNNL_ARG_SRC, a_.get()},
                                              {DNNL_ARG_WEIGHTS, b_.get()},
                                              {DNNL_ARG_DST, c_.get()},
                                              {DNNL_ARG_SCRATCHPAD, scratch_.get()},
                                              {DNNL_ARG_BIAS, bias_.get()}}});
    } else {
      execute(primitive_, stream_,
              std::array<dnnl_exec_arg_t, 4>{{{DNNL_ARG_SRC, a_.get()},
                                              {DNNL_ARG_WEIGHTS, b_.get()},
                                              {DNNL_ARG_DST, c_.get()},
                                              {DNNL_ARG_SCRATCHPAD, scratch_.get()}}});
    }
  }

 private:
  DnnlMatmul(const dnnl::engine& engine, const dnnl::stream& stream, const MatmulShape& shape,
             const dnnl::matmul::primitive_desc& description)
      : description_(description),
        stream_(stream),
        a_(unbound(description.src_desc(), engine)),
        b_(unbound(description.weights_desc(), engine)),
        c_(unbound(description.dst_desc(), engine)),
        scratch_(unbound(description.scratchpad_desc(), engine)),
        has_bias_(shape.bias),
        is_general_(std::string_view(description.impl_info_str()).substr(0, 4) == "gemm"),
        scratch_bytes_(description.scratchpad_desc().get_size()) {
    if (has_bias_) bias_ = unbound(description.bias_desc(), engine);
  }

  mutable dnnl::matmul::primitive_desc description_;
  mutable dnnl::matmul primitive_;  // null until there is code
  dnnl::stream stream_;
  dnnl::memory a_, b_, c_, scratch_, bias_;
  bool has_bias_, is_general_;
  std::size_t scratch_bytes_;
};

class DnnlPacking final : public WeightPacking {
 public:
  DnnlPacking(const dnnl::engine& engine, const dnnl::stream& stream, const Description& from, const Description& to)
      : DnnlPacking(engine, stream, dnnl::reorder::primitive_desc(engine, from, engine, to, user_scratchpad()), from,
                    to) {}

  std::size_t packed_bytes() const override { return packed_bytes_; }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const void* b, void* packed, std::byte* scratch) const override {
    from_.set_data_handle(const_cast<void*>(b));
    to_.set_data_handle(packed);
    if (scratch_bytes_ > 0) scratch_.set_data_handle(scratch);
    execute(primitive_, stream_,
            std::array<dnnl_exec_arg_t, 3>{
                {{DNNL_ARG_FROM, from_.get()}, {DNNL_ARG_TO, to_.get()}, {DNNL_ARG_SCRATCHPAD, scratch_.get()}}});
  }

 private:
  DnnlPacking(const dnnl::engine& engine, const dnnl::stream& stream, const dnnl::reorder::primitive_desc& description,
              const Description& from, const Description& to)
      : primitive_(description),
        stream_(stream),
        from_(unbound(from, engine)),
        to_(unbound(to, engine)),
        scratch_(unbound(description.scratchpad_desc(), engine)),
        packed_bytes_(to.get_size()),
        scratch_bytes_(description.scratchpad_desc().get_size()) {}

  dnnl::reorder primitive_;
  dnnl::stream stream_;
  dnnl::memory from_, to_, scratch_;
  std::size_t packed_bytes_, scratch_bytes_;
};

// Packs with our own code into the layout that oneDNN prefers on most machines with AVX-512.
class TransposedPacking final : public WeightPacking {
 public:
  TransposedPacking(std::int64_t inner, std::int64_t columns) : inner_(inner), columns_(columns) {}

  // Returns whether this class produces `layout`, oneDNN's layout of a matrix [inner, columns].
  static bool makes(const Description& layout, std::int64_t inner, std::int64_t columns) {
    const Description blocked(dnnl::memory::dims{inner, columns}, dnnl::memory::data_type::f32,
                              dnnl::memory::format_tag::BA16a64b);
    return layout == blocked && inner % kPackedInner == 0 && columns % kPackedColumns == 0;
  }
  std::size_t packed_bytes() const override { return static_cast<std::size_t>(inner_ * columns_) * sizeof(float); }
  std::size_t scratch_bytes() const override { return 0; }
  void run(const void* b, void* packed, std::byte*) const override {
    pack_transposed(static_cast<const float*>(b), inner_, columns_, static_cast<float*>(packed));
  }

 private:
  std::int64_t inner_, columns_;
};

// oneDNN's general product of F32 (dnnl_sgemm).
class DnnlGeneralProduct final : public GeneralProduct {
 public:
  std::size_t scratch_bytes() const override { return 0; }
  void run(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c,
           std::byte*) const override {
    const std::int64_t rows = shape.rows, columns = shape.columns, inner = shape.inner;
    const std::int64_t row_stride = shape.row_stride == 0 ? columns : shape.row_stride;
    auto* const result = static_cast<float*>(c);
    const dnnl_status_t status =
        dnnl_sgemm(shape.transposed_a ? 'T' : 'N', shape.transposed_b ? 'T' : 'N', rows, columns, inner, 1.0F,
                   static_cast<const float*>(a), shape.transposed_a ? rows : inner, static_cast<const float*>(b),
                   shape.transposed_b ? inner : columns, shape.accumulate ? 1.0F : 0.0F, result, row_stride);
    if (status == dnnl_out_of_memory) throw std::bad_alloc();
    check(status == dnnl_success, "oneDNN multiplies matrices of any shape");
    if (!shape.bias) return;
    parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float* const to = result + row * row_stride;
        for (std::int64_t j = 0; j < columns; ++j) to[j] += bias[j];
      }
    });
  }
};

}  // namespace

struct MatmulCache::Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<MatmulShape, std::shared_ptr<const DnnlMatmul>> matmuls{};
  std::map<std::tuple<std::int64_t, std::int64_t, bool, DType>, std::shared_ptr<const WeightPacking>> packings{};

  GeneralProducts general = GeneralProducts::kWhereFaster;
  std::optional<bool> general_f32{};                      // MatmulCache::has_general_f32, once asked
  std::set<DType> has_code{};                             // types whose general product has been run
  std::size_t products_with_code = 0, bytes_of_code = 0;  // of make_code, as long as the cache lives

  // oneDNN generates the code of its general product, several MiB, when one first runs. Running it now lets the run's
  // plan count that memory.
  void make_general_code(DType operands) {
    if (!has_code.insert(operands).second) return;
    const MatmulShape small{.rows = 16, .columns = 16, .inner = 16, .operands = operands, .result = operands};
    const DnnlMatmul product(engine, stream, small, matrix(small.inner, small.columns, false, operands));
    std::vector<float> operand(256), result(256);
    std::vector<std::byte> scratch(product.scratch_bytes());
    product.run(operand.data(), operand.data(), nullptr, result.data(), scratch.data());
  }

  // Returns the layout of b that oneDNN would choose.
  Description packed_layout(std::int64_t inner, std::int64_t columns, DType dtype) const {
    const MatmulShape typical{
        .rows = kTypicalRows, .columns = columns, .inner = inner, .operands = dtype, .result = dtype};
    return describe(engine, typical, any_layout(inner, columns, dtype)).weights_desc();
  }
};

namespace {

bool has_isa(dnnl::cpu_isa isa) {
  const auto needed = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

}  // namespace

bool multiplies_bf16() { return has_isa(dnnl::cpu_isa::avx512_core_bf16); }
bool multiplies_int8() { return has_isa(dnnl::cpu_isa::avx512_core_vnni); }

MatmulCache::MatmulCache(GeneralProducts general)
    : library_(made_by_library([] { return std::make_unique<Library>(); })) {
  // This cache replaces oneDNN's own, which would keep the code of a thousand products until the process ends.
  dnnl::set_primitive_cache_capacity(0);
  library_->general = general;
  if (general == GeneralProducts::kNever) library_->general_f32 = false;
}
MatmulCache::~MatmulCache() = default;

std::shared_ptr<const Matmul> MatmulCache::matmul(const MatmulShape& shape) {
  const auto known = library_->matmuls.find(shape);
  if (known != library_->matmuls.end()) return known->second;
  check(shape.row_stride == 0, "prepared products store dense rows");
  auto made = made_by_library([&] {
    const Description b = shape.packed_b ? library_->packed_layout(shape.inner, shape.columns, shape.operands)
                                         : matrix(shape.inner, shape.columns, shape.transposed_b, shape.operands);
    auto product = std::make_shared<const DnnlMatmul>(library_->engine, library_->stream, shape, b);
    if (product->is_general()) library_->make_general_code(shape.operands);
    return product;
  });
  return library_->matmuls.emplace(shape, std::move(made)).first->second;
}

bool MatmulCache::has_general_f32() {
  if (!library_->general_f32) {
    library_->general_f32 = made_by_library([&] {
      const MatmulShape typical{.rows = kTypicalRows, .columns = 256, .inner = 256};
      const DnnlMatmul product(library_->engine, library_->stream, typical, matrix(256, 256, false));
      if (product.is_general()) library_->make_general_code(DType::kF32);
      return product.is_general();
    });
  }
  return *library_->general_f32;
}

std::unique_ptr<GeneralProduct> MatmulCache::general(const MatmulShape& largest, std::int64_t n, std::int64_t k) {
  if (largest.operands == DType::kF32 && largest.result == DType::kF32 && has_general_f32()) {
    return std::make_unique<DnnlGeneralProduct>();
  }
  if (largest.operands != DType::kBF16 || library_->general == GeneralProducts::kNever) return nullptr;
  const bool always = library_->general == GeneralProducts::kBlocked;
  const MicroKernel* kernel = tile_micro_kernel();
  if (kernel == nullptr && always) kernel = vector_micro_kernel();
  // A weight is copied before it is multiplied by n rows, which takes longer than multiplying few; and copies of a
  // vocabulary's width, if they cannot be summed in parts, would take more memory than the product is worth.
  constexpr std::int64_t kFewestRows = 256, kNarrowest = 64, kWidest = 16384;
  const bool is_wide = largest.result != DType::kF32 && largest.inner > kWidest;
  if (kernel == nullptr || is_wide || !(always || (n >= kFewestRows && k >= kNarrowest))) return nullptr;
  return std::make_unique<BlockedProduct>(*kernel, largest, omp_get_max_threads());
}

void MatmulCache::make_code() {
  const std::size_t before = anonymous_bytes();
  std::size_t made = 0;
  for (const auto& [shape, product] : library_->matmuls) {
    if (product.use_count() == 1 || product->has_code()) continue;
    product->make_code();
    ++made;
  }
  const std::size_t now = anonymous_bytes();
  if (made == 0 || now <= before) return;
  library_->products_with_code += made;
  library_->bytes_of_code += now - before;
}

std::size_t MatmulCache::code_bytes() const {
  const auto is_used = [](const auto& entry) { return entry.second.use_count() > 1; };
  const auto used = static_cast<std::size_t>(std::ranges::count_if(library_->matmuls, is_used));
  return used * library_->bytes_of_code / std::max<std::size_t>(library_->products_with_code, 1);
}

void MatmulCache::release_unused() {
  const auto is_unused = [](const auto& entry) { return entry.second.use_count() == 1; };
  std::erase_if(library_->matmuls, is_unused);
  std::erase_if(library_->packings, is_unused);
}

std::shared_ptr<const WeightPacking> MatmulCache::packing(std::int64_t inner, std::int64_t columns, bool transposed_b,
                                                          DType dtype) {
  const std::tuple key{inner, columns, transposed_b, dtype};
  const auto known = library_->packings.find(key);
  if (known != library_->packings.end()) return known->second;
  auto made = made_by_library([&]() -> std::shared_ptr<const WeightPacking> {
    const Description from = matrix(inner, columns, transposed_b, dtype);
    const Description to = library_->packed_layout(inner, columns, dtype);
    // Given a plain layout, transposed or not, oneDNN repacks the matrix itself, as fast as a copy made here would be.
    const bool plain = to == from || to == matrix(inner, columns, !transposed_b, dtype);
    if (transposed_b && dtype == DType::kF32 && TransposedPacking::makes(to, inner, columns)) {
      return std::make_shared<const TransposedPacking>(inner, columns);
    }
    if (plain) return nullptr;
    return std::make_shared<const DnnlPacking>(library_->engine, library_->stream, from, to);
  });
  return library_->packings.emplace(key, std::move(made)).first->second;
}

}  // namespace plimsoll
