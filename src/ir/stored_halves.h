// Conversion of tensors to the types in which programs store them, and of fp32 numbers that are stored in two halves.
#pragma once

#include <cstddef>
#include <span>

#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {

// Converts a tensor to the type in which it is stored: as convert() does, but fp32 to bf16 with ties away from zero,
// and to low_half (core/types/halves.h).
void convert_to_stored(const HostTensor& tensor, HostTensor& result);
// The fp32 numbers with these halves: as many of each, in bytes.
void join_halves(std::span<const std::byte> rounded, std::span<const std::byte> low, std::span<std::byte> numbers);

}  // namespace ridgepoint
