// Runs a graph on a device with given inputs, and compares tensors.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>

#include "ridgepoint/runtime/program.h"
#include "support/graphs/op_cases.h"

namespace ridgepoint::testing {

using Tensors = std::map<std::string, HostTensor>;

// Random tensors for the inputs of a graph built by `op_case`, the same for a seed whatever the dtype.
Tensors random_inputs(const Graph& graph, const OpCase& op_case, unsigned seed);

// `inputs` converted to the types of `graph`'s inputs.
Tensors converted_inputs(const Tensors& tensors, const Graph& graph);

// Runs the program once with these inputs, and returns all outputs.
Tensors run(Program& program, const Tensors& inputs);

// Runs the graph once, with verify() after every pass, and returns all outputs.
Tensors run_graph(Graph graph, std::shared_ptr<Device> device, const Tensors& inputs);

// ||a - b|| / ||b||, elements as doubles; infinite when only one has a NaN at some position. Equal infinities agree.
double relative_error(const HostTensor& a, const HostTensor& b);

}  // namespace ridgepoint::testing

namespace ridgepoint {

using testing::Tensors;

}  // namespace ridgepoint
