// add, multiply, scale, accumulate, gelu, silu_multiply, tanh, relu and their gradients, cast, concat_heads and
// split_heads, each in one pass over the real rows.
#include <cstdint>
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// y[i] = f(a[i], b[i]); y may alias a or b. Elements that fill no whole vector go through the same arithmetic on
// partial vectors.
template <class F, class T>
HWY_INLINE void map2_elements(const T* a, const T* b, T* y, std::size_t count, const F& f) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) store_floats(f(d, load_floats(d, a + i), load_floats(d, b + i)), d, y + i);
  if (i == count) return;
  HWY_ALIGN float rest_a[hn::MaxLanes(d)] = {}, rest_b[hn::MaxLanes(d)] = {};
  for (std::size_t j = i; j < count; ++j) rest_a[j - i] = load_float(a + j), rest_b[j - i] = load_float(b + j);
  hn::Store(f(d, hn::Load(d, rest_a), hn::Load(d, rest_b)), d, rest_a);
  for (std::size_t j = i; j < count; ++j) store_float(rest_a[j - i], y + j);
}
template <class F>
HWY_INLINE void map2(DType dtype, const void* a, const void* b, void* y, std::size_t count, const F& f) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    map2_elements(static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), count, f);
  });
}

constexpr float kSqrtHalf = 0.707106781F;
constexpr float kDensityAtZero = 0.398942280F;  // 1 / sqrt(2 pi)

struct AddOp {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};
struct MultiplyOp {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
};
struct ScaleOp {
  float factor;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    return hn::Mul(x, hn::Set(d, factor));
  }
};
// x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2
struct GeluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    V density;
    const V phi =
        hn::MulAdd(simd_erf(d, hn::Mul(x, hn::Set(d, kSqrtHalf)), density), hn::Set(d, 0.5F), hn::Set(d, 0.5F));
    return hn::Mul(x, phi);
  }
};
// dy (Phi(x) + x phi(x))
struct GeluGradOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x) const {
    V density;
    const V phi =
        hn::MulAdd(simd_erf(d, hn::Mul(x, hn::Set(d, kSqrtHalf)), density), hn::Set(d, 0.5F), hn::Set(d, 0.5F));
    return hn::Mul(dy, hn::MulAdd(hn::Mul(x, hn::Set(d, kDensityAtZero)), density, phi));
  }
};
// x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), is x / (1 + exp(-2 u)).
constexpr float kTwiceRoot = 1.59576912F, kCubic = 0.044715F;  // 2 sqrt(2 / pi)
template <class D, class V>
HWY_INLINE V tanh_gelu_share(D d, V x) {
  const V u2 =
      hn::Mul(hn::Mul(hn::Set(d, kTwiceRoot), x), hn::MulAdd(hn::Mul(x, x), hn::Set(d, kCubic), hn::Set(d, 1.0F)));
  return hn::Div(hn::Set(d, 1.0F), hn::Add(hn::Set(d, 1.0F), simd_exp(d, hn::Neg(u2))));
}
struct TanhGeluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    return hn::Mul(x, tanh_gelu_share(d, x));
  }
};
// With s the share: dy (s + x s (1 - s) du2 / dx)
struct TanhGeluGradOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x) const {
    const V one = hn::Set(d, 1.0F), share = tanh_gelu_share(d, x);
    const V slope = hn::Mul(hn::Set(d, kTwiceRoot), hn::MulAdd(hn::Mul(x, x), hn::Set(d, 3 * kCubic), one));
    return hn::Mul(dy, hn::MulAdd(hn::Mul(hn::Mul(x, share), hn::Sub(one, share)), slope, share));
  }
};
// 1 / (1 + exp(-x))
template <class D, class V>
HWY_INLINE V logistic(D d, V x) {
  return hn::Div(hn::Set(d, 1.0F), hn::Add(hn::Set(d, 1.0F), simd_exp(d, hn::Neg(x))));
}
struct SiluMultiplyOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V gate, V x) const {
    return hn::Mul(hn::Mul(gate, logistic(d, gate)), x);
  }
};

