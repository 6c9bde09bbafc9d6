// Flash attention for bf16 or fp16 operands (Dao 2023), with sums and softmax in fp32. A block has `rows` queries and
// loops over the keys; for each row it keeps the largest score so far, the sum of exponentials shifted by it (Milakov &
// Gimelshein 2018), and the values weighted by them. Head sizes up to `width`, a multiple of 8.
// grid (matrices x blocks of queries, the last queries of a matrix first: with a causal mask they take longest), block
// (32 x warps), shared memory forward_shared_bytes()
// Keys and values are loaded one step ahead. Results are bit for bit reproducible. The scale must be positive and
// finite. A masked key has no effect; a masked value that is infinite or NaN may have one, because 0 times it is NaN,
// as in the composite variant.
#include "backends/cuda/attention/common/parameters.h"
#include "backends/cuda/attention/common/variants.h"
#include "backends/cuda/attention/warp_mma/attention_tile.cuh"

namespace ridgepoint::cuda {
namespace {

template <class Element, AttentionTiling kTiling>
class ForwardBlock {
  static constexpr int kSteps = kTiling.width / 16;  // products of 16 along the width
  static constexpr int kRowTiles = kTiling.rows / 16 / kTiling.warps;
  static constexpr int kKeyTiles = kTiling.keys / 8;
  static constexpr int kWidthTiles = kTiling.width / 8;
  // Rows of q stay in registers if the sums leave space for them.
  static constexpr bool kHoldsQ = kTiling.width <= 64;
  using Tile = SwizzledTile<kTiling.row_chunks()>;
  using Addresses = LaneAddresses<Tile>;
  static constexpr int kStepBytes = kTiling.keys * Tile::kRowBytes;

 public:
  __device__ ForwardBlock(const AttentionForward& attention, int block, int matrix, char* shared)
      : attention_(attention),
        first_row_(block * kTiling.rows + static_cast<int>(threadIdx.x) / 32 * kRowTiles * 16),
        matrix_(matrix),
        shared_(shared),
        q_tile_(shared_address(shared)),
        k_tiles_(q_tile_ + kTiling.rows * Tile::kRowBytes),
        v_tiles_(k_tiles_ + 2 * kStepBytes),
        q_addresses_(Addresses::of_first_operand(q_tile_ + threadIdx.x / 32 * (kRowTiles * 16 * Tile::kRowBytes))) {
    const TileCopier<kTiling.rows, kTiling> q(attention.width);
    const int first_query = block * kTiling.rows;
    const auto* q_rows = first_row<Element>(attention.q, attention.inner_count, matrix);
    q.copy(q_tile_, q_rows + rows_apart(first_query, attention.q.row), attention.q.row,
           attention.queries - first_query);
    first_key_ = first_visible_block(first_query, attention.window, kTiling.keys) * kTiling.keys;
    k_ = first_row<Element>(attention.k, attention.inner_count, matrix) + rows_apart(first_key_, attention.k.row);
    v_ = first_row<Element>(attention.v, attention.inner_count, matrix) + rows_apart(first_key_, attention.v.row);
    visible_keys_ = attention.causal ? min(attention.keys, first_query + kTiling.rows) : attention.keys;
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

  __device__ void compute() {
    const TileCopier<kTiling.keys, kTiling> copier(attention_.width);
    copy_step(copier, first_key_, 0);
    end_copies();
    int stage = 0;
    for (int key = first_key_; key < visible_keys_; key += kTiling.keys, stage ^= 1) {
      wait_for_copies<0>();
      __syncthreads();  // this step is loaded, and all warps have finished the previous one
      if (kHoldsQ && key == first_key_) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) load_q(step, q_[kHoldsQ ? step : 0]);
      }
      if (key + kTiling.keys < visible_keys_) copy_step(copier, key + kTiling.keys, stage ^ 1);
      end_copies();
      if (attention_.causal && key >= first_row_ + 16 * kRowTiles) continue;  // all rows of this warp mask these keys
      if (attention_.window > 0 && key + kTiling.keys <= first_row_ - attention_.window + 1) continue;
      float scores[kRowTiles][kKeyTiles][4];
      multiply_by_keys(k_tiles_ + stage * kStepBytes, scores);
      if (attention_.soft_cap > 0) cap(scores);
      if (key + kTiling.keys > attention_.keys || (attention_.causal && key + kTiling.keys > first_row_ + 1) ||
          (attention_.window > 0 && key < first_row_ + 16 * kRowTiles - attention_.window)) {
        mask(key, scores);
      }
      compute_exponentials(scores);
      multiply_by_values(v_tiles_ + stage * kStepBytes, scores);
    }
    write();
  }

