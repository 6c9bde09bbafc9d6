// fp32 operands of attention as fp16 parts in device memory (device/fp16_parts.cuh), and products of parts by a
// warpgroup, for the kernels of Hopper.
#pragma once

#include "backends/cuda/device/fp16_parts.cuh"
#include "backends/cuda/device/tensor_copy.cuh"
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/attention/wgmma/attention_hopper.cuh"

namespace ridgepoint::cuda {

// A tile of parts, in device and in shared memory: panels of 64 columns; of each panel, part after part; of each part a
// line of 128 bytes for each row, swizzled as device/hopper.cuh says. So a panel is one copy, and both parts of it are
// operands of products as they lie.
template <int kRows, int kWidth, int kParts>
struct PartTile {
  static constexpr int kPanels = kWidth / kLineElements;
  static constexpr int kPartBytes = kRows * kLineBytes;
  static constexpr int kPanelBytes = kParts * kPartBytes;
  static constexpr int kBytes = kPanels * kPanelBytes;
};

inline constexpr int kSplitThreads = 256;

// How a tile is scaled: all of it by one power of two, or each of its rows by its own.
enum class Scales { of_tile, of_rows };

// A thread block splits rows `first` to `first + kRows` of a matrix into parts; rows beyond the end become 0.
// `largest` gets the largest finite magnitude of the tile, or of each of its rows. kClears: elements that are not
// finite become 0.
template <int kRows, int kWidth, int kParts, Scales kScales, bool kClears>
__device__ __forceinline__ void split_tile(const float* rows, int stride, int first, int end, int width, char* tile,
                                           float* largest) {
  using Tile = PartTile<kRows, kWidth, kParts>;
  constexpr int kRowChunks = kWidth / 8;
  constexpr int kRowsApart = kSplitThreads / kRowChunks;
  constexpr int kChunks = kRows / kRowsApart;
  static_assert(kRows % kRowsApart == 0);
  __shared__ unsigned of_tile;
  const int thread = static_cast<int>(threadIdx.x);
  const int chunk = thread % kRowChunks;
  const int first_row = thread / kRowChunks;
  if (thread == 0) of_tile = 0;
  __syncthreads();
  float x[kChunks][8];
  float most[kChunks];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int row = first + first_row + i * kRowsApart;
    most[i] = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = chunk * 8 + half * 4;
      float4 four = {0, 0, 0, 0};
      if (row < end && column < width) {
        four = *reinterpret_cast<const float4*>(rows + static_cast<long long>(row) * stride + column);
      }
      const float elements[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        x[i][4 * half + j] = elements[j];
        most[i] = fmaxf(most[i], fabsf(finite_or_nan(elements[j])));
      }
    }
  }
  if constexpr (kScales == Scales::of_rows) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
#pragma unroll
      for (int apart = kRowChunks / 2; apart > 0; apart /= 2) {
        most[i] = fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], apart));
      }
      if (chunk == 0) largest[first_row + i * kRowsApart] = most[i];
    }
  } else {
    float mine = most[0];
#pragma unroll
    for (int i = 1; i < kChunks; ++i) mine = fmaxf(mine, most[i]);
    raise_largest(&of_tile, mine);
    __syncthreads();
    const float all = __uint_as_float(of_tile);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) most[i] = all;
    if (thread == 0) *largest = all;
  }
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const float up = TileScale(most[i]).up;
    unsigned parts[kFp16Parts][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float left = x[i][2 * j] * up;
      float right = x[i][2 * j + 1] * up;
      if (kClears && left - left != 0) left = 0;
      if (kClears && right - right != 0) right = 0;
      split(left, right, parts[0][j], parts[1][j]);
    }
    char* to = tile + chunk / 8 * Tile::kPanelBytes + swizzled(first_row + i * kRowsApart, chunk % 8);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      *reinterpret_cast<uint4*>(to + part * Tile::kPartBytes) = {parts[part][0], parts[part][1], parts[part][2],
                                                                 parts[part][3]};
    }
  }
}

