// LabelScheme says how label names mark where an entity begins and ends. Metrics, checks, `predict` and drawings share
// this interpretation.
//
//   names                  scheme       an entity                                    equal to seqeval's
//   O, B-X, I-X            IOB1, IOB2   begins with B-, or with I- after another     default mode
//   O, B-X, I-X, E-X, S-X  BIOES        likewise, and ends with E- or S- (IOBES)     default mode
//   O, B-X, I-X, L-X, U-X  BILOU        is B- I-* L- of one type, or U-              strict mode, scheme BILOU
//   O, X                   plain names  is a run of words with the same label        default mode, with I- before each
//                                                                                    name
//
// In default mode IOB1 and IOB2 give the same entities and, in data that follows its scheme, those of strict mode. It
// reads "U-X U-X" as one entity, so BILOU is read in strict mode: one that does not end properly does not count.
//
//   const std::vector<std::string> names{"O", "B-DATE", "I-DATE"}, labels{"B-DATE", "I-DATE", "O"};
//   const auto spans = entity_spans(labels, label_scheme(names));                              // {{"DATE", 0, 2}}
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class LabelScheme : std::uint8_t {
  kIob,    // IOB1 or IOB2, which names alone cannot tell apart
  kIobes,  // E or S occur: BIOES, also IOE1 and IOE2
  kBilou,  // L or U occur
  kPlain,  // no name has a tag
  kMixed   // plain names beside tags, or E and S beside L and U
};

// Returns the scheme of a whole label set. Names are "O", a tag (B, I, E, S, L, U) with a dash and a type, or plain. If
// no name begins with B- or I-, "E-MAIL" beside "NAME" is a plain name.
LabelScheme label_scheme(std::span<const std::string> names);
std::string_view scheme_name(LabelScheme scheme);  // "IOB", "BIOES", "BILOU", "plain", "mixed"

// For a label set that is not tagged throughout, returns a line that says how it is read; empty for the others.
std::string scheme_note(std::span<const std::string> names);

// Returns a name to show: in a plain or mixed label set one without a tag, or else one with L or U.
std::string_view odd_label(std::span<const std::string> names);

struct LabelParts {
  char tag = 'O';               // O, B, I, E, S; in BILOU also L and U
  std::string_view type = "_";  // "_" if nothing follows the tag, as in seqeval
};
// A plain name is read as I- of that type, so consecutive words with the same name are one entity. In a mixture each
// name is read by itself, L as E and U as S. An empty label is O.
LabelParts split_label(std::string_view label, LabelScheme scheme);

// Finds the entities of one sequence of labels, a word at a time. It allocates nothing.
class EntityWalker {
 public:
  struct Label {
    char tag = 'O';
    std::int32_t type = -1;
  };
  struct Entity {
    std::int32_t type = 0;
    std::uint64_t begin = 0, end = 0;  // words, half-open
    friend bool operator==(const Entity&, const Entity&) = default;
  };

  explicit EntityWalker(LabelScheme scheme = LabelScheme::kIob) : strict_(scheme == LabelScheme::kBilou) {}

  // Takes the label at `position`; returns true if an entity ended on the word before, which `ended` then describes. A
  // final O closes an open entity.
  bool advance(Label label, std::uint64_t position, Entity& ended);

 private:
  bool advance_strictly(Label label, std::uint64_t position, Entity& ended);

  bool strict_;
  Label previous_{};
  std::uint64_t begin_ = 0;
  bool open_ = false, closed_ = false;  // strict mode: B was seen, and L or U has ended it
};

// A run of words that labels mark as one entity.
struct WordSpan {
  std::string name{};
  std::size_t begin = 0, end = 0;  // words, half-open
  friend bool operator==(const WordSpan&, const WordSpan&) = default;
};
std::vector<WordSpan> entity_spans(std::span<const std::string> labels, LabelScheme scheme);

}  // namespace plimsoll
