#include "backends/cpu/matmul.h"

namespace ridgepoint::cpu {

std::unique_ptr<Kernel> make_matmul_kernel(const KernelSpec& spec) {
  const MatmulProblem problem = read_matmul_problem(spec);
  if (problem.c.dtype == DType::fp64) return make_fp64_matmul(problem);
  if (problem.c.dtype == DType::bf16) {
    if (std::unique_ptr<Kernel> kernel = make_primitive_matmul(problem)) return kernel;
  }
  return make_sgemm_matmul(problem);
}

}  // namespace ridgepoint::cpu
