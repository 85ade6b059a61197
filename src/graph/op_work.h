// The work of nodes whose rows are all real: multiply-adds for matrix products and attention, elements read and written
// for everything else. An op's row (graph/op_facts.h) names one of these; plan/cost.h turns work into seconds.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

double no_work(const Graph& graph, const Node& node);         // a transfer, which takes the disk's time, or less than others save
double element_work(const Graph& graph, const Node& node);    // all inputs and outputs
double lookup_work(const Graph& graph, const Node& node);     // the rows that are looked up, not the whole table
double linear_work(const Graph& graph, const Node& node);     // output elements times columns of the first input
double row_norms_work(const Graph& graph, const Node& node);  // the product b a, and the weight
double linear_input_grad_work(const Graph& graph, const Node& node);
double linear_weight_grad_work(const Graph& graph, const Node& node);
double pair_scores_grad_work(const Graph& graph, const Node& node);  // two products
double contrastive_work(const Graph& graph, const Node& node);    // three products of every row with the other side's
double cached_attention_work(const Graph& graph, const Node& node);
double attention_work(const Graph& graph, const Node& node);      // rows are spread evenly over the samples; both passes
double relation_loss_work(const Graph& graph, const Node& node);  // as attention, of both tensors
double adamw_work(const Graph& graph, const Node& node);          // of a part: its share of the whole

}  // namespace plimsoll
