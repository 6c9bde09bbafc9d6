// PyTorch's autograd: the nodes that ops record, and the engine that runs them in PyTorch's order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "predict/torch/autograd/kernels.h"
#include "predict/torch/autograd/tensor.h"

namespace ridgepoint::torch {

// From the gradient of a node's result to those of its inputs; it holds the tensors that the op saved. An undefined
// gradient stands for an input that needs none.
using Backward = std::function<std::vector<Tensor>(const Tensor& gradient)>;

// The node of one op, or of a parameter (AccumulateGrad).
class Node {
 public:
  // `result` is the result of the op, or the parameter.
  Node(const Tensor& result, std::uint64_t number) : sizes(result.sizes), dtype(result.dtype), sequence(number) {}
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const Sizes sizes;  // of the result, and so of its gradient
  const DType dtype;
  const std::uint64_t sequence;             // when it was recorded
  std::vector<std::shared_ptr<Node>> next;  // of the inputs, null for one without gradient
  Backward backward;                        // empty: a parameter, or its saved tensors are released
  bool is_parameter = false;
  Tensor gradient;  // of a parameter
};

// Runs backward from a scalar: the ready node that was recorded last comes first, parameters before all. A node's saved
// tensors are released after it ran. A gradient is summed and cast to what its node expects; at a fan-out it is added
// to the earlier one in place if nothing else refers to that (torch/csrc/autograd/engine.cpp and input_buffer.cpp). The
// first gradient of a parameter is taken over without a copy.
void run_backward(const Tensor& loss, Kernels& kernels);

}  // namespace ridgepoint::torch
