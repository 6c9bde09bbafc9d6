// Products of the rows of each expert with its matrix, and the sums over the rows of each expert, in bf16 or fp16 on
// Hopper; grouped_matmul.cu has the other GPUs and dtypes.
//
//   load warp      a b of step 0 | 1 | 2 | 3 | ...      copy engine -> shared memory, four stages
//   warpgroup 0    sums += a b of its 64 rows           tensor cores; a step's are under way while the next one's begin
//   warpgroup 1    the same for the other 64
//
// `written` barriers count the copies of a stage, `free` barriers the warps that have read it. The host does not know
// how many rows an expert has: it launches a block for every tile that there could be, and each finds its expert. A
// tile of rows reaches past its expert's last one, into rows whose results nobody writes; in sums over rows these are
// cleared in shared memory.
// Every element of the result is one sum in the order of the inner index, so results are bit for bit reproducible.
// grid (kRowsOfBand, tiles of columns, bands of rows x experts for weights), block (384), shared memory kSharedBytes
#include "backends/cuda/device/tensor_copy.cuh"
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/device/warpgroup_rows.cuh"
#include "backends/cuda/kernels/experts/parameters.h"

namespace ridgepoint::cuda {
namespace {

using Tiling = HopperGroupedTiling;
constexpr int kPanelBytes = Tiling::kInner * kLineBytes;  // 64 columns, a line for each index of the sum
constexpr int kReaders = Tiling::kGroups * kWarpgroupThreads;
constexpr int kWarpsOfReaders = kReaders / kWarpLanes;

struct Barriers {
  SharedBarrier written[Tiling::kStages], free[Tiling::kStages];
};

struct SharedTiles {
  std::uint32_t first;
  __device__ __forceinline__ std::uint32_t a(int stage) const { return first + stage * Tiling::kABytes; }
  __device__ __forceinline__ std::uint32_t b(int stage) const {
    return first + Tiling::kStages * Tiling::kABytes + stage * Tiling::kBBytes;
  }
};

// Of one block. `row` is the first one of the tile in its expert's result, which has `rows`.
struct Tile {
  int expert;
  int begin;  // the expert's first row of a
  int row, rows;
  int column;
  int inner;            // the number of products of a sum
  long long first_row;  // of the expert's result, in c
};

__device__ __forceinline__ int offset_of(const GroupedMatmul& p, int expert) {
  const long long offset = p.offsets[expert];
  return static_cast<int>(offset < 0 ? 0 : offset > p.rows ? p.rows : offset);
}

// By whole warps. The tile of rows number `number`, counted over the experts; without one, `number` becomes its number
// after the last expert's.
__device__ __forceinline__ bool find_rows(const GroupedMatmul& p, int& number, Tile& tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll 1
  for (int first = 0; first < p.experts; first += kWarpLanes) {
    const int expert = first + lane;
    const int begin = expert < p.experts ? offset_of(p, expert) : 0;
    const int count = expert < p.experts ? max(offset_of(p, expert + 1) - begin, 0) : 0;
    const int tiles = (count + Tiling::kRows - 1) / Tiling::kRows;
    int end = tiles;  // of the tiles up to this expert's, after the scan
#pragma unroll
    for (int apart = 1; apart < kWarpLanes; apart *= 2) {
      const int other = __shfl_up_sync(kAllLanes, end, apart);
      if (lane >= apart) end += other;
    }
    const unsigned holds = __ballot_sync(kAllLanes, number < end);
    if (holds != 0) {
      const int at = __ffs(static_cast<int>(holds)) - 1;
      tile.expert = first + at;
      tile.begin = __shfl_sync(kAllLanes, begin, at);
      tile.rows = __shfl_sync(kAllLanes, count, at);
      tile.row = (number - __shfl_sync(kAllLanes, end - tiles, at)) * Tiling::kRows;
      return true;
    }
    number -= __shfl_sync(kAllLanes, end, kWarpLanes - 1);
  }
  return false;
}

// The rows after the last expert's are 0: blocks without a tile clear them.
template <class Element>
__device__ __forceinline__ void clear_rows(const GroupedMatmul& p, int number) {
  constexpr int kVectors = Tiling::kColumns / 8;
  const int first = offset_of(p, p.experts) + number * Tiling::kRows;
  const int column = static_cast<int>(blockIdx.y) * Tiling::kColumns;
  for (int i = static_cast<int>(threadIdx.x); i < Tiling::kRows * kVectors; i += Tiling::kThreads) {
    const int row = first + i / kVectors;
    const int at = column + i % kVectors * 8;
    if (row >= p.rows || at >= p.columns) continue;
    *reinterpret_cast<uint4*>(static_cast<Element*>(p.c) + static_cast<long long>(row) * p.columns + at) = {0, 0, 0, 0};
  }
}

// The tile of this block; false if it has none.
template <class Element, GroupedForm kForm>
__device__ __forceinline__ bool find_tile(const GroupedMatmul& p, Tile& tile) {
  tile.column = static_cast<int>(blockIdx.y) * Tiling::kColumns;
  if constexpr (kForm == GroupedForm::weights) {
    const int bands = static_cast<int>(gridDim.z) / p.experts;
    tile.expert = static_cast<int>(blockIdx.z) / bands;
    const int band = static_cast<int>(blockIdx.z) - tile.expert * bands;
    tile.begin = offset_of(p, tile.expert);
    tile.inner = max(offset_of(p, tile.expert + 1) - tile.begin, 0);
    tile.row = (band * Tiling::kRowsOfBand + static_cast<int>(blockIdx.x)) * Tiling::kRows;
    tile.rows = p.inner;
    tile.first_row = static_cast<long long>(tile.expert) * p.inner;
    return tile.row < p.inner;
  } else {
    int number = static_cast<int>(blockIdx.z) * Tiling::kRowsOfBand + static_cast<int>(blockIdx.x);
    if (!find_rows(p, number, tile)) {
      clear_rows<Element>(p, number);
      return false;
    }
    tile.inner = p.inner;
    tile.first_row = tile.begin;
    return true;
  }
}

// One thread copies all stages.
template <GroupedForm kForm>
__device__ void load(const HopperGroupedMatmul& p, const Tile& tile, const SharedTiles& tiles, Barriers& barriers) {
#pragma unroll 1
  for (int inner = 0, step = 0; inner < tile.inner; inner += Tiling::kInner, ++step) {
    const int stage = step % Tiling::kStages;
    const unsigned parity = static_cast<unsigned>(step / Tiling::kStages) & 1;
    SharedBarrier& written = barriers.written[stage];
    barriers.free[stage].wait(parity ^ 1);
    arrive_and_expect(written, Tiling::kABytes + Tiling::kBBytes);
    if constexpr (kForm == GroupedForm::weights) {
      for (int panel = 0; panel < Tiling::kRows / kLineElements; ++panel) {
        copy_box(tiles.a(stage) + panel * kPanelBytes, p.a, written, tile.row + panel * kLineElements,
                 tile.begin + inner, 0, 0);
      }
    } else {
      copy_box(tiles.a(stage), p.a, written, inner, tile.begin + tile.row, 0, 0);
    }
    if constexpr (kForm == GroupedForm::transposed) {
      copy_box(tiles.b(stage), p.b, written, inner, tile.column, tile.expert, 0);
    } else {
      const bool sums_rows = kForm == GroupedForm::weights;
      for (int panel = 0; panel < Tiling::kColumns / kLineElements; ++panel) {
        copy_box(tiles.b(stage) + panel * kPanelBytes, p.b, written, tile.column + panel * kLineElements,
                 inner + (sums_rows ? tile.begin : 0), sums_rows ? 0 : tile.expert, 0);
      }
    }
  }
}

// By both warpgroups: lines from `lines` on of the panels of a and b become 0, which the copy engine filled with rows
// of the next expert.
__device__ __forceinline__ void clear_lines(const SharedTiles& tiles, int stage, int lines) {
  constexpr int kPanelsOfA = Tiling::kRows / kLineElements;
  constexpr int kPanels = kPanelsOfA + Tiling::kColumns / kLineElements;
  const int chunks = (Tiling::kInner - lines) * (kLineBytes / kVectorBytes);
  for (int panel = 0; panel < kPanels; ++panel) {
    const std::uint32_t first = (panel < kPanelsOfA ? tiles.a(stage) + panel * kPanelBytes
                                                    : tiles.b(stage) + (panel - kPanelsOfA) * kPanelBytes) +
                                lines * kLineBytes;
    for (int chunk = static_cast<int>(threadIdx.x); chunk < chunks; chunk += kReaders) {
      asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(first + chunk * kVectorBytes), "r"(0) : "memory");
    }
  }
  publish_to_tensor_cores();
  meet(1, kReaders);
}

// A warpgroup with 64 rows of the tile.
template <class Element, GroupedForm kForm>
__device__ __forceinline__ void multiply(const HopperGroupedMatmul& p, const Tile& tile, const SharedTiles& tiles,
                                         Barriers& barriers, int group) {
  using Product = WarpgroupProduct<Element, Tiling::kColumns>;
  constexpr Contiguous kA = kForm == GroupedForm::weights ? Contiguous::other : Contiguous::k;
  constexpr Contiguous kB = kForm == GroupedForm::transposed ? Contiguous::k : Contiguous::other;
  const bool releases = threadIdx.x % kWarpLanes == 0;
  float sums[Tiling::kColumns / 2];
#pragma unroll
  for (float& sum : sums) sum = 0;
  int previous = -1;
#pragma unroll 1
  for (int inner = 0, step = 0; inner < tile.inner; inner += Tiling::kInner, ++step) {
    const int stage = step % Tiling::kStages;
    barriers.written[stage].wait(static_cast<unsigned>(step / Tiling::kStages) & 1);
    if constexpr (kForm == GroupedForm::weights) {
      if (tile.inner - inner < Tiling::kInner) clear_lines(tiles, stage, tile.inner - inner);
    }
    // Both forms of a have 64 rows, or 64 lines of k, in the same number of bytes.
    const std::uint64_t a = tile_descriptor(tiles.a(stage) + group * kPanelBytes, 0);
    const std::uint64_t b = tile_descriptor(tiles.b(stage), kB == Contiguous::k ? 0 : kPanelBytes);
    begin_products();
#pragma unroll
    for (int k = 0; k < Tiling::kInner / 16; ++k) {
      Product::template add<kA, kB>(sums, a + k * kDescriptorStep<kA == Contiguous::k>,
                                    b + k * kDescriptorStep<kB == Contiguous::k>, true);
    }
    end_products();
    wait_for_products<1>();
    if (previous >= 0 && releases) barriers.free[previous].arrive();
    previous = stage;
  }
  wait_for_products<0>();
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  auto* columns = static_cast<Element*>(p.rest.c) + tile.column;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = tile.row + group * 64 + thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    const int width = row < tile.rows ? p.rest.columns - tile.column : 0;
    write_row<Tiling::kColumns>(columns + (tile.first_row + row) * p.rest.columns, sums, 1, half, width);
  }
}

