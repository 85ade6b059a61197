#include "data/tensor_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/dataset.h"
#include "tensor/numpy_name.h"

namespace plimsoll {
namespace {

constexpr const char* kRemedy = "write the batch in the format of transformers' processor";

class TypeChecker {
 public:
  TypeChecker(const std::string& where, Findings& findings) : where_(where), findings_(findings) {}

  // `names` says what the dimensions mean, "[B, S]"; `turned` is the same with B and S exchanged.
  void check(const TensorView& tensor, std::string_view name, const TensorType& expected, std::string_view names,
             std::string_view turned) {
    if (tensor.raw() == nullptr || tensor.type() == expected) return;
    if (tensor.dtype() != expected.dtype) {
      add("tensor-dtype", name,
          fmt::format("{} where {} is expected", numpy_name(tensor.dtype()), numpy_name(expected.dtype)), tensor,
          expected, fmt::format("convert it: tensor.astype(numpy.{})", numpy_name(expected.dtype)));
    }
    if (tensor.shape() == expected.shape) return;
    if (is_turned(tensor.shape(), expected.shape)) {
      return add("tensor-transposed", name, fmt::format("{} where {} is expected", turned, names), tensor, expected,
                 "swap its first two dimensions: numpy.swapaxes(tensor, 0, 1)");
    }
    add("tensor-shape", name, fmt::format("a shape other than {}", names), tensor, expected, kRemedy);
  }

 private:
  static bool is_turned(const Shape& found, const Shape& expected) {
    if (found.rank() != expected.rank() || found.rank() < 2 || found[0] != expected[1] || found[1] != expected[0]) {
      return false;
    }
    return found.rank() == 2 || found[2] == expected[2];
  }
  void add(std::string_view kind, std::string_view name, std::string what, const TensorView& tensor,
           const TensorType& expected, std::string remedy) {
    findings_.add(Severity::kError, kind,
                  {.what = fmt::format("a tensor of a batch has {}", what),
                   .where = fmt::format("{}, tensor '{}'", where_, name),
                   .found = to_string(tensor.type()),
                   .allowed = to_string(expected),
                   .remedy = std::move(remedy)});
  }

  const std::string& where_;
  Findings& findings_;
};

// Returns the batch's pages and tokens, from input_ids, exchanged if pixel_values show that input_ids is transposed.
Shape text_shape(const PaddedTensors& tensors) {
  const Shape& ids = tensors.input_ids.shape();
  if (tensors.pixel_values.raw() == nullptr) return {ids[0], ids[1]};
  const Shape& pixels = tensors.pixel_values.shape();
  const bool turned = pixels.rank() == 4 && pixels[0] != ids[0] && pixels[0] == ids[1];
  return turned ? Shape{ids[1], ids[0]} : Shape{ids[0], ids[1]};
}

class ValueChecker {
 public:
  ValueChecker(const PaddedTensors& tensors, const PaddedLimits& limits, const TokenForm& token,
               const std::string& where, Findings& findings)
      : tensors_(tensors), limits_(limits), token_(token), where_(where), findings_(findings) {}

  void run() {
    const Shape& ids = tensors_.input_ids.shape();
    for (std::int64_t page = 0; page < ids[0]; ++page) {
      PositionCounter positions(token_);
      for (std::int64_t token = 0; token < ids[1]; ++token) {
        check_token(page, token, positions.next(integer_at(tensors_.input_ids, page * ids[1] + token)));
      }
      if (tensors_.pixel_values.raw() != nullptr) check_pixels(page);
      for (const PaddedTarget& target : tensors_.targets) {
        for (std::size_t i = 0; i < target.tensors.size(); ++i) {
          if (target.tensors[i].raw() != nullptr) check_target(page, target, i);
        }
      }
    }
  }

