// The ops of PyTorch that the models call: their allocations, the tensors that they save for backward, and the
// allocations of backward, by the formulas of tools/autograd/derivatives.yaml and
// torch/csrc/autograd/FunctionsManual.cpp. Allocations come in PyTorch's order: of two gradients, the gradient of
// `other` first. Autocast follows the lists of aten/src/ATen/autocast_mode.h for CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "predict/torch/autograd/autograd.h"

namespace ridgepoint::torch {

// The saved tensors of autograd nodes, with activation checkpointing (torch/utils/checkpoint.py with
// use_reentrant=False): a checkpoint saves none, and the first node that needs one makes the function run again.

// Ends the second run of a checkpoint's function, once all that was saved is there again.
struct StopRecomputation {};

class Checkpoint {
 public:
  // The first run: the place of one more saved tensor.
  std::size_t add() { return count_++; }
  // The second run: the next saved tensor. Throws StopRecomputation with the last one.
  void keep(const Tensor& tensor) {
    recomputed_.push_back(tensor);
    if (recomputed_.size() == count_) throw StopRecomputation();
  }
  // Gives away what was saved at the place.
  Tensor take(std::size_t place) {
    if (!has_run_again_) {
      has_run_again_ = true;
      run_again(*this);
    }
    return std::move(recomputed_[place]);
  }

  // Runs the function again; its saved tensors go to keep().
  std::function<void(Checkpoint&)> run_again;

 private:
  std::size_t count_ = 0;
  std::vector<Tensor> recomputed_;
  bool has_run_again_ = false;
};

class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor) : tensor_(tensor.detached()), is_defined_(true) {}
  explicit Saved(std::shared_ptr<Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)), place_(checkpoint_->add()), is_defined_(true) {}

  // Whether the node saved something.
  bool is_defined() const { return is_defined_; }
  // The saved tensor, for the node as it runs; undefined if it saved none. A tensor that a checkpoint made again is
  // given away.
  Tensor take() const { return checkpoint_ ? checkpoint_->take(place_) : tensor_; }

 private:
  Tensor tensor_;
  std::shared_ptr<Checkpoint> checkpoint_;
  std::size_t place_ = 0;
  bool is_defined_ = false;
};

class Functions {
 public:
  static constexpr std::int64_t kWidestFlash = 256;  // heads that FlashAttention takes

  // `low`: the dtype of autocast; empty without autocast.
  Functions(Kernels& kernels, std::optional<DType> low) : kernels_(kernels), low_(low) {}

  Kernels& kernels() { return kernels_; }
  // torch.set_grad_enabled()
  void set_grad_enabled(bool enabled) { grad_enabled_ = enabled; }
  // The context of torch.autocast(): leaving it drops the low copies of parameters.
  void enter_autocast() { in_autocast_ = low_.has_value(); }
  void exit_autocast();

