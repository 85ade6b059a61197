#include "compress/reconstruction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "compress/fewer_layers.h"
#include "compress/least_squares.h"
#include "graph/build.h"
#include "train/batch_binding.h"

namespace plimsoll {
namespace {

// Finds the node of the evaluation graph with this name and op.
std::size_t find_node(const Graph& graph, Op op, const std::string& name) {
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (graph.nodes()[n].op == op && graph.nodes()[n].name == name) return n;
  }
  check(false, [&] { return fmt::format("the graph computes '{}'", name); });
  return 0;
}

// Finds the residual sum after a sublayer's map.
std::size_t find_sum(const Graph& graph, std::size_t linear) {
  const ValueId y = graph.nodes()[linear].outputs[0];
  for (std::size_t n = linear; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.op == Op::kAdd && std::ranges::count(node.inputs, y) == 1) return n;
  }
  check(false, "a sublayer ends with a map and a residual sum");
  return 0;
}

void read_floats(const DeviceTensor& tensor, std::vector<float>& values) {
  values.resize(static_cast<std::size_t>(tensor.elements()));
  tensor.read(std::as_writable_bytes(std::span(values)));
}

}  // namespace

// A model on its way through a window.
class Reconstruction::Walk {
 public:
  explicit Walk(const Session& session)
      : program_(session.program(ProgramKind::kEvaluate)), word_rows_(session.plan().word_rows) {}

  void begin(const Batch& batch) {
    if (!binding_) binding_.emplace(program_, batch, word_rows_);
    binding_->copy(batch);
    binding_->set_loss_scale(1);
    binding_->set_dropout_key({0, 0});
    next_ = 0;
  }
  // Runs the nodes before `end` that have not run yet.
  void to(std::size_t end) {
    for (; next_ < end; ++next_) program_.run_node(next_);
    program_.wait();
  }
  // Read the first output of a node that has just run, or the first input of the next.
  void output(std::size_t node, std::vector<float>& values) const {
    read_floats(program_.tensor(program_.graph().nodes()[node].outputs[0]), values);
  }
  void input(std::size_t node, std::vector<float>& values) const {
    read_floats(program_.tensor(program_.graph().nodes()[node].inputs[0]), values);
  }
  std::int64_t rows(std::size_t node) const {
    return program_.tensor(program_.graph().nodes()[node].row_count).get<std::int32_t>();
  }

  // Returns all values that exist before `node` and are read later, except parameters.
  std::vector<ValueId> alive_at(std::size_t node) const {
    const Graph& graph = program_.graph();
    std::set<ValueId> alive;
    const auto add = [&](ValueId value) {
      if (value == kNoValue || graph.value(value).role == Role::kParameter) return;
      const NodeId producer = graph.value(value).producer;
      if (producer == kNoNode || static_cast<std::size_t>(producer) < node) alive.insert(value);
    };
    for (std::size_t n = node; n < graph.nodes().size(); ++n) {
      for (const ValueId input : graph.nodes()[n].inputs) add(input);
      add(graph.nodes()[n].row_count);
    }
    return {alive.begin(), alive.end()};
  }
  // Rows after the last real one are undefined, and left out.
  std::size_t bytes_of(ValueId value, const std::vector<ValueId>& alive) const {
    const Graph& graph = program_.graph();
    const DeviceTensor tensor = program_.tensor(value);
    const NodeId producer = graph.value(value).producer;
    if (producer == kNoNode) return tensor.bytes();
    const ValueId count = graph.node(producer).row_count;
    if (count == kNoValue || !std::ranges::binary_search(alive, count)) return tensor.bytes();
    return tensor.bytes() / static_cast<std::size_t>(tensor.shape()[0]) *
           static_cast<std::size_t>(program_.tensor(count).get<std::int32_t>());
  }
  std::size_t bytes_at(std::size_t node) const {
    std::size_t bytes = 0;
    const std::vector<ValueId> alive = alive_at(node);
    for (const ValueId value : alive) bytes += program_.tensor(value).bytes();
    return bytes;
  }
  void save(std::vector<std::byte>& state) const {
    state.clear();
    const std::vector<ValueId> alive = alive_at(next_);
    for (const ValueId value : alive) {
      const std::size_t first = state.size(), bytes = bytes_of(value, alive);
      state.resize(first + bytes);
      program_.tensor(value).read(std::span(state).subspan(first, bytes));
    }
  }
  void restore(std::span<const std::byte> state, std::size_t node) {
    next_ = node;
    const std::vector<ValueId> alive = alive_at(node);
    // Sources come first, so counts are known before what they count.
    for (const ValueId value : alive) {
      const std::span<const std::byte> bytes = state.first(bytes_of(value, alive));
      if (program_.is_row_count(value)) {
        std::int32_t rows = 0;
        std::memcpy(&rows, bytes.data(), sizeof(rows));
        program_.set_rows(value, rows);
      } else {
        program_.tensor(value).write(bytes);
      }
      state = state.subspan(bytes.size());
    }
  }

