// The fonts that pages are drawn with: six families from two Debian packages, each regular and bold.
//
// Invariant: a face is always of the requested family. Fontconfig is asked for exact matches and may not substitute;
// its user settings (hinting, aliases) do not affect the drawing, so one set of font files gives one set of pictures.
// Other versions of the fonts, FreeType or Cairo may move a pixel.
//
//   const FontSet fonts;
//   cairo_set_font_face(context, fonts.face(FontFamily::kDejaVuSans, /*bold=*/true));
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "draw/cairo.h"

namespace plimsoll::draw {

enum class FontFamily {
  kDejaVuSans,
  kDejaVuSerif,
  kDejaVuSansMono,
  kLiberationSans,
  kLiberationSerif,
  kLiberationMono
};
inline constexpr std::size_t kFontFamilies = 6;

// Returns the path of the installed file with exactly this family, upright, of normal width. Throws EnvironmentError
// naming `debian_package` if there is none.
std::string find_font_file(const std::string& family, bool bold, const std::string& debian_package);

class FontSet {
 public:
  // Throws EnvironmentError naming the Debian package of the first family that is missing.
  FontSet();
  cairo_font_face_t* face(FontFamily family, bool bold) const;

 private:
  std::array<FontFace, 2 * kFontFamilies> faces_;
};

// Loads one face, for a drawing that only needs a caption.
FontFace load_font(FontFamily family, bool bold);

// Uses gray anti-aliasing without hinting: the same outlines at any size and angle.
void use_plain_font_options(cairo_t* context);

}  // namespace plimsoll::draw
