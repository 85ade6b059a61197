// add, multiply, scale, accumulate, dropout, gelu, silu_multiply, tanh and their gradients, cast. Each thread takes
// neighbours of one pack at a time, 16 bytes where a type has them, and reads them before it writes: an output may lie
// in either input's bytes.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cuda/column_sums.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/row_dropout.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sizes.h"
#include "backend/scratch.h"

namespace plimsoll::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Neighbours that a thread takes at a time: 16 bytes of the wider type.
template <typename... Types>
constexpr int kPackOf = static_cast<int>(16 / std::max({sizeof(Types)...}));

// Writes zeros after the real elements (sizes/tails.h), spread over the grid.
template <typename T>
__device__ void clear_elements(T* y, const Rows& rows) {
  const std::int64_t end = rows.capacity * rows.columns, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t at = rows.elements() + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; at < end; at += stride) y[at] = from_float<T>(0);
}

// Calls function(index of the first, count) for packs of N real elements, spread over the grid, and for the remainder.
template <int N, typename Function>
__device__ void for_each_pack(const Rows& rows, const Function& function) {
  const std::int64_t count = rows.elements(), stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * N;
  std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  for (; at + N <= count; at += stride) function(at, N);
  if (at < count) function(at, static_cast<int>(count - at));
}

// y = function(x).
template <typename From, typename To, typename Function>
__global__ void map(const From* x, To* y, Rows rows, Function function) {
  constexpr int kPack = kPackOf<From, To>;
  for_each_pack<kPack>(rows, [&](std::int64_t at, int count) {
    float value[kPack] = {};
    load(x + at, count, value);
    for (float& each : value) each = function(each);
    store(value, count, y + at);
  });
  clear_elements(y, rows);
}

// y = function(x0, x1).
template <typename T, typename Function>
__global__ void map2(const T* x0, const T* x1, T* y, Rows rows, Function function) {
  constexpr int kPack = kPackOf<T>;
  for_each_pack<kPack>(rows, [&](std::int64_t at, int count) {
    float a[kPack] = {}, b[kPack] = {};
    load(x0 + at, count, a);
    load(x1 + at, count, b);
    for (int i = 0; i < kPack; ++i) a[i] = function(a[i], b[i]);
    store(a, count, y + at);
  });
  clear_elements(y, rows);
}

struct Scale {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};
// The standard normal distribution up to x, and exp(-x^2 / 2), from which its density follows.
struct Normal {
  float cdf, bell;
};
template <typename T>
__device__ Normal normal(float x) {
  return {0.5F * erfcf(-0.70710678118654752F * x), expf(-0.5F * x * x)};
}
// For halves, a form with a third of the instructions: erfcf would take longer than memory does. It is that of
// Abramowitz and Stegun 7.1.26, erfc(z) = exp(-z^2) times a polynomial of t = 1 / (1 + p z); p and the coefficients,
// here halved, the highest first, minimize the relative error by least squares, reweighted until it was even: for z
// from 0 to 10 at most 3.6e-5 with five of them and 4.4e-6 with six, where BF16 rounds by 2e-3 and F16 by 2.4e-4.
template <int N>
__device__ inline Normal normal_by(float x, float p, const float (&coefficients)[N]) {
  const float t = reciprocal_fast(fmaf(p * 0.70710678118654752F, fabsf(x), 1.0F));
  float sum = coefficients[0];
#pragma unroll
  for (int i = 1; i < N; ++i) sum = fmaf(sum, t, coefficients[i]);
  const float bell = exp2_fast(-0.72134752044448170F * x * x);  // log2(e) / 2
  const float tail = t * sum * bell;
  return {x < 0 ? tail : 1.0F - tail, bell};
}
template <>
__device__ inline Normal normal<Bf16>(float x) {
  constexpr float kCoefficients[] = {-0.074435324F, 0.18342719F, 0.013015085F, 0.13442297F, 0.119944093F, 0.12362380F};
  return normal_by(x, 0.4375F, kCoefficients);
}
template <>
__device__ inline Normal normal<F16>(float x) {
  constexpr float kCoefficients[] = {-0.067547533F, 0.19396746F, -0.064796618F, 0.14152932F,
                                     0.083332841F,  0.10784448F, 0.10566973F};
  return normal_by(x, 0.375F, kCoefficients);
}