 private:
  // `position` is the token's, as the model counts.
  void check_token(std::int64_t page, std::int64_t token, std::int64_t position) {
    const std::int64_t at = page * tensors_.input_ids.shape()[1] + token;
    const auto within = [&](const TensorView& tensor, std::int64_t index, std::string_view name, std::string_view kind,
                            std::int64_t low, std::int64_t high) {
      const std::int64_t value = integer_at(tensor, index);
      if (value >= low && value <= high) return;
      add(kind, "a number in a batch is out of range", page, token, name, fmt::format("{}", value),
          fmt::format("{} to {}", low, high));
    };
    within(tensors_.input_ids, at, "input_ids", "token-outside", 0, limits_.vocab_size - 1);
    for (std::int64_t i = 0; tensors_.bbox.raw() != nullptr && i < 4; ++i) {
      within(tensors_.bbox, 4 * at + i, "bbox", "box-outside", 0, limits_.coordinates - 1);
    }
    within(tensors_.attention_mask, at, "attention_mask", "mask-value", 0, 1);
    if (tensors_.labels.raw() != nullptr && integer_at(tensors_.labels, at) != kIgnoredLabel) {
      within(tensors_.labels, at, "labels", "label-outside", 0, limits_.labels - 1);
    }
    if (tensors_.token_type_ids.raw() != nullptr) {
      within(tensors_.token_type_ids, at, "token_type_ids", "token-type-outside", 0, limits_.token_types - 1);
    }
    if (position >= limits_.positions) {
      add("too-many-tokens", "a page has more tokens than the model has positions", page, token, "input_ids",
          fmt::format("position {}", position), fmt::format("below {}", limits_.positions));
    }
    if (tensors_.position_ids.raw() == nullptr) return;
    const std::int64_t given = integer_at(tensors_.position_ids, at);
    if (given < 0 || given >= limits_.positions) {
      within(tensors_.position_ids, at, "position_ids", "position-outside", 0, limits_.positions - 1);
    } else if (given != position) {
      add("position-differs", "position_ids differ from the positions that the model computes", page, token,
          "position_ids", fmt::format("{}", given),
          fmt::format("{}: positions count up from {}", position,
                      token_.first_position > 0 ? "the padding id plus one" : "0"));
    }
  }

  void check_target(std::int64_t page, const PaddedTarget& target, std::size_t index) {
    const TensorView& tensor = target.tensors[index];
    const TargetForm& form = target.input.target;
    const std::int64_t limit = form.limit > 0 ? form.limit : tensors_.input_ids.shape()[1];
    const std::int64_t each = tensor.elements() / tensors_.input_ids.shape()[0];
    for (std::int64_t i = page * each; i < (page + 1) * each; ++i) {
      const bool is_float = tensor.dtype() == DType::kF32;
      const double value =
          is_float ? static_cast<double>(tensor.data<float>()[i]) : static_cast<double>(integer_at(tensor, i));
      const bool fits = is_float ? std::isfinite(value)
                                 : value == kIgnoredLabel || (value >= 0 && value < static_cast<double>(limit));
      if (fits) continue;
      findings_.add(Severity::kError, is_float ? "not-finite" : "label-outside",
                    {.what = is_float ? "a number in a batch is not finite" : "a number in a batch is out of range",
                     .where = fmt::format("{}, page {}, tensor '{}'", where_, page, form.names[index]),
                     .found = fmt::format("{}", value),
                     .allowed = is_float ? std::string("finite numbers") : fmt::format("0 to {}, or -100", limit - 1),
                     .remedy = kRemedy});
    }
  }

