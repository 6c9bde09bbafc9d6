// Products of small matrices on the calling thread, of which kernels run one on each thread.
#pragma once

#include <cstdint>

namespace ridgepoint::cpu {

// A matrix of stored rows `stride` elements apart, or its transpose.
template <typename T>
struct Factor {
  const T* first;
  std::int64_t stride;
  bool transposed = false;
};
struct ProductSizes {
  std::int64_t rows, columns, inner;
};

// c = a b, or c += a b if `adds`; the rows of c are `stride` elements apart. fp32 by oneDNN's SGEMM, fp64 in plain
// loops. Throws Error if oneDNN fails.
template <typename T>
void multiply(const ProductSizes& sizes, Factor<T> a, Factor<T> b, T* c, std::int64_t stride, bool adds = false);

}  // namespace ridgepoint::cpu
