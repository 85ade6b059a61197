#include "doctor/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "doctor/amd.h"
#include "doctor/fitted.h"

namespace plimsoll::doctor {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Replaces NAME by the package that the message asks for: "pip install NAME".
std::string with_package(std::string text, const Diagnosis& diagnosis) {
  const std::string& package = diagnosis.ending.package;
  if (package.empty()) return text;
  for (std::size_t at = 0; (at = text.find("NAME", at)) != std::string::npos; at += package.size())
    text.replace(at, 4, package);
  return text;
}
bool wants_package(const Diagnosis& diagnosis) {
  return diagnosis.rule->name.starts_with("package-") || diagnosis.rule->name == "module-missing" ||
         diagnosis.rule->name == "import-refused" || diagnosis.rule->name == "header-missing" ||
         diagnosis.rule->name == "optional-module" || diagnosis.rule->name.starts_with("extension-");
}

// Plimsoll trains LayoutLMv3 only: its commands help those who train that model or one of its relatives.
bool is_document_model(const LogFacts& facts) {
  return facts.family == nullptr || facts.family->name.starts_with("Layout");
}

// True for a loss that is NaN or diverges and a learning rate at which few models train.
bool has_high_rate(const Diagnosis& d) {
  return d.rule != nullptr && (d.rule->heals || d.rule->name == "loss-diverged") &&
         d.facts.learning_rate.value_or(0) >= 0.05;
}

// Adds what saves memory in training, the cheapest first; what changes no result comes before what does.
void add_memory_fixes(const Diagnosis& d, std::vector<std::string>& fixes) {
  const LogFacts& f = d.facts;
  const auto add = [&](std::string line) { fixes.push_back(std::move(line)); };
  const auto has = [&](std::string_view word) {
    return std::any_of(fixes.begin(), fixes.end(),
                       [&](const std::string& line) { return line.find(word) != std::string::npos; });
  };
  const int accumulation = f.accumulation.value_or(1);
  if (f.micro_batch && *f.micro_batch > 1) {
    const int smaller = std::max(*f.micro_batch / 2, 1);
    add(
        fmt::format("per_device_train_batch_size={} with gradient_accumulation_steps={}: the same updates in smaller "
                    "pieces; halve again until it fits",
                    smaller, accumulation * (*f.micro_batch / smaller)));
  } else if (!f.micro_batch && d.rule->name != "oom-auto-batch-size") {
    add("a smaller per_device_train_batch_size, with gradient_accumulation_steps larger by the same factor: the same "
        "updates in smaller pieces");
  }
  if (!f.fp16 && !f.bf16) {
    const std::optional<bool> bf16 = has_bf16(f, d.numbers.total);
    add(!bf16   ? "mixed precision: bf16=True on an Ampere GPU or newer, fp16=True on older ones"
        : *bf16 ? "mixed precision: bf16=True"
                : "mixed precision: fp16=True (this GPU has no bfloat16)");
  }
  if (!f.small_optimizer && !f.adapters && !has("adamw_8bit"))
    add("an 8-bit optimizer: optim='adamw_8bit' (package bitsandbytes) holds 2 bytes a parameter instead of 8");
  if ((f.family == nullptr || f.family->checkpointing) && !f.checkpointing)
    add("gradient checkpointing: gradient_checkpointing=True computes activations again in backward, for about a "
        "third more time");
  if (d.rule->name == "oom-attention" && (f.family == nullptr || f.family->sdpa))
    add("attn_implementation='sdpa' or 'flash_attention_2', which store no attention scores");
  if (!f.adapters) {
    add("freeze what need not train, such as the embeddings and the lower layers: requires_grad_(False) before the "
        "optimizer is made");
    const bool has_classifier = f.family != nullptr && f.family->name.starts_with("Layout");
    add(fmt::format("adapters: LoraConfig(target_modules={}{}) of peft{}",
                    f.family != nullptr ? f.family->adapted : "'all-linear'",
                    has_classifier ? ", modules_to_save=['classifier']" : "",
                    has_classifier ? "" : ", a new head in modules_to_save"));
  }
  add(is_document_model(f) ? "shorter windows: max_length=256 with stride and return_overflowing_tokens=True"
                           : "shorter sequences: a smaller max_length");
}

// Returns the options with which LayoutLMv3 fits into this much memory; the limits are rounded up.
std::string_view plan_options(const LogFacts& facts, double gib) {
  const double full = facts.large ? 9 : 4, small_state = facts.large ? 6 : 2.5;
  return gib >= full ? "" : gib >= small_state ? " --optim adamw_8bit" : " --lora-rank 8";
}

// Returns `plimsoll plan` for the GPU in the log.
std::string plan_line(const LogFacts& facts, const OomNumbers& numbers) {
  double gib = 0;
  if (numbers.total) {
    gib = static_cast<double>(*numbers.total) / 0x1.0p30;
  } else if (facts.card != nullptr) {
    gib = facts.card->gib;
  }
  if (gib < 1 || !is_document_model(facts)) return {};
  std::string line =
      fmt::format("plimsoll plan --model DIR --data pages.jsonl --device cuda --device-memory {:.1f}GiB", gib - 0.05);
  if (facts.micro_batch) {
    const std::int64_t batch = std::int64_t{*facts.micro_batch} * facts.accumulation.value_or(1);
    line += fmt::format(" --train-batch-size {}", batch);
  }
  line += plan_options(facts, gib);
  return line + fmt::format(": the plan for {}, which keeps the effective batch and picks what runs at once",
                            facts.card != nullptr ? std::string(facts.card->name) : "a GPU of that size");
}

std::string fit_vendor(const Diagnosis& diagnosis, std::string text) {
  // These rules are about AMD's GPUs, or about NVIDIA's.
  const std::string_view name = diagnosis.rule == nullptr ? std::string_view() : diagnosis.rule->name;
  const bool fits = name.ends_with("-amd") || name.starts_with("driver-") || name == "no-driver" || name == "no-device";
  return diagnosis.facts.rocm && !fits ? with_rocm_names(std::move(text)) : text;
}
void fit_vendor(const Diagnosis& diagnosis, std::vector<std::string>& lines) {
  for (std::string& line : lines) line = fit_vendor(diagnosis, std::move(line));
}

}  // namespace

