#include "compress/reconstruction.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "compress/least_squares.h"
#include "graph/build.h"
#include "train/batch_binding.h"

namespace plimsoll {
namespace {

// Nodes of the evaluation graph between which a sublayer's map lies.
struct Place {
  std::size_t linear = 0, add = 0;  // y = x W^T + b; y + skip
  ValueId x = kNoValue, y = kNoValue, skip = kNoValue, row_count = kNoValue;
};

Place find_place(const Graph& graph, const std::string& map) {
  Place place;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.op == Op::kLinear && node.name == map) {
      place = {.linear = n, .x = node.inputs[0], .y = node.outputs[0], .row_count = node.row_count};
    } else if (place.y != kNoValue && node.op == Op::kAdd && std::ranges::count(node.inputs, place.y) == 1) {
      place.add = n;
      place.skip = node.inputs[0] == place.y ? node.inputs[1] : node.inputs[0];
      return place;
    }
  }
  check(false, "a sublayer ends with a map and a residual sum");
  return place;
}

void run_nodes(const Program& program, std::size_t first, std::size_t end) {
  for (std::size_t n = first; n < end; ++n) program.run_node(n);
  program.wait();
}

void read_floats(const DeviceTensor& tensor, std::vector<float>& values) {
  values.resize(static_cast<std::size_t>(tensor.elements()));
  tensor.read(std::as_writable_bytes(std::span(values)));
}

// A model on its way through a window.
class Walk {
 public:
  Walk(const Session& session, const std::string& map)
      : program_(session.program(ProgramKind::kEvaluate)), place_(find_place(program_.graph(), map)) {}

  void begin(const Batch& batch) {
    if (!binding_) binding_.emplace(program_, batch);
    binding_->copy(batch);
    binding_->set_loss_scale(1);
    binding_->set_dropout_key({0, 0});
  }
  // Computes the map's input, and leaves it in `x`.
  void to_input(std::vector<float>& x) {
    run_nodes(program_, 0, place_.linear);
    read_floats(program_.tensor(place_.x), x);
    done_ = place_.linear;
  }
  // Computes y + skip, and leaves it in `sum`; returns how many rows are real.
  std::int64_t to_sum(std::vector<float>& sum) {
    run_nodes(program_, done_, place_.add);
    done_ = 0;
    read_floats(program_.tensor(place_.y), sum);
    read_floats(program_.tensor(place_.skip), skip_);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += skip_[i];
    return program_.tensor(place_.row_count).get<std::int32_t>();
  }

 private:
  const Program& program_;
  Place place_;
  std::optional<BatchBinding> binding_;
  std::size_t done_ = 0;
  std::vector<float> skip_;
};

}  // namespace

// The sums over rows of x x^T and of r x^T, where x [K] ends with a 1 for the bias and r [M] is what is missing. The
// backend multiplies the rows of a window; windows are added up in double precision.
class Reconstruction::Normal {
 public:
  // `shapes`: columns and outputs of every map. The largest map need not need the most: products of few columns have
  // other scratch.
  Normal(std::int64_t rows, const std::set<std::pair<std::int64_t, std::int64_t>>& shapes, Backend& backend)
      : rows_(rows), backend_(backend) {
    std::size_t arena_bytes = 0, gram = 0, right = 0;
    for (const auto& [columns, outputs] : shapes) {
      prepare_for(columns, outputs);
      arena_bytes = std::max(arena_bytes, plan_.arena_bytes());
      gram = std::max(gram, as_size(columns * columns));
      right = std::max(right, as_size(outputs * columns));
    }
    gram_.resize(gram);
    right_.resize(right);
    memory_ = backend.allocate(arena_bytes);
    bind();
  }

  // Begins the equations of a map, which has one of the constructor's shapes.
  void begin(std::int64_t columns, std::int64_t outputs) {
    if (columns != columns_ || outputs != outputs_) {
      program_.reset();
      prepare_for(columns, outputs);
      check(plan_.arena_bytes() <= memory_->bytes().size(), "every map was planned first");
      bind();
    }
    gram_.assign(as_size(columns * columns), 0);
    right_.assign(as_size(outputs * columns), 0);
  }
  // x [n, K] and r [n, M]; rows of zeros add nothing.
  void add(std::span<const float> x, std::span<const float> r) {
    program_->tensor(x_).write(std::as_bytes(x));
    program_->tensor(r_).write(std::as_bytes(r));
    program_->run();
    const auto add_up = [&](ValueId value, std::vector<double>& sums) {
      std::size_t i = 0;
      read_in_pieces(program_->tensor(value), [&](std::span<const std::byte> bytes) {
        const auto* floats = reinterpret_cast<const float*>(bytes.data());
        for (std::size_t j = 0; j < bytes.size() / sizeof(float); ++j) sums[i++] += double{floats[j]};
      });
    };
    add_up(gram_value_, gram_);
    add_up(right_value_, right_);
  }
  std::span<const double> solve(double ridge) {
    solve_ridge(gram_, right_, columns_, ridge);
    return right_;
  }

 private:
  static std::size_t as_size(std::int64_t count) { return static_cast<std::size_t>(count); }

