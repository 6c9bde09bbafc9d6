// Matrix multiplication on the CPU: oneDNN's SGEMM over a grid of tiles for fp32, its matmul primitive for bf16 if the
// processor has bf16 products, and plain loops for fp64. Operands may have any strides. Those that BLAS cannot read are
// first packed into the workspace; fp16 operands (and bf16 ones without hardware support) are packed as fp32. A
// matmul_add is added to the result's memory, into which its addend is copied first unless it lies there.
#pragma once

#include <memory>

#include "runtime/device/device.h"
#include "runtime/device/matmul_problem.h"

namespace ridgepoint::cpu {

std::unique_ptr<Kernel> make_matmul_kernel(const KernelSpec& spec);

// Whether the processor has bf16 products, and the warning, once for a dtype, that products are computed in fp32.
bool has_bf16_products();
void warn_emulated(DType dtype);

// Writes the addend of a matmul_add to the memory of the result, where it does not lie there already.
void place_addend(const MatmulProblem& problem, const LaunchArguments& arguments);

// The single implementations, for benchmarks and tests. make_primitive_matmul() returns null if oneDNN has only its
// reference kernel for the dtypes and strides.
std::unique_ptr<Kernel> make_sgemm_matmul(const MatmulProblem& problem);
std::unique_ptr<Kernel> make_primitive_matmul(const MatmulProblem& problem);

}  // namespace ridgepoint::cpu
