#include "data/image_processor.h"
#include "data/labels.h"
#include "families/model_config.h"
#include "formats/json.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"

// Readers only know their own keys, so one text can serve as all files: config.json as model and as list of labels, and
// preprocessor_config.json.
void plimsoll::fuzz::config(std::string_view input) {
  may_refuse([&] {
    const ModelConfig config = parse_config(parse_json(input, "config.json"), "config.json");
    check(!config.task.labels.empty() && config.encoder->facts().max_text_tokens() > 0, "a config can be used");
    const nlohmann::json written = config_json(config);
    check(config_json(parse_config(written, "written")) == written, "a config that is written is read back");
  });
  const MemoryFile file(input);
  may_refuse([&] { LabelSet::from_config(file.path()); });
  may_refuse([&] {
    const auto config = ImageProcessorConfig::from_json(std::string(input), "preprocessor_config.json");
    check(ImageProcessorConfig::from_json(config.to_json(), "written") == config,
          "a config that is written is read back");
  });
}