  Tensor parameter(const Sizes& sizes);
  // torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False). `function` runs again in backward, in the
  // same context of autocast, until it has saved what it saved before.
  Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& x);

  // Views.
  Tensor view(const Tensor& x, const Sizes& sizes);  // x.reshape(): copies where the strides allow no view
  Tensor transpose(const Tensor& x, int a, int b);
  Tensor every_other(const Tensor& x);               // x[..., 0::2]
  Tensor slice(const Tensor& x, std::int64_t size);  // x[..., :size], or as many others
  Tensor select(const Tensor& x, int axis);          // one element of the axis, which disappears
  std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes);  // of the last axis
  // A parameter [H] as [batch,H,rows,1]: reshape() and expand().
  Tensor column_of_heads(const Tensor& x, std::int64_t batch, std::int64_t rows);
  // [B,H,S,D] -> [B,H*repeats,S,D]: expand() and reshape(), which copies; x itself for one repeat.
  Tensor repeat_heads(const Tensor& x, std::int64_t repeats);
  Tensor contiguous(const Tensor& x);

  // Elementwise, with broadcasting and the promotion of dtypes.
  Tensor add(const Tensor& a, const Tensor& b);
  Tensor add_in_place(const Tensor& a, const Tensor& b);      // a += b
  Tensor mul_in_place(const Tensor& x);                       // x *= of what needs no gradient
  Tensor clamp(const Tensor& x);                              // x.clamp(number, number)
  Tensor clamp_in_place(const Tensor& x);                     // x.clamp_(number, number)
  Tensor mask_in_place(const Tensor& x, const Tensor& mask);  // x.masked_fill_(mask, number)
  Tensor sub(const Tensor& a, const Tensor& b);
  Tensor mul(const Tensor& a, const Tensor& b);
  Tensor div(const Tensor& a, const Tensor& b);
  Tensor add_number(const Tensor& x);
  Tensor mul_number(const Tensor& x);
  Tensor div_number(const Tensor& x);
  Tensor neg(const Tensor& x);
  Tensor power(const Tensor& x);  // x.pow(number)
  Tensor rsqrt(const Tensor& x);
  Tensor exp(const Tensor& x);
  Tensor tanh(const Tensor& x);
  Tensor sigmoid(const Tensor& x);
  Tensor silu(const Tensor& x);
  Tensor relu(const Tensor& x);
  Tensor gelu(const Tensor& x);  // with either approximation
  Tensor to(const Tensor& x, DType dtype);
  Tensor where(const Tensor& mask, const Tensor& x);  // torch.where(mask, x, number)

  // Over the last axis, which stays with size 1.
  Tensor mean(const Tensor& x);
  Tensor sum(const Tensor& x);
  Tensor amax(const Tensor& x);
  Tensor max(const Tensor& x);  // the values of x.max(-1, keepdim=True)
  Tensor softmax(const Tensor& x);
  Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias);  // weight and bias may be undefined

  Tensor stack_last(const Tensor& a, const Tensor& b);  // torch.stack((a, b), -1)
  Tensor cat_last(const Tensor& a, const Tensor& b);    // torch.cat((a, b), -1)
  Tensor embedding(const Tensor& table, const Tensor& indices);
  Tensor rows(const Tensor& x, const Tensor& indices);       // x[indices] of [N,...] and int64 [M]
  Tensor top_k(const Tensor& x, std::int64_t k);             // the values of torch.topk(x, k); [N,E] -> [N,k]
  Tensor sum_of_groups(const Tensor& x, std::int64_t size);  // x.view(N, size, D).sum(1) of [N*size,D]
  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
  Tensor wide_linear(const Tensor& x, const Tensor& weight);                 // the same without autocast, of fp32
  Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias);  // addmm(bias, x, weight), as GPT-2
  Tensor matmul(const Tensor& a, const Tensor& b);                           // [B,H,n,m] and [B,H,m,p]
  // grouped_mm(x, weight.transpose(1, 2)) of [P,in] and [E,out,in], or grouped_mm(x, weight) of [E,in,out]; autocast
  // does not know it.
  Tensor grouped_linear(const Tensor& x, const Tensor& weight, bool is_transposed = false);
  // Causal without a mask, [B,H,S,D] each; k and v may have fewer heads (enable_gqa). `mask` is boolean [B,1,S,S].
  Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {});
  Tensor cross_entropy(const Tensor& logits, const Tensor& targets);  // [N,V] and [N]; the mean

 private:
  // Gives the result of an op its node, if one of the inputs needs a gradient.
  Tensor record(Tensor result, const std::vector<Tensor>& inputs, Backward backward);
  // The elements of `x` that were taken; the gradient is zero elsewhere.
  Tensor part(const Tensor& x, Tensor taken);
  // Saves `x` for the node if backward reads it. Inputs are saved before the kernel runs.
  Saved save(const Tensor& x, bool is_read);
  void run_again(Checkpoint& checkpoint, const std::function<Tensor(const Tensor&)>& function, const Tensor& x,
                 bool in_autocast);
  // An elementwise op whose backward has as many tensors as it saves none.
  Tensor copying(const Tensor& x);
  // An elementwise op that saves its argument, and whose gradient is one kernel of both.
  Tensor activation(const Tensor& x);
  // An elementwise op that saves its result, and whose gradient is one kernel of both.
  Tensor activation_by_result(const Tensor& x);
  // The result of a clamp of x, whichever storage it has.
  Tensor clamped(Tensor result, const Tensor& x, const Saved& saved);
  // An argument as autocast casts it for an op in low precision, or in fp32.
  Tensor low(const Tensor& x);
  Tensor fp32(const Tensor& x);
  Tensor copy(const Tensor& x);
  Tensor mm(const Tensor& a, const Tensor& b);
  Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b);
  Tensor bmm(const Tensor& a, const Tensor& b);
  Tensor log_softmax(const Tensor& x);
  Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets);
  Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v);
  Tensor memory_efficient_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask);
  Tensor math_attention(const Tensor& q, const Tensor& k, const Tensor& v);
  Tensor safe_softmax(const Tensor& x);

  Kernels& kernels_;
  std::optional<DType> low_;
  bool in_autocast_ = false;
  bool grad_enabled_ = true;
  std::uint64_t recorded_ = 0;
  std::shared_ptr<Checkpoint> checkpoint_;                  // whose first run this is
  Checkpoint* recomputed_ = nullptr;                        // whose second run this is
  std::unordered_map<const Node*, Tensor> low_parameters_;  // autocast's cache of casts
};

}  // namespace ridgepoint::torch