  void check_pixels(std::int64_t page) {
    const auto pixels = tensors_.pixel_values.span<float>();
    const std::size_t each = pixels.size() / static_cast<std::size_t>(tensors_.input_ids.shape()[0]);
    const auto of_page = pixels.subspan(static_cast<std::size_t>(page) * each, each);
    const auto broken = std::ranges::find_if(of_page, [](float value) { return !std::isfinite(value); });
    if (broken == of_page.end()) return;
    findings_.add(Severity::kError, "not-finite",
                  {.what = "a number in a batch is not finite",
                   .where = fmt::format("{}, page {}, tensor 'pixel_values'", where_, page),
                   .found = fmt::format("{} at element {}", *broken, broken - of_page.begin()),
                   .allowed = "finite numbers",
                   .remedy = kRemedy});
  }

  void add(std::string_view kind, std::string what, std::int64_t page, std::int64_t token, std::string_view name,
           std::string found, std::string allowed) {
    findings_.add(Severity::kError, kind,
                  {.what = std::move(what),
                   .where = fmt::format("{}, page {}, token {}, tensor '{}'", where_, page, token, name),
                   .found = std::move(found),
                   .allowed = std::move(allowed),
                   .remedy = kRemedy});
  }

  const PaddedTensors& tensors_;
  const PaddedLimits& limits_;
  TokenForm token_;
  const std::string& where_;
  Findings& findings_;
};

}  // namespace

void check_tensor_types(const PaddedTensors& tensors, std::int64_t image_size, const std::string& where,
                        Findings& findings) {
  const auto misshapen = [&](const TensorView& tensor, std::string_view name, std::string allowed) {
    findings.add(Severity::kError, "tensor-shape",
                 {.what = "a tensor of a batch has the wrong type or shape",
                  .where = fmt::format("{}, tensor '{}'", where, name),
                  .found = to_string(tensor.type()),
                  .allowed = std::move(allowed),
                  .remedy = kRemedy});
  };
  const Shape& ids = tensors.input_ids.shape();
  if (ids.rank() != 2 || ids.elements() == 0) return misshapen(tensors.input_ids, "input_ids", "I64[pages, tokens]");
  TypeChecker checker(where, findings);
  const Shape text = text_shape(tensors);
  const Shape boxes{text[0], text[1], 4};
  checker.check(tensors.input_ids, "input_ids", {DType::kI64, text}, "[B, S]", "[S, B]");
  checker.check(tensors.bbox, "bbox", {DType::kI64, boxes}, "[B, S, 4]", "[S, B, 4]");
  checker.check(tensors.attention_mask, "attention_mask", {DType::kI64, text}, "[B, S]", "[S, B]");
  checker.check(tensors.labels, "labels", {DType::kI64, text}, "[B, S]", "[S, B]");
  static constexpr const char* kShapes[] = {"[]", "[B]", "[B, C]", "[B, E, E]"};
  for (const auto& [input, views] : tensors.targets) {
    const TensorType type = target_type(input, text[0]);
    for (std::size_t i = 0; i < views.size(); ++i) {
      checker.check(views[i], input.target.names[i], type, kShapes[type.shape.rank()], "[C, B]");
    }
  }
  checker.check(tensors.position_ids, "position_ids", {DType::kI64, text}, "[B, S]", "[S, B]");
  checker.check(tensors.token_type_ids, "token_type_ids", {DType::kI64, text}, "[B, S]", "[S, B]");
  if (image_size == 0) return;
  const Shape& pixels = tensors.pixel_values.shape();
  if (pixels.rank() != 4 || pixels[2] != image_size || pixels[3] != image_size) {
    return misshapen(
        tensors.pixel_values, "pixel_values",
        fmt::format("F32[{}, 3, {}, {}]: the model's input_size is {}", text[0], image_size, image_size, image_size));
  }
  checker.check(tensors.pixel_values, "pixel_values", {DType::kF32, {text[0], 3, image_size, image_size}},
                "[B, 3, size, size]", "[3, B, size, size]");
}

void check_tensor_values(const PaddedTensors& tensors, const PaddedLimits& limits, const TokenForm& token,
                         const std::string& where, Findings& findings) {
  ValueChecker(tensors, limits, token, where, findings).run();
}

}  // namespace plimsoll
