// AdamW over many tensors in one launch, in place (the formula is in src/ops/rules/optimizer/updates.cpp), fp32. A
// block updates one chunk of one tensor, which it finds in the table that is the kernel's parameter. Gradients may be
// bf16 or fp16. A low copy of the new parameter is written where the table asks for it, or parameters are read and
// written in two halves (core/types/halves.h). grid (chunks of all tensors), block (256).
//
// Bound by memory: 28 bytes for each element in fp32, also in halves. Gradients, moments and low halves are not read again before the next step, so they use streaming
// loads and stores; parameters may stay in the cache for the next forward.
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/tensor_table.cuh"
#include "backends/cuda/kernels/adamw/parameters.h"
#include "core/types/halves.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kWidth = 4;
static_assert(AdamWTable::kChunkElements == kBlockThreads * kWidth);

// Factors that depend on the step and the learning rate only. 1 - beta^step is -expm1(step ln beta), which is accurate
// at early steps.
struct StepFactors {
  float rate;
  float decay;
  float spread;
  float gradient;  // factor of the gradients
};

__device__ __forceinline__ StepFactors step_factors(const AdamWTable& table) {
  const AdamWConstants& constants = table.constants;
  const float step = *table.step;
  const bool is_scheduled = table.learning_rate != nullptr;
  const float rate = is_scheduled ? *table.learning_rate : constants.learning_rate;
  return {rate / -expm1f(step * constants.log_beta1),
          is_scheduled ? rate * -constants.weight_decay + 1.0F : constants.decay,
          rsqrtf(-expm1f(step * constants.log_beta2)),
          table.gradient_factor == nullptr ? 1.0F : *table.gradient_factor};
}

__device__ __forceinline__ void update(const AdamWConstants& constants, const StepFactors& factors, float gradient,
                                       float& parameter, float& first, float& second) {
  gradient *= factors.gradient;
  first = first * constants.beta1 + gradient * constants.one_minus_beta1;
  second = second * constants.beta2 + gradient * gradient * constants.one_minus_beta2;
  const float divisor = sqrtf(second) * factors.spread + constants.epsilon;
  parameter = parameter * factors.decay - factors.rate * (first / divisor);
}

__device__ __forceinline__ float4 load_once(const float* from) { return __ldcs(reinterpret_cast<const float4*>(from)); }
template <typename Low>
__device__ __forceinline__ float4 load_once(const Low* from) {
  const uint2 bits = __ldcs(reinterpret_cast<const uint2*>(from));
  const auto four = *reinterpret_cast<const Packet<Low, kWidth>*>(&bits);
  return {static_cast<float>(four.values[0]), static_cast<float>(four.values[1]), static_cast<float>(four.values[2]),
          static_cast<float>(four.values[3])};
}

template <typename Low>
__device__ __forceinline__ void store_copy(void* copy, unsigned at, float4 value) {
  const Packet<Low, kWidth> four{{Low(value.x), Low(value.y), Low(value.z), Low(value.w)}};
  *reinterpret_cast<Packet<Low, kWidth>*>(static_cast<Low*>(copy) + at) = four;
}

__device__ __forceinline__ float joined(std::uint32_t rounded, std::uint32_t low) {
  return __uint_as_float(join_halves(static_cast<std::uint16_t>(rounded), static_cast<std::uint16_t>(low)));
}
// round_away_to_bf16() of both: two instructions less than by itself.
__device__ __forceinline__ std::uint32_t rounded_pair(float a, float b) {
  const auto bits = [](float x) { return x != x ? __float_as_uint(x) | 0x400000U : __float_as_uint(x) + 0x8000U; };
  return __byte_perm(bits(a), bits(b), 0x7632);
}
__device__ __forceinline__ std::uint32_t low_pair(float a, float b) {
  return __byte_perm(__float_as_uint(a), __float_as_uint(b), 0x5410);
}

// The number itself, or where it lies between two bf16 numbers, one that rounds away from zero.
__device__ __forceinline__ float off_tie(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  return __uint_as_float((bits & 0xFFFFU) == 0x8000U ? bits + 1 : bits);
}

