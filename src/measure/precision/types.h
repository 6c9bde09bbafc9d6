// Which type each part of a graph computes in and gives: what mixed precision did, read off the graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// One line a module, op and phase. Layers that agree are one line, their number written as *.
struct TypeRow {
  std::string part;      // parameter, forward, loss, backward, optimizer, gradient
  std::string module;    // layers.*.attn.q_proj; of a parameter or gradient its name
  std::string op;        // empty for a parameter or gradient
  std::string operands;  // the types of its operands, tf32 for a product that takes them so; empty likewise
  std::string result;
  std::int64_t nodes = 0;  // how many the line stands for
};

struct TypeTable {
  std::vector<TypeRow> rows;  // parameters, then nodes in order, then gradients
  std::int64_t casts = 0;
  std::int64_t weight_casts = 0;  // of those, casts of parameters
};

// Views, constants and casts have no line of their own.
TypeTable types_of(const Graph& graph);

}  // namespace ridgepoint
