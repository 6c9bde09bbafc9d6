// Embedding (rows of a table by index) and its gradient (rows summed by index). Both check every index against the
// table and throw Error with the first bad one; nothing is written out of bounds.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgepoint::cpu {

// table [V,D] of any dtype, indices int64 [...] -> [...,D]; all dense.
std::unique_ptr<Kernel> make_embedding_kernel(const KernelSpec& spec);

// gradient [...,D] of a floating dtype, indices int64 [...] -> [V,D]; all dense. Each row is the sum of its gradients
// in the order of their positions (in fp32 for bf16 and fp16), for any thread count.
std::unique_ptr<Kernel> make_embedding_backward_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
