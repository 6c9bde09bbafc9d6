// Matrix products of fp32 operands on tensor cores with the accuracy of fp32 (docs/decisions/0008). Every element is
// the exact sum of three bf16 numbers, its parts x = x0 + x1 + x2, with 8 bits of mantissa each. Of the nine products
// between the parts of two elements the six largest are summed; the omitted ones are below 2^-22 of the product,
// usually 2^-25. Tensor cores truncate their sums and do not round: so they sum one step of K at a time, smallest
// products first, and steps are added in rounded fp32.
// grid (blocks), one block on each multiprocessor; shared memory for the stages, and 1024 bytes to align them; block
// (128 x kTileM / 64 + 256): warpgroups that multiply, and two that read the operands, split b's elements and write the
// parts to shared memory.
// If several blocks share the steps of a tile (split-K), the block with the first step adds the partial sums of the
// others in the order of K, so results are bit for bit reproducible. It waits for them, so the launch is cooperative:
// all blocks run at the same time. Infinities and NaN have no such parts: a step that contains one is multiplied
// element by element. Elements below 2^-110 lose their last bits, because bf16 has no number below 2^-133.
#include "backends/cuda/device/bf16_parts.cuh"
#include "backends/cuda/device/hopper.cuh"
#include "backends/cuda/products/split_matmul/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kReaderThreads = SplitMatmul::kReaderThreads;
constexpr int kReaderWarps = kReaderThreads / 32;
constexpr int kStepK = SplitMatmul::kStepK;
constexpr int kMostStages = 3;
constexpr int kGroupedRows = 8;  // tiles of c are numbered in groups of 8 rows, so that operands stay in the cache

template <int kTileMRows, int kTileNColumns, bool kARows, bool kBColumns>
struct Tiling {
  static constexpr int kTileM = kTileMRows;
  static constexpr int kTileN = kTileNColumns;
  static constexpr bool kAInner = kARows;     // a's rows are contiguous, otherwise its columns
  static constexpr bool kBInner = kBColumns;  // b's columns are contiguous, otherwise its rows
  static constexpr int kMultipliers = kTileM / 64;
  static constexpr int kThreads = kMultipliers * kWarpgroupThreads + kReaderThreads;
  static constexpr int kPartB = kTileN * kLineBytes;
  static constexpr int kStageBytes = SplitMatmul::stage_bytes(kTileM, kTileN);
  static constexpr int kStages = SplitMatmul::stages(kTileM, kTileN);
  // a comes after b's parts, with a pitch that avoids bank conflicts between the lanes of a fragment.
  static constexpr int kAOffset = kParts * kPartB;
  static constexpr int kAPitch = kAInner ? kStepK * 4 + 32 : kTileM * 4 + 16;
  static_assert(kStageBytes % kAtomBytes == 0 && kAOffset + (kAInner ? kTileM : kStepK) * kAPitch <= kStageBytes);
  static constexpr int kSums = kTileN / 2;  // sums of one thread, of a tile of 64 rows
};

struct Segment {
  int tile, begin, end;  // steps
};

// The segments that one block computes, in order.
class BlockSegments {
 public:
  __device__ BlockSegments(const SplitMatmul& matmul, int block, int blocks)
      : steps_(matmul.steps),
        block_(block),
        blocks_(blocks),
        rounds_(matmul.whole_rounds),
        at_(first_shared(matmul, block, blocks)),
        end_(first_shared(matmul, block + 1, blocks)) {}

  __device__ bool next(Segment& segment) {
    if (round_ < rounds_) {
      segment = {round_++ * blocks_ + block_, 0, steps_};
      return true;
    }
    if (at_ >= end_) return false;
    const int tile = at_ / steps_;
    const int begin = at_ - tile * steps_;
    const int end = min(steps_, begin + end_ - at_);
    segment = {rounds_ * blocks_ + tile, begin, end};
    at_ += end - begin;
    return true;
  }

