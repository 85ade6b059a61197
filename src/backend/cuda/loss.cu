// The losses: each computes the sum and its gradient in one pass, in double, since there are few classes. Of rows, a
// warp takes one at a time; each block adds up the losses of kSumRows rows, and one block those sums.
#include "backend/cuda/blocks.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"

namespace plimsoll::cuda {
namespace {

constexpr std::int32_t kIgnoredLabel = -100;

// As the CPU has them.
struct ClassShares {
  double smoothing, gamma;
  const float* weights;  // nullptr: all 1
  __device__ double weight(std::int64_t c) const { return weights == nullptr ? 1.0 : double{weights[c]}; }
};

// The largest element, in every lane.
template <typename T>
__device__ float largest_of(const T* row, std::int64_t classes) {
  float largest = to_float(row[0]);
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) largest = fmaxf(largest, to_float(row[c]));
  return warp_max(largest);
}

// The row's loss, in every lane. A lane reads and writes its own columns alone, so that gradient may be logits.
template <typename T>
__device__ double cross_entropy_row(const T* logits, std::int32_t label, double scale, const ClassShares& shares,
                                    T* gradient, std::int64_t classes) {
  const float largest = largest_of(logits, classes);
  double sum = 0, of_label = 0;
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
    const double logit = to_float(logits[c]);
    sum += exp(logit - double{largest});
    if (c == label) of_label = logit;
  }
  const double log_sum_exp = double{largest} + log(warp_sum(sum));
  of_label = log_sum_exp - warp_sum(of_label);  // one lane's, and zeros
  const double label_share = (1 - shares.smoothing) * shares.weight(label);
  const double each = shares.smoothing / static_cast<double>(classes);  // of all classes
  double loss = label_share * of_label, all = label_share;
  if (each > 0) {
    double smooth = 0, weight = 0;
    for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
      const double share = each * shares.weight(c);
      smooth += share * (log_sum_exp - double{to_float(logits[c])});
      weight += share;
    }
    loss += warp_sum(smooth);
    all += warp_sum(weight);
  }
  if (shares.gamma > 0) {
    const double rest = -expm1(-of_label), power = pow(rest, shares.gamma);  // 1 - p of the label
    loss *= power;
    scale *= rest > 0 ? power + shares.gamma * exp(-of_label) * pow(rest, shares.gamma - 1) * of_label : 0;
  }
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
    const double share = (c == label ? label_share : 0.0) + (each > 0 ? each * shares.weight(c) : 0.0);
    const double derivative = all * exp(double{to_float(logits[c])} - log_sum_exp) - share;
    gradient[c] = from_float<T>(static_cast<float>(scale * derivative));
  }
  return loss;
}

template <typename T>
__global__ void cross_entropy(const T* logits, const std::int32_t* labels, const float* loss_scale, ClassShares shares,
                              T* gradient, double* partial, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  const std::int64_t first = blockIdx.x * kSumRows, end = first + kSumRows < real ? first + kSumRows : real;
  const double scale = *loss_scale;
  double loss = 0;
  for (std::int64_t row = first + threadIdx.x / kWarp; row < end; row += kRowWarps) {
    T* const to = gradient + row * classes;
    if (labels[row] == kIgnoredLabel) {
      for (std::int64_t c = lane_index(); c < classes; c += kWarp) to[c] = from_float<T>(0);
    } else {
      loss += cross_entropy_row(logits + row * classes, labels[row], scale, shares, to, classes);
    }
  }
  clear_tail_of_block(gradient, rows, kSumRows);
  loss = block_sum<kRowThreads>(lane_index() == 0 ? loss : 0);
  if (threadIdx.x == 0) partial[blockIdx.x] = loss;
}

// The number of the first class that has the most, in every lane.
template <typename T>
__device__ std::int64_t first_largest(const T* row, std::int64_t classes) {
  const float largest = largest_of(row, classes);
  // Numbers of classes are exact in a float up to 2^24, and the largest negative one is the smallest.
  float negative = -static_cast<float>(classes);
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
    if (to_float(row[c]) == largest) negative = fmaxf(negative, -static_cast<float>(c));
  }
  return static_cast<std::int64_t>(-warp_max(negative));
}

