// Matrix products of bf16 or fp16 operands on Hopper, with fp32 sums; results in the operands' type or in fp32.
//
//   load warp      a b of step 0 | 1 | 2 | ...              copy engine -> shared memory, as many stages as fit
//   warpgroup 0    sums += a b of half of the tile's rows   tensor cores; a step's products run while the next begin
//   warpgroup 1    the same for the other half
//                  after the last step: sums -> shared memory, panel by panel -> copy engine -> c
//
// or the warpgroups take turns, so that one writes its tile while the other multiplies:
//
//   warpgroup 0    tile 0: sums += a b | sums -> c          | tile 2: sums += a b | ...
//   warpgroup 1                        | tile 1: sums += a b | sums -> c           | ...
//
// `written` barriers count the bytes of a stage, `free` barriers the warps that have read it. A block stays and
// computes tile after tile (persistent): the loads of the next tile run beside the last products and the writing of
// this one. Blocks of a cluster compute tiles side by side. Those with the same rows read the same part of a, those
// with the same columns the same part of b: each loads a piece of it into the shared memory of all of them (multicast).
// If several clusters share the steps of a tile (split-K), the one with the first step adds the partial sums of the
// others in the order of k, so results are bit for bit reproducible. It waits for them, so such a launch is
// cooperative. grid (blocks), one on each multiprocessor; block (LowMatmulTiling::kThreads)
#pragma once

#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/tensor_store.cuh"
#include "backends/cuda/device/warp_mma.cuh"
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/products/low_matmul/parameters.h"
#include "backends/cuda/products/low_matmul/segments.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kStepK = LowMatmulTiling::kStepK;
constexpr int kGroups = LowMatmulTiling::kGroups;
constexpr int kMostStages = 8;
constexpr int kPanelBytes = kStepK * kLineBytes;  // 64 lines

template <class ElementType, class ResultType, bool kGroupsByTurns, int kTileRows, int kTileColumns, int kRowsOfCluster,
          int kColumnsOfCluster, Contiguous kContiguousOfA, Contiguous kContiguousOfB, int kPartsOfTile = 1,
          int kBuffersOfGroup = 2, int kRowsOfBand = 8, int kReservedBytes = 0>
struct Tiling {
  using Element = ElementType;
  using Result = ResultType;
  static constexpr bool kByTurns = kGroupsByTurns;  // warpgroups have tiles of their own
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = kTileColumns;
  static constexpr int kClusterRows = kRowsOfCluster;  // tiles of a cluster, one above another
  static constexpr int kClusterColumns = kColumnsOfCluster;
  static constexpr int kClusterBlocks = kClusterRows * kClusterColumns;
  static constexpr Contiguous kA = kContiguousOfA;
  static constexpr Contiguous kB = kContiguousOfB;
  static constexpr bool kBInner = kB == Contiguous::k;
  static constexpr int kParts =
      kPartsOfTile;  // of b's columns, LowMatmul::part_columns apart, in equal parts of a tile
  static constexpr int kBuffers = kBuffersOfGroup;  // panels of results of a warpgroup
  static constexpr int kBandRows = kRowsOfBand;     // Position

  static constexpr int kGroupsOfTile = kByTurns ? 1 : kGroups;
  static constexpr int kRowsOfGroup = kRows / kGroupsOfTile;
  static constexpr int kChains = kRowsOfGroup / 64;  // products of 64 rows that use the same part of b
  static constexpr int kSums = kColumns / 2;         // of a chain, in one thread
  static constexpr int kABytes = LowMatmulTiling::a_bytes(kRows);
  static constexpr int kBBytes = LowMatmulTiling::b_bytes(kColumns, kBInner);
  static constexpr int kReserved = kReservedBytes;  // of shared memory, for what runs beside
  static constexpr int kStages = LowMatmulTiling::stages(kRows, kColumns, kBInner, sizeof(Result), kBuffers, kReserved);

  static constexpr int kLine = LowMatmulTiling::line_bytes(kColumns, sizeof(Result));  // of a panel of results
  static constexpr int kResultPanelBytes = LowMatmulTiling::panel_bytes(kColumns, sizeof(Result));
  static constexpr int kPanelColumns = kLine / static_cast<int>(sizeof(Result));
  static constexpr int kPanels = kColumns / kPanelColumns;
};

struct Barriers {
  SharedBarrier written[kMostStages], free[kMostStages];
  SharedBarrier turn[kGroups];  // of the warpgroup to multiply, where they take turns
};

