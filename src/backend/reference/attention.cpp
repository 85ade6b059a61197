// attention, its gradient and its biases, computed naively: one query's scores (or one key's column of them) at a time.
//
// In the scores s[i,j] = (q_i k_j + biases) / sqrt(d) of a sample's rows i, j, masked keys j are left out of the
// softmax p; a query whose keys are all masked has output 0, log_sum_exp -infinity and no gradient. Dropout multiplies
// p[i,j] by m[i,j] (0 or dropout_scale) after the softmax, so log_sum_exp does not depend on it. Samples come from
// sample_offsets alone; the node's row count, if any, is sample_offsets[B].
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/reference/loop_kernel.h"
#include "base/dropout.h"
#include "graph/attention_form.h"
#include "graph/relative_bucket.h"

namespace plimsoll::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Holds q, k, v and the inputs that kAttention and kAttentionGrad share, from sample_offsets on.
template <typename T>
class AttentionInputs {
 public:
  AttentionInputs(std::span<const TensorView> inputs, const AttentionForm& form, const AttentionAttributes& attributes)
      : q(inputs[form.q()]),
        k(inputs[form.q() + 1]),
        v(inputs[form.q() + 2]),
        offsets(inputs[form.sample_offsets()].span<const std::int32_t>()),
        head_size(q.columns() / attributes.heads),
        group(attributes.heads / key_value_heads(attributes)),
        scale(1.0 / std::sqrt(static_cast<double>(head_size))),
        attributes_(attributes),
        key_mask_(inputs[form.key_mask()].data<std::int32_t>()),
        row_keys_(inputs[form.row_keys()]),
        dropout_key_{static_cast<std::uint32_t>(inputs[form.dropout_key()].data<std::int32_t>()[0]),
                     static_cast<std::uint32_t>(inputs[form.dropout_key()].data<std::int32_t>()[1])} {
    if (form.tables() > 0) coordinates_.emplace(inputs[form.coordinates()]);
    for (std::size_t table = 0; table < AttentionForm::kBiases; ++table) {
      if (form.has_bias[table]) tables_[table].emplace(inputs[form.table(table)]);
    }
  }

  const Matrix<const T> q, k, v;
  const std::span<const std::int32_t> offsets;  // B + 1
  const std::int64_t head_size;
  const std::int64_t group;  // heads that share one of k and v
  const double scale;

  bool masked(std::int64_t query, std::int64_t key) const {
    return key_mask_[key] == 0 || (attributes_.causal && key > query);
  }

  // For the tables position, x, y: whether the table is used, and which bin a query and a key look up.
  bool has_bias(std::size_t table) const { return tables_[table].has_value(); }
  std::int64_t bin(std::size_t table, std::int64_t query, std::int64_t key) const {
    const std::int64_t distance = table == 0 ? attributes_.max_position_distance : attributes_.max_spatial_distance;
    const Matrix<const std::int32_t>& coordinates = *coordinates_;
    return relative_bucket(coordinates[key][table] - coordinates[query][table],
                           static_cast<std::int32_t>(tables_[table]->columns()), static_cast<std::int32_t>(distance));
  }

  double score(std::int64_t head, std::int64_t query, std::int64_t key) const {
    double sum = dot(q[query], head, k[key], head / group);
    for (std::size_t table = 0; table < 3; ++table) {
      if (has_bias(table)) sum += double{(*tables_[table])[head][bin(table, query, key)]};
    }
    return sum * scale;
  }

  // Returns the sum over the columns of those heads of a[c] * b[c].
  double dot(const T* a, std::int64_t head_of_a, const T* b, std::int64_t head_of_b) const {
    double sum = 0.0;
    for (std::int64_t c = 0; c < head_size; ++c) {
      sum += double{a[head_of_a * head_size + c]} * double{b[head_of_b * head_size + c]};
    }
    return sum;
  }

  // Returns m[i,j]; `first` is the sample's first row.
  double dropout_factor(std::int64_t head, std::int64_t first, std::int64_t query, std::int64_t key) const {
    if (attributes_.dropout_p == 0) return 1.0;
    const std::uint32_t bits =
        attention_dropout_bits(dropout_key_, attributes_.site, static_cast<std::uint32_t>(head),
                               static_cast<std::uint32_t>(row_keys_[query][0]),
                               static_cast<std::uint32_t>(query - first), static_cast<std::uint32_t>(key - first));
    return bits >= dropout_threshold(attributes_.dropout_p) ? dropout_scale(attributes_.dropout_p) : 0.0;
  }

 private:
  const AttentionAttributes& attributes_;
  const std::int32_t* key_mask_;
  const Matrix<const std::int32_t> row_keys_;
  const PhiloxKey dropout_key_;
  std::optional<Matrix<const std::int32_t>> coordinates_;
  std::array<std::optional<Matrix<const T>>, AttentionForm::kBiases> tables_;
};

