// Compiles the examples of src/draw.
#include <cstdint>
#include <vector>

#include "draw/annotate.h"
#include "draw/column.h"
#include "draw/facts.h"
#include "draw/fonts.h"
#include "draw/form_blocks.h"
#include "draw/form_look.h"
#include "draw/form_sheet.h"
#include "draw/form_text.h"
#include "draw/layouts.h"
#include "draw/random.h"
#include "draw/sheet.h"
#include "draw/synth.h"
#include "draw/wear.h"

namespace plimsoll::draw {

void of_annotate(const std::vector<AnnotatedWord>& words) {
#include "draw/annotate.h.inc"
}

void of_column(Sheet& sheet, const Style& style) {
#include "draw/column.h.inc"
}

void of_facts(std::uint64_t seed, std::uint64_t page_index) {
#include "draw/facts.h.inc"
}

void of_fonts(cairo_t* context) {
#include "draw/fonts.h.inc"
}

void of_form_blocks(FormSheet& form, const FormLook& look, const FormVoice& voice, PageRandom& text_random,
                    PageRandom& look_random, const Area& area) {
#include "draw/form_blocks.h.inc"
}

void of_form_look(FormSheet& form, int block, const Area& area, PageRandom& random) {
#include "draw/form_look.h.inc"
}

void of_form_sheet(const FontSet& fonts, const Style& style) {
#include "draw/form_sheet.h.inc"
}

void of_form_text(PageRandom& random) {
#include "draw/form_text.h.inc"
}

void of_layouts(const FontSet& fonts, const PageFacts& facts, PageRandom& random) {
#include "draw/layouts.h.inc"
}

void of_random(std::uint64_t seed, std::uint64_t page_index, Sheet& sheet) {
#include "draw/random.h.inc"
}

void of_sheet(const FontSet& fonts, const Style& style) {
#include "draw/sheet.h.inc"
}

void of_synth() {
#include "draw/synth.h.inc"
}

void of_wear(const InkedPage& page, PageRandom& random) {
#include "draw/wear.h.inc"
}

}  // namespace plimsoll::draw
