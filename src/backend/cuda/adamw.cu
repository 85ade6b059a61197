// adamw, adamw_rows, with the reference's arithmetic: scalars are in double and rounded to float where they meet a
// tensor; every tensor operation is in float. A warp takes one block of kStateBlock elements at a time; its moments may
// be coded.
#include <array>
#include <bit>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/kernel_work.h"
#include "backend/cuda/update_parts.h"
#include "tensor/code_table.h"

namespace plimsoll::cuda {
namespace {

constexpr int kPack = 4, kPacks = static_cast<int>(kStateBlock) / (kPack * static_cast<int>(kWarp));  // per lane

struct Moment {
  float* whole;
  std::uint8_t* codes;
  float* absmax;
};

struct Factors {
  float clip, decay, one_minus_beta1, beta2, one_minus_beta2, sqrt_bias_correction2, eps, step_size;
};

// Computes the power by squaring; `exponent` is at least 0.
__device__ double power(double base, std::int32_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

struct Settings {
  double beta1, beta2, eps, weight_decay, rate_factor;

  __device__ Factors factors(const UpdateScalars& scalars) const {
    const double learning_rate = rate_factor * double{*scalars.learning_rate};
    return {.clip = *scalars.clip,
            .decay = static_cast<float>(1.0 - learning_rate * weight_decay),
            .one_minus_beta1 = static_cast<float>(1.0 - beta1),
            .beta2 = static_cast<float>(beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - beta2),
            .sqrt_bias_correction2 = static_cast<float>(sqrt(1.0 - power(beta2, *scalars.step))),
            .eps = static_cast<float>(eps),
            .step_size = static_cast<float>(-learning_rate / (1.0 - power(beta1, *scalars.step)))};
  }
};

__device__ void adamw_step(const Factors& s, float& parameter, float& m, float& v, float gradient) {
  const float g = gradient * s.clip;
  parameter *= s.decay;
  m += s.one_minus_beta1 * (g - m);
  v = v * s.beta2 + s.one_minus_beta2 * g * g;
  const float denominator = sqrtf(v) / s.sqrt_bias_correction2 + s.eps;
  parameter += s.step_size * m / denominator;
}

// The numbers of both moments' codes, and the tables that find a value's nearest code (tensor/code_table.h).
PLIMSOLL_TABLE CodeMap kSignedMap = kSignedCodes, kUnsignedMap = kUnsignedCodes;
PLIMSOLL_TABLE auto kSignedEntries = kSignedCodeTable.entries;
PLIMSOLL_TABLE auto kUnsignedEntries = kUnsignedCodeTable.entries;

// A block's copy of the tables.
struct CodeTables {
  float signed_map[std::size(kSignedCodes)], unsigned_map[std::size(kUnsignedCodes)];
  std::int32_t signed_entries[std::size(kSignedCodeTable.entries)];
  std::int32_t unsigned_entries[std::size(kUnsignedCodeTable.entries)];

  __device__ void fill() {
    copy(kSignedMap, signed_map);
    copy(kUnsignedMap, unsigned_map);
    copy(kSignedEntries, signed_entries);
    copy(kUnsignedEntries, unsigned_entries);
  }
  template <typename T, std::size_t kCount>
  __device__ static void copy(const std::array<T, kCount>& from, T (&to)[kCount]) {
    for (std::size_t i = threadIdx.x; i < kCount; i += kRowThreads) to[i] = from[i];
  }
};

// Replaces the tables if no moment is coded.
struct NoTables {
  static constexpr const float *signed_map = nullptr, *unsigned_map = nullptr;
  __device__ void fill() {}
};

template <int kRestBits>
__device__ std::int32_t nearest_rank(const std::int32_t* entries, float magnitude) {
  using Table = CodeTable<kRestBits>;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  bits = bits < Table::kLowest ? Table::kLowest : bits > Table::kOne ? Table::kOne : bits;
  const std::int32_t entry = entries[(bits >> kRestBits) - Table::kFirstCell];
  return (entry + static_cast<std::int32_t>(bits & Table::kRest)) >> kRestBits;
}
template <bool kHasSign>
__device__ std::uint8_t nearest(const CodeTables& tables, float x) {
  if constexpr (kHasSign) {  // 127 is 0; there is a 1 but no -1
    const std::int32_t rank = nearest_rank<17>(tables.signed_entries, fabsf(x));
    return static_cast<std::uint8_t>(x < 0 ? 127 - (rank < 127 ? rank : 127) : 127 + rank);
  } else {
    const std::int32_t rank = nearest_rank<16>(tables.unsigned_entries, x);
    return static_cast<std::uint8_t>(rank == 0 && x > 0 ? 1 : rank);  // as square_code has it
  }
}

// A lane's elements of a block of codes: kPacks packs, kPack * kWarp elements apart.
using Values = float[kPacks][kPack];
__device__ std::int64_t pack_at(std::int64_t block, int pack) {
  return block * kStateBlock + (pack * static_cast<int>(kWarp) + static_cast<int>(lane_index())) * kPack;
}
__device__ int pack_count(std::int64_t at, std::int64_t elements) {
  const std::int64_t left = elements - at;
  return left >= kPack ? kPack : left > 0 ? static_cast<int>(left) : 0;
}

template <bool kCoded>
__device__ void load_moment(const Moment& moment, const float* map, std::int64_t block, std::int64_t elements,
                            Values& to) {
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t at = pack_at(block, p);
    if constexpr (kCoded) {
      const auto codes = read_pack<kPack>(moment.codes + at, pack_count(at, elements));
      for (int i = 0; i < kPack; ++i) to[p][i] = map[codes.at[i]] * moment.absmax[block];
    } else {
      load(moment.whole + at, pack_count(at, elements), to[p]);
    }
  }
}

// The whole warp must call it. Elements after the last one count as zeros.
template <bool kCoded, bool kHasSign, typename Tables>
__device__ void store_moment(const Moment& moment, const Tables& tables, std::int64_t block, std::int64_t elements,
                             const Values& from) {
  float largest = 0;
  if constexpr (kCoded) {
    for (int p = 0; p < kPacks; ++p) {
      const int count = pack_count(pack_at(block, p), elements);
      for (int i = 0; i < kPack; ++i) largest = i < count ? fmaxf(largest, fabsf(from[p][i])) : largest;
    }
    largest = warp_max(largest);
    if (lane_index() == 0) moment.absmax[block] = largest;
  }
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t at = pack_at(block, p);
    if constexpr (kCoded) {
      Pack<std::uint8_t, kPack> codes;
      for (int i = 0; i < kPack; ++i)
        codes.at[i] = nearest<kHasSign>(tables, largest > 0 ? from[p][i] / largest : 0.0F);
      write_pack(codes, pack_count(at, elements), moment.codes + at);
    } else {
      store(from[p], pack_count(at, elements), moment.whole + at);
    }
  }
}

// Loads the gradients of the pack that begins with the table's element `at`. `found` says where the row of element
// `from`, which is not after `at`, was found; `from_row` is where it lies.
__device__ void load_gradient(const Gradient& gradient, std::int64_t at, int count, std::int64_t from_row,
                              std::int64_t found, float (&to)[kPack]) {
  std::int64_t row = from_row, column = at - row * gradient.width;
  const auto advance = [&] {
    while (column >= gradient.width) {
      column -= gradient.width;
      ++row;
    }
    while (found < gradient.rows() && gradient.ids[found] < row) ++found;
  };
  advance();
  for (float& each : to) each = 0;
  if (count == kPack && gradient.width % kPack == 0) {  // within a row
    if (gradient.has(found, row)) load(gradient.values + found * gradient.width + column, count, to);
    return;
  }
  for (int i = 0; i < kPack; ++i, ++column) {
    advance();
    if (i < count && gradient.has(found, row)) to[i] = gradient.values[found * gradient.width + column];
  }
}

// The update of one parameter.
struct Task {
  Parameter parameter;
  Moment moment{}, square{};
  Gradient gradient;
  UpdateScalars scalars;
  Settings settings;
  std::int64_t start,
      elements;     // elements [start, start + elements) of the whole; all pointers are to the first of them
  unsigned blocks;  // of the grid, from first_block on
  unsigned first_block = 0;
};

// One launch updates several parameters, because most of them are small. A kernel takes 4 KiB of arguments at most.
constexpr int kMostTasks = kMostJoinedUpdates;
struct Tasks {
  Task at[kMostTasks];
  int count;

