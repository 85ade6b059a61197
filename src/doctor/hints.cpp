#include "doctor/hints.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

// Words before an error that may occur. What follows them within a few words is not an error that occurred.
constexpr std::string_view kConditions[] = {
    "if you get",      "if you see",       "if you encounter", "if you run into",  "if you receive",  "if you face",
    "if you still",    "if you have",      "if you hit",       "if it fails with", "if this fails",   "in case you get",
    "in case of",      "when you get",     "when you see",     "whenever you",     "errors such as",  "errors like",
    "error such as",   "may lead to",      "might lead to",    "can lead to",      "could lead to",   "may cause",
    "might cause",     "can cause",        "could cause",      "may result in",    "might result in", "can result in",
    "could result in", "helps to prevent", "you may see",      "you might see",    "you may get",     "you might get",
    "to work around",  "to get rid of",    "to fix",           "to avoid a",       "to avoid cuda",   "to avoid out"};
constexpr std::size_t kConditionReach = 48;

bool is_package_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

// Words that occur where a package's name is expected, but are not names.
constexpr std::string_view kNoPackages[] = {
    "it",     "the",   "a",       "an",      "this",     "that",    "them",    "following", "package",   "packages",
    "with",   "by",    "via",     "all",     "your",     "latest",  "newest",  "both",      "missing",   "required",
    "either", "from",  "and",     "or",      "using",    "library", "one",     "to",        "latest.",   "dependencies",
    "some",   "other", "another", "version", "optional", "you",     "which",   "if",        "correctly", "properly",
    "in",     "is",    "not",     "nor",     "are",      "source",  "upgrade", "install"};

// pip's names of packages whose modules have other names.
struct Name {
  std::string_view module, package;
};
constexpr Name kPipNames[] = {{"cv2", "opencv-python-headless"},
                              {"PIL", "pillow"},
                              {"sklearn", "scikit-learn"},
                              {"skimage", "scikit-image"},
                              {"fitz", "pymupdf"},
                              {"yaml", "pyyaml"},
                              {"Levenshtein", "levenshtein"},
                              {"flash_attn", "flash-attn"},
                              {"sentence_transformers", "sentence-transformers"},
                              {"google.protobuf", "protobuf"},
                              {"bs4", "beautifulsoup4"},
                              {"dateutil", "python-dateutil"},
                              {"dotenv", "python-dotenv"},
                              {"paddle", "paddlepaddle"},
                              {"doctr", "python-doctr"},
                              {"tensorboardX", "tensorboardX"},
                              {"pytorch_lightning", "pytorch-lightning"},
                              {"huggingface_hub", "huggingface-hub"},
                              {"mpi4py", "mpi4py"},
                              {"torch_geometric", "torch-geometric"}};

// Modules that belong to scripts: a package of that name in pip is something else.
constexpr std::string_view kOwnModules[] = {"utils",  "util",    "src",    "models",  "model",   "data",    "dataset",
                                            "config", "configs", "common", "helpers", "helper",  "lib",     "modules",
                                            "losses", "loss",    "train",  "trainer", "eval",    "test",    "main",
                                            "layers", "options", "tools",  "core",    "metrics", "networks"};

// True for a name that may be put into a command: a letter, then letters, digits and . _ -, at most as many as real
// names have.
bool is_package_name(std::string_view name) {
  return name.size() >= 2 && name.size() <= 40 && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(), is_package_letter);
}

// Returns a module's package, by its name in pip; empty if the module belongs to no package.
std::string pip_name(std::string_view module) {
  for (const Name& name : kPipNames)
    if (module == name.module || module.starts_with(std::string(name.module) + ".")) return std::string(name.package);
  const std::string_view top = module.substr(0, module.find('.'));
  if (!is_package_name(top) || std::find(std::begin(kOwnModules), std::end(kOwnModules), top) != std::end(kOwnModules))
    return {};
  return std::string(top);
}