struct TanhOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    return simd_tanh(d, x);
  }
};
// dy (1 - y^2)
struct TanhGradOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y) const {
    return hn::Mul(dy, hn::NegMulAdd(y, y, hn::Set(d, 1.0F)));
  }
};

// It compares, because a vector's max may return either operand if one is NaN, and NaN must stay NaN.
struct ReluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  }
};
struct ReluGradOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y) const {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dy);
  }
};

// The gate's gradient is dy x s (1 + gate (1 - s)), that of x dy gate s, with s the gate's logistic.
template <class D, class T>
HWY_INLINE void silu_multiply_grad_step(D d, const T* dy, const T* gate, const T* x, T* dgate, T* dx) {
  const auto one = hn::Set(d, 1.0F);
  const auto g = load_floats(d, gate), s = logistic(d, g), v = hn::Mul(load_floats(d, dy), s);
  const auto slope = hn::MulAdd(g, hn::Sub(one, s), one);
  const auto of_gate = hn::Mul(hn::Mul(v, load_floats(d, x)), slope);
  store_floats(of_gate, d, dgate);
  store_floats(hn::Mul(v, g), d, dx);
}
void silu_multiply_grad_range(DType dtype, const void* dy, const void* gate, const void* x, void* dgate, void* dx,
                              std::size_t count) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const auto step = [&](auto tag, std::size_t i) {
      silu_multiply_grad_step(tag, static_cast<const T*>(dy) + i, static_cast<const T*>(gate) + i,
                              static_cast<const T*>(x) + i, static_cast<T*>(dgate) + i, static_cast<T*>(dx) + i);
    };
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) step(d, i);
    for (; i < count; ++i) step(one, i);
  });
}

