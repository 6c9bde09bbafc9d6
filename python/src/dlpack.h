// The structures of DLPack (https://dmlc.github.io/dlpack), version 0: what __dlpack__() gives in a capsule.
#pragma once

#include <cstdint>

namespace ridgepoint::python::dlpack {

inline constexpr const char* kCapsule = "dltensor";
inline constexpr const char* kUsedCapsule = "used_dltensor";

// Types of devices.
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::int32_t kCudaHost = 3;
// Codes of types of elements.
inline constexpr std::uint8_t kInt = 0;
inline constexpr std::uint8_t kFloat = 2;
inline constexpr std::uint8_t kBfloat = 4;
inline constexpr std::uint8_t kBool = 6;

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: dense
  std::uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

}  // namespace ridgepoint::python::dlpack
