// The number types of the ops in a graph, to show the effect of mixed precision.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// One row for each module, op and phase. Layers with equal types share a row; their number is written as *.
struct TypeRow {
  std::string part;      // parameter, forward, loss, backward, optimizer, gradient
  std::string module;    // layers.*.attn.q_proj, or the name of a parameter or gradient
  std::string op;        // empty for a parameter or gradient
  std::string operands;  // their types; tf32 for a matmul in tf32; empty for a parameter or gradient
  std::string result;
  std::int64_t nodes = 0;  // the number of nodes in this row
};

struct TypeTable {
  std::vector<TypeRow> rows;  // parameters, then nodes in order, then gradients
  std::int64_t casts = 0;
  std::int64_t weight_casts = 0;  // casts of parameters
};

// Views, constants and casts have no row.
TypeTable types_of(const Graph& graph);

}  // namespace ridgepoint
