// PyTorch's autograd: the nodes that ops record, and the engine that runs them in PyTorch's order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "predict/torch/autograd/tensor.h"

namespace ridgepoint::torch {

// The allocations of PyTorch's kernels on a GPU: the results of ops, and the workspaces of cuBLAS. Elementwise results
// have the axis order of the first operand in memory, as TensorIterator gives it.

// Python's thread, and the thread in which autograd runs backward. Each has its own cuBLAS handle.
enum class Thread : std::uint8_t { python, autograd };

class Kernels {
 public:
  // A cuBLAS handle allocates a workspace of `workspace_bytes` with its first product and keeps it.
  Kernels(Allocator& allocator, std::size_t workspace_bytes)
      : allocator_(allocator), workspace_bytes_(workspace_bytes) {}

  // The category of later allocations, and the thread that runs.
  void enter(MemoryCategory category, Thread thread) { category_ = category, thread_ = thread; }

  Tensor empty(const Sizes& sizes, DType dtype) const;
  // With the strides of `like` if its elements fill a block, otherwise contiguous.
  Tensor empty_like(const Tensor& like, DType dtype) const;
  Tensor empty_like(const Tensor& like) const { return empty_like(like, like.dtype); }
  Tensor copy(const Tensor& x) const { return empty(x.sizes, x.dtype); }
  Tensor contiguous(const Tensor& x) const { return x.is_contiguous() ? x.detached() : copy(x); }
  // A view where the strides allow it, otherwise a copy.
  Tensor reshaped(const Tensor& x, const Sizes& sizes) const;
  // `x` itself if it has the dtype.
  Tensor cast(const Tensor& x, DType dtype) const;
  // The sum over the axes that broadcasting to x.sizes repeated; `x` itself if there are none.
  Tensor sum_to(const Tensor& x, const Sizes& sizes) const;
  // An elementwise result of one operand.
  Tensor like(const Tensor& x) const;
  // The broadcast shape and the wider dtype of both.
  Tensor elementwise(const Tensor& a, const Tensor& b) const;
  // A product [..., rows, columns] by cuBLAS.
  Tensor product(const Sizes& sizes, DType dtype);

 private:
  Allocator& allocator_;
  std::size_t workspace_bytes_;
  MemoryCategory category_ = MemoryCategory::parameter;
  Thread thread_ = Thread::python;
  std::array<std::shared_ptr<Storage>, 2> workspaces_;  // by thread
};

// Computes the gradients of a node's inputs from the gradient of its result; holds the tensors that the op saved. The
// gradient of an input that needs none is undefined.
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

// Runs backward from a scalar. Of the ready nodes, parameters run first, then the node that was recorded last. A node's
// saved tensors are released after it ran. A gradient is summed and cast to the shape and dtype that its node expects.
// If a value has several readers, later gradients are added to the first in place, unless something else refers to it
// (torch/csrc/autograd/engine.cpp and input_buffer.cpp). The first gradient of a parameter is taken over without a
// copy.
void run_backward(const Tensor& loss, Kernels& kernels);

}  // namespace ridgepoint::torch
