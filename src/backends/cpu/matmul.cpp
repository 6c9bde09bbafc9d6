#include "backends/cpu/matmul.h"

#include "ridgepoint/error.h"

namespace ridgepoint::cpu {

std::unique_ptr<Kernel> make_matmul_kernel(const KernelSpec& spec) {
  const MatmulProblem problem = read_matmul_problem(spec);
  if (problem.tf32) {
    throw Error("the cpu has no tf32 products; ask for --dtype fp32 or bf16, or run on a card", ErrorKind::unsupported);
  }
  if (problem.c.dtype == DType::fp64) return make_fp64_matmul(problem);
  if (problem.c.dtype == DType::bf16) {
    if (std::unique_ptr<Kernel> kernel = make_primitive_matmul(problem)) return kernel;
  }
  return make_sgemm_matmul(problem);
}

}  // namespace ridgepoint::cpu
