// Compares a back end in fp32 with the reference back end in double, for every case of op_cases().
#pragma once

#include <memory>

#include "support/graphs/run_graph.h"

namespace ridgepoint::testing {

struct Disagreement {
  std::string output;
  double relative_error;
};

// Outputs of `op_case` on `device` whose relative L2 error against the reference is over `tolerance`, for inputs
// drawn from `seed`.
std::vector<Disagreement> disagreements(const OpCase& op_case, std::shared_ptr<Device> device, unsigned seed,
                                        double tolerance);

}  // namespace ridgepoint::testing
