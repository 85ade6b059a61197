// Says where a Python traceback ends: it reads frames in every form that Python, notebooks and rich print, and the part
// of a training program that the innermost of them belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::doctor {

struct Frame {
  std::string file{};      // its last component: "trainer.py"; "a notebook's cell"
  std::string path{};      // whole, in small letters, with slashes: what the layers are recognised by
  std::uint64_t line = 0;  // 0: not told
  std::string function{};  // "forward", "<module>"; empty: not told
  bool library = false;    // an installed package's, or Python's own
};

// The frame that a line of a traceback names; nothing where it names none.
std::optional<Frame> read_frame(std::string_view text);

// A part of a training program, which may refuse what it is given.
enum class Layer {
  kUnknown,
  kOwnCode,  // the user's own code, of which nothing more is known
  kPreparation,
  kDataSet,
  kCollator,
  kTokenizer,
  kProcessor,
  kModel,
  kLoss,
  kBackward,
  kMetric,
  kOptimizer,
  kTrainer,
  kLoading,
  kSaving,
  kImport,
  kArguments,
  kDistributed,
  kAdapters,
  kQuantization,
  kCompilation,
  kTracker
};

// The layer that frames (outermost first) end in: the innermost that is more than a helper.
Layer layer_of(std::span<const Frame> frames);
// "in the tokenizer"; empty for kUnknown.
std::string_view layer_words(Layer layer);

// "tokenization_utils_fast.py, line 502, in _batch_encode_plus; called from train.py, line 33, in tokenize".
std::string place_of(std::span<const Frame> frames);

}  // namespace plimsoll::doctor
