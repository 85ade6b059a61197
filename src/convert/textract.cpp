// Results of AWS Textract: a list of blocks, of which lines name their words, with boxes in shares of the page.
#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/file.h"
#include "convert/readers.h"

namespace plimsoll {
namespace {

constexpr Loss kTextractStructure{"block of a form, a table or a query is left out: words alone are taken",
                                  "blocks of forms, tables and queries are left out: words alone are taken"};
constexpr Loss kNoSuchWord{"line names a word that is not there", "words that lines name are not there"};

constexpr Loss kUnfinished{
    "result is a part of its document's: get the rest by NextToken, and convert a list of all responses",
    "results are parts of their documents': get the rest by NextToken, and convert a list of all responses"};
constexpr Loss kPartly{"job was done only in part (PARTIAL_SUCCESS): pages may be missing",
                       "jobs were done only in part (PARTIAL_SUCCESS): pages may be missing"};

Box box_of(const JsonNode& block) {
  const JsonNode box = block.at("Geometry").at("BoundingBox");
  const double left = box.at("Left").number(), top = box.at("Top").number();
  const double width = box.at("Width").number(), height = box.at("Height").number();
  // Shares that exceed 1 by rounding are clipped later; larger values have another unit.
  if (left > 2 || top > 2 || width > 2 || height > 2) {
    box.refuse("a box is not in shares of its page", "numbers from 0 to 1", "convert Textract's own result, unchanged");
  }
  return {left, top, left + width, top + height};
}

// The blocks of one page, and the words by their id.
struct TextractPage {
  std::vector<JsonNode> lines, words;
  std::unordered_map<std::string_view, std::size_t> by_id;
};

void add(FoundPage& page, const JsonNode& block, const std::optional<Box>& line, Losses& losses) {
  FoundWord word{.text = block.at("Text").text(), .box = box_of(block), .segment = line};
  if (const std::optional<JsonNode> confidence = block.find("Confidence")) word.confidence = confidence->number() / 100;
  add_word(page, std::move(word), losses);
}

void read_page(FoundPage& page, const TextractPage& blocks, Losses& losses) {
  std::set<std::size_t> taken;
  for (const JsonNode& line : blocks.lines) {
    const std::optional<JsonNode> relations = line.find("Relationships");
    const Box segment = box_of(line);
    for (std::size_t r = 0; relations && r < relations->size(); ++r) {
      const JsonNode relation = relations->item(r);
      if (relation.at("Type").text() != "CHILD") continue;
      const JsonNode ids = relation.at("Ids");
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto found = blocks.by_id.find(ids.item(i).text());
        if (found == blocks.by_id.end()) {
          losses.add(kNoSuchWord, line.where());
        } else if (taken.insert(found->second).second) {
          add(page, blocks.words[found->second], segment, losses);
        }
      }
    }
  }
  for (std::size_t w = 0; w < blocks.words.size(); ++w) {
    if (!taken.contains(w)) add(page, blocks.words[w], std::nullopt, losses);
  }
}

// Returns the objects that hold blocks: the result; for a long document several responses, which people store as a
// list; for expenses and identity documents each document in the result.
std::vector<JsonNode> responses_of(const JsonNode& root) {
  std::optional<JsonNode> list;
  if (root.is_list()) {
    list = root;
  } else if (!root.find("Blocks")) {
    list = root.find({"ExpenseDocuments", "IdentityDocuments"});
  }
  if (!list) return {root};
  std::vector<JsonNode> responses;
  for (std::size_t r = 0; r < list->size(); ++r) responses.push_back(list->item(r));
  return responses;
}

// Returns how many pages the document has by its responses; 0 if they do not say.
std::int64_t pages_said(const std::vector<JsonNode>& responses, Losses& losses) {
  std::int64_t pages = 0;
  for (const JsonNode& response : responses) {
    const std::optional<JsonNode> status = response.find("JobStatus"), metadata = response.find("DocumentMetadata");
    if (status && status->is_text() && status->text() == "FAILED") {
      const std::optional<JsonNode> reason = response.find("StatusMessage");
      const std::string why = reason && reason->is_text() ? fmt::format(" ({})", reason->text()) : "";
      status->refuse("Textract's job failed" + why, "SUCCEEDED", "start the job again");
    }
    if (status && status->is_text() && status->text() == "IN_PROGRESS") {
      status->refuse("Textract's job has not ended", "SUCCEEDED", "ask for the result again when it has");
    }
    if (status && status->is_text() && status->text() == "PARTIAL_SUCCESS") losses.add(kPartly, response.where());
    const std::optional<JsonNode> count = metadata ? metadata->find("Pages") : std::nullopt;
    if (count) pages = std::max(pages, count->whole());
  }
  return pages;
}

}  // namespace

bool is_textract(const Evidence& evidence) {
  for (const char* mark : {"Blocks", "[].Blocks", "ExpenseDocuments", "IdentityDocuments"}) {
    if (evidence.has(mark)) return true;
  }
  return evidence.has("JobStatus");  // of a job that failed, which reading it says
}

void read_textract(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string();
  const nlohmann::json json = parse_json_file(read_text_file(file, kLongestFile), name);
  const JsonNode root(json, name);
  std::map<std::int64_t, TextractPage> pages;
  const std::vector<JsonNode> responses = responses_of(root);
  const std::int64_t said = pages_said(responses, reading.losses);
  for (const JsonNode& response : responses) {
    const JsonNode blocks = response.at("Blocks");
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const JsonNode block = blocks.item(i);
      const std::optional<JsonNode> number = block.find("Page");
      // If Textract does not count pages, it leaves the number out or writes 0.
      const std::int64_t page_number = number && number->whole() != 0 ? number->whole() : 1;
      if (page_number < 1 || page_number > 1'000'000) number->refuse("a page has no such number", "1 or more");
      TextractPage& page = pages[page_number];
      const std::string& type = block.at("BlockType").text();
      if (type == "LINE") {
        page.lines.push_back(block);
      } else if (type == "WORD") {
        const std::optional<JsonNode> id = block.find("Id");
        if (id) page.by_id.emplace(id->text(), page.words.size());
        page.words.push_back(block);
      } else if (type != "PAGE") {
        reading.losses.add(kTextractStructure, block.where());
      }
    }
  }
  if (pages.empty()) root.refuse("a result has no blocks", "\"Blocks\" with at least one page");
  const std::optional<JsonNode> token = responses.back().find("NextToken");
  if ((token && token->is_text()) || said > std::ssize(pages)) reading.losses.add(kUnfinished, root.where());
  const bool several = said > 1 || pages.size() > 1 || pages.begin()->first > 1;
  for (auto& each : pages) {
    FoundPage page = new_page(file, static_cast<int>(each.first), several ? 2 : 1);
    page.unit = BoxUnit::kShare;
    page.width = page.height = 1;
    read_page(page, each.second, reading.losses);
    reading.take(std::move(page));
  }
}

}  // namespace plimsoll