__device__ double element_loss(ElementLossAttributes::Kind kind, double x, double y, double* slope) {
  if (kind == ElementLossAttributes::Kind::kSquaredError) {
    *slope = 2 * (x - y);
    return (x - y) * (x - y);
  }
  *slope = 1 / (1 + exp(-x)) - y;
  return fmax(x, 0.0) - x * y + log1p(exp(-fabs(x)));
}

__global__ void element_losses(const float* logits, const float* targets, const float* loss_scale, float* gradient,
                               double* partial, ElementLossAttributes attributes, Rows rows) {
  const std::int64_t real = rows.real(), first = blockIdx.x * kSumRows;
  const std::int64_t last = first + kSumRows < real ? first + kSumRows : real;
  const double scale = attributes.weight * *loss_scale;
  double sum = 0;
  for (std::int64_t i = first * rows.columns + threadIdx.x; i < last * rows.columns; i += kRowThreads) {
    double slope = 0;
    sum += element_loss(attributes.kind, logits[i], targets[i], &slope);
    gradient[i] = static_cast<float>(scale * slope);
  }
  clear_tail_of_block(gradient, rows, kSumRows);
  sum = block_sum<kRowThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// log(sum of exp(row[c] / temperature)), in every lane.
template <typename T>
__device__ double log_sum_exp_of(const T* row, std::int64_t classes, double temperature) {
  const float largest = largest_of(row, classes);
  double sum = 0;
  for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
    sum += exp((to_float(row[c]) - double{largest}) / temperature);
  }
  return double{largest} / temperature + log(warp_sum(sum));
}

__global__ void soft_cross_entropy(const float* logits, const float* teacher, const std::int32_t* labels,
                                   const float* loss_scale, float* gradient, double* partial,
                                   SoftTargetAttributes attributes, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  const std::int64_t first = blockIdx.x * kSumRows, end = first + kSumRows < real ? first + kSumRows : real;
  const double t = attributes.temperature, scale = attributes.weight * *loss_scale;
  double loss = 0;
  for (std::int64_t row = first + threadIdx.x / kWarp; row < end; row += kRowWarps) {
    const float *of_row = logits + row * classes, *of_teacher = teacher + row * classes;
    float* const to = gradient + row * classes;
    if (labels[row] == kIgnoredLabel) {
      for (std::int64_t c = lane_index(); c < classes; c += kWarp) to[c] = 0;
      continue;
    }
    const double log_q_sum = log_sum_exp_of(of_row, classes, t), log_p_sum = log_sum_exp_of(of_teacher, classes, t);
    double divergence = 0;
    for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
      const double log_q = of_row[c] / t - log_q_sum, log_p = of_teacher[c] / t - log_p_sum, p = exp(log_p);
      divergence += p * (log_p - log_q);
      to[c] = static_cast<float>(scale * t * (exp(log_q) - p));
    }
    loss += t * t * warp_sum(divergence);
  }
  clear_tail_of_block(gradient, rows, kSumRows);
  loss = block_sum<kRowThreads>(lane_index() == 0 ? loss : 0);
  if (threadIdx.x == 0) partial[blockIdx.x] = loss;
}

template <typename T>
__global__ void label_scores(const T* logits, const std::int32_t* labels, float* scores, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    const T* const of_row = logits + row * classes;
    float loss = 0, hit = 0;
    if (labels[row] != kIgnoredLabel) {
      loss = static_cast<float>(log_sum_exp_of(of_row, classes, 1) - double{to_float(of_row[labels[row]])});
      hit = first_largest(of_row, classes) == labels[row] ? 1.0F : 0.0F;
    }
    if (lane_index() < 2) scores[2 * row + lane_index()] = lane_index() == 0 ? loss : hit;
  }
}

template <typename T>
__global__ void softmax_sums(const T* logits, float* sums, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    const T* const of_row = logits + row * classes;
    const float largest = largest_of(of_row, classes);
    double sum = 0;
    for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
      sum += exp(double{to_float(of_row[c])} - double{largest});
    }
    sum = warp_sum(sum);
    if (lane_index() < 2) sums[2 * row + lane_index()] = lane_index() == 0 ? largest : static_cast<float>(sum);
  }
}

