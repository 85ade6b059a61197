#include "doctor/log_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

namespace plimsoll::doctor {
namespace {

// A log may name several; the first one in this table is the model, because its name is the most specific.
constexpr Family kFamilies[] = {
    {"layoutlmv3", "LayoutLMv3", false, false, "['query', 'value']"},
    {"layoutlmv2", "LayoutLMv2", false, false, "['query', 'value']"},
    {"layoutxlm", "LayoutXLM", false, false, "['query', 'value']"},
    {"layoutlm", "LayoutLM", true, false, "['query', 'value']"},
    {"modeling_lilt", "LiLT", true, false, "['query', 'value']"},
    {"modeling_donut", "Donut", true, false, "'all-linear'"},
    {"modeling_udop", "UDOP", true, false, "['q', 'v']"},
    {"modeling_t5", "T5", true, false, "['q', 'v']"},
    {"modeling_llama", "Llama", true, true, "['q_proj', 'v_proj']"},
    {"modeling_mistral", "Mistral", true, true, "['q_proj', 'v_proj']"},
    {"modeling_qwen2", "Qwen2", true, true, "['q_proj', 'v_proj']"},
    {"modeling_gpt2", "GPT-2", true, true, "['c_attn']"},
    {"modeling_xlm_roberta", "XLM-RoBERTa", true, true, "['query', 'value']"},
    {"modeling_roberta", "RoBERTa", true, true, "['query', 'value']"},
    {"modeling_distilbert", "DistilBERT", true, true, "['q_lin', 'v_lin']"},
    {"modeling_deberta", "DeBERTa", true, false, "['query_proj', 'value_proj']"},
    {"modeling_bert", "BERT", true, true, "['query', 'value']"},
    {"modeling_vit", "ViT", true, true, "['query', 'value']"},
};

constexpr Card kCards[] = {
    {"b200", "B200", 100, 180},
    {"h200", "H200", 90, 141},
    {"h100", "H100", 90, 80},
    {"rtx 5090", "RTX 5090", 120, 32},
    {"rtx 5080", "RTX 5080", 120, 16},
    {"rtx 5070", "RTX 5070", 120, 12},
    {"rtx 5060", "RTX 5060", 120, 8},
    {"rtx 4090", "RTX 4090", 89, 24},
    {"rtx 4080", "RTX 4080", 89, 16},
    {"rtx 4070", "RTX 4070", 89, 12},
    {"rtx 4060", "RTX 4060", 89, 8},
    {"l40", "L40", 89, 48},
    {"nvidia l4", "L4", 89, 24},
    {"rtx 6000 ada", "RTX 6000 Ada", 89, 48},
    {"a100-sxm4-80gb", "A100 80 GB", 80, 80},
    {"a100", "A100", 80, 40},
    {"a800", "A800", 80, 80},
    {"a10g", "A10G", 86, 24},
    {"nvidia a10", "A10", 86, 24},
    {"a6000", "RTX A6000", 86, 48},
    {"a5000", "RTX A5000", 86, 24},
    {"a4000", "RTX A4000", 86, 16},
    {"nvidia a40", "A40", 86, 48},
    {"rtx 3090", "RTX 3090", 86, 24},
    {"rtx 3080", "RTX 3080", 86, 10},
    {"rtx 3070", "RTX 3070", 86, 8},
    {"rtx 3060", "RTX 3060", 86, 12},
    {"rtx 3050", "RTX 3050", 86, 4},
    {"tesla t4", "T4", 75, 16},
    {"nvidia t4", "T4", 75, 16},
    {"rtx 2080 ti", "RTX 2080 Ti", 75, 11},
    {"rtx 2080", "RTX 2080", 75, 8},
    {"rtx 2070", "RTX 2070", 75, 8},
    {"rtx 2060", "RTX 2060", 75, 6},
    {"quadro rtx", "Quadro RTX", 75, 24},
    {"titan rtx", "TITAN RTX", 75, 24},
    {"gtx 1660", "GTX 1660", 75, 6},
    {"gtx 1650", "GTX 1650", 75, 4},
    {"v100", "V100", 70, 16},
    {"titan v", "TITAN V", 70, 12},
    {"tesla p100", "P100", 60, 16},
    {"tesla p40", "P40", 61, 24},
    {"titan xp", "TITAN Xp", 61, 12},
    {"gtx 1080 ti", "GTX 1080 Ti", 61, 11},
    {"gtx 1080", "GTX 1080", 61, 8},
    {"gtx 1070", "GTX 1070", 61, 8},
    {"gtx 1060", "GTX 1060", 61, 6},
    {"gtx 1050", "GTX 1050", 61, 4},
    {"tesla k80", "K80", 37, 12},
    {"tesla m60", "M60", 52, 8},
};

// Device sizes, as PyTorch prints them, of cards without bfloat16 that no card with bfloat16 has.
struct SizeRange {
  double from, to;
};
constexpr SizeRange kSizesWithoutBf16[] = {{14.5, 14.8},   {15.75, 15.8}, {15.88, 15.91}, {11.1, 11.5},
                                           {10.74, 10.77}, {10.9, 10.93}, {31.72, 31.76}};

enum class Kind {
  kBatch,
  kAccumulation,
  kFp16,
  kBf16,
  kCheckpointing,
  kAdapters,
  kSmallOptimizer,
  kDriverCuda,
  kTorchCuda,
  kSmiCuda,
  kBuildCuda,
  kToolkitCuda,
  kPort,
  kLarge,
  kTable,
  kNoProcess,
  kLearningRate,
  kRocm,
  kNvidia,
  kProduct,
  kMemory
};
struct Word {
  std::string_view pattern;
  Kind kind;
};
// For `kMemory`, longer words come before shorter ones that they contain.
constexpr Word kWords[] = {
    {"instantaneous batch size per device", Kind::kBatch},
    {"per_device_train_batch_size", Kind::kBatch},
    {"per-device-train-batch-size", Kind::kBatch},
    {"train_micro_batch_size_per_gpu", Kind::kBatch},
    {"per_gpu_train_batch_size", Kind::kBatch},
    {"--batch_size", Kind::kBatch},
    {"--batch-size", Kind::kBatch},
    {"gradient_accumulation_steps", Kind::kAccumulation},
    {"gradient accumulation steps", Kind::kAccumulation},
    {"fp16=true", Kind::kFp16},
    {"--fp16", Kind::kFp16},
    {"fp16: true", Kind::kFp16},
    {"mixed_precision=fp16", Kind::kFp16},
    {"mixed_precision: fp16", Kind::kFp16},
    {"bf16=true", Kind::kBf16},
    {"--bf16", Kind::kBf16},
    {"bf16: true", Kind::kBf16},
    {"mixed_precision=bf16", Kind::kBf16},
    {"mixed_precision: bf16", Kind::kBf16},
    {"gradient_checkpointing=true", Kind::kCheckpointing},
    {"--gradient_checkpointing", Kind::kCheckpointing},
    {"incompatible with gradient checkpointing. setting", Kind::kCheckpointing},
    {"trainable params:", Kind::kAdapters},
    {"peft/tuners/lora", Kind::kAdapters},
    {"adamw_8bit", Kind::kSmallOptimizer},
    {"adamw_bnb_8bit", Kind::kSmallOptimizer},
    {"adafactor=true", Kind::kSmallOptimizer},
    {"optim=adafactor", Kind::kSmallOptimizer},
    {"optim adafactor", Kind::kSmallOptimizer},
    {"found version", Kind::kDriverCuda},
    {"+cu1", Kind::kTorchCuda},
    {"+cu9", Kind::kTorchCuda},
    {"cuda version:", Kind::kSmiCuda},
    {"torch was compiled with", Kind::kBuildCuda},
    {"used to compile pytorch", Kind::kBuildCuda},
    {"installed cuda version", Kind::kToolkitCuda},
    {"detected cuda version", Kind::kToolkitCuda},
    {"failed to bind", Kind::kPort},
    {"address already in use", Kind::kPort},
    {"launch distributed communication on port", Kind::kPort},
    {"permission denied", Kind::kPort},
    {"layoutlmv3-large", Kind::kLarge},
    {"layoutlmv2-large", Kind::kLarge},
    {"layoutlm-large", Kind::kLarge},
    {"mib /", Kind::kTable},
    {"no running processes found", Kind::kNoProcess},
    {"shapes cannot be multiplied", Kind::kProduct},
    {"size mismatch, m1:", Kind::kProduct},
    {"hip error", Kind::kRocm},
    {"hip out of memory", Kind::kRocm},
    {"hiperror", Kind::kRocm},
    {"no hip gpus", Kind::kRocm},
    {"hipblas_status", Kind::kRocm},
    {"miopenstatus", Kind::kRocm},
    {"rocblas error", Kind::kRocm},
    {"hsa_status_error", Kind::kRocm},
    {"memory access fault by gpu", Kind::kRocm},
    {"pytorch_hip_alloc_conf", Kind::kRocm},
    {"amd_serialize_kernel", Kind::kRocm},
    {"hip_launch_blocking", Kind::kRocm},
    {"torch_use_hip_dsa", Kind::kRocm},
    {"+rocm", Kind::kRocm},
    {"/opt/rocm-", Kind::kRocm},
    {"/opt/rocm/lib", Kind::kRocm},
    {"amd instinct", Kind::kRocm},
    {"amd radeon", Kind::kRocm},
    {"radeon rx", Kind::kRocm},
    {"radeon pro", Kind::kRocm},
    {"gfx90", Kind::kRocm},
    {"gfx94", Kind::kRocm},
    {"gfx95", Kind::kRocm},
    {"gfx103", Kind::kRocm},
    {"gfx110", Kind::kRocm},
    {"gfx115", Kind::kRocm},
    {"gfx120", Kind::kRocm},
    {"cuda out of memory", Kind::kNvidia},
    {"cuda error:", Kind::kNvidia},
    {"learning_rate", Kind::kLearningRate},
    {"learning rate", Kind::kLearningRate},
    {"--lr", Kind::kLearningRate},
    {" lr", Kind::kLearningRate},
    {"'lr'", Kind::kLearningRate},
    {"max_mem", Kind::kMemory},
    {"max mem", Kind::kMemory},
    {"gpu_mem", Kind::kMemory},
    {"gpu mem", Kind::kMemory},
    {"gpu memory", Kind::kMemory},
    {"cuda_mem", Kind::kMemory},
    {"cuda mem", Kind::kMemory},
    {"memory_allocated", Kind::kMemory},
    {"memory allocated", Kind::kMemory},
    {"mem_allocated", Kind::kMemory},
    {"allocated:", Kind::kMemory},
    {"allocated ", Kind::kMemory},
    {"memory usage", Kind::kMemory},
    {"memory used", Kind::kMemory},
    {"mem_used", Kind::kMemory},
    {"vram", Kind::kMemory},
    {"peak mem", Kind::kMemory},
    {"memory:", Kind::kMemory},
    {"memory=", Kind::kMemory},
    {"mem:", Kind::kMemory},
    {"mem=", Kind::kMemory},
    {"rss", Kind::kMemory},
    {"ram:", Kind::kMemory},
    {"ram used", Kind::kMemory},
    {"ram usage", Kind::kMemory},
};

// The most figures of memory that are kept, evenly spread over the run.
constexpr std::size_t kMaxPoints = 64;
// Memory grows if the last figure is this many times the first, and the middle one is clearly between them.
constexpr double kGrowth = 1.25;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Returns the number at the start of `text`, after what usually precedes it.
std::optional<double> number_at(std::string_view text, std::size_t* end = nullptr) {
  const std::size_t begin = text.find_first_not_of(" =:'\"\t,(");
  if (begin == std::string_view::npos || begin > 8 || !is_digit(text[begin])) return {};
  double value = 0;
  const auto [last, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc()) return {};
  if (end != nullptr) *end = static_cast<std::size_t>(last - text.data());
  return value;
}
std::optional<int> count_at(std::string_view text) {
  const std::optional<double> value = number_at(text);
  if (!value || *value < 1 || *value > 1e6 || *value != static_cast<int>(*value)) return {};
  return static_cast<int>(*value);
}

// True if an option's name, which ends where `rest` begins, is the whole name and not switched off: "--fp16 False".
bool is_on(std::string_view rest) {
  return rest.empty() || (rest[0] != '_' && !rest.substr(1).starts_with("false") && !rest.substr(1).starts_with("0"));
}

// True if the name is a separate word: no letter or digit around it.
bool has_word(std::string_view small, std::string_view word) {
  for (std::size_t at = small.find(word); at != std::string_view::npos; at = small.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(small[at - 1])) && (end == small.size() || !is_word(small[end]))) return true;
  }
  return false;
}

}  // namespace