__device__ __forceinline__ void store_copy_of_one(void* copy, AdamWElement type, int at, float value) {
  if (type == AdamWElement::bf16) {
    static_cast<__nv_bfloat16*>(copy)[at] = __nv_bfloat16(off_tie(value));
  } else {
    static_cast<__half*>(copy)[at] = __half(value);
  }
}

// The parameters of a chunk in fp32.
struct WholeParameters {
  float* values;
  char* copy;  // null: none
  const AdamWTable& table;

  __device__ __forceinline__ WholeParameters(const AdamWTable& table, int tensor, long long offset)
      : values(static_cast<float*>(table.parameters[tensor]) + offset),
        copy(table.copies[tensor] == nullptr ? nullptr : static_cast<char*>(table.copies[tensor]) + 2 * offset),
        table(table) {}

  __device__ __forceinline__ bool is_aligned() const { return are_vector_aligned(values, copy); }
  __device__ __forceinline__ float4 load_four(unsigned at) const {
    return *reinterpret_cast<const float4*>(values + at);
  }
  __device__ __forceinline__ void store_four(unsigned at, float4 four) const {
    *reinterpret_cast<float4*>(values + at) = four;
    if (copy == nullptr) return;
    if (table.copy_type == AdamWElement::bf16) {
      store_copy<__nv_bfloat16>(copy, at, {off_tie(four.x), off_tie(four.y), off_tie(four.z), off_tie(four.w)});
    } else {
      store_copy<__half>(copy, at, four);
    }
  }
  __device__ __forceinline__ float load(int at) const { return values[at]; }
  __device__ __forceinline__ void store(int at, float value) const {
    values[at] = value;
    copy_one(at);
  }
  // Also of a parameter that keeps its value.
  __device__ __forceinline__ void copy_one(int at) const {
    if (copy != nullptr) store_copy_of_one(copy, table.copy_type, at, values[at]);
  }
};

// The parameters of a chunk in two halves.
struct SplitParameters {
  std::uint16_t* rounded;
  std::uint16_t* low;

  __device__ __forceinline__ SplitParameters(const AdamWTable& table, int tensor, long long offset)
      : rounded(static_cast<std::uint16_t*>(table.parameters[tensor]) + offset),
        low(static_cast<std::uint16_t*>(table.copies[tensor]) + offset) {}

  __device__ __forceinline__ bool is_aligned() const { return are_vector_aligned(rounded, low); }
  __device__ __forceinline__ float4 load_four(unsigned at) const {
    const uint2 high = *reinterpret_cast<const uint2*>(rounded + at);
    const uint2 rest = __ldcs(reinterpret_cast<const uint2*>(low + at));
    return {joined(high.x, rest.x), joined(high.x >> 16, rest.x >> 16), joined(high.y, rest.y),
            joined(high.y >> 16, rest.y >> 16)};
  }
  __device__ __forceinline__ void store_four(unsigned at, float4 four) const {
    *reinterpret_cast<uint2*>(rounded + at) = {rounded_pair(four.x, four.y), rounded_pair(four.z, four.w)};
    __stcs(reinterpret_cast<uint2*>(low + at), uint2{low_pair(four.x, four.y), low_pair(four.z, four.w)});
  }
  __device__ __forceinline__ float load(int at) const { return joined(rounded[at], low[at]); }
  __device__ __forceinline__ void store(int at, float value) const {
    rounded[at] = round_away_to_bf16(__float_as_uint(value));
    low[at] = low_half_of(__float_as_uint(value));
  }
};

template <typename Parameters, typename Gradient>
struct ChunkPointers {
  Parameters parameters;
  const Gradient* gradient;
  float* first;
  float* second;
};