// Returns the package's name at the start of `text`, after quotation marks and small words.
std::string name_at(std::string_view text) {
  for (int words = 0; words < 3; ++words) {
    const std::size_t begin = text.find_first_not_of(" `'\"(:");
    if (begin == std::string_view::npos || begin > 6) return {};
    text.remove_prefix(begin);
    if (text.starts_with('-')) {  // an option of pip
      text.remove_prefix(std::min(text.find(' '), text.size()));
      --words;
      if (text.empty()) return {};
      continue;
    }
    std::size_t end = 0;
    while (end < text.size() && is_package_letter(text[end])) ++end;
    std::string_view name = text.substr(0, end);
    while (name.ends_with('.')) name.remove_suffix(1);
    const std::string small = to_small_letters(name);
    if (std::find(std::begin(kNoPackages), std::end(kNoPackages), small) == std::end(kNoPackages)) {
      return is_package_name(name) ? std::string(name) : std::string();
    }
    text.remove_prefix(end);
  }
  return {};
}
// Does the same for the word at the end of `text`.
std::string name_before(std::string_view text) {
  while (!text.empty() && std::string_view(" `'\"").find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  std::size_t begin = text.size();
  while (begin > 0 && is_package_letter(text[begin - 1])) --begin;
  std::string name = name_at(text.substr(begin));
  return begin + name.size() == text.size() ? name : std::string();
}

// Returns "torch" for ".../site-packages/torch/nn/init.py".
std::string_view package_of(std::string_view path) {
  for (const std::string_view folder : {"site-packages/", "dist-packages/"}) {
    const std::size_t at = path.rfind(folder);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = path.substr(at + folder.size());
    const std::size_t slash = rest.find('/');
    return slash == std::string_view::npos ? std::string_view() : rest.substr(0, slash);
  }
  return {};
}

// Returns the text between the quotation marks after `words`.
std::string_view quoted_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + words.size());
  return text.substr(0, text.find('\''));
}

// Packages that programs try to import and continue without; their module is then None.
constexpr std::string_view kOptional[] = {"xformers",
                                          "xops",
                                          "flash_attn",
                                          "flash_attn_cuda",
                                          "apex",
                                          "amp",
                                          "triton",
                                          "bitsandbytes",
                                          "bnb",
                                          "deepspeed",
                                          "wandb",
                                          "causal_conv1d",
                                          "mamba_ssm",
                                          "selective_scan_cuda",
                                          "fused_layer_norm_cuda",
                                          "detectron2",
                                          "pytesseract",
                                          "faiss",
                                          "sentencepiece",
                                          "spm",
                                          "onnxruntime",
                                          "tensorrt",
                                          "nvml",
                                          "pynvml",
                                          "torch_xla",
                                          "mlflow",
                                          "tensorboard",
                                          "rotary_emb",
                                          "dropout_layer_norm"};
constexpr Name kOptionalPackages[] = {{"xops", "xformers"},
                                      {"flash_attn_cuda", "flash-attn"},
                                      {"flash_attn", "flash-attn"},
                                      {"amp", "apex"},
                                      {"fused_layer_norm_cuda", "apex"},
                                      {"bnb", "bitsandbytes"},
                                      {"causal_conv1d", "causal-conv1d"},
                                      {"mamba_ssm", "mamba-ssm"},
                                      {"selective_scan_cuda", "mamba-ssm"},
                                      {"spm", "sentencepiece"},
                                      {"rotary_emb", "flash-attn"},
                                      {"dropout_layer_norm", "flash-attn"}};

}  // namespace

bool only_supposes(std::string_view small, std::size_t begin) {
  const std::size_t from = begin > kConditionReach ? begin - kConditionReach : 0;
  const std::string_view before = small.substr(from, begin - from);
  for (const std::string_view words : kConditions) {
    const std::size_t at = before.rfind(words);
    if (at == std::string_view::npos) continue;
    // A condition in an earlier sentence does not apply to what follows.
    if (before.find(". ", at) == std::string_view::npos && before.find("! ", at) == std::string_view::npos) return true;
  }
  return false;
}

std::string missing_package(std::string_view message) {
  const std::string small = to_small_letters(message);
  const auto after = [&](std::string_view words) -> std::optional<std::string_view> {
    const std::size_t at = small.find(words);
    if (at == std::string::npos) return {};
    return message.substr(at + words.size());
  };
  if (const std::string_view module = quoted_after(message, "No module named '"); !module.empty())
    return pip_name(module);
  // A package that pip is to install has pip's name.
  for (const std::string_view words :
       {"pip install ", "make sure you have ", "requires the ", "need to install ", "please install ", "install the ",
        "needs the ", "no package metadata was found for ", "dependency ", "could not find module ",
        "could not import "}) {
    const std::optional<std::string_view> rest = after(words);
    if (!rest) continue;
    if (std::string name = name_at(*rest); !name.empty()) return pip_name(name);
  }
  for (const std::string_view words :
       {"is not installed", "isn't installed", "not installed", "is required", "must be installed",
        "needs to be installed", "to be installed", "package is missing", "package was not found",
        "was not found in your environment"}) {
    const std::size_t at = small.find(words);
    if (at == std::string::npos) continue;
    std::string_view before = message.substr(0, at);
    for (const std::string_view word : {"package ", "library ", "module "})
      if (to_small_letters(before).ends_with(word)) before.remove_suffix(word.size());
    if (std::string name = name_before(before); !name.empty()) return pip_name(name);
  }
  return {};
}