const std::vector<std::string_view>& LogFactsReader::patterns() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> made;
    for (const Family& family : kFamilies) made.push_back(family.pattern);
    for (const Card& card : kCards) made.push_back(card.pattern);
    for (const Word& word : kWords) made.push_back(word.pattern);
    return made;
  }();
  return all;
}

void LogFactsReader::read(std::size_t pattern, std::uint64_t line, std::string_view small) {
  constexpr std::size_t kFamilyCount = std::size(kFamilies), kCardCount = std::size(kCards);
  if (pattern < kFamilyCount) {
    const int rank = static_cast<int>(kFamilyCount - pattern);
    if (rank > family_rank_) facts_.family = &kFamilies[pattern];
    family_rank_ = std::max(family_rank_, rank);
    return;
  }
  pattern -= kFamilyCount;
  if (pattern < kCardCount) {
    const int rank = static_cast<int>(kCardCount - pattern);
    if (rank <= card_rank_ || !has_word(small, kCards[pattern].pattern)) return;
    facts_.card = &kCards[pattern];
    card_rank_ = rank;
    return;
  }
  const Word& word = kWords[pattern - kCardCount];
  const std::size_t place = small.find(word.pattern);
  const std::string_view rest = place == std::string_view::npos ? small : small.substr(place + word.pattern.size());
  switch (word.kind) {
    case Kind::kBatch:
      if (const auto count = count_at(rest)) facts_.micro_batch = count;
      break;
    case Kind::kAccumulation:
      if (const auto count = count_at(rest)) facts_.accumulation = count;
      break;
    case Kind::kFp16:
      facts_.fp16 |= is_on(rest);
      break;
    case Kind::kBf16:
      facts_.bf16 |= is_on(rest);
      break;
    case Kind::kCheckpointing:
      facts_.checkpointing |= is_on(rest);
      break;
    case Kind::kAdapters:
      facts_.adapters = true;
      break;
    case Kind::kSmallOptimizer:
      facts_.small_optimizer = true;
      break;
    case Kind::kDriverCuda:
      if (const auto version = count_at(rest); version && *version >= 5000) facts_.driver_cuda = version;
      break;
    case Kind::kTorchCuda: {
      // "+cu92", "+cu102", "+cu113", "+cu128": the last digit is the minor version.
      std::size_t digits = place + 3;
      int version = 0;
      while (digits < small.size() && is_digit(small[digits]) && version < 1000)
        version = 10 * version + (small[digits++] - '0');
      if (version >= 80 && version < 200) facts_.torch_cuda = version / 10 * 1000 + version % 10 * 10;
      break;
    }
    case Kind::kSmiCuda:
      // nvidia-smi: "Driver Version: 535.104.05   CUDA Version: 12.2".
      if (small.find("driver version") != std::string_view::npos) read_cuda(rest, facts_.driver_cuda);
      break;
    case Kind::kBuildCuda:
      read_cuda(rest, facts_.torch_cuda);
      break;
    case Kind::kToolkitCuda:
      read_cuda(rest, facts_.toolkit_cuda);
      break;
    case Kind::kPort:
      read_port(small);
      break;
    case Kind::kLarge:
      facts_.large = true;
      break;
    case Kind::kLearningRate:
      if (const auto rate = number_at(rest); rate && *rate > 0 && !facts_.learning_rate) facts_.learning_rate = rate;
      break;
    case Kind::kRocm:
      facts_.rocm = true;
      break;
    case Kind::kNvidia:
      // Libraries of ROCm report their errors under CUDA's name: "CUDA error: HIPBLAS_STATUS_ALLOC_FAILED".
      names_cuda_ = names_cuda_ || small.find("hip") == std::string_view::npos;
      break;
    case Kind::kTable:
      read_table(small);
      break;
    case Kind::kNoProcess:
      facts_.lists_no_process = true;
      break;
    case Kind::kProduct: {
      // "(2046x770 and 768x1536)", "[a x b], m2: [c x d]": reads the four numbers, of which the inner two should be
      // equal.
      std::vector<int> sizes;
      for (std::size_t i = 0; i < rest.size() && sizes.size() < 4;) {
        int size = 0;
        const auto [end, error] = std::from_chars(rest.data() + i, rest.data() + rest.size(), size);
        const bool named = i > 0 && (rest[i - 1] == 'm' || rest[i - 1] == '-');
        if (error == std::errc() && !named) sizes.push_back(size);
        i = error == std::errc() ? static_cast<std::size_t>(end - rest.data()) : i + 1;
      }
      if (sizes.size() == 4 && sizes[1] > 0 && sizes[2] > 0) {
        facts_.fed = sizes[1];
        facts_.wanted = sizes[2];
        facts_.outer = sizes[3];
      }
      break;
    }
    case Kind::kMemory:
      read_memory(word.pattern, line, small);
      break;
  }
}

