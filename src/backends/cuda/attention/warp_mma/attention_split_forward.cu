// Flash attention for fp32 operands (Dao 2023) on tensor cores, with the accuracy of fp32 (device/fp16_parts.cuh). A
// block has `rows` queries, 16 or 32 for each warp, and loops over the keys; for each row it keeps the largest score so
// far, the sum of exponentials shifted by it (Milakov & Gimelshein 2018), and the values weighted by them. Head sizes
// up to `width`, a multiple of 4.
// grid (matrices x blocks of queries, the last queries of a matrix first: with a causal mask they take longest), block
// (32 x warps), shared memory forward_shared_bytes()
// Tensor cores sum the products of a step; steps are added in rounded fp32. Results are bit for bit reproducible.
// Each row of q has a scale of its own; k and v have one scale for the keys of a step. So the error of a score is at
// most width 2^-50 max|q of its row| max|k of its step|, and that of an output 2^-50 max|v of its step|. This is below
// the rounding of fp32 unless a key, or a column of v, is 2^-27 of another one in the step or smaller; at 2^-30 it
// keeps 20 bits. An infinity or NaN at a position that is not masked, and scores or sums that overflow, give NaN; so
// may a row and step where max|q| max|k| exceeds 2^155. A masked key has no effect; a masked value that is not finite
// may have one, because 0 times it is NaN, as in the composite variant.
#include "backends/cuda/device/fp16_parts.cuh"
#include "backends/cuda/attention/warp_mma/attention_tile.cuh"
#include "backends/cuda/attention/common/parameters.h"
#include "backends/cuda/attention/common/variants.h"

namespace ridgepoint::cuda {
namespace {

template <SplitAttentionTiling kTiling>
class SplitForwardBlock {
  static constexpr int kRowTiles = kTiling.rows / 16 / kTiling.warps;
  static_assert(kTiling.rows == 16 * kRowTiles * kTiling.warps);
  static constexpr int kSteps = kTiling.width / 16;  // products of 16 along the width
  static constexpr int kKeyTiles = kTiling.keys / 8;
  static constexpr int kWidthTiles = kTiling.width / 8;
  static constexpr int kTogether = 4;  // tiles summed at the same time, to hide the products' latency
  using Tile = SwizzledTile<kTiling.width / 8>;
  using Addresses = LaneAddresses<Tile>;
  using Copier = SplitCopier<kTiling.keys, kTiling.width, kTiling.threads()>;
  static constexpr int kPartBytes = Copier::kPartBytes;
  static constexpr int kMatrixBytes = kFp16Parts * kPartBytes;
  static constexpr int kStageBytes = 2 * kMatrixBytes;
  static constexpr int kCopies = 2 * kStageBytes;  // offset in shared memory
  static constexpr int kLargest = kCopies + 2 * 2 * Copier::kCopyBytes;
  static_assert(kLargest + kTiling.kForwardScales * sizeof(unsigned) == kTiling.forward_shared_bytes());

 public:
  __device__ SplitForwardBlock(const AttentionForward& attention, int block, int matrix, char* shared)
      : attention_(attention),
        copier_(attention.width),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_row_(block * kTiling.rows + static_cast<int>(threadIdx.x) / 32 * (16 * kRowTiles)),
        matrix_(matrix),
        shared_(shared),
        first_step_(first_visible_block(block * kTiling.rows, attention.window, kTiling.keys)),
        k_(first_row<float>(attention.k, attention.inner_count, matrix) +
           rows_apart(first_step_ * kTiling.keys, attention.k.row)),
        v_(first_row<float>(attention.v, attention.inner_count, matrix) +
           rows_apart(first_step_ * kTiling.keys, attention.v.row)) {
    visible_keys_ = attention.causal ? min(attention.keys, (block + 1) * kTiling.rows) : attention.keys;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        maximum_[tile][half] = -INFINITY;
        sum_[tile][half] = 0;
      }
      set_zero(o_[tile]);
    }
  }

