// Sizes of tensors in the symbols of their dimensions (docs/model.md): B S D H V F.
#pragma once

#include <string>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// "B H S S"; a dimension without a symbol is its size.
std::string shape_in_symbols(const Shape& shape);

// The bytes of a tensor: "4 B H S^2". Equal symbols are a power; sizes of 1 are left out, T (tokens) is B S, and d (the
// width of a head) is D / H.
std::string bytes_formula(const TensorType& type);

}  // namespace ridgepoint
