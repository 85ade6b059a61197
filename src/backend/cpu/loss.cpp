// The losses: each computes the sum and its gradient in one pass, in double, which is cheap with few classes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "backend/cpu/convert.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/thread_floats.h"
#include "backend/cpu/wide_softmax.h"
#include "backend/scratch.h"

namespace plimsoll {
namespace {

constexpr std::int32_t kIgnoredLabel = -100;

// Gives rows of logits and of their gradient as floats: in place, or, for halves, one row at a time in the thread's own
// floats.
class FloatRows {
 public:
  FloatRows(ScratchLayout& layout, const TensorType& logits)
      : dtype_(logits.dtype), columns_(logits.shape[1]), own_(layout, is_half(logits.dtype) ? logits.shape[1] : 0) {}

  const float* read(const KernelArguments& a, const TensorView& from, std::int64_t row) const {
    if (!is_half(dtype_)) return from.data<float>() + row * columns_;
    convert_here(at(from, row), dtype_, own_.own(a), DType::kF32, columns_);
    return own_.own(a);
  }
  // Returns where a row of `to` is computed, to be stored by store(). For halves it is where read() has put the logits.
  float* room(const KernelArguments& a, const TensorView& to, std::int64_t row) const {
    return is_half(dtype_) ? own_.own(a) : to.data<float>() + row * columns_;
  }
  void store(const KernelArguments& a, const TensorView& to, std::int64_t row) const {
    if (is_half(dtype_)) convert_here(own_.own(a), DType::kF32, at(to, row), dtype_, columns_);
  }

 private:
  std::byte* at(const TensorView& view, std::int64_t row) const {
    return static_cast<std::byte*>(view.raw()) + bytes_of(dtype_, row * columns_);
  }

  DType dtype_;
  std::int64_t columns_;
  ThreadFloats own_;
};

// The weights of a row's classes in its loss (CrossEntropyAttributes): s / C w_c for each class, and w_label (1 - s)
// more for the label.
struct ClassShares {
  CrossEntropyAttributes attributes;
  const float* weights;  // nullptr: all 1
  double weight(std::int64_t c) const { return weights == nullptr ? 1.0 : double{weights[c]}; }
};

// Returns the row's loss; `gradient`, its derivative times scale, may alias logits.
double cross_entropy_row(const float* logits, std::int32_t label, double scale, const ClassShares& shares,
                         float* gradient, std::int64_t classes) {
  if (label == kIgnoredLabel) {
    std::fill_n(gradient, classes, 0.0F);
    return 0;
  }
  double largest = logits[0];
  for (std::int64_t c = 1; c < classes; ++c) largest = std::max(largest, double{logits[c]});
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
  const double log_sum_exp = largest + std::log(sum);
  const double of_label = log_sum_exp - logits[label], gamma = shares.attributes.focal_gamma;
  const double label_share = (1 - shares.attributes.label_smoothing) * shares.weight(label);
  const double each = shares.attributes.label_smoothing / static_cast<double>(classes);  // of all classes
  double loss = label_share * of_label, all = label_share;
  if (each > 0) {
    for (std::int64_t c = 0; c < classes; ++c) {
      const double share = each * shares.weight(c);
      loss += share * (log_sum_exp - logits[c]);
      all += share;
    }
  }
  if (gamma > 0) {
    const double rest = -std::expm1(-of_label), power = std::pow(rest, gamma);  // 1 - p of the label
    loss *= power;
    scale *= rest > 0 ? power + gamma * std::exp(-of_label) * std::pow(rest, gamma - 1) * of_label : 0;
  }
  for (std::int64_t c = 0; c < classes; ++c) {
    const double share = (c == label ? label_share : 0.0) + (each > 0 ? each * shares.weight(c) : 0.0);
    gradient[c] = static_cast<float>(scale * (all * std::exp(logits[c] - log_sum_exp) - share));
  }
  return loss;
}

// Returns the scratch of sum_over_blocks, which holds the sum of each block of kSumBlock rows.
std::size_t block_sum_bytes(std::int64_t capacity) {
  return static_cast<std::size_t>((capacity + kSumBlock - 1) / kSumBlock) * sizeof(double);
}

// Returns the sum of of_row(row) over rows, block by block.
template <typename OfRow>
double sum_over_blocks(const KernelArguments& a, std::int64_t rows, const OfRow& of_row) {
  double* const partial = scratch_at<double>(a, 0);
  const std::int64_t blocks = (rows + kSumBlock - 1) / kSumBlock;
  parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      partial[block] = 0;
      for (std::int64_t row = block * kSumBlock; row < std::min(rows, (block + 1) * kSumBlock); ++row) {
        partial[block] += of_row(row);
      }
    }
  });
  double sum = 0;
  for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block];
  return sum;
}

