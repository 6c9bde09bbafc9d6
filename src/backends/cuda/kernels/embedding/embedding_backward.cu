// The gradient of an embedding: row v of output [rows, columns] is the sum of the rows of gradient [count, columns]
// whose index is v, plus row v of an addend unless that is null. The order of additions depends on the indices only, so
// results are bit for bit reproducible. Every output element is written once, zeros included; where the addend is the
// output, `indices` are given and rows without an index stay as they are. Indices outside [0, rows) are omitted.
//
// There are two launches: `sort` lists the positions of each index (a stable counting sort), then a sum kernel reads
// each gradient row once and writes each output row once.
#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kSortWarps = 32;
constexpr int kSortRows = 256;  // indices that one block sorts
constexpr int kLoadsInFlight = 8;

// Calls visit(index, position) for the positions [begin, end) of a warp in order, one for each lane at a time. All
// lanes call it together, with index -1 beyond the end.
template <typename Visit>
__device__ __forceinline__ void for_each_index(const long long* indices, int begin, int end, Visit visit) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (int start = begin; start < end; start += kWarpLanes * kLoadsInFlight) {
    long long loaded[kLoadsInFlight];
#pragma unroll
    for (int u = 0; u < kLoadsInFlight; ++u) {
      const int position = start + u * kWarpLanes + lane;
      loaded[u] = position < end ? indices[position] : -1;
    }
#pragma unroll
    for (int u = 0; u < kLoadsInFlight; ++u) {
      if (start + u * kWarpLanes < end) visit(loaded[u], start + u * kWarpLanes + lane);
    }
  }
}

__device__ __forceinline__ int inclusive_warp_sum(int value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
  for (int distance = 1; distance < kWarpLanes; distance *= 2) {
    const int from_below = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value += from_below;
  }
  return value;
}

