// Copies rows of a table [table_rows, words] by index to output [count, words]. A word is any unit of memory that
// divides a row, 16 bytes if possible. A warp copies a slice of one row. An index outside the table gives a row with
// all bits set, which is NaN in every floating dtype.
// grid (ceil(count / 8), ceil(words / 64)), block (32, 8)
#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kRowsPerBlock = 8;
constexpr int kWordsPerLane = 2;

template <typename Word>
__device__ __forceinline__ void gather_rows(const Word* __restrict__ table, const long long* __restrict__ indices,
                                            Word* __restrict__ output, long long table_rows, int count, int words,
                                            Word not_a_number) {
  const int row = static_cast<int>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.y);
  if (row >= count) return;
  const long long index = indices[row];
  const bool inside = index >= 0 && index < table_rows;
  const int first = static_cast<int>(blockIdx.y) * kWarpLanes * kWordsPerLane + static_cast<int>(threadIdx.x);
  const Word* from = table + (inside ? index : 0) * words;
  Word* to = output + static_cast<long long>(row) * words;
  Word moved[kWordsPerLane];
#pragma unroll
  for (int u = 0; u < kWordsPerLane; ++u) {
    const int word = first + u * kWarpLanes;
    moved[u] = inside && word < words ? from[word] : not_a_number;
  }
#pragma unroll
  for (int u = 0; u < kWordsPerLane; ++u) {
    const int word = first + u * kWarpLanes;
    if (word < words) to[word] = moved[u];
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_EMBEDDING_FORWARD(variant, Word, ...)                                                       \
  extern "C" __global__ void __launch_bounds__(256) embedding_forward_##variant(                               \
      const Word* table, const long long* indices, Word* output, long long table_rows, int count, int words) { \
    const Word not_a_number = __VA_ARGS__;                                                                     \
    ridgepoint::cuda::gather_rows(table, indices, output, table_rows, count, words, not_a_number);             \
  }

RIDGEPOINT_EMBEDDING_FORWARD(vectors, uint4, {~0U, ~0U, ~0U, ~0U})
RIDGEPOINT_EMBEDDING_FORWARD(doubles, unsigned long long, ~0ULL)
RIDGEPOINT_EMBEDDING_FORWARD(singles, unsigned, ~0U)
RIDGEPOINT_EMBEDDING_FORWARD(halves, unsigned short, 0xffffU)
