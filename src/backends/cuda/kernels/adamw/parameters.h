// The parameters of the kernels of adamw.cu. Host and device code both include this header, so it uses plain structs
// and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

struct AdamWConstants {
  float learning_rate;  // and decay: where AdamWTable::learning_rate is null
  float beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
  float weight_decay;
  float decay;  // 1 - learning_rate * weight_decay
  float log_beta1, log_beta2;
};

// The element types of gradients and of low copies of parameters.
enum class AdamWElement : std::uint8_t { fp32, bf16, fp16 };

// The tensors of one launch. Every preset of the model fits in one launch (xl has the most tensors, 435).
struct AdamWTable {
  static constexpr int kCapacity = 448;
  // One block's work, a vector of four for each thread. Blocks of kernels beside an update wait for those that are on
  // their multiprocessor, so these are short. Longer ones are no faster: with 4096, AdamW alone takes 2.5 % longer.
  static constexpr int kChunkElements = 1024;

  const float* step = nullptr;
  const float* learning_rate = nullptr;    // null: that of the constants
  const float* gradient_factor = nullptr;  // null: 1
  const float* skip = nullptr;             // null: 0
  AdamWConstants constants = {};
  std::int32_t tensors = 0;
  std::uint32_t first_chunk[kCapacity] = {};
  std::int64_t elements[kCapacity] = {};
  void* parameters[kCapacity] = {};  // fp32, or bf16 beside low halves (core/types/halves.h)
  const void* gradients[kCapacity] = {};
  AdamWElement gradient_types[kCapacity] = {};
  void* copies[kCapacity] = {};  // null: none; or the low halves
  AdamWElement copy_type = AdamWElement::fp32;
  float* first_moments[kCapacity] = {};
  float* second_moments[kCapacity] = {};
};
static_assert(sizeof(AdamWTable) <= 32764, "a launch has at most 32764 bytes of parameters (sm_70 and later)");

}  // namespace ridgepoint::cuda
