// Work on whole rows of a product, in the same launch: low_matmul.cuh has the pipeline of the product.
//
//   warpgroup 0, 1    tile: sums = a b -> product, counted | ...                     take turns
//   warp 2 beside     rows whose tiles are all counted: operands -> shared memory    copy engine, some rows ahead
//   warps 0, 1        a row: shared memory -> results
//
// A tile counts itself once it is written. Warp 2 beside waits for the tiles of each of the block's rows, which the
// other operands of the row do not wait for. Rows are found in the level-2 cache for the most part. Blocks wait for
// others, so the launch is cooperative. The last block to end clears the counts. Each block has fixed rows, every
// gridDim.x-th one, so that sums over its rows repeat to the bit.
#pragma once

#include "backends/cuda/products/epilogues/residual/parameters.h"
#include "backends/cuda/products/low_matmul/low_matmul.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kThreadsOfRow = 2 * kWarpLanes;
constexpr int kBarrierOfRows = 3;
constexpr int kBandRows = 2;  // of clusters' tiles (Position): the last rows of tiles end early

struct RowBarriers {
  SharedBarrier full[RowsBeside::kMostSlots], free[RowsBeside::kMostSlots];
  float sums[2][kThreadsOfRow / kWarpLanes];  // of the warps, for two rows
};

// Where the operands of rows lie in memory; in a slot of shared memory they follow one another.
struct RowOperand {
  const void* first;
  std::int64_t row_bytes;  // between rows
  int bytes;               // of a row
};

// What an epilogue that works on rows does with a tile: the product is written, and the tile counted.
template <class T>
struct WriteAndCount {
  WriteResult<T> write;
  unsigned* counts;

  __device__ __forceinline__ void operator()(const SharedTiles<T>& tiles, const Position& at,
                                             float (&sums)[T::kChains][T::kSums], int part, int group, int thread) {
    write(tiles, at, sums, part, group, thread);
    if (thread != 0) return;
    wait_for_complete_stores();
    if (at.row >= write.p.m) return;
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counts + at.row / T::kRows), "r"(1) : "memory");
  }
};