// The current stage of the ring and the parity of its phase.
template <int kStages>
struct Ring {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void advance(int steps) {
    const int at = stage + steps;
    parity ^= static_cast<unsigned>(at / kStages) & 1;
    stage = at % kStages;
  }
};

template <class T>
struct SharedTiles {
  std::uint32_t first;
  __device__ __forceinline__ std::uint32_t a(int stage) const { return first + stage * T::kABytes; }
  __device__ __forceinline__ std::uint32_t b(int stage) const {
    return first + T::kStages * T::kABytes + stage * T::kBBytes;
  }
  __device__ __forceinline__ std::uint32_t result(int group, int buffer) const {
    return first + T::kStages * (T::kABytes + T::kBBytes) + (T::kBuffers * group + buffer) * T::kResultPanelBytes;
  }
  __device__ __forceinline__ std::uint32_t reserved() const { return result(kGroups, 0); }
};

// This block's piece of an operand's tile, of kPieces that the blocks in `ranks` load for one another.
template <int kLines, int kPieces, Contiguous kContiguous, int kParts>
__device__ __forceinline__ void load_piece(const TensorMap& map, std::uint32_t tile, SharedBarrier& written, int piece,
                                           unsigned ranks, int other, int apart, int k, int matrix) {
  const auto copy = [&](std::uint32_t to, int inner, int outer) {
    if constexpr (kPieces > 1) {
      copy_box_to(ranks, to, map, written, inner, outer, matrix, 0);
    } else {
      copy_box(to, map, written, inner, outer, matrix, 0);
    }
  };
  if constexpr (kContiguous == Contiguous::k) {
    constexpr int kBoxes = kPieces > kParts ? kPieces : kParts;
    constexpr int kBoxLines = kLines / kBoxes;
    constexpr int kBoxesOfPart = kBoxes / kParts;
#pragma unroll
    for (int i = 0; i < kBoxes / kPieces; ++i) {
      const int box = piece * (kBoxes / kPieces) + i;
      copy(tile + box * kBoxLines * kLineBytes, k, other + box / kBoxesOfPart * apart + box % kBoxesOfPart * kBoxLines);
    }
  } else {
    static_assert(kParts == 1);
    constexpr int kPieceLines = kStepK / kPieces;
#pragma unroll
    for (int panel = 0; panel < (kLines + 63) / 64; ++panel) {
      copy(tile + panel * kPanelBytes + piece * kPieceLines * kLineBytes, other + panel * 64, k + piece * kPieceLines);
    }
  }
}

// By one thread.
template <class T>
__device__ void load(const LowMatmul& p, const SharedTiles<T>& tiles, Barriers& barriers, int cluster, int clusters,
                     int rank) {
  constexpr unsigned kAllRows = (1U << T::kClusterRows) - 1;
  const int in_rows = rank % T::kClusterRows;
  const int in_columns = rank / T::kClusterRows;
  const unsigned ranks_of_b = kAllRows << (in_columns * T::kClusterRows);
  unsigned ranks_of_a = 0;
  for (int i = 0; i < T::kClusterColumns; ++i) ranks_of_a |= 1U << (in_rows + i * T::kClusterRows);

  Segments segments(p, cluster, clusters);
  Segment segment;
  Ring<T::kStages> ring;
  while (segments.next(segment)) {
    const Position at = Position::of<T>(p, segment.tile, rank);
#pragma unroll 1
    for (int step = segment.begin; step < segment.end; ++step) {
      barriers.free[ring.stage].wait(ring.parity ^ 1);
      SharedBarrier& written = barriers.written[ring.stage];
      arrive_and_expect(written, T::kABytes + T::kBBytes);
      load_piece<T::kRows, T::kClusterColumns, T::kA, 1>(p.a, tiles.a(ring.stage), written, in_columns, ranks_of_a,
                                                         at.row, 0, step * kStepK, at.matrix);
      load_piece<T::kColumns, T::kClusterRows, T::kB, T::kParts>(p.b, tiles.b(ring.stage), written, in_rows, ranks_of_b,
                                                                 at.column, p.part_columns, step * kStepK, at.matrix);
      ring.advance();
    }
  }
}

