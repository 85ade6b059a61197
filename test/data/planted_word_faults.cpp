// Faults of one word, box or label.
#include "data/planted_faults.h"

namespace plimsoll::test {
namespace {

using Json = nlohmann::json;

Fault box(std::string name, std::string kind, std::function<Json(Json box)> change) {
  return {
      .name = "box " + name, .kind = std::move(kind), .at = At::kWord, .plant = [change](Json& page, std::size_t word) {
        page["boxes"][word] = change(page["boxes"][word]);
      }};
}
Fault coordinate(std::string name, std::string kind, std::size_t which, Json value) {
  return box(std::move(name), std::move(kind), [which, value](Json each) {
    each[which] = value;
    return each;
  });
}
// Writes JSON that no JSON library writes: text in quotes loses them.
Fault unquoted(const std::string& text) {
  Fault fault = coordinate(text, "not-finite", 1, "@" + text);
  fault.spoil = [text](std::string& line, const std::string&) {
    line.replace(line.find("\"@" + text + "\""), text.size() + 3, text);
  };
  return fault;
}
Fault word(std::string name, std::string kind, Json value, std::set<std::string> also = {}) {
  return {.name = "word " + name,
          .kind = std::move(kind),
          .at = At::kWord,
          .plant = [value](Json& page, std::size_t at) { page["words"][at] = value; },
          .also = std::move(also)};
}
Fault bytes(std::string name, std::string broken) {
  return {.name = "bytes " + name,
          .kind = "not-utf8",
          .at = At::kWord,
          .spoil = [broken](std::string& line, const std::string& at) { line.replace(line.find(at) + 2, 1, broken); }};
}
Fault label(std::string name, std::string kind, Json value, std::size_t in_line = 0) {
  return {.name = "label " + name,
          .kind = std::move(kind),
          .at = At::kWord,
          .plant = [value, in_line](Json& page, std::size_t at) {
            page["labels"][at] = value;
            // The neighbours decide whether an I- label is valid, so this keeps their order valid.
            if (in_line == 0 && at + 1 < page["labels"].size() && page["labels"][at + 1] == "I-X")
              page["labels"][at + 1] = "B-X";
          }};
}

}  // namespace

std::vector<Fault> word_faults() {
  const auto swap = [](std::size_t a, std::size_t b) {
    return [a, b](Json each) {
      std::swap(each[a], each[b]);
      return each;
    };
  };
  std::vector<Fault> faults = {
      coordinate("right of the page", "box-outside", 2, kPageWidth + 9),
      coordinate("below the page", "box-outside", 3, kPageHeight + 2.5),
      coordinate("left of the page", "box-outside", 0, -5),
      coordinate("above the page", "box-outside", 1, -1),
      coordinate("far beyond", "box-outside", 2, 1e9),
      coordinate("beyond any integer", "box-outside", 3, 1e300),
      coordinate("far below zero", "box-outside", 0, -1e300),
      unquoted("NaN"),
      unquoted("Infinity"),
      unquoted("-Infinity"),
      box("of three numbers", "box-shape",
          [](Json each) {
            return Json{each[0], each[1], each[2]};
          }),
      box("of five numbers", "box-shape",
          [](Json each) {
            return Json{each[0], each[1], each[2], each[3], 0};
          }),
      box("empty", "box-shape", [](const Json&) { return Json::array(); }),
      box("a number", "box-shape", [](const Json&) { return Json(7); }),
      box("null", "box-shape", [](const Json&) { return Json(); }),
      box("an object", "box-shape",
          [](Json each) {
            return Json{{"x", each[0]}, {"y", each[1]}};
          }),
      box("of two corners", "box-shape",
          [](Json each) {
            return Json::array({Json{each[0], each[1]}, Json{each[2], each[3]}});
          }),
      coordinate("with text", "box-shape", 2, "12"),
      coordinate("with null", "box-shape", 0, nullptr),
      coordinate("with true", "box-shape", 3, true),
      box("inverted in x", "box-inverted", swap(0, 2)),
      box("inverted in y", "box-inverted", swap(1, 3)),
      box("inverted in both", "box-inverted",
          [](Json each) {
            return Json{each[2], each[3], each[0], each[1]};
          }),
      word("null", "wrong-type", nullptr),
      word("a number", "wrong-type", 12.5),
      word("a list", "wrong-type", Json::array({"a"})),
      word("empty", "word-without-tokens", ""),
      word("with a token beyond the vocabulary", "token-outside", "ab~cd"),
      bytes("of no encoding", "\xFF"),
      bytes("of Latin-1", "\xE9"),
      bytes("overlong", "\xC0\x80"),
      bytes("of a surrogate", "\xED\xA0\x80"),
      bytes("cut short", "\xE2\x82"),
      label("unknown", "label-unknown", "B-VAT"),
      label("in small letters", "label-unknown", "b-x"),
      label("empty", "label-unknown", ""),
      label("beyond the head", "label-unknown", 5),
      label("far beyond the head", "label-unknown", 9999999999),
      label("below zero", "label-unknown", -1),
      label("a fraction", "wrong-type", 1.5),
      label("true", "wrong-type", true),
      label("a list", "wrong-type", Json::array({1})),
  };
  // The first word of a line is O, before it B-Y, and the last of a line B-Y, before it I-X.
  // Names without a tag, and L- and U- beside E- and S-.
  for (const char* odd : {"DATE", "U-X"}) {
    Fault mixed = label(std::string("of another scheme, ") + odd, "label-scheme", odd);
    mixed.options = [](CheckOptions& options) {
      static const LabelSet kMixed = LabelSet::parse("O,B-X,I-X,B-Y,I-Y,E-X,U-X,DATE");
      options.labels = &kMixed;
    };
    mixed.also = {"label-unused"};
    faults.push_back(std::move(mixed));
  }
  Fault inside = label("inside without a beginning", "tag-order", "I-Y");
  inside.plant = [](Json& page, std::size_t at) { page["labels"][at] = at % kWordsInLine < 2 ? "I-X" : "I-Y"; };
  faults.push_back(inside);
  return faults;
}

}  // namespace plimsoll::test
