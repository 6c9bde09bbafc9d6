// Flash attention (Dao et al. 2022): the host side of attention_*.cu. Operands are dense [...,S,D], with the leading
// dimensions as one batch, at multiples of 16 bytes. bf16 and fp16: head sizes up to 256, a multiple of 8; forward
// needs a positive, finite scale. fp32, with the accuracy of fp32: head sizes up to 128, a multiple of 4, at any scale.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// The rows of attention/variants.h; for each op and dtype the smallest head size comes first.
std::span<const KernelVariant> attention_variants();

}  // namespace ridgepoint::cuda
