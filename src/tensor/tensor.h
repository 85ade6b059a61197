// TensorType: dtype + shape. TensorView: a type and a pointer; it owns nothing, and is row-major and contiguous.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  std::size_t bytes() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// Formats a type: "F32[1418, 768]".
std::string to_string(const TensorType& type);

class TensorView {
 public:
  TensorView() = default;
  TensorView(TensorType type, void* data) : type_(type), data_(data) {}

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  std::int64_t elements() const { return type_.shape.elements(); }
  std::size_t bytes() const { return type_.bytes(); }
  void* raw() const { return data_; }
  // The elements as T; T must have the size of the dtype's element.
  template <typename T>
  T* data() const {
    check(sizeof(T) == dtype_bytes(type_.dtype), "a view is read with its own element size");
    return static_cast<T*>(data_);
  }
  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(elements())};
  }
  std::span<std::byte> byte_span() const { return {static_cast<std::byte*>(data_), bytes()}; }

 private:
  TensorType type_;
  void* data_ = nullptr;
};

}  // namespace plimsoll
