// The backward of flash attention (Dao 2023) for bf16 or fp16 operands, with fp32 sums. With p = exp(scores -
// log-sum-exp),
// dv = p^T do,  ds = p (do v^T - sum(do o)),  dq = scale ds k,  dk = scale ds^T q.
// A block has `keys` keys and loops over the queries from the last one to the first one that attends to them. Scores
// are computed transposed, with keys as rows: the weights and their gradients are then in registers as first operands
// of dv and dk, and only ds goes through shared memory, for dq. Blocks add to the sums of dq in the order of their
// keys, so results are bit for bit reproducible. Because the loop runs down the queries, a block follows one step
// behind the previous block and seldom waits; it only waits for blocks that have started (device/semaphore.cuh). A
// masked key does not affect dq of a query unless the key is infinite. An infinity or NaN in v, q or do may make
// gradients at masked positions NaN, because 0 times it is NaN, as in the composite variant.
// attention_backward_prepare_*: grid (ceil(B S / 32)), block (256): sum(do o) of each query; resets counters
// attention_backward_tiled_*: grid (blocks of keys x matrices, matrices fastest), block (32 x warps), shared memory
// backward_shared_bytes()
// attention_backward_finish_*: grid (matrices x blocks of queries), block (32 x warps): scales and rounds the sums of
// dq
#include "backends/cuda/attention/common/attention_products.cuh"
#include "backends/cuda/attention/common/parameters.h"
#include "backends/cuda/attention/common/variants.h"
#include "backends/cuda/attention/warp_mma/attention_tile.cuh"
#include "backends/cuda/device/semaphore.cuh"

namespace ridgepoint::cuda {
namespace {

// Predicated instead of branched, so that the compiler schedules other products between these.
__device__ __forceinline__ void add_or_store(float* to, const float (&x)[4], bool adds, bool stores) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred adds, stores;\n"
      "setp.ne.b32 adds, %5, 0;\n"
      "setp.ne.b32 stores, %6, 0;\n"
      "@adds red.global.add.v4.f32 [%0], {%1, %2, %3, %4};\n"
      "@stores st.global.v4.f32 [%0], {%1, %2, %3, %4};\n"
      "}\n" ::"l"(to),
      "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"(static_cast<int>(adds)), "r"(static_cast<int>(stores))
      : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (adds) atomicAdd(to + i, x[i]);
    if (stores) to[i] = x[i];
  }
#endif
}

// A warp's share of dq: 16 queries and a slice of the width, in products of 8 columns.
template <AttentionTiling kTiling>
struct DqShare {
  static constexpr int kRowGroups = kTiling.rows / 16;
  static constexpr int kTiles = kTiling.width / 8 * kRowGroups / kTiling.warps;
  static_assert(kTiling.warps % kRowGroups == 0 && kTiles % 2 == 0);
  int row, tile;  // the first ones

  __device__ __forceinline__ explicit DqShare(int warp)
      : row(warp % kRowGroups * 16), tile(warp / kRowGroups * kTiles) {}
};

template <class Element, AttentionTiling kTiling>
class BackwardBlock {
  static constexpr int kWarps = kTiling.warps;
  static constexpr int kKeyGroups = kTiling.keys / 16;
  static constexpr int kSplits = kWarps / kKeyGroups;  // slices of the width of dk and dv
  static_assert(kWarps % kKeyGroups == 0 && kTiling.rows <= 32 * kWarps);
  static constexpr int kSteps = kTiling.width / 16;
  static constexpr int kQueryTiles = kTiling.rows / 8;
  static constexpr int kGradientTiles = kTiling.width / 8 / kSplits;  // of dk and dv, for each warp
  static constexpr int kDqTiles = DqShare<kTiling>::kTiles;
  static constexpr bool kHasOneScoreTile = kTiling.score_stages == 1;
  // Registers are scarce in the kernels for little shared memory: each step computes some addresses again.
  static constexpr bool kKeepsAddresses = kTiling.rows == 64;
  // Rows of k and v stay in registers if the sums leave space for them.
  static constexpr bool kHoldsKeys = kTiling.width <= 64;
  using Tile = SwizzledTile<kTiling.row_chunks()>;
  using Addresses = LaneAddresses<Tile>;
  using ScoreTile = SwizzledTile<kTiling.rows / 8>;  // one row for each key
  using ScoreAddresses = LaneAddresses<ScoreTile>;
  static constexpr int kKeyBytes = kTiling.keys * Tile::kRowBytes;
  static constexpr int kQueryBytes = kTiling.rows * Tile::kRowBytes;
  static constexpr int kScoreBytes = kTiling.keys * ScoreTile::kRowBytes;
  static constexpr int kScalars = 2 * kKeyBytes + 4 * kQueryBytes;