 private:
  const Program& program_;
  BatchBinding::WordRows word_rows_;
  std::optional<BatchBinding> binding_;
  std::size_t next_ = 0;
};

// Goes through the windows of a pass for each step, and runs both models to the place of comparison.
class Reconstruction::Windows {
 public:
  Windows(const Session& whole, const Session& pruned, const WindowPass& pass, const std::vector<Step>& steps,
          std::size_t kept_bytes)
      : whole_(whole),
        pruned_(pruned),
        pass_(pass),
        text_rows_(pruned.planned(ProgramKind::kEvaluate).capacity.text_rows) {
    if (steps.empty() || !std::ranges::is_sorted(steps, {}, &Step::whole_end)) return;
    std::size_t of_whole = 0, of_pruned = 0;  // bytes of a window's states
    for (const Step& step : steps) {
      of_whole = std::max(of_whole, whole_.bytes_at(step.whole_end + 1));
      of_pruned = std::max(of_pruned, pruned_.bytes_at(step.pruned_begin));
    }
    kept_.resize(std::min(static_cast<std::size_t>(pass.windows()),
                          kept_bytes / std::max<std::size_t>(1, of_whole + of_pruned)));
    for (State& state : kept_) {
      state.whole.reserve(of_whole);
      state.pruned.reserve(of_pruned);
    }
  }

  // Calls `compare` for each window that has a label. The whole model has run to the end of the step's place, the
  // pruned one to its beginning.
  void run(const Step& step, const std::function<void(Walk& whole, Walk& pruned)>& compare) {
    std::size_t window = 0;
    const auto visit = [&](const Batch* batch) {
      State* const state = window < kept_.size() ? &kept_[window] : nullptr;
      ++window;
      if (state != nullptr && last_ != nullptr) {
        whole_.restore(state->whole, last_->whole_end + 1);
        pruned_.restore(state->pruned, last_->pruned_begin);
      } else {
        whole_.begin(*batch);
        pruned_.begin(*batch);
      }
      whole_.to(step.whole_end + 1);
      pruned_.to(step.pruned_begin);
      if (state != nullptr) {
        whole_.save(state->whole);
        pruned_.save(state->pruned);
      }
      compare(whole_, pruned_);
    };
    if (last_ == nullptr || windows_ > kept_.size()) {
      pass_.run(text_rows_, [&](const Batch& batch) { visit(&batch); });
      windows_ = window;
    } else {
      while (window < windows_) {
        visit(nullptr);
        if (pass_.on_progress)
          pass_.on_progress(static_cast<std::int64_t>(window), static_cast<std::int64_t>(windows_));
      }
    }
    last_ = &step;
  }

 private:
  struct State {
    std::vector<std::byte> whole, pruned;
  };

  Walk whole_, pruned_;
  const WindowPass& pass_;
  std::int64_t text_rows_;
  std::vector<State> kept_;     // of the first windows, at the place of the last step
  const Step* last_ = nullptr;  // that has been run
  std::size_t windows_ = 0;     // that have labels
};

// The sums over rows of x x^T and of r x^T, where x [K] ends with a 1 for the bias and r [M] is the residual. The
// backend multiplies the rows of a window; windows are added up in double precision.
class Reconstruction::Normal {
 public:
  struct Shape {
    std::int64_t in = 0, columns = 0, outputs = 0;  // of a map: all its input columns, and those of its equations
    friend auto operator<=>(const Shape&, const Shape&) = default;
  };
  using Shapes = std::set<Shape>;

