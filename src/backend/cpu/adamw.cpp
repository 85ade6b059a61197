// adamw, adamw_rows: Loshchilov, Hutter 2019, with the arithmetic of torch.optim.AdamW's single-tensor path: scalars
// are double and rounded to float where they meet a tensor; every tensor operation is in float. The gradient is
// multiplied by clip first.
//
// The kernel works in blocks of kStateBlock elements. What a block holds as float is updated in place; split parameters
// and 8-bit moments pass through buffers on the stack.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/gradient_rows.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/adamw.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/update_math-inl.h"

#ifndef PLIMSOLL_BACKEND_CPU_ADAMW_ONCE
#define PLIMSOLL_BACKEND_CPU_ADAMW_ONCE
namespace plimsoll {

struct AdamWScalars {
  float clip, decay, one_minus_beta1, beta2, one_minus_beta2, sqrt_bias_correction2, eps, step_size;
};

// Pointers to the tensors of an update; those that its form lacks are nullptr.
struct AdamWParts {
  struct Moment {
    float* whole = nullptr;
    std::uint8_t* codes = nullptr;
    float* absmax = nullptr;
  };
  float* parameter = nullptr;
  std::uint16_t* high = nullptr;
  std::int16_t* low = nullptr;
  Moment m, v;
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE void adamw_step(D d, const AdamWScalars& s, float* parameter, float* m, float* v, V gradient) {
  const auto g = hn::Mul(gradient, hn::Set(d, s.clip));
  const auto decayed = hn::Mul(hn::LoadU(d, parameter), hn::Set(d, s.decay));
  const auto old_m = hn::LoadU(d, m);
  const auto new_m = hn::Add(old_m, hn::Mul(hn::Set(d, s.one_minus_beta1), hn::Sub(g, old_m)));
  const auto new_v =
      hn::Add(hn::Mul(hn::LoadU(d, v), hn::Set(d, s.beta2)), hn::Mul(hn::Mul(hn::Set(d, s.one_minus_beta2), g), g));
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(new_v), hn::Set(d, s.sqrt_bias_correction2)), hn::Set(d, s.eps));
  hn::StoreU(new_m, d, m);
  hn::StoreU(new_v, d, v);
  hn::StoreU(hn::Add(decayed, hn::Div(hn::Mul(hn::Set(d, s.step_size), new_m), denominator)), d, parameter);
}

// A null gradient stands for zeros.
void adamw_range(const AdamWScalars& scalars, float* parameter, float* m, float* v, const float* gradient,
                 std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one_lane;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    adamw_step(d, scalars, parameter + i, m + i, v + i, gradient == nullptr ? hn::Zero(d) : hn::LoadU(d, gradient + i));
  }
  for (; i < count; ++i) {
    adamw_step(one_lane, scalars, parameter + i, m + i, v + i,
               gradient == nullptr ? hn::Zero(one_lane) : hn::LoadU(one_lane, gradient + i));
  }
}

// Returns the block's moment as floats: in place, or decoded into `buffer`.
HWY_INLINE float* load_moment(const AdamWParts::Moment& moment, const CodeMap& map, std::size_t first,
                              std::size_t count, float* buffer) {
  if (moment.codes == nullptr) return moment.whole + first;
  decode_block(map, moment.codes + first, moment.absmax[first / kStateBlock], count, buffer);
  return buffer;
}

