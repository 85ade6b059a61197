#include <fmt/format.h>

#include <algorithm>

#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

OpCase patchify_case(Shape pixels, std::int64_t size, std::int32_t samples) {
  return {fmt::format("patchify/{}x{}x{}x{}_by_{}_of_{}_samples", pixels[0], pixels[1], pixels[2], pixels[3], size,
                      samples),
          [=](CaseBuilder& b) {
            const auto patches = static_cast<std::int32_t>(pixels[2] / size * (pixels[3] / size));
            b.graph.add_node({.op = Op::kPatchify,
                              .name = "patches",
                              .attributes = PatchAttributes{size},
                              .inputs = {b.constant("pixels", pixels, samples)},
                              .row_count = b.rows(samples * patches)});
          }};
}

OpCase visual_embedding_case(std::int64_t capacity, std::int32_t samples, std::int32_t patches, std::int64_t width) {
  return {fmt::format("visual_embedding/b{}_of_{}_p{}_d{}", samples, capacity, patches, width), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("patches", {capacity * patches, width}, samples * patches);
            const ValueId cls = b.tensor("cls", {1, 1, width});
            const ValueId positions = b.tensor("positions", {1, patches + 1, width});
            b.objective(add_single(b.graph, {.op = Op::kVisualEmbedding,
                                             .name = "y",
                                             .inputs = {x, cls, positions},
                                             .row_count = b.rows(samples * (patches + 1))}));
          }};
}

// Samples of `text[b]` text rows, each followed by `visual` visual rows.
OpCase pack_rows_case(std::string name, std::vector<std::int32_t> text, std::int32_t visual, std::int64_t width,
                      std::int64_t text_capacity) {
  return {"pack_rows/" + name, [=](CaseBuilder& b) {
            const auto samples = static_cast<std::int32_t>(text.size());
            const std::int64_t visual_capacity = (samples + 1) * std::int64_t{visual};
            std::vector<std::int32_t> source, text_index, visual_index;
            for (const std::int32_t length : text) {
              for (std::int32_t i = 0; i < length; ++i) {
                text_index.push_back(static_cast<std::int32_t>(source.size()));
                source.push_back(static_cast<std::int32_t>(text_index.size()) - 1);
              }
              for (std::int32_t i = 0; i < visual; ++i) {
                visual_index.push_back(static_cast<std::int32_t>(source.size()));
                source.push_back(-static_cast<std::int32_t>(visual_index.size()));
              }
            }
            const auto rows = static_cast<std::int32_t>(source.size());
            const auto text_rows = static_cast<std::int64_t>(text_index.size());
            const auto visual_rows = static_cast<std::int64_t>(visual_index.size());
            // Indices are defined over the whole capacity: their gather writes zeros there.
            text_index.resize(static_cast<std::size_t>(text_capacity), -1);
            visual_index.resize(static_cast<std::size_t>(visual_capacity), -1);
            const std::int64_t capacity = text_capacity + visual_capacity;
            const ValueId x = b.tensor("text", {text_capacity, width}, text_rows);
            const ValueId y = b.tensor("visual", {visual_capacity, width}, visual_rows);
            b.objective(add_single(b.graph, {.op = Op::kPackRows,
                                             .name = "packed",
                                             .inputs = {x, y, b.integers("source", {capacity}, source),
                                                        b.integers("text_index", {text_capacity}, text_index),
                                                        b.integers("visual_index", {visual_capacity}, visual_index)},
                                             .row_count = b.rows(rows)}));
          }};
}

// Output row i is row index[i] of n rows; the other rows of both capacities are not real.
OpCase take_rows_case(std::string name, std::int64_t capacity, std::int64_t width, std::int32_t rows,
                      const RowPartAttributes& part) {
  return {"take_rows/" + name, [=](CaseBuilder& b) {
            std::vector<std::int32_t> numbers(static_cast<std::size_t>(capacity));
            for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(7 * i) - 5;
            const ValueId x =
                width == 0 ? b.integers("x", {capacity}, numbers) : b.constant("x", {capacity, width}, rows);
            b.graph.add_node(
                {.op = Op::kTakeRows, .name = "part", .attributes = part, .inputs = {x}, .row_count = b.rows(rows)});
          }};
}

// `part`: rows of each part but the last, which has `last`.
OpCase join_rows_case(std::string name, int parts, std::int64_t part, std::int64_t last, std::int64_t width,
                      std::int32_t rows) {
  return {"join_rows/" + name, [=](CaseBuilder& b) {
            std::vector<ValueId> inputs;
            std::int64_t left = rows;
            for (int i = 0; i < parts; ++i) {
              const std::int64_t count = i + 1 == parts ? last : part, real = std::clamp<std::int64_t>(left, 0, count);
              inputs.push_back(b.constant(fmt::format("x{}", i), {count, width}, real));
              left -= count;
            }
            b.graph.add_node({.op = Op::kJoinRows, .name = "joined", .inputs = inputs, .row_count = b.rows(rows)});
          }};
}

OpCase gather_rows_case(std::string name, std::vector<std::int32_t> index, std::int32_t n, std::int64_t width,
                        std::int64_t spare) {
  return {"gather_rows/" + name, [=](CaseBuilder& b) {
            const auto m = static_cast<std::int32_t>(index.size());
            std::vector<std::int32_t> inverse(static_cast<std::size_t>(n + spare), -1);
            for (std::int32_t i = 0; i < m; ++i) {
              if (index[static_cast<std::size_t>(i)] >= 0)
                inverse[static_cast<std::size_t>(index[static_cast<std::size_t>(i)])] = i;
            }
            const ValueId x = b.tensor("x", {n + spare, width}, n);
            b.objective(add_single(b.graph, {.op = Op::kGatherRows,
                                             .name = "y",
                                             .inputs = {x, b.integers("index", {m + spare}, index),
                                                        b.integers("inverse", {n + spare}, inverse)},
                                             .row_count = b.rows(m)}));
          }};
}

