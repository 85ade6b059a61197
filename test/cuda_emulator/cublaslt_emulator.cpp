#include "cublaslt_emulator.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "cuda_emulator.h"
#include "tensor/half.h"

namespace plimsoll::cuda {

struct LtHandleOpaque {};
struct LtOperationOpaque {
  int transposed[2] = {}, epilogue = kLtNoEpilogue;
  const void* bias = nullptr;
  std::int64_t bias_stride = 0;
};
struct LtLayoutOpaque {
  int type;
  std::int64_t rows, columns, pitch;
  int count = 1;
  std::int64_t stride = 0;
};
struct LtPreferenceOpaque {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256};
};

}  // namespace plimsoll::cuda

namespace cuda_emulator {
namespace {

using namespace plimsoll::cuda;

constexpr std::uint64_t kMagic = 0x91a4;  // the value of an algorithm's third word
constexpr int kAlgorithms = 3;

bool refuses = false;
std::int64_t least_rows = 0;
std::size_t least_workspace = 0;
bool refuses_batches = false, batches_differ = false;
float batch_time = 1;
float times[kAlgorithms] = {1, 1, 1};
std::size_t the_version = 130100;
LtCalls calls;

float read(const void* from, int type, std::int64_t index) {
  if (type == kLtF32) return static_cast<const float*>(from)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(from)[index];
  return type == kLtBF16 ? plimsoll::bfloat16_to_float(bits) : plimsoll::half_to_float(bits);
}

void write(void* to, int type, std::int64_t index, float value) {
  if (type == kLtF32) {
    static_cast<float*>(to)[index] = value;
    return;
  }
  static_cast<std::uint16_t*>(to)[index] =
      type == kLtBF16 ? plimsoll::float_to_bfloat16(value) : plimsoll::float_to_half(value);
}

struct Sizes {
  std::int64_t rows, columns, inner;
};

// Sets the product's sizes, column-major, and returns kLtSuccess if they agree.
int sizes_of(LtOperation operation, LtLayout a, LtLayout b, LtLayout c, LtLayout d, Sizes& sizes) {
  const bool transposes_a = operation->transposed[0] != 0, transposes_b = operation->transposed[1] != 0;
  sizes = {d->rows, d->columns, transposes_a ? a->rows : a->columns};
  for (const LtLayout layout : {a, b, c, d}) {
    if (layout->pitch < layout->rows || layout->rows <= 0 || layout->columns <= 0) return kLtInvalidValue;
  }
  if ((transposes_a ? a->columns : a->rows) != sizes.rows) return kLtInvalidValue;
  if ((transposes_b ? b->columns : b->rows) != sizes.inner) return kLtInvalidValue;
  if ((transposes_b ? b->rows : b->columns) != sizes.columns) return kLtInvalidValue;
  if (c->rows != d->rows || c->columns != d->columns || c->type != d->type || c->pitch != d->pitch) {
    return kLtInvalidValue;
  }
  if (a->type != b->type || (d->type != a->type && d->type != kLtF32)) return kLtNotSupported;
  if (operation->epilogue == kLtBiasEpilogue && operation->bias == nullptr) return kLtInvalidValue;
  for (const LtLayout layout : {a, b, c}) {
    if (layout->type != kLtF32 && layout->pitch % 2 != 0) return kLtNotSupported;
  }
  for (const LtLayout layout : {a, b, c}) {
    if (layout->count != d->count || layout->stride < 0) return kLtInvalidValue;
  }
  if (d->count > 1 && (refuses_batches || d->stride < d->pitch * d->columns)) return kLtNotSupported;
  return refuses ? kLtNotSupported : kLtSuccess;
}

std::size_t workspace_of(const LtAlgorithm& algorithm, const Sizes& sizes, int count) {
  if (algorithm[0] != 1) return 0;
  const auto results = static_cast<std::size_t>(count * sizes.rows * sizes.columns);
  return std::max(least_workspace, 2 * sizeof(float) * results);
}

int set_operation(LtOperation operation, int attribute, const void* value, std::size_t bytes) {
  if (attribute == kLtBiasPointer) {
    if (bytes != sizeof(void*)) return kLtInvalidValue;
    std::memcpy(&operation->bias, value, bytes);
    return kLtSuccess;
  }
  if (attribute == kLtBiasStride) {
    if (bytes != sizeof operation->bias_stride) return kLtInvalidValue;
    std::memcpy(&operation->bias_stride, value, bytes);
    return kLtSuccess;
  }
  if (bytes != sizeof(int)) return kLtInvalidValue;
  int number = 0;
  std::memcpy(&number, value, bytes);
  if (attribute == kLtOperationA) {
    operation->transposed[0] = number;
  } else if (attribute == kLtOperationB) {
    operation->transposed[1] = number;
  } else if (attribute == kLtEpilogue && (number == kLtNoEpilogue || number == kLtBiasEpilogue)) {
    operation->epilogue = number;
  } else {
    return kLtInvalidValue;
  }
  return kLtSuccess;
}

int set_layout(LtLayout layout, int attribute, const void* value, std::size_t bytes) {
  if (attribute == kLtBatchCount && bytes == sizeof layout->count) {
    std::memcpy(&layout->count, value, bytes);
  } else if (attribute == kLtBatchStride && bytes == sizeof layout->stride) {
    std::memcpy(&layout->stride, value, bytes);
  } else {
    return kLtInvalidValue;
  }
  return kLtSuccess;
}

int set_preference(LtPreference preference, int attribute, const void* value, std::size_t bytes) {
  if (attribute == kLtWorkspaceBytes) {
    if (bytes != sizeof preference->workspace) return kLtInvalidValue;
    std::memcpy(&preference->workspace, value, bytes);
    return kLtSuccess;
  }
  if (bytes != sizeof(std::uint32_t)) return kLtInvalidValue;
  if (attribute == kLtReductionMask) {
    std::memcpy(&preference->reductions, value, bytes);
  } else if (attribute >= kLtAlignmentA && attribute <= kLtAlignmentD) {
    std::memcpy(&preference->alignment[attribute - kLtAlignmentA], value, bytes);
  } else {
    return kLtInvalidValue;
  }
  return kLtSuccess;
}

int heuristic(LtHandle, LtOperation operation, LtLayout a, LtLayout b, LtLayout c, LtLayout d, LtPreference preference,
              int asked, LtCandidate* candidates, int* returned) {
  ++calls.heuristics;
  *returned = 0;
  Sizes sizes{};
  if (const int status = sizes_of(operation, a, b, c, d, sizes); status != kLtSuccess) return status;
  std::uint64_t alignment = 0;
  for (const std::uint32_t each : preference->alignment) alignment = alignment << 16 | each;
  for (std::uint64_t number = 0; number < kAlgorithms && *returned < asked; ++number) {
    const LtAlgorithm algorithm = {number, alignment, kMagic};
    const std::size_t workspace = workspace_of(algorithm, sizes, d->count);
    if (workspace > preference->workspace) continue;
    if (number == 1 && preference->reductions != kLtReduceInComputeType) continue;
    candidates[(*returned)++] = {.algorithm = algorithm, .workspace_bytes = workspace};
  }
  return kLtSuccess;
}

int check_algorithm(LtHandle, LtOperation operation, LtLayout a, LtLayout b, LtLayout c, LtLayout d,
                    const LtAlgorithm* algorithm, LtCandidate* result) {
  Sizes sizes{};
  if (const int status = sizes_of(operation, a, b, c, d, sizes); status != kLtSuccess) return status;
  if ((*algorithm)[0] >= kAlgorithms || (*algorithm)[2] != kMagic) return kLtInvalidValue;
  if ((*algorithm)[0] == 1 && sizes.columns < least_rows) return kLtNotSupported;  // rows in the row-major view
  *result = {.workspace_bytes = workspace_of(*algorithm, sizes, d->count)};
  return kLtSuccess;
}

// Computes the product in the summation order of algorithm `way`.
void multiply(const Sizes& sizes, const LtOperationOpaque& operation, int way, float alpha, float beta,
              std::array<const void*, 3> from, void* d, const std::array<LtLayoutOpaque, 4>& layouts, void* workspace,
              std::size_t workspace_bytes) {
  // The workspace may hold anything; partial sums are written there.
  std::memset(workspace, 0xFF, workspace_bytes);
  const std::int64_t parts = way == 1 ? 2 : 1;
  const bool halves = layouts[0].type != kLtF32;  // tensor cores multiply them
  const auto a_at = [&](std::int64_t row, std::int64_t k) {
    return read(from[0], layouts[0].type,
                operation.transposed[0] != 0 ? k + row * layouts[0].pitch : row + k * layouts[0].pitch);
  };
  const auto b_at = [&](std::int64_t k, std::int64_t column) {
    return read(from[1], layouts[1].type,
                operation.transposed[1] != 0 ? column + k * layouts[1].pitch : k + column * layouts[1].pitch);
  };
  std::vector<float> a_row(static_cast<std::size_t>(sizes.inner));
  // Eight columns at a time, each of which is a sum of its own; zeros behind the last.
  constexpr std::int64_t kColumns = 8;
  const std::int64_t pitch = (sizes.columns + kColumns - 1) / kColumns * kColumns;
  std::vector<float> b_all(static_cast<std::size_t>(sizes.inner * pitch));
  for (std::int64_t column = 0; column < sizes.columns; ++column) {
    for (std::int64_t k = 0; k < sizes.inner; ++k)
      b_all[static_cast<std::size_t>(k * pitch + column)] = b_at(k, column);
  }
  float* const partial = static_cast<float*>(workspace);
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    for (std::int64_t k = 0; k < sizes.inner; ++k) a_row[static_cast<std::size_t>(k)] = a_at(row, k);
    for (std::int64_t first = 0; first < sizes.columns; first += kColumns) {
      const std::int64_t count = std::min(kColumns, sizes.columns - first);
      double totals[kColumns] = {};
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t begin = sizes.inner * part / parts, end = sizes.inner * (part + 1) / parts;
        double sums[kColumns] = {};
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t k = way == 2 ? end - 1 - (i - begin) : i;
          const double a = a_row[static_cast<std::size_t>(k)];
          const float* const b = b_all.data() + k * pitch + first;
          for (std::int64_t c = 0; c < kColumns; ++c) sums[c] += a * double{b[c]};
          if (halves) {
            if (i % 16 != 15 && i + 1 != end) continue;
            for (double& sum : sums) sum = double{truncated(sum)};
          } else if (way == 2) {
            for (double& sum : sums) sum = static_cast<float>(sum);
          }
        }
        for (std::int64_t c = 0; c < count; ++c) {
          if (parts == 2) {
            float& kept = partial[2 * ((first + c) * sizes.rows + row) + part];
            sums[c] = kept = static_cast<float>(sums[c]);
          }
          totals[c] += sums[c];
        }
      }
      for (std::int64_t c = 0; c < count; ++c) {
        const std::int64_t column = first + c;
        double value = double{alpha} * totals[c];
        if (beta != 0) {
          value += double{beta} * double{read(from[2], layouts[2].type, row + column * layouts[2].pitch)};
        }
        if (operation.epilogue == kLtBiasEpilogue) value += double{read(operation.bias, layouts[3].type, row)};
        write(d, layouts[3].type, row + column * layouts[3].pitch, static_cast<float>(value));
      }
    }
  }
}

