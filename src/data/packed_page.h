// A page, its tokens and its faults as packed bytes, and back.
//
//   const std::vector<std::byte> bytes = pack_page({.page = page, .tokens = tokens}, reader);
//   const PackedPage again = unpack_page(bytes, reader);
//
// Invariant: what is unpacked equals what was packed, every bit of every coordinate included.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "data/page.h"
#include "data/targets.h"
#include "data/windows.h"

namespace plimsoll {

struct PackedPage {
  Page page{};
  PageTokens tokens{};
  PageFaults faults{};                // of single values, in order; the page continues after them
  std::optional<PageError> broken{};  // an error that leaves no page; it comes after `faults`
};

// `reader` reads the task's keys; nullptr: none are read.
std::vector<std::byte> pack_page(const PackedPage& packed, const TargetReader* reader);
PackedPage unpack_page(std::span<const std::byte> bytes, const TargetReader* reader);

}  // namespace plimsoll