// "9.1 does not match", "(11.8)".
void LogFactsReader::read_cuda(std::string_view text, std::optional<int>& version) {
  std::size_t begin = text.find_first_not_of(" :(");
  if (begin == std::string_view::npos || begin > 4 || !is_digit(text[begin])) return;
  int major = 0, minor = 0;
  while (begin < text.size() && is_digit(text[begin]) && major < 100) major = 10 * major + (text[begin++] - '0');
  if (begin + 1 >= text.size() || text[begin] != '.' || !is_digit(text[begin + 1])) return;
  minor = text[begin + 1] - '0';
  if (major >= 7 && major < 30) version = 1000 * major + 10 * minor;
}

// "has failed to bind to [::]:29500 (errno: 98 - Address already in use)", "('127.0.0.1', 80)": reads the number after
// the address.
void LogFactsReader::read_port(std::string_view small) {
  if (facts_.port) return;
  for (const std::string_view before : {"]:", "0.0.0.0:", "127.0.0.1:", "localhost:", "port: ", "port `", "port "}) {
    const std::size_t at = small.find(before);
    if (at == std::string_view::npos) continue;
    int port = 0;
    const char* begin = small.data() + at + before.size();
    const auto [end, error] = std::from_chars(begin, small.data() + small.size(), port);
    if (error == std::errc() && end != begin && port > 0 && port < 65536) facts_.port = port;
    if (facts_.port) return;
  }
}