  static __device__ int first_shared(const SplitMatmul& matmul, int block, int blocks) {
    return static_cast<int>(static_cast<long long>(block) * matmul.shared_steps / blocks);
  }

 private:
  int steps_, block_, blocks_, rounds_;
  int round_ = 0;
  int at_, end_;
};

// The position of a tile.
struct TilePosition {
  int row, column;  // the first ones
  int batch[SplitMatmul::kMaxBatchAxes];

  template <class T>
  static __device__ TilePosition of(const SplitMatmul& matmul, int tile) {
    const int tiles = matmul.tiles_m * matmul.tiles_n;
    int batch = tile / tiles;
    const int within = tile - batch * tiles;
    const int group = within / (kGroupedRows * matmul.tiles_n);
    const int first = group * kGroupedRows;
    const int height = min(matmul.tiles_m - first, kGroupedRows);
    const int in_group = within - group * kGroupedRows * matmul.tiles_n;
    TilePosition position;
    position.row = (first + in_group % height) * T::kTileM;
    position.column = in_group / height * T::kTileN;
#pragma unroll
    for (int axis = SplitMatmul::kMaxBatchAxes - 1; axis >= 0; --axis) {
      position.batch[axis] = batch % matmul.batch_sizes[axis];
      batch /= matmul.batch_sizes[axis];
    }
    return position;
  }

  __device__ long long offset(const SplitMatmul::Matrix& matrix) const {
    long long sum = 0;
#pragma unroll
    for (int axis = 0; axis < SplitMatmul::kMaxBatchAxes; ++axis) sum += batch[axis] * matrix.batch_strides[axis];
    return sum;
  }
};

__device__ __forceinline__ float4 read_vector(const float* address) {
  float4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(address));
  return value;
}

// Copies one reader thread's elements of a's tile of one step: 16 bytes of every kLinesApart-th line.
template <class T>
class CopierOfA {
 public:
  static constexpr int kLineChunks = (T::kAInner ? kStepK : T::kTileM) / 4;
  static constexpr int kLinesApart = kReaderThreads / kLineChunks;
  static constexpr int kCopies = (T::kAInner ? T::kTileM : kStepK) / kLinesApart;

  __device__ explicit CopierOfA(int thread) : line_(thread / kLineChunks), element_(thread % kLineChunks * 4) {}

  // Moves to the tile that begins at `row`, at step `step`.
  __device__ void go_to(const float* matrix, const SplitMatmul::Matrix& layout, int rows, int row, int step) {
    const int k = step * kStepK;
    leading_ = layout.leading;
    address_ = matrix + (T::kAInner ? (row + line_) * leading_ + k : (k + line_) * leading_ + row) + element_;
    rows_left_ = rows - row;
    k_ = k;
  }
  __device__ void go_on() {
    address_ += T::kAInner ? kStepK : kStepK * leading_;
    k_ += kStepK;
  }

  // Elements beyond the matrix become 0.
  __device__ void copy(int k_end, std::uint32_t to) const {
    const int lines = (T::kAInner ? rows_left_ : k_end - k_) - line_;
    const bool outside = element_ >= (T::kAInner ? k_end - k_ : rows_left_);
    to += line_ * T::kAPitch + element_ * 4;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const bool zeros = outside || i * kLinesApart >= lines;
      copy_in(to + i * kLinesApart * T::kAPitch, zeros ? address_ : address_ + i * kLinesApart * leading_, zeros);
    }
  }

 private:
  const float* address_ = nullptr;
  long long leading_ = 0;
  int line_, element_;
  int rows_left_ = 0;
  int k_ = 0;
};

// Reads one reader thread's elements of b's tile of one step: eight elements of every 32nd line. If b's columns are
// contiguous, lines are columns; otherwise each k is a line, and 64 columns of the tile are a block of lines.
template <class T>
class ReaderOfB {
 public:
  static constexpr int kChunks = T::kTileN / 32;

  __device__ explicit ReaderOfB(int thread) : line_(thread / 8), element_(thread % 8 * 8) {}

