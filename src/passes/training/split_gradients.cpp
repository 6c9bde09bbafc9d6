// Gives every parameter its own gradient among the outputs, where merge_products stored several parameters as one:
// "grad.NAME" is then a part of the gradient of all of them, directly behind that, so before the optimizer.
#include <utility>
#include <vector>

#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "passes/pass.h"
#include "passes/training/training.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

void add_parts(Graph& graph, const Output& gradient, const Node& parameter) {
  const GraphSettings settings(graph);
  graph.set_phase(Phase::backward);
  graph.set_scope(module_of(gradient.of));
  insert_behind(graph, graph.producer(gradient.value));
  const std::vector<StoredTensor> tensors = stored_tensors(graph, parameter);
  const std::vector<Value> parts = split(graph, gradient.value, 0, part_rows(parameter));
  for (std::size_t i = 0; i < parts.size(); ++i)
    graph.add_output("grad." + tensors[i].name, parts[i], OutputRole::gradient, tensors[i].name);
}

}  // namespace

bool split_gradients(Graph& graph, const PassOptions&) {
  const std::vector<Output> outputs(graph.outputs().begin(), graph.outputs().end());
  graph.clear_outputs();
  bool changed = false;
  for (const Output& output : outputs) {
    const std::optional<Value> of = graph.find_input(output.of);
    if (output.role != OutputRole::gradient || !of || part_rows(graph.producer_node(*of)).empty()) {
      graph.add_output(output);
      continue;
    }
    add_parts(graph, output, graph.producer_node(*of));
    changed = true;
  }
  return changed;
}

}  // namespace ridgepoint
