// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/rope.cpp), fp32.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgepoint::cpu {

// x [...,D] with any strides; cosines and sines [S,D/2] dense; output dense. Bound by memory: one pass, all vector
// widths the processor has.
std::unique_ptr<Kernel> make_rope_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
