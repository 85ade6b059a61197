#include "doctor/fitted.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/argument_news.h"
#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

// Returns the news of the argument in the message, if the rule is about arguments.
const ArgumentNews* news_of(const Diagnosis& diagnosis) {
  const std::string_view name = diagnosis.rule->name;
  if (name != "trainer-arguments" && name != "argument-of-library" && name != "unexpected-argument" &&
      name != "call-arguments")
    return nullptr;
  if (const ArgumentNews* news = argument_news(diagnosis.ending.text)) return news;
  for (const Evidence& evidence : diagnosis.evidence)
    if (const ArgumentNews* news = argument_news(evidence.text)) return news;
  return nullptr;
}

// Replaces the first line that contains `part` by `by`; an empty one removes it.
void replace_line(std::vector<std::string>& lines, std::string_view part, const std::string& by) {
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [&](const std::string& text) { return text.find(part) != std::string::npos; });
  if (line == lines.end()) return;
  if (by.empty())
    lines.erase(line);
  else
    *line = by;
}
// Replaces the text from `begin` to `end` in a line by `by`.
void replace_part(std::vector<std::string>& lines, std::string_view begin, std::string_view end, std::string_view by) {
  for (std::string& line : lines) {
    const std::size_t from = line.find(begin), to = from == std::string::npos ? from : line.find(end, from);
    if (to != std::string::npos) line.replace(from, to + end.size() - from, by);
  }
}

// Moves the line that begins like this to the front; the others keep their order.
void put_first(std::vector<std::string>& lines, std::string_view beginning) {
  if (beginning.empty()) return;
  std::stable_partition(lines.begin(), lines.end(),
                        [&](const std::string& line) { return line.starts_with(beginning); });
}

// Returns the index of PyTorch's wheels for a driver: within one generation of CUDA a newer runtime works, too. Empty
// for drivers that no current PyTorch supports.
std::string_view wheels_for(int driver_cuda) {
  return driver_cuda >= 13000 ? "cu130" : driver_cuda >= 12000 ? "cu126" : driver_cuda >= 11000 ? "cu118" : "";
}

// The last PyTorch that was built for an old CUDA.
struct LastBuild {
  int cuda;
  std::string_view torch;
};
constexpr LastBuild kLastBuilds[] = {{10020, "1.12.1"}, {10010, "1.8.1"}, {10000, "1.2.0"},
                                     {9020, "1.7.1"},   {9000, "1.1.0"},  {8000, "1.0.1"}};

void fit_driver(const LogFacts& facts, std::vector<std::string>& fixes) {
  constexpr std::string_view kInstall = "install PyTorch built for";
  const std::string command =
      "install PyTorch built for an older CUDA: pip install torch --index-url "
      "https://download.pytorch.org/whl/";
  if (!facts.driver_cuda) {
    // The driver does not support PyTorch's CUDA: the next to try is one generation older.
    if (!facts.torch_cuda) return;
    const std::string_view older = wheels_for(*facts.torch_cuda - 1000);
    replace_line(fixes, kInstall,
                 older.empty()
                     ? fmt::format("install PyTorch built for a CUDA before {}", cuda_name(*facts.torch_cuda).substr(5))
                     : command + std::string(older));
    return;
  }
  if (const std::string_view wheels = wheels_for(*facts.driver_cuda); !wheels.empty()) {
    replace_line(fixes, kInstall, command + std::string(wheels));
    return;
  }
  const auto last = std::find_if(std::begin(kLastBuilds), std::end(kLastBuilds),
                                 [&](const LastBuild& build) { return build.cuda <= *facts.driver_cuda; });
  replace_line(fixes, kInstall, "");
  std::string old =
      fmt::format("else the PyTorch of that time: this driver serves {} at most", cuda_name(*facts.driver_cuda));
  if (last != std::end(kLastBuilds))
    old += fmt::format(", and {} is the last one for {}", last->torch, cuda_name(last->cuda));
  fixes.insert(fixes.begin() + 1, old);
}

