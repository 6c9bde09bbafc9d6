// Marks the parameters that options.frozen names: they get no gradient, no state of the optimizer and no update.
#include <algorithm>
#include <string>
#include <vector>

#include "ir/stored_tensors.h"
#include "passes/pass.h"
#include "passes/training/patterns.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

bool freeze_parameters(Graph& graph, const PassOptions& options) {
  if (options.frozen.empty()) return false;
  const std::vector<NodeId> parameters = graph.inputs(Role::parameter);
  std::vector<std::string> names;
  for (const NodeId id : parameters) names.push_back(input_name(graph.node(id)));
  const std::vector<bool> is_frozen = matches_of(options.frozen, names, "parameter");
  if (std::ranges::find(is_frozen, false) == is_frozen.end())
    throw Error("every parameter is frozen, so there is nothing to train", ErrorKind::usage);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (is_frozen[i]) graph.node(parameters[i]).attributes.set(kFrozen, true);
  }
  return true;
}

}  // namespace ridgepoint