 public:
  static constexpr int kScores = kScalars + 4 * kTiling.rows * static_cast<int>(sizeof(float));

  __device__ BackwardBlock(const AttentionBackward& attention, int block, int matrix, char* shared)
      : attention_(attention),
        block_(block),
        matrix_(matrix),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        key_(block * kTiling.keys),
        shared_(shared),
        k_tile_(shared_address(shared)),
        v_tile_(k_tile_ + kKeyBytes),
        q_tiles_(v_tile_ + kKeyBytes),
        do_tiles_(q_tiles_ + 2 * kQueryBytes),
        scalars_(reinterpret_cast<float*>(shared + kScalars)),
        ds_tiles_(k_tile_ + kScores),
        scalar_rows_(first_scalar_row()),
        q_(first_row<Element>(attention.q, attention.inner_count, matrix)),
        do_(first_row<Element>(attention.d_o, attention.inner_count, matrix)) {
    set_zero(dk_);
    set_zero(dv_);
  }

  __device__ void compute() {
    const TileCopier<kTiling.keys, kTiling> keys(attention_.width);
    copy_keys(keys, k_tile_, attention_.k);
    copy_keys(keys, v_tile_, attention_.v);
    const int last = last_seeing_query(key_ + kTiling.keys, attention_.window, attention_.queries) / kTiling.rows;
    const int first = attention_.causal ? key_ / kTiling.rows : 0;
    const TileCopier<kTiling.rows, kTiling> queries(attention_.width);
    copy_queries(queries, last, 0);
    end_copies();
    if (threadIdx.x < kTiling.rows) store_scalars(load_scalars(last), 0);
    // If a key has a NaN, so has the log-sum-exp of every query that attends to it, and their gradients are NaN
    // already. A masked query would get 0 NaN = NaN in dq, so NaN in k becomes 0.
    if (attention_.causal) {
      wait_for_copies<0>();
      keys.template clear_nan<Element>(shared_);
    }

    int stage = 0;
    for (int query_block = last; query_block >= first; --query_block, stage ^= 1) {
      if (query_block < last) wait_for_sums(query_block + 1);
      wait_for_copies<0>();
      __syncthreads();  // this step is loaded, and all warps have finished the previous one except its dq
      if (query_block + 2 <= last) release_sums(query_block + 2);
      if (kHoldsKeys && query_block == last) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          load_key_operand(k_tile_, step, k_[kHoldsKeys ? step : 0]);
          load_key_operand(v_tile_, step, v_[kHoldsKeys ? step : 0]);
        }
      }
      float2 next = {0, 0};
      if (query_block > first) {
        copy_queries(queries, query_block - 1, stage ^ 1);
        if (threadIdx.x < kTiling.rows) next = load_scalars(query_block - 1);
      }
      end_copies();
      // Without branches inside, the compiler interleaves products and exponentials.
      if (key_ + kTiling.keys > attention_.keys ||
          (attention_.causal && key_ + kTiling.keys > query_block * kTiling.rows + 1) ||
          (attention_.window > 0 && key_ < (query_block + 1) * kTiling.rows - attention_.window)) {
        step<true>(query_block, stage, query_block < last);
      } else {
        step<false>(query_block, stage, query_block < last);
      }
      if (query_block > first && threadIdx.x < kTiling.rows) store_scalars(next, stage ^ 1);
    }
    wait_for_sums(first);
    __syncthreads();
    if (first < last) release_sums(first + 1);
    add_to_dq(first, stage ^ 1, true);
    __syncthreads();
    release_sums(first);
    write();
  }

 private:
  // One thread waits until the previous block has added to a block of queries, and one thread signals that this block
  // has; barriers order the other threads' additions.
  __device__ __forceinline__ void wait_for_sums(int query_block) const {
    if (threadIdx.x + 1 != kTiling.threads()) return;
    const int place = place_in(query_block);
    if (place > 0) wait_for_semaphore(semaphore(query_block), place);
  }
  // The number of blocks of keys that add to a block of queries before this one.
  __device__ __forceinline__ int place_in(int query_block) const {
    return block_ - first_visible_block(query_block * kTiling.rows, attention_.window, kTiling.keys);
  }
  __device__ __forceinline__ void release_sums(int query_block) const {
    if (threadIdx.x == 0) release_semaphore(semaphore(query_block));
  }
  __device__ __forceinline__ unsigned* semaphore(int query_block) const {
    return attention_.semaphores + static_cast<long long>(matrix_) * query_blocks() + query_block;
  }
  __device__ __forceinline__ int query_blocks() const { return (attention_.queries + kTiling.rows - 1) / kTiling.rows; }

  __device__ __forceinline__ void copy_keys(const TileCopier<kTiling.keys, kTiling>& copier, std::uint32_t tile,
                                            const AttentionOperand& operand) const {
    const auto* rows = first_row<Element>(operand, attention_.inner_count, matrix_);
    copier.copy(tile, rows + rows_apart(key_, operand.row), operand.row, attention_.keys - key_);
  }
  __device__ __forceinline__ void copy_queries(const TileCopier<kTiling.rows, kTiling>& copier, int query_block,
                                               int stage) const {
    const int row = query_block * kTiling.rows;
    const int left = attention_.queries - row;
    const int q_stride = attention_.q.row;
    const int do_stride = attention_.d_o.row;
    copier.copy(q_tiles_ + stage * kQueryBytes, q_ + rows_apart(row, q_stride), q_stride, left);
    copier.copy(do_tiles_ + stage * kQueryBytes, do_ + rows_apart(row, do_stride), do_stride, left);
  }

  // The log-sum-exp to base 2, and sum(do o), of this thread's query. Queries beyond the end get weight 0.
  __device__ __forceinline__ float2 load_scalars(int query_block) const {
    const int row = query_block * kTiling.rows + static_cast<int>(threadIdx.x);
    if (row >= attention_.queries) return {INFINITY, 0};
    const long long at = (kKeepsAddresses ? scalar_rows_ : first_scalar_row()) + row;
    return {attention_.log_sum_exp[at] * kLog2E, attention_.products[at]};
  }
  __device__ __forceinline__ long long first_scalar_row() const {
    return static_cast<long long>(matrix_) * attention_.queries;
  }
  __device__ __forceinline__ void store_scalars(float2 scalars, int stage) {
    scalars_[stage * 2 * kTiling.rows + threadIdx.x] = scalars.x;
    scalars_[stage * 2 * kTiling.rows + kTiling.rows + threadIdx.x] = scalars.y;
  }

  // The same address, which the compiler takes for a new one.
  static __device__ __forceinline__ std::uint32_t address_in_step(std::uint32_t address) {
    if constexpr (!kKeepsAddresses) asm volatile("" : "+r"(address));
    return address;
  }

  __device__ __forceinline__ int warp_key() const { return warp_ % kKeyGroups * 16; }
  __device__ __forceinline__ void load_key_operand(std::uint32_t tile, int step, unsigned (&operand)[4]) const {
    const Addresses addresses = Addresses::of_first_operand(address_in_step(tile) + warp_key() * Tile::kRowBytes);
    load_matrices(operand, addresses.at(0, 2 * step));
  }

  // Also adds dq of the previous step, whose ds is in shared memory: one barrier for each step is then enough.
  template <bool kMasks>
  __device__ __forceinline__ void step(int query_block, int stage, bool has_previous) {
    const std::uint32_t q_tile = q_tiles_ + stage * kQueryBytes;
    const std::uint32_t do_tile = do_tiles_ + stage * kQueryBytes;
    const float* log_sum_exp = scalars_ + stage * 2 * kTiling.rows;
    const int query = query_block * kTiling.rows;
    float p[kQueryTiles][4];
    float ds[kQueryTiles][4];
    // These products depend on nothing; with enough registers they come after the products that the exponentials need.
    if (!kHoldsKeys) add_to_dq(query_block + 1, stage ^ 1, has_previous);
    multiply_keys<0>(q_tile, p);
    if (attention_.soft_cap > 0) cap(p);
    if (kHoldsKeys) add_to_dq(query_block + 1, stage ^ 1, has_previous);
    compute_weights<kMasks>(query, log_sum_exp, p);
    add_products(p, do_tile, dv_);
    if (attention_.soft_cap > 0) multiply_by_slope(log_sum_exp, p);
    multiply_keys<1>(do_tile, ds);
    compute_score_gradients(p, log_sum_exp + kTiling.rows, ds);
    if (kHasOneScoreTile) __syncthreads();  // all warps have read the previous one
    store_score_gradients(ds, stage);
    add_products(ds, q_tile, dk_);
  }

  // k q^T or v do^T for this warp's 16 keys.
  template <int kWhich>
  __device__ __forceinline__ void multiply_keys(std::uint32_t tile, float (&sums)[kQueryTiles][4]) {
    set_zero(sums);
    const Addresses addresses = Addresses::of_second_operand(tile);
    auto& held = kWhich == 0 ? k_ : v_;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if constexpr (!kHoldsKeys) load_key_operand(kWhich == 0 ? k_tile_ : v_tile_, step, held[0]);
      const unsigned(&keys)[4] = held[kHoldsKeys ? step : 0];
#pragma unroll
      for (int n = 0; n < kQueryTiles; n += 2) {
        unsigned rows[4];
        load_matrices(rows, addresses.at(8 * n, 2 * step));
        multiply<Element>(sums[n], keys, rows[0], rows[1]);
        multiply<Element>(sums[n + 1], keys, rows[2], rows[3]);
      }
    }
  }

  // Scores become exp(scale s - log-sum-exp), and 0 where masked.
  template <bool kMasks>
  __device__ __forceinline__ void compute_weights(int query, const float* log_sum_exp,
                                                  float (&p)[kQueryTiles][4]) const {
    const float scale = attention_.scale * kLog2E;
    const int first_key = key_ + warp_key();
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      const int column = 8 * n + lane_ % 4 * 2;
      const float2 lse = *reinterpret_cast<const float2*>(log_sum_exp + column);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[n][i] = exp2_fast(p[n][i] * scale - (i % 2 == 0 ? lse.x : lse.y));
        if constexpr (kMasks) {
          const int key = first_key + lane_ / 4 + i / 2 * 8;
          const int at = query + column + i % 2;
          if (key >= attention_.keys || (attention_.causal && key > at) ||
              (attention_.window > 0 && key <= at - attention_.window)) {
            p[n][i] = 0;
          }
        }
      }
    }
  }

  // Scores, which are not scaled yet, become those that give the capped ones when they are scaled.
  __device__ __forceinline__ void cap(float (&scores)[kQueryTiles][4]) const {
    const float inner = attention_.scale / attention_.soft_cap;
    const float outer = attention_.soft_cap / attention_.scale;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = outer * tanh_fast(inner * scores[n][i]);
    }
  }

  // Multiplies weights by the derivative of the cap, 1 - (s / cap)^2, with the score s = log p + log-sum-exp.
  __device__ __forceinline__ void multiply_by_slope(const float* log_sum_exp, float (&p)[kQueryTiles][4]) const {
    const float unit = 1 / (attention_.soft_cap * kLog2E);
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      const float2 lse = *reinterpret_cast<const float2*>(log_sum_exp + 8 * n + lane_ % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float t = (__log2f(p[n][i]) + (i % 2 == 0 ? lse.x : lse.y)) * unit;
        p[n][i] = p[n][i] == 0 ? 0 : p[n][i] * (1 - t * t);
      }
    }
  }

  __device__ __forceinline__ void compute_score_gradients(const float (&p)[kQueryTiles][4], const float* products,
                                                          float (&ds)[kQueryTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      const float2 product = *reinterpret_cast<const float2*>(products + 8 * n + lane_ % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) ds[n][i] = p[n][i] * (ds[n][i] - (i % 2 == 0 ? product.x : product.y));
    }
  }

  // dv += p^T do or dk += ds^T q, for this warp's keys and its slice of the width.
  __device__ __forceinline__ void add_products(const float (&weights)[kQueryTiles][4], std::uint32_t tile,
                                               float (&sums)[kGradientTiles][4]) const {
    const Addresses addresses = Addresses::of_first_operand(tile, slice_chunk());
#pragma unroll
    for (int step = 0; step < kTiling.rows / 16; ++step) {
      unsigned operand[4];
      pack_operand<Element>(operand, weights[2 * step], weights[2 * step + 1]);
#pragma unroll
      for (int n = 0; n < kGradientTiles; n += 2) {
        unsigned rows[4];
        load_matrices_transposed(rows, addresses.at(16 * step, n));
        multiply<Element>(sums[n], operand, rows[0], rows[1]);
        multiply<Element>(sums[n + 1], operand, rows[2], rows[3]);
      }
    }
  }
  // The first chunk of this warp's slice of the width.
  __device__ __forceinline__ int slice_chunk() const { return kSplits == 1 ? 0 : warp_ / kKeyGroups * kGradientTiles; }

  __device__ __forceinline__ void store_score_gradients(const float (&ds)[kQueryTiles][4], int stage) {
    if (kSplits > 1 && warp_ >= kKeyGroups) return;
    char* tile = shared_ + (ds_tiles_ - k_tile_) + score_offset(stage);
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<unsigned*>(tile + ScoreTile::offset(warp_key() + lane_ / 4 + 8 * half, n) + lane_ % 4 * 4) =
            pack<Element>(ds[n][2 * half], ds[n][2 * half + 1]);
      }
    }
  }

  static __device__ __forceinline__ int score_offset(int stage) { return kHasOneScoreTile ? 0 : stage * kScoreBytes; }

  // Adds ds k to this warp's share of dq.
  __device__ __forceinline__ void add_to_dq(int query_block, int stage, bool exists) {
    float dq[kDqTiles][4];
    set_zero(dq);
    // A transposed first operand is stored like a second one: rows are keys, columns are queries.
    const DqShare<kTiling> share(warp_);
    const ScoreAddresses scores = ScoreAddresses::of_second_operand(ds_tiles_ + score_offset(stage), share.row / 8);
    const Addresses keys = Addresses::of_first_operand(address_in_step(k_tile_), share.tile);
#pragma unroll
    for (int step = 0; step < kTiling.keys / 16; ++step) {
      unsigned operand[4];
      load_matrices_transposed(operand, scores.at(16 * step, 0));
#pragma unroll
      for (int n = 0; n < kDqTiles; n += 2) {
        unsigned rows[4];
        load_matrices_transposed(rows, keys.at(16 * step, n));
        multiply<Element>(dq[n], operand, rows[0], rows[1]);
        multiply<Element>(dq[n + 1], operand, rows[2], rows[3]);
      }
    }
    const int place = place_in(query_block);
    const long long at = static_cast<long long>(matrix_) * query_blocks() + query_block;
    float* sums = attention_.dq_sums + at * (kTiling.rows * kTiling.width) + (warp_ * kDqTiles * 32 + lane_) * 4;
#pragma unroll
    for (int n = 0; n < kDqTiles; ++n) {
      add_or_store(sums + n * 128, dq[n], exists && place > 0, exists && place == 0);
    }
  }

  // Results go through the shared memory of k and v, so that whole rows are written.
  __device__ void write() {
#pragma unroll
    for (int n = 0; n < kGradientTiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = Tile::offset(warp_key() + lane_ / 4 + 8 * half, slice_chunk() + n) + lane_ % 4 * 4;
        *reinterpret_cast<unsigned*>(shared_ + at) =
            pack<Element>(dk_[n][2 * half] * attention_.scale, dk_[n][2 * half + 1] * attention_.scale);
        *reinterpret_cast<unsigned*>(shared_ + kKeyBytes + at) = pack<Element>(dv_[n][2 * half], dv_[n][2 * half + 1]);
      }
    }
    __syncthreads();
    constexpr int kRows = kTiling.keys / kWarps;
    const int row = warp_ * kRows;
    const auto write = [&](const char* tile, const AttentionResult& gradient) {
      auto* to = first_row<Element>(gradient, attention_.inner_count, matrix_) + rows_apart(key_ + row, gradient.row);
      write_rows<Tile, kRows>(tile, row, to, gradient.row, attention_.keys - key_ - row, attention_.width);
    };
    write(shared_, attention_.dk);
    write(shared_ + kKeyBytes, attention_.dv);
  }

  const AttentionBackward& attention_;
  int block_, matrix_, warp_, lane_;
  int key_;  // the first key of the block
  char* shared_;
  std::uint32_t k_tile_, v_tile_, q_tiles_, do_tiles_;
  float* scalars_;
  std::uint32_t ds_tiles_;
  long long scalar_rows_;  // the first query of the matrix in dense [B,S]
  const Element* q_;
  const Element* do_;
  unsigned k_[kHoldsKeys ? kSteps : 1][4];
  unsigned v_[kHoldsKeys ? kSteps : 1][4];
  float dk_[kGradientTiles][4];
  float dv_[kGradientTiles][4];
};

