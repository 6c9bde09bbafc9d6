// A dense tensor in host memory, for the inputs and outputs of a program.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

struct HostTensor {
  TensorType type;
  std::vector<std::byte> data;  // type.bytes(), row-major

  HostTensor() = default;
  explicit HostTensor(TensorType tensor_type) : type(std::move(tensor_type)), data(type.bytes()) {}

  // The elements as T. Throws Error when T is not the tensor's element type.
  template <typename T>
  std::span<T> as();
  template <typename T>
  std::span<const T> as() const;
};

// A floating tensor converted element by element to another floating dtype, rounding to nearest even.
HostTensor convert(const HostTensor& tensor, DType dtype);
// The same into `result`, which has the dtype and the shape already.
void convert(const HostTensor& tensor, HostTensor& result);
// The element of a tensor that has one.
double scalar_of(const HostTensor& tensor);

// Reads one element of any dtype as a double, and writes one (rounded to nearest even).
double load_element(DType dtype, const void* element);
void store_element(DType dtype, void* element, double value);

}  // namespace ridgepoint
