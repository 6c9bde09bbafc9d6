// The kernels of this folder; those of its subfolders have headers of their own.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace ridgepoint::cpu {

// Embedding, rows of a table by index: table [V,D] of any dtype, indices int64 [...] -> [...,D]; all dense. This kernel
// and the next check every index against the table and throw Error with the first bad one; nothing is written out of
// bounds.
std::unique_ptr<Kernel> make_embedding_kernel(const KernelSpec& spec);

// Its gradient, rows summed by index: gradient [...,D] of a floating dtype, indices int64 [...] -> [V,D]; all dense.
// Each row is the sum of its gradients in the order of their positions (in fp32 for bf16 and fp16), for any thread
// count.
std::unique_ptr<Kernel> make_embedding_backward_kernel(const KernelSpec& spec);

// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/attention/rope.cpp), in fp32 or bf16: x
// [...,D] with any strides; cosines and sines fp32 [S,D/2], dense; output dense. One pass over memory, vectorised.
std::unique_ptr<Kernel> make_rope_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
