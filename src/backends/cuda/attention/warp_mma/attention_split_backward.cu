// The backward of flash attention (Dao 2023) for fp32 operands on tensor cores, with the accuracy of fp32
// (device/fp16_parts.cuh). With p = exp(scores - log-sum-exp),
// dv = p^T do,  ds = p (do v^T - sum(do o)),  dq = scale ds k,  dk = scale ds^T q.
// A block has `keys` keys and loops over the queries, `rows` a step, from the last one to the first one that attends to
// them. Scores are computed transposed, with keys as rows: the weights and their gradients are then in registers as
// first operands of dv and dk, and only ds goes through shared memory, for dq. If two warps share 16 keys, each
// computes half of a step's weights and half the width of dk and dv, and the weights go through shared memory too.
// Scores are bit for bit those of attention_split_forward.cu, so that no weight exceeds 1 even for large scores. Blocks
// add to dq in the order of their keys, so results are bit for bit reproducible. Because the loop runs down the
// queries, a block follows one step behind the previous block and seldom waits; it only waits for blocks that have
// started (device/semaphore.cuh).
// The scale of k and v is one for a block's keys, that of q and do one for a step's queries. That of ds is one for
// both, from the bound m = width max|v| max|do| + max|sum(do o)|. So the error of a score is at most width 2^-50 max|q|
// max|k|, that of an element of ds 2^-50 m, and a step adds at most 2^-50 rows max|do| to the error of dv. This is
// below the rounding of fp32 unless the rows or columns of a step or block differ by a factor of 2^27. For ds the
// margin is smaller, because weights are small: dq of a query whose do is 2^-10 of the largest in its step has full
// accuracy; at 2^-20 it has 17 bits with 150 keys, at 2^-30 7 bits, and one bit fewer each time the number of keys
// doubles. Results below 2^-112 may become 0. dq and dk are sums of p (do v - sum(do o)), so they have the rounding
// error of do v even where p is 1 and the difference is 0.
// An infinity or NaN at a position that is not masked, and scores or sums that overflow, give NaN; so may a step and
// block where max|q| max|k|, m max|q| or m max|k| exceeds 2^155. A masked key does not affect dq of a query; an
// infinity or NaN in v, q or do may make gradients at masked positions NaN, because 0 times it is NaN, as in the
// composite variant.
// attention_backward_prepare_split: grid (ceil(B S / 32)), block (256): sum(do o) of each query; resets counters
// attention_backward_split_*: grid (blocks of keys x matrices, matrices fastest), block (32 x warps), shared memory
// backward_shared_bytes()
#include "backends/cuda/device/fp16_parts.cuh"
#include "backends/cuda/device/semaphore.cuh"
#include "backends/cuda/attention/common/attention_products.cuh"
#include "backends/cuda/attention/warp_mma/attention_tile.cuh"
#include "backends/cuda/attention/common/parameters.h"
#include "backends/cuda/attention/common/variants.h"

namespace ridgepoint::cuda {
namespace {

template <SplitAttentionTiling kTiling>
class SplitBackwardBlock {
  static constexpr int kSplits = kTiling.splits();  // warps that share 16 keys
  static constexpr int kKeyGroups = kTiling.keys / 16;
  static_assert(kSplits == 1 || kSplits == 2);
  static constexpr int kTiles = kTiling.rows / 8 / kSplits;  // of scores, for each warp
  static constexpr int kSteps = kTiling.width / 16;          // products of 16 along the width
  static constexpr int kStepsSummed = 4;                     // 64 elements
  static constexpr int kQuerySteps = kTiling.rows / 16;
  static constexpr int kGradientTiles = kTiling.width / 8 / kSplits;  // of dk and dv, for each warp
  static constexpr int kTogether = 4;  // tiles summed at the same time, to hide the products' latency
  // For dq a warp has 16 queries and a slice of the width.
  static constexpr int kDqGroups = kTiling.rows / 16;
  static constexpr int kDqTiles = kTiling.width / 8 / (kTiling.warps / kDqGroups);
  static_assert(kTiling.rows == 32 && kTiling.warps % kDqGroups == 0);
  static_assert(kGradientTiles % kTogether == 0 && kDqTiles % 2 == 0 && kTiling.keys % 64 == 0);

