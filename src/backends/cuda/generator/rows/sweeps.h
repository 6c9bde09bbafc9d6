// What each sweep over a row's columns loads, computes and finishes, and which column values stay in registers from
// one sweep to the next.
#pragma once

#include <vector>

#include "lowering/row_program.h"

namespace ridgepoint::cuda {

struct Sweep {
  std::vector<int> loads;       // instructions, in SSA order
  std::vector<int> computed;    // elementwise and iota instructions of column level, in SSA order
  std::vector<int> reductions;  // reduce instructions
  std::vector<int> outputs;     // indices into RowProgram::outputs that need its columns
};

// Elements are stored in the last sweep, after every operand that an output may share memory with has been read.
struct SweepPlan {
  std::vector<Sweep> sweeps;  // one a phase
  std::vector<bool> kept;     // by instruction: computed or loaded once, used by a later sweep too
  int kept_bytes = 0;         // of registers that kept values take, an element, at most
};

// With `keep`, loads that differ from row to row and costly functions are kept; everything else is computed again.
SweepPlan plan_sweeps(const RowProgram& program, bool keep);

}  // namespace ridgepoint::cuda
