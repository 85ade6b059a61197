// A program run node by node, each node's output looked at before the next one overwrites it: where the first number
// that is not finite comes from. What a run that finds nothing leaves behind are the bits of Program::run.
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

// What a tensor holds, rows that are not real left out.
struct TensorSummary {
  std::string name;
  TensorType type;
  double smallest = 0, largest = 0;  // of the finite ones; 0 where there are none
  std::int64_t not_finite = 0;
  friend bool operator==(const TensorSummary&, const TensorSummary&) = default;
};

struct StepFault {
  enum class Kind : std::uint8_t {
    kMade,  // the node made a number that is not finite from inputs that are
    kHeld,  // a parameter or input held one when the node came to read it
    kIndex  // an integer input points outside its table; the node has not run
  };
  Kind kind = Kind::kMade;
  std::string op, node;
  std::string tensor;
  TensorType type;
  std::vector<std::int64_t> index;    // of the first such element
  double value = 0;                   // NaN, an infinity, or the index that is wrong
  std::int64_t table_rows = 0;        // kIndex: what it should be below
  std::vector<TensorSummary> inputs;  // floating inputs of the node, as it read them
  bool forward = true;                // the node's phase
  bool updated = false;               // a parameter may have been changed in this run already
};

// "layer_norm 'encoder.LayerNorm' makes -inf: tensor 'encoder.LayerNorm' F32[8, 48] at [3, 4]"
std::string describe(const StepFault& fault);
// "reads 'x' F32[8, 48]: -1.5 to 2, 0 not finite"
std::string describe(const TensorSummary& input);

class CheckedRun {
 public:
  // `program` outlives this. Takes some ten bytes a value of the graph.
  explicit CheckedRun(const Program& program);

  // Runs until a floating output holds a NaN or an infinity, or a parameter or input that is read does, or a look-up
  // would read outside its table. A fault ends the run: later nodes do not run. States that are read are not looked at,
  // nor weights in 8 or 4 bits, nor rows beyond the real ones. `forward_only`: what backward makes is let pass (the
  // scaled loss of --fp16). A DeviceError that this throws says where the device failed.
  std::optional<StepFault> run(bool forward_only = false);

 private:
  void run_node(std::size_t node) const;
  std::int64_t rows_of(const Node& node, std::size_t output) const;
  TensorSummary summarise(ValueId value, const Node& reader) const;
  std::vector<TensorSummary> summarise_inputs(const Node& node) const;
  // The first element that is not finite among the real rows, or -1.
  std::int64_t first_non_finite(ValueId value) const;
  StepFault fault_at(const Node& node, ValueId value, std::int64_t element, StepFault::Kind kind) const;
  std::optional<StepFault> index_fault(const Node& node) const;
  void finish_transfers(std::size_t next) const;

  const Program& program_;
  std::vector<std::int64_t> rows_;  // by value: leading rows that are real; below 0: all
  std::vector<bool> checked_;       // by value: a source that has been looked at in this run
};

}  // namespace plimsoll
