// The conversion of tensors (ridgepoint/tensor.h) into memory that exists.
#pragma once

#include "ridgepoint/tensor.h"

namespace ridgepoint {

// As convert(tensor, dtype), into `result`, which has the dtype and the shape already.
void convert(const HostTensor& tensor, HostTensor& result);

}  // namespace ridgepoint