// Holds what kSoftmaxSums outputs for a row. The sum is rounded here, too, so that the gradient in parts has the same
// bits.
struct RowSums {
  float largest, sum;
  double loss(float of_label) const { return double{largest} + std::log(double{sum}) - double{of_label}; }
};
RowSums sums_of(const WideSoftmax& softmax, const float* logits, std::int64_t classes) {
  const float largest = softmax.largest(logits, classes);
  return {largest, static_cast<float>(softmax.exponentials(logits, classes, largest))};
}

double mean_of(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

// Does the same as cross_entropy_row for many classes of equal weight, without focus.
double wide_row(const float* logits, std::int32_t label, double scale, double smoothing, const WideSoftmax& softmax,
                float* gradient, std::int64_t classes) {
  if (label == kIgnoredLabel) {
    std::fill_n(gradient, classes, 0.0F);
    return 0;
  }
  const RowSums sums = sums_of(softmax, logits, classes);
  const double of_label = sums.loss(logits[label]), each = smoothing / static_cast<double>(classes);
  // Before the gradient, which may have the logits' bytes.
  const double of_all =
      smoothing > 0 ? double{sums.largest} + std::log(double{sums.sum}) - mean_of(logits, classes) : 0;
  softmax.scaled(logits, classes, sums.largest, static_cast<float>(scale / double{sums.sum}), gradient);
  if (smoothing > 0) {
    const auto share = static_cast<float>(scale * each);
    for (std::int64_t c = 0; c < classes; ++c) gradient[c] -= share;
  }
  gradient[label] = static_cast<float>(scale * (std::expm1(-of_label) + (smoothing - each)));
  return (1 - smoothing) * of_label + smoothing * of_all;
}

// A row is work enough for a thread; losses are summed in the order of rows.
std::unique_ptr<Kernel> make_wide_cross_entropy(const TensorType& logits, double smoothing) {
  const std::int64_t capacity = logits.shape[0], classes = logits.shape[1];
  ScratchLayout layout;
  const std::size_t losses_at = layout.add<double>(capacity);
  const FloatRows float_rows(layout, logits);
  const auto run = [=, softmax = wide_softmax()](const KernelArguments& a) {
    const std::int32_t* const labels = a.inputs[1].data<std::int32_t>();
    const double scale = *a.inputs[2].data<float>();
    double* const losses = scratch_at<double>(a, losses_at);
    const std::int64_t rows = a.rows(capacity);
    parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        losses[row] = wide_row(float_rows.read(a, a.inputs[0], row), labels[row], scale, smoothing, softmax,
                               float_rows.room(a, a.outputs[1], row), classes);
        float_rows.store(a, a.outputs[1], row);
      }
    });
    double loss = 0;
    for (std::int64_t row = 0; row < rows; ++row) loss += losses[row];
    *a.outputs[0].data<float>() = static_cast<float>(scale * loss);
  };
  return make_kernel(run, layout.bytes());
}

}  // namespace

std::unique_ptr<Kernel> make_cross_entropy(const Graph& graph, const Node& node) {
  const TensorType& logits = graph.type(node.inputs[0]);
  const std::int64_t capacity = logits.shape[0], classes = logits.shape[1];
  const auto attributes = std::get<CrossEntropyAttributes>(node.attributes);
  const bool weighs = node.inputs.size() > 3;
  if (classes >= kWideRow && !weighs && attributes.focal_gamma == 0) {
    return make_wide_cross_entropy(logits, attributes.label_smoothing);
  }
  ScratchLayout layout;
  layout.add_bytes(block_sum_bytes(capacity));
  const FloatRows float_rows(layout, logits);
  const auto run = [=](const KernelArguments& a) {
    const ClassShares shares{attributes, weighs ? a.inputs[3].data<float>() : nullptr};
    const std::int32_t* const labels = a.inputs[1].data<std::int32_t>();
    const double scale = *a.inputs[2].data<float>();
    const double loss = sum_over_blocks(a, a.rows(capacity), [&](std::int64_t row) {
      const double of_row = cross_entropy_row(float_rows.read(a, a.inputs[0], row), labels[row], scale, shares,
                                              float_rows.room(a, a.outputs[1], row), classes);
      float_rows.store(a, a.outputs[1], row);
      return of_row;
    });
    *a.outputs[0].data<float>() = static_cast<float>(scale * loss);
  };
  return make_kernel(run, layout.bytes());
}

