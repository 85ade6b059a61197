// What a line says besides what the rules' patterns find in it: whether it only mentions an error that may occur, which
// package it asks for, which of two packages a failed import concerns, and whether the source in a traceback is the
// code that ran.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "doctor/frame.h"

namespace plimsoll::doctor {

// True if the text at `begin` of the line is only hypothetical: "If you get `CUDA error: …` errors, the above may be
// the cause." The line is in small letters.
bool only_supposes(std::string_view small, std::size_t begin);

// Returns the package that a message asks for, by its name in pip; empty if it names none: "sentencepiece" for "make
// sure you have sentencepiece installed", "opencv-python-headless" for "No module named 'cv2'".
std::string missing_package(std::string_view message);

// Says between which packages an import failed. `frames` are those of its traceback, outermost first.
enum class Import {
  kUnknown,
  kFromItself,  // two files of one installed package
  kFromOther    // a file of one installed package needs a name from another one
};
Import read_import(std::string_view message, std::span<const Frame> frames);

// Returns the optional package whose module is None in the line of source that failed: "xformers" for "'NoneType'
// object has no attribute 'attn_bias'" and "mask = xformers.attn_bias.LowerTriangularMask()". Empty if there is none.
std::string_view module_that_is_none(std::string_view message, std::string_view source);

// True for a line of a traceback that shows as running something that cannot run: a comment, a lone bracket, "try:".
// The file on the disk then differs from the one that was loaded.
bool shows_other_source(std::string_view text);

// Says what the shapes in a message belong to, if it refuses to combine tensors: "got [3, 224, 224] at entry 0 and [3,
// 256, 192] at entry 2". `source` is the line of source that failed; its names help, too.
enum class Unequal { kUnknown, kImageSizes, kImageChannels };
Unequal read_unequal(std::string_view message, std::string_view source);

// Says which of two lengths that do not fit is the odd one: "The size of tensor a (743) must match the size of tensor b
// (512) at non-singleton dimension 1" is a sequence that is longer than the model's positions, but with 300 for 743 one
// part of the batch was padded and another was not. The line is in small letters; `source` is as for read_unequal.
enum class Lengths { kUnknown, kTooLong, kPaddedApart };
Lengths read_lengths(std::string_view small, std::string_view source);

// True if, according to an error's line, the hub was asked for a model whose name is one letter.
bool names_one_letter(std::string_view small);

}  // namespace plimsoll::doctor
