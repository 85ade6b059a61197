#include "doctor/rule.h"

namespace plimsoll::doctor {

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (auto* table :
         {memory_rules,   host_rules,    device_rules, driver_rules, library_rules, extension_rules, install_rules,
          parallel_rules, cluster_rules, usage_rules,  setup_rules,  number_rules,  untrained_rules, shape_rules,
          data_rules,     load_rules,    hub_rules,    model_rules,  trainer_rules, compile_rules,   package_rules,
          release_rules,  vision_rules,  file_rules,   own_rules}) {
      for (Rule& rule : table()) all.push_back(std::move(rule));
    }
    return all;
  }();
  return rules;
}

}  // namespace plimsoll::doctor
