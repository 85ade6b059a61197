#include <fmt/format.h>

#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

struct Lookup {
  std::int64_t capacity;
  std::int32_t rows;
  std::int64_t table_rows, width, padding_idx;
  bool row_gradient;
};

OpCase embedding_case(Lookup s) {
  const std::string name = fmt::format("embedding/n{}_of_{}_r{}_d{}_pad{}{}", s.rows, s.capacity, s.table_rows, s.width,
                                       s.padding_idx, s.row_gradient ? "_by_rows" : "");
  return {name, [s](CaseBuilder& b) {
            const ValueId table = b.tensor("table", {s.table_rows, s.width});
            if (s.padding_idx >= 0) b.no_gradient(table, s.padding_idx);
            std::vector<std::int32_t> ids;
            for (std::int32_t row = 0; row < s.rows; ++row) {
              // About every third id is one of the last two rows, so that ids repeat.
              const auto last = static_cast<std::int32_t>(s.table_rows) - 1;
              ids.push_back(row % 3 == 0 ? last - row % 2 * (last > 0 ? 1 : 0) : b.random_integer(0, last));
            }
            b.objective(embedding(b.graph, "y", table, b.integers("ids", {s.capacity}, ids),
                                  {.padding_idx = s.padding_idx, .row_gradient = s.row_gradient}, b.rows(s.rows)));
          }};
}

OpCase coded_embedding_case(DType code, std::int64_t width) {
  return {fmt::format("embedding/d{}_{}", width, dtype_name(code)), [=](CaseBuilder& b) {
            b.graph.mark_output(embedding(b.graph, "y", b.coded("table", code, {9, width}),
                                          b.integers("ids", {6}, {0, 8, 3, 3}), {}, b.rows(4)));
          }};
}

// A table that does not train, which may be of halves.
OpCase constant_table_case(std::int64_t width) {
  return {fmt::format("embedding/d{}_constant", width), [=](CaseBuilder& b) {
            b.graph.mark_output(embedding(b.graph, "y", b.constant("table", {9, width}),
                                          b.integers("ids", {6}, {0, 8, 3, 3}), {}, b.rows(4)));
          }};
}

// A gradient that is added to what the table's other use has given; of the table's rows from `first_row` on alone.
OpCase added_gradient_case(Lookup s, std::int64_t first_row = 0, std::int64_t part_rows = 0) {
  return {fmt::format("embedding_grad/n{}_of_{}_r{}_d{}_pad{}{}_adds", s.rows, s.capacity, s.table_rows, s.width,
                      s.padding_idx, part_rows > 0 ? fmt::format("_from{}_{}", first_row, part_rows) : ""),
          [=](CaseBuilder& b) {
            std::vector<std::int32_t> ids;
            const auto last = static_cast<std::int32_t>(s.table_rows) - 1;
            for (std::int32_t row = 0; row < s.rows; ++row) {
              ids.push_back(row % 3 == 0 ? last : b.random_integer(0, last));
            }
            EmbeddingAttributes attributes{.padding_idx = s.padding_idx};
            attributes.table_rows = part_rows > 0 ? part_rows : s.table_rows;
            attributes.first_row = first_row;
            b.graph.add_node(
                {.op = Op::kEmbeddingGrad,
                 .name = "dtable",
                 .attributes = attributes,
                 .inputs = {b.constant("dy", {s.capacity, s.width}, s.rows), b.integers("ids", {s.capacity}, ids),
                            b.state("sum", {attributes.table_rows, s.width})},
                 .row_count = b.rows(s.rows),
                 .phase = Phase::kBackward});
          }};
}

// All ids are padding, so there is no gradient at all.
OpCase all_padding_case(bool row_gradient) {
  return {fmt::format("embedding/all_padding{}", row_gradient ? "_by_rows" : ""), [=](CaseBuilder& b) {
            const ValueId table = b.tensor("table", {5, 7});
            b.no_gradient(table, 1);
            b.objective(embedding(b.graph, "y", table, b.integers("ids", {6}, {1, 1, 1, 1}),
                                  {.padding_idx = 1, .row_gradient = row_gradient}, b.rows(4)));
          }};
}

struct Boxes {
  std::string name;
  std::int64_t capacity, table_rows, coordinate_size, shape_size;
  std::vector<std::int32_t> boxes;  // four per row
  bool sums = false;
};

OpCase spatial_case(Boxes s) {
  return {"spatial_embedding/" + s.name, [s](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.boxes.size() / 4);
            const ValueId x = b.tensor("x_table", {s.table_rows, s.coordinate_size});
            const ValueId y = b.tensor("y_table", {s.table_rows, s.coordinate_size});
            const ValueId h = b.tensor("h_table", {s.table_rows, s.shape_size});
            const ValueId w = b.tensor("w_table", {s.table_rows, s.shape_size});
            b.objective(spatial_embedding(b.graph, "y", {x, y, h, w}, b.integers("bbox", {s.capacity, 4}, s.boxes),
                                          s.sums, b.rows(rows)));
          }};
}

