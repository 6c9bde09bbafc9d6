// Cards as the tests of kernels describe them, which this machine need not have.
#pragma once

#include "backends/cuda/driver/context.h"

namespace ridgepoint::testing {

inline cuda::CardFacts hopper_card(cuda::ComputeCapability capability = {9, 0}) {
  cuda::CardFacts card;
  card.name = "NVIDIA H200";
  card.capability = capability;
  card.multiprocessors = 132;
  card.shared_bytes_per_block = 227 * 1024;
  return card;
}

}  // namespace ridgepoint::testing
