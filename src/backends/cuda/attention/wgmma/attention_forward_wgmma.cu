// Flash attention for bf16 or fp16 operands on Hopper, after the pipeline of FlashAttention-3 (Shah et al. 2024); the
// arithmetic is that of attention_forward.cu. Head sizes up to `width`, a multiple of 8. A scale must be positive.
//
//   load warp      k(n-1) q | k(n-2) v(n-1) | k(n-3) v(n-2) | ...      copy engine -> shared memory, two stages each
//   warpgroup 0    s(n-1)   | s(n-2)  o += p(n-1) v(n-1) | ...         tensor cores
//                           |         softmax of s(n-2), while the other warpgroups' products run
//   warpgroup 1             the same for its own 64 queries, half a step later
//
// Each step issues the scores of the next keys and then the values of the current ones, and computes exponentials while
// the values are multiplied. Named barriers 1 and on let one warpgroup at a time issue its products (take_turn), so the
// exponentials of one run under the products of another. `written` barriers count the copies of a stage, `free`
// barriers the warps that have read it. Keys are taken from the last to the first, so that steps with masked positions
// come first. With a window a block begins at the last key that its queries see and ends at the first one.
// grid (at most one block for each multiprocessor), block (128 x (warpgroups + 1)), shared memory
// forward_shared_bytes(). A block takes tiles of queries from a counter, those that see most keys first.
//
// *_short_*: four warpgroups and steps of 64 keys, so that more warps hide what begins and ends a tile. A warpgroup
// skips the steps that a causal mask hides from all of its queries.
// *_streams_*: a thread block takes two streams of tiles, each with two warpgroups, a loading warp and stages of its
// own, so one multiplies while the other begins or ends a tile. Nobody takes turns. The tiles of the last heads are
// taken longest first, so that all thread blocks end together.
// *_few_*: three warpgroups have the same 64 queries, and each takes every third step of keys. The first one adds up.
// *_divided_*: for few or unequal tiles. Blocks have as many steps each, of consecutive tiles (load_share), and leave
// parts of tiles. *_combine_*, in attention_forward_parts.cuh, puts them together.
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/attention/wgmma/attention_forward_loads.cuh"
#include "backends/cuda/attention/wgmma/attention_forward_parts.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {
namespace {

// A warpgroup with 64 queries of each tile.
template <class Element, HopperForwardTiling kTiling>
class QueryGroup {
  using Scores = WarpgroupProduct<Element, kTiling.keys>;
  using Values = WarpgroupProduct<Element, kTiling.width>;
  static constexpr int kScoreColumns = kTiling.keys / 8;
  static constexpr int kValueColumns = kTiling.width / 8;
  static constexpr int kKeySteps = kTiling.keys / 16;
  static constexpr int kKeyGroups = kTiling.key_groups;
  static constexpr float kLargestExponent = 8;
  static constexpr bool kTakesTurns = kTiling.takes_turns();

 public:
  __device__ QueryGroup(const HopperAttentionForward& attention, const SharedTiles<kTiling>& shared,
                        Barriers<kTiling>& barriers, int group, int thread)
      : attention_(attention), shared_(shared), barriers_(barriers), group_(group), thread_(thread) {
    pass_first_turns();
  }

  __device__ __forceinline__ void compute() {
    for (int number = 0;; ++number) {
      q_stage_ = number % kTiling.query_stages;
      barriers_.q_written[q_stage_].wait(number / kTiling.query_stages & 1);
      const Tile<kTiling> tile = barriers_.tiles[q_stage_];
      if (tile.matrix < 0) return;
      attend(tile);
      if constexpr (kKeyGroups > 1) merge();
      if (row_group() == group_) write(tile);
    }
  }

