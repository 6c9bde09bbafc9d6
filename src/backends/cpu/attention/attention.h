// Flash attention on the CPU (Dao et al. 2022): blocks of scores stay in a core's cache, the softmax is computed
// online, and nothing of size S x S is in memory. Operands are dense fp32, bf16 or fp16; scores, exponentials, sums and
// the log-sum-exp are fp32. If the processor multiplies bf16, the weights are rounded to bf16 for the product with v;
// otherwise 16-bit operands are converted to fp32 block by block, and the weights are not rounded. Another thread count
// changes results by rounding only; with the same thread count they are bit for bit the same.
// A masked key has no effect on a query's result and gradient, even if the key is NaN. A NaN or infinite value, query
// or gradient may make masked positions NaN, because 0 times it is NaN, as in the composite variant.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace ridgepoint::cpu {

// Whether make_attention_kernel() or make_attention_backward_kernel() takes the node.
bool has_attention(const Graph& graph, const Node& node);

std::unique_ptr<Kernel> make_attention_kernel(const KernelSpec& spec);
std::unique_ptr<Kernel> make_attention_backward_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