  __device__ void go_to(const float* matrix, const SplitMatmul::Matrix& layout, int columns, int column, int step) {
    const int k = step * kStepK;
    leading_ = layout.leading;
    address_ = matrix + (T::kBInner ? (column + line_) * leading_ + k : (k + line_) * leading_ + column) + element_;
    columns_left_ = columns - column;
    k_ = k;
  }
  __device__ void go_on() {
    address_ += T::kBInner ? kStepK : kStepK * leading_;
    k_ += kStepK;
  }

  __device__ void read(int k_end, int chunk, float4& low, float4& high) const {
    const int lines_on = T::kBInner ? 32 * chunk : 32 * (chunk % 2);
    const int elements_on = T::kBInner ? 0 : chunk / 2 * kLineElements;
    const float* from = address_ + lines_on * leading_ + elements_on;
    const bool inside = line_ + lines_on < (T::kBInner ? columns_left_ : k_end - k_);
    const int left = (T::kBInner ? k_end - k_ : columns_left_) - element_ - elements_on;
    low = inside && left > 0 ? read_vector(from) : float4{0, 0, 0, 0};
    high = inside && left > 4 ? read_vector(from + 4) : float4{0, 0, 0, 0};
  }

 private:
  const float* address_ = nullptr;
  long long leading_ = 0;
  int line_, element_;
  int columns_left_ = 0;
  int k_ = 0;
};

template <int kPartBytes>
__device__ __forceinline__ void write_parts(char* to, const float4& low, const float4& high, float& rests) {
  uint4 parts[kParts];
  rests += split(low, high, parts);
#pragma unroll
  for (int i = 0; i < kParts; ++i) *reinterpret_cast<uint4*>(to + i * kPartBytes) = parts[i];
}

// The current stage of a ring buffer, the parity of its phase, and the number of stages so far, including this one.
template <int kStages>
struct Ring {
  int stage = 0;
  unsigned parity = 0;
  int count = 1;
  __device__ void advance() {
    ++count;
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

struct Barriers {
  SharedBarrier written[kMostStages], free[kMostStages];
  int last_not_finite[kMostStages];  // Ring::count of the last step in which b had elements that are not finite
};

template <class T>
__device__ void read_operands(const SplitMatmul& matmul, int block, int blocks, char* stages, Barriers& barriers,
                              int thread) {
  constexpr int kChunks = ReaderOfB<T>::kChunks;
  CopierOfA<T> a(thread);
  ReaderOfB<T> b(thread);
  constexpr int kAhead = T::kTileM == 128 ? kChunks / 2 : kChunks;  // as many as fit in registers
  float4 low[kAhead], high[kAhead];                                 // loads of b in flight

  BlockSegments segments(matmul, block, blocks);
  Segment segment;
  const auto enter = [&] {
    if (!segments.next(segment)) return false;
    const TilePosition position = TilePosition::of<T>(matmul, segment.tile);
    a.go_to(matmul.a + position.offset(matmul.a_layout), matmul.a_layout, matmul.m, position.row, segment.begin);
    b.go_to(matmul.b + position.offset(matmul.b_layout), matmul.b_layout, matmul.n, position.column, segment.begin);
    return true;
  };
  bool more = enter();
  if (more) {
#pragma unroll
    for (int chunk = 0; chunk < kAhead; ++chunk) b.read(matmul.k, chunk, low[chunk], high[chunk]);
  }
  const int offset = swizzled(thread / 8, thread % 8);  // of the first line; the swizzle repeats after 32 lines
  Ring<T::kStages> ring;
  while (more) {
    barriers.free[ring.stage].wait(ring.parity ^ 1);
    char* stage = stages + ring.stage * T::kStageBytes;
    a.copy(matmul.k, shared_address(stage) + T::kAOffset);
    barriers.written[ring.stage].arrive_with_copies();
    float rests = 0;
    // The next load begins as soon as the previous contents of its registers are written.
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (chunk == kChunks - kAhead) {
        if (++segment.begin < segment.end) {
          a.go_on();
          b.go_on();
        } else {
          more = enter();
        }
      }
      const int slot = chunk % kAhead;
      write_parts<T::kPartB>(stage + offset + chunk * 32 * kLineBytes, low[slot], high[slot], rests);
      if (more) b.read(matmul.k, (chunk + kAhead) % kChunks, low[slot], high[slot]);
    }
    if (rests != rests) barriers.last_not_finite[ring.stage] = ring.count;
    publish_to_tensor_cores();
    __syncwarp();
    if (thread % 32 == 0) barriers.written[ring.stage].arrive();
    ring.advance();
  }
}

// This thread's elements of a step of a, as multiply() needs them, in three parts. Returns whether all are finite.
template <class T>
__device__ __forceinline__ bool read_parts_of_a(const char* tile, int row, int k,
                                                unsigned (&parts)[kParts][kStepK / 16][4]) {
  float rests = 0;
#pragma unroll
  for (int step = 0; step < kStepK / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at_row = row + i % 2 * 8;
      const int at_k = step * 16 + k + i / 2 * 8;
      float2 pair;
      if constexpr (T::kAInner) {
        pair = *reinterpret_cast<const float2*>(tile + at_row * T::kAPitch + at_k * 4);
      } else {
        pair.x = *reinterpret_cast<const float*>(tile + at_k * T::kAPitch + at_row * 4);
        pair.y = *reinterpret_cast<const float*>(tile + (at_k + 1) * T::kAPitch + at_row * 4);
      }
      rests += split(pair.x, pair.y, parts[0][step][i], parts[1][step][i], parts[2][step][i]);
    }
  }
  return rests == rests;
}

