// Tensors of Python: arrays of NumPy, and tensors of other libraries by DLPack. Neither is copied.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint::python {

namespace py = pybind11;

// A tensor that was given: dense, row-major, in the memory of `owner`.
struct GivenTensor {
  TensorType type;
  const void* data = nullptr;
  py::object owner;

  HostTensor copy() const;
};

// An array of NumPy, or anything with __dlpack__, in host memory; an array whose elements lie otherwise is copied
// first. A number and lists of numbers become the type that is wanted. `name` is that of the input, for errors. Throws
// Error (usage) for what is none of these.
GivenTensor given_tensor(const std::string& name, const py::handle& value, const TensorType& wanted);

// Whether NumPy has the dtype.
bool has_numpy_dtype(DType dtype);

// An array with new memory, aligned for every kernel. Its dtype is one of NumPy.
py::array new_array(const TensorType& type);
// A copy. A dtype that NumPy lacks (bf16, codes of 8 bits) becomes fp32, exactly.
py::array array_of(const HostTensor& tensor);

}  // namespace ridgepoint::python