namespace {

// Returns an element's loss and its derivative.
std::pair<double, double> element_loss(ElementLossAttributes::Kind kind, double x, double y) {
  if (kind == ElementLossAttributes::Kind::kSquaredError) return {(x - y) * (x - y), 2 * (x - y)};
  return {std::max(x, 0.0) - x * y + std::log1p(std::exp(-std::abs(x))), 1 / (1 + std::exp(-x)) - y};
}

double log_sum_exp(const float* row, std::int64_t count, double temperature) {
  double largest = row[0] / temperature;
  for (std::int64_t c = 1; c < count; ++c) largest = std::max(largest, row[c] / temperature);
  double sum = 0;
  for (std::int64_t c = 0; c < count; ++c) sum += std::exp(row[c] / temperature - largest);
  return largest + std::log(sum);
}

// Returns the row's divergence from the teacher's; `gradient`, scale times the difference of the probabilities, may
// alias logits.
double soft_row(const float* logits, const float* teacher, double temperature, double scale, float* gradient,
                std::int64_t classes) {
  const double of_logits = log_sum_exp(logits, classes, temperature);
  const double of_teacher = log_sum_exp(teacher, classes, temperature);
  double divergence = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const double log_q = logits[c] / temperature - of_logits, log_p = teacher[c] / temperature - of_teacher;
    const double p = std::exp(log_p);
    divergence += p * (log_p - log_q);
    gradient[c] = static_cast<float>(scale * (std::exp(log_q) - p));
  }
  return divergence;
}

// Takes one column of one sample's rows, `columns` apart, and returns -log softmax(logits)[position], 0 where it is
// ignored.
double span_column(const float* logits, std::int64_t rows, std::int64_t columns, std::int32_t position, double scale,
                   float* gradient) {
  if (position == kIgnoredLabel) {
    for (std::int64_t row = 0; row < rows; ++row) gradient[row * columns] = 0;
    return 0;
  }
  const double of_position = logits[position * columns];  // the gradient may take the logits' place
  double largest = logits[0];
  for (std::int64_t row = 1; row < rows; ++row) largest = std::max(largest, double{logits[row * columns]});
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) sum += std::exp(logits[row * columns] - largest);
  const double log_sum_exp = largest + std::log(sum);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double probability = std::exp(logits[row * columns] - log_sum_exp);
    gradient[row * columns] = static_cast<float>(scale * (probability - (row == position ? 1.0 : 0.0)));
  }
  return log_sum_exp - of_position;
}

}  // namespace

std::unique_ptr<Kernel> make_element_loss(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t classes = graph.type(node.inputs[0]).shape[1];
  const auto attributes = std::get<ElementLossAttributes>(node.attributes);
  const auto run = [=](const KernelArguments& a) {
    const float* const logits = a.inputs[0].data<float>();
    const float* const targets = a.inputs[1].data<float>();
    const double scale = attributes.weight * *a.inputs[2].data<float>();
    float* const gradient = a.outputs[1].data<float>();
    const double loss = sum_over_blocks(a, a.rows(capacity), [&](std::int64_t row) {
      double sum = 0;
      for (std::int64_t i = row * classes; i < (row + 1) * classes; ++i) {
        const auto [of_element, slope] = element_loss(attributes.kind, logits[i], targets[i]);
        sum += of_element;
        gradient[i] = static_cast<float>(scale * slope);
      }
      return sum;
    });
    *a.outputs[0].data<float>() = static_cast<float>(scale * loss);
  };
  return make_kernel(run, block_sum_bytes(capacity));
}

std::unique_ptr<Kernel> make_label_scores(const Graph& graph, const Node& node) {
  const TensorType& logits = graph.type(node.inputs[0]);
  const std::int64_t capacity = logits.shape[0], classes = logits.shape[1];
  ScratchLayout layout;
  const FloatRows float_rows(layout, logits);
  const auto run = [=, softmax = wide_softmax()](const KernelArguments& a) {
    const std::int32_t* const labels = a.inputs[1].data<std::int32_t>();
    float* const scores = a.outputs[0].data<float>();
    parallel_for(a.rows(capacity), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float* const to = scores + 2 * row;
        to[0] = to[1] = 0;
        if (labels[row] == kIgnoredLabel) continue;
        const float* const of_row = float_rows.read(a, a.inputs[0], row);
        const float largest = softmax.largest(of_row, classes);
        const double sum = softmax.exponentials(of_row, classes, largest);
        to[0] = static_cast<float>(double{largest} + std::log(sum) - double{of_row[labels[row]]});
        to[1] = std::find(of_row, of_row + classes, largest) - of_row == labels[row] ? 1.0F : 0.0F;
      }
    });
  };
  return make_kernel(run, layout.bytes());
}

