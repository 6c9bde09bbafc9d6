// Sizes of tensors in the symbols of their dimensions (docs/model.md): B S D H V F.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/models/workload.h"

namespace ridgepoint {

// The sizes of the symbols. A dimension may have a label and another size: D on the width of all key heads, F on the
// width of two joined matrices.
using SymbolSizes = std::map<char, std::int64_t>;
SymbolSizes symbol_sizes(const WorkloadDescription& workload);

// "B H S S"; a dimension without a symbol is its size.
std::string shape_in_symbols(const Shape& shape);

// The bytes of a tensor: "4 B H S^2". Equal symbols become a power, sizes of 1 are left out, T (tokens) is B S, and d
// (the width of a head) is D / H. If a dimension has another size than its symbol, or the symbol has no size, it is a
// multiple of the symbol or a number. Without `sizes`, every label is a symbol.
std::string bytes_formula(const TensorType& type, const SymbolSizes& sizes = {});

}  // namespace ridgepoint
