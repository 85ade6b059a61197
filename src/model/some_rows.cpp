#include "model/some_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/repeated_decay.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kPieceValues = 1 << 14;  // values of whole rows that are handled at a time, if a row has no more

// A piece of the file's table, and the part of one of its rows that the place has.
struct PieceRow {
  std::span<float> values;
  std::int64_t first = 0;  // element of the place
};

// Calls begin(first, piece) for the file's values, in pieces of whole rows, then visit() for each row of a piece that
// the place has, or has a part of, and end(piece).
template <typename Begin, typename Visit, typename End>
void for_each_piece(const ParameterSpec& spec, const ParameterPlace& place, const Begin& begin, const Visit& visit,
                    const End& end) {
  const std::int64_t rows = spec.file_shape[0], width = spec.file_shape[1];
  const std::int64_t most = std::min(rows, std::max<std::int64_t>(1, kPieceValues / width));
  const std::int64_t place_end = place.first() + place.elements();
  std::vector<float> buffer(static_cast<std::size_t>(most * width));
  std::int64_t next = 0;  // of the rows that memory has
  for (std::int64_t row = 0; row < rows; row += most) {
    const std::int64_t count = std::min(most, rows - row);
    const std::span<float> piece = std::span(buffer).first(static_cast<std::size_t>(count * width));
    begin(row * width, piece);
    for (; next < std::ssize(*spec.rows); ++next) {
      const std::int64_t id = (*spec.rows)[static_cast<std::size_t>(next)];
      if (id >= row + count) break;
      const std::int64_t first = std::max(place.first(), next * width), last = std::min(place_end, (next + 1) * width);
      if (first >= last) continue;
      const std::int64_t at = (id - row) * width + first - next * width;
      visit({.values = piece.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(last - first)),
             .first = first - place.first()});
    }
    end(piece);
  }
}

}  // namespace

void load_some_rows(const ParameterSpec& spec, const ParameterPlace& place, Factor factor, const ReadValues& table) {
  for_each_piece(
      spec, place, table, [&](const PieceRow& row) { place.write(row.first, row.values, factor); },
      [](std::span<float>) {});
}

void write_some_rows(SafetensorsWriter& writer, const ParameterSpec& spec, const ParameterPlace& place,
                     const ReadValues& table, std::span<const float> decays) {
  for_each_piece(
      spec, place,
      [&](std::int64_t first, std::span<float> piece) {
        table(first, piece);
        decay_repeatedly(piece, decays);
      },
      [&](const PieceRow& row) { place.read(row.first, row.values); },
      [&](std::span<float> piece) { writer.write(std::as_bytes(piece)); });
}

}  // namespace plimsoll
