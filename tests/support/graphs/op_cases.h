// Small graphs for every op of op_list.def, for the tests of derivatives and of agreement between back ends.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint::testing {

struct OpCase {
  Op op;
  std::string name;
  // Inputs "x0", "x1", ...; outputs "y0", "y1", ....
  std::function<Graph(DType)> build;
  double low = -2.0;  // floating inputs are uniform in [low, high)
  double high = 2.0;
  std::int64_t index_bound = 0;  // int64 inputs are uniform in [0, index_bound)
  bool differentiable = true;
};

// GoogleTest prints a case by its name.
inline void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

const std::vector<OpCase>& op_cases();

}  // namespace ridgepoint::testing