void fit_toolkit(const LogFacts& facts, std::vector<std::string>& fixes) {
  if (!facts.torch_cuda) return;
  const std::string version = cuda_name(*facts.torch_cuda).substr(5);
  replace_line(fixes, "install the toolkit",
               fmt::format("install the CUDA toolkit {}, which PyTorch was built with, and set CUDA_HOME to it (conda "
                           "install -c nvidia cuda-toolkit={})",
                           version, version));
  if (!facts.toolkit_cuda) return;
  // No current PyTorch is built for such an old toolkit, and generations do not mix.
  if (*facts.toolkit_cuda < 11000) replace_line(fixes, "a PyTorch built for the installed toolkit", "");
  if (*facts.toolkit_cuda / 1000 != *facts.torch_cuda / 1000) replace_line(fixes, "DS_SKIP_CUDA_CHECK", "");
}

// Replaces a list of generations by this GPU.
void fit_card(const LogFacts& facts, std::vector<std::string>& fixes) {
  if (facts.card == nullptr) return;
  const int c = facts.card->capability;
  const std::string_view build = c >= 100 ? "cu128" : c >= 89 ? "cu118" : c >= 86 ? "cu111" : "";
  if (!build.empty()) replace_part(fixes, "(RTX", ")", fmt::format("({}: {} or later)", facts.card->name, build));
}

}  // namespace

const Telling* telling_of(const Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  for (const Evidence& evidence : diagnosis.evidence) lines.push_back(to_small_letters(evidence.text));
  // What a library remarks may be the cause of what it refuses later.
  for (const Finding& other : diagnosis.others)
    if (other.rule->level == Level::kNote) lines.push_back(to_small_letters(other.trigger.text));
  for (const Telling& telling : diagnosis.rule->tellings)
    for (const std::string_view pattern : telling.when)
      if (std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return matches(pattern, line); }))
        return &telling;
  return nullptr;
}

void fit_causes(const Diagnosis& diagnosis, std::vector<std::string>& causes) {
  if (const Telling* telling = telling_of(diagnosis)) put_first(causes, telling->cause);
  if (const ArgumentNews* news = news_of(diagnosis)) {
    // The lists of renamed and moved arguments say this about other arguments.
    std::erase_if(causes, [](const std::string& cause) {
      return cause.starts_with("Arguments were renamed") || cause.starts_with("accelerate is of another age");
    });
    std::string cause(news->cause);
    if (!cause.starts_with(news->argument)) cause = std::string(news->argument) + ": " + cause;
    causes.insert(causes.begin(), std::move(cause));
  }
}

void fit_fixes(const Diagnosis& diagnosis, std::vector<std::string>& fixes) {
  const std::string_view name = diagnosis.rule->name;
  const LogFacts& facts = diagnosis.facts;
  if (const Telling* telling = telling_of(diagnosis)) put_first(fixes, telling->fix);
  if (name == "driver-too-old") {
    fit_driver(facts, fixes);
  } else if (name == "deepspeed-cuda" || name == "build-cuda-mismatch") {
    fit_toolkit(facts, fixes);
  } else if (facts.driver_cuda && !wheels_for(*facts.driver_cuda).empty()) {
    replace_part(fixes, "/whl/cu", "6", fmt::format("/whl/{}", wheels_for(*facts.driver_cuda)));
  }
  // The example must not be the port in use.
  if (name == "address-in-use" && facts.port && *facts.port == 29501)
    replace_part(fixes, "--master_port=", "29501", "--master_port=29511");
  if (name == "no-kernel-image" || name.starts_with("gpu-newer")) fit_card(facts, fixes);
  if (const ArgumentNews* news = news_of(diagnosis)) {
    replace_line(fixes, "rename the argument", "");
    fixes.insert(fixes.begin(), std::string(news->fix));
  }
}

}  // namespace plimsoll::doctor