// An operand of products in shared memory: its part 0, and the distances of parts and of panels.
template <Contiguous kContiguous>
struct SharedOperand {
  std::uint64_t first;
  unsigned part_step, panel_step;

  __device__ __forceinline__ SharedOperand(std::uint32_t address, int part_bytes, int panel_bytes)
      : first(tile_descriptor(address, panel_bytes)), part_step(part_bytes >> 4), panel_step(panel_bytes >> 4) {}

  // Of 16 elements along the sum.
  __device__ __forceinline__ std::uint64_t at(int part, int step) const {
    if constexpr (kContiguous == Contiguous::k) {
      return first + part * part_step + step / 4 * panel_step + step % 4 * kDescriptorStep<true>;
    } else {
      return first + part * part_step + step * kDescriptorStep<false>;
    }
  }
  template <int kColumns, Contiguous kB>
  __device__ __forceinline__ void multiply(float (&sum)[kColumns / 2], int part, int step, std::uint64_t b,
                                           bool keep) const {
    WarpgroupProduct<__half, kColumns>::template add<kContiguous, kB>(sum, at(part, step), b, keep);
  }
};

// A first operand in registers: 64 x 16 kSteps.
template <int kParts, int kSteps>
struct RegisterOperand {
  unsigned parts[kParts][kSteps][4];

  // Of the sums of another product, as two adjacent columns are packed.
  __device__ __forceinline__ void split_sums(const float (&sums)[kSteps * 8]) {
#pragma unroll
    for (int i = 0; i < kSteps * 4; ++i) {
      if constexpr (kParts == 2) {
        split(sums[2 * i], sums[2 * i + 1], parts[0][i / 4][i % 4], parts[1][i / 4][i % 4]);
      } else {
        parts[0][i / 4][i % 4] = pack<__half>(sums[2 * i], sums[2 * i + 1]);
      }
    }
  }
  template <int kColumns, Contiguous kB>
  __device__ __forceinline__ void multiply(float (&sum)[kColumns / 2], int part, int step, std::uint64_t b,
                                           bool keep) const {
    WarpgroupProduct<__half, kColumns>::template add<kB>(sum, parts[part][step], b, keep);
  }
};

// sum = the products of a second part and a first one, times 1 / kSecondUnit, over kSteps x 16 elements. Exchanged:
// with the bits of the same sum with a and b exchanged.
template <int kColumns, int kSteps, bool kExchanged = false, class A, Contiguous kB>
__device__ __forceinline__ void multiply_seconds(float (&sum)[kColumns / 2], const A& a, const SharedOperand<kB>& b) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    a.template multiply<kColumns, kB>(sum, kExchanged ? 0 : 1, step, b.at(kExchanged ? 1 : 0, step), step > 0);
    a.template multiply<kColumns, kB>(sum, kExchanged ? 1 : 0, step, b.at(kExchanged ? 0 : 1, step), true);
  }
}

// sum = (keep ? sum : 0) + the products of first parts, over the 64 elements from kFirst on: tensor cores truncate
// their sums, so longer ones are added in rounded fp32.
template <int kColumns, int kFirst, int kSteps = 4, class A, Contiguous kB>
__device__ __forceinline__ void multiply_firsts(float (&sum)[kColumns / 2], const A& a, const SharedOperand<kB>& b,
                                                bool keep) {
#pragma unroll
  for (int step = kFirst / 16; step < kFirst / 16 + kSteps; ++step) {
    a.template multiply<kColumns, kB>(sum, 0, step, b.at(0, step), keep || step > kFirst / 16);
  }
}

template <int kCount>
__device__ __forceinline__ void scale_seconds(float (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] *= kSecondUnit;
}

