#include "backends/cpu/matmul/matmul.h"

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <string>

#include "core/threads/parallel.h"
#include "core/warning.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cpu {
namespace {

// fp64 products in plain loops: gradient checks and comparisons use them, so they need not be fast.
class Fp64Matmul : public Kernel {
 public:
  explicit Fp64Matmul(const MatmulProblem& problem) : problem_(problem) {}

  std::string_view name() const override { return "matmul_fp64_loops"; }

  void launch(const LaunchArguments& arguments) override {
    if (problem_.adds) place_addend(problem_, arguments);
    const std::int64_t rows = problem_.c.rows;
    const std::int64_t row_flops = std::max<std::int64_t>(2 * problem_.c.columns * problem_.a.columns, 1);
    parallel_for(problem_.batch_count() * rows, std::max<std::int64_t>(kGrainFlops / row_flops, 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) multiply_row(arguments, i / rows, i % rows);
                 });
  }

 private:
  static constexpr std::int64_t kGrainFlops = 1 << 16;

  // An immediate has strides 0, so one element stands for all of them.
  static const double* first_element(const StridedMatrix& matrix, const void* address) {
    return matrix.immediate ? &*matrix.immediate : static_cast<const double*>(address);
  }

  void multiply_row(const LaunchArguments& arguments, std::int64_t batch, std::int64_t row) const {
    const StridedMatrix& a = problem_.a;
    const StridedMatrix& b = problem_.b;
    const StridedMatrix& c = problem_.c;
    const double* a_row = first_element(a, arguments.inputs[0]) + batch_offset(problem_, a, batch) + row * a.row_stride;
    const double* b_first = first_element(b, arguments.inputs[1]) + batch_offset(problem_, b, batch);
    double* c_row = static_cast<double*>(arguments.outputs[0]) + batch_offset(problem_, c, batch) + row * c.row_stride;
    if (!problem_.adds) std::fill_n(c_row, c.columns, 0.0);
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double factor = a_row[k * a.column_stride];
      const double* b_row = b_first + k * b.row_stride;
      for (std::int64_t n = 0; n < c.columns; ++n) c_row[n] += factor * b_row[n * b.column_stride];
    }
  }

  MatmulProblem problem_;
};

}  // namespace

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
  if (problem.tf32)
    throw Error("the CPU has no tf32 products; use --dtype fp32 or bf16, or run on a GPU", ErrorKind::unsupported);
  const DType dtype = problem.a.dtype;
  if (dtype == DType::fp64) return std::make_unique<Fp64Matmul>(problem);
  if (dtype == DType::bf16) {
    if (std::unique_ptr<Kernel> kernel = make_primitive_matmul(problem)) return kernel;
  }
  const bool emulated = dtype == DType::fp16 || (dtype == DType::bf16 && !has_bf16_products());
  if (emulated) warn_emulated(dtype);
  return make_sgemm_matmul(problem);
}

}  // namespace ridgepoint::cpu
