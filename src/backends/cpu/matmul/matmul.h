// Matrix multiplication on the CPU: oneDNN's SGEMM over a grid of tiles for fp32, its matmul primitive for bf16 where
// the processor has it, and plain loops for fp64. Any strides are accepted; those no BLAS takes are packed into the
// workspace first, as are fp16 (and bf16 without hardware) operands, which are widened to fp32.
#pragma once

#include <memory>

#include "runtime/device.h"
#include "runtime/matmul_problem.h"

namespace ridgepoint::cpu {

std::unique_ptr<Kernel> make_matmul_kernel(const KernelSpec& spec);

// Whether the processor has products of bf16, and what is said, once for a dtype, where products are by way of fp32.
bool has_bf16_products();
void say_emulated(DType dtype);

// The single ways, for those who must compare them. make_primitive_matmul() gives null where oneDNN has no kernel of
// its own for the dtypes and strides (a plain-loop one does not count).
std::unique_ptr<Kernel> make_sgemm_matmul(const MatmulProblem& problem);
std::unique_ptr<Kernel> make_primitive_matmul(const MatmulProblem& problem);
std::unique_ptr<Kernel> make_fp64_matmul(const MatmulProblem& problem);

}  // namespace ridgepoint::cpu