  // `shapes` has those of every map. The largest map does not always need the most: products of few columns have
  // different scratch.
  Normal(std::int64_t rows, const Shapes& shapes, Backend& backend) : rows_(rows), backend_(backend) {
    const Sizes sizes = sizes_of(rows, shapes, backend);
    gram_.resize(sizes.gram);
    right_.resize(sizes.right);
    buffers.weights.resize(sizes.weights);
    buffers.x.resize(sizes.x);
    buffers.columns.resize(sizes.columns);
    buffers.target.resize(sizes.target);
    buffers.sum.resize(sizes.target);
    memory_ = backend.allocate(sizes.arena_bytes);
  }

  // Buffers of the host that a map uses while its equations are made: its weights, a window's rows of its input, all
  // columns and those of its equations, and of the two models' outputs.
  struct Buffers {
    std::vector<float> weights, x, columns, target, sum;
  };
  Buffers buffers;

  struct Sizes {
    std::size_t arena_bytes = 0, gram = 0, right = 0, weights = 0, x = 0, columns = 0,
                target = 0;  // all but the first in numbers

    Bytes bytes() const {
      return {.host = (gram + right) * sizeof(double) + (weights + x + columns + 2 * target) * sizeof(float),
              .device = arena_bytes};
    }
  };
  static Sizes sizes_of(std::int64_t rows, const Shapes& shapes, Backend& backend) {
    Sizes sizes;
    const auto include = [](std::size_t& size, std::int64_t count) { size = std::max(size, as_size(count)); };
    for (const auto& [in, columns, outputs] : shapes) {
      sizes.arena_bytes = std::max(sizes.arena_bytes, Products(rows, columns, outputs, backend).plan.arena_bytes());
      include(sizes.gram, columns * columns);
      include(sizes.right, outputs * columns);
      include(sizes.weights, outputs * in);
      include(sizes.x, rows * in);
      include(sizes.columns, rows * columns);
      include(sizes.target, rows * outputs);
    }
    return sizes;
  }

  // Begins the equations of a map, which has one of the constructor's shapes.
  void begin(std::int64_t columns, std::int64_t outputs) {
    if (columns != columns_ || outputs != outputs_) {
      program_.reset();
      products_ = Products();
      backend_.release_unused();
      products_ = Products(rows_, columns, outputs, backend_);
      check(products_.plan.arena_bytes() <= memory_->bytes().size(), "every map was planned first");
      program_.emplace(std::move(products_.prepared), products_.plan, *memory_);
      columns_ = columns;
      outputs_ = outputs;
    }
    gram_.assign(as_size(columns * columns), 0);
    right_.assign(as_size(outputs * columns), 0);
  }
  // x [n, K] and r [n, M]; rows of zeros add nothing.
  void add(std::span<const float> x, std::span<const float> r) {
    program_->tensor(products_.x).write(std::as_bytes(x));
    program_->tensor(products_.r).write(std::as_bytes(r));
    program_->run();
    const auto add_up = [&](ValueId value, std::vector<double>& sums) {
      std::size_t i = 0;
      read_in_pieces(program_->tensor(value), [&](std::span<const std::byte> bytes) {
        const auto* floats = reinterpret_cast<const float*>(bytes.data());
        for (std::size_t j = 0; j < bytes.size() / sizeof(float); ++j) sums[i++] += double{floats[j]};
      });
    };
    add_up(products_.gram, gram_);
    add_up(products_.right, right_);
  }
  std::span<const double> solve(double ridge) {
    solve_ridge(gram_, right_, columns_, ridge);
    return right_;
  }

 private:
  static std::size_t as_size(std::int64_t count) { return static_cast<std::size_t>(count); }

  // The two products of a map's equations.
  struct Products {
    Products() = default;
    Products(std::int64_t rows, std::int64_t columns, std::int64_t outputs, Backend& backend) {
      Graph graph;
      x = graph.add_input("x", {DType::kF32, {rows, columns}});
      r = graph.add_input("missing", {DType::kF32, {rows, outputs}});
      const auto product = [&](const char* name, ValueId a) {
        const ValueId value = add_single(graph, {.op = Op::kLinearWeightGrad, .name = name, .inputs = {a, x}});
        graph.mark_output(value);
        return value;
      };
      gram = product("gram", x);
      right = product("right", r);
      prepared = prepare(std::move(graph), backend);
      PersistentLayout layout;
      layout.add(prepared.graph);
      plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
    }

