// relation_loss: a thread takes a head of a sample, whose matrices of relations exist for a tile of rows at a time.
// With s the scores of x, G their gradient and X the head's rows, the gradient of X is G X + G^T X, because a score
// belongs to two rows.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/relations.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/simd_product-inl.h"
#include "backend/cpu/simd_transpose-inl.h"

#ifndef PLIMSOLL_RELATION_PROBLEM
#define PLIMSOLL_RELATION_PROBLEM
namespace plimsoll {

// Rows of relations that a thread computes at a time.
inline constexpr std::int64_t kRelationTile = 32;

// A head of a sample, and a thread's buffers. Rows of buffers are padded with zeros to whole vectors.
struct RelationHead {
  const float *x, *teacher;  // first row and column of the head
  float* gradient;           // as x
  std::int64_t rows, x_stride, teacher_stride;
  std::int64_t width, teacher_width;  // columns of the head
  std::int64_t padded_rows, padded_width;
  float scale;                         // of the gradient
  float* x_rows;                       // [padded_rows, padded_width]
  float *x_columns, *teacher_columns;  // [width, padded_rows], [teacher_width, padded_rows]
  float* sums;                         // [padded_rows, padded_width]
  float *scores, *teacher_scores;      // [kRelationTile, padded_rows]
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// to[c, r] = rows[r, c], with zeros for rows that do not exist.
void transpose_padded(const float* rows, std::int64_t stride, std::int64_t count, std::int64_t width,
                      std::int64_t padded, float* to) {
  simd_transpose(rows, stride, count, width, to, padded);
  for (std::int64_t c = 0; c < width; ++c) std::fill_n(to + c * padded + count, padded - count, 0.0F);
}

// Divides by the sum of exponentials: gives log(sum of exp(factor * scores)) as two terms, the largest score and the
// rest.
struct Normaliser {
  float largest, log_sum;
};
HWY_INLINE Normaliser normaliser(const float* scores, std::int64_t count, float factor) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  float largest = scores[0];
  for (std::int64_t j = 1; j < count; ++j) largest = std::max(largest, scores[j]);
  largest *= factor;
  auto sums = hn::Zero(d);
  std::int64_t j = 0;
  const auto minus = hn::Set(d, -largest), times = hn::Set(d, factor);
  for (; j + lanes <= count; j += lanes) {
    sums = hn::Add(sums, simd_exp(d, hn::MulAdd(hn::LoadU(d, scores + j), times, minus)));
  }
  float sum = simd_sum(d, sums);
  for (; j < count; ++j) sum += std::exp(scores[j] * factor - largest);
  return {largest, std::log(sum)};
}

// Returns the divergence of a row; its scores are replaced by the gradient with respect to them, without the scale.
HWY_INLINE double relate(float* scores, const float* teacher, std::int64_t count, float factor, float teacher_factor) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Normaliser of_x = normaliser(scores, count, factor), of_teacher = normaliser(teacher, count, teacher_factor);
  double divergence = 0;
  auto sums = hn::Zero(d);
  std::int64_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    const auto log_q = hn::Sub(hn::MulSub(hn::LoadU(d, scores + j), hn::Set(d, factor), hn::Set(d, of_x.largest)),
                               hn::Set(d, of_x.log_sum));
    const auto log_p =
        hn::Sub(hn::MulSub(hn::LoadU(d, teacher + j), hn::Set(d, teacher_factor), hn::Set(d, of_teacher.largest)),
                hn::Set(d, of_teacher.log_sum));
    const auto p = simd_exp(d, log_p);
    sums = hn::MulAdd(p, hn::Sub(log_p, log_q), sums);
    hn::StoreU(hn::Sub(simd_exp(d, log_q), p), d, scores + j);
  }
  divergence += double{simd_sum(d, sums)};
  for (; j < count; ++j) {
    const float log_q = scores[j] * factor - of_x.largest - of_x.log_sum;
    const float log_p = teacher[j] * teacher_factor - of_teacher.largest - of_teacher.log_sum;
    const float p = std::exp(log_p);
    divergence += double{p * (log_p - log_q)};
    scores[j] = std::exp(log_q) - p;
  }
  return divergence;
}

// Returns the sum of the divergences of the head's rows, and writes their gradient.
double relation_head(const RelationHead& h) {
  std::fill_n(h.sums, h.padded_rows * h.padded_width, 0.0F);
  for (std::int64_t r = 0; r < h.rows; ++r) {
    float* const row = h.x_rows + r * h.padded_width;
    std::copy_n(h.x + r * h.x_stride, h.width, row);
    std::fill_n(row + h.width, h.padded_width - h.width, 0.0F);
  }
  transpose_padded(h.x, h.x_stride, h.rows, h.width, h.padded_rows, h.x_columns);
  transpose_padded(h.teacher, h.teacher_stride, h.rows, h.teacher_width, h.padded_rows, h.teacher_columns);
  const float factor = 1 / std::sqrt(static_cast<float>(h.width));
  const float teacher_factor = 1 / std::sqrt(static_cast<float>(h.teacher_width));
  double divergence = 0;
  for (std::int64_t first = 0; first < h.rows; first += kRelationTile) {
    const std::int64_t count = std::min(kRelationTile, h.rows - first);
    simd_product(ProductRows{h.x + first * h.x_stride, h.x_stride}, count, h.width, h.x_columns, h.padded_rows,
                 h.scores, h.padded_rows, h.padded_rows, ProductSum::kStore);
    simd_product(ProductRows{h.teacher + first * h.teacher_stride, h.teacher_stride}, count, h.teacher_width,
                 h.teacher_columns, h.padded_rows, h.teacher_scores, h.padded_rows, h.padded_rows, ProductSum::kStore);
    for (std::int64_t r = 0; r < count; ++r) {
      divergence +=
          relate(h.scores + r * h.padded_rows, h.teacher_scores + r * h.padded_rows, h.rows, factor, teacher_factor);
    }
    simd_product(ProductRows{h.scores, h.padded_rows}, count, h.rows, h.x_rows, h.padded_width,
                 h.sums + first * h.padded_width, h.padded_width, h.padded_width, ProductSum::kAdd);
    simd_product(ProductColumns{h.scores, h.padded_rows}, h.rows, count, h.x_rows + first * h.padded_width,
                 h.padded_width, h.sums, h.padded_width, h.padded_width, ProductSum::kAdd);
  }
  const float scale = h.scale * factor;
  for (std::int64_t r = 0; r < h.rows; ++r) {
    for (std::int64_t c = 0; c < h.width; ++c) {
      h.gradient[r * h.x_stride + c] = scale * h.sums[r * h.padded_width + c];
    }
  }
  return divergence;
}