 private:
  __device__ __forceinline__ void attend(const Tile<kTiling>& tile) {
    maximum_[0] = maximum_[1] = -INFINITY;
    sum_[0] = sum_[1] = 0;
    float scores[kTiling.keys / 2];
    unsigned weights[kKeySteps][4];
    float factor[2];

    int at = position_ + key_group();  // of k; that of v is one step behind
    int step = tile.steps - 1 - key_group();
    position_ += tile.steps - tile.first_step;
    if (kKeyGroups > 1 && step < tile.first_step) return attend_to_nothing();
    if constexpr (kTiling.rows > kTiling.keys && !kTiling.divided) skip_hidden_steps(tile, step, at);
    {
      const Stage<kTiling> k(at);
      wait_for_copy(barriers_.k_written, barriers_.k_free, k);
      begin_products();
      multiply_keys(scores, k.stage);
      end_products();
      wait_for_products<0>();
      release(barriers_.k_free[k.stage]);
    }
    if (step - kKeyGroups < tile.first_step) release(barriers_.q_free[q_stage_]);
    cap_if_needed(scores);
    mask_if_needed(tile, step, scores);
    compute_exponentials(scores, factor);
    pack_weights(scores, weights);
    bool keep = false;
    for (step -= kKeyGroups; step >= tile.first_step; step -= kKeyGroups) {
      const Stage<kTiling> k(at + kKeyGroups), v(at);
      wait_for_copy(barriers_.k_written, barriers_.k_free, k);
      take_turn();
      begin_products();
      multiply_keys(scores, k.stage);
      end_products();
      wait_for_copy(barriers_.v_written, barriers_.v_free, v);
      begin_products();
      multiply_values(weights, v.stage, keep);
      end_products();
      keep = true;
      pass_turn();
      wait_for_products<1>();
      release(barriers_.k_free[k.stage]);
      if (step - kKeyGroups < tile.first_step) release(barriers_.q_free[q_stage_]);
      cap_if_needed(scores);
      mask_if_needed(tile, step, scores);
      const bool changed = compute_exponentials(scores, factor);
      wait_for_products<0>();
      release(barriers_.v_free[v.stage]);
      at += kKeyGroups;
      if (__any_sync(kAllLanes, changed)) rescale(factor);
      pack_weights(scores, weights);
    }
    const Stage<kTiling> v(at);
    wait_for_copy(barriers_.v_written, barriers_.v_free, v);
    begin_products();
    multiply_values(weights, v.stage, keep);
    end_products();
    wait_for_products<0>();
    release(barriers_.v_free[v.stage]);
  }

  // If another warpgroup had the stage before, its copy may still be on the way, because copies end in any order. The
  // parity of the phase before that one is the same as of this one, so that other one must be done with the stage.
  static __device__ __forceinline__ void wait_for_copy(SharedBarrier (&written)[kTiling.key_stages],
                                                       SharedBarrier (&freed)[kTiling.key_stages],
                                                       const Stage<kTiling>& at) {
    if constexpr (kTiling.key_stages % kKeyGroups != 0) freed[at.stage].wait(at.parity ^ 1);
    written[at.stage].wait(at.parity);
  }

  // The first steps of a causal tile may be hidden from all queries of this warpgroup.
  __device__ __forceinline__ void skip_hidden_steps(const Tile<kTiling>& tile, int& step, int& at) {
    for (; attention_.causal && step * kTiling.keys > tile.first_query + group_ * 64 + 63; --step, ++at) {
      const Stage<kTiling> hidden(at);
      barriers_.k_written[hidden.stage].wait(hidden.parity);
      release(barriers_.k_free[hidden.stage]);
      barriers_.v_written[hidden.stage].wait(hidden.parity);
      release(barriers_.v_free[hidden.stage]);
      take_turn();
      pass_turn();
    }
  }

  // A warpgroup without a step in this tile.
  __device__ __forceinline__ void attend_to_nothing() {
    release(barriers_.q_free[q_stage_]);
#pragma unroll
    for (int i = 0; i < kTiling.width / 2; ++i) values_[i] = 0;
  }

