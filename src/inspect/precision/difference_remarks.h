// What the numbers of a tensor that differs say about its fault: NaN, a constant factor, and where it differs.
#pragma once

#include <string>

#include "inspect/precision/difference_table.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint::tables {

// A sentence on a tensor of the file that is beyond tolerance, without its full stop; `ours` is what it should be. The
// numbers prove it: a factor is named if the file's tensor, divided by it, is within tolerance. Empty if every element
// differs, by no factor.
std::string remark_on(const NamedDifference& of, const HostTensor& ours, const HostTensor& theirs,
                      const NamedSizes& sizes);

// The end of a sentence on a tensor whose shape in the file is another: what to do where the sizes are those of `ours`
// in another order, or with axes of size 1 more or less; empty otherwise.
std::string remark_on_shape(const Shape& ours, const Shape& theirs);

}  // namespace ridgepoint::tables
