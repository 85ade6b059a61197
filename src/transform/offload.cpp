#include "transform/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/offload_file.h"
#include "graph/update_form.h"
#include "tensor/dynamic_code.h"
#include "transform/optimizer.h"
#include "transform/readers.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

// Estimates for nodes and the disk may be wrong by this factor without causing a wait.
constexpr double kMargin = 1.5;
// A tensor that is read again within this many times the seconds of its fetch, with that margin, stays until then.
constexpr double kNear = 4;
// Parameters that are fetched ahead take at most this many times the bytes of the largest.
constexpr std::size_t kReadAhead = 2;

bool has_offloadable_states(const Node& node) { return node.op == Op::kAdamW || node.op == Op::kAdamWRows; }

// Returns whether the update is one of several for its parameter, which share its moments.
bool shares_moments(const Node& update) { return std::get<AdamWAttributes>(update.attributes).whole_moments; }

// Returns the parameter or state that updates turned into `id`.
ValueId source_of(const Graph& graph, ValueId id) {
  while (graph.value(id).producer != kNoNode) {
    const Node& update = graph.node(graph.value(id).producer);
    check(is_parameter_update(update.op), "only updates change what an update reads");
    id = update.inputs[static_cast<std::size_t>(graph.value(id).output_index)];
  }
  return id;
}

std::size_t state_bytes(const Graph& graph, const Node& update) {
  const UpdateForm form = update_form(graph, update);
  std::size_t bytes = 0;
  for (std::size_t i = form.states(); i < form.gradient(); ++i) bytes += graph.type(update.inputs[i]).bytes();
  return bytes;
}

// Parts of a parameter, or of its half in two bytes, begin at a block of the file.
constexpr std::int64_t kParameterUnit = kOffloadAlignment / 2;
static_assert(kParameterUnit % kStateBlock == 0);

bool exchanges_tensors(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return is_collective(node.op); });
}

// Returns the nodes that read a parameter, without its update.
std::vector<NodeId> without_update(const Graph& graph, std::vector<NodeId> readers) {
  std::erase_if(readers, [&](NodeId reader) { return is_parameter_update(graph.node(reader).op); });
  return readers;
}

// Returns whether the node may be cut: it updates every element of its parameter, and its outputs are not read.
bool is_cut_update(const Graph& graph, const std::vector<std::vector<NodeId>>& readers, const Node& update) {
  if (update.op != Op::kAdamW || std::get<AdamWAttributes>(update.attributes).count > 0) return false;
  return std::ranges::none_of(update.outputs, [&](ValueId output) {
    return is_output(graph, output) || !readers[static_cast<std::size_t>(output)].empty();
  });
}

bool is_offloadable_parameter(const Graph& graph, ValueId id, const std::vector<std::vector<NodeId>>& readers,
                              std::size_t smallest) {
  const Value& value = graph.value(id);
  if (value.producer != kNoNode || value.role != Role::kParameter || value.type.bytes() < smallest) return false;
  const std::vector<NodeId>& reading = readers[static_cast<std::size_t>(id)];
  if (is_output(graph, id) || without_update(graph, reading).empty()) return false;
  bool trains = false, makes_logits = false;
  for (const NodeId reader : reading) {
    const Node& node = graph.node(reader);
    if (node.op == Op::kEmbedding) return false;
    if (is_parameter_update(node.op)) {
      if (trains || !is_cut_update(graph, readers, node)) return false;
      trains = true;
    } else if (node.op == Op::kLinear) {
      makes_logits |= std::ranges::any_of(readers[static_cast<std::size_t>(node.outputs[0])],
                                          [&](NodeId next) { return graph.node(next).op == Op::kCrossEntropy; });
    }
  }
  return !trains || !makes_logits;
}

// True for a value that forward makes, backward reads, and that owns its bytes.
bool is_kept_activation(const Graph& graph, ValueId id, const std::vector<NodeId>& readers, std::size_t smallest) {
  const Value& value = graph.value(id);
  if (value.producer == kNoNode || value.role != Role::kActivation || value.type.bytes() < smallest) return false;
  if (graph.node(value.producer).phase != Phase::kForward) return false;
  if (is_output(graph, id)) return false;
  return std::any_of(readers.begin(), readers.end(),
                     [&](NodeId reader) { return graph.node(reader).phase != Phase::kForward; });
}

