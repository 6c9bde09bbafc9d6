#include "tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "dlpack.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::python {
namespace {

// The dtypes that NumPy has too: its letter for them, and its number (enum NPY_TYPES).
struct NumpyDType {
  DType dtype;
  char kind;
  int number;
};
constexpr NumpyDType kNumpyDTypes[] = {{DType::fp64, 'f', 12}, {DType::fp32, 'f', 11}, {DType::fp16, 'f', 23},
                                       {DType::int64, 'i', 7}, {DType::int32, 'i', 5}, {DType::boolean, 'b', 0}};
static_assert(sizeof(long) == sizeof(std::int64_t), "NumPy's number of int64 is that of long");

const NumpyDType* find_numpy(DType dtype) {
  for (const NumpyDType& row : kNumpyDTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

[[noreturn]] void refuse(const std::string& message) { throw Error(message, ErrorKind::usage); }

Shape shape_of(const std::string& name, std::span<const std::int64_t> sizes) {
  if (sizes.size() > static_cast<std::size_t>(kMaxRank))
    refuse(fmt::format("input '{}' has {} dimensions; the most are {}", name, sizes.size(), kMaxRank));
  return Shape(std::vector<Dim>(sizes.begin(), sizes.end()));
}

DType dtype_of(const std::string& name, const py::dtype& dtype) {
  for (const NumpyDType& row : kNumpyDTypes) {
    const bool is_same =
        dtype.kind() == row.kind && static_cast<std::size_t>(dtype.itemsize()) == size_bytes(row.dtype);
    if (is_same && dtype.byteorder() != '>') return row.dtype;
  }
  const auto text = py::str(py::handle(dtype)).cast<std::string>();
  if (text == "bfloat16") return DType::bf16;
  refuse(
      fmt::format("input '{}' is an array of {}; there are float64, float32, float16, bfloat16, int64, int32 and bool",
                  name, text));
}

GivenTensor given_array(const std::string& name, const py::array& array) {
  const py::array dense = py::array::ensure(array, py::array::c_style);
  const DType dtype = dtype_of(name, dense.dtype());
  const std::vector<std::int64_t> sizes(dense.shape(), dense.shape() + dense.ndim());
  return {{dtype, shape_of(name, sizes)}, dense.data(), dense};
}

std::optional<DType> dtype_of(const dlpack::DataType& type) {
  if (type.lanes != 1) return std::nullopt;
  if (type.code == dlpack::kBfloat && type.bits == 16) return DType::bf16;
  if (type.code == dlpack::kBool && type.bits == 8) return DType::boolean;
  const char kind = type.code == dlpack::kFloat ? 'f' : type.code == dlpack::kInt ? 'i' : 0;
  for (const NumpyDType& row : kNumpyDTypes) {
    if (row.kind == kind && size_bytes(row.dtype) * 8 == type.bits) return row.dtype;
  }
  return std::nullopt;
}

bool is_dense(const dlpack::Tensor& tensor) {
  std::int64_t stride = 1;
  for (int axis = tensor.rank - 1; axis >= 0 && tensor.strides != nullptr; --axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.shape[axis];
  }
  return true;
}

// Takes over the tensor of a capsule, as the protocol has it.
GivenTensor given_by_dlpack(const std::string& name, const py::handle& value) {
  const py::object capsule = value.attr("__dlpack__")();
  auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kCapsule));
  if (managed == nullptr) throw py::error_already_set();
  PyCapsule_SetName(capsule.ptr(), dlpack::kUsedCapsule);
  py::capsule owner(managed, [](void* taken) {
    auto* self = static_cast<dlpack::Managed*>(taken);
    if (self->deleter != nullptr) self->deleter(self);
  });
  const dlpack::Tensor& tensor = managed->tensor;
  // Captured runs repeat launches with the addresses of the program's own buffers, and the order of its stream with
  // that of another library's is not known.
  if (tensor.device.type == dlpack::kCuda) {
    refuse(
        fmt::format("input '{}' is in the memory of GPU {}, and a program reads that of the host or its own; give "
                    "tensor.cpu()",
                    name, tensor.device.id));
  }
  if (tensor.device.type != dlpack::kCpu && tensor.device.type != dlpack::kCudaHost)
    refuse(fmt::format("input '{}' is in the memory of a device; give a tensor of the host (tensor.cpu())", name));
  if (!is_dense(tensor))
    refuse(fmt::format("input '{}' is not dense in row-major order; give tensor.contiguous()", name));
  const std::optional<DType> dtype = dtype_of(tensor.dtype);
  if (!dtype)
    refuse(fmt::format("input '{}' has a dtype that Ridgepoint lacks (DLPack code {}, {} bits)", name,
                       tensor.dtype.code, tensor.dtype.bits));
  const std::span<const std::int64_t> sizes(tensor.shape, static_cast<std::size_t>(tensor.rank));
  return {{*dtype, shape_of(name, sizes)},
          static_cast<const std::byte*>(tensor.data) + tensor.byte_offset,
          std::move(owner)};
}

}  // namespace

HostTensor GivenTensor::copy() const {
  HostTensor tensor(type);
  if (!tensor.data.empty()) std::memcpy(tensor.data.data(), data, tensor.data.size());
  return tensor;
}

GivenTensor given_tensor(const std::string& name, const py::handle& value, const TensorType& wanted) {
  if (py::isinstance<py::array>(value)) return given_array(name, py::reinterpret_borrow<py::array>(value));
  if (py::hasattr(value, "__dlpack__")) return given_by_dlpack(name, value);
  const bool is_numbers = PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()) || PySequence_Check(value.ptr());
  const NumpyDType* numpy = find_numpy(wanted.dtype);
  if (!is_numbers || py::isinstance<py::str>(value) || numpy == nullptr) {
    refuse(fmt::format("input '{}' is {}; give an array of NumPy, or a tensor with __dlpack__", name,
                       py::str(py::type::of(value)).cast<std::string>()));
  }
  return given_array(name,
                     py::module_::import("numpy").attr("asarray")(value, py::dtype(numpy->number)).cast<py::array>());
}

bool has_numpy_dtype(DType dtype) { return find_numpy(dtype) != nullptr; }

py::array new_array(const TensorType& type) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t bytes = (std::max<std::size_t>(type.bytes(), 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  const py::capsule owner(memory, [](void* own) { std::free(own); });  // NOLINT
  std::vector<py::ssize_t> sizes;
  for (const Dim& dim : type.shape.dims()) sizes.push_back(dim.size);
  return py::array(py::dtype(find_numpy(type.dtype)->number), std::move(sizes), memory, owner);
}

py::array array_of(const HostTensor& tensor) {
  if (!has_numpy_dtype(tensor.type.dtype)) return array_of(convert(tensor, DType::fp32));
  py::array array = new_array(tensor.type);
  if (!tensor.data.empty()) std::memcpy(array.mutable_data(), tensor.data.data(), tensor.data.size());
  return array;
}

}  // namespace ridgepoint::python