  // With several warpgroups for the same queries, the first one gets the sums of the others, always in this order.
  __device__ __forceinline__ void merge() {
    if (group_ > 0) {
      put(group_ - 1, 0, {maximum_[0], maximum_[1], sum_[0], sum_[1]});
#pragma unroll
      for (int i = 0; i < kValueColumns; ++i) {
        put(group_ - 1, i + 1, {values_[4 * i], values_[4 * i + 1], values_[4 * i + 2], values_[4 * i + 3]});
      }
    }
    meet(1, kTiling.groups() * kWarpgroupThreads);
    if (group_ == 0) {
#pragma unroll
      for (int other = 0; other < kKeyGroups - 1; ++other) add(other);
    }
    meet(2, kTiling.groups() * kWarpgroupThreads);
  }
  __device__ __forceinline__ std::uint32_t merged(int other, int number) const {
    return shared_.merged() + ((other * (kValueColumns + 1) + number) * kWarpgroupThreads + thread_) * 16;
  }
  __device__ __forceinline__ void put(int other, int number, const float4& x) const {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(merged(other, number)), "f"(x.x), "f"(x.y), "f"(x.z),
                 "f"(x.w)
                 : "memory");
  }
  __device__ __forceinline__ float4 get(int other, int number) const {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(merged(other, number))
                 : "memory");
    return x;
  }
  __device__ __forceinline__ void add(int other) {
    const float4 rows = get(other, 0);
    const float scale = this->scale() * kLog2E;
    float own[2], factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float their = half == 0 ? rows.x : rows.y;
      const float maximum = fmaxf(maximum_[half], their);
      const float shift = maximum == -INFINITY ? 0 : maximum * scale;
      own[half] = exp2_fast(maximum_[half] * scale - shift);
      factor[half] = exp2_fast(their * scale - shift);
      maximum_[half] = maximum;
      sum_[half] = sum_[half] * own[half] + (half == 0 ? rows.z : rows.w) * factor[half];
    }