std::string headline(const Diagnosis& diagnosis) {
  if (diagnosis.rule == nullptr) return {};
  const Telling* telling = telling_of(diagnosis);
  return fit_vendor(diagnosis,
                    std::string(telling == nullptr || telling->what.empty() ? diagnosis.rule->what : telling->what));
}

std::vector<std::string> causes(const Diagnosis& diagnosis) {
  if (diagnosis.rule == nullptr) return {};
  std::vector<std::string> list = lines_of(diagnosis.rule->cause);
  if (wants_package(diagnosis))
    for (std::string& line : list) line = with_package(std::move(line), diagnosis);
  // A rate as high as this is likelier than the other causes.
  if (has_high_rate(diagnosis))
    std::stable_partition(list.begin(), list.end(),
                          [](const std::string& cause) { return cause.starts_with("The learning rate"); });
  fit_causes(diagnosis, list);
  // A model that reads no boxes has none outside the page.
  if (!is_document_model(diagnosis.facts) && list.size() > 1)
    std::erase_if(list, [](const std::string& cause) { return cause.starts_with("A box "); });
  fit_vendor(diagnosis, list);
  return list;
}

std::vector<std::string> fixes(const Diagnosis& diagnosis) {
  if (diagnosis.rule == nullptr) return {};
  std::vector<std::string> list = lines_of(diagnosis.rule->fix);
  if (diagnosis.rule->name == "oom-other-processes") {
    for (auto holder = diagnosis.numbers.holders.rbegin(); holder != diagnosis.numbers.holders.rend(); ++holder)
      list.insert(list.begin(), fmt::format("if process {}, which holds {}, is yours and no longer needed, end it (kill {})",
                                            holder->process, format_bytes(holder->bytes), holder->process));
  }
  if (diagnosis.rule->saves_memory) add_memory_fixes(diagnosis, list);
  fit_fixes(diagnosis, list);
  // For that rule, the amount of memory matters more than the gaps in it.
  if (diagnosis.rule->name == "oom-full") std::rotate(list.begin(), list.begin() + 1, list.end());
  if (wants_package(diagnosis))
    for (std::string& line : list) line = with_package(std::move(line), diagnosis);
  std::erase(list, "NAME");  // no package is known that has it
  fit_vendor(diagnosis, list);
  return list;
}

