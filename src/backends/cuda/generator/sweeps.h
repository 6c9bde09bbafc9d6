// Plans what each sweep over a row's columns loads, computes and stores, and which column values stay in registers from
// one sweep to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "lowering/row_program.h"

namespace ridgepoint::cuda {

inline constexpr std::int64_t kLongestWarpRow = 1024;  // elements of a row whose threads are within a warp

struct Sweep {
  std::vector<int> loads;       // instructions, in SSA order
  std::vector<int> computed;    // elementwise and iota instructions of column level, in SSA order
  std::vector<int> reductions;  // reduce instructions
  std::vector<int> outputs;     // indices into RowProgram::outputs that need its columns
};

// Elements are stored in the last sweep, after all reads of operands that may share memory with an output.
struct SweepPlan {
  std::vector<Sweep> sweeps;  // one for each phase
  std::vector<bool> kept;     // by instruction: computed or loaded once, also used by a later sweep
  int kept_bytes = 0;         // maximum register bytes of kept values for each element
};

// With `keep`, loads that vary with the row and expensive functions are kept; other values are computed again. Of two
// sweeps, the values of the first that the second reads are kept instead where they are fewer bytes.
SweepPlan plan_sweeps(const RowProgram& program, bool keep);

}  // namespace ridgepoint::cuda