std::vector<std::int32_t> random_boxes(std::int32_t count, std::int32_t largest) {
  CaseBuilder random(DType::kF32, "boxes");
  std::vector<std::int32_t> boxes;
  for (std::int32_t i = 0; i < 4 * count; ++i) boxes.push_back(random.random_integer(0, largest));
  return boxes;
}

}  // namespace

std::vector<OpCase> lookup_cases() {
  std::vector<OpCase> cases;
  for (const bool row_gradient : {false, true}) {
    for (const Lookup& lookup :
         {Lookup{9, 7, 11, 5, -1, false}, Lookup{9, 0, 11, 5, -1, false}, Lookup{3, 1, 4, 24, 1, false},
          Lookup{33, 33, 17, 12, 16, false}, Lookup{70, 61, 50, 96, 1, false}, Lookup{5, 5, 1, 3, -1, false},
          // These cover rows that one id gathers from near and far, and wide rows.
          Lookup{400, 333, 1, 5, -1, false}, Lookup{300, 290, 3, 12, 2, false}, Lookup{40, 37, 5, 260, -1, false},
          // More rows than a GPU's block sorts at once, and tables whose numbers have more digits.
          Lookup{2100, 2090, 700, 3, 5, false}, Lookup{300, 290, 5000, 2, -1, false},
          Lookup{4500, 4400, 70'000, 2, -1, false}}) {
      Lookup variant = lookup;
      variant.row_gradient = row_gradient;
      cases.push_back(embedding_case(variant));
    }
    cases.push_back(all_padding_case(row_gradient));
  }
  for (const std::int64_t width : {5, 64, 100}) cases.push_back(constant_table_case(width));
  return cases;
}

std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  for (const Lookup& lookup :
       {Lookup{9, 7, 11, 5, -1, false}, Lookup{9, 0, 11, 5, -1, false}, Lookup{70, 61, 50, 96, 1, false},
        Lookup{400, 333, 1, 5, -1, false}, Lookup{40, 37, 5, 260, -1, false}, Lookup{2100, 2090, 700, 3, 5, false}}) {
    cases.push_back(added_gradient_case(lookup));
  }
  cases.push_back(added_gradient_case({9, 7, 11, 5, -1, false}, 3, 4));
  cases.push_back(added_gradient_case({70, 61, 50, 96, 27, false}, 24, 26));
  cases.push_back(added_gradient_case({2100, 2090, 700, 3, 5, false}, 0, 512));
  // These cover limits, inverted boxes (sizes clipped to 0), repeats, and x0 and x1 looking up one row.
  cases.push_back(
      spatial_case({"limits", 9, 1024, 4, 4, {0,   0,   1023, 1023, 1023, 1023, 1023, 1023, 0, 0, 0,    0,
                                              900, 800, 10,   20,   17,   40,   17,   90,   0, 0, 1023, 1023}}));
  // Sizes are clipped to 1023 in a table of more rows too, as in transformers.
  cases.push_back(
      spatial_case({"wide_tables", 4, 1500, 2, 1, {0, 0, 1499, 1200, 100, 50, 1123, 1074, 9, 8, 1034, 1030}}));
  cases.push_back(spatial_case({"no_rows", 5, 16, 3, 2, {}}));
  cases.push_back(spatial_case({"one_row", 5, 16, 5, 1, {3, 15, 9, 15}}));
  cases.push_back(spatial_case({"many_repeats", 70, 8, 16, 16, random_boxes(67, 7)}));
  cases.push_back(spatial_case({"many_rows", 1500, 1000, 3, 2, random_boxes(1450, 999)}));
  cases.push_back(spatial_case({"uneven_widths", 33, 32, 5, 7, random_boxes(33, 31)}));
  // Their sums: corners of one row, sizes clipped, more rows than a warp has, and columns that fill no vector.
  cases.push_back(spatial_case({"sums", 9, 1024, 24, 24, {0, 0, 1023, 1023, 7, 7, 7, 7, 900, 800, 10, 20}, true}));
  cases.push_back(spatial_case({"sums_of_no_rows", 5, 16, 3, 3, {}, true}));
  cases.push_back(spatial_case({"sums_of_repeats", 70, 8, 16, 16, random_boxes(67, 7), true}));
  cases.push_back(spatial_case({"odd_sums", 33, 32, 37, 37, random_boxes(33, 31), true}));
  cases.push_back(spatial_case({"wide_sums", 20, 64, 300, 300, random_boxes(19, 63), true}));
  for (const DType code : {DType::kQ8, DType::kNF4}) {
    for (const std::int64_t width : {5, 64, 100}) cases.push_back(coded_embedding_case(code, width));
  }
  return cases;
}

}  // namespace plimsoll::test
