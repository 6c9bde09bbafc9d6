// Tiled attention (Dao et al. 2022; attention_*.cu): the host side. Operands dense, [...,S,D] with the leading
// dimensions as one batch. bf16 and fp16: heads of up to 256 elements, a multiple of 8, and in the
// forward pass a positive, finite scale; fp32, to the accuracy of fp32: up to 128, a multiple of 4, at any scale.
// Operands and results at multiples of 16 bytes.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// The rows of attention/variants.h, of an op and dtype the narrowest head first.
std::span<const KernelVariant> attention_variants();

}  // namespace ridgepoint::cuda