std::int64_t relation_lanes() { return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(relation_head);
HWY_EXPORT(relation_lanes);

class RelationLoss final : public Kernel {
 public:
  RelationLoss(const Graph& graph, const Node& node)
      : attributes_(std::get<RelationAttributes>(node.attributes)),
        columns_(graph.type(node.inputs[0]).shape[1]),
        teacher_columns_(graph.type(node.inputs[1]).shape[1]),
        samples_(graph.type(node.inputs[2]).shape[0] - 1),
        head_(HWY_DYNAMIC_DISPATCH(relation_head)) {
    const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
    const std::int64_t longest = attributes_.longest_sample > 0 ? attributes_.longest_sample : capacity;
    const std::int64_t lanes = HWY_DYNAMIC_DISPATCH(relation_lanes)();
    width_ = columns_ / attributes_.heads;
    teacher_width_ = teacher_columns_ / attributes_.heads;
    padded_width_ = round_up(width_, lanes);
    const std::int64_t padded = round_up(longest, lanes);
    ScratchLayout layout;
    partial_at_ = layout.add<double>(samples_ * attributes_.heads);
    first_thread_at_ = layout.bytes();
    ScratchLayout thread;
    x_rows_at_ = thread.add<float>(padded * padded_width_);
    x_columns_at_ = thread.add<float>(width_ * padded);
    teacher_columns_at_ = thread.add<float>(teacher_width_ * padded);
    sums_at_ = thread.add<float>(padded * padded_width_);
    scores_at_ = thread.add<float>(kRelationTile * padded);
    teacher_scores_at_ = thread.add<float>(kRelationTile * padded);
    thread_bytes_ = thread.bytes();
    lanes_ = lanes;
    scratch_bytes_ = first_thread_at_ + static_cast<std::size_t>(omp_get_max_threads()) * thread_bytes_;
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& a) const override {
    const float* const x = a.inputs[0].data<float>();
    const float* const teacher = a.inputs[1].data<float>();
    const std::int32_t* const offsets = a.inputs[2].data<std::int32_t>();
    const double scale = attributes_.weight / static_cast<double>(attributes_.heads) * *a.inputs[3].data<float>();
    float* const gradient = a.outputs[1].data<float>();
    double* const partial = scratch_at<double>(a, partial_at_);
    const std::int64_t items = samples_ * attributes_.heads;
    parallel_for(items, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::size_t own = first_thread_at_ + static_cast<std::size_t>(omp_get_thread_num()) * thread_bytes_;
      const auto buffer = [&](std::size_t offset) { return scratch_at<float>(a, own + offset); };
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t sample = item / attributes_.heads, head = item % attributes_.heads;
        const std::int64_t first = offsets[sample], rows = offsets[sample + 1] - first;
        partial[item] = 0;
        if (rows == 0) continue;
        partial[item] = head_({.x = x + first * columns_ + head * width_,
                               .teacher = teacher + first * teacher_columns_ + head * teacher_width_,
                               .gradient = gradient + first * columns_ + head * width_,
                               .rows = rows,
                               .x_stride = columns_,
                               .teacher_stride = teacher_columns_,
                               .width = width_,
                               .teacher_width = teacher_width_,
                               .padded_rows = round_up(rows, lanes_),
                               .padded_width = padded_width_,
                               .scale = static_cast<float>(scale),
                               .x_rows = buffer(x_rows_at_),
                               .x_columns = buffer(x_columns_at_),
                               .teacher_columns = buffer(teacher_columns_at_),
                               .sums = buffer(sums_at_),
                               .scores = buffer(scores_at_),
                               .teacher_scores = buffer(teacher_scores_at_)});
      }
    });
    double loss = 0;
    for (std::int64_t item = 0; item < items; ++item) loss += partial[item];
    *a.outputs[0].data<float>() = static_cast<float>(scale * loss);
  }

 private:
  static std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

  RelationAttributes attributes_;
  std::int64_t columns_, teacher_columns_, samples_;
  double (*head_)(const RelationHead&);
  std::int64_t width_ = 0, teacher_width_ = 0, padded_width_ = 0, lanes_ = 0;
  std::size_t partial_at_ = 0, first_thread_at_ = 0, thread_bytes_ = 0;
  std::size_t x_rows_at_ = 0, x_columns_at_ = 0, teacher_columns_at_ = 0, sums_at_ = 0;
  std::size_t scores_at_ = 0, teacher_scores_at_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_relation_loss(const Graph& graph, const Node& node) {
  return std::make_unique<RelationLoss>(graph, node);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