std::unique_ptr<Kernel> make_softmax_sums(const Graph& graph, const Node& node) {
  const TensorType& logits = graph.type(node.inputs[0]);
  const std::int64_t capacity = logits.shape[0], classes = logits.shape[1];
  ScratchLayout layout;
  const FloatRows float_rows(layout, logits);
  const auto run = [=, softmax = wide_softmax()](const KernelArguments& a) {
    float* const to = a.outputs[0].data<float>();
    parallel_for(a.rows(capacity), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const RowSums sums = sums_of(softmax, float_rows.read(a, a.inputs[0], row), classes);
        to[2 * row] = sums.largest;
        to[2 * row + 1] = sums.sum;
      }
    });
  };
  return make_kernel(run, layout.bytes());
}

std::unique_ptr<Kernel> make_cross_entropy_part(const Graph& graph, const Node& node) {
  const TensorType& logits = graph.type(node.inputs[0]);
  const std::int64_t capacity = logits.shape[0], classes = logits.shape[1];
  const std::int64_t first = std::get<ClassPartAttributes>(node.attributes).first;
  ScratchLayout layout;
  const FloatRows float_rows(layout, logits);
  const auto run = [=, softmax = wide_softmax()](const KernelArguments& a) {
    const std::int32_t* const labels = a.inputs[1].data<std::int32_t>();
    const float* const all_sums = a.inputs[2].data<float>();
    const double scale = *a.inputs[3].data<float>();
    parallel_for(a.rows(capacity), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float* const to = float_rows.room(a, a.outputs[0], row);
        if (labels[row] == kIgnoredLabel) {
          std::fill_n(to, classes, 0.0F);
        } else {
          const float* const from = float_rows.read(a, a.inputs[0], row);
          const RowSums sums{all_sums[2 * row], all_sums[2 * row + 1]};
          const std::int64_t label = labels[row] - first;
          const bool has_label = label >= 0 && label < classes;
          const double of_label = has_label ? sums.loss(from[label]) : 0;
          softmax.scaled(from, classes, sums.largest, static_cast<float>(scale / double{sums.sum}), to);
          if (has_label) to[label] = static_cast<float>(scale * std::expm1(-of_label));
        }
        float_rows.store(a, a.outputs[0], row);
      }
    });
  };
  return make_kernel(run, layout.bytes());
}

std::unique_ptr<Kernel> make_soft_cross_entropy(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t classes = graph.type(node.inputs[0]).shape[1];
  const auto attributes = std::get<SoftTargetAttributes>(node.attributes);
  const auto run = [=](const KernelArguments& a) {
    const float* const logits = a.inputs[0].data<float>();
    const float* const teacher = a.inputs[1].data<float>();
    const std::int32_t* const labels = a.inputs[2].data<std::int32_t>();
    const double scale = attributes.weight * *a.inputs[3].data<float>(), t = attributes.temperature;
    float* const gradient = a.outputs[1].data<float>();
    const double loss = sum_over_blocks(a, a.rows(capacity), [&](std::int64_t row) {
      if (labels[row] == kIgnoredLabel) {
        std::fill_n(gradient + row * classes, classes, 0.0F);
        return 0.0;
      }
      return soft_row(logits + row * classes, teacher + row * classes, t, scale * t, gradient + row * classes, classes);
    });
    *a.outputs[0].data<float>() = static_cast<float>(scale * t * t * loss);
  };
  return make_kernel(run, block_sum_bytes(capacity));
}

// The scratch holds the loss of each sample's columns.
std::unique_ptr<Kernel> make_span_cross_entropy(const Graph& graph, const Node& node) {
  const Shape positions_shape = graph.type(node.inputs[1]).shape;
  const std::int64_t samples = positions_shape[0], columns = positions_shape[1];
  const auto run = [=](const KernelArguments& a) {
    const float* const logits = a.inputs[0].data<float>();
    const std::int32_t* const positions = a.inputs[1].data<std::int32_t>();
    const std::int32_t* const offsets = a.inputs[2].data<std::int32_t>();
    const double scale = *a.inputs[3].data<float>();
    float* const gradient = a.outputs[1].data<float>();
    double* const partial = scratch_at<double>(a, 0);
    parallel_for(samples * columns, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t sample = i / columns, first = offsets[sample] * columns + i % columns;
        const std::int64_t rows = offsets[sample + 1] - offsets[sample];
        partial[i] = rows == 0 ? 0 : span_column(logits + first, rows, columns, positions[i], scale, gradient + first);
      }
    });
    double loss = 0;
    for (std::int64_t i = 0; i < samples * columns; ++i) loss += partial[i];
    *a.outputs[0].data<float>() = static_cast<float>(scale * loss);
  };
  return make_kernel(run, static_cast<std::size_t>(samples * columns) * sizeof(double));
}

}  // namespace plimsoll