template <typename T>
struct Gelu {
  __device__ float operator()(float x) const { return x * normal<T>(x).cdf; }
};
// x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), is x / (1 + exp(-2 u)).
struct TanhGelu {
  static constexpr float kTwiceRoot = 1.59576912F, kCubic = 0.044715F;  // 2 sqrt(2 / pi)
  __device__ static float share(float x) { return 1.0F / (1.0F + expf(-kTwiceRoot * x * (1.0F + kCubic * x * x))); }
  __device__ float operator()(float x) const { return x * share(x); }
};
struct TanhGeluGrad {
  __device__ float operator()(float dy, float x) const {
    const float share = TanhGelu::share(x), slope = TanhGelu::kTwiceRoot * (1.0F + 3 * TanhGelu::kCubic * x * x);
    return dy * (share + x * share * (1.0F - share) * slope);
  }
};
__device__ inline float logistic(float x) { return 1.0F / (1.0F + expf(-x)); }
struct SiluMultiply {
  __device__ float operator()(float gate, float x) const { return gate * logistic(gate) * x; }
};

struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct Relu {
  __device__ float operator()(float x) const { return x < 0 ? 0.0F : x; }
};
struct Add {
  __device__ float operator()(float x, float y) const { return x + y; }
};
struct Multiply {
  __device__ float operator()(float x, float y) const { return x * y; }
};
template <typename T>
struct GeluGrad {
  __device__ float operator()(float dy, float x) const {
    constexpr float kDensityAtZero = 0.39894228040143268F;  // 1 / sqrt(2 pi)
    const Normal of = normal<T>(x);
    return dy * (of.cdf + x * (kDensityAtZero * of.bell));
  }
};
// Computes dx as GeluGrad does, and partial[block][width], its sums over the block's rows. dx may lie in dy's or x's
// bytes.
template <int N, typename T, typename Gradient = GeluGrad<T>>
__global__ void gelu_backward(const T* dy, const T* x, T* dx, float* partial, Rows rows) {
  const Gradient gradient{};
  sum_rows_of_block<1, N>(rows, kSumRows, partial + static_cast<std::int64_t>(blockIdx.x) * rows.columns,
                          [&](std::int64_t row, std::int64_t c, float(&sums)[1][N]) {
                            const std::int64_t at = row * rows.columns + c;
                            float a[N], b[N];
                            load(dy + at, N, a);
                            load(x + at, N, b);
                            for (int i = 0; i < N; ++i) {
                              a[i] = gradient(a[i], b[i]);
                              sums[0][i] += a[i];
                            }
                            store(a, N, dx + at);
                          });
  if (blockIdx.y == 0) clear_tail_of_block(dx, rows, kSumRows);
}

// A gradient may lie in the bytes of its own input, and the gate's in dy's.
template <typename T>
__global__ void silu_multiply_backward(const T* dy, const T* gate, const T* x, T* dgate, T* dx, Rows rows) {
  constexpr int kPack = kPackOf<T>;
  for_each_pack<kPack>(rows, [&](std::int64_t at, int count) {
    float d[kPack] = {}, g[kPack] = {}, v[kPack] = {};
    load(dy + at, count, d);
    load(gate + at, count, g);
    load(x + at, count, v);
    for (int i = 0; i < kPack; ++i) {
      const float share = logistic(g[i]), of_x = d[i] * g[i] * share;
      d[i] *= share * v[i] * (1.0F + g[i] * (1.0F - share));
      v[i] = of_x;
    }
    store(d, count, dgate + at);
    store(v, count, dx + at);
  });
  clear_elements(dgate, rows);
  clear_elements(dx, rows);
}

struct TanhGrad {
  __device__ float operator()(float dy, float y) const { return dy * (1.0F - y * y); }
};

struct ReluGrad {
  __device__ float operator()(float dy, float y) const { return y > 0 ? dy : 0.0F; }
};

template <typename T>
__global__ void accumulate(const T* sum, const T* x, const std::int32_t* keep, T* y, Rows rows) {
  constexpr int kPack = kPackOf<T>;
  const bool keeps = *keep != 0;
  for_each_pack<kPack>(rows, [&](std::int64_t at, int count) {
    float a[kPack] = {}, b[kPack] = {};
    if (keeps) load(sum + at, count, a);  // the old content may be anything, even NaN
    load(x + at, count, b);
    for (int i = 0; i < kPack; ++i) a[i] += b[i];
    store(a, count, y + at);
  });
}