#pragma unroll
    for (int i = 0; i < kValueColumns; ++i) {
      const float4 x = get(other, i + 1);
      values_[4 * i] = values_[4 * i] * own[0] + x.x * factor[0];
      values_[4 * i + 1] = values_[4 * i + 1] * own[0] + x.y * factor[0];
      values_[4 * i + 2] = values_[4 * i + 2] * own[1] + x.z * factor[1];
      values_[4 * i + 3] = values_[4 * i + 3] * own[1] + x.w * factor[1];
    }
  }

  // Of these, one warpgroup at a time issues products. Before its first turn, a warpgroup waits for those before it.
  __device__ __forceinline__ void pass_first_turns() const {
#pragma unroll
    for (int other = 0; other < kTiling.rows / 64; ++other) {
      if (kTakesTurns && other < group_) allow(other);
    }
  }
  __device__ __forceinline__ void take_turn() const {
    if constexpr (kTakesTurns) meet(1 + group_, kTiling.groups() * kWarpgroupThreads);
  }
  __device__ __forceinline__ void pass_turn() const {
#pragma unroll
    for (int other = 0; other < kTiling.rows / 64; ++other) {
      if (kTakesTurns && other != group_) allow(other);
    }
  }
  static __device__ __forceinline__ void allow(int group) {
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "n"(kTiling.groups() * kWarpgroupThreads) : "memory");
  }

  __device__ __forceinline__ void release(SharedBarrier& barrier) const {
    if (thread_ % 32 == 0) barrier.arrive();
  }

  __device__ __forceinline__ void multiply_keys(float (&scores)[kTiling.keys / 2], int stage) const {
    const std::uint64_t q = tile_descriptor(shared_.q(q_stage_) + row_group() * (64 * kLineBytes), 0);
    const std::uint64_t k = tile_descriptor(shared_.k(stage), 0);
#pragma unroll
    for (int step = 0; step < kTiling.width / 16; ++step) {
      const int panel = step / 4;
      const int within = step % 4 * kDescriptorStep<true>;
      Scores::template add<Contiguous::k, Contiguous::k>(scores, q + panel * (kTiling.rows * kLineBytes >> 4) + within,
                                                         k + panel * (kTiling.keys * kLineBytes >> 4) + within,
                                                         step > 0);
    }
  }

  __device__ __forceinline__ void multiply_values(const unsigned (&weights)[kKeySteps][4], int stage, bool keep) {
    const std::uint64_t v = tile_descriptor(shared_.v(stage), kTiling.keys * kLineBytes);
#pragma unroll
    for (int step = 0; step < kKeySteps; ++step) {
      Values::template add<Contiguous::other>(values_, weights[step], v + step * kDescriptorStep<false>,
                                              keep || step > 0);
    }
  }

  __device__ __forceinline__ int row_group() const { return kKeyGroups > 1 ? 0 : group_; }
  __device__ __forceinline__ int key_group() const { return kKeyGroups > 1 ? group_ : 0; }

  // The first of this thread's rows; the other one is 8 rows further.
  __device__ __forceinline__ int row_in_tile() const { return row_group() * 64 + thread_ / 32 * 16 + thread_ % 32 / 4; }

  __device__ __forceinline__ void mask_if_needed(const Tile<kTiling>& tile, int step,
                                                 float (&scores)[kTiling.keys / 2]) const {
    const int first_key = step * kTiling.keys;
    const int first_query = tile.first_query + row_group() * 64;
    const bool hides_first = has_window(kTiling.scores) && window_hides(first_key, first_query + 63, attention_.window);
    if (first_key + kTiling.keys <= attention_.keys &&
        (!attention_.causal || first_key + kTiling.keys <= first_query + 1) && !hides_first) {
      return;
    }
    const int row = tile.first_query + row_in_tile();
    const int column = first_key + thread_ % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Columns from `end` on are masked.
      const int end = (attention_.causal ? min(attention_.keys, row + 8 * half + 1) : attention_.keys) - column;
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
        if (8 * j >= end) scores[4 * j + 2 * half] = -INFINITY;
        if (8 * j + 1 >= end) scores[4 * j + 2 * half + 1] = -INFINITY;
      }
      if constexpr (has_window(kTiling.scores)) {
        // Columns before `begin` are masked.
        const int begin = row + 8 * half - attention_.window + 1 - column;
#pragma unroll
        for (int j = 0; j < kScoreColumns; ++j) {
          if (8 * j < begin) scores[4 * j + 2 * half] = -INFINITY;
          if (8 * j + 1 < begin) scores[4 * j + 2 * half + 1] = -INFINITY;
        }
      }
    }
  }

  // With a soft cap, scores become tanh(scale s / cap): the cap is then their scale.
  __device__ __forceinline__ void cap_if_needed(float (&scores)[kTiling.keys / 2]) const {
    if constexpr (has_soft_cap(kTiling.scores)) {
#pragma unroll
      for (int i = 0; i < kTiling.keys / 2; ++i) scores[i] = tanh_fast(attention_.tanh_scale * scores[i]);
    }
  }
  __device__ __forceinline__ float scale() const {
    return has_soft_cap(kTiling.scores) ? attention_.soft_cap : attention_.scale;
  }

  // Scores become exponentials of their difference from `maximum_`: the maximum of a row when its sums were last
  // rescaled, which they are when an exponential would exceed 2^kLargestExponent. Returns whether that of a row has
  // changed; `factor` then rescales its sums.
  __device__ __forceinline__ bool compute_exponentials(float (&scores)[kTiling.keys / 2], float (&factor)[2]) {
    const float scale = this->scale() * kLog2E;
    bool changed = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = maximum_[half];
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
        maximum = fmaxf(maximum, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
      }
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 2));
      if (!((maximum - maximum_[half]) * scale > kLargestExponent)) maximum = maximum_[half];
      const float shift = maximum == -INFINITY ? 0 : maximum * scale;
      // Of rounded products both, so it is 1 while the maximum is the same: sums are then not rescaled, but `sum_` is.
      factor[half] = exp2_fast(__fmul_rn(maximum_[half], scale) - shift);
      changed |= maximum != maximum_[half];
      maximum_[half] = maximum;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[4 * j + 2 * half + i];
          score = exp2_fast(score * scale - shift);
          sum += score;
        }
      }
      sum_[half] = sum_[half] * factor[half] + sum;
    }
    return changed;
  }

  __device__ __forceinline__ void rescale(const float (&factor)[2]) {
#pragma unroll
    for (int j = 0; j < kValueColumns; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) values_[4 * j + i] *= factor[i / 2];
    }
  }

  static __device__ __forceinline__ void pack_weights(const float (&scores)[kTiling.keys / 2],
                                                      unsigned (&weights)[kKeySteps][4]) {
#pragma unroll
    for (int i = 0; i < kTiling.keys / 4; ++i) weights[i / 4][i % 4] = pack<Element>(scores[2 * i], scores[2 * i + 1]);
  }

  __device__ __forceinline__ void write(const Tile<kTiling>& tile) {
    const int upper = tile.first_query + row_in_tile();
    const bool is_part = kTiling.divided && tile.part >= 0;
    auto* matrix = first_row<Element>(attention_.o, attention_.inner_count, tile.matrix);
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const int row = upper + 8 * half;
      const bool exists = row < attention_.queries;
      float* log_sum_exp =
          is_part ? attention_.part_log_sum_exp + static_cast<long long>(tile.part) * kTiling.rows - tile.first_query
                  : attention_.log_sum_exp + static_cast<long long>(tile.matrix) * attention_.queries;
      if (thread_ % 4 == 0 && exists) log_sum_exp[row] = maximum_[half] * scale() + logf(sum);
      factor[half] = is_part && sum == 0 ? 0 : 1 / sum;
      if (is_part) continue;
      write_row<kTiling.width>(matrix + rows_apart(row, attention_.o.row), values_, factor[half], half,
                               exists ? attention_.width : 0);
    }
    if (is_part) store(tile, factor);
  }

  // In the order of the registers.
  __device__ __forceinline__ void store(const Tile<kTiling>& tile, const float (&factor)[2]) const {
    const auto at = static_cast<std::size_t>(tile.part * kTiling.groups() + group_) * (64 * kTiling.width);
    float* to = attention_.part_values + at + 4 * thread_;
#pragma unroll
    for (int i = 0; i < kValueColumns; ++i) {
      *reinterpret_cast<float4*>(to + i * (4 * kWarpgroupThreads)) = {
          values_[4 * i] * factor[0], values_[4 * i + 1] * factor[0], values_[4 * i + 2] * factor[1],
          values_[4 * i + 3] * factor[1]};
    }
  }

  const HopperAttentionForward& attention_;
  SharedTiles<kTiling> shared_;
  Barriers<kTiling>& barriers_;
  int group_, thread_;
  int q_stage_ = 0;
  int position_ = 0;  // of the first step of the next tile, in the rings of k and v
  float maximum_[2];
  float sum_[2];  // over this thread's columns
  float values_[kTiling.width / 2];
};