  // Returns the task of a block.
  __device__ const Task& of(unsigned block) const {
    int task = 0;
    while (task + 1 < count && block >= at[task + 1].first_block) ++task;
    return at[task];
  }
};
static_assert(sizeof(Tasks) <= 4096);

template <bool kCoded, bool kByRows>
__global__ void __launch_bounds__(kRowThreads) adamw(const PLIMSOLL_IN_PLACE Tasks tasks) {
  PLIMSOLL_SHARED Factors factors;
  PLIMSOLL_SHARED std::conditional_t<kCoded, CodeTables, NoTables> tables;
  const Task& t = tasks.of(blockIdx.x);
  if (is_skipped(t.scalars.clip)) return;
  if (threadIdx.x == 0) factors = t.settings.factors(t.scalars);
  tables.fill();
  __syncthreads();
  const Factors s = factors;
  const std::int64_t start = t.start, elements = t.elements;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x - t.first_block) * kRowWarps + threadIdx.x / kWarp;
  for (std::int64_t block = first; block * kStateBlock < elements; block += std::int64_t{t.blocks} * kRowWarps) {
    Values p, m, v, g;
    for (int i = 0; i < kPacks; ++i) {
      t.parameter.load_from(pack_at(block, i), pack_count(pack_at(block, i), elements), p[i]);
    }
    load_moment<kCoded>(t.moment, tables.signed_map, block, elements, m);
    load_moment<kCoded>(t.square, tables.unsigned_map, block, elements, v);
    if constexpr (kByRows) {
      const std::int64_t row = (start + block * kStateBlock) / t.gradient.width, found = t.gradient.find(row);
      for (int i = 0; i < kPacks; ++i) {
        const std::int64_t at = pack_at(block, i);
        load_gradient(t.gradient, start + at, pack_count(at, elements), row, found, g[i]);
      }
    } else {
      for (int i = 0; i < kPacks; ++i) {
        const std::int64_t at = pack_at(block, i);
        load(t.gradient.values + at, pack_count(at, elements), g[i]);
      }
    }
    for (int i = 0; i < kPacks; ++i) {
      for (int k = 0; k < kPack; ++k) adamw_step(s, p[i][k], m[i][k], v[i][k], g[i][k]);
      t.parameter.store_to(pack_at(block, i), pack_count(pack_at(block, i), elements), p[i]);
    }
    store_moment<kCoded, true>(t.moment, tables, block, elements, m);
    store_moment<kCoded, false>(t.square, tables, block, elements, v);
  }
}

