// Sizes of tensors in the symbols of their dimensions (docs/model.md): B S D H V F.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/models/workload.h"

namespace ridgepoint {

// What symbols stand for. A label may also be on a dimension of another size, such as D on the width of all heads of
// keys, or F on that of two joined matrices.
using SymbolSizes = std::map<char, std::int64_t>;
SymbolSizes symbol_sizes(const WorkloadDescription& workload);

// "B H S S"; a dimension without a symbol is its size.
std::string shape_in_symbols(const Shape& shape);

// The bytes of a tensor: "4 B H S^2". Equal symbols are a power; sizes of 1 are left out, T (tokens) is B S, and d (the
// width of a head) is D / H. A dimension of another size than its symbol is a multiple of the symbol, or a number, as
// is one of a symbol without a size. Without `sizes`, every label is a symbol.
std::string bytes_formula(const TensorType& type, const SymbolSizes& sizes = {});

}  // namespace ridgepoint