// Four elements of a row.
__device__ __forceinline__ float4 load_four(std::uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_four(std::uint32_t address, const float4& v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
// Packed in 16 bits each; four_of() unpacks them.
__device__ __forceinline__ uint2 load_low_four(std::uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
template <class Element>
__device__ __forceinline__ float4 four_of(const uint2& packed) {
  const float2 low = unpack<Element>(packed.x);
  const float2 high = unpack<Element>(packed.y);
  return {low.x, low.y, high.x, high.y};
}
template <class Element>
__device__ __forceinline__ void store_low_four(Element* to, const float4& v) {
  *reinterpret_cast<uint2*>(to) = {pack<Element>(v.x, v.y), pack<Element>(v.z, v.w)};
}

// The columns of a thread: kFours times four, kThreadsOfRow * 4 apart, of which the last four may not exist; column 0
// then stands for them.
template <int kFours>
struct ColumnsOfThread {
  static constexpr int kStride = 4 * kThreadsOfRow;
  int first;
  bool has_last;

  __device__ __forceinline__ ColumnsOfThread(int first_column, int n)
      : first(first_column), has_last(first_column + (kFours - 1) * kStride < n) {}
  __device__ __forceinline__ bool has(int i) const { return i < kFours - 1 || has_last; }
  __device__ __forceinline__ int operator[](int i) const { return has(i) ? first + i * kStride : 0; }
};

// Calls work(the ColumnsOfThread of rows of n columns).
template <class Work>
__device__ __forceinline__ void with_columns(int first, int n, const Work& work) {
  switch ((n + 4 * kThreadsOfRow - 1) / (4 * kThreadsOfRow)) {
    case 1:
      return work(ColumnsOfThread<1>(first, n));
    case 2:
      return work(ColumnsOfThread<2>(first, n));
    case 3:
      return work(ColumnsOfThread<3>(first, n));
    case 4:
      return work(ColumnsOfThread<4>(first, n));
    case 5:
      return work(ColumnsOfThread<5>(first, n));
    case 6:
      return work(ColumnsOfThread<6>(first, n));
    case 7:
      return work(ColumnsOfThread<7>(first, n));
    default:
      return work(ColumnsOfThread<8>(first, n));
  }
}

// The rows of a block, in slots of shared memory.
template <class T>
class RowRing {
 public:
  __device__ __forceinline__ RowRing(const LowMatmul& product, RowBarriers& barriers, const SharedTiles<T>& tiles,
                                     int slot_bytes)
      : product_(product),
        barriers_(barriers),
        vector_(tiles.reserved()),
        first_(vector_ + product.n * static_cast<int>(sizeof(float))),
        slot_bytes_(slot_bytes),
        slots_(min((T::kReserved - product.n * static_cast<int>(sizeof(float))) / slot_bytes, RowsBeside::kMostSlots)),
        rows_((product.m - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) /
              static_cast<int>(gridDim.x)) {}

  static __device__ __forceinline__ void prepare(RowBarriers& barriers) {
    for (int i = 0; i < RowsBeside::kMostSlots; ++i) {
      barriers.full[i].initialise(1);
      barriers.free[i].initialise(kThreadsOfRow / kWarpLanes);
    }
  }

  // By a warp: `product` is what the tiles write, and the first in a slot; the others exist before.
  template <int kOthers>
  __device__ __forceinline__ void load(const RowOperand& product, const RowOperand (&others)[kOthers],
                                       const unsigned* counts) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
    Ring early, late;
    int ready = 0;  // rows whose tiles are written
    while (late.row < rows_) {
      __syncwarp();
      // Lanes may see a barrier at different times: all do what the first one saw.
      const bool is_free = early.row < rows_ && barriers_.free[early.slot].has_ended(early.parity ^ 1);
      if (__shfl_sync(kAllLanes, static_cast<int>(is_free), 0) != 0) {
        if (lane == 0) load_others(early, product.bytes, others);
        early.advance(slots_);
      }
      if (late.row == early.row) {
        barriers_.free[early.slot].wait(early.parity ^ 1);
        continue;
      }
      if (late.row == ready) {
        ready += count_ready(late.row + lane, counts);
        if (late.row == ready) continue;
      }
      if (lane == 0) {
        const char* from = static_cast<const char*>(product.first) + row_of(late.row) * product.row_bytes;
        copy_bytes(slot(late.slot), from, product.bytes, barriers_.full[late.slot]);
      }
      late.advance(slots_);
    }
  }

  // By all threads of a row: copies a vector that all rows use to shared memory, where vector() has its elements.
  __device__ __forceinline__ void keep_vector(const float* from, int first) const {
    for (int column = first; column < product_.n; column += kThreadsOfRow * 4) {
      store_four(vector_ + column * static_cast<int>(sizeof(float)), *reinterpret_cast<const float4*>(from + column));
    }
    meet(kBarrierOfRows, kThreadsOfRow);
  }
  __device__ __forceinline__ float4 vector(int column) const {
    return load_four(vector_ + column * static_cast<int>(sizeof(float)));
  }

  // By kThreadsOfRow threads: calls work(row, address of the slot, ring) for each row, which releases the slot.
  template <class Work>
  __device__ __forceinline__ void for_each(const Work& work) {
    Ring ring;
    while (ring.row < rows_) {
      barriers_.full[ring.slot].wait(ring.parity);
      work(row_of(ring.row), slot(ring.slot), ring);
      ring.advance(slots_);
    }
  }

  struct Ring {
    int row = 0, slot = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance(int slots) {
      ++row;
      if (++slot < slots) return;
      slot = 0;
      parity ^= 1;
    }
  };

  // By all threads of a row: the sum of their values, in a fixed order.
  __device__ __forceinline__ float sum(float value, const Ring& ring) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
    for (int apart = 1; apart < kWarpLanes; apart *= 2) value += __shfl_xor_sync(kAllLanes, value, apart);
    float(&sums)[2] = barriers_.sums[ring.row % 2];
    if (lane == 0) sums[static_cast<int>(threadIdx.x) / kWarpLanes % 2] = value;
    meet(kBarrierOfRows, kThreadsOfRow);
    return sums[0] + sums[1];
  }
  // By all threads of a row, which have read the slot.
  __device__ __forceinline__ void release(const Ring& ring) {
    __syncwarp();
    if (threadIdx.x % kWarpLanes == 0) barriers_.free[ring.slot].arrive();
  }

  // By one thread, after all rows of the block.
  __device__ __forceinline__ void clear(unsigned* counts) const {
    unsigned* const ended = counts + RowsBeside::kMostCounts;
    __threadfence();
    if (atomicAdd(ended, 1) != gridDim.x - 1) return;
    __threadfence();  // what the other blocks have read and counted comes before
    for (int i = 0; i * T::kRows < product_.m; ++i) counts[i] = 0;
    *ended = 0;
  }

 private:
  __device__ __forceinline__ long long row_of(int index) const {
    return static_cast<long long>(index) * gridDim.x + blockIdx.x;
  }
  __device__ __forceinline__ std::uint32_t slot(int index) const { return first_ + index * slot_bytes_; }

  template <int kOthers>
  __device__ __forceinline__ void load_others(const Ring& ring, int product_bytes,
                                              const RowOperand (&others)[kOthers]) {
    int bytes = product_bytes;
#pragma unroll
    for (int i = 0; i < kOthers; ++i) bytes += others[i].bytes;
    SharedBarrier& full = barriers_.full[ring.slot];
    arrive_and_expect(full, bytes);
    std::uint32_t to = slot(ring.slot) + product_bytes;
#pragma unroll
    for (int i = 0; i < kOthers; ++i) {
      copy_bytes(to, static_cast<const char*>(others[i].first) + row_of(ring.row) * others[i].row_bytes,
                 others[i].bytes, full);
      to += others[i].bytes;
    }
  }

  // Rows from that of lane 0 on whose tiles are written; each lane asks for one row of the block.
  __device__ __forceinline__ int count_ready(int index, const unsigned* counts) const {
    const auto tiles = static_cast<unsigned>(product_.tiles_n * T::kClusterColumns);
    unsigned written = tiles;
    if (index < rows_) {
      const unsigned* count = counts + row_of(index) / T::kRows;
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(written) : "l"(count) : "memory");
    }
    const unsigned others = __ballot_sync(kAllLanes, written != tiles);
    asm volatile("fence.proxy.async;" ::: "memory");
    const int ready = others == 0 ? kWarpLanes : __ffs(static_cast<int>(others)) - 1;
    if (ready == 0) __nanosleep(100);
    return ready;
  }

  const LowMatmul& product_;
  RowBarriers& barriers_;
  std::uint32_t vector_, first_;
  int slot_bytes_, slots_, rows_;
};

// What epilogues that work on rows have in common: `beside()` of a derived class does the work.
template <class T>
struct EpilogueOfRows {
  RowBarriers& barriers;
  WriteAndCount<T> write;

  __device__ __forceinline__ void prepare() {
    write.write.prepare();
    RowRing<T>::prepare(barriers);
  }

  __device__ __forceinline__ void operator()(const SharedTiles<T>& tiles, const Position& at,
                                             float (&sums)[T::kChains][T::kSums], int part, int group, int thread) {
    write(tiles, at, sums, part, group, thread);
  }
};

}  // namespace
}  // namespace ridgepoint::cuda
