// torch.nn.functional.scaled_dot_product_attention of torch/functions.h: FlashAttention in bf16 and fp16, the
// memory-efficient kernel of xFormers in fp32, as PyTorch chooses on Ampere and later. Formulas:
// aten/src/ATen/native/transformers/cuda/attention.cu, attention_backward.cu and flash_attn/flash_api.cpp.
#include <algorithm>
#include <utility>

#include "measure/memory/torch/functions.h"

namespace ridgepoint::torch {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Tensor Functions::scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor low_q = low(q);
  const Tensor low_k = low(k);
  const Tensor low_v = low(v);
  return low_q.dtype == DType::fp32 ? memory_efficient_attention(low_q, low_k, low_v)
                                    : flash_attention(low_q, low_k, low_v);
}

// The result has the strides of q. Backward sums the gradient of q in fp32.
Tensor Functions::flash_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr std::int64_t kRowsOfATile = 128;
  constexpr std::int64_t kWidthOfATile = 32;
  const std::int64_t rows = q.sizes[2];
  const Tensor result = kernels_.empty_like(q);
  const Tensor log_sum_exp = kernels_.empty({q.sizes[0], q.sizes[1], rows}, DType::fp32);
  const Tensor random_state = kernels_.empty({2}, DType::int64);
  const Tensor unused = kernels_.empty({}, DType::int64);
  return record(
      result, {q, k, v},
      [this, q = q.detached(), k = k.detached(), v = v.detached(), result, log_sum_exp, random_state,
       unused](const Tensor& gradient) {
        const Tensor gradient_by_token = kernels_.contiguous(gradient.transposed(1, 2));
        const Tensor result_by_token = kernels_.contiguous(result.transposed(1, 2));
        std::vector<Tensor> gradients = {kernels_.empty_like(q), kernels_.empty_like(k), kernels_.empty_like(v)};
        const Sizes tiles = {q.sizes[0], q.sizes[1], round_up(q.sizes[2], kRowsOfATile)};
        const Tensor row_sums = kernels_.empty(tiles, DType::fp32);
        Sizes sizes = tiles;
        sizes.push_back(round_up(q.sizes[3], kWidthOfATile));
        const Tensor accumulator = kernels_.empty(sizes, DType::fp32);
        return gradients;
      });
}

// The result and the gradients are [B,S,H,D] in memory.
Tensor Functions::memory_efficient_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr std::int64_t kAlignmentOfRows = 32;
  const auto by_token = [](const Tensor& x) { return Sizes{x.sizes[0], x.sizes[2], x.sizes[1], x.sizes[3]}; };
  const Tensor result = kernels_.empty(by_token(q), q.dtype).transposed(1, 2);
  const Sizes rows = {q.sizes[0], q.sizes[1], round_up(q.sizes[2], kAlignmentOfRows)};
  const Tensor log_sum_exp = kernels_.empty(rows, DType::fp32);
  const Tensor random_state = kernels_.empty({2}, DType::int64);
  return record(result, {q, k, v},
                [this, q = q.detached(), k = k.detached(), v = v.detached(), result, log_sum_exp, random_state,
                 by_token](const Tensor& gradient) {
                  const Tensor gradient_by_token = kernels_.contiguous(gradient.transposed(1, 2));
                  std::vector<Tensor> gradients;
                  for (const Tensor* x : {&q, &k, &v})
                    gradients.push_back(kernels_.empty(by_token(*x), x->dtype).transposed(1, 2));
                  const Tensor row_sums = kernels_.empty(log_sum_exp.sizes, DType::fp32);
                  return gradients;
                });
}

}  // namespace ridgepoint::torch
