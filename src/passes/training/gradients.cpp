// Passes that choose the outputs of the forward graph, differentiate it, and make the gradients outputs.

#include <algorithm>
#include <string>
#include <vector>

#include "core/text/throw_error.h"
#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "passes/pass.h"
#include "passes/training/training.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

bool erase_loss(Graph& graph) {
  if (!graph.find_loss()) return false;
  graph.erase_outputs([](const Output& output) { return output.role == OutputRole::loss; });
  erase_unused(graph, [](const Node& node) { return node.phase == Phase::loss; });
  return true;
}

std::vector<NodeId> inputs_with_gradients(const Graph& graph) {
  std::vector<NodeId> found = graph.inputs(Role::parameter);
  if (found.empty()) found = graph.inputs(Role::data);
  std::erase_if(found, [&](NodeId id) { return graph.node(id).attributes.get_or(kFrozen, false); });
  std::erase_if(found, [&](NodeId id) { return !is_floating(graph.type(graph.node(id).outputs[0]).dtype); });
  return found;
}

const Output& result_to_differentiate(const Graph& graph) {
  const Output* found = nullptr;
  for (const Output& output : graph.outputs()) {
    if (output.role != OutputRole::result || !is_floating(graph.type(output.value).dtype)) continue;
    if (found != nullptr) {
      throw Error("graph '" + graph.name + "' has several results and no loss; give one of them the role loss",
                  ErrorKind::usage);
    }
    found = &output;
  }
  if (found != nullptr) return *found;
  throw Error("graph '" + graph.name + "' has neither a loss nor a floating result; there is nothing to differentiate",
              ErrorKind::usage);
}

// `batches`: the number of batches in the mean of the loss.
std::vector<Value> gradients_of(Graph& graph, std::span<const Value> wrt, std::int64_t batches) {
  std::optional<Value> loss = graph.find_output(kScaledLoss);
  if (loss) {
    graph.erase_outputs([](const Output& output) { return output.name == kScaledLoss; });
  } else {
    loss = graph.find_loss();
  }
  if (loss && batches == 1) return differentiate(graph, *loss, wrt);
  if (loss) {
    const TensorType type = graph.type(*loss);
    const Value share = constant(graph, 1.0 / static_cast<double>(batches), type.dtype);
    return differentiate(graph, *loss, broadcast(graph, share, type.shape), wrt);
  }
  if (batches > 1)
    throw Error("graph '" + graph.name + "' has no loss, so its gradients cannot be means over batches",
                ErrorKind::usage);
  const Output result = result_to_differentiate(graph);
  const Value gradient = input(graph, "grad." + result.name, graph.type(result.value), Role::data);
  return differentiate(graph, result.value, gradient, wrt);
}

void add_parts(Graph& graph, const Output& gradient, const Node& parameter) {
  const GraphSettings settings(graph);
  graph.set_phase(Phase::backward);
  graph.set_scope(module_of(gradient.of));
  graph.set_insertion_behind(graph.producer(gradient.value));
  const std::vector<StoredTensor> tensors = stored_tensors(graph, parameter);
  const std::vector<Value> parts = split(graph, gradient.value, 0, part_rows(parameter));
  for (std::size_t i = 0; i < parts.size(); ++i)
    graph.add_output("grad." + tensors[i].name, parts[i], OutputRole::gradient, tensors[i].name);
}

}  // namespace

// Removes the outputs that the mode does not need. Mode forward also removes the nodes of the loss, and the inputs that
// only they read (the targets).
bool select_outputs(Graph& graph, const PassOptions& options) {
  if (options.mode == Mode::forward) return erase_loss(graph);
  if (options.keep.results || options.mode == Mode::training_forward || !graph.find_loss()) return false;
  const std::size_t before = graph.outputs().size();
  graph.erase_outputs([](const Output& output) { return output.role == OutputRole::result; });
  return graph.outputs().size() != before;
}

// Marks the parameters that options.frozen names: they get no gradient, no optimizer state and no update. In forward
// mode nothing trains, so weights may be packed without being frozen.
bool freeze_parameters(Graph& graph, const PassOptions& options) {
  const std::vector<NodeId> parameters = graph.inputs(Role::parameter);
  const bool is_packed = options.base_weights != BaseWeights::as_is && !options.lora;
  if (options.frozen.empty() && is_packed && options.mode == Mode::forward) {
    for (const NodeId id : parameters) graph.node(id).attributes.set(kFrozen, true);
    return true;
  }
  if (options.frozen.empty()) return false;
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

// Marks the parameters that options.optimizer.no_decay names: the optimizer updates them with weight decay 0.
bool exempt_from_decay(Graph& graph, const PassOptions& options) {
  std::vector<std::string> patterns = options.optimizer.no_decay;
  if (patterns.empty()) return false;
  const std::vector<NodeId> parameters = graph.inputs(Role::parameter);
  std::vector<std::string> names;
  for (const NodeId id : parameters) names.push_back(input_name(graph.node(id)));
  const auto is_vector = [&](NodeId id) { return graph.type(graph.node(id).outputs[0]).shape.rank() == 1; };
  const bool exempts_vectors = std::erase(patterns, kVectors) > 0;
  if (exempts_vectors && std::ranges::none_of(parameters, is_vector))
    throw_error(ErrorKind::usage, "'{}' names no parameter: none has one dimension", kVectors);
  const std::vector<bool> is_named = matches_of(patterns, names, "parameter");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (is_named[i] || (exempts_vectors && is_vector(parameters[i])))
      graph.node(parameters[i]).attributes.set(kNoDecay, true);
  }
  return true;
}

// Appends the backward graph and adds every gradient as an output "grad.NAME". The gradients are those of the loss with
// respect to the parameters. A graph without a loss (such as one call of attention) is differentiated from its one
// floating result, whose gradient becomes the input "grad.RESULT". Without parameters, it is differentiated with
// respect to the floating data. With several micro-batches or ranks, gradients begin with the share of each in the
// mean. Frozen parameters have no gradient.
bool differentiate_outputs(Graph& graph, const PassOptions& options) {
  if (options.mode == Mode::forward) return false;
  const std::vector<NodeId> inputs = inputs_with_gradients(graph);
  std::vector<Value> wrt;
  for (const NodeId id : inputs) wrt.push_back(graph.node(id).outputs[0]);
  const std::vector<Value> gradients = gradients_of(graph, wrt, options.accumulate * options.parallel.data);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = input_name(graph.node(inputs[i]));
    graph.add_output("grad." + name, gradients[i], OutputRole::gradient, name);
  }
  return true;
}

// If merge_products stored several parameters as one, gives each its own gradient among the outputs: "grad.NAME" is a
// part of the merged gradient, and stands directly after it, so before the optimizer.
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