class AdamW final : public Kernel {
 public:
  AdamW(const Context& context, const Graph& graph, const Node& node)
      : context_(context), form_(update_form(graph, node)), attributes_(std::get<AdamWAttributes>(node.attributes)) {
    check(graph.type(node.inputs[form_.gradient_values()]).dtype == DType::kF32, "gradients of parameters are F32");
    const Shape& shape = graph.type(node.inputs[0]).shape;
    elements_ = attributes_.count > 0 ? attributes_.count : shape.elements();
    width_ = form_.by_rows ? shape[1] : 1;
  }

  void run(const KernelArguments& arguments) const override {
    const Task task = task_of(arguments);
    start(context_, form_, {&task, 1});
  }

  JoinedCalls join(std::span<const KernelCall> calls) const override {
    struct Batch {
      UpdateForm form;
      std::vector<Task> tasks{};
    };
    std::array<Batch, 4> batches{};
    for (const KernelCall& call : calls) {
      const auto* const kernel = dynamic_cast<const AdamW*>(call.kernel);
      if (kernel == nullptr) return {};
      Batch& batch = batches[(kernel->form_.coded ? 2 : 0) + (kernel->form_.by_rows ? 1 : 0)];
      batch.form = kernel->form_;
      batch.tasks.push_back(kernel->task_of(call.arguments));
    }
    return [&context = context_, batches = std::move(batches)](std::int64_t) {
      for (const Batch& batch : batches) {
        for (std::span<const Task> left = batch.tasks; !left.empty();) {
          const std::size_t count = std::min(left.size(), std::size_t{kMostTasks});
          start(context, batch.form, left.first(count));
          left = left.subspan(count);
        }
      }
    };
  }

 private:
  Task task_of(const KernelArguments& a) const {
    Task task{.parameter = parameter_of(form_, a),
              .gradient = gradient_of(form_, a, width_),
              .scalars = scalars_of(form_, a),
              .settings = {attributes_.beta1, attributes_.beta2, attributes_.eps, attributes_.weight_decay,
                           attributes_.rate_factor},
              .start = attributes_.first,
              .elements = elements_,
              .blocks = row_blocks(code_blocks(elements_))};
    task.parameter.advance(attributes_.first - attributes_.parameter_first);
    if (!form_.by_rows) task.gradient.values += attributes_.first - attributes_.gradient_first;
    const std::size_t first = form_.states();
    const std::int64_t skipped = attributes_.whole_moments ? attributes_.first : 0, blocks = skipped / kStateBlock;
    if (form_.coded) {
      task.moment = {nullptr, output<std::uint8_t>(a, first) + skipped, output<float>(a, first + 1) + blocks};
      task.square = {nullptr, output<std::uint8_t>(a, first + 2) + skipped, output<float>(a, first + 3) + blocks};
      // Blocks that fill the tables of codes first take more than one block of elements each.
      task.blocks = std::min(task.blocks, 1024U);
    } else {
      task.moment.whole = output<float>(a, first) + skipped;
      task.square.whole = output<float>(a, first + 1) + skipped;
    }
    return task;
  }

  // All updates have the same form: all coded or none, all by rows or none, as in `form`.
  static void start(const Context& context, const UpdateForm& form, std::span<const Task> tasks) {
    Tasks all{};
    unsigned blocks = 0;
    for (const Task& task : tasks) {
      all.at[all.count] = task;
      all.at[all.count++].first_block = blocks;
      blocks += task.blocks;
    }
    const auto kernel = form.coded ? (form.by_rows ? adamw<true, true> : adamw<true, false>)
                                   : (form.by_rows ? adamw<false, true> : adamw<false, false>);
    launch(context.stream(), kernel, {.blocks = blocks, .threads = kRowThreads}, all);
    check_cuda(cudaGetLastError(), "the start of updates");
  }

  const Context& context_;
  UpdateForm form_;
  AdamWAttributes attributes_;
  std::int64_t elements_ = 0, width_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> make_adamw(const Context& context, const Graph& graph, const Node& node) {
  return std::make_unique<AdamW>(context, graph, node);
}

}  // namespace plimsoll::cuda