  using Tile = SwizzledTile<kTiling.width / 8>;
  using Addresses = LaneAddresses<Tile>;
  using ScoreTile = SwizzledTile<kTiling.rows / 8>;  // one row for each key
  using Copier = SplitCopier<kTiling.rows, kTiling.width, kTiling.threads()>;
  static constexpr int kKeyPartBytes = kTiling.keys * Tile::kRowBytes;
  static constexpr int kQueryPartBytes = Copier::kPartBytes;
  static constexpr int kScorePartBytes = kTiling.keys * ScoreTile::kRowBytes;
  // Offsets in shared memory.
  static constexpr int kKTile = 0;
  static constexpr int kVTile = kKTile + kFp16Parts * kKeyPartBytes;
  static constexpr int kQTiles = kVTile + kFp16Parts * kKeyPartBytes;
  static constexpr int kDoTiles = kQTiles + 2 * kFp16Parts * kQueryPartBytes;
  static constexpr int kCopies = kDoTiles + 2 * kFp16Parts * kQueryPartBytes;

 public:
  static constexpr int kDsTiles = kCopies + 2 * 2 * Copier::kCopyBytes;

 private:
  static constexpr int kPTile = kDsTiles + 2 * kFp16Parts * kScorePartBytes;
  static constexpr int kScalars = kPTile + (kSplits - 1) * kFp16Parts * kScorePartBytes;
  static constexpr int kLargest = kScalars + 2 * 2 * 4 * kTiling.rows;
  static_assert(kLargest + 4 * kTiling.kBackwardScales == kTiling.backward_shared_bytes());

 public:
  __device__ SplitBackwardBlock(const AttentionBackward& attention, int block, int matrix, char* shared)
      : attention_(attention),
        copier_(attention.width),
        block_(block),
        matrix_(matrix),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        key_(block * kTiling.keys),
        last_(last_seeing_query(key_ + kTiling.keys, attention.window, attention.queries) / kTiling.rows),
        steps_(last_ + 1 - (attention.causal ? key_ / kTiling.rows : 0)),
        shared_(shared),
        address_(shared_address(shared)),
        q_(first_row<float>(attention.q, attention.inner_count, matrix) + rows_apart(first_query(0), attention.q.row)),
        do_(first_row<float>(attention.d_o, attention.inner_count, matrix) +
            rows_apart(first_query(0), attention.d_o.row)),
        dq_(first_row<float>(attention.dq, attention.inner_count, matrix)) {
    set_zero(dk_);
    set_zero(dv_);
  }

  // Step i is for block of queries last_ - i. During step i the copies of step i + 3 are in flight, the maxima of step
  // i + 2 are found, step i + 1 is split into parts, step i is multiplied for dk and dv, and step i - 1 for dq.
  __device__ void compute() {
    load_keys();
    copy_step(0);
    copy_step(1);
    find_largest(0);
    __syncthreads();
    split_into_parts(0);
    copy_step(2);
    find_largest(1);
    // Half of the warps multiply for dk and dv first, half last: each scheduler has one warp of each half, so one
    // multiplies while the other does not.
    const bool early = static_cast<int>(threadIdx.x) < kTiling.threads() / 2;
    for (int step = 0; step < steps_; ++step) {
      __syncthreads();  // this step is loaded, and all warps have finished the previous one
      if (threadIdx.x == 0 && step > 1) release_semaphore(semaphore(step - 2));
      if (threadIdx.x < 4) largest(step + 3)[threadIdx.x] = 0;
      if (!early) add_to_gradients(step);
      prepare(step);
      if (step > 0) add_to_dq(step - 1);
      if (early) add_to_gradients(step);
      if (threadIdx.x == kTiling.threads() - 1 && place_in(step) > 0) {
        wait_for_semaphore(semaphore(step), place_in(step));
      }
    }
    __syncthreads();
    if (threadIdx.x == 0 && steps_ > 1) release_semaphore(semaphore(steps_ - 2));
    add_to_dq(steps_ - 1);
    __syncthreads();
    if (threadIdx.x == 0) release_semaphore(semaphore(steps_ - 1));
    write(attention_.dk, dk_, attention_.scale);
    write(attention_.dv, dv_, 1);
  }

 private:
  __device__ __forceinline__ unsigned* semaphore(int step) const {
    const int query_blocks = (attention_.queries + kTiling.rows - 1) / kTiling.rows;
    return attention_.semaphores + static_cast<long long>(matrix_) * query_blocks + (last_ - step);
  }
  // The number of blocks of keys that add to the queries of a step before this one.
  __device__ __forceinline__ int place_in(int step) const {
    return block_ - first_visible_block(first_query(step), attention_.window, kTiling.keys);
  }
  __device__ __forceinline__ int first_query(int step) const { return (last_ - step) * kTiling.rows; }