// A range of an update's elements.
struct Stretch {
  std::int64_t first = 0, count = 0;
  std::size_t index = 0;  // index among the ranges of the update
};

// `unit`: what every range but the last is a multiple of.
std::vector<Stretch> stretches(std::int64_t elements, std::size_t element_bytes, std::size_t piece_bytes,
                               std::int64_t unit) {
  const std::int64_t most = std::max(unit, static_cast<std::int64_t>(piece_bytes / element_bytes));
  const std::int64_t pieces = (elements + most - 1) / most;
  const std::int64_t each = (elements + pieces - 1) / pieces;
  const std::int64_t step = (each + unit - 1) / unit * unit;
  std::vector<Stretch> all;
  for (std::int64_t first = 0; first < elements; first += step) {
    all.push_back({.first = first, .count = std::min(step, elements - first), .index = all.size()});
  }
  return all;
}

// One use of a tensor in the sequence of steps, with its fetch and, if it is stored, its store.
struct Use {
  std::int64_t ticket = 0;
  std::vector<TransferAttributes::Part> parts;
  std::string name;
};

// One computing node of the new graph, with the fetches before it and the stores after it.
struct Step {
  const Node* node = nullptr;
  Stretch part{};  // set for an update whose states are offloaded; count 0: the whole node
  double seconds = 0;
  std::vector<std::size_t> fetch_begins{};  // before it: indices into fetches
  std::vector<std::size_t> fetch_ends{};    // before it, after those
  std::vector<std::size_t> store_begins{};  // after it: indices into stores
  std::vector<std::size_t> store_ends{};    // before it, first of all
};

struct Fetch {
  Use use;
  std::vector<ValueId> values;    // values of the old graph that the fetched ones replace; none: parts of an update
  std::vector<ValueId> arriving;  // values of the new graph
};
struct Store {
  Use use;
  std::vector<ValueId> values;  // values of the old graph
  std::vector<ValueId> leaving;
};

class Offloader {
 public:
  Offloader(const Graph& graph, const std::set<std::string>& names, const OffloadOptions& options,
            OffloadLayout& layout)
      : graph_(graph), names_(names), options_(options), layout_(layout), rewriter_(graph) {}

  Graph run() {
    list_steps();
    plan_states();
    plan_activations();
    plan_parameters();
    emit();
    return rewriter_.take();
  }

 private:
  double read_seconds(const Use& use) const { return seconds(use, options_.read_seconds_per_byte); }
  double write_seconds(const Use& use) const { return seconds(use, options_.write_seconds_per_byte); }
  static double seconds(const Use& use, double per_byte) {
    double bytes = 0;
    for (const auto& part : use.parts) bytes += static_cast<double>(part.moved_bytes());
    return bytes * per_byte;
  }

  bool is_offloaded_parameter(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.role == Role::kParameter && value.producer == kNoNode && names_.contains(value.name);
  }
  // Updates of parts of a parameter are offloaded if an update of the whole would be.
  bool is_offloaded_update(const Node& node) const {
    if (!has_offloadable_states(node)) return false;
    if (is_offloaded_parameter(node.inputs[0])) return true;
    const std::string name =
        shares_moments(node) ? update_name(graph_.value(source_of(graph_, node.inputs[0])).name) : node.name;
    return names_.contains(name) && state_bytes(graph_, node) >= options_.smallest_bytes;
  }

  void list_steps() {
    for (const Node& node : graph_.nodes()) {
      first_step_.push_back(steps_.size());
      const double seconds = options_.node_seconds(graph_, node);
      if (!is_offloaded_update(node)) {
        steps_.push_back({.node = &node, .seconds = seconds});
        continue;
      }
      const UpdateForm form = update_form(graph_, node);
      const bool with_parameter = is_offloaded_parameter(node.inputs[0]);
      const std::size_t of_state = dtype_bytes(graph_.type(node.inputs[form.states()]).dtype);
      const std::size_t element_bytes = with_parameter ? std::max(of_state, dtype_bytes(DType::kF32)) : of_state;
      // The update may itself be of only a part of its parameter.
      const auto& attributes = std::get<AdamWAttributes>(node.attributes);
      const std::int64_t elements =
          attributes.count > 0 ? attributes.count : graph_.type(node.inputs[form.states()]).shape.elements();
      for (const Stretch& part :
           stretches(elements, element_bytes, options_.piece_bytes, with_parameter ? kParameterUnit : kStateBlock)) {
        steps_.push_back({.node = &node,
                          .part = part,
                          .seconds = seconds * static_cast<double>(part.count) / static_cast<double>(elements)});
      }
      for (std::size_t i = form.states(); i < form.gradient(); ++i) {
        const ValueId state = source_of(graph_, node.inputs[i]);
        offloaded_sources_.insert(state);
        layout_.set_state(graph_.value(state).name, {.type = graph_.type(state), .pieces = {}});
      }
      for (std::size_t i = 0; with_parameter && i < form.parameter_parts; ++i) {
        offloaded_sources_.insert(node.inputs[i]);
      }
    }
  }