Import read_import(std::string_view message, std::span<const Frame> frames) {
  if (frames.empty()) return Import::kUnknown;
  const std::string small = to_small_letters(message);
  const std::string_view importer = package_of(frames.back().path);
  if (importer.empty()) return Import::kUnknown;
  // A package's compiled part may be missing while its files are whole.
  for (const std::string_view words : {"circular import", "name '_c'", "._c'", "._c.", "_ext'", "_cuda'", "_cpp'"})
    if (small.find(words) != std::string::npos) return Import::kUnknown;
  const auto is_of = [&](std::string_view name) {
    return name.starts_with(importer) && (name.size() == importer.size() || name[importer.size()] == '.');
  };
  const std::string_view from =
      small.find("cannot import name") == std::string::npos ? std::string_view() : quoted_after(small, "' from '");
  const std::string_view module = quoted_after(small, "no module named '");
  if (is_of(from) || (is_of(module) && module.size() > importer.size())) return Import::kFromItself;
  // The package exists, but not this part of it, which another version has.
  return from.empty() && module.find('.') == std::string_view::npos ? Import::kUnknown : Import::kFromOther;
}

std::string_view module_that_is_none(std::string_view message, std::string_view source) {
  constexpr std::string_view kWords = "'NoneType' object has no attribute '";
  const std::string_view attribute = quoted_after(message, kWords);
  if (attribute.empty()) return {};
  const std::size_t at = source.find("." + std::string(attribute));
  if (at == std::string_view::npos) return {};
  std::size_t begin = at;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(source[begin - 1])) != 0 || source[begin - 1] == '_'))
    --begin;
  const std::string_view module = source.substr(begin, at - begin);
  for (const std::string_view known : kOptional) {
    if (module != known) continue;
    for (const Name& name : kOptionalPackages)
      if (name.module == known) return name.package;
    return known;
  }
  return {};
}

bool shows_other_source(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('-')) {  // a notebook's "---> 12 code"
    const std::size_t arrow = text.find_first_not_of('-');
    if (arrow == std::string_view::npos || text[arrow] != '>') return false;
    text = trimmed(text.substr(arrow + 1));
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0) return false;
    text = trimmed(text.substr(digits));
  }
  return text.starts_with('#') || text == "}" || text == "try:" || text == "else:" || text == "finally:";
}

Unequal read_unequal(std::string_view message, std::string_view source) {
  const std::string small = to_small_letters(message);
  if (small.find("equal size") == std::string::npos && small.find("same shape") == std::string::npos &&
      small.find("same size") == std::string::npos)
    return Unequal::kUnknown;
  std::vector<std::vector<int>> shapes;
  for (std::size_t at = small.find('['); at != std::string::npos; at = small.find('[', at + 1)) {
    const std::size_t end = small.find(']', at);
    if (end == std::string::npos) break;
    const std::string inside = small.substr(at + 1, end - at - 1);
    if (inside.empty() || inside.find_first_not_of("0123456789, ") != std::string::npos) continue;
    std::vector<int>& sizes = shapes.emplace_back();
    for (std::size_t i = 0; i < inside.size() && (i = inside.find_first_of("0123456789", i)) != std::string::npos;) {
      int size = 0;
      i = static_cast<std::size_t>(std::from_chars(inside.data() + i, inside.data() + inside.size(), size).ptr -
                                   inside.data());
      sizes.push_back(size);
    }
  }
  // Shapes of images or their latents have channels (few) before or after height and width; videos also have frames.
  constexpr int kMostChannels = 16;
  const auto is_image = [](const std::vector<int>& sizes) {
    return sizes.size() >= 3 && sizes.size() <= 4 &&
           ((sizes[sizes.size() - 3] <= kMostChannels && sizes[sizes.size() - 2] > kMostChannels) ||
            sizes.back() <= 4 || (sizes.size() == 4 && sizes[0] <= kMostChannels));
  };
  if (shapes.size() >= 2 && shapes[0].size() == shapes[1].size() && is_image(shapes[0]) && is_image(shapes[1])) {
    // "[1, 80, 912]" and "[1, 80, 1204]": spectra of sounds of different lengths.
    constexpr int kBands[] = {40, 64, 80, 100, 128, 229, 257, 513};
    const std::vector<int>&one = shapes[0], &other = shapes[1];
    if (one.size() == 3 && one[0] == 1 && other[0] == 1 && one[1] == other[1] && one[2] != other[2] &&
        std::find(std::begin(kBands), std::end(kBands), one[1]) != std::end(kBands))
      return Unequal::kUnknown;
    const bool first = shapes[0][0] != shapes[1][0] && shapes[0][0] <= 4 && shapes[1][0] <= 4,
               last = shapes[0].back() != shapes[1].back() && shapes[0].back() <= 4 && shapes[1].back() <= 4;
    return first || last ? Unequal::kImageChannels : Unequal::kImageSizes;
  }
  // "[24, 32, 64]" and "[24, 64, 32]": equally many stacked images, with different height and width.
  if (shapes.size() >= 2 && shapes[0].size() == shapes[1].size() && shapes[0].size() >= 3 &&
      std::equal(shapes[0].begin(), shapes[0].end() - 2, shapes[1].begin()) &&
      *(shapes[0].end() - 2) != *(shapes[1].end() - 2) && shapes[0].back() != shapes[1].back())
    return Unequal::kImageSizes;
  const std::string code = to_small_letters(source);
  for (const std::string_view name : {"pixel", "image", "latent", "img", "frames"})
    if (code.find(name) != std::string::npos) return Unequal::kImageSizes;
  return Unequal::kUnknown;
}