  // The largest finite magnitudes of a step: of q, of do and of sum(do o).
  __device__ __forceinline__ unsigned* largest(int step) const {
    return reinterpret_cast<unsigned*>(shared_ + kLargest) + step % 8 * 4;
  }
  __device__ __forceinline__ float largest_of(int step, int which) const {
    return __uint_as_float(largest(step)[which]);
  }
  // The same of the block's k and v.
  __device__ __forceinline__ unsigned* largest_keys() const {
    return reinterpret_cast<unsigned*>(shared_ + kLargest) + 8 * 4;
  }
  __device__ __forceinline__ TileScale scale_of_keys(int which) const {
    return TileScale(__uint_as_float(largest_keys()[which]));
  }
  // The scale of ds from its bound m.
  __device__ __forceinline__ TileScale scale_of_ds(int step) const {
    const float largest_v = __uint_as_float(largest_keys()[1]);
    return TileScale(kTiling.width * largest_v * largest_of(step, 1) + largest_of(step, 2));
  }

  // Loads the keys twice through the queries' buffers: first to find the maxima, then to split into parts. If a key is
  // not finite, the log-sum-exp of every query that attends to it is NaN, and so are their gradients. A masked query
  // would get 0 NaN = NaN in dq, so such elements of k become 0.
  __device__ void load_keys() const {
    if (threadIdx.x < kTiling.kBackwardScales) largest(0)[threadIdx.x] = 0;
    const auto* k = first_row<float>(attention_.k, attention_.inner_count, matrix_);
    const auto* v = first_row<float>(attention_.v, attention_.inner_count, matrix_);
    const char* copies = shared_ + kCopies;
    for (int pass = 0; pass < 2; ++pass) {
      __syncthreads();
      for (int row = 0; row < kTiling.keys; row += kTiling.rows) {
        const int key = key_ + row;
        const int left = attention_.keys - key;
        copier_.copy(address_ + kCopies, k + rows_apart(key, attention_.k.row), attention_.k.row, left);
        copier_.copy(address_ + kCopies + Copier::kCopyBytes, v + rows_apart(key, attention_.v.row), attention_.v.row,
                     left);
        end_copies();
        wait_for_copies<0>();
        if (pass == 0) {
          copier_.find_largest(copies, largest_keys());
          copier_.find_largest(copies + Copier::kCopyBytes, largest_keys() + 1);
        } else {
          char* to = shared_ + row * Tile::kRowBytes;
          copier_.template split_into_parts<true>(copies, to + kKTile, scale_of_keys(0).up, kKeyPartBytes);
          copier_.split_into_parts(copies + Copier::kCopyBytes, to + kVTile, scale_of_keys(1).up, kKeyPartBytes);
        }
      }
    }
  }

  __device__ __forceinline__ int copies(int step) const { return kCopies + step % 2 * (2 * Copier::kCopyBytes); }

  // Steps are copied one after another.
  __device__ __forceinline__ void copy_step(int step) {
    if (step < steps_) {
      const int left = attention_.queries - first_query(step);
      const std::uint32_t to = address_ + copies(step);
      copier_.copy(to, q_, attention_.q.row, left);
      copier_.copy(to + Copier::kCopyBytes, do_, attention_.d_o.row, left);
      q_ -= rows_apart(kTiling.rows, attention_.q.row);
      do_ -= rows_apart(kTiling.rows, attention_.d_o.row);
    }
    end_copies();
  }

  // Also loads the log-sum-exp and sum(do o) of the step's queries.
  __device__ __forceinline__ void find_largest(int step) {
    if (step >= steps_) return;
    if (threadIdx.x < kTiling.rows) {
      const int query = first_query(step) + static_cast<int>(threadIdx.x);
      // Queries beyond the end get weight 0.
      next_ = {INFINITY, 0};
      if (query < attention_.queries) {
        const long long at = static_cast<long long>(matrix_) * attention_.queries + query;
        next_ = {attention_.log_sum_exp[at], attention_.products[at]};
      }
      raise_largest(largest(step) + 2, fmaxf(fabsf(finite_or_nan(next_.y)), 0));
    }
    wait_for_copies<1>();
    copier_.find_largest(shared_ + copies(step), largest(step));
    copier_.find_largest(shared_ + copies(step) + Copier::kCopyBytes, largest(step) + 1);
  }