// Updates elements [first, first + count), where first is a multiple of kStateBlock and count at most kStateBlock.
// `gradient` points to the gradient of element `first`, or is null for zeros.
void adamw_block(const AdamWScalars& scalars, const AdamWParts& parts, std::size_t first, std::size_t count,
                 const float* gradient) {
  HWY_ALIGN float parameter_buffer[kStateBlock], m_buffer[kStateBlock], v_buffer[kStateBlock];
  const bool split = parts.high != nullptr;
  float* const parameter = split ? parameter_buffer : parts.parameter + first;
  if (split) {
    for_each_vector(count, JoinStep{parts.high + first, parts.low + first, parameter});
  }
  float* const m = load_moment(parts.m, kSignedCodes, first, count, m_buffer);
  float* const v = load_moment(parts.v, kUnsignedCodes, first, count, v_buffer);
  adamw_range(scalars, parameter, m, v, gradient, count);
  if (split) for_each_vector(count, SplitStep{parameter, parts.high + first, parts.low + first});
  if (parts.m.codes == nullptr) return;
  parts.m.absmax[first / kStateBlock] = encode_block<true>(kSignedCodeTable, m, count, parts.m.codes + first);
  parts.v.absmax[first / kStateBlock] = encode_block<false>(kUnsignedCodeTable, v, count, parts.v.codes + first);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(adamw_block);

constexpr std::int64_t kUpdateGrain = 64 * kStateBlock;

// `tail` holds learning_rate, step and clip.
AdamWScalars scalars_of(const AdamWAttributes& attributes, std::span<const TensorView> tail) {
  const double learning_rate = attributes.rate_factor * double{*tail[0].data<float>()};
  const double step = *tail[1].data<std::int32_t>();
  const double bias_correction1 = 1.0 - std::pow(attributes.beta1, step);
  const double bias_correction2 = 1.0 - std::pow(attributes.beta2, step);
  return {.clip = *tail[2].data<float>(),
          .decay = static_cast<float>(1.0 - learning_rate * attributes.weight_decay),
          .one_minus_beta1 = static_cast<float>(1.0 - attributes.beta1),
          .beta2 = static_cast<float>(attributes.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - attributes.beta2),
          .sqrt_bias_correction2 = static_cast<float>(std::sqrt(bias_correction2)),
          .eps = static_cast<float>(attributes.eps),
          .step_size = static_cast<float>(-learning_rate / bias_correction1)};
}

// The updated part of the parameter begins at element `first`, its moments at `moments_first`.
AdamWParts parts_of(const UpdateForm& form, std::int64_t first, std::int64_t moments_first,
                    std::span<const TensorView> outputs) {
  AdamWParts parts;
  if (form.split()) {
    parts.high = outputs[0].data<std::uint16_t>() + first;
    parts.low = outputs[1].data<std::int16_t>() + first;
  } else {
    parts.parameter = outputs[0].data<float>() + first;
  }
  const auto states = outputs.subspan(form.states());
  if (form.coded) {
    const std::int64_t block = moments_first / kStateBlock;
    parts.m = {nullptr, states[0].data<std::uint8_t>() + moments_first, states[1].data<float>() + block};
    parts.v = {nullptr, states[2].data<std::uint8_t>() + moments_first, states[3].data<float>() + block};
  } else {
    parts.m.whole = states[0].data<float>() + moments_first;
    parts.v.whole = states[1].data<float>() + moments_first;
  }
  return parts;
}

}  // namespace

// Makes adamw and adamw_rows. Every row of a table moves: rows that are absent from ids have gradient 0, but their m
// and v decay.
std::unique_ptr<Kernel> make_adamw(const Graph& graph, const Node& node) {
  const auto attributes = std::get<AdamWAttributes>(node.attributes);
  const UpdateForm form = update_form(graph, node);
  const Shape& shape = graph.type(node.inputs[0]).shape;
  const std::int64_t start = attributes.first - attributes.parameter_first;
  const std::int64_t moments_first = attributes.whole_moments ? attributes.first : 0;
  const std::int64_t elements = attributes.count > 0 ? attributes.count : shape.elements();
  const std::int64_t gradient_first = attributes.first - (form.by_rows ? 0 : attributes.gradient_first);
  const std::int64_t width = form.by_rows ? shape[1] : shape.elements();
  const auto update = HWY_DYNAMIC_DISPATCH(adamw_block);
  return make_kernel([=](const KernelArguments& a) {
    const AdamWScalars scalars = scalars_of(attributes, a.inputs.subspan(form.scalars()));
    const AdamWParts parts = parts_of(form, start, moments_first, a.outputs);
    const GradientRows gradient(form, width, a.inputs);
    parallel_for(elements, kUpdateGrain, [&](std::int64_t begin, std::int64_t end) {
      float buffer[kStateBlock];
      for (std::int64_t first = begin; first < end; first += kStateBlock) {
        const std::int64_t count = std::min(kStateBlock, end - first);
        update(scalars, parts, static_cast<std::size_t>(first), static_cast<std::size_t>(count),
               gradient.elements(gradient_first + first, count, buffer));
      }
    });
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
