// Tables of tensors for kernels over many of them: a block has one chunk of one tensor.
#pragma once

namespace ridgepoint::cuda {

// The last tensor of the table whose first chunk is at most `chunk`.
template <typename Table>
__device__ __forceinline__ int find_tensor(const Table& table, unsigned chunk) {
  int low = 0;
  int high = table.tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (table.first_chunk[middle] <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace ridgepoint::cuda
