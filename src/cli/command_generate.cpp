#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/generation_config.h"
#include "cli/outputs.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/signals.h"
#include "cli/usage.h"
#include "data/chat.h"
#include "data/tokenizer_split.h"
#include "fit/session.h"
#include "formats/json.h"
#include "request/fit_request.h"
#include "train/generator.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kMaxPromptFileBytes = std::uint64_t{1} << 32;

// The weights are read for each token, and serve this many texts with little more work.
constexpr std::int64_t kTextsAtOnce = 8;

struct GenerateOptions {
  std::vector<std::string> prompts;
  std::string data, output;
  bool chats = false;
  std::int64_t seed = 42;
  GenerationOptions form;
  std::vector<std::string> stop_strings;
  const Command* command = nullptr;

  bool given(const char* option) const { return command->count(option) > 0; }
};

// What a model continues: a text, or a conversation, whose next answer it gives.
struct GenerationPrompt {
  std::string text{};
  std::optional<Conversation> conversation{};
  json id{};  // as the line has it; null: it has none
  std::string where = "--prompt";
};

// Returns the conversation of a line up to the requested answer: a final answer, as in training data, is left out, like
// the `completion` of a `prompt`.
Conversation asked_conversation(const ordered_json& line, const ordered_json& messages, const std::string& where) {
  Conversation asked = conversation_of(line, messages);
  if (std::optional<ConversationFault> fault = find_fault(asked)) {
    throw DataError({.what = "the messages are not a conversation",
                     .where = where,
                     .found = std::move(fault->found),
                     .allowed = std::move(fault->allowed),
                     .remedy = std::move(fault->remedy)});
  }
  ordered_json& all = asked.messages;
  if (all.size() > 1 && all.back().at("role") == "assistant") all.erase(all.size() - 1);
  return asked;
}

// Reads lines of a file, each an object with a `prompt`, a text or a list of messages, or with `messages`.
std::vector<GenerationPrompt> read_prompts(const std::string& path) {
  std::vector<GenerationPrompt> prompts;
  const std::string text = read_text_file(path, kMaxPromptFileBytes);
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view one = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", path, line);
    const json object = parse_json(one, where);
    const auto value = [&object](const char* key) -> const json* {
      return object.is_object() && object.contains(key) ? &object.at(key) : nullptr;
    };
    const json* const prompt = value("prompt");
    const json* messages = value("messages");
    if (messages != nullptr && prompt != nullptr) {
      throw DataError({.what = "a line has a prompt in two ways",
                       .where = where,
                       .found = "`prompt` and `messages`",
                       .allowed = "one of them",
                       .remedy = "omit the other"});
    }
    if (prompt != nullptr && prompt->is_array()) messages = prompt;
    const json id = value("id") != nullptr ? *value("id") : json();
    if (messages != nullptr) {
      const ordered_json ordered = parse_ordered_json(one);
      const ordered_json& listed = ordered.at(messages == prompt ? "prompt" : "messages");
      prompts.push_back({.conversation = asked_conversation(ordered, listed, where), .id = id, .where = where});
    } else if (prompt != nullptr && prompt->is_string()) {
      prompts.push_back({.text = prompt->get<std::string>(), .id = id, .where = where});
    } else {
      const bool has_text = value("text") != nullptr;
      throw DataError({.what = "a line has no prompt",
                       .where = where,
                       .found = object.is_discarded() ? "no valid JSON"
                                : has_text            ? "`text`, which is for training"
                                                      : "neither a `prompt` nor `messages`",
                       .allowed = R"(an object such as {"prompt": "Once"})",
                       .remedy = has_text ? "rename the text that the model is to continue `prompt`"
                                          : "give each line a `prompt`, or the `messages` of a conversation"});
    }
  }
  return prompts;
}

std::vector<GenerationPrompt> prompts_of(const GenerateOptions& options) {
  if (options.prompts.empty() == options.data.empty()) {
    throw UsageError({.what = options.data.empty() ? "there is nothing to continue" : "prompts come from two places",
                      .where = "--prompt, --data",
                      .found = options.data.empty() ? "neither" : "both",
                      .allowed = "one of them",
                      .remedy = "pass --prompt TEXT, or --data FILE with a `prompt` a line"});
  }
  if (options.chats && !options.data.empty()) {
    throw UsageError({.what = "a file says itself what is a conversation",
                      .where = "--chat",
                      .found = fmt::format("--data {}", options.data),
                      .allowed = "--chat with --prompt",
                      .remedy = "omit --chat, and give lines `messages` in place of `prompt`"});
  }
  std::vector<GenerationPrompt> prompts;
  for (const std::string& text : options.prompts) {
    GenerationPrompt& prompt = prompts.emplace_back();
    if (options.chats) {
      prompt.conversation = Conversation{.messages = {{{"role", "user"}, {"content", text}}}};
    } else {
      prompt.text = text;
    }
  }
  if (!options.data.empty()) prompts = read_prompts(options.data);
  if (prompts.empty()) {
    throw DataError({.what = "the file has no prompts",
                     .where = options.data,
                     .found = "no line",
                     .allowed = R"(lines such as {"prompt": "Once"})",
                     .remedy = "write a line for each text to continue"});
  }
  return prompts;
}

