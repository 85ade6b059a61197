// The losses: each computes the sum and its gradient in one pass. A warp takes a row at a time, in double, and a block
// adds up the losses of kSumRows rows; but if a row is scores of a vocabulary, a block takes it, and its exponentials
// are floats, which are added up in double: otherwise a chunk of such rows would keep a few warps busy for
// milliseconds. One block adds up the sums of all blocks.
#include "backend/cuda/blocks.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"

namespace plimsoll::cuda {
namespace {

constexpr std::int32_t kIgnoredLabel = -100;

// The same as on the CPU.
struct ClassShares {
  double smoothing, gamma;
  const float* weights;  // nullptr: all 1
  __device__ double weight(std::int64_t c) const { return weights == nullptr ? 1.0 : double{weights[c]}; }
};

// Who takes a row: a warp or a block. Every thread gets the returned values.
struct WarpRow {
  static constexpr unsigned kThreads = kWarp, kBlockThreads = kRowThreads;
  static constexpr int kPack = 1;                                       // elements that a thread reads at once
  static constexpr std::int64_t kRows = kSumRows, kAtOnce = kRowWarps;  // of a block
  __device__ static unsigned thread() { return lane_index(); }
  __device__ static unsigned number() { return threadIdx.x / kWarp; }  // among those of the block
  __device__ static double sum(double x) { return warp_sum(x); }
  __device__ static float max(float x) { return warp_max(x); }
  using Number = double;  // of exponentials, and of sums of a few
  __device__ static double exponential(double x) { return exp(x); }
  __device__ static double difference(float a, float b) { return double{a} - double{b}; }
};
template <int N>
struct BlockRow {
  static constexpr unsigned kThreads = 512, kBlockThreads = kThreads;
  static constexpr int kPack = N;
  static constexpr std::int64_t kRows = 1, kAtOnce = 1;
  __device__ static unsigned thread() { return threadIdx.x; }
  __device__ static unsigned number() { return 0; }
  __device__ static double sum(double x) { return block_sum<kThreads>(x); }
  __device__ static float max(float x) { return block_max<kThreads>(x); }
  using Number = float;
  __device__ static float exponential(double x) { return expf(static_cast<float>(x)); }
  __device__ static float exponential(float x) { return expf(x); }
  __device__ static float difference(float a, float b) { return a - b; }
};
// Return the first row of this warp or block, and the distance to its next ones.
template <typename Taker>
__device__ std::int64_t first_taken() {
  return static_cast<std::int64_t>(blockIdx.x) * Taker::kAtOnce + Taker::number();
}
template <typename Taker>
__device__ std::int64_t taken_stride() {
  return static_cast<std::int64_t>(gridDim.x) * Taker::kAtOnce;
}
// Calls start(WarpRow{}), or start(BlockRow{}) with as many elements per read as rows of T allow.
template <typename T, typename Start>
void for_taker(std::int64_t classes, const Start& start) {
  if (!has_many_classes(classes)) return start(WarpRow{});
  for_pack<T>(classes, [&](auto pack) { start(BlockRow<pack()>{}); });
}

// Calls function(class, value) for each of the thread's elements.
template <typename Taker, typename T, typename Function>
__device__ void for_classes(const T* row, std::int64_t classes, const Function& function) {
  constexpr int N = Taker::kPack;
  for (std::int64_t c = Taker::thread() * N; c < classes; c += Taker::kThreads * N) {
    float values[N];
    load(row + c, N, values);
    for (int i = 0; i < N; ++i) function(c + i, values[i]);
  }
}
// to[class] = function(class, from[class]). A thread reads and writes its own, so that `to` may be `from`.
template <typename Taker, typename T, typename Function>
__device__ void map_classes(const T* from, T* to, std::int64_t classes, const Function& function) {
  constexpr int N = Taker::kPack;
  for (std::int64_t c = Taker::thread() * N; c < classes; c += Taker::kThreads * N) {
    float values[N];
    load(from + c, N, values);
    for (int i = 0; i < N; ++i) values[i] = static_cast<float>(function(c + i, values[i]));
    store(values, N, to + c);
  }
}
template <typename Taker, typename T>
__device__ void clear_classes(T* to, std::int64_t classes) {
  for (std::int64_t c = Taker::thread(); c < classes; c += Taker::kThreads) to[c] = from_float<T>(0);
}

// The largest element, and the sum of exp((element - largest) / temperature).
struct SoftmaxSum {
  float largest;
  double sum;
  __device__ double logarithm(double temperature = 1) const { return double{largest} / temperature + log(sum); }
};
// Computed in one pass: the sum so far is scaled when a larger element comes.
template <typename Taker, typename T>
__device__ SoftmaxSum softmax_sum_of(const T* row, std::int64_t classes, double temperature = 1) {
  using Number = typename Taker::Number;
  constexpr int N = Taker::kPack;
  const auto warmth = static_cast<Number>(1 / temperature);
  float largest = -INFINITY;
  double sum = 0;
  const auto power = [&](float value, float of) { return Taker::exponential(warmth * Taker::difference(value, of)); };
  for (std::int64_t c = Taker::thread() * N; c < classes; c += Taker::kThreads * N) {
    float values[N];
    load(row + c, N, values);
    float of_pack = values[0];
    for (int i = 1; i < N; ++i) of_pack = fmaxf(of_pack, values[i]);
    if (!(of_pack <= largest)) {
      sum *= double{power(largest, of_pack)};
      largest = of_pack;
    }
    if (largest == -INFINITY) continue;
    Number some = 0;
    for (const float value : values) some += power(value, largest);
    sum += double{some};
  }
  const float of_row = Taker::max(largest);
  if (largest < of_row) sum *= double{power(largest, of_row)};
  return {of_row, Taker::sum(sum)};
}

// Returns the row's loss. gradient may be logits.
template <typename Taker, typename T>
__device__ double cross_entropy_row(const T* logits, std::int32_t label, double scale, const ClassShares& shares,
                                    T* gradient, std::int64_t classes) {
  const double logit_of_label = Taker::sum(Taker::thread() == 0 ? double{to_float(logits[label])} : 0.0);
  const SoftmaxSum softmax = softmax_sum_of<Taker>(logits, classes);
  const double log_sum_exp = softmax.logarithm(), of_label = log_sum_exp - logit_of_label;
  const double label_share = (1 - shares.smoothing) * shares.weight(label);
  const double each = shares.smoothing / static_cast<double>(classes);  // of all classes
  double loss = label_share * of_label, all = label_share;
  if (each > 0) {
    double smooth = 0, weight = 0;
    for_classes<Taker>(logits, classes, [&](std::int64_t c, float logit) {
      const double share = each * shares.weight(c);
      smooth += share * (log_sum_exp - double{logit});
      weight += share;
    });
    loss += Taker::sum(smooth);
    all += Taker::sum(weight);
  }
  if (shares.gamma > 0) {
    const double rest = -expm1(-of_label), power = pow(rest, shares.gamma);  // 1 - p of the label
    loss *= power;
    scale *= rest > 0 ? power + shares.gamma * exp(-of_label) * pow(rest, shares.gamma - 1) * of_label : 0;
  }
  using Number = typename Taker::Number;
  const auto factor = static_cast<Number>(scale), of_power = static_cast<Number>(all / softmax.sum);
  const auto of_label_itself = static_cast<Number>(label_share), of_each = static_cast<Number>(each);
  map_classes<Taker>(logits, gradient, classes, [&](std::int64_t c, float logit) {
    Number share = c == label ? of_label_itself : 0;
    if (each > 0) share += of_each * static_cast<Number>(shares.weight(c));
    return factor * (of_power * Taker::exponential(Taker::difference(logit, softmax.largest)) - share);
  });
  return loss;
}

// partial[block] = the sum of the losses of its rows; every thread that takes a row has its loss.
template <typename Taker>
__device__ void leave_losses(double loss, double* partial) {
  if constexpr (Taker::kRows > 1) loss = block_sum<Taker::kBlockThreads>(Taker::thread() == 0 ? loss : 0);
  if (threadIdx.x == 0) partial[blockIdx.x] = loss;
}

template <typename Taker, typename T>
__global__ void cross_entropy(const T* logits, const std::int32_t* labels, const float* loss_scale, ClassShares shares,
                              T* gradient, double* partial, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  const std::int64_t first = blockIdx.x * Taker::kRows, end = first + Taker::kRows < real ? first + Taker::kRows : real;
  const double scale = *loss_scale;
  double loss = 0;
  for (std::int64_t row = first + Taker::number(); row < end; row += Taker::kAtOnce) {
    T* const to = gradient + row * classes;
    if (labels[row] == kIgnoredLabel) {
      clear_classes<Taker>(to, classes);
    } else {
      loss += cross_entropy_row<Taker>(logits + row * classes, labels[row], scale, shares, to, classes);
    }
  }
  clear_tail_of_block(gradient, rows, Taker::kRows);
  leave_losses<Taker>(loss, partial);
}

// Returns the number of the first class that has the largest value.
template <typename Taker, typename T>
__device__ std::int64_t first_that_is(float largest, const T* row, std::int64_t classes) {
  // Class numbers up to 2^24 are exact in a float, and the largest negated number belongs to the smallest class.
  float negative = -static_cast<float>(classes);
  for_classes<Taker>(row, classes, [&](std::int64_t c, float value) {
    if (value == largest) negative = fmaxf(negative, -static_cast<float>(c));
  });
  return static_cast<std::int64_t>(-Taker::max(negative));
}

__device__ double element_loss(ElementLossAttributes::Kind kind, double x, double y, double* slope) {
  if (kind == ElementLossAttributes::Kind::kSquaredError) {
    *slope = 2 * (x - y);
    return (x - y) * (x - y);
  }
  *slope = 1 / (1 + exp(-x)) - y;
  return fmax(x, 0.0) - x * y + log1p(exp(-fabs(x)));
}

template <typename Taker>
__global__ void element_losses(const float* logits, const float* targets, const float* loss_scale, float* gradient,
                               double* partial, ElementLossAttributes attributes, Rows rows) {
  const std::int64_t real = rows.real(), first = blockIdx.x * Taker::kRows;
  const std::int64_t last = first + Taker::kRows < real ? first + Taker::kRows : real;
  const double scale = attributes.weight * *loss_scale;
  double sum = 0;
  for (std::int64_t i = first * rows.columns + threadIdx.x; i < last * rows.columns; i += Taker::kBlockThreads) {
    double slope = 0;
    sum += element_loss(attributes.kind, logits[i], targets[i], &slope);
    gradient[i] = static_cast<float>(scale * slope);
  }
  clear_tail_of_block(gradient, rows, Taker::kRows);
  sum = block_sum<Taker::kBlockThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <typename Taker>
__global__ void soft_cross_entropy(const float* logits, const float* teacher, const std::int32_t* labels,
                                   const float* loss_scale, float* gradient, double* partial,
                                   SoftTargetAttributes attributes, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  const std::int64_t first = blockIdx.x * Taker::kRows, end = first + Taker::kRows < real ? first + Taker::kRows : real;
  const double t = attributes.temperature, scale = attributes.weight * *loss_scale;
  double loss = 0;
  for (std::int64_t row = first + Taker::number(); row < end; row += Taker::kAtOnce) {
    const float *of_row = logits + row * classes, *of_teacher = teacher + row * classes;
    float* const to = gradient + row * classes;
    if (labels[row] == kIgnoredLabel) {
      clear_classes<Taker>(to, classes);
      continue;
    }
    const double log_q_sum = softmax_sum_of<Taker>(of_row, classes, t).logarithm(t);
    const double log_p_sum = softmax_sum_of<Taker>(of_teacher, classes, t).logarithm(t);
    double divergence = 0;
    for (std::int64_t c = Taker::thread(); c < classes; c += Taker::kThreads) {
      const double log_q = of_row[c] / t - log_q_sum, log_p = of_teacher[c] / t - log_p_sum;
      const double p = Taker::exponential(log_p);
      divergence += p * (log_p - log_q);
      to[c] = static_cast<float>(scale * t * (Taker::exponential(log_q) - p));
    }
    loss += t * t * Taker::sum(divergence);
  }
  clear_tail_of_block(gradient, rows, Taker::kRows);
  leave_losses<Taker>(loss, partial);
}

template <typename Taker, typename T>
__global__ void label_scores(const T* logits, const std::int32_t* labels, float* scores, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  for (std::int64_t row = first_taken<Taker>(); row < real; row += taken_stride<Taker>()) {
    const T* const of_row = logits + row * classes;
    float loss = 0, hit = 0;
    if (labels[row] != kIgnoredLabel) {
      const SoftmaxSum sum = softmax_sum_of<Taker>(of_row, classes);
      loss = static_cast<float>(sum.logarithm() - double{to_float(of_row[labels[row]])});
      hit = first_that_is<Taker>(sum.largest, of_row, classes) == labels[row] ? 1.0F : 0.0F;
    }
    if (Taker::thread() < 2) scores[2 * row + Taker::thread()] = Taker::thread() == 0 ? loss : hit;
  }
}

template <typename Taker, typename T>
__global__ void softmax_sums(const T* logits, float* sums, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  for (std::int64_t row = first_taken<Taker>(); row < real; row += taken_stride<Taker>()) {
    const SoftmaxSum of = softmax_sum_of<Taker>(logits + row * classes, classes);
    if (Taker::thread() < 2) {
      sums[2 * row + Taker::thread()] = Taker::thread() == 0 ? of.largest : static_cast<float>(of.sum);
    }
  }
}

// gradient may be logits.
template <typename Taker, typename T>
__global__ void cross_entropy_part(const T* logits, const std::int32_t* labels, const float* sums,
                                   const float* loss_scale, T* gradient, std::int64_t first, Rows rows) {
  const std::int64_t classes = rows.columns, real = rows.real();
  using Number = typename Taker::Number;
  const double scale = *loss_scale;
  for (std::int64_t row = first_taken<Taker>(); row < rows.capacity; row += taken_stride<Taker>()) {
    const bool counts = row < real && labels[row] != kIgnoredLabel;
    const float largest = counts ? sums[2 * row] : 0;
    const auto of_power = static_cast<Number>(counts ? scale / double{sums[2 * row + 1]} : 0);
    map_classes<Taker>(logits + row * classes, gradient + row * classes, classes, [&](std::int64_t c, float logit) {
      if (!counts) return Number{0};
      const auto wanted = static_cast<Number>(first + c == labels[row] ? scale : 0);
      return of_power * Taker::exponential(Taker::difference(logit, largest)) - wanted;
    });
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
  of_position = warp_sum(of_position);  // one lane has it, the others zeros
  for (std::int64_t row = lane_index(); row < rows; row += kWarp) {
    const double probability = exp(double{from[row * columns]} - log_sum_exp);
    to[row * columns] = static_cast<float>(scale * (probability - (row == position ? 1.0 : 0.0)));
  }
  if (lane_index() == 0) partial[i] = log_sum_exp - of_position;
}

__global__ void whole_loss(const double* partial, const float* loss_scale, double weight, float* loss, Rows rows) {
  const double sum = block_sum_of<kRowThreads>(partial, loss_blocks(rows.real(), rows.columns));
  if (threadIdx.x == 0) *loss = static_cast<float>(weight * double{*loss_scale} * sum);
}

__global__ void sum_of_losses(const double* partial, const float* loss_scale, float* loss, std::int64_t count) {
  const double sum = block_sum_of<kRowThreads>(partial, count);
  if (threadIdx.x == 0) *loss = static_cast<float>(double{*loss_scale} * sum);
}

template <typename Taker>
Launch loss_size(const Rows& rows) {
  return {.blocks = static_cast<unsigned>(loss_blocks(rows.capacity, rows.columns)), .threads = Taker::kBlockThreads};
}

// Makes the kernels of a language model's head, whose logits may be halves.
template <typename T>
std::unique_ptr<Kernel> make_of_logits(const Context& context, const Node& node) {
  const std::int64_t first =
      node.op == Op::kCrossEntropyPart ? std::get<ClassPartAttributes>(node.attributes).first : 0;
  return make_launch(0, [&context, op = node.op, first](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    for_taker<T>(rows.columns, [&]<typename Taker>(Taker) {
      const Launch size{.blocks = blocks_for(rows.capacity, Taker::kAtOnce), .threads = Taker::kBlockThreads};
      if (op == Op::kSoftmaxSums) {
        launch(context.stream(), softmax_sums<Taker, T>, size, input<T>(a, 0), output<float>(a, 0), rows);
      } else if (op == Op::kLabelScores) {
        launch(context.stream(), label_scores<Taker, T>, size, input<T>(a, 0), input<std::int32_t>(a, 1),
               output<float>(a, 0), rows);
      } else {
        launch(context.stream(), cross_entropy_part<Taker, T>, size, input<T>(a, 0), input<std::int32_t>(a, 1),
               input<float>(a, 2), input<float>(a, 3), output<T>(a, 0), first, rows);
      }
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> make_cross_entropy(const Context& context, const TensorType& logits, const Node& node) {
  const auto attributes = std::get<CrossEntropyAttributes>(node.attributes);
  return make_launch(cross_entropy_scratch_bytes(logits), [&context, weighs = node.inputs.size() > 3,
                                                           attributes](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    auto* const partial = reinterpret_cast<double*>(a.scratch.data());
    const ClassShares shares{attributes.label_smoothing, attributes.focal_gamma, weighs ? input<float>(a, 3) : nullptr};
    for_taker<T>(rows.columns, [&]<typename Taker>(Taker) {
      launch(context.stream(), cross_entropy<Taker, T>, loss_size<Taker>(rows), input<T>(a, 0),
             input<std::int32_t>(a, 1), input<float>(a, 2), shares, output<T>(a, 1), partial, rows);
    });
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
  return make_launch(cross_entropy_scratch_bytes(logits),
                     [&context, attributes = node.attributes](const KernelArguments& a) {
                       const Rows rows = rows_of(a, a.inputs[0]);
                       auto* const partial = reinterpret_cast<double*>(a.scratch.data());
                       std::size_t loss_scale = 2;
                       double weight = 1;
                       if (const auto* const element = std::get_if<ElementLossAttributes>(&attributes)) {
                         weight = element->weight;
                         for_taker<float>(rows.columns, [&]<typename Taker>(Taker) {
                           launch(context.stream(), element_losses<Taker>, loss_size<Taker>(rows), input<float>(a, 0),
                                  input<float>(a, 1), input<float>(a, 2), output<float>(a, 1), partial, *element, rows);
                         });
                       } else {
                         const auto& soft = std::get<SoftTargetAttributes>(attributes);
                         loss_scale = 3;
                         weight = soft.weight;
                         for_taker<float>(rows.columns, [&]<typename Taker>(Taker) {
                           launch(context.stream(), soft_cross_entropy<Taker>, loss_size<Taker>(rows),
                                  input<float>(a, 0), input<float>(a, 1), input<std::int32_t>(a, 2), input<float>(a, 3),
                                  output<float>(a, 1), partial, soft, rows);
                         });
                       }
                       launch(context.stream(), whole_loss, {.blocks = 1, .threads = kRowThreads}, partial,
                              input<float>(a, loss_scale), weight, output<float>(a, 0), rows);
                     });
}

}  // namespace plimsoll::cuda