template <typename Chunk>
__device__ __forceinline__ void update_vectors(const AdamWConstants& constants, const StepFactors& factors,
                                               const Chunk& chunk) {
  const unsigned at = threadIdx.x * kWidth;
  const float4 gradient = load_once(chunk.gradient + at);
  float4 parameter = chunk.parameters.load_four(at);
  float4 first = __ldcs(reinterpret_cast<const float4*>(chunk.first + at));
  float4 second = __ldcs(reinterpret_cast<const float4*>(chunk.second + at));
  update(constants, factors, gradient.x, parameter.x, first.x, second.x);
  update(constants, factors, gradient.y, parameter.y, first.y, second.y);
  update(constants, factors, gradient.z, parameter.z, first.z, second.z);
  update(constants, factors, gradient.w, parameter.w, first.w, second.w);
  chunk.parameters.store_four(at, parameter);
  __stcs(reinterpret_cast<float4*>(chunk.first + at), first);
  __stcs(reinterpret_cast<float4*>(chunk.second + at), second);
}

template <typename Chunk>
__device__ __forceinline__ void update_elements(const AdamWConstants& constants, const StepFactors& factors,
                                                const Chunk& chunk, int elements) {
  for (int at = static_cast<int>(threadIdx.x); at < elements; at += kBlockThreads) {
    float parameter = chunk.parameters.load(at);
    float first = chunk.first[at];
    float second = chunk.second[at];
    update(constants, factors, static_cast<float>(chunk.gradient[at]), parameter, first, second);
    chunk.parameters.store(at, parameter);
    chunk.first[at] = first;
    chunk.second[at] = second;
  }
}

// The low copy of parameters that keep their values.
__device__ __forceinline__ void copy_chunk(const AdamWTable& table, int tensor, long long offset) {
  if (table.copies[tensor] == nullptr) return;
  const WholeParameters parameters(table, tensor, offset);
  const long long elements = min(table.elements[tensor] - offset, 0LL + AdamWTable::kChunkElements);
  for (int at = static_cast<int>(threadIdx.x); at < elements; at += kBlockThreads) parameters.copy_one(at);
}

template <typename Parameters, typename Gradient>
__device__ __forceinline__ void update_chunk(const AdamWTable& table, int tensor, long long offset) {
  const ChunkPointers<Parameters, Gradient> chunk{
      Parameters(table, tensor, offset), static_cast<const Gradient*>(table.gradients[tensor]) + offset,
      table.first_moments[tensor] + offset, table.second_moments[tensor] + offset};
  const long long left = table.elements[tensor] - offset;
  const StepFactors factors = step_factors(table);
  if (left >= AdamWTable::kChunkElements && chunk.parameters.is_aligned() &&
      are_vector_aligned(chunk.gradient, chunk.first, chunk.second)) {
    update_vectors(table.constants, factors, chunk);
  } else {
    update_elements(table.constants, factors, chunk, static_cast<int>(min(left, 0LL + AdamWTable::kChunkElements)));
  }
}

template <typename Parameters>
__device__ __forceinline__ void update_chunk(const AdamWTable& table, int tensor, long long offset) {
  switch (table.gradient_types[tensor]) {
    case AdamWElement::fp32: return update_chunk<Parameters, float>(table, tensor, offset);
    case AdamWElement::bf16: return update_chunk<Parameters, __nv_bfloat16>(table, tensor, offset);
    case AdamWElement::fp16: return update_chunk<Parameters, __half>(table, tensor, offset);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

extern "C" __global__ void __launch_bounds__(256)
    adamw_forward_chunks(const __grid_constant__ ridgepoint::cuda::AdamWTable table) {
  using namespace ridgepoint::cuda;
  const int tensor = find_tensor(table, blockIdx.x);
  const long long offset = static_cast<long long>(blockIdx.x - table.first_chunk[tensor]) * AdamWTable::kChunkElements;
  if (table.skip != nullptr && *table.skip != 0.0F) return copy_chunk(table, tensor, offset);
  update_chunk<WholeParameters>(table, tensor, offset);
}

extern "C" __global__ void __launch_bounds__(256)
    adamw_forward_halves(const __grid_constant__ ridgepoint::cuda::AdamWTable table) {
  using namespace ridgepoint::cuda;
  if (table.skip != nullptr && *table.skip != 0.0F) return;
  const int tensor = find_tensor(table, blockIdx.x);
  const long long offset = static_cast<long long>(blockIdx.x - table.first_chunk[tensor]) * AdamWTable::kChunkElements;
  update_chunk<SplitParameters>(table, tensor, offset);
}