// Returns how many of a text's new tokens the model reads: the last one only ends it.
std::int64_t fed_tokens(const GenerationOptions& form) { return form.max_new_tokens - 1; }

// Returns the text that asks for the next answer. A template that refuses the conversation does not know its line.
std::string prompt_of(const ChatForm& chat, const GenerationPrompt& prompt) {
  try {
    return chat.prompt(*prompt.conversation);
  } catch (const DataError& error) {
    Problem problem = error.problem();
    problem.where = problem.where.empty() ? prompt.where : fmt::format("{}; {}", prompt.where, problem.where);
    problem.remedy = "correct this conversation, or give its line a `prompt`, a text";
    throw DataError(std::move(problem));
  }
}

// Returns prompts as tokens, including a text's beginning token. A conversation becomes the text that asks for the next
// answer.
std::vector<std::vector<std::int32_t>> encoded(const ModelBundle& bundle, std::vector<GenerationPrompt>& prompts,
                                               const GenerateOptions& options) {
  const WordEncoder encoder = bundle.word_encoder();
  const std::int64_t most = bundle.facts().max_text_tokens();
  std::vector<std::vector<std::int32_t>> all;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::vector<std::int32_t>& ids = all.emplace_back();
    const bool chats = prompts[i].conversation.has_value();
    if (chats && !bundle.chat) {
      throw DataError({.what = "the model has no chat template",
                       .where = bundle.origin,
                       .found = "no chat_template in tokenizer_config.json, nor a chat_template.jinja",
                       .allowed = "texts to continue",
                       .remedy = "pass a `prompt`, or put a chat_template.jinja beside the model's tokenizer"});
    }
    if (chats) prompts[i].text = prompt_of(*bundle.chat, prompts[i]);
    if (!chats && encoder.text_begin_id != kNoToken) ids.push_back(encoder.text_begin_id);
    bundle.tokenizer->encode_text(prompts[i].text, ids);
    if (ids.empty() && chats) {
      throw DataError({.what = "the chat template writes nothing for a conversation",
                       .where = bundle.origin,
                       .found = fmt::format("an empty text for {}", prompts[i].where),
                       .allowed = "a template that writes the messages",
                       .remedy = "correct chat_template.jinja, or chat_template in tokenizer_config.json"});
    }
    if (ids.empty()) {
      throw DataError({.what = "a prompt has no tokens",
                       .where = prompts[i].where,
                       .found = "an empty text",
                       .allowed = "at least one character",
                       .remedy = "begin the text"});
    }
    if (std::ssize(ids) + fed_tokens(options.form) > most) {
      throw DataError(
          {.what = "a text would be longer than the model's positions",
           .where = prompts[i].where,
           .found =
               fmt::format("{} and --max-new-tokens {}", counted(ids.size(), "token"), options.form.max_new_tokens),
           .allowed = fmt::format("{} in all ({} in config.json)", counted(most, "token"), bundle.facts().limited_by),
           .remedy = "shorten the prompt, or lower --max-new-tokens"});
    }
  }
  return all;
}

// Says whether one of `stop_strings` ends in a text's last token, as transformers' StopStringCriteria does.
std::function<bool(std::span<const std::int32_t>)> stops_at(const std::vector<std::string>& stop_strings,
                                                            const Tokenizer& tokenizer) {
  std::size_t longest = 0;
  for (const std::string& stop : stop_strings) longest = std::max(longest, stop.size());
  if (longest == 0) return {};
  return [&, longest](std::span<const std::int32_t> text) {
    // A token has a byte or more; one that begins a text may lose its space.
    const auto tail = text.last(std::min(text.size(), longest + 2));
    const std::string all = tokenizer.decode(tail, true);
    const std::size_t before = tokenizer.decode(tail.first(tail.size() - 1), true).size();
    return std::ranges::any_of(stop_strings, [&](const std::string& stop) {
      const std::size_t at = all.rfind(stop);
      return at != std::string::npos && at + stop.size() > before;
    });
  };
}

