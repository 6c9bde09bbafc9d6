// The attributes and sizes of linear_attention and linear_attention_backward (ops/rules/linear_attention.cpp).
#pragma once

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

struct LinearAttentionForm {
  double scale = 1;
  bool delta = false;  // whether a token's value is corrected by what the state has for its key
};
inline LinearAttentionForm linear_attention_form(const Attributes& attributes) {
  return {attributes.get<double>("scale"), attributes.get<bool>("delta")};
}

// The tokens that kernels take at a time, and for which operations are counted.
inline constexpr std::int64_t kLinearAttentionChunk = 64;

// Of q and k [batch,key_heads,tokens,key_width] and v [batch,heads,tokens,value_width].
struct LinearAttentionSizes {
  std::int64_t batch = 1, key_heads = 1, heads = 1, tokens = 0, key_width = 0, value_width = 0;

  LinearAttentionSizes(const Shape& k, const Shape& v) : tokens(k[-2]), key_width(k[-1]), value_width(v[-1]) {
    for (int axis = 0; axis < k.rank() - 3; ++axis) batch *= k[axis];
    if (k.rank() < 3) return;
    key_heads = k[-3];
    heads = v[-3];
  }
  std::int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }  // heads that read one key head
};

}  // namespace ridgepoint
