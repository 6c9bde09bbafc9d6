// Mixture of experts on the CPU: top-k, the order of tokens by expert, and products of the rows of each expert with its
// matrix. Operands and results are dense. Results do not depend on the number of threads.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace ridgepoint::cpu {

// top_k, top_k_backward and expert_order. An index outside its range throws Error at launch.
std::unique_ptr<Kernel> make_routing_kernel(const KernelSpec& spec);

// grouped_matmul and grouped_matmul_weights: oneDNN's SGEMM for each expert and tile of columns; bf16 and fp16 operands
// are widened to fp32 in the workspace, fp64 is computed in plain loops. Offsets that do not rise within the rows throw
// Error at launch.
std::unique_ptr<Kernel> make_grouped_matmul_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