// Prints a text as it comes, in whole characters.
class Typewriter {
 public:
  Typewriter(const Tokenizer& tokenizer, bool prints) : tokenizer_(tokenizer), prints_(prints) {}

  void add(std::int32_t token) {
    if (!prints_) return;
    tokens_.push_back(token);
    const std::string text = tokenizer_.decode(tokens_);
    // A character may be incomplete: its bytes are printed with the token that completes it.
    std::size_t end = text.size();
    for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
      const auto byte = static_cast<unsigned char>(text[text.size() - back]);
      if (byte < 0x80) break;
      if (byte < 0xC0) continue;  // within a character
      const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      if (length > back) end = text.size() - back;
      break;
    }
    if (end > printed_) print_text(valid(text.substr(printed_, end - printed_)));
    printed_ = std::max(printed_, end);
  }
  void finish() const {
    if (!prints_) return;
    const std::string text = tokenizer_.decode(tokens_);
    print_text(valid(text.substr(std::min(printed_, text.size()))) + "\n");  // a character may never be completed
  }

 private:
  // A model may write bytes that are not UTF-8; U+FFFD replaces each.
  static std::string valid(std::string text) {
    for (auto at = find_invalid_utf8(text); at; at = find_invalid_utf8(text)) text.replace(*at, 1, "\uFFFD");
    return text;
  }

  const Tokenizer& tokenizer_;
  bool prints_;
  std::vector<std::int32_t> tokens_;
  std::size_t printed_ = 0;
};

// A model may write bytes that are not UTF-8; U+FFFD replaces them.
std::string line_of(const GenerationPrompt& prompt, const Continuation& found, const Tokenizer& tokenizer) {
  json line = {{"prompt", prompt.text},
               {"completion", tokenizer.decode(found.tokens)},
               {"tokens", found.tokens},
               {"finish_reason", found.ended ? "stop" : "length"}};
  if (!prompt.id.is_null()) line["id"] = prompt.id;
  return json_text(line) + "\n";
}

void run_generate(Invocation& invocation, RunOptions& options, GenerateOptions& generate) {
  watch_signals();
  options.runs = true;
  options.resolve();
  refuse_replacing({{"--output", generate.output}}, options.inputs());
  refuse_replacing({{"--output", generate.output}}, {{"--data", generate.data}});
  std::vector<GenerationPrompt> prompts = prompts_of(generate);
  const Device device = open_run_device(invocation, options);
  const ModelBundle bundle = open_evaluated_model(options);
  generate.form.sampling.seed = static_cast<std::uint64_t>(generate.seed);
  const std::int64_t max_length =
      read_generation_config(bundle, *generate.command, generate.form, generate.stop_strings);
  generate.form.stops = stops_at(generate.stop_strings, *bundle.tokenizer);
  const std::vector<std::vector<std::int32_t>> ids = encoded(bundle, prompts, generate);
  std::size_t longest = 0;
  for (const std::vector<std::int32_t>& each : ids) longest = std::max(longest, each.size());
  const std::int64_t whole = static_cast<std::int64_t>(longest) + generate.form.max_new_tokens;
  if (max_length > 0 && whole > max_length) {
    log_warning(
        fmt::format("generation_config.json asks for max_length = {} with the prompt, and the longest text may "
                    "have {}: it is not done here; pass --max-new-tokens",
                    max_length, counted(whole, "token")));
  }
  options.train.train_batch_size = std::min<std::int64_t>(options.train.train_batch_size, std::ssize(ids));
  const std::int64_t tokens = static_cast<std::int64_t>(longest) + fed_tokens(generate.form);
  FitRequest request = generation_request(bundle, options.train, tokens, options.memory);
  Session session(plan_of(invocation, request, *device.backend), *device.backend);
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });

  const Tokenizer& tokenizer = *bundle.tokenizer;
  // A program that passed a file expects a line for each prompt, even if there is one.
  const bool streams = generate.output.empty() && !invocation.json && prompts.size() == 1 && generate.data.empty();
  Typewriter typewriter(tokenizer, streams);
  std::unique_ptr<OutputFile> file;
  if (!generate.output.empty()) file = std::make_unique<OutputFile>(generate.output);
  const Generator generator(session, request.step.definition);
  const auto most = static_cast<std::size_t>(generator.most_texts());
  // A signal must not cost the texts that are in the file already; without a file they are on the screen.
  const Interrupt* const interrupt = file ? &interrupt_on_signals(Finishes::kTexts) : nullptr;
  for (std::size_t first = 0; first < ids.size(); first += most) {
    if (interrupt != nullptr && interrupt->end_signal() != 0) {
      file->close();
      throw InterruptedError({.what = "a signal ended the run",
                              .where = generate.output,
                              .found = fmt::format("the first {} of {} texts are written", first, ids.size()),
                              .remedy = fmt::format("run the rest: prompts {} to {}", first + 1, ids.size())},
                             interrupt->end_signal());
    }
    const auto some = std::span(ids).subspan(first, std::min(most, ids.size() - first));
    const std::vector<Continuation> found =
        generator.run(some, first, generate.form, [&](std::size_t, std::int32_t token) { typewriter.add(token); });
    for (std::size_t i = 0; i < found.size() && !streams; ++i) {
      const std::string line = line_of(prompts[first + i], found[i], tokenizer);
      file ? file->write(line) : print_text(line);
    }
  }
  typewriter.finish();
  if (!file) return;
  file->close();
  if (invocation.json) return print_json({{"texts", ids.size()}, {"output", generate.output}});
  print_line(fmt::format("{} written to {}", counted(ids.size(), "text"), generate.output));
}

}  // namespace