// The blocks that load for this one learn that a warp has read a stage.
template <class T>
__device__ __forceinline__ void release(SharedBarrier& free, int rank) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  if constexpr (T::kClusterBlocks == 1) {
    if (lane == 0) free.arrive();
  } else {
    if (lane >= T::kClusterRows + T::kClusterColumns - 1) return;
    const int in_rows = rank % T::kClusterRows;
    const int in_columns = rank / T::kClusterRows;
    if (lane < T::kClusterRows) {
      arrive_at(free, in_columns * T::kClusterRows + lane);
    } else {
      const int other = lane - T::kClusterRows;
      arrive_at(free, (other < in_columns ? other : other + 1) * T::kClusterRows + in_rows);
    }
  }
}

template <class T>
__device__ __forceinline__ float4* partial_sums(const LowMatmul& p, int block, int group, int thread) {
  return reinterpret_cast<float4*>(p.partial_sums) +
         static_cast<long long>(block * T::kGroupsOfTile + group) * (T::kChains * T::kSums / 4) * kWarpgroupThreads +
         thread;
}

template <class T>
__device__ void store_partial_sums(const LowMatmul& p, int block, int part, int group, int thread,
                                   const float (&sums)[T::kChains][T::kSums]) {
  float4* to = partial_sums<T>(p, block, part, thread);
#pragma unroll
  for (int chain = 0; chain < T::kChains; ++chain) {
#pragma unroll
    for (int i = 0; i < T::kSums; i += 4) {
      __stcg(to + (chain * T::kSums + i) / 4 * kWarpgroupThreads,
             float4{sums[chain][i], sums[chain][i + 1], sums[chain][i + 2], sums[chain][i + 3]});
    }
  }
  __threadfence();
  meet(1 + group, kWarpgroupThreads);
  if (thread == 0) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p.is_written + 2 * block + part), "r"(1) : "memory");
  }
}

// Adds the partial sums that the following clusters have of the tile; `end` is the end of this one's steps.
template <class T>
__device__ void add_partial_sums(const LowMatmul& p, int cluster, int clusters, int rank, int end, int part, int group,
                                 int thread, float (&sums)[T::kChains][T::kSums]) {
  const int tile_end = Segments::first_shared(p, cluster + 1, clusters) - end + p.steps;
  int past = cluster + 2;
  while (past < clusters && Segments::first_shared(p, past, clusters) < tile_end) ++past;
  for (int other = cluster + 1 + thread; other < past; other += kWarpgroupThreads) {
    unsigned* flag = p.is_written + 2 * (other * T::kClusterBlocks + rank) + part;
    unsigned written = 0;
    while (written == 0) {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(written) : "l"(flag) : "memory");
    }
    *flag = 0;
  }
  meet(1 + group, kWarpgroupThreads);
#pragma unroll 1
  for (int other = cluster + 1; other < past; ++other) {
    const float4* from = partial_sums<T>(p, other * T::kClusterBlocks + rank, part, thread);
#pragma unroll
    for (int chain = 0; chain < T::kChains; ++chain) {
#pragma unroll
      for (int i = 0; i < T::kSums; i += 4) {
        const float4 value = __ldcg(from + (chain * T::kSums + i) / 4 * kWarpgroupThreads);
        sums[chain][i] += value.x;
        sums[chain][i + 1] += value.y;
        sums[chain][i + 2] += value.z;
        sums[chain][i + 3] += value.w;
      }
    }
  }
}

// Adds the addend's elements of one chain; `row` and `column` are those of the thread's first sum.
template <class T>
__device__ void add_addend(const LowMatmul& p, int row, int column, int matrix, float (&sums)[T::kSums]) {
  using Pair = Packet<typename T::Result, 2>;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= p.m) continue;
    const auto* from = static_cast<const typename T::Result*>(p.addend) + matrix * p.batch_stride +
                       (row + 8 * half) * p.leading + column;
#pragma unroll
    for (int j = 0; j < T::kColumns / 8; ++j) {
      if (column + 8 * j >= p.n) break;
      const Pair pair = *reinterpret_cast<const Pair*>(from + 8 * j);
      sums[4 * j + 2 * half] += static_cast<float>(pair.values[0]);
      sums[4 * j + 2 * half + 1] += static_cast<float>(pair.values[1]);
    }
  }
}

// The place of a byte of a panel: lines of kLine bytes, 16-byte chunks swizzled as the copy engine reads them.
template <int kLine>
__device__ __forceinline__ std::uint32_t in_panel(int line, int byte) {
  const int offset = line * kLine + byte;
  return offset ^ (((offset >> 7) & (kLine / 16 - 1)) << 4);
}

