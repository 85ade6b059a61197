// adapter_config.json as PEFT writes it. Every key has a known meaning here, or it is refused: ignoring a key could
// misread the adapter.
//
//   const AdapterConfig config = read_adapter_config("my-adapter");
//   if (config.rank != 8) return;
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/lora.h"

namespace plimsoll {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";

struct AdapterConfig {
  std::int64_t rank = 0;
  double alpha = 0, dropout = 0;
  bool rslora = false, dora = false;
  LoraPatterns rank_pattern, alpha_pattern;
  // The list in `target_modules`, names or ends of names; empty if it is a pattern, or if other keys narrow it: then
  // only the tensors in the adapter's file say which modules it has.
  std::vector<std::string> targets;
  // `modules_to_save`: ends of modules' names.
  std::vector<std::string> saved;
  // `task_type`: "TOKEN_CLS", "SEQ_CLS"; empty if it names no task.
  std::string task_type;
};

// Throws DataError for an adapter that is not W x + scale B A x on an untouched base model.
AdapterConfig read_adapter_config(const std::filesystem::path& directory);

// Returns only base_model_name_or_path, empty if there is none; the other keys are not checked.
std::string adapter_base(const std::filesystem::path& directory);

// Throws the DataError that says that Plimsoll reads no adapter with this value of the key.
[[noreturn]] void refuse_adapter_key(const std::filesystem::path& directory, const std::string& key,
                                     const nlohmann::json& config, std::string allowed);

}  // namespace plimsoll