  // Returns the latest step, not before `first`, at which a transfer of `needed` seconds must begin to arrive at
  // `use`.
  std::size_t step_before(std::size_t use, std::size_t first, double needed) const {
    double passed = 0;
    while (use > first && passed < kMargin * needed) passed += steps_[--use].seconds;
    return use;
  }
  // Returns the first step, not after `last`, at which a transfer that begins after step `from` and takes `needed`
  // seconds is complete.
  std::size_t step_after(std::size_t from, std::size_t last, double needed) const {
    std::size_t at = from + 1;
    double passed = 0;
    while (at < last && passed < kMargin * needed) passed += steps_[at++].seconds;
    return std::min(at, last);
  }

  // Returns the place of a state's next piece.
  TransferAttributes::Part state_part(const std::string& state, const TensorType& type) {
    std::vector<OffloadLayout::Piece>& pieces = pieces_[state];
    pieces.push_back(layout_.place(fmt::format("{}[{}]", state, pieces.size()), type.bytes()));
    return {.offset = pieces.back().offset, .type = type};
  }

  // Returns where a file holds the parameter in a form that can be read from there; nullptr if nowhere.
  const StoredTensor* stored(ValueId id) const {
    if (options_.stored == nullptr) return nullptr;
    const auto found = options_.stored->find(graph_.value(id).name);
    if (found == options_.stored->end()) return nullptr;
    const DType in_file = found->second.dtype, here = graph_.type(id).dtype;
    const bool widens = here == DType::kF32 && (in_file == DType::kBF16 || in_file == DType::kF16);
    return in_file == here || widens ? &found->second : nullptr;
  }

  const OffloadLayout::Parameter& place_parameter(ValueId id) {
    return layout_.place_parameter(graph_.value(id).name, graph_.type(id), stored(id));
  }

