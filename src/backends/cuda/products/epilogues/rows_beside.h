// What host and device agree on for ends that work on whole rows beside the product (rows_beside.cuh).
#pragma once

namespace ridgepoint::cuda {

struct RowsBeside {
  static constexpr int kMostSlots = 8;     // rows in shared memory at a time
  static constexpr int kMostCounts = 256;  // rows of tiles
};

}  // namespace ridgepoint::cuda
