// The derivative of tiled attention (Dao 2023) of fp32 operands on the tensor cores, to the accuracy of fp32
// (device/bf16_parts.cuh): with p = exp(scores - lse),
//   dv = p^T do,  ds = p (do v^T - sum(do o)),  dq = scale ds k,  dk = scale ds^T q.
// A block takes `keys` keys and walks over the queries from the last to the first that sees them, `rows` a step. Scores
// are computed transposed, keys down: then weights and their gradients lie in registers as the first operands of dv and
// dk, and only ds goes through shared memory, for dq; where two warps share 16 keys, each computes half of a step's
// weights and half the width of dk and dv, and the weights go through shared memory too. Blocks add to dq in the order
// of their keys: results repeat to the bit. Going down the queries, a block follows one step behind the block before it
// and seldom waits. Where an infinity or a NaN is seen, or scores overflow, results are NaN.
//   attention_backward_prepare_split: grid (ceil(B S / 32)), block (256): sum(do o) of each query; turns zero
//   attention_backward_split_*:       grid (matrices x blocks of keys, a block's matrices together), block (32 x
//   warps),
//                                     shared memory backward_shared_bytes()
#include "backends/cuda/device/attention_products.cuh"
#include "backends/cuda/device/attention_tile.cuh"
#include "backends/cuda/device/bf16_parts.cuh"
#include "backends/cuda/device/turns.cuh"
#include "backends/cuda/launch_parameters.h"

namespace ridgepoint::cuda {
namespace {

template <SplitAttentionTiling kTiling>
class SplitBackwardBlock {
  static constexpr int kSplits = kTiling.splits();  // warps that share 16 keys
  static constexpr int kKeyGroups = kTiling.keys / 16;
  static_assert(kSplits == 1 || kSplits == 2);
  static constexpr int kChunk = 32;                                   // queries at a time
  static constexpr int kTiles = kChunk / 8 / kSplits;                 // of scores, a warp
  static constexpr int kSteps = kTiling.width / 16;                   // products of 16 along the width
  static constexpr int kStepsSummed = 4;                              // 64 elements
  static constexpr int kGradientTiles = kTiling.width / 8 / kSplits;  // of dk and dv, a warp
  static constexpr int kTogether = 4;  // tiles summed at a time: so many as hide the products' latency
  // dq: 16 queries and a part of the width a warp.
  static constexpr int kDqGroups = kTiling.rows / 16;
  static constexpr int kDqTiles = kTiling.width / 8 / (kTiling.warps / kDqGroups);
  static_assert(kTiling.rows % kChunk == 0 && kTiling.warps % kDqGroups == 0);
  static_assert(kGradientTiles % kTogether == 0 && kDqTiles % 2 == 0 && kTiling.keys % 64 == 0);

  using Tile = SwizzledTile<kTiling.width / 8>;
  using Addresses = LaneAddresses<Tile>;
  using ScoreTile = SwizzledTile<kTiling.rows / 8>;  // a row a key
  using ScoreAddresses = LaneAddresses<ScoreTile>;
  using Copier = SplitCopier<kTiling.rows, kTiling.width, kTiling.threads()>;
  static constexpr int kKeyPartBytes = kTiling.keys * Tile::kRowBytes;
  static constexpr int kQueryPartBytes = Copier::kPartBytes;
  static constexpr int kScorePartBytes = kTiling.keys * ScoreTile::kRowBytes;
  // Where they lie in shared memory.
  static constexpr int kKTile = 0;
  static constexpr int kVTile = kKTile + kParts * kKeyPartBytes;
  static constexpr int kQTile = kVTile + kParts * kKeyPartBytes;
  static constexpr int kDoTile = kQTile + kParts * kQueryPartBytes;
  static constexpr int kCopies = kDoTile + kParts * kQueryPartBytes;
  static constexpr int kDsTile = kCopies + 2 * Copier::kCopyBytes;
  static constexpr int kPTile = kDsTile + kParts * kScorePartBytes;
  static constexpr int kScalars = kDsTile + (kSplits > 1 ? 2 : 1) * kParts * kScorePartBytes;
  static_assert(kScalars + 2 * 4 * kTiling.rows == kTiling.backward_shared_bytes());

 public:
  __device__ SplitBackwardBlock(const AttentionBackward& attention, int block, int matrix, char* shared)
      : attention_(attention),
        copier_(attention.width),
        block_(block),
        matrix_(matrix),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        key_(block * kTiling.keys),
        shared_(shared),
        address_(shared_address(shared)),
        q_rows_(static_cast<long long>(matrix) * attention.queries) {
#pragma unroll
    for (int n = 0; n < kGradientTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) dk_[n][i] = dv_[n][i] = 0;
    }
  }