int matmul(LtHandle, LtOperation operation, const void* alpha, const void* a, LtLayout a_layout, const void* b,
           LtLayout b_layout, const void* beta, const void* c, LtLayout c_layout, void* d, LtLayout d_layout,
           const LtAlgorithm* algorithm, void* workspace, std::size_t workspace_bytes, CUstream_st* stream) {
  Sizes sizes{};
  if (const int status = sizes_of(operation, a_layout, b_layout, c_layout, d_layout, sizes); status != kLtSuccess) {
    return status;
  }
  LtCandidate needs;
  const int status = check_algorithm(nullptr, operation, a_layout, b_layout, c_layout, d_layout, algorithm, &needs);
  if (status != kLtSuccess) return status;
  const auto aligned = [](const void* pointer, std::size_t to) {
    return reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
  };
  const std::uint64_t alignment = (*algorithm)[1];
  if (!aligned(a, alignment >> 48 & 0xFFFF) || !aligned(b, alignment >> 32 & 0xFFFF) ||
      !aligned(c, alignment >> 16 & 0xFFFF) || !aligned(d, alignment & 0xFFFF) || !aligned(workspace, 256)) {
    return kLtInvalidValue;
  }
  if (operation->epilogue == kLtBiasEpilogue && !aligned(operation->bias, 16)) return kLtInvalidValue;
  if (needs.workspace_bytes > workspace_bytes) return kLtInvalidValue;
  if (c != d && *static_cast<const float*>(beta) == 0) return kLtInvalidValue;  // surely a mistake

  ++calls.products;
  ++starts();
  calls.last_algorithm = static_cast<int>((*algorithm)[0]);
  calls.batches += d_layout->count > 1 ? 1 : 0;
  pass_time(times[calls.last_algorithm] * (d_layout->count > 1 ? batch_time : 1));
  const int way = d_layout->count > 1 && batches_differ ? 2 : calls.last_algorithm;
  enqueue(stream, [sizes, operation = *operation, way, alpha = *static_cast<const float*>(alpha),
                   beta = *static_cast<const float*>(beta), a, b, c, d, a_layout = *a_layout, b_layout = *b_layout,
                   c_layout = *c_layout, d_layout = *d_layout, workspace, workspace_bytes] {
    for (int i = 0; i < d_layout.count; ++i) {
      const auto at = [i](auto* first, std::int64_t stride, int type) {
        using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(first)>>, const char, char>;
        return static_cast<decltype(first)>(static_cast<Byte*>(first) + i * stride * (type == kLtF32 ? 4 : 2));
      };
      LtOperationOpaque each = operation;
      each.bias = at(operation.bias, operation.bias_stride, d_layout.type);
      multiply(sizes, each, way, alpha, beta,
               {at(a, a_layout.stride, a_layout.type), at(b, b_layout.stride, b_layout.type),
                at(c, c_layout.stride, c_layout.type)},
               at(d, d_layout.stride, d_layout.type), {a_layout, b_layout, c_layout, d_layout}, workspace,
               workspace_bytes);
    }
  });
  return kLtSuccess;
}

}  // namespace

