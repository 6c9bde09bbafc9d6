// Tiled attention on the CPU (Dao et al. 2022): blocks of scores that stay in a core's cache, softmax row by row as
// blocks come, nothing of size S x S in memory. Operands dense, in fp32, bf16 or fp16; scores, exponentials, sums and
// the log-sum-exp in fp32. Where the processor multiplies bf16, weights are rounded to it for their product with v;
// other 16-bit operands are widened block by block, and their weights are not rounded. Results depend on the thread
// count by rounding alone, and repeat to the bit for one.
// A key hidden from a query has no effect on its result and its gradient, even where it is NaN. A value, a query or a
// gradient that is NaN or infinite may spoil what is hidden from it, as 0 times it is NaN in plain ops too.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgepoint::cpu {

// Whether `attention` or `attention_backward` runs as this kernel.
bool has_attention(const Graph& graph, const Node& node);

std::unique_ptr<Kernel> make_attention_kernel(const KernelSpec& spec);
std::unique_ptr<Kernel> make_attention_backward_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
