// A row of floats of any length at any address, as 16-byte vectors with loose elements at both ends.
#pragma once

#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {

struct AlignedRow {
  static constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(float));
  int head;     // loose elements before the first vector
  int vectors;  // whole ones
  int length;

  __device__ __forceinline__ AlignedRow(const float* row, int elements) : length(elements) {
    const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(float) % kWidth);
    head = min((kWidth - past) % kWidth, elements);
    vectors = (elements - head) / kWidth;
  }
  // Two rows walked together; all loose where their vectors do not begin at the same element.
  __device__ __forceinline__ AlignedRow(const float* row, const float* other, int elements)
      : AlignedRow(row, elements) {
    if (AlignedRow(other, elements).head != head) vectors = 0;
  }

  // How many loose elements there are, and where the i-th lies.
  __device__ __forceinline__ int edges() const { return length - vectors * kWidth; }
  __device__ __forceinline__ int edge(int i) const { return i < head ? i : vectors * kWidth + i; }
};

}  // namespace ridgepoint::cuda
