// Runs a program node by node and checks each output before the next node overwrites it, to find the first NaN or
// infinity. A run that finds nothing leaves the same bits as Program::run.
//
//   CheckedRun checked(program);
//   if (const auto found = checked.run()) log_warning(describe(*found));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace plimsoll {

// Statistics of a tensor's real rows.
struct TensorSummary {
  std::string name;
  TensorType type;
  double smallest = 0, largest = 0;  // of the finite elements; 0 if there are none
  std::int64_t not_finite = 0;
  friend bool operator==(const TensorSummary&, const TensorSummary&) = default;
};

struct StepFault {
  enum class Kind : std::uint8_t {
    kMade,  // the node made a NaN or infinity from finite inputs
    kHeld,  // a parameter or input held one when the node read it
    kIndex  // an integer input points outside its table; the node has not run
  };
  Kind kind = Kind::kMade;
  std::string op, node;
  std::string tensor;
  TensorType type;
  std::vector<std::int64_t> index;    // of the first such element
  double value = 0;                   // NaN, an infinity, or the wrong index
  std::int64_t table_rows = 0;        // kIndex: the index must be below this
  std::vector<TensorSummary> inputs;  // the node's floating inputs as it read them
  bool forward = true;                // the node's phase
  bool updated = false;               // a parameter may already have been changed in this run
  std::size_t place = 0;              // the node's place in the program
  std::string told{};                 // set if another rank found it: its description; nothing else is known
};

// Returns "layer_norm 'encoder.LayerNorm' makes -inf: tensor 'encoder.LayerNorm' F32[8, 48] at [3, 4]"
std::string describe(const StepFault& fault);
// Returns "reads 'x' F32[8, 48]: -1.5 to 2, 0 not finite"
std::string describe(const TensorSummary& input);

class CheckedRun {
 public:
  // `program` must outlive this object, which takes about ten bytes per value of the graph.
  explicit CheckedRun(const Program& program);

  // Runs until a floating output holds a NaN or an infinity, or a parameter or input that is read does, or a look-up
  // would read outside its table. A fault ends the run: later nodes do not run. States, weights in 8 or 4 bits, and
  // rows beyond the real ones are not checked. With `forward_only`, backward's outputs are not checked (the scaled loss
  // of --fp16). A DeviceError that this throws says where the device failed. What ranks exchange is checked by its
  // readers; because ranks wait for each other's messages, a rank continues after its fault, unless that is an index
  // outside its table.
  std::optional<StepFault> run(bool forward_only = false);

 private:
  void run_node(std::size_t node) const;
  std::int64_t rows_of(const Node& node, std::size_t output) const;
  TensorSummary summarise(ValueId value, const Node& reader) const;
  std::vector<TensorSummary> summarise_inputs(const Node& node) const;
  bool has_marks(ValueId value) const;
  // Returns the first element among the real rows that is NaN or infinite and not a mark, or -1.
  std::int64_t first_non_finite(ValueId value) const;
  StepFault fault_at(const Node& node, ValueId value, std::int64_t element, StepFault::Kind kind) const;
  std::optional<StepFault> index_fault(const Node& node) const;
  void finish_transfers(std::size_t next) const;

  const Program& program_;
  std::vector<std::int64_t> rows_;  // by value: leading rows that are real; negative: all
  std::vector<bool> checked_;       // by value: sources already checked in this run
};

}  // namespace plimsoll
