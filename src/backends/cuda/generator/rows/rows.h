// How rows are assigned to threads. A team is the threads that share a row: lanes of one warp, or a whole block.
#pragma once

#include "backends/cuda/generator/sweeps.h"
#include "backends/cuda/generator/variants.h"

namespace ridgepoint::cuda {

struct RowGeometry {
  int width = 1;        // elements in a vector
  int lanes = 32;       // threads in a team
  int teams = 1;        // teams in a block; 1 if a team is more than a warp
  int vectors = 1;      // vectors of a row that a thread holds at the same time
  bool looped = false;  // the row has more vectors than its team holds: a loop over it keeps nothing
  int blocks_per_multiprocessor = 0;
  int few_blocks = 0;  // that a multiprocessor has registers for, if they are not enough to load while one computes

  int threads() const { return lanes * teams; }
  bool in_warp() const { return lanes <= 32; }
};

// `accumulated_bytes` is the register bytes of accumulating outputs for each column.
RowGeometry choose_row_geometry(const RowProgram& program, int width, int kept_bytes, int accumulated_bytes,
                                std::int64_t multiprocessors);

}  // namespace ridgepoint::cuda
