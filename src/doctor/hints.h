// What a line says besides what the rules' patterns find in it: whether it only speaks of an error that may come, which
// package it asks for, which of two packages a failed import concerns, and whether a traceback's source is what ran.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "doctor/frame.h"

namespace plimsoll::doctor {

// True if what stands at `begin` of the line is only supposed: "If you get `CUDA error: …` errors, the above may be the
// cause." The line is in small letters.
bool only_supposes(std::string_view small, std::size_t begin);

// The package that a message asks for, as pip names it; empty where it names none: "sentencepiece" of "make sure you
// have sentencepiece installed", "opencv-python-headless" of "No module named 'cv2'".
std::string missing_package(std::string_view message);

// Between which packages an import failed. `frames`: of its traceback, outermost first.
enum class Import {
  kUnknown,
  kFromItself,  // two files of one installed package
  kFromOther    // a file of one installed package wants a name of another one
};
Import read_import(std::string_view message, std::span<const Frame> frames);

// The optional package whose module is None in the line of source that failed: "xformers" of "'NoneType' object has no
// attribute 'attn_bias'" and "mask = xformers.attn_bias.LowerTriangularMask()". Empty where there is none.
std::string_view module_that_is_none(std::string_view message, std::string_view source);

// True for a line of a traceback that shows as running what no Python runs: a comment, a lone bracket, "try:". The file
// on the disk is then another than the one that was loaded.
bool shows_other_source(std::string_view text);

// What the shapes in a message are of, where it refuses to put tensors together: "got [3, 224, 224] at entry 0 and
// [3, 256, 192] at entry 2". `source`: the line of source that failed, whose names tell, too.
enum class Unequal { kUnknown, kImageSizes, kImageChannels };
Unequal read_unequal(std::string_view message, std::string_view source);

// True if an error's line asks the hub for a model whose name is one letter.
bool names_one_letter(std::string_view small);

}  // namespace plimsoll::doctor
