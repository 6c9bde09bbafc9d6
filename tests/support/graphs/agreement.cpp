#include "support/graphs/agreement.h"

#include "backends/reference/reference_device.h"

namespace ridgepoint::testing {

std::vector<Disagreement> disagreements(const OpCase& op_case, std::shared_ptr<Device> device, unsigned seed,
                                        double tolerance) {
  const Graph graph = op_case.build(DType::fp32);
  const Graph oracle = op_case.build(DType::fp64);
  const Tensors inputs = random_inputs(graph, op_case, seed);
  const Tensors found = run_graph(graph, std::move(device), inputs);
  const Tensors expected = run_graph(oracle, make_reference_device(), converted_inputs(inputs, oracle));
  std::vector<Disagreement> list;
  for (const auto& [name, tensor] : expected) {
    const double error = relative_error(found.at(name), tensor);
    if (!(error <= tolerance)) list.push_back({name, error});
  }
  return list;
}

}  // namespace ridgepoint::testing