template <class Element, HopperForwardTiling kTiling>
__device__ __forceinline__ void attend(const HopperAttentionForward& attention) {
  extern __shared__ char shared[];
  __shared__ Barriers<kTiling> barriers[kTiling.streams];
  constexpr int kGroups = kTiling.streams * kTiling.groups();
  const std::uint32_t address = shared_address(shared);
  const SharedTiles<kTiling> tiles{(address + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    constexpr int kReaders = kTiling.groups() * kWarpsOfGroup;
    for (Barriers<kTiling>& stream : barriers) {
      for (int stage = 0; stage < kTiling.query_stages; ++stage) {
        stream.q_written[stage].initialise(1);
        stream.q_free[stage].initialise(kReaders);
      }
      for (int stage = 0; stage < kTiling.key_stages; ++stage) {
        stream.k_written[stage].initialise(1);
        stream.v_written[stage].initialise(1);
        stream.k_free[stage].initialise(kReaders / kTiling.key_groups);
        stream.v_free[stage].initialise(kReaders / kTiling.key_groups);
      }
    }
    publish_barriers();
  }
  __syncthreads();
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  // A multiprocessor has 65,536 registers.
  if (group == kGroups) {
    release_registers<kGroups >= 3 ? 32 : 40>();
    if constexpr (kTiling.divided) {
      if (threadIdx.x % kWarpgroupThreads < kWarpLanes) load_share<kTiling>(attention, tiles, barriers[0]);
    } else if (const int stream = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpLanes;
               stream < kTiling.streams && threadIdx.x % kWarpLanes == 0) {
      load_tiles<kTiling>(attention, {tiles.first + stream * kTiling.stream_bytes()}, barriers[stream], stream);
    }
  } else {
    acquire_registers<kGroups == 4 ? 112 : kGroups == 3 ? 160 : 232>();
    const int stream = group / kTiling.groups();
    const SharedTiles<kTiling> of_stream{tiles.first + stream * kTiling.stream_bytes()};
    QueryGroup<Element, kTiling>(attention, of_stream, barriers[stream], group - stream * kTiling.groups(),
                                 static_cast<int>(threadIdx.x) % kWarpgroupThreads)
        .compute();
  }
}

}  // namespace