// "| 30%   45C    P8    20W / 350W |  23500MiB / 24576MiB |      0%      Default |"
void LogFactsReader::read_table(std::string_view small) {
  const std::size_t unit = small.find("mib /");
  std::size_t begin = unit;
  while (begin > 0 && is_digit(small[begin - 1])) --begin;
  if (begin == unit) return;
  if (const auto mib = number_at(small.substr(begin)))
    facts_.listed_gib = std::max(facts_.listed_gib.value_or(0), *mib / 1024);
}

void LogFactsReader::read_memory(std::string_view key, std::uint64_t line, std::string_view small) {
  // Only one kind of figure is followed: the first that a line of progress prints.
  if (!key_.empty() && key != key_) return;
  if (small.find("tried to allocate") != std::string_view::npos) return;
  const std::size_t place = small.find(key);
  std::size_t end = 0;
  std::string_view rest = small.substr(place + key.size());
  // "gpu memory allocated: 7.3 GB", "max_memory_allocated = 7.3"
  const std::size_t skip = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_()[] ");
  if (skip != std::string_view::npos && skip > 0 && skip < 24) rest.remove_prefix(skip);
  std::optional<double> value = number_at(rest, &end);
  if (!value || *value <= 0) return;
  while (end < rest.size() && rest[end] == ' ') ++end;
  if (end < rest.size() && rest[end] == '%') return;
  if (end < rest.size() && rest[end] == 'g') *value *= 1024;
  key_ = key;
  if (!points_.empty() && points_.back().line == line) return;
  if (seen_++ % stride_ != 0) return;
  if (points_.size() == kMaxPoints) {
    for (std::size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
    points_.resize(kMaxPoints / 2);
    stride_ *= 2;
  }
  points_.push_back({line, *value});
}

LogFacts LogFactsReader::facts() const {
  LogFacts facts = facts_;
  // A machine may have an AMD GPU for its screen only.
  facts.rocm = facts.rocm && !(names_cuda_ && facts.card != nullptr);
  if (points_.size() < 4) return facts;
  MemoryTrend& trend = facts.trend;
  const Point &first = points_.front(), &middle = points_[points_.size() / 2], &last = points_.back();
  trend = {first.value, last.value, static_cast<int>(points_.size()), first.line, last.line, false};
  std::size_t falls = 0;
  for (std::size_t i = 1; i < points_.size(); ++i) falls += points_[i].value < 0.97 * points_[i - 1].value;
  trend.grows = last.value >= kGrowth * first.value && last.value > 1.04 * middle.value &&
                middle.value > 1.04 * first.value && 6 * falls <= points_.size();
  return facts;
}

bool LogFacts::gpu_newer_than_build() const {
  if (card == nullptr || !torch_cuda) return false;
  // The first CUDA version that compiles for a compute capability; a build of that generation runs on it.
  const int needed = card->capability >= 100  ? 12080
                     : card->capability >= 89 ? 11080
                     : card->capability >= 86 ? 11010
                     : card->capability >= 80 ? 11000
                     : card->capability >= 75 ? 10000
                     : card->capability >= 70 ? 9000
                                              : 8000;
  // Kernels of 8.0 and 8.6 run on 8.9.
  const int enough = card->capability == 89 ? 11010 : needed;
  return *torch_cuda < enough;
}

std::optional<bool> has_bf16(const LogFacts& facts, std::optional<std::uint64_t> device_bytes) {
  if (facts.card != nullptr) return facts.card->capability >= 80;
  if (!device_bytes) return {};
  const double gib = static_cast<double>(*device_bytes) / 0x1.0p30;
  for (const SizeRange& range : kSizesWithoutBf16)
    if (gib >= range.from && gib <= range.to) return false;
  return {};
}

std::string cuda_name(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

}  // namespace plimsoll::doctor