 private:
  // Steps are copied one after another.
  __device__ __forceinline__ void copy_step(const TileCopier<kTiling.keys, kTiling>& copier, int key, int stage) {
    const int left = attention_.keys - key;
    copier.copy(k_tiles_ + stage * kStepBytes, k_, attention_.k.row, left);
    copier.copy(v_tiles_ + stage * kStepBytes, v_, attention_.v.row, left);
    k_ += rows_apart(kTiling.keys, attention_.k.row);
    v_ += rows_apart(kTiling.keys, attention_.v.row);
  }

  __device__ __forceinline__ void load_q(int step, unsigned (&q)[kRowTiles][4]) const {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) load_matrices(q[tile], q_addresses_.at(16 * tile, 2 * step));
  }

  __device__ __forceinline__ void multiply_by_keys(std::uint32_t k_tile, float (&scores)[kRowTiles][kKeyTiles][4]) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) set_zero(scores[tile]);
    const Addresses addresses = Addresses::of_second_operand(k_tile);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if constexpr (!kHoldsQ) load_q(step, q_[0]);
      const unsigned(&q)[kRowTiles][4] = q_[kHoldsQ ? step : 0];
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) {
        unsigned k[4];
        load_matrices(k, addresses.at(8 * n, 2 * step));
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          multiply<Element>(scores[tile][n], q[tile], k[0], k[1]);
          multiply<Element>(scores[tile][n + 1], q[tile], k[2], k[3]);
        }
      }
    }
  }

  __device__ __forceinline__ void mask(int key, float (&scores)[kRowTiles][kKeyTiles][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = first_row_ + 16 * tile + lane / 4 + i / 2 * 8;
          const int column = key + 8 * n + lane % 4 * 2 + i % 2;
          if (column >= attention_.keys || (attention_.causal && column > row) ||
              (attention_.window > 0 && column <= row - attention_.window)) {
            scores[tile][n][i] = -INFINITY;
          }
        }
      }
    }
  }

  // Scores, which are not scaled yet, become those that give the capped ones when they are scaled.
  __device__ __forceinline__ void cap(float (&scores)[kRowTiles][kKeyTiles][4]) const {
    const float inner = attention_.scale / attention_.soft_cap;
    const float outer = attention_.soft_cap / attention_.scale;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[tile][n][i] = outer * tanh_fast(inner * scores[tile][n][i]);
      }
    }
  }

  // Scores become exponentials; earlier sums are rescaled if a row's maximum has grown.
  __device__ __forceinline__ void compute_exponentials(float (&scores)[kRowTiles][kKeyTiles][4]) {
    const float scale = attention_.scale * kLog2E;
    float factor[kRowTiles][2];
    bool grew = false;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float maximum = maximum_[tile][half];
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          maximum = fmaxf(maximum, fmaxf(scores[tile][n][2 * half], scores[tile][n][2 * half + 1]));
        }
        maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 1));
        maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 2));
        const float shift = maximum == -INFINITY ? 0 : maximum * scale;
        factor[tile][half] = exp2_fast(maximum_[tile][half] * scale - shift);
        grew |= maximum != maximum_[tile][half];
        maximum_[tile][half] = maximum;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& score = scores[tile][n][2 * half + i];
            score = exp2_fast(score * scale - shift);
            sum += score;
          }
        }
        sum_[tile][half] = sum_[tile][half] * factor[tile][half] + sum;
      }
    }
    if (!__any_sync(kAllLanes, grew)) return;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int n = 0; n < kWidthTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o_[tile][n][i] *= factor[tile][i / 2];
      }
    }
  }

  __device__ __forceinline__ void multiply_by_values(std::uint32_t v_tile,
                                                     const float (&weights)[kRowTiles][kKeyTiles][4]) {
    const Addresses addresses = Addresses::of_first_operand(v_tile);
#pragma unroll
    for (int step = 0; step < kTiling.keys / 16; ++step) {
      unsigned p[kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        pack_operand<Element>(p[tile], weights[tile][2 * step], weights[tile][2 * step + 1]);
      }
#pragma unroll
      for (int n = 0; n < kWidthTiles; n += 2) {
        unsigned v[4];
        load_matrices_transposed(v, addresses.at(16 * step, n));
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          multiply<Element>(o_[tile][n], p[tile], v[0], v[1]);
          multiply<Element>(o_[tile][n + 1], p[tile], v[2], v[3]);
        }
      }
    }
  }

  // Results go through the shared memory of q, of which each warp has its own rows, so that whole rows are written.
  __device__ void write() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp_row = static_cast<int>(threadIdx.x) / 32 * kRowTiles * 16;
    __syncwarp();  // all lanes have read q
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = sum_[tile][half];
        sum += __shfl_xor_sync(kAllLanes, sum, 1);
        sum += __shfl_xor_sync(kAllLanes, sum, 2);
        const int row = 16 * tile + 8 * half + lane / 4;
        if (lane % 4 == 0 && first_row_ + row < attention_.queries) {
          attention_.log_sum_exp[static_cast<long long>(matrix_) * attention_.queries + first_row_ + row] =
              maximum_[tile][half] * attention_.scale + logf(sum);
        }
        const float factor = 1 / sum;