// Writes the columns from `column` on of a chain's sums to a panel in shared memory.
template <class T>
__device__ __forceinline__ void write_panel(std::uint32_t panel, const float (&sums)[T::kSums], int column,
                                            int thread) {
  const int warp_row = thread / 32 * 16;
  const int lane = thread % 32;
  if constexpr (sizeof(typename T::Result) == 2) {
    const int line = warp_row + lane % 16;
#pragma unroll
    for (int j = 0; j < T::kPanelColumns / 8; j += 2) {
      const int at = 4 * (column / 8 + j);
      const unsigned packed[4] = {
          pack<typename T::Result>(sums[at], sums[at + 1]), pack<typename T::Result>(sums[at + 2], sums[at + 3]),
          pack<typename T::Result>(sums[at + 4], sums[at + 5]), pack<typename T::Result>(sums[at + 6], sums[at + 7])};
      store_matrices(panel + in_panel<T::kLine>(line, (j + lane / 16) * 16), packed);
    }
  } else {
    // Odd rows write other columns at the same time, where the banks are free.
    constexpr int kBlocks = T::kPanelColumns / 8;
    const int line = warp_row + lane / 4;
    const bool is_odd = kBlocks == 4 && line % 2 != 0;
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      const int at = 4 * (column / 8 + j);
      const int at_odd = kBlocks == 4 ? 4 * (column / 8 + (j ^ 2)) : at;
      const int byte = (is_odd ? j ^ 2 : j) * 32 + lane % 4 * 8;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x = is_odd ? sums[at_odd + 2 * half] : sums[at + 2 * half];
        const float y = is_odd ? sums[at_odd + 2 * half + 1] : sums[at + 2 * half + 1];
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(panel + in_panel<T::kLine>(line + 8 * half, byte)),
                     "f"(x), "f"(y)
                     : "memory");
      }
    }
  }
}

// The epilogue of a tile: c = sums + addend. Other classes of this form are other epilogues.
template <class T>
struct WriteResult {
  const LowMatmul& p;
  int buffer = 0;

  // By one thread, before any tile.
  __device__ __forceinline__ void prepare() { prefetch(p.c); }

  // May have beside(tiles, warp): by warps 1 to 3 of the warpgroup that loads, while the others multiply, with
  // kLoadRegisters.

  // By the warpgroup `group`, with part `part` of the rows of the tile.
  __device__ __forceinline__ void operator()(const SharedTiles<T>& tiles, const Position& at,
                                             float (&sums)[T::kChains][T::kSums], int part, int group, int thread) {
#pragma unroll
    for (int chain = 0; chain < T::kChains; ++chain) {
      const int row = at.row + part * T::kRowsOfGroup + chain * 64;
      if (p.addend != nullptr) {
        add_addend<T>(p, row + thread / 32 * 16 + thread % 32 / 4, at.column + thread % 4 * 2, at.matrix, sums[chain]);
      }
#pragma unroll
      for (int panel = 0; panel < T::kPanels; ++panel) {
        const std::uint32_t to = tiles.result(group, buffer);
        buffer ^= 1;
        if (thread == 0) wait_for_stores<1>();
        meet(1 + group, kWarpgroupThreads);
        write_panel<T>(to, sums[chain], panel * T::kPanelColumns, thread);
        publish_to_tensor_cores();
        meet(1 + group, kWarpgroupThreads);
        if (thread == 0) {
          store_box(p.c, to, at.column + panel * T::kPanelColumns, row, at.matrix, 0);
          end_stores();
        }
      }
    }
  }
};

