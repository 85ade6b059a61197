// Faults of a page: its counts, keys, picture, boxes as a whole, length.
#include "data/planted_faults.h"

namespace plimsoll::test {
namespace {

using Json = nlohmann::json;

Fault page(std::string name, std::string kind, std::function<void(Json& page, std::size_t word)> plant,
           std::set<std::string> also = {}) {
  return {.name = "page " + name, .kind = std::move(kind), .plant = std::move(plant), .also = std::move(also)};
}
Fault set(const std::string& key, std::string kind, const Json& value, std::set<std::string> also = {}) {
  return page(
      fmt::format("with {} {}", key, value.dump().substr(0, 60)), std::move(kind),
      [key, value](Json& each, std::size_t) { each[key] = value; }, std::move(also));
}
Fault without(const std::string& key, std::string kind) {
  return page("without " + key, std::move(kind), [key](Json& each, std::size_t) { each.erase(key); });
}
Fault line(std::string name, std::string kind, std::function<void(std::string& text)> spoil) {
  return {.name = "line " + name,
          .kind = std::move(kind),
          .at = At::kLine,
          .spoil = [spoil](std::string& text, const std::string&) { spoil(text); }};
}
// Changes every box by the same rule.
Fault boxes(std::string name, std::string kind, std::function<Json(double x0, double y0, double x1, double y1)> rule,
            std::set<std::string> also = {}) {
  return page(
      "with boxes " + name, std::move(kind),
      [rule](Json& each, std::size_t) {
        for (Json& box : each["boxes"]) box = rule(box[0], box[1], box[2], box[3]);
      },
      std::move(also));
}
Fault decoded(Fault fault) {
  fault.options = [](CheckOptions& options) { options.decode_images = true; };
  return fault;
}
Fault in_windows(Fault fault, LongPages long_pages, int max_length) {
  fault.options = [=](CheckOptions& options) {
    options.windows = {.max_length = max_length, .stride = 8, .long_pages = long_pages};
  };
  return fault;
}

}  // namespace

std::vector<Fault> page_faults() {
  const Json none = Json::array();
  const auto grow = [](const char* key) {
    return [key](Json& each, std::size_t word) { each[key].push_back(Json(each[key][word])); };
  };
  const auto shrink = [](const char* key) { return [key](Json& each, std::size_t word) { each[key].erase(word); }; };
  const auto lengthen = [](Json& each, std::size_t word) { each["words"][word] = std::string(80, 'q'); };
  constexpr double kW = kPageWidth, kH = kPageHeight;
  const std::set<std::string> outside = {"box-outside"};
  std::vector<Fault> faults = {
      page("with a box too few", "counts-differ", shrink("boxes")),
      page("with a box too many", "counts-differ", grow("boxes")),
      page("with a label too few", "counts-differ", shrink("labels")),
      page("with a label too many", "counts-differ", grow("labels")),
      page("with a word too few", "counts-differ", shrink("words")),
      page("with no words", "empty-page",
           [none](Json& each, std::size_t) { each["words"] = each["boxes"] = each["labels"] = none; }),
      without("words", "missing-key"),
      without("boxes", "missing-key"),
      without("image", "missing-key"),
      without("labels", "labels-missing"),
      set("words", "wrong-type", "one two"),
      set("boxes", "wrong-type", Json::object()),
      set("labels", "wrong-type", "O"),
      set("image", "wrong-type", 3),
      page("with other tags than labels", "labels-differ",
           [](Json& each, std::size_t word) {
             each["ner_tags"] = each["labels"];
             each["ner_tags"][word] = "B-OTHER";
           }),
      set("image", "missing-key", nullptr),
      set("width", "wrong-type", -4),
      set("height", "wrong-type", "tall"),
      set("id", "duplicate-id", "p0"),
      line("cut", "bad-json", [](std::string& text) { text.resize(text.size() / 2); }),
      line("of prose", "bad-json", [](std::string& text) { text = "see the other file"; }),
      line("with an array", "bad-json", [](std::string& text) { text = "[" + text + "]"; }),
      line("with a comma too many", "bad-json", [](std::string& text) { text.insert(text.size() - 1, ","); }),
      line("with single quotes", "bad-json",
           [](std::string& text) { std::replace(text.begin(), text.end(), '"', '\''); }),
      line("with words twice", "repeated-key", [](std::string& text) { text.insert(1, R"("words": ["other"], )"); }),
      line("with a key twice, deeper", "repeated-key",
           [](std::string& text) { text.insert(1, R"("note": [{"a": 1, "b": {}, "a": 2}], )"); }),
      line("in UTF-16", "not-utf8",
           [](std::string& text) {
             std::string wide = "\xFF\xFE";
             for (const char c : text) wide += std::string{c, '\0'};
             text = wide;
           }),
      set("image", "image-missing", "absent.png"),
      set("image", "image-missing", "../elsewhere/page.ppm"),
      set("image", "image-unreadable", "empty.png"),
      set("image", "image-unreadable", image_file("refused_cut.png")),
      set("image", "image-unreadable", image_file("refused_cut.jpg")),
      set("image", "image-unreadable", "cut_rgb.ppm"),
      set("image", "image-unreadable", "cut_gray.pgm"),
      set("image", "image-unreadable", "cut_rgb.tif"),
      set("image", "image-unreadable", "cut_lzw.tif"),
      set("image", "image-unreadable", "cut_rgb.bmp"),
      set("image", "image-kind", image_file("refused_text.png")),
      set("image", "image-kind", image_file("refused.gif")),
      set("image", "image-too-large", image_file("refused_bomb.png")),
      set("image", "image-size", image_file("rgb.png")),
      set("image", "image-turned", image_file("exif_6.jpg"), {"image-size"}),
      set("image", "image-turned", image_file("exif_8.png"), {"image-size"}),
      set("image", "image-turned", image_file("orientation_3.tif"), {"image-size"}),
      boxes("as fractions", "box-fractions",
            [=](double a, double b, double c, double d) {
              return Json{a / kW, b / kH, c / kW, d / kH};
            }),
      boxes(
          "in thousandths", "box-thousandths",
          [=](double a, double b, double c, double d) {
            return Json{1000 * a / kW, 1000 * b / kH, 1000 * c / kW, 1000 * d / kH};
          },
          outside),
      boxes("[x, y, w, h]", "box-order",
            [](double a, double b, double c, double d) {
              return Json{a, b, c - a, d - b};
            }),
      boxes(
          "[x0, x1, y0, y1]", "box-order",
          [](double a, double b, double c, double d) {
            return Json{a, c, b, d};
          },
          outside),
      boxes(
          "[y0, x0, y1, x1]", "box-order",
          [](double a, double b, double c, double d) {
            return Json{b, a, d, c};
          },
          outside),
      boxes(
          "[y0, y1, x0, x1]", "box-order",
          [](double a, double b, double c, double d) {
            return Json{b, d, a, c};
          },
          outside),
      boxes("of zeros", "box-constant",
            [](double, double, double, double) {
              return Json{0, 0, 0, 0};
            }),
      boxes("all the same", "box-constant",
            [=](double, double, double, double) {
              return Json{0, 0, kW, kH};
            }),
      boxes("mirrored left to right", "box-mirrored",
            [=](double a, double b, double c, double d) {
              return Json{kW - c, b, kW - a, d};
            }),
      boxes("counted from the bottom", "box-mirrored",
            [=](double a, double b, double c, double d) {
              return Json{a, kH - d, c, kH - b};
            }),
      in_windows(page("longer than a window", "page-too-long", lengthen), LongPages::kRefuse, 260),
      in_windows(page("cut short", "words-lost", lengthen), LongPages::kTruncate, 260),
      in_windows(page("with a window of one word's middle", "window-ignored", lengthen, {"long-page"}),
                 LongPages::kWindows, 40),
      decoded(set("image", "image-blank", "blank.ppm")),
      decoded(set("image", "image-bgr", "bgr.ppm")),
      decoded(set("image", "image-unreadable", "broken.png", {"image-size"})),
      decoded(set("image", "image-damaged", "damaged.jpg", {"image-size"})),
  };
  Fault twice = page("that comes twice", "duplicate-page", [](Json& each, std::size_t) {
    for (const char* key : {"words", "boxes", "labels"}) each[key] = each["first"][key];
  });
  faults.push_back(twice);
  Fault words = page("with words' boxes among segments'", "word-boxes", [](Json& each, std::size_t) {
    int x = 0;
    for (Json& box : each["boxes"]) box[0] = 10 + x++ % kWordsInLine * 90;
    x = 0;
    for (Json& box : each["boxes"]) box[2] = 90 + x++ % kWordsInLine * 90;
  });
  words.segments = true;
  faults.push_back(words);
  return faults;
}

}  // namespace plimsoll::test