// The products of one step, the smallest first.
template <class T>
__device__ __forceinline__ void multiply_step(float (&sums)[T::kSums], const unsigned (&a)[kParts][kStepK / 16][4],
                                              std::uint64_t b) {
  constexpr int kOrderA[] = {2, 0, 1, 1, 0, 0};
  constexpr int kOrderB[] = {0, 2, 1, 0, 1, 0};
  begin_products();
#pragma unroll
  for (int product = 0; product < 6; ++product) {
#pragma unroll
    for (int k = 0; k < kStepK / 16; ++k) {
      const int b_at = kOrderB[product] * (T::kPartB >> 4) + k * kDescriptorStep<T::kBInner>;
      multiply<T::kBInner>(sums, a[kOrderA[product]][k], b + b_at, product + k > 0);
    }
  }
  end_products();
  wait_for_products<0>();
}

// The same with fused multiply-adds, for elements that are not finite.
template <class T>
__device__ void multiply_step_with_fma(const SplitMatmul& matmul, const Segment& segment, int step, int group,
                                       int thread, float (&sums)[T::kSums]) {
  const TilePosition position = TilePosition::of<T>(matmul, segment.tile);
  const int row = position.row + 64 * group + thread / 32 * 16 + thread % 32 / 4;
  const int column = position.column + thread % 4 * 2;
  const float* a = matmul.a + position.offset(matmul.a_layout);
  const float* b = matmul.b + position.offset(matmul.b_layout);
  const auto a_at = [&](int r, int k) {
    if (r >= matmul.m) return 0.0F;
    return T::kAInner ? a[r * matmul.a_layout.leading + k] : a[k * matmul.a_layout.leading + r];
  };
  const auto b_at = [&](int k, int c) {
    if (c >= matmul.n) return 0.0F;
    return T::kBInner ? b[c * matmul.b_layout.leading + k] : b[k * matmul.b_layout.leading + c];
  };
  const int end = min(matmul.k, (step + 1) * kStepK);
#pragma unroll
  for (int j = 0; j < T::kSums / 4; ++j) {
    float products[4] = {};
#pragma unroll 1
    for (int k = step * kStepK; k < end; ++k) {
      const float upper = a_at(row, k);
      const float lower = a_at(row + 8, k);
      const float left = b_at(k, column + 8 * j);
      const float right = b_at(k, column + 8 * j + 1);
      products[0] = fmaf(upper, left, products[0]);
      products[1] = fmaf(upper, right, products[1]);
      products[2] = fmaf(lower, left, products[2]);
      products[3] = fmaf(lower, right, products[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[4 * j + i] = products[i];
  }
}

template <class T>
__device__ void write_result(const SplitMatmul& matmul, const TilePosition& position, const float (&sums)[T::kSums],
                             int group, int thread) {
  const int row = position.row + 64 * group + thread / 32 * 16 + thread % 32 / 4;
  const int column = position.column + thread % 4 * 2;
  const auto offset = position.offset(matmul.c_layout) + row * matmul.c_layout.leading + column;
  const auto lower_offset = offset + 8 * matmul.c_layout.leading;
  // Each element is read by the thread that writes it, so the addend may be c.
  const auto store = [&](auto at, float left, float right) {
    float2 sum{left, right};
    if (matmul.addend != nullptr) {
      const float2 before = *reinterpret_cast<const float2*>(matmul.addend + at);
      sum = {before.x + left, before.y + right};
    }
    *reinterpret_cast<float2*>(matmul.c + at) = sum;
  };
#pragma unroll
  for (int j = 0; j < T::kSums / 4; ++j) {
    if (column + 8 * j >= matmul.n) break;
    if (row < matmul.m) store(offset + 8 * j, sums[4 * j], sums[4 * j + 1]);
    if (row + 8 < matmul.m) store(lower_offset + 8 * j, sums[4 * j + 2], sums[4 * j + 3]);
  }
}

template <class T>
__device__ __forceinline__ float4* partial_sums(const SplitMatmul& matmul, int block, int group, int thread) {
  return static_cast<float4*>(matmul.partial_sums) +
         (block * T::kMultipliers + group) * (T::kSums / 4) * kWarpgroupThreads + thread;
}

template <class T>
__device__ void store_partial_sums(const SplitMatmul& matmul, int block, int group, int thread,
                                   const float (&sums)[T::kSums]) {
  float4* to = partial_sums<T>(matmul, block, group, thread);
#pragma unroll
  for (int i = 0; i < T::kSums / 4; ++i) {
    __stcg(to + i * kWarpgroupThreads, float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
  }
  __threadfence();
  meet(1 + group, kWarpgroupThreads);
  if (thread == 0) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(matmul.is_written + 2 * block + group), "r"(1) : "memory");
  }
}

// Adds the partial sums that the following blocks have of the tile; `end` is the end of this block's steps.
template <class T>
__device__ void add_partial_sums(const SplitMatmul& matmul, int block, int blocks, int end, int group, int thread,
                                 float (&sums)[T::kSums]) {
  const int tile_end = BlockSegments::first_shared(matmul, block + 1, blocks) - end + matmul.steps;
  int past = block + 2;
  while (BlockSegments::first_shared(matmul, past, blocks) < tile_end) ++past;
  for (int other = block + 1 + thread; other < past; other += kWarpgroupThreads) {
    unsigned* flag = matmul.is_written + 2 * other + group;
    unsigned written = 0;
    while (written == 0) {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(written) : "l"(flag) : "memory");
    }
    *flag = 0;
  }
  meet(1 + group, kWarpgroupThreads);
#pragma unroll 2
  for (int other = block + 1; other < past; ++other) {
    const float4* part = partial_sums<T>(matmul, other, group, thread);
#pragma unroll
    for (int i = 0; i < T::kSums / 4; ++i) {
      const float4 value = __ldcg(part + i * kWarpgroupThreads);
      sums[4 * i] += value.x;
      sums[4 * i + 1] += value.y;
      sums[4 * i + 2] += value.z;
      sums[4 * i + 3] += value.w;
    }
  }
}

template <class T>
__device__ void multiply_tiles(const SplitMatmul& matmul, int block, int blocks, char* stages, Barriers& barriers,
                               int group, int thread) {
  const int row = 64 * group + thread / 32 * 16 + thread % 32 / 4;
  const int k = thread % 4 * 2;
  BlockSegments segments(matmul, block, blocks);
  Segment segment;
  Ring<T::kStages> ring;
  while (segments.next(segment)) {
    float sums[T::kSums] = {};
    for (int step = segment.begin; step < segment.end; ++step) {
      barriers.written[ring.stage].wait(ring.parity);
      const char* stage = stages + ring.stage * T::kStageBytes;
      unsigned a[kParts][kStepK / 16][4];
      float products[T::kSums];
      bool is_finite = read_parts_of_a<T>(stage + T::kAOffset, row, k, a);
      is_finite &= barriers.last_not_finite[ring.stage] != ring.count;
      multiply_step<T>(products, a, tile_descriptor(shared_address(stage), kLineElements * kLineBytes));
      if (__any_sync(0xFFFFFFFFU, !is_finite)) {
        multiply_step_with_fma<T>(matmul, segment, step, group, thread, products);
      }
      barriers.free[ring.stage].arrive();
      ring.advance();
#pragma unroll
      for (int i = 0; i < T::kSums; ++i) sums[i] += products[i];
    }
    if (segment.begin > 0) {
      store_partial_sums<T>(matmul, block, group, thread, sums);
      continue;
    }
    if (segment.end < matmul.steps) {
      add_partial_sums<T>(matmul, block, blocks, segment.end, group, thread, sums);
    }
    write_result<T>(matmul, TilePosition::of<T>(matmul, segment.tile), sums, group, thread);
  }
}

template <class T>
__device__ void run(const SplitMatmul& matmul) {
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  char* stages = shared + (1024 - shared_address(shared) % 1024) % 1024;
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kStages; ++i) {
      barriers.written[i].initialise(kReaderThreads + kReaderWarps);
      barriers.free[i].initialise(kWarpgroupThreads * T::kMultipliers);
      barriers.last_not_finite[i] = 0;
    }
    publish_barriers();
  }
  __syncthreads();
  const int blocks = static_cast<int>(gridDim.x);
  const int block = static_cast<int>(blockIdx.x);
  const int group = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  // A multiprocessor has 65,536 registers.
  if (group < T::kMultipliers) {
    acquire_registers<192>();
    multiply_tiles<T>(matmul, block, blocks, stages, barriers, group, thread);
  } else {
    release_registers<T::kMultipliers == 2 ? 64 : 152>();
    read_operands<T>(matmul, block, blocks, stages, barriers, (group - T::kMultipliers) * kWarpgroupThreads + thread);
  }
}

}  // namespace