    ValueId x = kNoValue, r = kNoValue, gram = kNoValue, right = kNoValue;
    PreparedGraph prepared;
    MemoryPlan plan;
  };

  const std::int64_t rows_;
  Backend& backend_;
  std::int64_t columns_ = 0, outputs_ = 0;
  Products products_;
  std::unique_ptr<DeviceMemory> memory_;
  std::optional<Program> program_;
  std::vector<double> gram_, right_;
};

Reconstruction::Reconstruction(const std::vector<WeighedUnits>& groups, const Masks& masks, const Encoder& encoder,
                               std::int64_t rows, Backend& backend, const Options& options)
    : backend_(backend), options_(options), rows_(rows), layer_ends_(encoder.layer_outputs()) {
  std::map<std::string, LinearMap> computed;
  for (LinearMap& map : encoder.linear_maps()) computed[map.name] = std::move(map);
  Normal::Shapes shapes;
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
      shapes.insert({.in = map.in, .columns = std::ssize(map.kept) + 1, .outputs = map.out});
      maps_.push_back(std::move(map));
    }
  }
  normal_ = std::make_unique<Normal>(rows, shapes, backend);
}

Reconstruction::Bytes Reconstruction::most_bytes(const std::vector<WeighedUnits>& groups, const Encoder& encoder,
                                                 std::int64_t rows, Backend& backend) {
  std::set<std::string> pruned;
  for (const WeighedUnits& group : groups) {
    for (const PrunableUnits::Stream& stream : group.units.streams) pruned.insert(stream.consumer);
  }
  Normal::Shapes shapes;
  for (const LinearMap& map : encoder.linear_maps()) {
    if (pruned.contains(map.name)) shapes.insert({.in = map.in, .columns = map.in + 1, .outputs = map.out});
  }
  return Normal::sizes_of(rows, shapes, backend).bytes();
}

Reconstruction::~Reconstruction() = default;

std::vector<Reconstruction::Step> Reconstruction::steps_of(const Session& whole_session, const Session& pruned_session,
                                                           const std::map<std::string, std::string>& sources) const {
  const Graph& whole = whole_session.program(ProgramKind::kEvaluate).graph();
  const Graph& pruned = pruned_session.program(ProgramKind::kEvaluate).graph();
  std::vector<Step> steps;
  std::map<std::int64_t, std::int64_t> layers;  // the original number of each remaining layer
  for (const Map& map : maps_) {
    const std::string weight = sources.at(map.name + ".weight");
    const std::string before = weight.substr(0, weight.rfind('.'));
    const std::size_t linear = find_node(pruned, Op::kLinear, map.name);
    steps.push_back({.map = &map,
                     .linear = linear,
                     .pruned_end = find_sum(pruned, linear),
                     .whole_end = find_sum(whole, find_node(whole, Op::kLinear, before))});
    layers[layer_of(map.name)] = layer_of(before);
  }
  for (const std::string& norm : layer_ends_) {
    const std::int64_t layer = layer_of(norm);
    const auto next = layers.find(layer + 1);
    if (next == layers.end() || next->second == layers.at(layer) + 1) continue;
    steps.push_back({.norm = norm,
                     .pruned_end = find_node(pruned, Op::kLayerNorm, norm),
                     .whole_end = find_node(whole, Op::kLayerNorm, renumbered(norm, layer, next->second - 1))});
  }
  // Steps follow the order of the graph, because solving a map changes what comes after it.
  std::ranges::sort(steps, {}, &Step::pruned_end);
  // Up to the first change, both models are the same.
  const auto changes = [&](const Step& step) {
    return step.map == nullptr || std::ssize(step.map->kept) < step.map->in ||
           sources.at(step.map->name + ".weight") != step.map->name + ".weight";
  };
  steps.erase(steps.begin(), std::ranges::find_if(steps, changes));
  // A place begins at the node with the fewest bytes alive, among those between the previous place and the comparison.
  const Walk walk(pruned_session);
  std::size_t first = 0;
  for (Step& step : steps) {
    const std::size_t last = step.map == nullptr ? step.pruned_end : step.linear;
    std::size_t least = SIZE_MAX;
    for (std::size_t node = first; node <= last; ++node) {
      const std::size_t bytes = walk.bytes_at(node);
      if (bytes < least) step.pruned_begin = node;
      least = std::min(least, bytes);
    }
    first = step.pruned_end + 1;
  }
  return steps;
}

