// What the numbers of a tensor that differs say about its fault: NaN, a constant factor, and where it differs.
#pragma once

#include <string>

#include "inspect/precision/difference_table.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint::tables {

// What to say behind the name of a tensor that is beyond tolerance and a colon; `ours` is what it should be. The
// numbers prove it: a factor is named if the file's tensor, divided by it, is within tolerance. Empty if every element
// differs, by no factor.
std::string remark_on(const NamedDifference& of, const HostTensor& ours, const HostTensor& theirs,
                      const NamedSizes& sizes);

// The end of a sentence on a tensor whose shape in the file is another: what to do where the sizes are those of `ours`
// in another order, or with axes of size 1 more or less; empty otherwise.
std::string remark_on_shape(const Shape& ours, const Shape& theirs);

}  // namespace ridgepoint::tables