  __device__ __forceinline__ void split_into_parts(int step) {
    if (step >= steps_) return;
    const int stage = step % 2 * (kFp16Parts * kQueryPartBytes);
    copier_.split_into_parts(shared_ + copies(step), shared_ + kQTiles + stage, TileScale(largest_of(step, 0)).up);
    copier_.split_into_parts(shared_ + copies(step) + Copier::kCopyBytes, shared_ + kDoTiles + stage,
                             TileScale(largest_of(step, 1)).up);
    if (threadIdx.x < kTiling.rows) scalars(step)[threadIdx.x] = next_;
  }
  __device__ __forceinline__ float2* scalars(int step) const {
    return reinterpret_cast<float2*>(shared_ + kScalars) + step % 2 * kTiling.rows;
  }

  __device__ __forceinline__ void prepare(int step) {
    split_into_parts(step + 1);
    copy_step(step + 3);
    find_largest(step + 2);
  }

  __device__ __forceinline__ int warp_key() const { return warp_ % kKeyGroups * 16; }
  __device__ __forceinline__ int half() const { return kSplits == 1 ? 0 : warp_ / kKeyGroups; }

  // Adds a step's queries to dk and dv, and stores their ds.
  __device__ __forceinline__ void add_to_gradients(int step) {
    const int column = half() * (kTiling.rows / kSplits);  // this warp's first query within the tile
    const int stage = step % 2 * (kFp16Parts * kQueryPartBytes);
    const int ds_tile = kDsTiles + step % 2 * (kFp16Parts * kScorePartBytes);
    const float q_unit = TileScale(largest_of(step, 0)).down;
    const float do_unit = TileScale(largest_of(step, 1)).down;
    const TileScale ds_scale = scale_of_ds(step);

    float p[kTiles][4], ds[kTiles][4];
    compute_weights(step, column, q_unit, p);
    compute_score_gradients(step, column, do_unit, ds_scale.up, p, ds);
    PartsOfOperand weights[kQuerySteps], gradients[kQuerySteps];
#pragma unroll
    for (int i = 0; i < kTiles / 2; ++i) {
      split_operand(weights[i], p[2 * i], p[2 * i + 1]);
      split_operand(gradients[i], ds[2 * i], ds[2 * i + 1]);
      store_operand(ds_tile, column / 8 + 2 * i, gradients[i]);
      if (kSplits > 1) store_operand(kPTile, column / 8 + 2 * i, weights[i]);
    }
    if constexpr (kSplits > 1) {
      meet_anywhere(1 + warp_ % kKeyGroups, 64);  // one of the warps is early, the other one late
      load_operands(kPTile, weights);
      load_operands(ds_tile, gradients);
    }
    add_products(weights, kDoTiles + stage, do_unit / (1 << kScaledBits), dv_);
    add_products(gradients, kQTiles + stage, q_unit * ds_scale.down, dk_);
  }

