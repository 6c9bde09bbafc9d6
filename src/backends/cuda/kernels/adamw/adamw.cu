// AdamW over many tensors in one launch, in place (the formula is in src/ops/rules/optimizer/updates.cpp), fp32. A
// block updates one chunk of one tensor, which it finds in the table that is the kernel's parameter. Gradients may be
// bf16 or fp16, and a low copy of the new parameter is written where the table asks for it. grid (chunks of all
// tensors), block (256) Bound by memory: 28 bytes for each element in fp32. Gradients and moments are not read again
// before the next step, so they use streaming loads and stores; parameters may stay in the cache for the next forward.
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/tensor_table.cuh"
#include "backends/cuda/kernels/adamw/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kWidth = 4;

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

template <typename Gradient>
struct ChunkPointers {
  float* parameter;
  const Gradient* gradient;
  float* first;
  float* second;
  void* copy;  // null: none
  AdamWElement copy_type;
};

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

template <int kChunkElements, typename Chunk>
__device__ __forceinline__ void update_vectors(const AdamWConstants& constants, const StepFactors& factors,
                                               const Chunk& chunk) {
#pragma unroll 2
  for (int i = 0; i < kChunkElements / (kBlockThreads * kWidth); ++i) {
    const unsigned at = (i * kBlockThreads + threadIdx.x) * kWidth;
    const float4 gradient = load_once(chunk.gradient + at);
    float4 parameter = *reinterpret_cast<const float4*>(chunk.parameter + at);
    float4 first = __ldcs(reinterpret_cast<const float4*>(chunk.first + at));
    float4 second = __ldcs(reinterpret_cast<const float4*>(chunk.second + at));
    update(constants, factors, gradient.x, parameter.x, first.x, second.x);
    update(constants, factors, gradient.y, parameter.y, first.y, second.y);
    update(constants, factors, gradient.z, parameter.z, first.z, second.z);
    update(constants, factors, gradient.w, parameter.w, first.w, second.w);
    *reinterpret_cast<float4*>(chunk.parameter + at) = parameter;
    __stcs(reinterpret_cast<float4*>(chunk.first + at), first);
    __stcs(reinterpret_cast<float4*>(chunk.second + at), second);
    if (chunk.copy == nullptr) continue;
    if (chunk.copy_type == AdamWElement::bf16) {
      store_copy<__nv_bfloat16>(chunk.copy, at, parameter);
    } else {
      store_copy<__half>(chunk.copy, at, parameter);
    }
  }
}

__device__ __forceinline__ void store_copy_of_one(void* copy, AdamWElement type, int at, float value) {
  if (type == AdamWElement::bf16) {
    static_cast<__nv_bfloat16*>(copy)[at] = __nv_bfloat16(value);
  } else {
    static_cast<__half*>(copy)[at] = __half(value);
  }
}

template <typename Chunk>
__device__ __forceinline__ void update_elements(const AdamWConstants& constants, const StepFactors& factors,
                                                const Chunk& chunk, int elements) {
  for (int at = static_cast<int>(threadIdx.x); at < elements; at += kBlockThreads) {
    float parameter = chunk.parameter[at];
    float first = chunk.first[at];
    float second = chunk.second[at];
    update(constants, factors, static_cast<float>(chunk.gradient[at]), parameter, first, second);
    chunk.parameter[at] = parameter;
    chunk.first[at] = first;
    chunk.second[at] = second;
    if (chunk.copy != nullptr) store_copy_of_one(chunk.copy, chunk.copy_type, at, parameter);
  }
}

// The low copy of parameters that keep their values.
template <int kChunkElements>
__device__ __forceinline__ void copy_chunk(const AdamWTable& table, int tensor, long long offset) {
  if (table.copies[tensor] == nullptr) return;
  char* copy = static_cast<char*>(table.copies[tensor]) + 2 * offset;
  const float* parameter = table.parameters[tensor] + offset;
  const long long elements = min(table.elements[tensor] - offset, 0LL + kChunkElements);
  for (int at = static_cast<int>(threadIdx.x); at < elements; at += kBlockThreads) {
    store_copy_of_one(copy, table.copy_type, at, parameter[at]);
  }
}

template <int kChunkElements, typename Gradient>
__device__ __forceinline__ void update_chunk(const AdamWTable& table, int tensor, long long offset) {
  char* copy = static_cast<char*>(table.copies[tensor]);
  const ChunkPointers<Gradient> chunk{table.parameters[tensor] + offset,
                                      static_cast<const Gradient*>(table.gradients[tensor]) + offset,
                                      table.first_moments[tensor] + offset,
                                      table.second_moments[tensor] + offset,
                                      copy == nullptr ? nullptr : copy + 2 * offset,
                                      table.copy_type};
  const long long left = table.elements[tensor] - offset;
  const StepFactors factors = step_factors(table);
  if (left >= kChunkElements &&
      are_vector_aligned(chunk.parameter, chunk.gradient, chunk.first, chunk.second, chunk.copy)) {
    update_vectors<kChunkElements>(table.constants, factors, chunk);
  } else {
    update_elements(table.constants, factors, chunk, static_cast<int>(min(left, 0LL + kChunkElements)));
  }
}

template <int kChunkElements>
__device__ __forceinline__ void update_chunk_of_block(const AdamWTable& table) {
  const int tensor = find_tensor(table, blockIdx.x);
  const long long offset = static_cast<long long>(blockIdx.x - table.first_chunk[tensor]) * kChunkElements;
  if (table.skip != nullptr && *table.skip != 0.0F) return copy_chunk<kChunkElements>(table, tensor, offset);
  switch (table.gradient_types[tensor]) {
    case AdamWElement::fp32: return update_chunk<kChunkElements, float>(table, tensor, offset);
    case AdamWElement::bf16: return update_chunk<kChunkElements, __nv_bfloat16>(table, tensor, offset);
    case AdamWElement::fp16: return update_chunk<kChunkElements, __half>(table, tensor, offset);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

extern "C" __global__ void __launch_bounds__(256)
    adamw_forward_chunks(const __grid_constant__ ridgepoint::cuda::AdamWTable table) {
  ridgepoint::cuda::update_chunk_of_block<ridgepoint::cuda::AdamWTable::kChunkElements>(table);
}

// Beside other kernels: a block of theirs waits for those of an update that are on its multiprocessor, so these are short.
extern "C" __global__ void __launch_bounds__(256)
    adamw_forward_small_chunks(const __grid_constant__ ridgepoint::cuda::AdamWTable table) {
  ridgepoint::cuda::update_chunk_of_block<ridgepoint::cuda::AdamWTable::kSmallChunkElements>(table);
}