// A lane reads and writes its own columns alone, so that gradient may be logits.
template <typename T>
__global__ void cross_entropy_part(const T* logits, const std::int32_t* labels, const float* sums,
                                   const float* loss_scale, T* gradient, std::int64_t first, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  const double scale = *loss_scale;
  for (std::int64_t row = first_row(); row < rows.capacity; row += row_stride()) {
    const bool counts = row < real && labels[row] != kIgnoredLabel;
    const double log_sum_exp = counts ? double{sums[2 * row]} + log(double{sums[2 * row + 1]}) : 0;
    for (std::int64_t c = lane_index(); c < classes; c += kWarp) {
      const std::int64_t at = row * classes + c;
      const double wanted = counts && first + c == labels[row] ? 1 : 0;
      const double derivative = counts ? exp(double{to_float(logits[at])} - log_sum_exp) - wanted : 0;
      gradient[at] = from_float<T>(static_cast<float>(scale * derivative));
    }
  }
}

// A warp takes a column of a sample's rows.
__global__ void span_cross_entropy(const float* logits, const std::int32_t* positions, const std::int32_t* offsets,
                                   const float* loss_scale, float* gradient, double* partial, std::int64_t columns,
                                   std::int64_t count) {
  const std::int64_t i = first_row();
  if (i >= count) return;
  const std::int64_t sample = i / columns, begin = offsets[sample], rows = offsets[sample + 1] - begin;
  const float* const from = logits + begin * columns + i % columns;
  float* const to = gradient + begin * columns + i % columns;
  const std::int32_t position = positions[i];
  if (rows == 0 || position == kIgnoredLabel) {
    for (std::int64_t row = lane_index(); row < rows; row += kWarp) to[row * columns] = 0;
    if (lane_index() == 0) partial[i] = 0;
    return;
  }
  float largest = from[0];
  for (std::int64_t row = lane_index(); row < rows; row += kWarp) largest = fmaxf(largest, from[row * columns]);
  largest = warp_max(largest);
  double sum = 0, of_position = 0;
  for (std::int64_t row = lane_index(); row < rows; row += kWarp) {
    const double logit = from[row * columns];
    sum += exp(logit - double{largest});
    if (row == position) of_position = logit;
  }
  const double log_sum_exp = double{largest} + log(warp_sum(sum)), scale = *loss_scale;
  of_position = warp_sum(of_position);  // one lane's, and zeros
  for (std::int64_t row = lane_index(); row < rows; row += kWarp) {
    const double probability = exp(double{from[row * columns]} - log_sum_exp);
    to[row * columns] = static_cast<float>(scale * (probability - (row == position ? 1.0 : 0.0)));
  }
  if (lane_index() == 0) partial[i] = log_sum_exp - of_position;
}

__global__ void whole_loss(const double* partial, const float* loss_scale, double weight, float* loss, Rows rows) {
  const double sum = block_sum_of<kRowThreads>(partial, row_sum_blocks(rows.real()));
  if (threadIdx.x == 0) *loss = static_cast<float>(weight * double{*loss_scale} * sum);
}

__global__ void sum_of_losses(const double* partial, const float* loss_scale, float* loss, std::int64_t count) {
  const double sum = block_sum_of<kRowThreads>(partial, count);
  if (threadIdx.x == 0) *loss = static_cast<float>(double{*loss_scale} * sum);
}

// Makes the kernels of a language model's head, whose logits may be halves.
template <typename T>
std::unique_ptr<Kernel> make_of_logits(const Context& context, const Node& node) {
  const std::int64_t first =
      node.op == Op::kCrossEntropyPart ? std::get<ClassPartAttributes>(node.attributes).first : 0;
  return make_launch(0, [&context, op = node.op, first](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    const Launch size{.blocks = row_blocks(rows.capacity), .threads = kRowThreads};
    if (op == Op::kSoftmaxSums) {
      launch(context.stream(), softmax_sums<T>, size, input<T>(a, 0), output<float>(a, 0), rows);
    } else if (op == Op::kLabelScores) {
      launch(context.stream(), label_scores<T>, size, input<T>(a, 0), input<std::int32_t>(a, 1), output<float>(a, 0),
             rows);
    } else {
      launch(context.stream(), cross_entropy_part<T>, size, input<T>(a, 0), input<std::int32_t>(a, 1),
             input<float>(a, 2), input<float>(a, 3), output<T>(a, 0), first, rows);
    }
  });
}

