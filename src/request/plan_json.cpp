#include "request/plan_json.h"

#include <nlohmann/json.hpp>

namespace plimsoll {

nlohmann::json plan_json(const PlanSummary& plan, std::span<const PlannedProgram> planned) {
  const auto listed = [](const std::vector<MemoryItem>& items) {
    nlohmann::json list = nlohmann::json::array();
    for (const MemoryItem& item : items) list.push_back({{"name", item.name}, {"bytes", item.bytes}});
    return list;
  };
  nlohmann::json programs = nlohmann::json::array();
  for (const PlannedProgram& program : planned) {
    programs.push_back({{"kind", program_kind_name(program.kind)},
                        {"samples", program.capacity.samples},
                        {"text_rows", program.capacity.text_rows},
                        {"transient_bytes", program.plan.transient_bytes},
                        {"lower_bound_bytes", program.plan.lower_bound_bytes},
                        {"is_smallest", program.plan.is_smallest}});
  }
  return {{"predicted_peak_bytes", plan.predicted_peak_bytes},
          {"budget_bytes", plan.budget_bytes},
          {"host_peak_bytes", plan.host_peak_bytes},
          {"host_budget_bytes", plan.host_budget_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"train_batch_size", plan.train_batch_size},
          {"micro_batch_size", plan.levers.micro_batch_size},
          {"chunk_samples", plan.levers.chunk_samples},
          {"gradient_accumulation_steps", plan.accumulation_steps},
          {"optim", optimizer_name(plan.optimizer)},
          {"precision", precision_name(plan.precision)},
          {"parameters", plan.parameters},
          {"trained_parameters", plan.trained_parameters},
          {"word_rows", plan.word_rows == nullptr ? nlohmann::json() : nlohmann::json(plan.word_rows->size())},
          {"update_mode", update_mode_name(plan.levers.update)},
          {"recomputes_cheap_values", !plan.levers.keeps_cheap},
          {"keeps_attention_biases", plan.levers.keeps_biases},
          {"recomputed_bytes", recomputed_bytes(plan.levers)},
          {"offload",
           {{"directory", plan.offload_directory.string()},
            {"bytes", plan.offload.bytes()},
            {"optimizer_state_bytes", plan.offload.state_bytes()},
            {"parameter_bytes", plan.offload.parameter_bytes()},
            {"in_place_bytes", plan.offload.in_place_bytes()},
            {"activation_bytes", plan.offload.activation_bytes()},
            {"read_bytes_per_update", plan.transfers.read_bytes},
            {"written_bytes_per_update", plan.transfers.written_bytes},
            {"seconds_per_update", plan.transfer_seconds}}},
          {"ranks",
           {{"count", plan.ranks},
            {"zero_stage", plan.levers.zero_stage},
            {"sent_bytes", plan.exchange.sent_bytes},
            {"received_bytes", plan.exchange.received_bytes},
            {"sent_messages", plan.exchange.messages},
            {"row_bytes", plan.exchange.row_bytes},
            {"exchange_seconds", plan.exchange_seconds},
            {"exchange_wait_seconds", plan.exchange_wait_seconds},
            {"row_messages", plan.exchange.row_messages}}},
          {"seconds_per_update", plan.seconds_per_update},
          {"seconds_to_save", plan.seconds_to_save},
          {"items", listed(plan.items)},
          {"host_items", listed(plan.host_items)},
          {"programs", programs}};
}

}  // namespace plimsoll