LtCalls& lt_calls() { return calls; }
void refuse_products(bool refuse) { refuses = refuse; }
void set_product_times(float first, float second, float third) {
  times[0] = first;
  times[1] = second;
  times[2] = third;
}
void refuse_rows_below(std::int64_t rows) { least_rows = rows; }
void need_workspace(std::size_t bytes) { least_workspace = bytes; }
void refuse_batches(bool refuse) { refuses_batches = refuse; }
void sum_otherwise_in_batches(bool differ) { batches_differ = differ; }
void set_batch_time(float factor) { batch_time = factor; }
void set_lt_version(std::size_t version) { the_version = version; }

CublasLt cublaslt() {
  CublasLt lt;
  lt.version = [] { return the_version; };
  lt.status_name = [](int status) { return status == kLtNotSupported ? "not supported" : "an emulated status"; };
  lt.create = [](LtHandle* handle) {
    *handle = new LtHandleOpaque;
    return kLtSuccess;
  };
  lt.destroy = [](LtHandle handle) {
    delete handle;
    return kLtSuccess;
  };
  lt.create_operation = [](LtOperation* operation, int compute_type, int scale_type) {
    if (compute_type != kLtComputeF32 || scale_type != kLtF32) return kLtNotSupported;
    ++calls.descriptions;
    *operation = new LtOperationOpaque;
    return kLtSuccess;
  };
  lt.destroy_operation = [](LtOperation operation) {
    --calls.descriptions;
    delete operation;
    return kLtSuccess;
  };
  lt.set_operation = set_operation;
  lt.create_layout = [](LtLayout* layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t pitch) {
    ++calls.descriptions;
    *layout = new LtLayoutOpaque{.type = type,
                                 .rows = static_cast<std::int64_t>(rows),
                                 .columns = static_cast<std::int64_t>(columns),
                                 .pitch = pitch};
    return kLtSuccess;
  };
  lt.destroy_layout = [](LtLayout layout) {
    --calls.descriptions;
    delete layout;
    return kLtSuccess;
  };
  lt.set_layout = set_layout;
  lt.create_preference = [](LtPreference* preference) {
    *preference = new LtPreferenceOpaque;
    return kLtSuccess;
  };
  lt.destroy_preference = [](LtPreference preference) {
    delete preference;
    return kLtSuccess;
  };
  lt.set_preference = set_preference;
  lt.heuristic = heuristic;
  lt.check = check_algorithm;
  lt.matmul = matmul;
  return lt;
}

}  // namespace cuda_emulator