// A thread takes the eight columns that one Philox call serves, N at a time. y may lie in x's bytes, if their types are
// the same.
template <int N, typename From, typename To>
__global__ void dropout(const From* x, To* y, RowDropout of, Rows rows) {
  const std::int64_t eights = (rows.columns + 7) / 8, work = rows.real() * eights;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; item < work;
       item += stride) {
    const std::int64_t row = item / eights, column = item % eights * 8;
    const PhiloxOutput words = of.words(row, column);
    const std::int64_t at = row * rows.columns + column;
#pragma unroll
    for (int i = 0; i < 8; i += N) {
      if (column + i >= rows.columns) break;
      float values[N];
      load(x + at + i, N, values);
      for (int n = 0; n < N; ++n) {
        values[n] = of.kept(values[n], dropout_bits(words, static_cast<std::uint32_t>(i + n)));
      }
      store(values, N, y + at + i);
    }
  }
  clear_elements(y, rows);
}

template <typename... Types>
unsigned blocks_of_packs(const Rows& rows) {
  return blocks_for(rows.capacity * rows.columns / kPackOf<Types...> + 1, kThreads);
}

template <typename T, typename Function>
std::unique_ptr<Kernel> make_map(const Context& context, Function function) {
  return make_launch(0, [&context, function](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.outputs[0]);
    launch(context.stream(), map<T, T, Function>, {.blocks = blocks_of_packs<T>(rows), .threads = kThreads},
           input<T>(a, 0), output<T>(a, 0), rows, function);
  });
}

template <typename T, typename Function>
std::unique_ptr<Kernel> make_map2(const Context& context, Function function) {
  return make_launch(0, [&context, function](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.outputs[0]);
    launch(context.stream(), map2<T, Function>, {.blocks = blocks_of_packs<T>(rows), .threads = kThreads},
           input<T>(a, 0), input<T>(a, 1), output<T>(a, 0), rows, function);
  });
}

template <typename T, typename Gradient>
std::unique_ptr<Kernel> make_gelu_grad(const Context& context, const Graph& graph, const Node& node) {
  if (!std::get<GeluAttributes>(node.attributes).column_sums) return make_map2<T>(context, Gradient{});
  return make_launch(
      kernel_scratch_bytes(graph, node), [&context, place = PartialPlace(graph, node)](const KernelArguments& a) {
        const Rows rows = rows_of(a, a.outputs[0]);
        float* const partial = place.of(a);
        for_pack<T>(rows.columns, [&](auto pack) {
          launch(context.stream(), gelu_backward<pack(), T, Gradient>,
                 {.blocks = place.blocks(a), .threads = kRowThreads, .blocks_y = column_blocks(rows.columns / pack())},
                 input<T>(a, 0), input<T>(a, 1), output<T>(a, 0), partial, rows);
        });
        if (!place.is_output()) start_whole_sums(context, rows, partial, output<float>(a, 1));
      });
}

// One launch casts several tensors: blockIdx.y is the tensor's number.
template <typename From, typename To>
struct CastList {
  struct Tensor {
    const From* from;
    To* to;
    std::int64_t elements;
  };
  Tensor at[kMostCasts];
};
template <typename From, typename To>
__global__ void cast_tensors(const PLIMSOLL_IN_PLACE CastList<From, To> list) {
  const auto& tensor = list.at[blockIdx.y];
  const Rows all{.count = nullptr, .capacity = tensor.elements, .columns = 1};
  constexpr int kPack = kPackOf<From, To>;
  for_each_pack<kPack>(all, [&](std::int64_t at, int count) {
    float value[kPack] = {};
    load(tensor.from + at, count, value);
    store(value, count, tensor.to + at);
  });
}

template <typename From, typename To>
void cast_all(const Context& context, const KernelArguments& a) {
  for (std::size_t first = 0; first < a.inputs.size(); first += kMostCasts) {
    const std::size_t count = std::min<std::size_t>(kMostCasts, a.inputs.size() - first);
    CastList<From, To> list{};
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      list.at[i] = {input<From>(a, first + i), output<To>(a, first + i), a.inputs[first + i].elements()};
      longest = std::max(longest, list.at[i].elements);
    }
    launch(context.stream(), cast_tensors<From, To>,
           {.blocks = blocks_for(longest / kPackOf<From, To> + 1, kThreads),
            .threads = kThreads,
            .blocks_y = static_cast<unsigned>(count)},
           list);
  }
}

