#include "data/tokenizer_sentencepiece.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "data/tokenizer_split.h"
#include "formats/protobuf.h"

namespace plimsoll {
namespace {

using Type = ProtobufField::Type;

// The fields that are read have these numbers.
constexpr std::uint32_t kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3;
constexpr std::uint32_t kText = 1, kScore = 2, kKind = 3;
constexpr std::uint32_t kModelType = 3, kByteFallback = 35;
constexpr std::uint32_t kCharsmap = 2;
constexpr std::uint64_t kUnigram = 1;

class Reading {
 public:
  explicit Reading(const std::string& where) : where_(where) {}

  SentencePieceModel read(std::string_view bytes) {
    SentencePieceModel model;
    each_field(bytes, [&](const ProtobufField& field) {
      if (field.type != Type::kBytes) return;
      if (field.number == kPieces) model.pieces.push_back(read_piece(field.bytes, model.pieces.size()));
      if (field.number == kTrainerSpec) check_trainer(field.bytes);
      if (field.number == kNormalizerSpec) {
        each_field(field.bytes, [&](const ProtobufField& part) {
          if (part.number == kCharsmap && part.type == Type::kBytes) model.charsmap = part.bytes;
        });
      }
    });
    if (model.pieces.empty()) refuse("the model file has no pieces", "none", "a SentencePiece model");
    return model;
  }

 private:
  [[noreturn]] void refuse(std::string what, std::string found, std::string allowed) const {
    throw DataError({.what = std::move(what),
                     .where = where_,
                     .found = std::move(found),
                     .allowed = std::move(allowed),
                     .remedy = "copy or download the model's tokenizer files again"});
  }

  template <typename Use>
  void each_field(std::string_view message, const Use& use) const {
    ProtobufReader reader(message);
    while (const std::optional<ProtobufField> field = reader.next()) use(*field);
    if (reader.damaged())
      refuse("the file is no SentencePiece model, or is truncated", "a damaged field", "all fields");
  }

  SentencePiece read_piece(std::string_view message, std::size_t number) const {
    SentencePiece piece;
    each_field(message, [&](const ProtobufField& field) {
      if (field.number == kText && field.type == Type::kBytes) piece.text = field.bytes;
      if (field.number == kScore && field.type == Type::kFixed32) piece.score = field.as_float();
      if (field.number == kKind && field.type == Type::kVarint && field.value <= 6) {
        piece.kind = static_cast<SentencePiece::Kind>(field.value);
      }
    });
    if (find_invalid_utf8(piece.text)) refuse("a piece is not UTF-8", fmt::format("piece {}", number), "UTF-8");
    if (!std::isfinite(piece.score)) {
      refuse("a piece's score is not a number", fmt::format("piece {}", number), "finite scores");
    }
    return piece;
  }

  void check_trainer(std::string_view message) const {
    each_field(message, [&](const ProtobufField& field) {
      if (field.number == kModelType && field.type == Type::kVarint && field.value != kUnigram) {
        refuse("the SentencePiece model is not a Unigram one", fmt::format("model_type {}", field.value),
               "model_type 1 (UNIGRAM), as in XLM-RoBERTa");
      }
      if (field.number == kByteFallback && field.type == Type::kVarint && field.value != 0) {
        refuse("the SentencePiece model spells unknown characters in bytes", "byte_fallback true",
               "byte_fallback false, as in XLM-RoBERTa");
      }
    });
  }

  const std::string& where_;
};

}  // namespace

SentencePieceModel read_sentence_pieces(std::string_view bytes, const std::string& where) {
  return Reading(where).read(bytes);
}

}  // namespace plimsoll