template <class Element, AttentionTiling kTiling>
__device__ __forceinline__ void differentiate(const AttentionBackward& attention) {
  char* const shared = shared_of_launch();
  using Block = BackwardBlock<Element, kTiling>;
  const unsigned number = take_number(attention.started, gridDim.x, shared_address(shared) + Block::kScores);
  const auto batch = static_cast<unsigned>(attention.batch);
  const unsigned block = number / batch;
  // All lanes have the same value; the shuffle tells the compiler, which then spills fewer registers.
  const unsigned matrix = __shfl_sync(kAllLanes, number - block * batch, 0);
  Block(attention, static_cast<int>(block), static_cast<int>(matrix), shared).compute();
}

template <class Element, AttentionTiling kTiling>
__device__ __forceinline__ void finish(const AttentionBackward& attention) {
  constexpr int kTiles = DqShare<kTiling>::kTiles;
  const int query_blocks = (attention.queries + kTiling.rows - 1) / kTiling.rows;
  const int matrix = static_cast<int>(blockIdx.x) / query_blocks;
  const int query_block = static_cast<int>(blockIdx.x) - matrix * query_blocks;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* sums = attention.dq_sums + static_cast<long long>(blockIdx.x) * (kTiling.rows * kTiling.width) +
                      (warp * kTiles * 32 + lane) * 4;
  const DqShare<kTiling> share(warp);
  const int row = query_block * kTiling.rows + share.row + lane / 4;
  const int stride = attention.dq.row;
  auto* dq = first_row<Element>(attention.dq, attention.inner_count, matrix) + rows_apart(row, stride);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int column = (share.tile + n) * 8 + lane % 4 * 2;
    const float4 x = *reinterpret_cast<const float4*>(sums + n * 128);
    if (column >= attention.width) continue;
    if (row < attention.queries) {
      *reinterpret_cast<unsigned*>(dq + column) = pack<Element>(x.x * attention.scale, x.y * attention.scale);
    }
    if (row + 8 < attention.queries) {
      *reinterpret_cast<unsigned*>(dq + rows_apart(8, stride) + column) =
          pack<Element>(x.z * attention.scale, x.w * attention.scale);
    }
  }
}

}  // namespace