  void prepare_for(std::int64_t columns, std::int64_t outputs) {
    columns_ = columns;
    outputs_ = outputs;
    Graph graph;
    x_ = graph.add_input("x", {DType::kF32, {rows_, columns}});
    r_ = graph.add_input("missing", {DType::kF32, {rows_, outputs}});
    const auto products = [&](const char* name, ValueId a) {
      const ValueId value = add_single(graph, {.op = Op::kLinearWeightGrad, .name = name, .inputs = {a, x_}});
      graph.mark_output(value);
      return value;
    };
    gram_value_ = products("gram", x_);
    right_value_ = products("right", r_);
    prepared_ = prepare(std::move(graph), backend_);
    PersistentLayout layout;
    layout.add(prepared_.graph);
    plan_ = plan_memory(prepared_.graph, prepared_.scratch_bytes(), layout);
  }
  void bind() { program_.emplace(std::move(prepared_), plan_, *memory_); }

  const std::int64_t rows_;
  Backend& backend_;
  std::int64_t columns_ = 0, outputs_ = 0;
  ValueId x_ = kNoValue, r_ = kNoValue, gram_value_ = kNoValue, right_value_ = kNoValue;
  PreparedGraph prepared_;
  MemoryPlan plan_;
  std::unique_ptr<DeviceMemory> memory_;
  std::optional<Program> program_;
  std::vector<double> gram_, right_;
};

Reconstruction::Reconstruction(const std::vector<WeighedUnits>& groups, const Masks& masks, const Encoder& encoder,
                               std::int64_t rows, Backend& backend, const Options& options)
    : backend_(backend), options_(options), rows_(rows) {
  std::map<std::string, LinearMap> computed;
  for (LinearMap& map : encoder.linear_maps()) computed[map.name] = std::move(map);
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const PrunableUnits::Stream& stream : groups[g].units.streams) {
      if (!computed.contains(stream.consumer)) continue;
      Map map{.name = stream.consumer,
              .out = computed[stream.consumer].out,
              .in = computed[stream.consumer].in,
              .kept = {}};
      for (std::int64_t c = 0; c < map.in; ++c) {
        if (masks[g][static_cast<std::size_t>(c / stream.width)]) map.kept.push_back(c);
      }
      shapes.emplace(std::ssize(map.kept) + 1, map.out);
      maps_.push_back(std::move(map));
    }
  }
  normal_ = std::make_unique<Normal>(rows, shapes, backend);
}

Reconstruction::~Reconstruction() = default;

void Reconstruction::run(const Session& whole, const Session& pruned, const WindowPass& pass) {
  // In the order of the graph: what is solved for first changes what comes after it.
  const Graph& graph = pruned.program(ProgramKind::kEvaluate).graph();
  std::ranges::sort(maps_, {}, [&](const Map& map) { return find_place(graph, map.name).linear; });
  bool changed = false;
  for (const Map& map : maps_) {
    changed = changed || std::ssize(map.kept) < map.in;
    if (changed) solve(map, whole, pruned, pass);
  }
}

void Reconstruction::solve(const Map& map, const Session& whole, const Session& pruned, const WindowPass& pass) {
  const ParameterPlace weight = pruned.parameter(map.name + ".weight"), bias = pruned.parameter(map.name + ".bias");
  std::vector<float> weights(static_cast<std::size_t>(map.out * map.in)), biases(static_cast<std::size_t>(map.out));
  weight.read(0, weights);
  bias.read(0, biases);
  const auto in = static_cast<std::size_t>(map.in), out = static_cast<std::size_t>(map.out), kept = map.kept.size();
  std::vector<bool> stays(in, false);
  for (const std::int64_t c : map.kept) stays[static_cast<std::size_t>(c)] = true;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!stays[i % in]) weights[i] = 0;
  }
  weight.write(0, weights);

  normal_->begin(static_cast<std::int64_t>(kept) + 1, map.out);
  Walk of_whole(whole, map.name), of_pruned(pruned, map.name);
  std::vector<float> x, target, sum, columns(static_cast<std::size_t>(rows_) * (kept + 1));
  pass.run(pruned.planned(ProgramKind::kEvaluate).capacity.text_rows, [&](const Batch& batch) {
    of_whole.begin(batch);
    const std::int64_t rows = of_whole.to_sum(target);
    of_pruned.begin(batch);
    of_pruned.to_input(x);
    of_pruned.to_sum(sum);
    for (std::size_t i = 0; i < target.size(); ++i) target[i] -= sum[i];
    std::ranges::fill(columns, 0.0F);
    std::fill(target.begin() + rows * map.out, target.end(), 0.0F);  // what lies behind the real rows is undefined
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      float* const row = &columns[r * (kept + 1)];
      for (std::size_t c = 0; c < kept; ++c) row[c] = x[r * in + static_cast<std::size_t>(map.kept[c])];
      row[kept] = 1;
    }
    normal_->add(columns, target);
  });
  const std::span<const double> change = normal_->solve(options_.ridge);
  for (std::size_t o = 0; o < out; ++o) {
    const std::span<const double> row = change.subspan(o * (kept + 1), kept + 1);
    for (std::size_t c = 0; c < kept; ++c) {
      float& value = weights[o * in + static_cast<std::size_t>(map.kept[c])];
      value = static_cast<float>(value + row[c]);
    }
    biases[o] = static_cast<float>(biases[o] + row[kept]);
  }
  weight.write(0, weights);
  bias.write(0, biases);
}

}  // namespace plimsoll