  // factor k q^T or factor v do^T for this warp's keys.
  __device__ __forceinline__ void multiply_keys(int keys, int queries, float factor,
                                                float (&products)[kTiles][4]) const {
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
        for (int n = 0; n < kTiles; n += 2) load_parts(q[n / 2], of_queries.at(8 * n, 2 * step), kQueryPartBytes);
        sums.multiply_exchanged(k, q);
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          products[n][i] = begin == 0 ? sums(n, i) * factor : fmaf(sums(n, i), factor, products[n][i]);
        }
      }
    }
  }

  // exp(scale s - log-sum-exp) times 2^kScaledBits, and 0 where masked.
  __device__ __forceinline__ void compute_weights(int step, int column, float q_unit, float (&p)[kTiles][4]) const {
    const int stage = step % 2 * (kFp16Parts * kQueryPartBytes);
    // The same order of factors as in the forward kernel, for the same bits.
    const float factor = q_unit * scale_of_keys(0).down * attention_.scale;
    multiply_keys(kKTile, kQTiles + stage + column * Tile::kRowBytes, factor, p);
    if (attention_.soft_cap > 0) cap(p);
    const float2* of_queries = scalars(step) + column + lane_ % 4 * 2;
    const int first_key = key_ + warp_key();
    const int query = first_query(step) + column;
    const bool masks = first_key + 16 > attention_.keys || (attention_.causal && first_key + 15 > query) ||
                       (attention_.window > 0 && first_key < query + 8 * kTiles - attention_.window);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 pair = *reinterpret_cast<const float4*>(of_queries + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[n][i] = exp2_fast(fmaf(p[n][i] - (i % 2 == 0 ? pair.x : pair.z), kLog2E, kScaledBits));
        if (masks) {
          const int key = first_key + lane_ / 4 + i / 2 * 8;
          const int at = query + 8 * n + lane_ % 4 * 2 + i % 2;
          if (key >= attention_.keys || (attention_.causal && key > at) ||
              (attention_.window > 0 && key <= at - attention_.window)) {
            p[n][i] = 0;
          }
        }
      }
    }
  }

  __device__ __forceinline__ void cap(float (&scores)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = attention_.soft_cap * tanhf(scores[n][i] / attention_.soft_cap);
    }
  }

  // Multiplies by the derivative of the cap, 1 - (s / cap)^2, with the score s = log p + log-sum-exp.
  __device__ __forceinline__ void multiply_by_slope(const float (&p)[kTiles][4], const float2* of_queries,
                                                    float (&ds)[kTiles][4]) const {
    const float unit = 1 / attention_.soft_cap;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 pair = *reinterpret_cast<const float4*>(of_queries + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float weight = p[n][i] / (1 << kScaledBits);
        const float t = (logf(weight) + (i % 2 == 0 ? pair.x : pair.z)) * unit;
        ds[n][i] = weight == 0 ? 0 : ds[n][i] * (1 - t * t);
      }
    }
  }

  // p (do v - sum(do o)) times `scale`.
  __device__ __forceinline__ void compute_score_gradients(int step, int column, float do_unit, float scale,
                                                          const float (&p)[kTiles][4], float (&ds)[kTiles][4]) const {
    const int stage = step % 2 * (kFp16Parts * kQueryPartBytes);
    const float factor = do_unit * scale_of_keys(1).down;
    multiply_keys(kVTile, kDoTiles + stage + column * Tile::kRowBytes, factor, ds);
    const float2* of_queries = scalars(step) + column + lane_ % 4 * 2;
    const float of_p = scale / (1 << kScaledBits);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 pair = *reinterpret_cast<const float4*>(of_queries + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) ds[n][i] = p[n][i] * ((ds[n][i] - (i % 2 == 0 ? pair.y : pair.w)) * of_p);
    }
    if (attention_.soft_cap > 0) multiply_by_slope(p, of_queries, ds);
  }

  // The operand has 16 keys as rows, and two chunks of queries as columns.
  __device__ __forceinline__ void store_operand(int tile, int chunk, const PartsOfOperand& operand) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = tile + ScoreTile::offset(warp_key() + lane_ / 4 + i % 2 * 8, chunk + i / 2) + lane_ % 4 * 4;