// The kernels of the rows of variants.h: `tiled` sums the gradients, `finish_entry` writes dq.
#define RIDGEPOINT_ATTENTION(tiled, finish_entry, type)                                               \
  constexpr AttentionTiling tiling_of_##tiled = tiling_of(kBackwardVariants, #tiled);                 \
  extern "C" __global__ void __launch_bounds__(tiling_of_##tiled.threads(), tiling_of_##tiled.blocks) \
      tiled(const __grid_constant__ AttentionBackward attention) {                                    \
    differentiate<type, tiling_of_##tiled>(attention);                                                \
  }                                                                                                   \
  extern "C" __global__ void __launch_bounds__(tiling_of_##tiled.threads())                           \
      finish_entry(const __grid_constant__ AttentionBackward attention) {                             \
    finish<type, tiling_of_##tiled>(attention);                                                       \
  }
#define RIDGEPOINT_PREPARE(entry, type)                                              \
  extern "C" __global__ void __launch_bounds__(256)                                  \
      entry(const __grid_constant__ AttentionBackward attention, int query_blocks) { \
    prepare_backward<type>(attention, query_blocks);                                 \
  }

RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_64, attention_backward_finish_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_96, attention_backward_finish_bf16_96, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_96_narrow, attention_backward_finish_bf16_96_narrow, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_128, attention_backward_finish_bf16_128, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_128_narrow, attention_backward_finish_bf16_128_narrow, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_256, attention_backward_finish_bf16_256, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_256_compact, attention_backward_finish_bf16_256_compact,
                     __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_bf16_256_narrow, attention_backward_finish_bf16_256_narrow, __nv_bfloat16)
RIDGEPOINT_PREPARE(attention_backward_prepare_bf16, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_64, attention_backward_finish_fp16_64, __half)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_96, attention_backward_finish_fp16_96, __half)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_96_narrow, attention_backward_finish_fp16_96_narrow, __half)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_128, attention_backward_finish_fp16_128, __half)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_128_narrow, attention_backward_finish_fp16_128_narrow, __half)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_256, attention_backward_finish_fp16_256, __half)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_256_compact, attention_backward_finish_fp16_256_compact, __half)
RIDGEPOINT_ATTENTION(attention_backward_tiled_fp16_256_narrow, attention_backward_finish_fp16_256_narrow, __half)
RIDGEPOINT_PREPARE(attention_backward_prepare_fp16, __half)

}  // namespace ridgepoint::cuda