  __device__ void compute() {
    bring_keys();
    const int last = (attention_.queries - 1) / kTiling.rows;
    const int first = attention_.causal ? key_ / kTiling.rows : 0;
    copy_queries(last);
    take_queries_apart(last, first);
    // Half of the warps take their part of the next step apart before they multiply, half after: of the two on each
    // scheduler one multiplies while the other does not.
    const bool early = static_cast<int>(threadIdx.x) < kTiling.threads() / 2;
    for (int query_block = last; query_block >= first; --query_block) {
      __syncthreads();  // this step is there, and everyone has done with the one before
      if (threadIdx.x == 0 && query_block != last) end_turn(turn(query_block + 1));
#pragma unroll 1
      for (int chunk = 0; chunk < kTiling.rows; chunk += kChunk) add_to_gradients(query_block * kTiling.rows, chunk);
      if (threadIdx.x == kTiling.threads() - 1 && block_ > 0) await_turn(turn(query_block), block_);
      __syncthreads();
      if (early) take_queries_apart(query_block - 1, first);
      add_to_dq(query_block * kTiling.rows);
      if (!early) take_queries_apart(query_block - 1, first);
    }
    __syncthreads();
    if (threadIdx.x == 0 && first <= last) end_turn(turn(first));
    write(static_cast<float*>(attention_.dk), dk_, attention_.scale);
    write(static_cast<float*>(attention_.dv), dv_, 1);
  }

 private:
  __device__ __forceinline__ unsigned* turn(int query_block) const {
    const int blocks = (attention_.queries + kTiling.rows - 1) / kTiling.rows;
    return attention_.turns + static_cast<long long>(matrix_) * blocks + query_block;
  }

  // By way of the queries' place.
  __device__ void bring_keys() const {
    const long long first = static_cast<long long>(matrix_) * attention_.keys + key_;
    for (int row = 0; row < kTiling.keys; row += kTiling.rows) {
      const long long offset = (first + row) * attention_.width;
      const int left = attention_.keys - key_ - row;
      copier_.copy(address_ + kCopies, static_cast<const float*>(attention_.k) + offset, left);
      copier_.copy(address_ + kCopies + Copier::kCopyBytes, static_cast<const float*>(attention_.v) + offset, left);
      end_copies();
      wait_for_copies<0>();
      char* to = shared_ + row * Tile::kRowBytes;
      copier_.take_apart(shared_ + kCopies, to + kKTile, kKeyPartBytes);
      copier_.take_apart(shared_ + kCopies + Copier::kCopyBytes, to + kVTile, kKeyPartBytes);
    }
  }

  __device__ __forceinline__ void copy_queries(int query_block) {
    const int row = query_block * kTiling.rows;
    const long long offset = (q_rows_ + row) * attention_.width;
    const int left = attention_.queries - row;
    copier_.copy(address_ + kCopies, static_cast<const float*>(attention_.q) + offset, left);
    copier_.copy(address_ + kCopies + Copier::kCopyBytes, static_cast<const float*>(attention_.d_o) + offset, left);
    end_copies();
    // Queries past the end weigh nothing.
    const int mine = row + static_cast<int>(threadIdx.x);
    next_ = {INFINITY, 0};
    if (threadIdx.x < kTiling.rows && mine < attention_.queries) {
      next_ = {attention_.log_sum_exp[q_rows_ + mine], attention_.products[q_rows_ + mine]};
    }
  }

  // Takes a step apart that has been copied, and begins to copy the one after it.
  __device__ __forceinline__ void take_queries_apart(int query_block, int first) {
    if (query_block < first) return;
    wait_for_copies<0>();
    copier_.take_apart(shared_ + kCopies, shared_ + kQTile);
    copier_.take_apart(shared_ + kCopies + Copier::kCopyBytes, shared_ + kDoTile);
    if (threadIdx.x < kTiling.rows) reinterpret_cast<float2*>(shared_ + kScalars)[threadIdx.x] = next_;
    if (query_block > first) copy_queries(query_block - 1);
  }

  __device__ __forceinline__ int warp_key() const { return warp_ % kKeyGroups * 16; }
  __device__ __forceinline__ int half() const { return kSplits == 1 ? 0 : warp_ / kKeyGroups; }

