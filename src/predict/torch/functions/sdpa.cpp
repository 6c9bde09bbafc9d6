// torch.nn.functional.scaled_dot_product_attention of torch/functions.h, as PyTorch 2.11 chooses on Ampere and later:
// FlashAttention in bf16 and fp16 without a mask, otherwise the memory-efficient kernel of xFormers, and where that
// cannot take fewer heads of keys and values, plain ops. Formulas: aten/src/ATen/native/transformers/attention.cpp,
// cuda/attention.cu, attention_backward.cu and flash_attn/flash_api.cpp.
#include <algorithm>
#include <utility>

#include "predict/torch/functions/functions.h"
#include "predict/torch/functions/workspaces.h"

namespace ridgepoint::torch {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// [B,H,S,D] as [B,S,H,D]
Sizes by_token(const Tensor& x) { return {x.sizes[0], x.sizes[2], x.sizes[1], x.sizes[3]}; }

}  // namespace

Tensor Functions::scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const Tensor low_q = low(q);
  const Tensor low_k = low(k);
  const Tensor low_v = low(v);
  const bool is_narrow = q.sizes[3] <= kWidestFlash;
  if (!mask.is_defined() && is_narrow && low_q.dtype != DType::fp32) return flash_attention(low_q, low_k, low_v);
  return q.sizes[1] == k.sizes[1] ? memory_efficient_attention(low_q, low_k, low_v, mask)
                                  : math_attention(low_q, low_k, low_v);
}

// The result has the strides of q. Backward sums the gradient of q in fp32, and those of k and v over the heads of q
// that share them.
Tensor Functions::flash_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool is_read = q.needs_gradient() || k.needs_gradient() || v.needs_gradient();
  const Saved saved_q = save(q, is_read), saved_k = save(k, is_read), saved_v = save(v, is_read);
  const std::int64_t rows = q.sizes[2];
  const Tensor result = kernels_.empty_like(q);
  const Tensor log_sum_exp = kernels_.empty({q.sizes[0], q.sizes[1], rows}, DType::fp32);
  const Tensor random_state = kernels_.empty({2}, DType::int64);
  const Tensor unused = kernels_.empty({}, DType::int64);
  const Saved saved_result = save(result, is_read), saved_sums = save(log_sum_exp, is_read);
  const Saved saved_state = save(random_state, is_read), saved_unused = save(unused, is_read);
  return record(
      result, {q, k, v},
      [this, saved_q, saved_k, saved_v, saved_result, saved_sums, saved_state, saved_unused](const Tensor& gradient) {
        const Tensor old_q = saved_q.take(), old_k = saved_k.take(), old_v = saved_v.take();
        const Tensor old_result = saved_result.take(), old_log_sum_exp = saved_sums.take();
        const Tensor old_random_state = saved_state.take(), old_unused = saved_unused.take();
        const AttentionBackward op(AttentionBackward::Kernel::flash, gradient, old_q, old_k, old_result);
        const std::vector<Tensor> copies = op.workspaces(Moment::first, kernels_);
        std::vector<Tensor> gradients = {kernels_.empty_like(old_q), kernels_.empty_like(old_k),
                                         kernels_.empty_like(old_v)};
        const std::vector<Tensor> workspaces = op.workspaces(Moment::after, kernels_);
        return gradients;
      });
}

// The result and the gradients are [B,S,H,D] in memory. A boolean mask is made one of 0 and -inf in the dtype of q,
// with rows of a multiple of 16 elements. In 16 bits, backward sums the gradient of q in fp32, in tiles,
// and of wide heads those of k and v, too.
Tensor Functions::memory_efficient_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  constexpr std::int64_t kAlignmentOfRows = 32, kAlignmentOfMask = 16;
  const bool is_read = q.needs_gradient() || k.needs_gradient() || v.needs_gradient();
  Tensor bias;
  if (mask.is_defined()) {
    const Tensor inverted = kernels_.empty(mask.sizes, DType::boolean);
    bias = kernels_.empty(with_last(mask.sizes, round_up(mask.sizes.back(), kAlignmentOfMask)), q.dtype);
  }
  const Saved saved_q = save(q, is_read), saved_k = save(k, is_read), saved_v = save(v, is_read);
  const Saved saved_bias = save(bias, is_read);
  const Tensor result = kernels_.empty(by_token(q), q.dtype).transposed(1, 2);
  const Sizes rows = {q.sizes[0], q.sizes[1], round_up(q.sizes[2], kAlignmentOfRows)};
  const Tensor log_sum_exp = kernels_.empty(rows, DType::fp32);
  const Tensor random_state = kernels_.empty({2}, DType::int64);
  const Saved saved_result = save(result, is_read), saved_sums = save(log_sum_exp, is_read);
  const Saved saved_state = save(random_state, is_read);
  return record(
      result, {q, k, v},
      [this, saved_q, saved_k, saved_v, saved_bias, saved_result, saved_sums, saved_state](const Tensor& gradient) {
        const Tensor old_q = saved_q.take(), old_k = saved_k.take(), old_v = saved_v.take();
        const Tensor old_bias = saved_bias.take(), old_result = saved_result.take();
        const Tensor old_log_sum_exp = saved_sums.take(), old_random_state = saved_state.take();
        const AttentionBackward op(AttentionBackward::Kernel::efficient, gradient, old_q, old_k, old_result);
        const std::vector<Tensor> copies = op.workspaces(Moment::first, kernels_);
        std::vector<Tensor> gradients;
        for (const Tensor* x : {&old_q, &old_k, &old_v})
          gradients.push_back(kernels_.empty(by_token(*x), x->dtype).transposed(1, 2));
        const std::vector<Tensor> workspaces = op.workspaces(Moment::after, kernels_);
        return gradients;
      });
}

// _scaled_dot_product_attention_math: q and k are scaled by the root of the factor each, and keys and values repeated.
Tensor Functions::math_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scaled_q = mul_number(q);
  const std::int64_t rows = q.sizes[2];
  const Tensor causal = kernels_.empty({rows, rows}, q.dtype);
  const std::int64_t repeats = q.sizes[1] / k.sizes[1];
  const Tensor keys = repeat_heads(k, repeats);
  const Tensor values = repeat_heads(v, repeats);
  const Tensor scaled_k = mul_number(transpose(keys, 2, 3));
  // The mask is added in place.
  return matmul(safe_softmax(matmul(scaled_q, scaled_k)), values);
}

// Rows without a key are set to 0: where((x == -inf).all(-1), 0, softmax(x)).
Tensor Functions::safe_softmax(const Tensor& x) {
  const Tensor softmax = kernels_.copy(x);
  const Tensor result = [&] {
    const Tensor masked = kernels_.empty(x.sizes, DType::boolean);
    const Tensor masked_rows = kernels_.empty(with_last(x.sizes, 1), DType::boolean);
    return kernels_.copy(x);
  }();
  return record(result, {x}, [this, saved = save(result, x.needs_gradient())](const Tensor&) {
    const Tensor old_result = saved.take();
    Tensor to_x = kernels_.copy(old_result);
    const std::vector<Tensor> product = softmax_backward_workspaces(kernels_, old_result);
    return std::vector{std::move(to_x)};
  });
}

}  // namespace ridgepoint::torch