// The product a b over kTerms elements, in panels of 64 columns: add(panel, i, x) gets element i of a thread's 32 of
// each panel. Either one panel and 128 terms, in two sums of 64, or an even number of panels and at most 64 terms. No
// products are pending before and after.
template <int kParts, int kPanels, int kTerms, class A, class Add>
__device__ __forceinline__ void multiply_panels(const A& a, std::uint32_t b, int part_bytes, int panel_bytes,
                                                const Add& add) {
  using B = SharedOperand<Contiguous::other>;
  constexpr int kSteps = kTerms / 16;
  float x[32], y[32];
  if constexpr (kPanels == 1) {
    static_assert(kTerms == 128);
    const B b0(b, part_bytes, panel_bytes);
    begin_products();
    if constexpr (kParts == 2) multiply_seconds<64, kSteps>(x, a, b0);
    end_products();
    begin_products();
    multiply_firsts<64, 64>(y, a, b0, false);
    end_products();
    if constexpr (kParts == 2) {
      wait_for_products<1>();
      scale_seconds(x);
    }
    begin_products();
    multiply_firsts<64, 0>(x, a, b0, kParts == 2);
    end_products();
    wait_for_products<0>();
#pragma unroll
    for (int i = 0; i < 32; ++i) add(0, i, x[i] + y[i]);
  } else {
    static_assert(kPanels % 2 == 0 && kTerms <= 64);
#pragma unroll
    for (int panel = 0; panel < kPanels; panel += 2) {
      const B b0(b + panel * panel_bytes, part_bytes, panel_bytes);
      const B b1(b + (panel + 1) * panel_bytes, part_bytes, panel_bytes);
      if constexpr (kParts == 2) {
        begin_products();
        multiply_seconds<64, kSteps>(x, a, b0);
        end_products();
        begin_products();
        multiply_seconds<64, kSteps>(y, a, b1);
        end_products();
        wait_for_products<1>();
        scale_seconds(x);
      }
      begin_products();
      multiply_firsts<64, 0, kSteps>(x, a, b0, kParts == 2);
      end_products();
      if constexpr (kParts == 2) {
        wait_for_products<1>();
        scale_seconds(y);
      }
      begin_products();
      multiply_firsts<64, 0, kSteps>(y, a, b1, kParts == 2);
      end_products();
      wait_for_products<1>();
#pragma unroll
      for (int i = 0; i < 32; ++i) add(panel, i, x[i]);
      wait_for_products<0>();
#pragma unroll
      for (int i = 0; i < 32; ++i) add(panel + 1, i, y[i]);
    }
  }
}

// sum = a b over 128 elements, two panels of each, in two sums of 64. No products are pending after it.
template <int kParts, int kColumns, bool kExchanged>
__device__ __forceinline__ void multiply_two_panels(float (&sum)[kColumns / 2], const SharedOperand<Contiguous::k>& a,
                                                    const SharedOperand<Contiguous::k>& b) {
  float others[kColumns / 2];
  if constexpr (kParts == 2) {
    begin_products();
    multiply_seconds<kColumns, 8, kExchanged>(sum, a, b);
    end_products();
  }
  begin_products();
  multiply_firsts<kColumns, 64>(others, a, b, false);
  end_products();
  if constexpr (kParts == 2) {
    wait_for_products<1>();
    scale_seconds(sum);
  }
  begin_products();
  multiply_firsts<kColumns, 0>(sum, a, b, kParts == 2);
  end_products();
  wait_for_products<0>();
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) sum[i] += others[i];
}

// Starts a copy of a panel, or of several that follow one another. The barrier must expect its bytes.
__device__ __forceinline__ void copy_parts(std::uint32_t to, const void* from, int bytes, SharedBarrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier.state))
               : "memory");
}

// Writes a thread's columns of one of its two rows of sums in panels of 64 columns, times a factor.
template <int kPanels>
__device__ __forceinline__ void write_pairs(float* row, const float (&sums)[kPanels * 32], int half, float factor,
                                            int width) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int j = 0; j < kPanels * 8; ++j) {
    if (8 * j + column < width) {
      *reinterpret_cast<float2*>(row + 8 * j + column) = {sums[4 * j + 2 * half] * factor,
                                                          sums[4 * j + 2 * half + 1] * factor};
    }
  }
}

}  // namespace ridgepoint::cuda