template <class Element, GroupedForm kForm>
__device__ __forceinline__ void multiply_groups(const HopperGroupedMatmul& p) {
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  Tile tile;
  if (!find_tile<Element, kForm>(p.rest, tile)) return;
  const SharedTiles tiles{(shared_address(shared) + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Tiling::kStages; ++stage) {
      barriers.written[stage].initialise(1);
      barriers.free[stage].initialise(kWarpsOfReaders);
    }
    publish_barriers();
  }
  __syncthreads();
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (group == Tiling::kGroups) {
    release_registers<40>();
    if (threadIdx.x % kWarpgroupThreads == 0) load<kForm>(p, tile, tiles, barriers);
  } else {
    acquire_registers<232>();
    multiply<Element, kForm>(p, tile, tiles, barriers, group);
  }
}

}  // namespace

#define RIDGEPOINT_GROUPED_MATMUL(name, type, form)                           \
  extern "C" __global__ void __launch_bounds__(HopperGroupedTiling::kThreads) \
      name(const __grid_constant__ HopperGroupedMatmul p) {                   \
    multiply_groups<type, GroupedForm::form>(p);                              \
  }

RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_forward_hopper_plain_bf16, __nv_bfloat16, plain)
RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_forward_hopper_transposed_bf16, __nv_bfloat16, transposed)
RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_weights_forward_hopper_bf16, __nv_bfloat16, weights)
RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_forward_hopper_plain_fp16, __half, plain)
RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_forward_hopper_transposed_fp16, __half, transposed)
RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_weights_forward_hopper_fp16, __half, weights)

}  // namespace ridgepoint::cuda
