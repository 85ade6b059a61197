#include "draw/fonts.h"

#include <cairo/cairo-ft.h>
#include <fmt/format.h>
#include <fontconfig/fontconfig.h>

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/installed.h"

namespace plimsoll::draw {
namespace {

struct FontSource {
  const char* family;
  const char* package;
};

constexpr std::array<FontSource, kFontFamilies> kSources = {{{"DejaVu Sans", "fonts-dejavu-core"},
                                                             {"DejaVu Serif", "fonts-dejavu-core"},
                                                             {"DejaVu Sans Mono", "fonts-dejavu-core"},
                                                             {"Liberation Sans", "fonts-liberation"},
                                                             {"Liberation Serif", "fonts-liberation"},
                                                             {"Liberation Mono", "fonts-liberation"}}};

struct FontconfigDeleter {
  void operator()(FcConfig* config) const { FcConfigDestroy(config); }
  void operator()(FcPattern* pattern) const { FcPatternDestroy(pattern); }
  void operator()(FcFontSet* set) const { FcFontSetDestroy(set); }
  void operator()(FcObjectSet* set) const { FcObjectSetDestroy(set); }
};
using Config = std::unique_ptr<FcConfig, FontconfigDeleter>;
using Pattern = std::unique_ptr<FcPattern, FontconfigDeleter>;
using FontList = std::unique_ptr<FcFontSet, FontconfigDeleter>;
using ObjectSet = std::unique_ptr<FcObjectSet, FontconfigDeleter>;

const FcChar8* as_fontconfig(const std::string& text) { return reinterpret_cast<const FcChar8*>(text.c_str()); }

// Returns the fonts that came with the program, else those of the system.
Config known_fonts() {
  const std::filesystem::path own = installed("share/plimsoll/fonts");
  if (own.empty()) return Config(FcInitLoadConfigAndFonts());
  Config config(FcConfigCreate());  // reads no settings file, since there may be none
  // Adds file by file: for a directory, fontconfig would write a cache, for which there may be no place.
  for (const std::filesystem::directory_entry& file : std::filesystem::directory_iterator(own)) {
    if (config != nullptr) FcConfigAppFontAddFile(config.get(), as_fontconfig(file.path().string()));
  }
  return config;
}

std::string find_in(FcConfig* config, const std::string& family, bool bold, const std::string& package) {
  // This lists exact matches; unlike FcFontMatch it never falls back to another family.
  const Pattern wanted(FcPatternCreate());
  FcPatternAddString(wanted.get(), FC_FAMILY, as_fontconfig(family));
  FcPatternAddInteger(wanted.get(), FC_WEIGHT, bold ? FC_WEIGHT_BOLD : FC_WEIGHT_REGULAR);
  FcPatternAddInteger(wanted.get(), FC_SLANT, FC_SLANT_ROMAN);
  FcPatternAddInteger(wanted.get(), FC_WIDTH, FC_WIDTH_NORMAL);
  const ObjectSet fields(FcObjectSetBuild(FC_FILE, nullptr));
  const FontList found(config == nullptr ? nullptr : FcFontList(config, wanted.get(), fields.get()));
  std::string best;
  for (int i = 0; found != nullptr && i < found->nfont; ++i) {
    FcChar8* file = nullptr;
    if (FcPatternGetString(found->fonts[i], FC_FILE, 0, &file) != FcResultMatch) continue;
    const std::string path = reinterpret_cast<const char*>(file);
    // The first of several copies by name is used, so that the order of a directory listing does not matter.
    if (best.empty() || path < best) best = path;
  }
  if (best.empty()) {
    throw EnvironmentError({.what = "a font is not installed",
                            .where = fmt::format("{}, {}", family, bold ? "bold" : "regular"),
                            .found = "no installed font of exactly this family",
                            .remedy = fmt::format("apt-get install {}", package)});
  }
  return best;
}

FontFace open_face(const std::string& path) {
  // A pattern that names a file is used unchanged, without any user setting.
  const Pattern pattern(FcPatternCreate());
  FcPatternAddString(pattern.get(), FC_FILE, as_fontconfig(path));
  FcPatternAddInteger(pattern.get(), FC_INDEX, 0);
  FcPatternAddBool(pattern.get(), FC_ANTIALIAS, FcTrue);
  FcPatternAddBool(pattern.get(), FC_HINTING, FcFalse);
  FcPatternAddBool(pattern.get(), FC_AUTOHINT, FcFalse);
  FontFace face(cairo_ft_font_face_create_for_pattern(pattern.get()));
  check_cairo(cairo_font_face_status(face.get()), "open a font");
  return face;
}

FontFace load_from(FcConfig* config, FontFamily family, bool bold) {
  const FontSource& source = kSources[static_cast<std::size_t>(family)];
  return open_face(find_in(config, source.family, bold, source.package));
}

}  // namespace

std::string find_font_file(const std::string& family, bool bold, const std::string& debian_package) {
  return find_in(known_fonts().get(), family, bold, debian_package);
}

FontSet::FontSet() {
  const Config config = known_fonts();
  for (std::size_t i = 0; i < faces_.size(); ++i) {
    faces_[i] = load_from(config.get(), static_cast<FontFamily>(i / 2), i % 2 == 1);
  }
}

cairo_font_face_t* FontSet::face(FontFamily family, bool bold) const {
  return faces_[2 * static_cast<std::size_t>(family) + (bold ? 1 : 0)].get();
}

FontFace load_font(FontFamily family, bool bold) { return load_from(known_fonts().get(), family, bold); }

void use_plain_font_options(cairo_t* context) {
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  cairo_set_font_options(context, options);
  cairo_font_options_destroy(options);
}

}  // namespace plimsoll::draw
