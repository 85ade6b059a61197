#include "transform/partial_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "graph/partial_sums.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

// Nodes whose parts are added up together, and the node before which that must be.
struct Group {
  std::vector<std::size_t> nodes{};
  std::size_t before = 0;
};

class Groups {
 public:
  Groups(const Graph& graph, const PartialSumsOf& parts) : graph_(graph), is_open_(graph.values().size(), false) {
    const std::deque<Node>& nodes = graph.nodes();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const Node& node = nodes[n];
      if (std::ranges::any_of(node.inputs, [&](ValueId input) { return is_open_[static_cast<std::size_t>(input)]; })) {
        close(n);
      }
      if (partial_sums(node) > 0 || !summed_outputs(node) || parts(graph, node) == 0) continue;
      open_.nodes.push_back(n);
      for (const ValueId sum : sums_of(node)) is_open_[static_cast<std::size_t>(sum)] = true;
    }
    close(nodes.size());
  }

  // In the order of Group::before.
  const std::vector<Group>& all() const { return groups_; }

  static std::vector<ValueId> sums_of(const Node& node) {
    return {node.outputs.begin() + static_cast<std::ptrdiff_t>(summed_outputs(node).value().first), node.outputs.end()};
  }

 private:
  void close(std::size_t before) {
    if (open_.nodes.size() > 1) {
      open_.before = before;
      groups_.push_back(open_);
    }
    for (const std::size_t n : open_.nodes) {
      for (const ValueId sum : sums_of(graph_.nodes()[n])) is_open_[static_cast<std::size_t>(sum)] = false;
    }
    open_ = {};
  }

  const Graph& graph_;
  std::vector<bool> is_open_;  // by value: a sum of a node of the open group
  Group open_{};
  std::vector<Group> groups_{};
};

}  // namespace

Graph add_sums_late(const Graph& graph, const PartialSumsOf& parts) {
  const Groups groups(graph, parts);
  const std::deque<Node>& nodes = graph.nodes();
  std::vector<bool> in_parts(nodes.size(), false);
  for (const Group& group : groups.all()) {
    for (const std::size_t n : group.nodes) in_parts[n] = true;
  }
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  auto group = groups.all().begin();
  for (std::size_t n = 0; n <= nodes.size(); ++n) {
    if (group != groups.all().end() && group->before == n) {
      PartialSumsAttributes attributes;
      Node all{.op = Op::kAddPartialSums,
               .name = fmt::format("add_partial_sums.{}", group - groups.all().begin()),
               .phase = nodes[group->nodes.front()].phase};
      for (const std::size_t of : group->nodes) {
        all.inputs.push_back(rewriter.mapped(Groups::sums_of(nodes[of]).front()));
        attributes.sums.push_back(summed_outputs(nodes[of]).value().count);
      }
      all.attributes = std::move(attributes);
      const std::vector<ValueId> sums = rewriter.graph().add_node(std::move(all));
      std::size_t sum = 0;
      for (const std::size_t of : group->nodes) {
        for (const ValueId old : Groups::sums_of(nodes[of])) rewriter.map(old, sums[sum++]);
      }
      ++group;
    }
    if (n == nodes.size()) break;
    if (!in_parts[n]) {
      rewriter.copy_node(nodes[n]);
      continue;
    }
    Node node = nodes[n];
    node.attributes = with_partial_sums(node, parts(graph, node));
    rewriter.copy_node(node);  // until the parts are added up, they take the place of the first sum
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
