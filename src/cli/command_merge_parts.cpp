#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/field_output.h"
#include "cli/part_files.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

struct MergePartsOptions {
  std::string output;
  bool remove_parts = false;
};

// Passes the part on; throws DataError if its bytes are not those that its shard wrote.
void join_part(const FoundPart& part, FieldJoiner& joiner) {
  const InputFile file(part.path);
  std::array<char, 1 << 16> buffer{};
  Hasher hasher;
  for (std::uint64_t offset = 0; offset < part.sum.bytes;) {
    const std::size_t count = std::min<std::uint64_t>(buffer.size(), part.sum.bytes - offset);
    const std::span<char> bytes(buffer.data(), count);
    file.read_at(offset, std::as_writable_bytes(bytes));
    hasher.add(std::as_bytes(bytes));
    joiner.add(std::string_view(buffer.data(), count));
    offset += count;
  }
  if (hasher.digest() == part.sum.hash) return;
  throw DataError({.what = "a part is damaged",
                   .where = part.path.string(),
                   .found = "checksum " + hash_digits(hasher.digest()),
                   .allowed = fmt::format("{}, as {} says", hash_digits(part.sum.hash), part.manifest.string()),
                   .remedy = "remove the part and its manifest, run its shard again, then merge-parts"});
}

// Returns what the shards could not read, as their commands reported it.
std::vector<std::string> unreadable_in(const std::vector<FoundPart>& parts) {
  std::vector<std::string> texts;
  for (const FoundPart& part : parts) {
    for (const nlohmann::json& problem : part.result.value("unreadable", nlohmann::json::array())) {
      texts.push_back(fmt::format("{}: {} ({})", problem.value("where", std::string()),
                                  problem.value("what", std::string()), problem.value("found", std::string())));
    }
  }
  return texts;
}

void run_merge_parts(const Invocation& invocation, const MergePartsOptions& options) {
  const std::vector<FoundPart> parts = find_parts(options.output);
  std::uint64_t pages = 0;
  for (const FoundPart& part : parts) pages += part.result.value("pages", std::uint64_t{0});
  const std::vector<std::string> unreadable = unreadable_in(parts);
  if (pages == 0) {
    throw DataError({.what = "the parts have no pages",
                     .where = options.output,
                     .found = unreadable.empty() ? "no page in any part" : unreadable.front(),
                     .allowed = "at least one page that can be read",
                     .remedy = "mend the input, and run all shards again"});
  }
  OutputFile file(options.output);
  FieldJoiner joiner(parts.front().identity.value("form", std::string("jsonl")),
                     [&file](std::string_view text) { file.write(text); });
  for (const FoundPart& part : parts) join_part(part, joiner);
  joiner.finish();
  file.close();
  constexpr std::size_t kNamed = 10;
  for (std::size_t i = 0; i < std::min(kNamed, unreadable.size()); ++i) log_warning(unreadable[i]);
  if (unreadable.size() > kNamed) log_warning(fmt::format("{} more could not be read", unreadable.size() - kNamed));
  if (!unreadable.empty()) invocation.exit_code = ExitCode::kData;
  for (const FoundPart& part : parts) {
    if (!options.remove_parts) break;
    std::error_code error;
    fs::remove(part.path, error);
    fs::remove(part.manifest, error);
  }
  if (invocation.json) {
    return print_json(
        {{"output", options.output}, {"parts", parts.size()}, {"pages", pages}, {"unreadable", unreadable.size()}});
  }
  print_line(fmt::format("{} of {} joined, written to {}", counted(parts.size(), "part"), counted(pages, "page"),
                         options.output));
}

}  // namespace

void add_merge_parts(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "merge-parts", "Join the outputs of shards of predict or ocr");
  auto options = std::make_shared<MergePartsOptions>();
  command->heading("Output");
  command
      ->add_option("--output", options->output,
                   "The --output that the shards were given; the parts, FILE.part-1-of-N and so on, lie beside it")
      ->type_name("FILE")
      ->required();
  command->add_flag("--remove-parts", options->remove_parts, "Remove the parts once the file is complete");
  command->footer(
      "The file has the bytes that a single process would have written. A part that is missing, not finished,\n"
      "damaged, or of another command, options, model or input is refused by name, and nothing is written.\n"
      "If shards left out pages that they could not read, these are named, and the exit code is 3.\n"
      "\n"
      "  plimsoll predict --model run --data new.jsonl --output found.jsonl --shard 1/2\n"
      "  plimsoll predict --model run --data new.jsonl --output found.jsonl --shard 2/2\n"
      "  plimsoll merge-parts --output found.jsonl");
  command->callback([&invocation, options] {
    invocation.action = [&invocation, options] { run_merge_parts(invocation, *options); };
  });
}

}  // namespace plimsoll