  // During step i the copies of step i + 3 are in flight, the maxima of step i + 2 are found, step i + 1 is split into
  // parts and step i is multiplied.
  __device__ void compute() {
    if (threadIdx.x < kTiling.kForwardScales) largest(0)[threadIdx.x] = 0;
    copy_step(first_step_);
    copy_step(first_step_ + 1);
    load_q();
    __syncthreads();
    find_largest(first_step_);
    __syncthreads();
    split_into_parts(first_step_);
    copy_step(first_step_ + 2);
    find_largest(first_step_ + 1);
    // Half of the warps split the next step into parts before they multiply, half after: each scheduler has one warp of
    // each half, so one multiplies while the other does not.
    const bool early = static_cast<int>(threadIdx.x) < kTiling.threads() / 2;
    const int steps = (visible_keys_ + kTiling.keys - 1) / kTiling.keys;
    for (int step = first_step_; step < steps; ++step) {
      __syncthreads();  // this step is loaded, and all warps have finished the previous one
      if (threadIdx.x < 2) largest(step + 3)[threadIdx.x] = 0;
      if (early) prepare(step);
      if (sees(step * kTiling.keys)) attend(step);
      if (!early) prepare(step);
    }
    write();
  }

 private:
  // Whether a row of this warp sees a key of the step that begins at `key`.
  __device__ __forceinline__ bool sees(int key) const {
    if (attention_.causal && key >= first_row_ + 16 * kRowTiles) return false;
    return attention_.window == 0 || key + kTiling.keys > first_row_ - attention_.window + 1;
  }

  // The largest finite magnitudes of k and of v in a step.
  __device__ __forceinline__ unsigned* largest(int step) const {
    return reinterpret_cast<unsigned*>(shared_ + kLargest) + step % 4 * 2;
  }
  __device__ __forceinline__ int copies(int step) const { return kCopies + step % 2 * (2 * Copier::kCopyBytes); }

  // Steps are copied one after another.
  __device__ __forceinline__ void copy_step(int step) {
    const int key = step * kTiling.keys;
    if (key < visible_keys_) {
      const int left = attention_.keys - key;
      const std::uint32_t to = shared_address(shared_) + copies(step);
      copier_.copy(to, k_, attention_.k.row, left);
      copier_.copy(to + Copier::kCopyBytes, v_, attention_.v.row, left);
      k_ += rows_apart(kTiling.keys, attention_.k.row);
      v_ += rows_apart(kTiling.keys, attention_.v.row);
    }
    end_copies();
  }

  __device__ __forceinline__ void find_largest(int step) const {
    if (step * kTiling.keys >= visible_keys_) return;
    wait_for_copies<1>();
    copier_.find_largest(shared_ + copies(step), largest(step));
    copier_.find_largest(shared_ + copies(step) + Copier::kCopyBytes, largest(step) + 1);
  }

  __device__ __forceinline__ void split_into_parts(int step) const {
    if (step * kTiling.keys >= visible_keys_) return;
    char* tiles = shared_ + step % 2 * kStageBytes;
    copier_.split_into_parts(shared_ + copies(step), tiles, scale_of(step, 0).up);
    copier_.split_into_parts(shared_ + copies(step) + Copier::kCopyBytes, tiles + kMatrixBytes, scale_of(step, 1).up);
  }
  __device__ __forceinline__ TileScale scale_of(int step, int matrix) const {
    return TileScale(__uint_as_float(largest(step)[matrix]));
  }

  __device__ __forceinline__ void prepare(int step) {
    split_into_parts(step + 1);
    copy_step(step + 3);
    find_largest(step + 2);
  }