void add_generate(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "generate", "Generate text with a causal language model");
  auto options = std::make_shared<RunOptions>();
  auto generate = std::make_shared<GenerateOptions>();
  generate->command = command;
  GenerationOptions& form = generate->form;
  add_model_options(command, *options, false);
  command->heading("Prompts");
  command->add_option("--prompt", generate->prompts, "Text to continue; may be repeated")
      ->repeatable_text()
      ->type_name("TEXT");
  command->add_flag("--chat", generate->chats,
                    "Each --prompt is a user's message, formatted by the model's chat template");
  command
      ->add_option("--data", generate->data,
                   "File with a JSON object per line, each with a `prompt`, or with the `messages` of a conversation")
      ->type_name("FILE");
  command->heading("Texts");
  whole_number(
      command->add_option("--max-new-tokens", form.max_new_tokens, "Maximum number of tokens to add to a text"), 1,
      1 << 20)
      ->capture_default_str();
  command->add_flag("--do-sample", form.sampling.do_sample, "Sample each token; otherwise take the most likely one");
  number(command->add_option("--temperature", form.sampling.temperature, "Logits are divided by this before sampling"),
         0, 1e6, true)
      ->capture_default_str();
  whole_number(
      command->add_option("--top-k", form.sampling.top_k, "Sample among this many most likely tokens (0: all)"), 0,
      1 << 24)
      ->capture_default_str();
  number(command->add_option("--top-p", form.sampling.top_p,
                             "Sample among the most likely tokens whose probabilities add up to this"),
         0, 1, true)
      ->capture_default_str();
  number(command->add_option("--repetition-penalty", form.sampling.repetition_penalty,
                             "Logits of tokens already in the text are divided by this (negative ones multiplied)"),
         0, 1e6, true)
      ->capture_default_str();
  command
      ->add_option("--stop-strings", generate->stop_strings,
                   "Text with which a continuation ends, and which belongs to it; may be repeated")
      ->repeatable_text()
      ->type_name("TEXT");
  whole_number(command->add_option("--seed", generate->seed, "Random seed of sampling"), 0)->capture_default_str();
  add_memory_options(command, *options);
  add_weights_offload_option(command, *options);
  options->train.train_batch_size = kTextsAtOnce;
  whole_number(command->add_option("--per-device-eval-batch-size", options->train.train_batch_size,
                                   "Maximum number of texts continued at once"),
               1, 1 << 12)
      ->capture_default_str();
  add_quantization_options(command, *options);
  command->heading("Output");
  add_output_file(command, "--output", generate->output,
                  "File with a line per prompt: prompt, completion, tokens, finish_reason (default: standard output)");
  command->footer(
      "What is not given as an option comes from generation_config.json; a warning names what is not supported.\n"
      "A text ends at an end-of-text token (eos_token_id), after one of --stop-strings or at --max-new-tokens. The\n"
      "text of a single prompt is printed as it is generated; several are written as lines. The key-value cache of\n"
      "all texts that are continued at once is part of the memory plan, as weights are.\n"
      "\n"
      "  plimsoll generate --model run --prompt \"The total is\"\n"
      "  plimsoll generate --model run --data prompts.jsonl --output texts.jsonl --do-sample --temperature 0.7");
  command->callback([&invocation, options, generate] {
    invocation.action = [&invocation, options, generate] { run_generate(invocation, *options, *generate); };
  });
}

}  // namespace plimsoll
