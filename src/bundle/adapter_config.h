// adapter_config.json as PEFT writes it. Every key has a known meaning here, or it is refused: a key that was passed
// over would be an adapter read as something else than it is.
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
  // What `target_modules` lists, names or ends of names; empty where it is a pattern, or where other keys narrow it:
  // then the tensors in the adapter's file alone say which modules it has.
  std::vector<std::string> targets;
  // `modules_to_save`, ends of names of modules.
  std::vector<std::string> saved;
  // `task_type`: "TOKEN_CLS", "SEQ_CLS"; empty where it names no task.
  std::string task_type;
};

// Throws DataError for an adapter that is not W x + scale B A x on an untouched base model.
AdapterConfig read_adapter_config(const std::filesystem::path& directory);

// base_model_name_or_path alone, empty where there is none; the other keys may be anything.
std::string adapter_base(const std::filesystem::path& directory);

// Throws the DataError that says that the key's value is of no adapter that Plimsoll reads.
[[noreturn]] void refuse_adapter_key(const std::filesystem::path& directory, const std::string& key,
                                     const nlohmann::json& config, std::string allowed);

}  // namespace plimsoll
