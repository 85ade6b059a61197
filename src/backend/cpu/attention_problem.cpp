#include "backend/cpu/attention_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "backend/cpu/dnnl_matmul.h"
#include "base/dropout.h"
#include "graph/relative_bucket.h"

namespace plimsoll {

RelativeBuckets::RelativeBuckets(std::int64_t bins, std::int64_t max_distance) : bins_(bins), reach_(max_distance) {
  check(bins >= 4 && bins % 2 == 0 && max_distance > bins / 4 && max_distance <= kMostRelativeDistance, [&] {
    return fmt::format(
        "relative buckets need an even number of at least 4 bins and a largest distance from {} to {}, not {} "
        "bins and {}",
        bins / 4 + 1, kMostRelativeDistance, bins, max_distance);
  });
  // The layers of all plans use only a few different tables.
  static std::mutex mutex;
  static std::map<std::pair<std::int64_t, std::int64_t>, std::weak_ptr<const std::vector<std::int32_t>>> known;
  const std::lock_guard lock(mutex);
  auto& table = known[{bins, max_distance}];
  buckets_ = table.lock();
  if (buckets_ != nullptr) return;
  const auto made = std::make_shared<std::vector<std::int32_t>>();
  made->reserve(static_cast<std::size_t>(entries()));
  for (std::int64_t t = -limit(); t <= limit(); ++t) {
    const std::int64_t relative = -std::clamp(t, -reach_, reach_);
    made->push_back(relative_bucket(static_cast<std::int32_t>(relative), static_cast<std::int32_t>(bins_),
                                    static_cast<std::int32_t>(max_distance)));
  }
  table = buckets_ = made;
}

void RelativeBuckets::spread(const float* of_bins, float scale, float* table) const {
  const std::vector<std::int32_t>& buckets = *buckets_;
  for (std::size_t i = 0; i < buckets.size(); ++i) table[i] = scale * of_bins[buckets[i]];
}

void RelativeBuckets::gather(const double* table, double* of_bins) const {
  const std::vector<std::int32_t>& buckets = *buckets_;
  for (std::size_t i = 0; i < buckets.size(); ++i) of_bins[buckets[i]] += table[i];
}

AttentionProblem::AttentionProblem(const Graph& graph, const Node& node) : form(attention_form(node)) {
  const auto& attributes = std::get<AttentionAttributes>(node.attributes);
  const TensorType& q = graph.type(node.inputs[form.q()]);
  check(q.dtype == DType::kF32 || is_half(q.dtype),
        [&] { return fmt::format("node '{}': q, k and v are F32 or halves", node.name); });
  check(attributes.dropout_p >= 0 && attributes.dropout_p < 1 && attributes.site < 65536,
        [&] { return fmt::format("node '{}': dropout is from 0 to below 1, sites are below 65536", node.name); });
  dtype = q.dtype;
  longest = longest_sample(attributes, q.shape[0]);
  width = q.shape[1];
  heads = attributes.heads;
  head_size = width / heads;
  group = heads / key_value_heads(attributes);
  of_keys = {.dtype = dtype, .width = width / group, .head_size = head_size};
  causal = attributes.causal;
  dots = dtype == DType::kBF16 && head_size % 16 == 0 && multiplies_bf16();
  samples = graph.type(node.inputs[form.sample_offsets()]).shape[0] - 1;
  score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
  site = attributes.site;
  dropout = attributes.dropout_p > 0;
  dropout_threshold = plimsoll::dropout_threshold(attributes.dropout_p);
  dropout_scale = static_cast<float>(plimsoll::dropout_scale(attributes.dropout_p));
  for (std::size_t i = 0; i < AttentionForm::kBiases; ++i) {
    if (!form.has_bias[i]) {
      buckets.emplace_back(4, 2);
      continue;
    }
    const TensorType& table = graph.type(node.inputs[form.table(i)]);
    check(table.dtype == DType::kF32, [&] { return fmt::format("node '{}': bias tables are F32", node.name); });
    buckets.emplace_back(table.shape[1], i == 0 ? attributes.max_position_distance : attributes.max_spatial_distance);
  }
  threads = std::max(1, omp_get_max_threads());
}

AttentionData::AttentionData(const KernelArguments& arguments, const AttentionForm& form)
    : q(arguments.inputs[form.q()].raw()),
      k(arguments.inputs[form.q() + 1].raw()),
      v(arguments.inputs[form.q() + 2].raw()),
      sample_offsets(arguments.inputs[form.sample_offsets()].data<const std::int32_t>()),
      key_mask(arguments.inputs[form.key_mask()].data<const std::int32_t>()),
      row_keys(arguments.inputs[form.row_keys()].data<const std::int32_t>()) {
  const std::int32_t* key = arguments.inputs[form.dropout_key()].data<const std::int32_t>();
  dropout_key = {static_cast<std::uint32_t>(key[0]), static_cast<std::uint32_t>(key[1])};
  if (form.tables() > 0) relative_coordinates = arguments.inputs[form.coordinates()].data<const std::int32_t>();
  for (std::size_t i = 0; i < AttentionForm::kBiases; ++i) {
    if (form.has_bias[i]) tables[i] = arguments.inputs[form.table(i)].data<const float>();
  }
}

std::int64_t order_attention_samples(std::span<const std::int32_t> sample_offsets, std::int32_t* order) {
  std::int32_t* end = order;
  const auto length = [&](std::int32_t sample) {
    return sample_offsets[static_cast<std::size_t>(sample) + 1] - sample_offsets[static_cast<std::size_t>(sample)];
  };
  for (std::int32_t sample = 0; static_cast<std::size_t>(sample) + 1 < sample_offsets.size(); ++sample) {
    if (length(sample) > 0) *end++ = sample;
  }
  std::sort(order, end,
            [&](std::int32_t a, std::int32_t b) { return length(a) != length(b) ? length(a) > length(b) : a < b; });
  return end - order;
}

}  // namespace plimsoll
