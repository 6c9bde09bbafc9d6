// Tiled attention of fp32 operands (Dao 2023) on the tensor cores, to the accuracy of fp32 (device/bf16_parts.cuh): a
// block takes `rows` queries, 16 a warp, walks over the keys in steps and keeps, of each row, the largest score so far,
// the sum of exponentials shifted by it (Milakov & Gimelshein 2018) and the values weighted by them. Heads of up to
// `width` elements, a multiple of 4.
//   grid (blocks of queries x matrices, a matrix's last queries first: where they see more they take longest),
//   block (32 x warps), shared memory forward_shared_bytes()
// Elements of a step arrive two steps ahead of their use and are taken apart one step ahead. A step's products are
// summed by the tensor cores, steps in rounded fp32. Results repeat to the bit. Where an infinity or a NaN is seen, or
// scores overflow, results are NaN.
#include "backends/cuda/device/attention_tile.cuh"
#include "backends/cuda/device/bf16_parts.cuh"
#include "backends/cuda/launch_parameters.h"

namespace ridgepoint::cuda {
namespace {

template <SplitAttentionTiling kTiling>
class SplitForwardBlock {
  static constexpr int kSteps = kTiling.width / 16;  // products of 16 along the width
  static constexpr int kKeyTiles = kTiling.keys / 8;
  static constexpr int kWidthTiles = kTiling.width / 8;
  static constexpr int kTogether = 4;  // tiles summed at a time: so many as hide the products' latency
  static_assert(kTiling.rows == 16 * kTiling.warps);
  using Tile = SwizzledTile<kTiling.width / 8>;
  using Addresses = LaneAddresses<Tile>;
  using Copier = SplitCopier<kTiling.keys, kTiling.width, kTiling.threads()>;
  static constexpr int kPartBytes = Copier::kPartBytes;
  static constexpr int kMatrixBytes = kParts * kPartBytes;
  static constexpr int kStageBytes = 2 * kMatrixBytes;
  static_assert(2 * kStageBytes + 2 * Copier::kCopyBytes == kTiling.forward_shared_bytes());

 public:
  __device__ SplitForwardBlock(const AttentionForward& attention, int block, long long matrix, char* shared)
      : attention_(attention),
        copier_(attention.width),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_row_(block * kTiling.rows + static_cast<int>(threadIdx.x) / 32 * 16),
        matrix_(matrix),
        shared_(shared),
        k_(static_cast<const float*>(attention.k) + matrix * attention.keys * attention.width),
        v_(static_cast<const float*>(attention.v) + matrix * attention.keys * attention.width) {
    keys_seen_ = attention.causal ? min(attention.keys, (block + 1) * kTiling.rows) : attention.keys;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top_[half] = -INFINITY;
      sum_[half] = 0;
    }
#pragma unroll
    for (int n = 0; n < kWidthTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o_[n][i] = 0;
    }
  }

  __device__ void compute() {
    copy_step(0);
    load_q();
    prepare_step(0, 0);
    // Half of the warps take their part of the next step apart before they multiply, half after: of the two on each
    // scheduler one multiplies while the other does not.
    const bool early = static_cast<int>(threadIdx.x) < kTiling.threads() / 2;
    int stage = 0;
    for (int key = 0; key < keys_seen_; key += kTiling.keys, stage ^= 1) {
      __syncthreads();  // this step is there, and everyone has done with the one before
      if (early) prepare_step(key + kTiling.keys, stage ^ 1);
      if (!attention_.causal || key < first_row_ + 16) attend(key, stage);
      if (!early) prepare_step(key + kTiling.keys, stage ^ 1);
    }
    write();
  }

 private:
  __device__ __forceinline__ void copy_step(int key) const {
    if (key < keys_seen_) {
      const long long offset = static_cast<long long>(key) * attention_.width;
      const std::uint32_t to = shared_address(shared_) + 2 * kStageBytes;
      copier_.copy(to, k_ + offset, attention_.keys - key);
      copier_.copy(to + Copier::kCopyBytes, v_ + offset, attention_.keys - key);
    }
    end_copies();
  }

  // Takes a step apart that has been copied, and begins to copy the one after it.
  __device__ __forceinline__ void prepare_step(int key, int stage) const {
    if (key >= keys_seen_) return;
    wait_for_copies<0>();
    const char* copies = shared_ + 2 * kStageBytes;
    char* tiles = shared_ + stage * kStageBytes;
    copier_.take_apart(copies, tiles);
    copier_.take_apart(copies + Copier::kCopyBytes, tiles + kMatrixBytes);
    copy_step(key + kTiling.keys);
  }

  // Rows past the end are zero.
  __device__ void load_q() {
    const float* q = static_cast<const float*>(attention_.q) + matrix_ * attention_.queries * attention_.width;
    const auto load = [&](int row, int column, float& x, float& y) {
      float2 pair = {0, 0};
      if (row < attention_.queries && column < attention_.width) {
        pair = *reinterpret_cast<const float2*>(q + static_cast<long long>(row) * attention_.width + column);
      }
      x = pair.x;
      y = pair.y;
    };
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      float halves[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        load(first_row_ + lane_ / 4 + i % 2 * 8, 16 * step + i / 2 * 8 + lane_ % 4 * 2, halves[i / 2][i % 2 * 2],
             halves[i / 2][i % 2 * 2 + 1]);
      }
      split_operand(q_[step], halves[0], halves[1]);
    }
  }

  __device__ __forceinline__ void attend(int key, int stage) {
    const std::uint32_t tiles = shared_address(shared_) + stage * kStageBytes;
    float scores[kKeyTiles][4];
    multiply_by_keys(tiles, scores);
    if (key + kTiling.keys > attention_.keys || (attention_.causal && key + kTiling.keys > first_row_ + 1)) {
      mask(key, scores);
    }
    float factor[2];
    take_exponentials(scores, factor);
    multiply_by_values(tiles + kMatrixBytes, scores, factor);
  }