  // What a chunk of queries adds to dk and dv; leaves its ds.
  __device__ __forceinline__ void add_to_gradients(int query, int chunk) {
    const int column = chunk + half() * (kChunk / kSplits);  // the first query of this warp, in its tile
    float p[kTiles][4], ds[kTiles][4];
    multiply_keys(kKTile, kQTile + column * Tile::kRowBytes, p);
    take_weights(query, column, p);
    multiply_keys(kVTile, kDoTile + column * Tile::kRowBytes, ds);
    take_score_gradients(column, p, ds);
    PartsOfOperand weights[kChunk / 16], gradients[kChunk / 16];
#pragma unroll
    for (int step = 0; step < kTiles / 2; ++step) {
      split_operand(weights[step], p[2 * step], p[2 * step + 1]);
      split_operand(gradients[step], ds[2 * step], ds[2 * step + 1]);
      store_operand(kDsTile, column / 8 + 2 * step, gradients[step]);
      if (kSplits > 1) store_operand(kPTile, column / 8 + 2 * step, weights[step]);
    }
    if constexpr (kSplits > 1) {
      meet(1 + warp_ % kKeyGroups, 64);
      load_operands(kPTile, chunk / 8, weights);
      load_operands(kDsTile, chunk / 8, gradients);
    }
    add_products(weights, kDoTile + chunk * Tile::kRowBytes, dv_);
    add_products(gradients, kQTile + chunk * Tile::kRowBytes, dk_);
  }

  // k q^T or v do^T, of this warp's keys.
  __device__ __forceinline__ void multiply_keys(int keys, int queries, float (&products)[kTiles][4]) const {
    const Addresses of_keys = Addresses::of_first_operand(address_ + keys + warp_key() * Tile::kRowBytes);
    const Addresses of_queries = Addresses::of_second_operand(address_ + queries);
#pragma unroll
    for (int begin = 0; begin < kSteps; begin += kStepsSummed) {
      SplitSums<kTiles> sums;
#pragma unroll
      for (int step = begin; step < begin + kStepsSummed; ++step) {
        PartsOfOperand k;
        load_parts(k, of_keys.at(0, 2 * step), kKeyPartBytes);
        PartsOfOperand q[kTiles / 2];
#pragma unroll
        for (int n = 0; n < kTiles; n += 2) {
          load_parts(q[n / 2], of_queries.at(8 * n, 2 * step), kQueryPartBytes);
        }
        sums.multiply(k, q);
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) products[n][i] = begin == 0 ? sums(n, i) : products[n][i] + sums(n, i);
      }
    }
  }

  // A log-sum-exp and a product of each of two neighbouring queries.
  __device__ __forceinline__ float4 scalars(int column) const {
    return *reinterpret_cast<const float4*>(shared_ + kScalars + (column + lane_ % 4 * 2) * sizeof(float2));
  }

