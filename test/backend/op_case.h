// OpCase: one op on one difficult shape, described once. The tests in test/backend use it for: the gradient rules
// against finite differences (gradient_test.cpp), the reference in F32 against itself in F64 (reference_test.cpp), and
// any other backend against the reference, forward and backward, with outputs in their own memory and in place
// (backend_suite.h).
//
//   {"linear/plain", [](CaseBuilder& b) {
//      const ValueId x = b.tensor("x", {5, 12}, 3);                       // 3 of 5 rows are real
//      const ValueId y = linear(b.graph, "y", x, b.tensor("weight", {7, 12}), kNoValue, b.rows(3));
//      b.objective(y);
//    }}
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autodiff/autodiff.h"
#include "base/philox.h"
#include "graph/build.h"
#include "support/graph_runner.h"

namespace plimsoll::test {

inline constexpr std::int64_t kAllRows = -1;

struct Range {
  double low = -1, high = 1;
};

class CaseBuilder {
 public:
  // Floating tensors are of `dtype`. Their values are the same, and exact in float, for F32 and F64; they are rounded
  // for halves.
  CaseBuilder(DType dtype, std::string_view case_name);

  Graph graph;
  DType dtype() const { return dtype_; }

  // Add sources with random values. Rows from `real_rows` on are poisoned.
  ValueId tensor(std::string name, Shape shape, std::int64_t real_rows = kAllRows, Range range = {});  // has a gradient
  ValueId constant(std::string name, Shape shape, std::int64_t real_rows = kAllRows, Range range = {});
  ValueId state(std::string name, Shape shape, std::int64_t real_rows = kAllRows, Range range = {});
  // Adds a source in the wide type of `dtype` (tensor/dtype.h): the F32 tensors of a node with halves.
  ValueId wide_tensor(std::string name, Shape shape, Range range = {});
  ValueId wide_constant(std::string name, Shape shape, Range range = {});
  ValueId wide_state(std::string name, Shape shape, std::int64_t real_rows = kAllRows);
  // Adds a matrix without gradient, Q8 or NF4; in a graph of F64, the values of its codes.
  ValueId coded(std::string name, DType code, Shape shape);
  // Add sources with given values; if there are fewer than the tensor has, the rest is poisoned.
  ValueId integers(std::string name, Shape shape, std::vector<std::int32_t> values);
  ValueId integer_state(std::string name, Shape shape, std::vector<std::int32_t> values);
  ValueId values(std::string name, TensorType type, std::vector<double> values);
  ValueId state_values(std::string name, TensorType type, std::vector<double> values);
  // Returns a random number that is exact in float.
  double random_number(Range range = {});
  // Returns the i32[1] row count of that value; the same source for the same count.
  ValueId rows(std::int32_t count);

  // Adds a node that has sums over rows; in parts, it leaves as many of each as a GPU's kernel makes.
  void add_sums(Node node, bool in_parts);

  // Adds row_keys of `rows` rows, of samples of five tokens, some of them visual; and the key of an update.
  ValueId row_keys(std::int64_t capacity, std::int32_t rows);
  ValueId dropout_key() { return integers("dropout_key", {2}, {-123456789, 987654321}); }

  // Returns a random integer in low..high, both included.
  std::int32_t random_integer(std::int32_t low, std::int32_t high);

  // Adds `output`, times random weights, to the objective whose gradient is tested.
  void objective(ValueId output);
  // Adds `loss`, the loss of a cross_entropy node, to the objective.
  void objective_loss(ValueId loss);
  // Row `row` of `table` has gradient 0 by the op's contract, though the objective depends on it.
  void no_gradient(ValueId table, std::int64_t row);

 private:
  friend struct BuiltCase;
  friend struct OpCase;
  struct Data {
    ValueId value;
    std::vector<double> values;
  };
  double random();  // uniform in [0, 1), 16 bits
  ValueId floating(std::string name, TensorType type, std::int64_t real_rows, Range range, Role role);

  DType dtype_;
  std::uint32_t seed_ = 0;
  std::uint32_t drawn_ = 0;
  PhiloxOutput numbers_{};  // the four of which the last was drawn
  std::vector<Data> data_;
  std::vector<ValueId> wanted_, objectives_, losses_;
  std::map<ValueId, std::int64_t> no_gradient_;
};

// A case's graph in one dtype, forward alone or with its backward nodes, and the data of its sources.
struct BuiltCase {
  Graph graph;
  std::vector<CaseBuilder::Data> data;
  std::vector<ValueId> objectives, losses;   // values of the objective …
  std::vector<std::vector<double>> weights;  // … and what each objective is multiplied by, over its whole capacity
  std::vector<ValueId> wanted;
  std::map<ValueId, std::int64_t> no_gradient;  // see CaseBuilder::no_gradient
  std::map<ValueId, Gradient> gradients;        // empty if built without backward

  // Writes the values of all sources.
  void set_data(GraphRunner& runner) const;
};

struct OpCase {
  std::string name;  // "<op>/<what is special>"
  std::function<void(CaseBuilder&)> describe;

  BuiltCase build(DType dtype, bool backward) const;
};
std::ostream& operator<<(std::ostream& stream, const OpCase& op_case);
// Returns `name` in letters, digits and underscores.
std::string test_name(const OpCase& op_case);

// Return all cases; there is one file per group of ops.
std::vector<OpCase> all_cases();
// Returns the cases of groups whose ops an encoder layer or a language model's head has; others cannot be described in
// halves.
std::vector<OpCase> half_cases();
std::vector<OpCase> lookup_cases();
std::vector<OpCase> embedding_cases();
std::vector<OpCase> rows_cases();
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> linear_cases();
std::vector<OpCase> normalisation_cases();
std::vector<OpCase> attention_cases();
// Those are not among all: they have more tiles than an emulated device has time for, and several blocks, which run at
// once on a real one.
std::vector<OpCase> long_attention_cases();
std::vector<OpCase> head_loss_cases();
std::vector<OpCase> loss_cases();
std::vector<OpCase> update_cases();
// Maps with a bias whose gradient another node's gradient makes: for gradient_test.cpp alone, since elsewhere a node's
// errors would be those of the nodes before it.
std::vector<OpCase> biased_cases();

}  // namespace plimsoll::test