template <typename From>
std::unique_ptr<Kernel> make_cast(const Context& context, DType to) {
  return for_floating(to, [&]<typename To>(To) {
    return make_launch(0, [&context](const KernelArguments& a) {
      if (a.inputs.size() > 1) return cast_all<From, To>(context, a);
      const Rows rows = rows_of(a, a.outputs[0]);
      launch(context.stream(), map<From, To, Same>, {.blocks = blocks_of_packs<From, To>(rows), .threads = kThreads},
             input<From>(a, 0), output<To>(a, 0), rows, Same{});
    });
  });
}

template <typename From>
std::unique_ptr<Kernel> make_dropout(const Context& context, const DropoutAttributes& attributes, DType to) {
  return for_floating(to, [&]<typename To>(To) {
    return make_launch(0, [&context, attributes](const KernelArguments& a) {
      const RowDropout of{.row_keys = input<std::int32_t>(a, 1),
                          .key = input<std::int32_t>(a, 2),
                          .site = attributes.site,
                          .threshold = dropout_threshold(attributes.p),
                          .scale = static_cast<float>(dropout_scale(attributes.p))};
      const Rows rows = rows_of(a, a.outputs[0]);
      using Wider = std::conditional_t<(sizeof(From) < sizeof(To)), To, From>;
      for_pack<Wider>(rows.columns, [&](auto pack) {
        launch(context.stream(), dropout<pack(), From, To>,
               {.blocks = blocks_for(rows.capacity * ((rows.columns + 7) / 8), kThreads), .threads = kThreads},
               input<From>(a, 0), output<To>(a, 0), of, rows);
      });
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const Context& context, const Graph& graph, const Node& node) {
  return for_floating(graph.type(node.inputs[0]).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    switch (node.op) {
      case Op::kAdd:
        return make_map2<T>(context, Add{});
      case Op::kMultiply:
        return make_map2<T>(context, Multiply{});
      case Op::kScale:
        return make_map<T>(context, Scale{static_cast<float>(std::get<ScaleAttributes>(node.attributes).factor)});
      case Op::kGelu:
        return gelu_by_tanh(node.attributes) ? make_map<T>(context, TanhGelu{}) : make_map<T>(context, Gelu<T>{});
      case Op::kGeluGrad:
        return gelu_by_tanh(node.attributes) ? make_gelu_grad<T, TanhGeluGrad>(context, graph, node)
                                             : make_gelu_grad<T, GeluGrad<T>>(context, graph, node);
      case Op::kSiluMultiply:
        return make_map2<T>(context, SiluMultiply{});
      case Op::kSiluMultiplyGrad:
        return make_launch(0, [&context](const KernelArguments& a) {
          const Rows rows = rows_of(a, a.outputs[0]);
          launch(context.stream(), silu_multiply_backward<T>, {.blocks = blocks_of_packs<T>(rows), .threads = kThreads},
                 input<T>(a, 0), input<T>(a, 1), input<T>(a, 2), output<T>(a, 0), output<T>(a, 1), rows);
        });
      case Op::kTanh:
        return make_map<T>(context, Tanh{});
      case Op::kTanhGrad:
        return make_map2<T>(context, TanhGrad{});
      case Op::kRelu:
        return make_map<T>(context, Relu{});
      case Op::kReluGrad:
        return make_map2<T>(context, ReluGrad{});
      case Op::kCast:
        return make_cast<T>(context, std::get<CastAttributes>(node.attributes).to);
      case Op::kAccumulate:
        return make_launch(0, [&context](const KernelArguments& a) {
          const Rows rows = rows_of(a, a.outputs[0]);
          launch(context.stream(), accumulate<T>, {.blocks = blocks_of_packs<T>(rows), .threads = kThreads},
                 input<T>(a, 0), input<T>(a, 1), input<std::int32_t>(a, 2), output<T>(a, 0), rows);
        });
      default:
        check(node.op == Op::kDropout, "make_elementwise knows the op");
        return make_dropout<T>(context, std::get<DropoutAttributes>(node.attributes),
                               graph.type(node.outputs[0]).dtype);
    }
  });
}

}  // namespace plimsoll::cuda
