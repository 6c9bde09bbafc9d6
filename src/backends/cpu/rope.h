// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/rope.cpp), in fp32 or bf16.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgepoint::cpu {

// x [...,D] with any strides; cosines and sines fp32 [S,D/2], dense; output dense. One pass over memory, vectorised.
std::unique_ptr<Kernel> make_rope_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
