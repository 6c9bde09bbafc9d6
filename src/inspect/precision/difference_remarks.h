// Describes how a tensor differs: NaN, a constant factor, and the place of the differences.
#pragma once

#include <string>

#include "inspect/precision/difference_table.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint::tables {

// The remark on a tensor that is beyond tolerance, to stand after its name and a colon; `ours` is the correct tensor. A
// factor is named only if the file's tensor, divided by the factor, is within tolerance. Empty if every element
// differs, by no common factor.
std::string remark_on(const NamedDifference& of, const HostTensor& ours, const HostTensor& theirs,
                      const NamedSizes& sizes);

// The advice on a tensor that has another shape in the file, if its sizes are those of `ours` in another order, or with
// more or fewer axes of size 1; otherwise empty.
std::string remark_on_shape(const Shape& ours, const Shape& theirs);

}  // namespace ridgepoint::tables
