// Finds where a Python traceback ends: it reads frames in every form that Python, notebooks and rich print, and finds
// the part of a training program that the innermost frame belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::doctor {

struct Frame {
  std::string file{};      // its last component: "trainer.py"; "a notebook's cell"
  std::string path{};      // the whole path, in small letters, with slashes, by which layers are recognised
  std::uint64_t line = 0;  // 0: unknown
  std::string function{};  // "forward", "<module>"; empty: unknown
  bool library = false;    // in an installed package, or in Python itself
};

// Returns the frame that a line of a traceback names; nothing if it names none.
std::optional<Frame> read_frame(std::string_view text);

// A part of a training program, which may refuse its input.
enum class Layer {
  kUnknown,
  kOwnCode,  // the user's own code, about which nothing more is known
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

// Returns the layer in which frames (outermost first) end: the innermost that is more than a helper.
Layer layer_of(std::span<const Frame> frames);
// Returns "in the tokenizer"; empty for kUnknown.
std::string_view layer_words(Layer layer);

// Returns "tokenization_utils_fast.py, line 502, in _batch_encode_plus; called from train.py, line 33, in tokenize".
std::string place_of(std::span<const Frame> frames);

}  // namespace plimsoll::doctor