// Calls body(head, begin, end) for every head of every sample that has rows.
template <typename T, typename Body>
void for_each_head(const AttentionInputs<T>& in, std::int64_t heads, Body body) {
  for (std::size_t sample = 0; sample + 1 < in.offsets.size(); ++sample) {
    check(in.offsets[sample] >= 0 && in.offsets[sample] <= in.offsets[sample + 1] &&
              in.offsets[sample + 1] <= in.q.rows(),
          "sample_offsets ascend within the rows");
    for (std::int64_t head = 0; head < heads; ++head) body(head, in.offsets[sample], in.offsets[sample + 1]);
  }
}

// The scratch holds n doubles.
template <typename T>
void attention(const KernelArguments& a, const AttentionForm& form, const AttentionAttributes& attributes) {
  const AttentionInputs<T> in(a.inputs, form, attributes);
  const Matrix<T> output(a.outputs[0]), log_sum_exp(a.outputs[1]);
  double* scores = scratch_doubles(a);
  for_each_head(in, attributes.heads, [&](std::int64_t head, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double largest = -kInfinity, sum = 0.0;
      for (std::int64_t j = begin; j < end; ++j) {
        scores[j] = in.masked(i, j) ? -kInfinity : in.score(head, i, j);
        largest = std::max(largest, scores[j]);
      }
      for (std::int64_t j = begin; j < end; ++j) {
        if (!in.masked(i, j)) sum += std::exp(scores[j] - largest);
      }
      const double log_sum = largest + std::log(sum);  // -infinity if all keys are masked
      for (std::int64_t c = head * in.head_size; c < (head + 1) * in.head_size; ++c) output[i][c] = T{0};
      for (std::int64_t j = begin; j < end; ++j) {
        scores[j] = in.masked(i, j) ? 0.0 : std::exp(scores[j] - log_sum) * in.dropout_factor(head, begin, i, j);
      }
      for (std::int64_t c = 0; c < in.head_size; ++c) {
        const std::int64_t of_v = head / in.group * in.head_size + c;
        double mean = 0.0;
        for (std::int64_t j = begin; j < end; ++j) mean += scores[j] * in.v[j][of_v];
        output[i][head * in.head_size + c] = static_cast<T>(mean);
      }
      log_sum_exp[i][2 * head] = static_cast<T>(log_sum);
      const double rest = std::isfinite(log_sum) ? log_sum - double{log_sum_exp[i][2 * head]} : 0.0;
      log_sum_exp[i][2 * head + 1] = static_cast<T>(rest);
    }
  });
}

// With o = output, p[i,j] = exp(s[i,j] - log_sum_exp[i]):
//   dv_j = sum_i p m do_i;  ds[i,j] = p (m do_i.v_j - do_i.o_i);
//   dq_i = sum_j ds k_j / sqrt(d);  dk_j = sum_i ds q_i / sqrt(d);  dtable[bin] = sum over its (i,j) of ds / sqrt(d).
// do_i.o_i is the softmax's sum over j of p dp (Dao et al. 2022, FlashAttention, appendix B.4); this holds with
// dropout, too. The scratch holds 2 n doubles, sums of dk and dv of a head, then the sums of the three tables.
template <typename T>
void attention_grad(const KernelArguments& a, const AttentionForm& form, const AttentionAttributes& attributes) {
  const AttentionInputs<T> in(a.inputs, form, attributes);
  const Matrix<const T> doutput(a.inputs[0]), output(a.inputs[form.output()]), log_sum_exp(a.inputs[form.output() + 1]);
  const Matrix<T> dq(a.outputs[0]), dk(a.outputs[1]), dv(a.outputs[2]);
  double* probability = scratch_doubles(a);                         // p m along a row or a column
  double* dscore = scratch_doubles(a, in.q.rows());                 // ds / sqrt(d) along it
  double* const shared_sums = scratch_doubles(a, 2 * in.q.rows());  // of dk and dv, [rows][columns of a head][2]
  std::array<double*, AttentionForm::kBiases> table_sums{};
  std::array<std::int64_t, AttentionForm::kBiases> bins{};
  if (attributes.table_gradients) {
    double* next = scratch_doubles(a, 2 * in.q.rows() * (1 + in.head_size));
    for (std::size_t table = 0; table < AttentionForm::kBiases; ++table) {
      if (!in.has_bias(table)) continue;
      table_sums[table] = next;
      bins[table] = a.outputs[form.table_gradient(table)].shape()[1];
      next = std::fill_n(next, attributes.heads * bins[table], 0.0);
    }
  }

  for_each_head(in, attributes.heads, [&](std::int64_t head, std::int64_t begin, std::int64_t end) {
    const auto differentiate = [&](std::int64_t i, std::int64_t j, std::int64_t at) {
      if (in.masked(i, j)) {
        probability[at] = dscore[at] = 0.0;
        return;
      }
      const double log_sum = double{log_sum_exp[i][2 * head]} + double{log_sum_exp[i][2 * head + 1]};
      const double p = std::exp(in.score(head, i, j) - log_sum), m = in.dropout_factor(head, begin, i, j);
      probability[at] = p * m;
      const double of_v = in.dot(doutput[i], head, in.v[j], head / in.group);
      dscore[at] = p * (m * of_v - in.dot(doutput[i], head, output[i], head)) * in.scale;
    };
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = begin; j < end; ++j) differentiate(i, j, j);
      for (std::int64_t c = 0; c < in.head_size; ++c) {
        const std::int64_t of_k = head / in.group * in.head_size + c;
        double sum = 0.0;
        for (std::int64_t j = begin; j < end; ++j) sum += dscore[j] * in.k[j][of_k];
        dq[i][head * in.head_size + c] = static_cast<T>(sum);
      }
      if (!attributes.table_gradients) continue;
      for (std::size_t table = 0; table < 3; ++table) {
        if (!in.has_bias(table)) continue;
        for (std::int64_t j = begin; j < end; ++j) {
          table_sums[table][head * bins[table] + in.bin(table, i, j)] += dscore[j];
        }
      }
    }
    for (std::int64_t j = begin; j < end; ++j) {
      for (std::int64_t i = begin; i < end; ++i) differentiate(i, j, i);
      // The heads that share the columns add to them one after the other, in doubles.
      const std::int64_t shared = head / in.group * in.head_size;
      const bool is_first = head % in.group == 0, is_last = head % in.group == in.group - 1;
      for (std::int64_t c = 0; c < in.head_size; ++c) {
        double sum_k = 0.0, sum_v = 0.0;
        for (std::int64_t i = begin; i < end; ++i) {
          sum_k += dscore[i] * in.q[i][head * in.head_size + c];
          sum_v += probability[i] * doutput[i][head * in.head_size + c];
        }
        double* const sums = shared_sums + 2 * (j * in.head_size + c);
        sums[0] = is_first ? sum_k : sums[0] + sum_k;
        sums[1] = is_first ? sum_v : sums[1] + sum_v;
        if (!is_last) continue;
        dk[j][shared + c] = static_cast<T>(sums[0]);
        dv[j][shared + c] = static_cast<T>(sums[1]);
      }
    }
  });

  if (!attributes.table_gradients) return;
  for (std::size_t table = 0; table < AttentionForm::kBiases; ++table) {
    if (!in.has_bias(table)) continue;
    std::transform(table_sums[table], table_sums[table] + attributes.heads * bins[table],
                   a.outputs[form.table_gradient(table)].data<T>(), [](double sum) { return static_cast<T>(sum); });
  }
}

