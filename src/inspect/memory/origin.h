// The names of where a block comes from.
#pragma once

#include <string>
#include <string_view>

#include "ops/rule.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// "matmul", and of an input its role: "parameter".
inline std::string_view op_of(const Node& node) {
  return node.op == Op::input ? name(input_role(node)) : operation_name(node);
}

// The scope of the node, and of an input its name; may be empty.
inline const std::string& module_of(const Graph& graph, const Node& node) {
  return node.op == Op::input ? input_name(node) : graph.scope_name(node);
}

}  // namespace ridgepoint
