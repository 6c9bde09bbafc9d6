#include "predict/torch/functions/workspaces.h"

#include <algorithm>

namespace ridgepoint::torch {

// A row of an op: `moment`, `kernels` and `blocks` are the caller's.
#define ROW(name, order, type, condition, elements)    \
  if (moment == Moment::order && (condition)) {        \
    using enum DType;                                  \
    blocks.push_back(kernels.empty({elements}, type)); \
  }

std::size_t cublas_workspace_bytes(int capability) {
  std::size_t bytes = 0;
#define TORCH_CUBLAS(name, order, type, condition, elements) \
  if (condition) bytes = elements;
#include "predict/torch/functions/workspaces.def"
  return bytes;
}

std::vector<Tensor> softmax_backward_workspaces(Kernels& kernels, const Tensor& softmax) {
  constexpr Moment moment = Moment::after;
  const DType result = softmax.dtype;
  const std::int64_t count = softmax.elements();
  std::vector<Tensor> blocks;
#define TORCH_SOFTMAX_BACKWARD ROW
#include "predict/torch/functions/workspaces.def"
  return blocks;
}

std::vector<Tensor> workspaces_of(const EmbeddingBackward& op, Moment moment, Kernels& kernels) {
  const auto [count, rows, width] = op;
  const std::int64_t segments = std::min(count, rows);
  std::vector<Tensor> blocks;
#define TORCH_EMBEDDING_BACKWARD ROW
#include "predict/torch/functions/workspaces.def"
  return blocks;
}

AttentionBackward::AttentionBackward(Kernel kernel, const Tensor& gradient, const Tensor& q, const Tensor& k,
                                     const Tensor& result)
    : kernel_(kernel),
      dtype_(q.dtype),
      batch_(q.sizes[0]),
      heads_(q.sizes[1]),
      key_heads_(k.sizes[1]),
      rows_(q.sizes[2]),
      keys_(k.sizes[2]),
      width_(q.sizes[3]),
      copies_gradient_(!gradient.transposed(1, 2).is_contiguous()),
      copies_forward_(!result.transposed(1, 2).is_contiguous()) {}

std::vector<Tensor> AttentionBackward::workspaces(Moment moment, Kernels& kernels) const {
  const DType result = dtype_;
  const std::int64_t batch = batch_, heads = heads_, key_heads = key_heads_, rows = rows_, keys = keys_, width = width_;
  const bool is_low_dtype = is_low(dtype_);
  std::vector<Tensor> blocks;
  if (kernel_ == Kernel::flash) {
    const bool copies_gradient = copies_gradient_, copies_forward = copies_forward_;
#define TORCH_FLASH_ATTENTION_BACKWARD ROW
#include "predict/torch/functions/workspaces.def"
  } else {
    const bool copies_gradient = copies_gradient_, is_low = is_low_dtype;
#define TORCH_EFFICIENT_ATTENTION_BACKWARD ROW
#include "predict/torch/functions/workspaces.def"
  }
  return blocks;
}

}  // namespace ridgepoint::torch