Lengths read_lengths(std::string_view small, std::string_view source) {
  const auto number_after = [&](std::string_view words) {
    int number = 0;
    if (const std::size_t at = small.find(words); at != std::string_view::npos)
      std::from_chars(small.data() + at + words.size(), small.data() + small.size(), number);
    return number;
  };
  // Numbers of positions: BERT's, RoBERTa's, CLIP's, those of text and image together in LayoutLMv3; and one less, for
  // labels that are shifted.
  constexpr int kPositions[] = {77, 511, 512, 514, 709};
  const auto is_one_of = [](std::span<const int> numbers, int number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  };
  if (small.find("' is invalid for input of size 512") != std::string_view::npos) {
    // "shape '[-1, 743]' is invalid for input of size 512": the positions are asked for more than there are.
    const std::size_t begin = small.find("shape '["), end = small.find("]'");
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return Lengths::kUnknown;
    const std::size_t last = small.find_last_not_of("0123456789", end - 1) + 1;
    int length = 0;
    std::from_chars(small.data() + last, small.data() + end, length);
    return length > 512 ? Lengths::kTooLong : Lengths::kUnknown;
  }
  const bool expands = small.find("must match the existing size (") != std::string_view::npos;
  const int one = number_after(expands ? "expanded size of the tensor (" : "the size of tensor a ("),
            other = number_after(expands ? "must match the existing size (" : "must match the size of tensor b ("),
            dimension = number_after("at non-singleton dimension ");
  if (one <= 1 || other <= 1 || dimension == 0) return Lengths::kUnknown;
  const int shorter = std::min(one, other), longer = std::max(one, other);
  // 77 and 512 are sizes of much else in other dimensions.
  const auto is_length = [&](int size) {
    return is_one_of(kPositions, size) && (expands || dimension == 1 || (size != 77 && size != 512));
  };
  if (is_length(shorter) && (!expands || other == shorter)) return Lengths::kTooLong;
  const std::string code = to_small_letters(source);
  const auto names_part = [&] {
    for (const std::string_view part : {"mask", "token_type", "position", "label", "input_ids", "bbox", "segment"})
      if (code.find(part) != std::string::npos) return true;
    return false;
  };
  constexpr int kMaxLengths[] = {128, 256, 384, 512, 514, 709, 1024, 2048, 4096};
  if (is_one_of(kMaxLengths, longer) && names_part()) return Lengths::kPaddedApart;
  // Both may be sizes of features.
  return is_length(longer) && shorter % 32 != 0 ? Lengths::kPaddedApart : Lengths::kUnknown;
}

bool names_one_letter(std::string_view small) {
  constexpr std::string_view kHub = "https://huggingface.co/", kFile = "/resolve/";
  if (const std::size_t at = small.find(kHub); at != std::string_view::npos) {
    const std::string_view name = small.substr(at + kHub.size());
    if (name.size() > kFile.size() && name.substr(1).starts_with(kFile)) return name[0] >= 'a' && name[0] <= 'z';
  }
  const std::size_t at = small.find(" is not a local folder and is not a valid model");
  if (at == std::string_view::npos || at == 0 || small[at - 1] < 'a' || small[at - 1] > 'z') return false;
  return at == 1 || small.substr(0, at - 1).ends_with("error: ");
}

}  // namespace plimsoll::doctor