  // Loads q, each row with its own scale; rows beyond the end are 0.
  __device__ void load_q() {
    const float* rows = first_row<float>(attention_.q, attention_.inner_count, matrix_);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      float q[2 * kSteps][4];
      float most[2] = {0, 0};
#pragma unroll
      for (int n = 0; n < 2 * kSteps; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float2 pair = q_pair(rows, first_row_ + 16 * tile + 8 * half + lane_ / 4, 8 * n + lane_ % 4 * 2);
          q[n][2 * half] = pair.x;
          q[n][2 * half + 1] = pair.y;
          most[half] = fmaxf(most[half], fmaxf(fabsf(pair.x), fabsf(pair.y)));
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        most[half] = fmaxf(most[half], __shfl_xor_sync(kAllLanes, most[half], 1));
        most[half] = fmaxf(most[half], __shfl_xor_sync(kAllLanes, most[half], 2));
        const TileScale scale(most[half]);
        unit_[tile][half] = scale.down;
#pragma unroll
        for (int n = 0; n < 2 * kSteps; ++n) {
          q[n][2 * half] *= scale.up;
          q[n][2 * half + 1] *= scale.up;
        }
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) split_operand(q_[tile][step], q[2 * step], q[2 * step + 1]);
    }
  }
  __device__ __forceinline__ float2 q_pair(const float* rows, int row, int column) const {
    if (row >= attention_.queries || column >= attention_.width) return {0, 0};
    return *reinterpret_cast<const float2*>(rows + rows_apart(row, attention_.q.row) + column);
  }

  __device__ __forceinline__ void attend(int step) {
    const std::uint32_t tiles = shared_address(shared_) + step % 2 * kStageBytes;
    const int key = step * kTiling.keys;
    float scores[kRowTiles][kKeyTiles][4];
    multiply_by_keys(tiles, scale_of(step, 0).down, scores);
    PartsOfOperand p[kRowTiles][kKeyTiles / 2];
    float factor[kRowTiles][2];
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      const int row = first_row_ + 16 * tile;
      if (attention_.soft_cap > 0) cap(scores[tile]);
      if (key + kTiling.keys > attention_.keys || (attention_.causal && key + kTiling.keys > row + 1) ||
          (attention_.window > 0 && key < row + 16 - attention_.window)) {
        mask(row, key, scores[tile]);
      }
      compute_exponentials(scores[tile], maximum_[tile], sum_[tile], factor[tile]);
#pragma unroll
      for (int i = 0; i < kKeyTiles / 2; ++i) split_operand(p[tile][i], scores[tile][2 * i], scores[tile][2 * i + 1]);
    }
    multiply_by_values(tiles + kMatrixBytes, scale_of(step, 1).down / (1 << kScaledBits), p, factor);
  }

  __device__ __forceinline__ void multiply_by_keys(std::uint32_t tile, float k_unit,
                                                   float (&scores)[kRowTiles][kKeyTiles][4]) const {
    const Addresses addresses = Addresses::of_second_operand(tile);
    constexpr int kStepsSummed = 4;  // 64 along the width
    float factor[kRowTiles][2];
#pragma unroll
    for (int row_tile = 0; row_tile < kRowTiles; ++row_tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        factor[row_tile][half] = unit_[row_tile][half] * k_unit * attention_.scale;
      }
    }