void Reconstruction::run(const Session& whole, const Session& pruned, const std::map<std::string, std::string>& sources,
                         const WindowPass& pass, std::size_t kept_bytes) {
  const std::vector<Step> steps = steps_of(whole, pruned, sources);
  Windows windows(whole, pruned, pass, steps, kept_bytes);
  for (const Step& step : steps) {
    if (step.map == nullptr) {
      solve_norm(step, pruned, windows);
    } else {
      solve_map(step, pruned, windows);
    }
  }
}

void Reconstruction::solve_map(const Step& step, const Session& pruned, Windows& windows) {
  const Map& map = *step.map;
  const ParameterPlace weight = pruned.parameter(map.name + ".weight"), bias = pruned.parameter(map.name + ".bias");
  Normal::Buffers& buffers = normal_->buffers;
  std::vector<float>&weights = buffers.weights, &x = buffers.x, &columns = buffers.columns, &target = buffers.target,
  &sum = buffers.sum;
  std::vector<float> biases(static_cast<std::size_t>(map.out));
  weights.resize(static_cast<std::size_t>(map.out * map.in));
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
  columns.resize(static_cast<std::size_t>(rows_) * (kept + 1));
  windows.run(step, [&](const Walk& of_whole, Walk& of_pruned) {
    of_whole.output(step.whole_end, target);
    of_pruned.to(step.linear);
    of_pruned.input(step.linear, x);
    of_pruned.to(step.pruned_end + 1);
    of_pruned.output(step.pruned_end, sum);
    const std::int64_t rows = of_pruned.rows(step.pruned_end);
    for (std::size_t i = 0; i < target.size(); ++i) target[i] -= sum[i];
    std::ranges::fill(columns, 0.0F);
    std::fill(target.begin() + rows * map.out, target.end(), 0.0F);  // rows after the real ones are undefined
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

void Reconstruction::solve_norm(const Step& step, const Session& pruned, Windows& windows) {
  const ParameterPlace weight = pruned.parameter(step.norm + ".weight"), bias = pruned.parameter(step.norm + ".bias");
  const auto width = static_cast<std::size_t>(pruned.persistent(step.norm + ".weight").elements());
  std::vector<float> weights(width), biases(width);
  std::vector<float>&from = normal_->buffers.sum, &target = normal_->buffers.target;
  weight.read(0, weights);
  bias.read(0, biases);
  // By column: sums over rows of the pruned model's x and the whole one's y.
  struct Sums {
    double x = 0, y = 0, xx = 0, xy = 0;
  };
  std::vector<Sums> sums(width);
  double count = 0;
  windows.run(step, [&](const Walk& of_whole, Walk& of_pruned) {
    of_whole.output(step.whole_end, target);
    of_pruned.to(step.pruned_end + 1);
    of_pruned.output(step.pruned_end, from);
    const auto rows = static_cast<std::size_t>(of_pruned.rows(step.pruned_end));
    count += static_cast<double>(rows);
    for (std::size_t i = 0; i < rows * width; ++i) {
      Sums& of = sums[i % width];
      const double x = from[i], y = target[i];
      of.x += x;
      of.y += y;
      of.xx += x * x;
      of.xy += x * y;
    }
  });
  if (count == 0) return;
  for (std::size_t c = 0; c < width; ++c) {
    const double x = sums[c].x / count, y = sums[c].y / count, spread = sums[c].xx / count - x * x;
    // A column that is the same in all rows can only be shifted.
    const double factor = spread > 1e-12 * sums[c].xx / count ? (sums[c].xy / count - x * y) / spread : 1;
    weights[c] = static_cast<float>(factor * weights[c]);
    biases[c] = static_cast<float>(factor * biases[c] + y - factor * x);
  }
  weight.write(0, weights);
  bias.write(0, biases);
}

}  // namespace plimsoll
