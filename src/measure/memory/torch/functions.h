// The ops of PyTorch that the Transformer calls: what they allocate, what they save for backward and what backward
// allocates, by the formulas of tools/autograd/derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp. The order
// of allocations is PyTorch's: of two gradients that of `other` comes first. Autocast follows the lists of
// aten/src/ATen/autocast_mode.h for CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "measure/memory/torch/autograd.h"
#include "measure/memory/torch/kernels.h"

namespace ridgepoint::torch {

class Functions {
 public:
  // `low`: the dtype of autocast; empty without autocast.
  Functions(Kernels& kernels, std::optional<DType> low) : kernels_(kernels), low_(low) {}

  Kernels& kernels() { return kernels_; }
  // torch.set_grad_enabled()
  void set_grad_enabled(bool enabled) { grad_enabled_ = enabled; }
  // The context of torch.autocast(): leaving it drops the low copies of parameters.
  void enter_autocast() { in_autocast_ = low_.has_value(); }
  void exit_autocast();

  Tensor parameter(const Sizes& sizes);

  // Views.
  Tensor view(const Tensor& x, const Sizes& sizes);  // x.reshape(): copies where the strides allow no view
  Tensor transpose(const Tensor& x, int a, int b);
  Tensor every_other(const Tensor& x);  // x[..., 0::2]

  // Elementwise, with broadcasting and the promotion of dtypes.
  Tensor add(const Tensor& a, const Tensor& b);
  Tensor sub(const Tensor& a, const Tensor& b);
  Tensor mul(const Tensor& a, const Tensor& b);
  Tensor div(const Tensor& a, const Tensor& b);
  Tensor add_number(const Tensor& x);
  Tensor div_number(const Tensor& x);
  Tensor square(const Tensor& x);  // x.pow(2)
  Tensor rsqrt(const Tensor& x);
  Tensor exp(const Tensor& x);
  Tensor silu(const Tensor& x);
  Tensor to(const Tensor& x, DType dtype);
  Tensor where(const Tensor& mask, const Tensor& x);  // torch.where(mask, x, number)

  // Over the last axis, which stays with size 1.
  Tensor mean(const Tensor& x);
  Tensor sum(const Tensor& x);
  Tensor amax(const Tensor& x);
  Tensor softmax(const Tensor& x);

  Tensor stack_last(const Tensor& a, const Tensor& b);  // torch.stack((a, b), -1)
  Tensor embedding(const Tensor& table, const Tensor& indices);
  Tensor linear(const Tensor& x, const Tensor& weight);
  Tensor matmul(const Tensor& a, const Tensor& b);  // [B,H,n,m] and [B,H,m,p]
  // Causal, [B,H,S,D] each.
  Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v);
  Tensor cross_entropy(const Tensor& logits, const Tensor& targets);  // [N,V] and [N]; the mean

 private:
  // Gives the result of an op its node, if one of the inputs needs a gradient.
  Tensor record(Tensor result, const std::vector<Tensor>& inputs, Backward backward);
  // What autocast makes of an argument of an op in low precision, or in fp32.
  Tensor low(const Tensor& x);
  Tensor fp32(const Tensor& x);
  Tensor copy(const Tensor& x);
  Tensor mm(const Tensor& a, const Tensor& b);
  Tensor bmm(const Tensor& a, const Tensor& b);
  Tensor log_softmax(const Tensor& x);
  Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets);
  Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v);
  Tensor memory_efficient_attention(const Tensor& q, const Tensor& k, const Tensor& v);

  Kernels& kernels_;
  std::optional<DType> low_;
  bool in_autocast_ = false;
  bool grad_enabled_ = true;
  std::uint64_t recorded_ = 0;
  std::unordered_map<const Node*, Tensor> low_parameters_;  // autocast's cache of casts
};

}  // namespace ridgepoint::torch