void add_range(DType t, const void* a, const void* b, void* y, std::size_t count) { map2(t, a, b, y, count, AddOp()); }
void multiply_range(DType t, const void* a, const void* b, void* y, std::size_t count) {
  map2(t, a, b, y, count, MultiplyOp());
}
void scale_range(DType t, const void* x, void* y, std::size_t count, float factor) {
  map2(t, x, x, y, count, ScaleOp{factor});
}
void gelu_range(DType t, const void* x, void* y, std::size_t count) { map2(t, x, x, y, count, GeluOp()); }
void gelu_grad_range(DType t, const void* dy, const void* x, void* dx, std::size_t count) {
  map2(t, dy, x, dx, count, GeluGradOp());
}
void tanh_gelu_range(DType t, const void* x, void* y, std::size_t count) { map2(t, x, x, y, count, TanhGeluOp()); }
void tanh_gelu_grad_range(DType t, const void* dy, const void* x, void* dx, std::size_t count) {
  map2(t, dy, x, dx, count, TanhGeluGradOp());
}
void silu_multiply_range(DType t, const void* gate, const void* x, void* y, std::size_t count) {
  map2(t, gate, x, y, count, SiluMultiplyOp());
}
void tanh_range(DType t, const void* x, void* y, std::size_t count) { map2(t, x, x, y, count, TanhOp()); }
void tanh_grad_range(DType t, const void* dy, const void* y, void* dx, std::size_t count) {
  map2(t, dy, y, dx, count, TanhGradOp());
}
void relu_range(DType t, const void* x, void* y, std::size_t count) { map2(t, x, x, y, count, ReluOp()); }
void relu_grad_range(DType t, const void* dy, const void* y, void* dx, std::size_t count) {
  map2(t, dy, y, dx, count, ReluGradOp());
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(add_range);
HWY_EXPORT(multiply_range);
HWY_EXPORT(scale_range);
HWY_EXPORT(gelu_range);
HWY_EXPORT(gelu_grad_range);
HWY_EXPORT(tanh_gelu_range);
HWY_EXPORT(tanh_gelu_grad_range);
HWY_EXPORT(silu_multiply_range);
HWY_EXPORT(silu_multiply_grad_range);
HWY_EXPORT(tanh_range);
HWY_EXPORT(tanh_grad_range);
HWY_EXPORT(relu_range);
HWY_EXPORT(relu_grad_range);

// A thread takes at least this many elements: below it, waking the team costs more than the work.
constexpr std::int64_t kGrain = 4096;

// Returns the number of elements in the real rows of a tensor.
std::int64_t real_elements(const KernelArguments& arguments, const TensorView& view) {
  if (arguments.row_count == nullptr || view.shape().rank() == 0) return view.elements();
  const std::int64_t capacity = view.shape()[0];
  return capacity == 0 ? 0 : view.elements() / capacity * arguments.rows(capacity);
}

// Calls y = range(a, b) where both have y's type.
template <typename Range>
std::unique_ptr<Kernel> make_binary(Range range) {
  return make_kernel([range](const KernelArguments& arguments) {
    const TensorView &a = arguments.inputs[0], &b = arguments.inputs[1], &y = arguments.outputs[0];
    parallel_for(real_elements(arguments, y), kGrain, [&](std::int64_t begin, std::int64_t end) {
      range(y.dtype(), element(a, begin), element(b, begin), element(y, begin), static_cast<std::size_t>(end - begin));
    });
  });
}

template <typename Range>
std::unique_ptr<Kernel> make_unary(Range range) {
  return make_kernel([range](const KernelArguments& arguments) {
    const TensorView &x = arguments.inputs[0], &y = arguments.outputs[0];
    parallel_for(real_elements(arguments, y), kGrain, [&](std::int64_t begin, std::int64_t end) {
      range(y.dtype(), element(x, begin), element(y, begin), static_cast<std::size_t>(end - begin));
    });
  });
}

// Calls visit(first, second, both) for each head of the real rows, with the beginnings of its parts in the first
// matrix, in the second one, and in the one with both, which has `shape`.
template <typename Visit>
void for_each_head(const KernelArguments& arguments, const Shape& shape, const HeadsAttributes& heads,
                   const Visit& visit) {
  const std::int64_t both = heads.first_size + heads.second_size;
  parallel_for(arguments.rows(shape[0]) * heads.heads, kGrain / both + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      visit(head * heads.first_size, head * heads.second_size, head * both);
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make_add(const Graph&, const Node&) { return make_binary(HWY_DYNAMIC_DISPATCH(add_range)); }
std::unique_ptr<Kernel> make_multiply(const Graph&, const Node&) {
  return make_binary(HWY_DYNAMIC_DISPATCH(multiply_range));
}
std::unique_ptr<Kernel> make_scale(const Graph&, const Node& node) {
  const auto factor = static_cast<float>(std::get<ScaleAttributes>(node.attributes).factor);
  const auto range = HWY_DYNAMIC_DISPATCH(scale_range);
  return make_unary(
      [range, factor](DType dtype, const void* x, void* y, std::size_t count) { range(dtype, x, y, count, factor); });
}
// The first micro-batch of an update overwrites the sum, whose old value may be anything.
std::unique_ptr<Kernel> make_accumulate(const Graph&, const Node&) {
  const auto add_to = HWY_DYNAMIC_DISPATCH(add_range);
  return make_kernel([add_to](const KernelArguments& arguments) {
    const bool keep = *arguments.inputs[2].data<std::int32_t>() != 0;
    const TensorView &x = arguments.inputs[1], &sum = arguments.outputs[0];
    parallel_for(real_elements(arguments, sum), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto count = static_cast<std::size_t>(end - begin);
      if (keep) {
        add_to(sum.dtype(), element(sum, begin), element(x, begin), element(sum, begin), count);
      } else {
        std::memcpy(element(sum, begin), element(x, begin), count * dtype_bytes(sum.dtype()));
      }
    });
  });
}

std::unique_ptr<Kernel> make_gelu(const Graph&, const Node& node) {
  if (gelu_by_tanh(node.attributes)) return make_unary(HWY_DYNAMIC_DISPATCH(tanh_gelu_range));
  return make_unary(HWY_DYNAMIC_DISPATCH(gelu_range));
}
std::unique_ptr<Kernel> make_gelu_grad(const Graph&, const Node& node) {
  if (gelu_by_tanh(node.attributes)) return make_binary(HWY_DYNAMIC_DISPATCH(tanh_gelu_grad_range));
  return make_binary(HWY_DYNAMIC_DISPATCH(gelu_grad_range));
}
std::unique_ptr<Kernel> make_silu_multiply(const Graph&, const Node&) {
  return make_binary(HWY_DYNAMIC_DISPATCH(silu_multiply_range));
}
std::unique_ptr<Kernel> make_silu_multiply_grad(const Graph&, const Node&) {
  return make_kernel([range = HWY_DYNAMIC_DISPATCH(silu_multiply_grad_range)](const KernelArguments& a) {
    parallel_for(real_elements(a, a.outputs[0]), kGrain, [&](std::int64_t begin, std::int64_t end) {
      range(a.outputs[0].dtype(), element(a.inputs[0], begin), element(a.inputs[1], begin), element(a.inputs[2], begin),
            element(a.outputs[0], begin), element(a.outputs[1], begin), static_cast<std::size_t>(end - begin));
    });
  });
}
std::unique_ptr<Kernel> make_tanh(const Graph&, const Node&) { return make_unary(HWY_DYNAMIC_DISPATCH(tanh_range)); }
std::unique_ptr<Kernel> make_tanh_grad(const Graph&, const Node&) {
  return make_binary(HWY_DYNAMIC_DISPATCH(tanh_grad_range));
}
std::unique_ptr<Kernel> make_relu(const Graph&, const Node&) { return make_unary(HWY_DYNAMIC_DISPATCH(relu_range)); }
std::unique_ptr<Kernel> make_relu_grad(const Graph&, const Node&) {
  return make_binary(HWY_DYNAMIC_DISPATCH(relu_grad_range));
}
std::unique_ptr<Kernel> make_concat_heads(const Graph&, const Node& node) {
  return make_kernel([heads = std::get<HeadsAttributes>(node.attributes),
                      range = HWY_DYNAMIC_DISPATCH(scale_range)](const KernelArguments& arguments) {
    const TensorView& y = arguments.outputs[0];
    const DType t = y.dtype();
    for_each_head(arguments, y.shape(), heads, [&](std::int64_t first, std::int64_t second, std::int64_t both) {
      const auto a = static_cast<std::size_t>(heads.first_size), b = static_cast<std::size_t>(heads.second_size);
      range(t, element(arguments.inputs[0], first), element(y, both), a, static_cast<float>(heads.first_factor));
      void* const rest = element(y, both + heads.first_size);
      if (heads.second) {
        range(t, element(arguments.inputs[1], second), rest, b, static_cast<float>(heads.second_factor));
      } else {
        std::memset(rest, 0, b * dtype_bytes(t));
      }
    });
  });
}
std::unique_ptr<Kernel> make_split_heads(const Graph&, const Node& node) {
  return make_kernel([heads = std::get<HeadsAttributes>(node.attributes),
                      range = HWY_DYNAMIC_DISPATCH(scale_range)](const KernelArguments& arguments) {
    const TensorView& x = arguments.inputs[0];
    const DType t = x.dtype();
    for_each_head(arguments, x.shape(), heads, [&](std::int64_t first, std::int64_t second, std::int64_t both) {
      range(t, element(x, both), element(arguments.outputs[0], first), static_cast<std::size_t>(heads.first_size),
            static_cast<float>(heads.first_factor));
      if (!heads.second) return;
      range(t, element(x, both + heads.first_size), element(arguments.outputs[1], second),
            static_cast<std::size_t>(heads.second_size), static_cast<float>(heads.second_factor));
    });
  });
}

std::unique_ptr<Kernel> make_cast(const Graph&, const Node&) {
  return make_kernel([](const KernelArguments& arguments) {
    for (std::size_t i = 0; i < arguments.inputs.size(); ++i) {
      convert(arguments.inputs[i], arguments.outputs[i], real_elements(arguments, arguments.outputs[i]));
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
