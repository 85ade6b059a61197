// Which parameters weight decay takes, as transformers' Trainer has it: get_parameter_names leaves out the modules of
// nn.LayerNorm, by class, and then what is named as a bias or a norm.
#include <gtest/gtest.h>

#include "request/fit_request.h"

namespace plimsoll::test {
namespace {

TEST(WeightDecay, LeavesOutBiasesAndEveryNorm) {
  std::size_t norms = 0, decayed = 0;
  for (const char* preset : {"layoutlmv3-tiny", "roberta-tiny", "layoutlm-tiny", "lilt-tiny", "llama-tiny", "gpt2-tiny"}) {
    const ModelBundle bundle = open_model(preset);
    MemoryRequest memory;
    memory.budget_bytes = std::size_t{1} << 30;
    const FitRequest request = fit_request(bundle, {}, nullptr, nullptr, memory);
    for (const ParameterSpec& spec : bundle.specs()) {
      const bool is_norm = spec.init == ParameterSpec::Init::kOnes, is_bias = spec.name.find("bias") != std::string::npos;
      EXPECT_EQ(request.step.optimizer.decays(spec.name), !is_norm && !is_bias) << preset << " " << spec.name;
      norms += is_norm ? 1 : 0;
      decayed += is_norm || is_bias ? 0 : 1;
    }
  }
  EXPECT_GT(norms, 20U);
  EXPECT_GT(decayed, 60U);
}

}  // namespace
}  // namespace plimsoll::test