#pragma unroll
      for (int part = 0; part < kFp16Parts; ++part) {
        *reinterpret_cast<unsigned*>(shared_ + at + part * kScorePartBytes) = operand[part][i];
      }
    }
  }
  __device__ __forceinline__ void load_operands(int tile, PartsOfOperand (&operands)[kQuerySteps]) const {
    const std::uint32_t first_row = address_ + tile + warp_key() * ScoreTile::kRowBytes;
#pragma unroll
    for (int step = 0; step < kQuerySteps; ++step) {
      load_parts(operands[step], first_row + ScoreTile::offset(lane_ % 16, 2 * step + lane_ / 16), kScorePartBytes);
    }
  }

  // dv += p^T do or dk += ds^T q, for this warp's keys and its slice of the width.
  __device__ __forceinline__ void add_products(const PartsOfOperand (&operands)[kQuerySteps], int tile, float unit,
                                               float (&gradients)[kGradientTiles][4]) const {
    const Addresses addresses = Addresses::of_first_operand(address_ + tile, half() * kGradientTiles);
#pragma unroll
    for (int first = 0; first < kGradientTiles; first += kTogether) {
      SplitSums<kTogether> sums;
#pragma unroll
      for (int step = 0; step < kQuerySteps; ++step) {
        PartsOfOperand rows[kTogether / 2];
#pragma unroll
        for (int n = 0; n < kTogether; n += 2)
          load_parts_transposed(rows[n / 2], addresses.at(16 * step, first + n), kQueryPartBytes);
        sums.multiply(operands[step], rows);
      }
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& gradient = gradients[first + n][i];
          gradient = fmaf(sums(n, i), unit, gradient);
        }
      }
    }
  }

  // Adds scale ds k to dq, for 16 queries and a slice of the width.
  __device__ __forceinline__ void add_to_dq(int step) const {
    const int query = first_query(step);
    const float factor = scale_of_ds(step).down * scale_of_keys(0).down * attention_.scale;
    // A transposed first operand is stored like a second one: rows are keys, columns are queries.
    const int chunk = warp_ % kDqGroups * 2;
    const int tile = warp_ / kDqGroups * kDqTiles;
    const int lane_chunk = chunk + lane_ / 8 % 2;
    const std::uint32_t scores = address_ + kDsTiles + step % 2 * (kFp16Parts * kScorePartBytes) +
                                 ScoreTile::offset(lane_ / 16 * 8 + lane_ % 8, lane_chunk);
    const Addresses keys = Addresses::of_first_operand(address_ + kKTile, tile);
    const bool is_first = place_in(step) == 0;
    float dq[kDqTiles][4];
#pragma unroll
    for (int begin = 0; begin < kTiling.keys / 16; begin += kStepsSummed) {
      SplitSums<kDqTiles> sums;
#pragma unroll
      for (int at = begin; at < begin + kStepsSummed; ++at) {
        PartsOfOperand ds;
        load_parts_transposed(ds, scores + at * 16 * ScoreTile::kRowBytes, kScorePartBytes);
        PartsOfOperand rows[kDqTiles / 2];
#pragma unroll
        for (int n = 0; n < kDqTiles; n += 2) load_parts_transposed(rows[n / 2], keys.at(16 * at, n), kKeyPartBytes);
        sums.multiply(ds, rows);
      }
#pragma unroll
      for (int n = 0; n < kDqTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          dq[n][i] = begin == 0 ? sums(n, i) * factor : fmaf(sums(n, i), factor, dq[n][i]);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = query + chunk * 8 + half * 8 + lane_ / 4;
      if (row >= attention_.queries) continue;
      float* to = dq_ + rows_apart(row, attention_.dq.row) + lane_ % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDqTiles; ++n) {
        const int column = (tile + n) * 8;
        if (column + lane_ % 4 * 2 >= attention_.width) break;
        const float x = dq[n][2 * half];
        const float y = dq[n][2 * half + 1];
        if (is_first) {
          *reinterpret_cast<float2*>(to + column) = {x, y};
        } else {
          add_pair(to + column, x, y);
        }
      }
    }
  }

  __device__ __forceinline__ void write(const AttentionResult& gradient, const float (&sums)[kGradientTiles][4],
                                        float scale) const {
    float* rows = first_row<float>(gradient, attention_.inner_count, matrix_);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = key_ + warp_key() + lane_ / 4 + 8 * i;
      if (row >= attention_.keys) continue;
      float* to = rows + rows_apart(row, gradient.row);
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
  int key_;  // the first key of the block
  int last_, steps_;
  char* shared_;
  std::uint32_t address_;
  const float* q_;  // the rows of the next step to copy
  const float* do_;
  float* dq_;
  float2 next_ = {0, 0};  // log-sum-exp and sum(do o) of this thread's query in the next step
  float dk_[kGradientTiles][4];
  float dv_[kGradientTiles][4];
};

template <SplitAttentionTiling kTiling>
__device__ __forceinline__ void differentiate(const AttentionBackward& attention) {
  char* const shared = shared_of_launch();
  using Block = SplitBackwardBlock<kTiling>;
  const unsigned number = take_number(attention.started, gridDim.x, shared_address(shared) + Block::kDsTiles);
  const auto batch = static_cast<unsigned>(attention.batch);
  const unsigned block = number / batch;
  Block(attention, static_cast<int>(block), static_cast<int>(number - block * batch), shared).compute();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    attention_backward_prepare_split(const __grid_constant__ AttentionBackward attention, int query_blocks) {
  prepare_backward<float>(attention, query_blocks);
}

// The kernel of one row of variants.h.
#define RIDGEPOINT_SPLIT_ATTENTION(entry)                                                       \
  constexpr SplitAttentionTiling tiling_of_##entry = tiling_of(kSplitBackwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                  \
      entry(const __grid_constant__ AttentionBackward attention) {                              \
    differentiate<tiling_of_##entry>(attention);                                                \
  }

RIDGEPOINT_SPLIT_ATTENTION(attention_backward_split_64)
RIDGEPOINT_SPLIT_ATTENTION(attention_backward_split_128)

}  // namespace ridgepoint::cuda