  __device__ __forceinline__ void multiply_by_keys(std::uint32_t tile, float (&scores)[kKeyTiles][4]) const {
    const Addresses addresses = Addresses::of_second_operand(tile);
    constexpr int kStepsSummed = 4;  // 64 along the width
#pragma unroll
    for (int first = 0; first < kKeyTiles; first += kTogether) {
#pragma unroll
      for (int begin = 0; begin < kSteps; begin += kStepsSummed) {
        SplitSums<kTogether> sums;
#pragma unroll
        for (int step = begin; step < begin + kStepsSummed; ++step) {
          PartsOfOperand k[kTogether / 2];
#pragma unroll
          for (int n = 0; n < kTogether; n += 2) {
            load_parts(k[n / 2], addresses.at(8 * (first + n), 2 * step), kPartBytes);
          }
          sums.multiply(q_[step], k);
        }
#pragma unroll
        for (int n = 0; n < kTogether; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& score = scores[first + n][i];
            score = begin == 0 ? sums(n, i) : score + sums(n, i);
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] *= attention_.scale;
    }
  }

  __device__ __forceinline__ void mask(int key, float (&scores)[kKeyTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row_ + lane_ / 4 + i / 2 * 8;
        const int column = key + 8 * n + lane_ % 4 * 2 + i % 2;
        if (column >= attention_.keys || (attention_.causal && column > row)) scores[n][i] = -INFINITY;
      }
    }
  }

  // Scores become exponentials; what was summed before is to shrink by a factor where a row's largest score has grown.
  // The first step shows every row a key, so that no row's largest score stays infinite.
  __device__ __forceinline__ void take_exponentials(float (&scores)[kKeyTiles][4], float (&factor)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = top_[half];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) top = fmaxf(top, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      factor[half] = exp2_fast((top_[half] - top) * kLog2E);
      top_[half] = top;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n][2 * half + i];
          score = exp2_fast((score - top) * kLog2E);
          sum += score;
        }
      }
      sum_[half] = sum_[half] * factor[half] + sum;
    }
  }

  __device__ __forceinline__ void multiply_by_values(std::uint32_t tile, const float (&weights)[kKeyTiles][4],
                                                     const float (&factor)[2]) {
    const Addresses addresses = Addresses::of_first_operand(tile);
    PartsOfOperand p[kKeyTiles / 2];
#pragma unroll
    for (int step = 0; step < kKeyTiles / 2; ++step) split_operand(p[step], weights[2 * step], weights[2 * step + 1]);
#pragma unroll
    for (int first = 0; first < kWidthTiles; first += kTogether) {
      SplitSums<kTogether> sums;
#pragma unroll
      for (int step = 0; step < kKeyTiles / 2; ++step) {
        PartsOfOperand v[kTogether / 2];
#pragma unroll
        for (int n = 0; n < kTogether; n += 2) {
          load_parts_transposed(v[n / 2], addresses.at(16 * step, first + n), kPartBytes);
        }
        sums.multiply(p[step], v);
      }
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o_[first + n][i] = fmaf(o_[first + n][i], factor[i / 2], sums(n, i));
      }
    }
  }

  __device__ void write() {
    float* o = static_cast<float*>(attention_.o) + matrix_ * attention_.queries * attention_.width;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const int row = first_row_ + lane_ / 4 + 8 * half;
      if (row >= attention_.queries) continue;
      if (lane_ % 4 == 0) attention_.log_sum_exp[matrix_ * attention_.queries + row] = top_[half] + logf(sum);
      const float factor = 1 / sum;
      float* to = o + static_cast<long long>(row) * attention_.width + lane_ % 4 * 2;
#pragma unroll
      for (int n = 0; n < kWidthTiles; ++n) {
        if (8 * n + lane_ % 4 * 2 < attention_.width) {
          *reinterpret_cast<float2*>(to + 8 * n) = {o_[n][2 * half] * factor, o_[n][2 * half + 1] * factor};
        }
      }
    }
  }

  const AttentionForward& attention_;
  Copier copier_;
  int lane_;
  int first_row_;  // of this warp
  int keys_seen_;
  long long matrix_;
  char* shared_;
  const float* k_;
  const float* v_;
  PartsOfOperand q_[kSteps];
  float top_[2];
  float sum_[2];  // of this lane's columns
  float o_[kWidthTiles][4];
};

template <SplitAttentionTiling kTiling>
__device__ __forceinline__ void attend(const AttentionForward& attention) {
  extern __shared__ __align__(128) char shared[];
  const int blocks = (attention.queries + kTiling.rows - 1) / kTiling.rows;
  const int matrix = static_cast<int>(blockIdx.x) / blocks;
  const int block = blocks - 1 - (static_cast<int>(blockIdx.x) - matrix * blocks);
  SplitForwardBlock<kTiling>(attention, block, matrix, shared).compute();
}

}  // namespace

#define RIDGEPOINT_SPLIT_ATTENTION(size, at)                                               \
  extern "C" __global__ void __launch_bounds__(kSplitForwardTilings[at].threads(), 1)      \
      attention_forward_split_##size(const __grid_constant__ AttentionForward attention) { \
    static_assert(kSplitForwardTilings[at].width == size);                                 \
    attend<kSplitForwardTilings[at]>(attention);                                           \
  }
RIDGEPOINT_SPLIT_ATTENTION(64, 0)
RIDGEPOINT_SPLIT_ATTENTION(128, 1)

}  // namespace ridgepoint::cuda