#pragma unroll
        for (int n = 0; n < kWidthTiles; ++n) {
          *reinterpret_cast<unsigned*>(shared_ + Tile::offset(warp_row + row, n) + lane % 4 * 4) =
              pack<Element>(o_[tile][n][2 * half] * factor, o_[tile][n][2 * half + 1] * factor);
        }
      }
    }
    __syncwarp();
    auto* o =
        first_row<Element>(attention_.o, attention_.inner_count, matrix_) + rows_apart(first_row_, attention_.o.row);
    write_rows<Tile, 16 * kRowTiles>(shared_, warp_row, o, attention_.o.row, attention_.queries - first_row_,
                                     attention_.width);
  }

  const AttentionForward& attention_;
  int first_row_;  // of this warp
  int first_key_, visible_keys_;
  int matrix_;
  char* shared_;
  std::uint32_t q_tile_, k_tiles_, v_tiles_;
  Addresses q_addresses_;
  const Element* k_;  // the rows of the next step to copy
  const Element* v_;
  unsigned q_[kHoldsQ ? kSteps : 1][kRowTiles][4];
  float maximum_[kRowTiles][2];
  float sum_[kRowTiles][2];  // over this lane's columns
  float o_[kRowTiles][kWidthTiles][4];
};

template <class Element, AttentionTiling kTiling>
__device__ __forceinline__ void attend(const AttentionForward& attention) {
  char* const shared = shared_of_launch();
  const int blocks = (attention.queries + kTiling.rows - 1) / kTiling.rows;
  const int matrix = static_cast<int>(blockIdx.x) / blocks;
  const int block = blocks - 1 - (static_cast<int>(blockIdx.x) - matrix * blocks);
  ForwardBlock<Element, kTiling>(attention, block, matrix, shared).compute();
}

}  // namespace

// The kernel of one row of variants.h.
#define RIDGEPOINT_ATTENTION(entry, type)                                                             \
  constexpr AttentionTiling tiling_of_##entry = tiling_of(kForwardVariants, #entry);                  \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), tiling_of_##entry.blocks) \
      entry(const __grid_constant__ AttentionForward attention) {                                     \
    attend<type, tiling_of_##entry>(attention);                                                       \
  }

RIDGEPOINT_ATTENTION(attention_forward_tiled_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_tiled_bf16_96, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_tiled_bf16_128, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_tiled_bf16_256, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_tiled_bf16_256_narrow, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_tiled_fp16_64, __half)
RIDGEPOINT_ATTENTION(attention_forward_tiled_fp16_96, __half)
RIDGEPOINT_ATTENTION(attention_forward_tiled_fp16_128, __half)
RIDGEPOINT_ATTENTION(attention_forward_tiled_fp16_256, __half)
RIDGEPOINT_ATTENTION(attention_forward_tiled_fp16_256_narrow, __half)

}  // namespace ridgepoint::cuda