// Computes the biases that nodes with made_biases read.
template <typename T>
void attention_bias(const KernelArguments& a, const AttentionForm& form, const AttentionAttributes& attributes) {
  const auto offsets = a.inputs[form.sample_offsets()].span<const std::int32_t>();
  const std::int32_t* const key_mask = a.inputs[form.key_mask()].data<std::int32_t>();
  const Matrix<const std::int32_t> coordinates(a.inputs[form.coordinates()]);
  const Matrix<T> biases(a.outputs[0]);
  const std::int64_t keys = biases.columns() / attributes.heads;
  for (std::size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
    const std::int64_t begin = offsets[sample], end = offsets[sample + 1];
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t at = 0; at < attributes.heads * keys; ++at) {
        const std::int64_t head = at / keys, j = begin + at % keys;
        double sum = j < end && key_mask[j] != 0 ? 0.0 : -kInfinity;
        for (std::size_t t = 0; t < AttentionForm::kBiases && j < end; ++t) {
          if (!form.has_bias[t]) continue;
          const Matrix<const T> table(a.inputs[form.table(t)]);
          const std::int64_t distance = t == 0 ? attributes.max_position_distance : attributes.max_spatial_distance;
          sum += double{table[head][relative_bucket(coordinates[j][t] - coordinates[i][t],
                                                    static_cast<std::int32_t>(table.columns()),
                                                    static_cast<std::int32_t>(distance))]};
        }
        biases[i][at] = static_cast<T>(sum);
      }
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> make_attention_kernel(const Graph& graph, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    const AttentionAttributes attributes = attention_attributes(node);
    const AttentionForm form = attention_form(node);
    if (node.op == Op::kAttentionBias) {
      return make_kernel(node, [=](const KernelArguments& a) { attention_bias<T>(a, form, attributes); });
    }
    const std::int64_t rows = graph.type(node.inputs[0]).shape[0];
    if (node.op == Op::kAttention) {
      return make_kernel(node, static_cast<std::size_t>(rows) * sizeof(double),
                         [=](const KernelArguments& a) { attention<T>(a, form, attributes); });
    }
    check(node.op == Op::kAttentionGrad, "make_attention_kernel knows the op");
    std::int64_t doubles = 2 * rows * (1 + graph.type(node.inputs[form.q()]).shape[1] / attributes.heads);
    for (std::size_t i = 3; i < node.outputs.size(); ++i) doubles += graph.type(node.outputs[i]).shape.elements();
    return make_kernel(node, static_cast<std::size_t>(doubles) * sizeof(double),
                       [=](const KernelArguments& a) { attention_grad<T>(a, form, attributes); });
  });
}

}  // namespace plimsoll::reference