  // Fetches each part of each update one part ahead, and waits for a store when the part after the next begins.
  void plan_states() {
    std::vector<std::size_t> users;  // step numbers
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].part.count > 0) users.push_back(s);
    }
    std::vector<std::size_t> begins;  // step numbers at which their fetches begin
    for (std::size_t u = 0; u < users.size(); ++u) {
      const std::size_t s = users[u];
      Step& step = steps_[s];
      const Node& node = *step.node;
      const UpdateForm form = update_form(graph_, node);
      const std::size_t piece = step.part.index;
      Use use{.ticket = next_ticket_++, .parts = {}, .name = fmt::format("{}.part{}", node.name, piece)};
      for (std::size_t i = 0; i < form.parameter_parts && is_offloaded_parameter(node.inputs[0]); ++i) {
        const OffloadLayout::Parameter& whole = place_parameter(node.inputs[i]);
        check(!whole.stored, "what trains is not read in the model's own file");
        const std::size_t first = static_cast<std::size_t>(step.part.first) * dtype_bytes(whole.type.dtype);
        use.parts.push_back({.offset = whole.offset + first, .type = {whole.type.dtype, {step.part.count}}});
      }
      for (std::size_t i = form.states(); i < form.gradient(); ++i) {
        const Value& state = graph_.value(source_of(graph_, node.inputs[i]));
        const bool sums = form.coded && (i - form.states()) % 2 == 1;  // a block's largest magnitude
        const std::int64_t count = sums ? code_blocks(step.part.count) : step.part.count;
        use.parts.push_back(state_part(state.name, {state.type.dtype, {count}}));
      }
      Use back = use;
      back.ticket = next_ticket_++;
      const std::size_t earliest = u == 0 ? 0 : users[u - 1];
      // The disk may still be busy with the stores and fetches of the previous update.
      const std::size_t begin = step_before(s, earliest, 2 * read_seconds(use) + write_seconds(use));
      begins.push_back(begin);
      steps_[begin].fetch_begins.push_back(fetches_.size());
      step.fetch_ends.push_back(fetches_.size());
      fetches_.push_back({.use = std::move(use), .values = {}, .arriving = {}});
      step.store_begins.push_back(stores_.size());
      stores_.push_back({.use = std::move(back), .values = {}, .leaving = {}});
    }
    for (std::size_t u = 0; u < users.size(); ++u) {
      // At most two parts wait to be written, so staging holds what a part and its two neighbours need.
      const std::size_t last = u + 2 < users.size() ? begins[u + 2] : steps_.size();
      const Use& use = stores_[u].use;
      end_store(u, step_after(users[u], std::max(last, users[u] + 1), 2 * write_seconds(use) + read_seconds(use)));
    }
    for (auto& [state, list] : pieces_) {
      const std::string& name = state;
      const TensorType& type = layout_.states().at(name).type;
      const auto add = [](std::size_t sum, const OffloadLayout::Piece& piece) { return sum + piece.bytes; };
      check(std::accumulate(list.begin(), list.end(), std::size_t{0}, add) == type.bytes(),
            [&] { return fmt::format("the pieces of '{}' are all of it", name); });
      layout_.set_state(name, {.type = type, .pieces = std::move(list)});
    }
  }

  void end_store(std::size_t store, std::size_t step) {
    (step < steps_.size() ? steps_[step].store_ends : last_store_ends_).push_back(store);
  }

  void plan_activations() {
    const auto readers = readers_of(graph_);
    for (std::size_t v = 0; v < readers.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (names_.contains(graph_.value(id).name) &&
          is_kept_activation(graph_, id, readers[v], options_.smallest_bytes)) {
        plan_activation(id, readers[v]);
      }
    }
  }

  void plan_activation(ValueId id, const std::vector<NodeId>& readers) {
    const Value& value = graph_.value(id);
    const std::size_t made = first_step_[static_cast<std::size_t>(value.producer)];
    const OffloadLayout::Piece place = layout_.place(value.name, value.type.bytes());
    Use use{.ticket = next_ticket_, .parts = {{.offset = place.offset, .type = value.type}}, .name = value.name};
    const std::size_t stored = step_after(made, steps_.size(), write_seconds(use));
    // Readers in backward that are close together share one fetch.
    const double near = kNear * kMargin * read_seconds(use);
    std::vector<std::pair<std::size_t, std::size_t>> fetched;  // where a fetch begins, and ends before its first reader
    std::size_t before = 0;
    for (const NodeId reader : readers) {
      const std::size_t at = first_step_[static_cast<std::size_t>(reader)];
      if (graph_.node(reader).phase == Phase::kForward) continue;
      double passed = 0;
      for (std::size_t s = before; s < at && !fetched.empty(); ++s) passed += steps_[s].seconds;
      if (fetched.empty() || passed > near) {
        fetched.emplace_back(step_before(at, std::max(stored, before), read_seconds(use)), at);
      }
      before = at;
    }
    if (fetched.empty() || fetched.front().second <= stored) return;  // it is read again before the store could end
    ++next_ticket_;
    steps_[made].store_begins.push_back(stores_.size());
    end_store(stores_.size(), stored);
    stores_.push_back({.use = use, .values = {id}, .leaving = {}});
    for (const auto& [begin, end] : fetched) {
      Use again = use;
      again.ticket = next_ticket_++;
      steps_[begin].fetch_begins.push_back(fetches_.size());
      steps_[end].fetch_ends.push_back(fetches_.size());
      fetches_.push_back({.use = std::move(again), .values = {id}, .arriving = {}});
    }
  }

  // One fetch of a parameter, for readers that are close together.
  struct Read {
    std::size_t use = 0;  // the step of its first reader
    ValueId parameter = kNoValue;
    double seconds = 0;
    std::size_t begin = 0;
  };

  void plan_parameters() {
    const auto readers = readers_of(graph_);
    std::vector<Read> reads;
    for (std::size_t v = 0; v < readers.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (!is_offloaded_parameter(id)) continue;
      offloaded_sources_.insert(id);
      const double seconds = static_cast<double>(place_parameter(id).file_bytes()) * options_.read_seconds_per_byte;
      list_reads(id, seconds, without_update(graph_, readers[v]), reads);
    }
    std::ranges::stable_sort(reads, {}, &Read::use);
    begin_reads(reads);
    for (const Read& read : reads) {
      const OffloadLayout::Parameter& place = place_parameter(read.parameter);
      steps_[read.begin].fetch_begins.push_back(fetches_.size());
      steps_[read.use].fetch_ends.push_back(fetches_.size());
      fetches_.push_back(
          {.use = {.ticket = next_ticket_++,
                   .parts = {{.offset = place.offset, .type = place.type, .file_bytes = place.file_bytes()}},
                   .name = graph_.value(read.parameter).name},
           .values = {read.parameter},
           .arriving = {}});
    }
  }

  void list_reads(ValueId id, double seconds, const std::vector<NodeId>& readers, std::vector<Read>& reads) const {
    std::optional<std::size_t> before;  // the step of the reader before
    for (const NodeId reader : readers) {
      const std::size_t at = first_step_[static_cast<std::size_t>(reader)];
      double passed = 0;
      for (std::size_t s = before.value_or(at); s < at; ++s) passed += steps_[s].seconds;
      if (!before || passed > kNear * kMargin * seconds) reads.push_back({at, id, seconds, at});
      before = at;
    }
  }

  // The disk reads one parameter after the other. Each read begins in time for its reader and for the next read, and at
  // most kReadAhead times the largest parameter is on its way at once: a disk that is slower than the computation gets
  // no more memory.
  void begin_reads(std::vector<Read>& reads) const {
    std::vector<double> starts = {0};  // of steps, and the end of the last
    for (const Step& step : steps_) starts.push_back(starts.back() + step.seconds);
    std::size_t most = 0;
    for (const Read& read : reads) most = std::max(most, kReadAhead * graph_.type(read.parameter).bytes());
    double deadline = starts.back();
    for (std::size_t u = reads.size(); u-- > 0;) {
      Read& read = reads[u];
      std::size_t ahead = graph_.type(read.parameter).bytes(), earliest = 0;
      for (std::size_t before = u; before-- > 0;) {
        ahead += graph_.type(reads[before].parameter).bytes();
        if (ahead <= most) continue;
        earliest = reads[before].use;
        break;
      }
      const double begin = std::min(deadline, starts[read.use]) - kMargin * read.seconds;
      while (read.begin > earliest && starts[read.begin] > begin) --read.begin;
      deadline = starts[read.begin];
    }
  }

  std::vector<ValueId> add_transfer(Op op, const Use& use, std::vector<ValueId> inputs, Phase phase) {
    return rewriter_.graph().add_node({.op = op,
                                       .name = fmt::format("{}.{}", use.name, op_name(op)),
                                       .attributes = TransferAttributes{.ticket = use.ticket, .parts = use.parts},
                                       .inputs = std::move(inputs),
                                       .phase = phase});
  }

  void emit() {
    rewriter_.copy_sources([this](ValueId source) { return offloaded_sources_.contains(source); });
    for (Step& step : steps_) {
      const Phase phase = step.node->phase;
      for (const std::size_t s : step.store_ends)
        add_transfer(Op::kStoreEnd, stores_[s].use, stores_[s].leaving, phase);
      for (const std::size_t f : step.fetch_begins) {
        fetches_[f].arriving = add_transfer(Op::kFetchBegin, fetches_[f].use, {}, phase);
      }
      std::vector<ValueId> parts;  // of this part of an update, after they arrived
      for (const std::size_t f : step.fetch_ends) {
        Fetch& fetch = fetches_[f];
        const std::vector<ValueId> arrived = add_transfer(Op::kFetchEnd, fetch.use, fetch.arriving, phase);
        for (std::size_t i = 0; i < fetch.values.size(); ++i) rewriter_.map(fetch.values[i], arrived[i]);
        if (fetch.values.empty()) parts = arrived;
      }
      if (step.part.count > 0) {
        emit_part(step, parts);
      } else {
        rewriter_.copy_node(*step.node);
      }
      for (const std::size_t s : step.store_begins) {
        Store& store = stores_[s];
        std::vector<ValueId> inputs = store.values.empty() ? parts_made_ : std::vector<ValueId>();
        for (const ValueId value : store.values) inputs.push_back(rewriter_.mapped(value));
        store.leaving = add_transfer(Op::kStoreBegin, store.use, std::move(inputs), phase);
        for (std::size_t i = 0; i < store.values.size(); ++i) rewriter_.map(store.values[i], store.leaving[i]);
      }
    }
    for (const std::size_t s : last_store_ends_) {
      add_transfer(Op::kStoreEnd, stores_[s].use, stores_[s].leaving, steps_.back().node->phase);
    }
    rewriter_.copy_outputs();
  }

  // Emits one part of an update; a parameter that is not offloaded passes through all parts.
  void emit_part(const Step& step, const std::vector<ValueId>& arrived) {
    const Node& whole = *step.node;
    const UpdateForm form = update_form(graph_, whole);
    const bool first = step.part.first == 0;
    Node part = whole;
    part.name = fmt::format("{}.part{}", whole.name, step.part.index);
    auto attributes = std::get<AdamWAttributes>(whole.attributes);
    attributes.first += step.part.first;
    attributes.count = step.part.count;
    attributes.whole_moments = false;
    const bool with_parameter = is_offloaded_parameter(whole.inputs[0]);
    if (with_parameter) attributes.parameter_first = attributes.first;
    part.attributes = attributes;
    const std::size_t moved = with_parameter ? 0 : form.states();  // the first input that was fetched
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      ValueId& input = part.inputs[i];
      if (i >= moved && i < form.gradient()) {
        input = arrived[i - moved];
      } else {
        // The parameter's inputs are the outputs of the previous part.
        input = rewriter_.mapped(i < form.states() && !first ? whole.outputs[i] : input);
      }
    }
    const std::vector<ValueId> outputs = rewriter_.graph().add_node(std::move(part));
    for (std::size_t i = 0; i < moved; ++i) rewriter_.map(whole.outputs[i], outputs[i]);
    parts_made_.assign(outputs.begin() + static_cast<std::ptrdiff_t>(moved), outputs.end());
  }

  const Graph& graph_;
  const std::set<std::string>& names_;
  const OffloadOptions& options_;
  OffloadLayout& layout_;
  Rewriter rewriter_;
  std::vector<Step> steps_;
  std::vector<std::size_t> first_step_;  // by node
  std::vector<Fetch> fetches_;
  std::vector<Store> stores_;
  std::vector<std::size_t> last_store_ends_;
  std::set<ValueId> offloaded_sources_;
  std::map<std::string, std::vector<OffloadLayout::Piece>> pieces_;
  std::vector<ValueId> parts_made_;  // of what was fetched, by the last part of an update
  std::int64_t next_ticket_ = 0;
};

}  // namespace