template <typename T>
std::unique_ptr<Kernel> make_cross_entropy(const Context& context, const TensorType& logits, const Node& node) {
  const auto attributes = std::get<CrossEntropyAttributes>(node.attributes);
  return make_launch(cross_entropy_scratch_bytes(logits), [&context, weighs = node.inputs.size() > 3,
                                                           attributes](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    auto* const partial = reinterpret_cast<double*>(a.scratch.data());
    const Launch size{.blocks = static_cast<unsigned>(row_sum_blocks(rows.capacity)), .threads = kRowThreads};
    const ClassShares shares{attributes.label_smoothing, attributes.focal_gamma, weighs ? input<float>(a, 3) : nullptr};
    launch(context.stream(), cross_entropy<T>, size, input<T>(a, 0), input<std::int32_t>(a, 1), input<float>(a, 2),
           shares, output<T>(a, 1), partial, rows);
    launch(context.stream(), whole_loss, {.blocks = 1, .threads = kRowThreads}, partial, input<float>(a, 2), 1.0,
           output<float>(a, 0), rows);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_loss(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& logits = graph.type(node.inputs[0]);
  if (node.op == Op::kSoftmaxSums || node.op == Op::kLabelScores || node.op == Op::kCrossEntropyPart) {
    return for_floating(logits.dtype, [&]<typename T>(T) { return make_of_logits<T>(context, node); });
  }
  if (node.op == Op::kCrossEntropy) {
    return for_floating(logits.dtype, [&]<typename T>(T) { return make_cross_entropy<T>(context, logits, node); });
  }
  check(logits.dtype == DType::kF32, "logits of other losses are F32");
  if (node.op == Op::kSpanCrossEntropy) {
    const TensorType positions = graph.type(node.inputs[1]);
    const std::int64_t columns = positions.shape[1], count = positions.shape.elements();
    return make_launch(
        span_cross_entropy_scratch_bytes(positions), [&context, columns, count](const KernelArguments& a) {
          auto* const partial = reinterpret_cast<double*>(a.scratch.data());
          launch(context.stream(), span_cross_entropy, {.blocks = row_blocks(count), .threads = kRowThreads},
                 input<float>(a, 0), input<std::int32_t>(a, 1), input<std::int32_t>(a, 2), input<float>(a, 3),
                 output<float>(a, 1), partial, columns, count);
          launch(context.stream(), sum_of_losses, {.blocks = 1, .threads = kRowThreads}, partial, input<float>(a, 3),
                 output<float>(a, 0), count);
        });
  }
  check(is_loss(node.op), "make_loss knows the op");
  return make_launch(
      cross_entropy_scratch_bytes(logits), [&context, attributes = node.attributes](const KernelArguments& a) {
        const Rows rows = rows_of(a, a.inputs[0]);
        auto* const partial = reinterpret_cast<double*>(a.scratch.data());
        const Launch size{.blocks = static_cast<unsigned>(row_sum_blocks(rows.capacity)), .threads = kRowThreads};
        std::size_t loss_scale = 2;
        double weight = 1;
        if (const auto* const element = std::get_if<ElementLossAttributes>(&attributes)) {
          weight = element->weight;
          launch(context.stream(), element_losses, size, input<float>(a, 0), input<float>(a, 1), input<float>(a, 2),
                 output<float>(a, 1), partial, *element, rows);
        } else {
          const auto& soft = std::get<SoftTargetAttributes>(attributes);
          loss_scale = 3;
          weight = soft.weight;
          launch(context.stream(), soft_cross_entropy, size, input<float>(a, 0), input<float>(a, 1),
                 input<std::int32_t>(a, 2), input<float>(a, 3), output<float>(a, 1), partial, soft, rows);
        }
        launch(context.stream(), whole_loss, {.blocks = 1, .threads = kRowThreads}, partial,
               input<float>(a, loss_scale), weight, output<float>(a, 0), rows);
      });
}

}  // namespace plimsoll::cuda