// A warpgroup with its rows of the tiles.
template <class T, class Epilogue>
__device__ __forceinline__ void multiply(const LowMatmul& p, Epilogue& epilogue, const SharedTiles<T>& tiles,
                                         Barriers& barriers, int cluster, int clusters, int rank, int group) {
  using Product = WarpgroupProduct<typename T::Element, T::kColumns>;
  constexpr int kStepA = kDescriptorStep<T::kA == Contiguous::k>;
  constexpr int kStepB = kDescriptorStep<T::kBInner>;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  Segments segments(p, cluster, clusters);
  Segment segment;
  Ring<T::kStages> ring;
  const int part = T::kByTurns ? 0 : group;
  unsigned turns = 0;
  for (; segments.next(segment); ++turns) {
    if constexpr (T::kByTurns) {
      if (turns % 2 != static_cast<unsigned>(group)) {
        ring.advance(segment.end - segment.begin);
        continue;
      }
      // A barrier's phases have parities only, so a warpgroup must not wait for a stage that is two phases ahead.
      barriers.turn[group].wait((turns / 2 + 1 + static_cast<unsigned>(group)) % 2);
    }
    float sums[T::kChains][T::kSums];
    int previous = -1;
#pragma unroll 1
    for (int step = segment.begin; step < segment.end; ++step) {
      barriers.written[ring.stage].wait(ring.parity);
      // Both forms of a have 64 rows, or 64 lines of k, in the same number of bytes.
      const std::uint64_t a = tile_descriptor(tiles.a(ring.stage) + part * T::kChains * kPanelBytes, 0);
      const std::uint64_t b = tile_descriptor(tiles.b(ring.stage), T::kBInner ? 0 : kPanelBytes);
      begin_products();
#pragma unroll
      for (int k = 0; k < kStepK / 16; ++k) {
#pragma unroll
        for (int chain = 0; chain < T::kChains; ++chain) {
          Product::template add<T::kA, T::kB>(sums[chain], a + chain * (kPanelBytes >> 4) + k * kStepA, b + k * kStepB,
                                              k > 0 || step > segment.begin);
        }
      }
      end_products();
      wait_for_products<1>();
      if (previous >= 0) release<T>(barriers.free[previous], rank);
      previous = ring.stage;
      ring.advance();
    }
    if (T::kByTurns && threadIdx.x % kWarpLanes == 0) barriers.turn[1 - group].arrive();
    wait_for_products<0>();
    release<T>(barriers.free[previous], rank);
    if (segment.begin > 0) {
      store_partial_sums<T>(p, cluster * T::kClusterBlocks + rank, part, group, thread, sums);
      continue;
    }
    if (segment.end < p.steps) {
      add_partial_sums<T>(p, cluster, clusters, rank, segment.end, part, group, thread, sums);
    }
    epilogue(tiles, Position::of<T>(p, segment.tile, rank), sums, part, group, thread);
  }
  if (thread == 0) wait_for_stores<0>();
}

template <class T, class Epilogue>
__device__ __forceinline__ void run(const LowMatmul& p, Epilogue epilogue) {
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  constexpr int kAlignment = LowMatmulTiling::kAlignmentBytes;
  const SharedTiles<T> tiles{(shared_address(shared) + kAlignment - 1) / kAlignment * kAlignment};
  if (threadIdx.x == 0) {
    prefetch(p.a);
    prefetch(p.b);
    epilogue.prepare();
    constexpr int kReaders =
        T::kGroupsOfTile * (kWarpgroupThreads / kWarpLanes) * (T::kClusterRows + T::kClusterColumns - 1);
    for (int stage = 0; stage < T::kStages; ++stage) {
      barriers.written[stage].initialise(1);
      barriers.free[stage].initialise(kReaders);
    }
    for (SharedBarrier& turn : barriers.turn) turn.initialise(kWarpgroupThreads / kWarpLanes);
    publish_barriers();
  }
  if constexpr (T::kClusterBlocks > 1) {
    meet_cluster();
  } else {
    __syncthreads();
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int rank = T::kClusterBlocks == 1 ? 0 : rank_in_cluster();
  const int cluster = static_cast<int>(blockIdx.x) / T::kClusterBlocks;
  const int clusters = static_cast<int>(gridDim.x) / T::kClusterBlocks;
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  // Of 504 for a thread of each warpgroup.
  constexpr int kLoadRegisters = [] {
    if constexpr (requires { Epilogue::kLoadRegisters; }) {
      return Epilogue::kLoadRegisters;
    } else {
      return 40;
    }
  }();
  if (group == kGroups) {
    release_registers<kLoadRegisters>();
    if (threadIdx.x % kWarpgroupThreads == 0) load<T>(p, tiles, barriers, cluster, clusters, rank);
    if constexpr (requires { epilogue.beside(tiles, 0); }) {
      const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpLanes, 0);
      if (warp > 0) epilogue.beside(tiles, warp - 1);
    }
  } else {
    acquire_registers<(504 - kLoadRegisters) / 2>();
    multiply<T>(p, epilogue, tiles, barriers, cluster, clusters, rank, group);
  }
  // The shared memory of a block must remain until the others have arrived at its barriers.
  if constexpr (T::kClusterBlocks > 1) {
    __syncwarp();
    meet_cluster();
  }
}

}  // namespace

}  // namespace ridgepoint::cuda