#pragma unroll
    for (int first = 0; first < kKeyTiles; first += kTogether) {
#pragma unroll
      for (int begin = 0; begin < kSteps; begin += kStepsSummed) {
        SplitSums<kTogether> sums[kRowTiles];
#pragma unroll
        for (int step = begin; step < begin + kStepsSummed; ++step) {
          PartsOfOperand k[kTogether / 2];
#pragma unroll
          for (int n = 0; n < kTogether; n += 2) {
            load_parts(k[n / 2], addresses.at(8 * (first + n), 2 * step), kPartBytes);
          }
#pragma unroll
          for (int row_tile = 0; row_tile < kRowTiles; ++row_tile) sums[row_tile].multiply(q_[row_tile][step], k);
        }
#pragma unroll
        for (int row_tile = 0; row_tile < kRowTiles; ++row_tile) {
#pragma unroll
          for (int n = 0; n < kTogether; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              float& score = scores[row_tile][first + n][i];
              const float sum = sums[row_tile](n, i);
              score = begin == 0 ? sum * factor[row_tile][i / 2] : fmaf(sum, factor[row_tile][i / 2], score);
            }
          }
        }
      }
    }
  }

  __device__ __forceinline__ void mask(int first_row, int key, float (&scores)[kKeyTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + lane_ / 4 + i / 2 * 8;
        const int column = key + 8 * n + lane_ % 4 * 2 + i % 2;
        if (column >= attention_.keys || (attention_.causal && column > row) ||
            (attention_.window > 0 && column <= row - attention_.window)) {
          scores[n][i] = -INFINITY;
        }
      }
    }
  }

  __device__ __forceinline__ void cap(float (&scores)[kKeyTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = attention_.soft_cap * tanhf(scores[n][i] / attention_.soft_cap);
      }
    }
  }

  // Scores become exponentials times 2^kScaledBits, and NaN stays NaN: fmaxf() ignores it, but the sum does not.
  // `factor` rescales earlier sums if a row's maximum has grown. The maximum of a row that has seen no key yet, because
  // its window begins later, is infinite.
  static __device__ __forceinline__ void compute_exponentials(float (&scores)[kKeyTiles][4], float (&maxima)[2],
                                                              float (&sums)[2], float (&factor)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = maxima[half];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) maximum = fmaxf(maximum, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 2));
      const float shift = maximum == -INFINITY ? 0 : maximum;
      factor[half] = exp2_fast((maxima[half] - shift) * kLog2E);
      maxima[half] = maximum;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n][2 * half + i];
          score = exp2_fast(fmaf(score - shift, kLog2E, kScaledBits));
          sum += score;
        }
      }
      sums[half] = sums[half] * factor[half] + sum;
    }
  }

  __device__ __forceinline__ void multiply_by_values(std::uint32_t tile, float unit,
                                                     const PartsOfOperand (&p)[kRowTiles][kKeyTiles / 2],
                                                     const float (&factor)[kRowTiles][2]) {
    const Addresses addresses = Addresses::of_first_operand(tile);
#pragma unroll
    for (int first = 0; first < kWidthTiles; first += kTogether) {
      SplitSums<kTogether> sums[kRowTiles];
#pragma unroll
      for (int step = 0; step < kKeyTiles / 2; ++step) {
        PartsOfOperand v[kTogether / 2];
#pragma unroll
        for (int n = 0; n < kTogether; n += 2) {
          load_parts_transposed(v[n / 2], addresses.at(16 * step, first + n), kPartBytes);
        }
#pragma unroll
        for (int row_tile = 0; row_tile < kRowTiles; ++row_tile) sums[row_tile].multiply(p[row_tile][step], v);
      }
#pragma unroll
      for (int row_tile = 0; row_tile < kRowTiles; ++row_tile) {
#pragma unroll
        for (int n = 0; n < kTogether; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& o = o_[row_tile][first + n][i];
            o = fmaf(sums[row_tile](n, i), unit, o * factor[row_tile][i / 2]);
          }
        }
      }
    }
  }

  __device__ void write() {
    float* o = first_row<float>(attention_.o, attention_.inner_count, matrix_);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = sum_[tile][half];
        sum += __shfl_xor_sync(kAllLanes, sum, 1);
        sum += __shfl_xor_sync(kAllLanes, sum, 2);
        const int row = first_row_ + 16 * tile + lane_ / 4 + 8 * half;
        if (row >= attention_.queries) continue;
        sum /= 1 << kScaledBits;
        if (lane_ % 4 == 0) {
          attention_.log_sum_exp[static_cast<long long>(matrix_) * attention_.queries + row] =
              maximum_[tile][half] + logf(sum);
        }
        const float factor = 1 / sum;
        float* to = o + rows_apart(row, attention_.o.row) + lane_ % 4 * 2;
#pragma unroll
        for (int n = 0; n < kWidthTiles; ++n) {
          if (8 * n + lane_ % 4 * 2 < attention_.width) {
            *reinterpret_cast<float2*>(to + 8 * n) = {o_[tile][n][2 * half] * factor,
                                                      o_[tile][n][2 * half + 1] * factor};
          }
        }
      }
    }
  }

  const AttentionForward& attention_;
  Copier copier_;
  int lane_;
  int first_row_;  // of this warp
  int first_step_, visible_keys_;
  int matrix_;
  char* shared_;
  const float* k_;  // the rows of the next step to copy
  const float* v_;
  PartsOfOperand q_[kRowTiles][kSteps];
  float unit_[kRowTiles][2];  // inverse scale of a row of q
  float maximum_[kRowTiles][2];
  float sum_[kRowTiles][2];  // over this lane's columns
  float o_[kRowTiles][kWidthTiles][4];
};

template <SplitAttentionTiling kTiling>
__device__ __forceinline__ void attend(const AttentionForward& attention) {
  char* const shared = shared_of_launch();
  const int blocks = (attention.queries + kTiling.rows - 1) / kTiling.rows;
  const int matrix = static_cast<int>(blockIdx.x) / blocks;
  const int block = blocks - 1 - (static_cast<int>(blockIdx.x) - matrix * blocks);
  SplitForwardBlock<kTiling>(attention, block, matrix, shared).compute();
}

}  // namespace

// The kernel of one row of variants.h.
#define RIDGEPOINT_SPLIT_ATTENTION(entry)                                                      \
  constexpr SplitAttentionTiling tiling_of_##entry = tiling_of(kSplitForwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                 \
      entry(const __grid_constant__ AttentionForward attention) {                              \
    attend<tiling_of_##entry>(attention);                                                      \
  }

RIDGEPOINT_SPLIT_ATTENTION(attention_forward_split_64)
RIDGEPOINT_SPLIT_ATTENTION(attention_forward_split_128)

}  // namespace ridgepoint::cuda