// split_matmul_<rows of a tile>x<columns>_<a: n for contiguous rows, t for contiguous columns><b: the same>
#define RIDGEPOINT_SPLIT_MATMUL(m, n, suffix, a_rows, b_columns)                             \
  extern "C" __global__ void __launch_bounds__(Tiling<m, n, a_rows, b_columns>::kThreads, 1) \
      split_matmul_##m##x##n##_##suffix(const __grid_constant__ SplitMatmul matmul) {        \
    run<Tiling<m, n, a_rows, b_columns>>(matmul);                                            \
  }
#define RIDGEPOINT_SPLIT_MATMULS(m, n)            \
  RIDGEPOINT_SPLIT_MATMUL(m, n, nn, true, false)  \
  RIDGEPOINT_SPLIT_MATMUL(m, n, nt, true, true)   \
  RIDGEPOINT_SPLIT_MATMUL(m, n, tn, false, false) \
  RIDGEPOINT_SPLIT_MATMUL(m, n, tt, false, true)

RIDGEPOINT_SPLIT_MATMULS(128, 128)
RIDGEPOINT_SPLIT_MATMULS(128, 64)
RIDGEPOINT_SPLIT_MATMULS(64, 128)
RIDGEPOINT_SPLIT_MATMULS(64, 64)

}  // namespace ridgepoint::cuda
