// The kernels of this folder; those of its subfolders have headers of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "runtime/device/device.h"

namespace ridgepoint::cpu {

// How many rows of this width a thread takes at a time.
inline std::int64_t rows_per_range(std::int64_t width) {
  constexpr std::int64_t kElements = 1 << 13;
  return std::max<std::int64_t>(kElements / std::max<std::int64_t>(width, 1), 1);
}

// Embedding, rows of a table by index: table [V,D] of any dtype, indices int64 [...] -> [...,D]; all dense. This kernel
// and the next check every index against the table and throw Error with the first bad one; nothing is written out of
// bounds.
std::unique_ptr<Kernel> make_embedding_kernel(const KernelSpec& spec);

// Its gradient, rows summed by index: gradient [...,D] of a floating dtype, indices int64 [...] -> [V,D]; all dense.
// Each row is the sum of its gradients in the order of their positions (in fp32 for bf16 and fp16), for any thread
// count.
std::unique_ptr<Kernel> make_embedding_backward_kernel(const KernelSpec& spec);

// Weights that are stored in 4 or 8 bits: packed bytes -> [rows,columns] in bf16, fp16 or fp32; dense.
std::unique_ptr<Kernel> make_dequantise_kernel(const KernelSpec& spec);

// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/rope.cpp), in fp32 or bf16: x
// [...,D] with any strides; cosines and sines fp32 [S,D/2], dense; output dense. One pass over memory, vectorised.
std::unique_ptr<Kernel> make_rope_kernel(const KernelSpec& spec);

// Mixture of experts on the CPU: top-k, the order of tokens by expert, and products of the rows of each expert with its
// matrix. Operands and results are dense. Results do not depend on the number of threads.

// top_k, top_k_backward and expert_order. An index outside its range throws Error at launch.
std::unique_ptr<Kernel> make_routing_kernel(const KernelSpec& spec);

// grouped_matmul and grouped_matmul_weights: oneDNN's SGEMM for each expert and tile of columns; bf16 and fp16 operands
// are widened to fp32 in the workspace, fp64 is computed in plain loops. Offsets that do not rise within the rows throw
// Error at launch.
std::unique_ptr<Kernel> make_grouped_matmul_kernel(const KernelSpec& spec);

// linear_attention and its derivative: each thread takes a head, in the derivative also chunks of a head of the keys.
// Operands and results are dense, of any floating dtype; bf16 and fp16 are widened to fp32. The workspace of the
// derivative has the states before all chunks and their gradients. Results do not depend on the number of threads.
std::unique_ptr<Kernel> make_linear_attention_kernel(const KernelSpec& spec);

// sum_of_squares: tensors of any strides in fp32, bf16 or fp16, one after another; their sums are added in fp64.
bool has_sum_of_squares(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_sum_of_squares_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