// Replaces counts[warp][row] by the offset of each warp's positions of each row, and writes the offset of each row.
// `below` is the number of this thread's indices below the block's rows.
__device__ __forceinline__ void place_rows(int (&counts)[kSortWarps][kSortRows], int below, int first_row, int rows,
                                           int* offsets) {
  __shared__ int row_sums[kSortWarps];
  __shared__ int below_sums[kSortWarps];
  const int row = static_cast<int>(threadIdx.x);
  const int warp = row / kWarpLanes;
  const int lane = row % kWarpLanes;
  int total = 0;
  if (row < kSortRows) {
#pragma unroll
    for (int w = 0; w < kSortWarps; ++w) total += counts[w][row];
  }
  const int through = inclusive_warp_sum(total);
  const int warp_below = __reduce_add_sync(kAllLanes, below);
  if (lane == kWarpLanes - 1) {
    row_sums[warp] = through;
    below_sums[warp] = warp_below;
  }
  __syncthreads();
  const int earlier_warps = __reduce_add_sync(kAllLanes, lane < warp ? row_sums[lane] : 0);
  int place = __reduce_add_sync(kAllLanes, below_sums[lane]) + earlier_warps + through - total;
  if (row >= kSortRows) return;
  if (first_row + row < rows) offsets[first_row + row] = place;
  if (first_row + row == rows - 1) offsets[rows] = place + total;
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) {
    const int count = counts[w][row];
    counts[w][row] = place;
    place += count;
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

// Each block sorts the positions of kSortRows indices. It also counts the indices below these, which gives the offset
// of its output without communication between blocks. offsets [rows + 1] are where each row's positions begin;
// positions [count].
// grid (ceil(rows / 256)), block (1024)
extern "C" __global__ void __launch_bounds__(1024)
    embedding_backward_sort(const long long* __restrict__ indices, int* __restrict__ offsets,
                            int* __restrict__ positions, int rows, int count) {
  using namespace ridgepoint::cuda;
  __shared__ int counts[kSortWarps][kSortRows];
  for (int i = static_cast<int>(threadIdx.x); i < kSortWarps * kSortRows; i += kSortWarps * kWarpLanes)
    (&counts[0][0])[i] = 0;
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int first_row = static_cast<int>(blockIdx.x) * kSortRows;
  const int own_rows = min(kSortRows, rows - first_row);
  const int steps = (count + kSortWarps * kWarpLanes - 1) / (kSortWarps * kWarpLanes);
  const long long begin = static_cast<long long>(warp) * steps * kWarpLanes;
  const int from = static_cast<int>(min(begin, static_cast<long long>(count)));
  const int to =
      static_cast<int>(min(begin + static_cast<long long>(steps) * kWarpLanes, static_cast<long long>(count)));

  int below = 0;
  for_each_index(indices, from, to, [&](long long index, int) {
    const long long own = index - first_row;
    if (own >= 0 && own < own_rows) atomicAdd(&counts[warp][own], 1);
    below += index >= 0 && own < 0 ? 1 : 0;
  });
  __syncthreads();
  place_rows(counts, below, first_row, rows, offsets);
  __syncthreads();

  for_each_index(indices, from, to, [&](long long index, int position) {
    const long long own = index - first_row;
    const bool mine = own >= 0 && own < own_rows;
    if (__ballot_sync(kAllLanes, mine) == 0) return;
    const int key = mine ? static_cast<int>(own) : kSortRows;
    const unsigned alike = __match_any_sync(kAllLanes, key);
    const int rank = __popc(alike & ((1U << lane) - 1));
    if (mine) positions[counts[warp][key] + rank] = position;
    __syncwarp();
    if (mine && rank == 0) counts[warp][key] += __popc(alike);
    __syncwarp();
  });
}

namespace ridgepoint::cuda {
namespace {

constexpr int kSumWarps = 16;  // rows of a block
constexpr int kRowsInFlight = 4;
constexpr int kShortList = 32;  // the whole block sums longer lists

// The columns of a warp: kVectorsPerLane packets for each lane, as many as leave registers for two blocks.
template <typename T, int kWidth>
struct RowSlice {
  static constexpr int kVectorsPerLane = kWidth > 4 ? 1 : 2;
  static constexpr int kColumns = kWarpLanes * kWidth * kVectorsPerLane;
  Accumulator<T> sums[kVectorsPerLane][kWidth] = {};

  static __device__ int column(int vector) {
    return static_cast<int>(blockIdx.y) * kColumns + (vector * kWarpLanes + static_cast<int>(threadIdx.x)) * kWidth;
  }

  // Adds the gradient rows listed in positions [begin, end), in order.
  __device__ void add_rows(const T* __restrict__ gradient, const int* __restrict__ positions, int begin, int end,
                           int columns) {
    for (int start = begin; start < end; start += kWarpLanes) {
      const int lane = static_cast<int>(threadIdx.x);
      const int listed = min(kWarpLanes, end - start);
      const int own = lane < listed ? positions[start + lane] : 0;
      for (int i = 0; i < listed; i += kRowsInFlight) add_batch(gradient, own, i, listed, columns);
    }
  }

 private:
  __device__ void add_batch(const T* __restrict__ gradient, int own, int first, int listed, int columns) {
    using Vector = Packet<T, kWidth>;
    Vector terms[kRowsInFlight][kVectorsPerLane];
#pragma unroll
    for (int u = 0; u < kRowsInFlight; ++u) {
      const long long position = __shfl_sync(kAllLanes, own, (first + u) % kWarpLanes);
#pragma unroll
      for (int vector = 0; vector < kVectorsPerLane; ++vector) {
        const bool present = first + u < listed && column(vector) < columns;
        const T* address = gradient + position * columns + column(vector);
        if (present) {
          terms[u][vector] = *reinterpret_cast<const Vector*>(address);
        } else {
#pragma unroll
          for (int k = 0; k < kWidth; ++k) terms[u][vector].values[k] = T(0.0F);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kRowsInFlight; ++u) {
#pragma unroll
      for (int vector = 0; vector < kVectorsPerLane; ++vector) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sums[vector][k] += convert_to<Accumulator<T>>(terms[u][vector].values[k]);
      }
    }
  }

 public:
  // Adds a row of the addend, which may be the row that is stored next.
  __device__ void add(const T* row, int columns) {
#pragma unroll
    for (int vector = 0; vector < kVectorsPerLane; ++vector) {
      if (column(vector) >= columns) continue;
      const auto packet = *reinterpret_cast<const Packet<T, kWidth>*>(row + column(vector));
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[vector][k] += convert_to<Accumulator<T>>(packet.values[k]);
    }
  }

  __device__ void store(T* output_row, int columns) const {
#pragma unroll
    for (int vector = 0; vector < kVectorsPerLane; ++vector) {
      if (column(vector) >= columns) continue;
      Packet<T, kWidth> packet;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) packet.values[k] = convert_to<T>(sums[vector][k]);
      *reinterpret_cast<Packet<T, kWidth>*>(output_row + column(vector)) = packet;
    }
  }
};

// Each warp sums a range of a long list; then the partial sums are added in order. addend_row may be null.
template <typename T, int kWidth>
__device__ __forceinline__ void sum_long_row(const T* __restrict__ gradient, const int* __restrict__ positions,
                                             const T* addend_row, T* output_row, int begin, int end, int columns) {
  using Slice = RowSlice<T, kWidth>;
  __shared__ Accumulator<T> parts[kSumWarps][Slice::kColumns];
  const int warp = static_cast<int>(threadIdx.y);
  const int lane = static_cast<int>(threadIdx.x);
  const int share = (end - begin + kSumWarps - 1) / kSumWarps;
  Slice slice;
  slice.add_rows(gradient, positions, min(begin + warp * share, end), min(begin + (warp + 1) * share, end), columns);
#pragma unroll
  for (int vector = 0; vector < Slice::kVectorsPerLane; ++vector) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) parts[warp][(vector * kWarpLanes + lane) * kWidth + k] = slice.sums[vector][k];
  }
  __syncthreads();
  const int first_column = static_cast<int>(blockIdx.y) * Slice::kColumns;
  for (int i = warp * kWarpLanes + lane; i < Slice::kColumns && first_column + i < columns;
       i += kSumWarps * kWarpLanes) {
    Accumulator<T> sum = 0;
#pragma unroll
    for (int w = 0; w < kSumWarps; ++w) sum += parts[w][i];
    if (addend_row != nullptr) sum += convert_to<Accumulator<T>>(addend_row[first_column + i]);
    output_row[first_column + i] = convert_to<T>(sum);
  }
  __syncthreads();
}

// A row, and its positions [begin, end). A row of -1: nothing to do.
struct RowList {
  int row, begin, end;
  __device__ __forceinline__ int length() const { return end - begin; }
};

// The list of a warp. One warp handles one row. With `indices`, one warp handles one position, and the warp at the first
// position of a row has the row's list.
__device__ __forceinline__ RowList list_of_warp(const long long* indices, const int* offsets, const int* positions,
                                                int rows) {
  constexpr RowList kNone{-1, 0, 0};
  const int number = static_cast<int>(blockIdx.x) * kSumWarps + static_cast<int>(threadIdx.y);
  if (indices == nullptr) return number < rows ? RowList{number, offsets[number], offsets[number + 1]} : kNone;
  if (number >= offsets[rows]) return kNone;
  const int row = static_cast<int>(indices[positions[number]]);
  return offsets[row] == number ? RowList{row, number, offsets[row + 1]} : kNone;
}

// Each warp sums one row; then the whole block sums the rows with long lists.
template <typename T, int kWidth>
__device__ __forceinline__ void sum_rows(const T* __restrict__ gradient, const long long* __restrict__ indices,
                                         const int* __restrict__ offsets, const int* __restrict__ positions,
                                         const T* addend, T* output, int rows, int columns) {
  __shared__ RowList lists[kSumWarps];
  const RowList list = list_of_warp(indices, offsets, positions, rows);
  const bool is_long = list.length() > kShortList;
  const auto addend_row = [&](int row) {
    return addend == nullptr ? nullptr : addend + static_cast<long long>(row) * columns;
  };
  if (list.row >= 0 && !is_long) {
    RowSlice<T, kWidth> slice;
    slice.add_rows(gradient, positions, list.begin, list.end, columns);
    if (addend != nullptr) slice.add(addend_row(list.row), columns);
    slice.store(output + static_cast<long long>(list.row) * columns, columns);
  }
  if (threadIdx.x == 0) lists[threadIdx.y] = list;
  if (__syncthreads_or(is_long) == 0) return;
  for (int i = 0; i < kSumWarps; ++i) {
    const RowList other = lists[i];
    if (other.length() <= kShortList) continue;
    sum_long_row<T, kWidth>(gradient, positions, addend_row(other.row),
                            output + static_cast<long long>(other.row) * columns, other.begin, other.end, columns);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

// vectors: 16-byte accesses, if a row is a whole number of vectors. elements: any number of columns.
// grid (ceil(rows or positions / 16), ceil(columns / slice)), block (32, 16); a slice is 64 packets, or 32 of 16-bit
// elements
#define RIDGEPOINT_EMBEDDING_BACKWARD(dtype, T)                                                                      \
  extern "C" __global__ void __launch_bounds__(512, 2)                                                               \
      embedding_backward_vectors_##dtype(const T* gradient, const long long* indices, const int* offsets,            \
                                         const int* positions, const T* addend, T* output, int rows, int columns) {  \
    ridgepoint::cuda::sum_rows<T, ridgepoint::cuda::kVectorBytes / static_cast<int>(sizeof(T))>(                     \
        gradient, indices, offsets, positions, addend, output, rows, columns);                                       \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(512, 2)                                                               \
      embedding_backward_elements_##dtype(const T* gradient, const long long* indices, const int* offsets,           \
                                          const int* positions, const T* addend, T* output, int rows, int columns) { \
    ridgepoint::cuda::sum_rows<T, 1>(gradient, indices, offsets, positions, addend, output, rows, columns);          \
  }

RIDGEPOINT_EMBEDDING_BACKWARD(fp64, double)
RIDGEPOINT_EMBEDDING_BACKWARD(fp32, float)
RIDGEPOINT_EMBEDDING_BACKWARD(bf16, __nv_bfloat16)
RIDGEPOINT_EMBEDDING_BACKWARD(fp16, __half)
