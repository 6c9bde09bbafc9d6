// A row of elements at any address: 16-byte vectors, and single elements before and after them.
#pragma once

#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {

template <typename T>
struct AlignedRow {
  static constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));
  int head;  // single elements before the first vector
  int vectors;
  int length;

  __device__ __forceinline__ AlignedRow(const T* row, int elements) : length(elements) {
    const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % kWidth);
    head = min((kWidth - past) % kWidth, elements);
    vectors = (elements - head) / kWidth;
  }
  // Two rows that are read together; all elements are single if the vectors of both begin at different elements.
  __device__ __forceinline__ AlignedRow(const T* row, const T* other, int elements) : AlignedRow(row, elements) {
    if (AlignedRow(other, elements).head != head) vectors = 0;
  }

  // The number of single elements, and the index of the i-th one.
  __device__ __forceinline__ int edges() const { return length - vectors * kWidth; }
  __device__ __forceinline__ int edge(int i) const { return i < head ? i : vectors * kWidth + i; }
};

}  // namespace ridgepoint::cuda