std::vector<Offloading> rank_offloads(const Graph& graph, const OffloadOptions& options) {
  std::vector<Offloading> ranked;
  for (const Node& node : graph.nodes()) {
    if (!has_offloadable_states(node) || shares_moments(node)) continue;
    const std::size_t bytes = state_bytes(graph, node);
    if (bytes >= options.smallest_bytes) ranked.push_back({.name = node.name, .bytes = bytes});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [&](const Offloading& a, const Offloading& b) {
    const bool a_small = a.bytes < options.piece_bytes, b_small = b.bytes < options.piece_bytes;
    return a_small != b_small ? b_small : a.bytes < b.bytes;
  });
  const auto readers = readers_of(graph);
  for (std::size_t v = 0; v < readers.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!is_kept_activation(graph, id, readers[v], options.smallest_bytes)) continue;
    ranked.push_back(
        {.name = graph.value(id).name, .kind = Offloading::Kind::kActivation, .bytes = graph.type(id).bytes()});
  }
  if (exchanges_tensors(graph)) return ranked;
  std::vector<std::pair<NodeId, Offloading>> parameters;  // by their first readers
  for (std::size_t v = 0; v < readers.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!is_offloadable_parameter(graph, id, readers, options.smallest_bytes)) continue;
    parameters.push_back(
        {readers[v].front(),
         {.name = graph.value(id).name, .kind = Offloading::Kind::kParameter, .bytes = graph.type(id).bytes()}});
  }
  std::ranges::stable_sort(parameters, {}, &std::pair<NodeId, Offloading>::first);
  for (auto& [reader, parameter] : parameters) ranked.push_back(std::move(parameter));
  return ranked;
}

Graph offload(const Graph& graph, const std::set<std::string>& names, const OffloadOptions& options,
              OffloadLayout& layout) {
  return Offloader(graph, names, options, layout).run();
}

}  // namespace plimsoll