// The kernel of one row of hopper_variants.h, and that after it where tiles are divided.
#define RIDGEPOINT_ATTENTION(entry, type)                                                      \
  constexpr HopperForwardTiling tiling_of_##entry = tiling_of(kHopperForwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                 \
      entry(const __grid_constant__ HopperAttentionForward attention) {                        \
    attend<type, tiling_of_##entry>(attention);                                                \
  }
#define RIDGEPOINT_COMBINE(combined, entry, type)                                      \
  extern "C" __global__ void __launch_bounds__(kWarpgroupThreads)                      \
      combined(const __grid_constant__ HopperAttentionForward attention, int blocks) { \
    combine<type, tiling_of_##entry>(attention, blocks);                               \
  }
// Of every head size.
#define RIDGEPOINT_ATTENTION_OF_WIDTH(element, type, width)                       \
  RIDGEPOINT_ATTENTION(attention_forward_hopper_##element##_##width, type)        \
  RIDGEPOINT_ATTENTION(attention_forward_hopper_window_##element##_##width, type) \
  RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_##element##_##width, type)
// Of those up to 128.
#define RIDGEPOINT_ATTENTION_DIVIDED(element, type, width)                         \
  RIDGEPOINT_ATTENTION(attention_forward_hopper_divided_##element##_##width, type) \
  RIDGEPOINT_COMBINE(attention_forward_hopper_combine_##element##_##width,         \
                     attention_forward_hopper_divided_##element##_##width, type)

RIDGEPOINT_ATTENTION(attention_forward_hopper_few_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_short_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_streams_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 64)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 96)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 128)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 256)
RIDGEPOINT_ATTENTION_DIVIDED(bf16, __nv_bfloat16, 64)
RIDGEPOINT_ATTENTION_DIVIDED(bf16, __nv_bfloat16, 96)
RIDGEPOINT_ATTENTION_DIVIDED(bf16, __nv_bfloat16, 128)
RIDGEPOINT_ATTENTION(attention_forward_hopper_few_fp16_64, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_short_fp16_64, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_streams_fp16_64, __half)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 64)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 96)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 128)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 256)
RIDGEPOINT_ATTENTION_DIVIDED(fp16, __half, 64)
RIDGEPOINT_ATTENTION_DIVIDED(fp16, __half, 96)
RIDGEPOINT_ATTENTION_DIVIDED(fp16, __half, 128)

}  // namespace ridgepoint::cuda