std::string confirmation(const Diagnosis& diagnosis) {
  if (diagnosis.rule == nullptr) return {};
  std::string text(diagnosis.rule->confirm);
  return fit_vendor(diagnosis, wants_package(diagnosis) ? with_package(std::move(text), diagnosis) : text);
}

std::string note(const Diagnosis& diagnosis) {
  const Family* family = diagnosis.facts.family;
  if (diagnosis.rule == nullptr || !diagnosis.rule->saves_memory || family == nullptr || family->checkpointing)
    return {};
  return fmt::format("transformers has no gradient checkpointing, SDPA or flash attention for {}", family->name);
}

std::string command(const Diagnosis& diagnosis) {
  if (diagnosis.rule == nullptr) return {};
  // Plimsoll computes on NVIDIA's GPUs only, and asks their driver.
  const bool rocm = diagnosis.facts.rocm;
  if (diagnosis.rule->saves_memory && !rocm) {
    if (std::string line = plan_line(diagnosis.facts, diagnosis.numbers); !line.empty()) return line;
  }
  const std::string_view own = diagnosis.rule->command;
  if (rocm && own.starts_with("plimsoll doctor")) return {};
  if (!is_document_model(diagnosis.facts) && !own.starts_with("plimsoll doctor")) return {};
  return std::string(own);
}

std::vector<std::string> meanings(const Diagnosis& diagnosis) {
  std::vector<std::string> lines = explain(diagnosis.numbers);
  fit_vendor(diagnosis, lines);
  if (diagnosis.rule == nullptr) return lines;
  const LogFacts& f = diagnosis.facts;
  const std::string_view name = diagnosis.rule->name;
  if (f.driver_cuda && name == "driver-too-old")
    lines.push_back(fmt::format("version {} is {}: the newest that the installed driver serves", *f.driver_cuda,
                                cuda_name(*f.driver_cuda)));
  if (f.torch_cuda && (name == "driver-too-old" || name == "no-kernel-image"))
    lines.push_back(fmt::format("this PyTorch is built for {}", cuda_name(*f.torch_cuda)));
  if (f.card != nullptr && name == "no-kernel-image")
    lines.push_back(
        fmt::format("{} has compute capability {}.{}", f.card->name, f.card->capability / 10, f.card->capability % 10));
  if (f.port && (name == "system-port" || name == "address-in-use"))
    lines.push_back(fmt::format("the port is {}{}", *f.port, *f.port < 1024 ? ", which is the system's" : ""));
  if (has_high_rate(diagnosis))
    lines.push_back(
        fmt::format("the learning rate in the log is {:g}; fine-tuning takes 1e-5 to 5e-4, training anew "
                    "rarely more than 1e-2",
                    *f.learning_rate));
  if (f.trend.grows && name.find("growth") != std::string_view::npos)
    lines.push_back(fmt::format("memory in the log: {:g} in line {}, {:g} in line {}", f.trend.first,
                                f.trend.first_line, f.trend.last, f.trend.last_line));
  if (f.has_hidden_process() && name.find("zombie") != std::string_view::npos)
    lines.push_back(fmt::format("nvidia-smi says that {:.1f} GiB are used, and lists no process", *f.listed_gib));
  return lines;
}

}  // namespace plimsoll::doctor
