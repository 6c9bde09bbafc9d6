#include "passes/precision/widen.h"

#include <string>

#include "ridgepoint/error.h"

namespace ridgepoint {

void widen_to_fp64(Graph& graph) {
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.attributes.get_or<std::string>("dtype", "") == name(DType::fp32)) {
      node.attributes.set("dtype", std::string(name(DType::fp64)));
    }
    for (const Value value : node.outputs) {
      const TensorType& type = graph.type(value);
      if (!is_floating(type.dtype)) continue;
      if (is_low(type.dtype)) {
        throw Error("graph '" + graph.name + "' has " + type.to_string() + " values; widen it before autocast",
                    ErrorKind::usage);
      }
      graph.set_type(value, {DType::fp64, type.shape});
    }
  }
}

}  // namespace ridgepoint
