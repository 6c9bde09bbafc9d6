// The workspaces of kernels: the rows of workspaces.def, as blocks of an allocator. A block is released with its
// tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "predict/torch/autograd/autograd.h"

namespace ridgepoint::torch {

// Whether a row's block is allocated before the results of its op.
enum class Moment : std::uint8_t { first, after };

// Of each handle of cuBLAS. `capability`: 90 for 9.0.
std::size_t cublas_workspace_bytes(int capability);

std::vector<Tensor> softmax_backward_workspaces(Kernels& kernels, const Tensor& result);

struct EmbeddingBackward {
  std::int64_t count, rows, width;
};
std::vector<Tensor> workspaces_of(const EmbeddingBackward& op, Moment moment, Kernels& kernels);

// scaled_dot_product_attention's backward of q [B,H,S,D] and k.
class AttentionBackward {
 public:
  enum class Kernel : std::uint8_t { flash, efficient };

  AttentionBackward(Kernel kernel, const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& result);
  std::vector<Tensor> workspaces(Moment moment, Kernels& kernels) const;

 private:
  Kernel kernel_;
  DType dtype_;
  std::int64_t batch_, heads_, key_heads_, rows_, keys_, width_;
  bool copies_gradient_, copies_forward_;
};

}  // namespace ridgepoint::torch
