#include "backends/cpu/matmul/matmul.h"

#include <cstring>
#include <dnnl.hpp>
#include <string>

#include "core/threads/parallel.h"
#include "core/warning.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cpu {

void warn_emulated(DType dtype) {
  warn_once("cpu product " + std::string(name(dtype)),
            "this processor has no " + std::string(name(dtype)) +
                " products: they are computed in fp32 and rounded, which is correct but slower than fp32");
}

// The number of an instruction set has the bits of all sets that it includes.
bool has_bf16_products() {
  const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

void place_addend(const MatmulProblem& problem, const LaunchArguments& arguments) {
  constexpr std::int64_t kGrainBytes = 1 << 20;
  const void* addend = arguments.inputs[2];
  if (addend == arguments.outputs[0]) return;
  const std::int64_t elements = problem.batch_count() * problem.c.rows * problem.c.columns;
  const auto bytes = elements * static_cast<std::int64_t>(size_bytes(problem.c.dtype));
  parallel_for(bytes, kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(arguments.outputs[0]) + begin, static_cast<const std::byte*>(addend) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

std::unique_ptr<Kernel> make_matmul_kernel(const KernelSpec& spec) {
  const MatmulProblem problem = read_matmul_problem(spec);
  if (problem.tf32) {
    throw Error("the CPU has no tf32 products; use --dtype fp32 or bf16, or run on a GPU", ErrorKind::unsupported);
  }
  const DType dtype = problem.a.dtype;
  if (dtype == DType::fp64) return make_fp64_matmul(problem);
  if (dtype == DType::bf16) {
    if (std::unique_ptr<Kernel> kernel = make_primitive_matmul(problem)) return kernel;
  }
  const bool emulated = dtype == DType::fp16 || (dtype == DType::bf16 && !has_bf16_products());
  if (emulated) warn_emulated(dtype);
  return make_sgemm_matmul(problem);
}

}  // namespace ridgepoint::cpu