struct Heads {
  std::int64_t capacity;
  std::int32_t rows;
  HeadsAttributes attributes;
};

std::string heads_name(const char* op, const Heads& s) {
  return fmt::format("{}/n{}_of_{}_h{}_{}_and_{}{}", op, s.rows, s.capacity, s.attributes.heads,
                     s.attributes.first_size, s.attributes.second_size, s.attributes.second ? "" : "_absent");
}

OpCase concat_heads_case(Heads s) {
  return {
      heads_name("concat_heads", s), [s](CaseBuilder& b) {
        const HeadsAttributes& a = s.attributes;
        const ValueId first = b.tensor("first", {s.capacity, a.heads * a.first_size}, s.rows);
        const ValueId second = a.second ? b.tensor("second", {s.capacity, a.heads * a.second_size}, s.rows) : kNoValue;
        b.objective(concat_heads(b.graph, "y", first, second, a, b.rows(s.rows)));
      }};
}

OpCase split_heads_case(Heads s) {
  return {heads_name("split_heads", s), [s](CaseBuilder& b) {
            const HeadsAttributes& a = s.attributes;
            const ValueId x = b.tensor("x", {s.capacity, a.heads * (a.first_size + a.second_size)}, s.rows);
            const HeadsValues parts = split_heads(b.graph, "y", x, a, b.rows(s.rows));
            b.objective(parts.first);
            if (parts.second != kNoValue) b.objective(parts.second);
          }};
}

}  // namespace

std::vector<OpCase> rows_cases() {
  std::vector<OpCase> cases = {
      patchify_case({2, 3, 8, 12}, 4, 2),
      patchify_case({3, 3, 8, 12}, 4, 1),
      patchify_case({2, 1, 6, 3}, 3, 0),
      patchify_case({1, 3, 32, 32}, 16, 1),
      visual_embedding_case(3, 2, 6, 12),
      visual_embedding_case(3, 0, 6, 5),
      visual_embedding_case(2, 2, 1, 24),
      visual_embedding_case(5, 4, 13, 33),
      visual_embedding_case(2, 2, 3, 300),
      pack_rows_case("two_samples", {3, 5}, 4, 12, 11),
      pack_rows_case("one_without_text", {3, 0, 7}, 2, 5, 10),
      pack_rows_case("no_samples", {}, 3, 24, 4),
      pack_rows_case("wide", {1, 17}, 9, 96, 20),
      take_rows_case("first", 9, 8, 7, {.first = 0, .count = 4}),
      take_rows_case("middle", 9, 5, 7, {.first = 3, .count = 3}),
      take_rows_case("partly_real", 9, 12, 7, {.first = 5, .count = 4}),
      take_rows_case("none_real", 9, 3, 2, {.first = 4, .count = 5}),
      take_rows_case("of_nothing", 3, 8, 0, {.first = 0, .count = 3}),
      take_rows_case("integers", 70, 0, 41, {.first = 32, .count = 32}),
      take_rows_case("many", 300, 33, 290, {.first = 128, .count = 172}),
      join_rows_case("whole", 3, 4, 4, 8, 12),
      join_rows_case("shorter_last", 3, 4, 2, 5, 10),
      join_rows_case("some_real", 3, 4, 4, 12, 6),
      join_rows_case("none_real", 2, 3, 3, 4, 0),
      join_rows_case("one", 1, 5, 5, 7, 3),
      join_rows_case("many", 5, 64, 13, 33, 260),
      gather_rows_case("permuted", {4, 2, 0}, 5, 12, 2),
      gather_rows_case("with_absent_rows", {-1, 3, -1, 0, -1}, 4, 5, 1),
      gather_rows_case("nothing", {}, 3, 24, 2),
      gather_rows_case("from_nothing", {-1, -1}, 0, 7, 3),
      gather_rows_case("wide", {16, 8, 4, 2, 1, 0, -1}, 17, 96, 0),
  };
  // Heads of LiLT's sizes, and sizes that fill no vector or pack.
  for (const Heads& heads :
       {Heads{7, 5, {.heads = 12, .first_size = 64, .second_size = 16, .first_factor = 1.118, .second_factor = 2.236}},
        Heads{9, 9, {.heads = 3, .first_size = 8, .second_size = 2, .first_factor = 0.5}},
        Heads{5, 3, {.heads = 2, .first_size = 5, .second_size = 3, .second_factor = -3}},
        Heads{4, 0, {.heads = 1, .first_size = 1, .second_size = 7, .first_factor = 2}},
        Heads{40, 37, {.heads = 1, .first_size = 130, .second_size = 33, .second_factor = 0.3}},
        Heads{6, 5, {.heads = 4, .first_size = 16, .second_size = 4, .first_factor = 1.5, .second = false}},
        Heads{6, 4, {.heads = 2, .first_size = 3, .second_size = 5, .first_factor = 0.7, .second = false}}}) {
    cases.push_back(concat_heads_case(heads));
    cases.push_back(split_heads_case(heads));
  }
  return cases;
}

}  // namespace plimsoll::test
