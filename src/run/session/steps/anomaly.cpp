#include "run/session/steps/anomaly.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "ir/queries.h"
#include "run/session/steps/compare_tensors.h"

namespace ridgepoint {
namespace {

// Whether the node is a mask, which writes infinities on purpose.
bool writes_infinities(const Graph& graph, const Node& node) {
  if (node.op == Op::causal_mask) return std::isinf(node.attributes.get<double>("fill"));
  return std::ranges::any_of(node.inputs,
                             [&](Value value) { return std::isinf(constant_behind(graph, value).value_or(0)); });
}

std::string place_of(const Graph& graph, const Node& node) {
  const std::string& scope = graph.scope_name(node);
  return (scope.empty() ? "" : "'" + scope + "', ") + std::string(name(node.phase));
}

}  // namespace

AnomalyDetector::AnomalyDetector(Program& program)
    : program_(program), holds_infinity_(program.graph().value_count()), is_checked_(program.graph().value_count()) {
  for (const LaunchInfo& launch : program.launches()) nodes_.push_back(launch.node);
  program.observe(this);
}

AnomalyDetector::~AnomalyDetector() { program_.observe(nullptr); }

void AnomalyDetector::run_begins() {
  holds_infinity_.assign(holds_infinity_.size(), false);
  is_checked_.assign(is_checked_.size(), false);
}

AnomalyDetector::Found AnomalyDetector::scan(const HostTensor& tensor) {
  Found found;
  const std::size_t bytes = size_bytes(tensor.type.dtype);
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) {
    const double value = load_element(tensor.type.dtype, tensor.data.data() + static_cast<std::size_t>(i) * bytes);
    if (std::isfinite(value)) continue;
    if (!found.nan && !found.infinity) found.element = i;
    if (std::isnan(value) && !found.nan) found.element = i;
    (std::isnan(value) ? found.nan : found.infinity) = true;
    if (found.nan) break;
  }
  return found;
}

// An observer must not throw. A device error here becomes the result.
void AnomalyDetector::check(std::uint32_t launch, void (AnomalyDetector::*values)(const Node&)) {
  if (first_) return;
  try {
    (this->*values)(program_.graph().node(nodes_[launch]));
  } catch (const std::exception& error) {
    first_ = error.what();
  }
}

void AnomalyDetector::check_inputs(const Node& node) {
  const Graph& graph = program_.graph();
  for (const Value operand : node.inputs) {
    const Value value = view_root(graph, operand);
    const Node& producer = graph.producer_node(value);
    const bool ran_beside = runs_beside(producer.op);
    if ((producer.op != Op::input && !ran_beside) || is_checked_[value.id]) continue;
    is_checked_[value.id] = true;
    if (ran_beside) check_result(producer, value);
    if (first_) return;
    if (ran_beside || !is_floating(graph.type(value).dtype)) continue;
    const HostTensor tensor = program_.read_value(value);
    const Found found = scan(tensor);
    if (!found.nan && !found.infinity) continue;
    first_ = std::string("the input '") + input_name(producer) + "' has " + (found.nan ? "a NaN" : "an infinity") +
             " at " + element_name(tensor.type.shape, found.element);
    return;
  }
}

// A value that kernels wrote part by part has the infinities of its parts.
bool AnomalyDetector::holds_infinity(Value operand) const {
  const Value root = view_root(program_.graph(), operand);
  const Node& producer = program_.graph().producer_node(root);
  if (op_class(producer.op) != OpClass::placement) return holds_infinity_[root.id];
  return std::ranges::any_of(producer.inputs, [&](Value part) { return holds_infinity(part); });
}

// A collective or transfer has not ended yet: its results are checked before the first launch that reads them.
void AnomalyDetector::check_results(const Node& node) {
  if (runs_beside(node.op)) return;
  for (const Value value : node.outputs) {
    check_result(node, value);
    if (first_) return;
  }
}

void AnomalyDetector::check_result(const Node& node, Value value) {
  const Graph& graph = program_.graph();
  const TensorType& type = graph.type(value);
  if (!is_floating(type.dtype)) return;
  const bool expected = writes_infinities(graph, node) ||
                        std::ranges::any_of(node.inputs, [&](Value operand) { return holds_infinity(operand); });
  const Found found = scan(program_.read_value(value));
  holds_infinity_[value.id] = found.infinity;
  if (!found.nan && (!found.infinity || expected)) return;
  first_ = "the first " + std::string(found.nan ? "NaN" : "infinity") + " is made by " + std::string(name(node.op)) +
           " in " + place_of(graph, node) + ": element " + element_name(type.shape, found.element) + " of " +
           type.to_string();
}

}  // namespace ridgepoint