  // Scores become exp(scale s - lse); of hidden pairs 0.
  __device__ __forceinline__ void take_weights(int query, int column, float (&p)[kTiles][4]) const {
    const int first_key = key_ + warp_key();
    const bool hides = first_key + 16 > attention_.keys || (attention_.causal && first_key + 15 > query + column);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 of_pair = scalars(column + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[n][i] = exp2_fast(fmaf(p[n][i], attention_.scale, i % 2 == 0 ? -of_pair.x : -of_pair.z) * kLog2E);
        if (hides) {
          const int key = first_key + lane_ / 4 + i / 2 * 8;
          const int at = query + column + 8 * n + lane_ % 4 * 2 + i % 2;
          if (key >= attention_.keys || (attention_.causal && key > at)) p[n][i] = 0;
        }
      }
    }
  }

  __device__ __forceinline__ void take_score_gradients(int column, const float (&p)[kTiles][4],
                                                       float (&ds)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 of_pair = scalars(column + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) ds[n][i] = p[n][i] * (ds[n][i] - (i % 2 == 0 ? of_pair.y : of_pair.w));
    }
  }

  // 16 keys down, two chunks of queries across.
  __device__ __forceinline__ void store_operand(int tile, int chunk, const PartsOfOperand& operand) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = tile + ScoreTile::offset(warp_key() + lane_ / 4 + i % 2 * 8, chunk + i / 2) + lane_ % 4 * 4;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        *reinterpret_cast<unsigned*>(shared_ + at + part * kScorePartBytes) = operand[part][i];
      }
    }
  }
  __device__ __forceinline__ void load_operands(int tile, int chunk, PartsOfOperand (&operands)[kChunk / 16]) const {
    const int first_row = address_ + tile + warp_key() * ScoreTile::kRowBytes;
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      const int at = ScoreTile::offset(lane_ % 16, chunk + 2 * step + lane_ / 16);
      load_parts(operands[step], first_row + at, kScorePartBytes);
    }
  }

  // dv += p^T do or dk += ds^T q, of this warp's keys and its part of the width.
  __device__ __forceinline__ void add_products(const PartsOfOperand (&operands)[kChunk / 16], int tile,
                                               float (&gradients)[kGradientTiles][4]) const {
    const Addresses addresses = Addresses::of_first_operand(address_ + tile, half() * kGradientTiles);
#pragma unroll
    for (int first = 0; first < kGradientTiles; first += kTogether) {
      SplitSums<kTogether> sums;
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        PartsOfOperand rows[kTogether / 2];
#pragma unroll
        for (int n = 0; n < kTogether; n += 2) {
          load_parts_transposed(rows[n / 2], addresses.at(16 * step, first + n), kQueryPartBytes);
        }
        sums.multiply(operands[step], rows);
      }
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) gradients[first + n][i] += sums(n, i);
      }
    }
  }

  // Of 16 queries and a part of the width: scale ds k.
  __device__ __forceinline__ void add_to_dq(int query) const {
    // Transposed first operands lie as second ones do: keys down, queries across.
    const int chunk = warp_ % kDqGroups * 2;
    const int tile = warp_ / kDqGroups * kDqTiles;
    const int lane_chunk = chunk + lane_ / 8 % 2;
    const std::uint32_t scores = address_ + kDsTile + ScoreTile::offset(lane_ / 16 * 8 + lane_ % 8, lane_chunk);
    const Addresses keys = Addresses::of_first_operand(address_ + kKTile, tile);
    float dq[kDqTiles][4];
#pragma unroll
    for (int begin = 0; begin < kTiling.keys / 16; begin += kStepsSummed) {
      SplitSums<kDqTiles> sums;
#pragma unroll
      for (int step = begin; step < begin + kStepsSummed; ++step) {
        PartsOfOperand ds;
        load_parts_transposed(ds, scores + step * 16 * ScoreTile::kRowBytes, kScorePartBytes);
        PartsOfOperand rows[kDqTiles / 2];
#pragma unroll
        for (int n = 0; n < kDqTiles; n += 2) {
          load_parts_transposed(rows[n / 2], keys.at(16 * step, n), kKeyPartBytes);
        }
        sums.multiply(ds, rows);
      }
#pragma unroll
      for (int n = 0; n < kDqTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) dq[n][i] = begin == 0 ? sums(n, i) : dq[n][i] + sums(n, i);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = query + chunk * 8 + half * 8 + lane_ / 4;
      if (row >= attention_.queries) continue;
      float* to = static_cast<float*>(attention_.dq) + (q_rows_ + row) * attention_.width + lane_ % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDqTiles; ++n) {
        const int column = (tile + n) * 8;
        if (column + lane_ % 4 * 2 >= attention_.width) break;
        const float x = dq[n][2 * half] * attention_.scale;
        const float y = dq[n][2 * half + 1] * attention_.scale;
        if (block_ == 0) {
          *reinterpret_cast<float2*>(to + column) = {x, y};
        } else {
          add_pair(to + column, x, y);
        }
      }
    }
  }

  __device__ __forceinline__ void write(float* matrices, const float (&sums)[kGradientTiles][4], float scale) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = key_ + warp_key() + lane_ / 4 + 8 * i;
      if (row >= attention_.keys) continue;
      float* to = matrices + (static_cast<long long>(matrix_) * attention_.keys + row) * attention_.width;
#pragma unroll
      for (int n = 0; n < kGradientTiles; ++n) {
        const int column = (half() * kGradientTiles + n) * 8 + lane_ % 4 * 2;
        if (column < attention_.width) {
          *reinterpret_cast<float2*>(to + column) = {sums[n][2 * i] * scale, sums[n][2 * i + 1] * scale};
        }
      }
    }
  }

  const AttentionBackward& attention_;
  Copier copier_;
  int block_, matrix_, warp_, lane_;
  int key_;  // the block's first
  char* shared_;
  std::uint32_t address_;
  long long q_rows_;
  float2 next_ = {0, 0};  // scalars of this thread's query of the next step
  float dk_[kGradientTiles][4];
  float dv_[kGradientTiles][4];
};

template <SplitAttentionTiling kTiling>
__device__ __forceinline__ void differentiate(const AttentionBackward& attention) {
  extern __shared__ __align__(128) char shared[];
  const int block = static_cast<int>(blockIdx.x) / attention.batch;
  SplitBackwardBlock<kTiling>(attention, block, static_cast<int>(blockIdx.x) - block * attention.batch, shared)
      .compute();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    attention_backward_prepare_split(const __grid_constant__ AttentionBackward attention, int query_blocks) {
  prepare_backward<float>(attention, query_blocks);
}

#define RIDGEPOINT_SPLIT_ATTENTION_BACKWARD(size, at)                                        \
  extern "C" __global__ void __launch_bounds__(kSplitBackwardTilings[at].threads(), 1)       \
      attention_backward_split_##size(const __grid_constant__ AttentionBackward attention) { \
    static_assert(kSplitBackwardTilings[at].width == size);                                  \
    differentiate<kSplitBackwardTilings[at]>(attention);                                     \
  }
RIDGEPOINT_SPLIT_ATTENTION_BACKWARD(64, 0)
RIDGEPOINT_SPLIT_ATTENTION_BACKWARD(128, 1)

}  // namespace ridgepoint::cuda
